// SPDX-License-Identifier: Apache-2.0
// heald passes and heald ops: the lists that the compiler itself works by.
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int cmd_passes(Cli *c)
{
    UNUSED(c);
    for (int i = 0; i < npass; i++) printf("%-15s %s\n", passes[i].name, passes[i].summary);
    return EXIT_DONE;
}

// "Conv (1, 11), com.microsoft.Gelu (1)"
static void onnx_names(const Node *op, Buf *out)
{
    const Node *clauses = KID((Node *)op, OP, clauses);
    for (uint32_t i = 0; i < clauses->nkid; i++) {
        const Node *c = clauses->kid[i], *args = c->kid[KID_CLAUSE_args];
        if (strcmp(c->u.sym, "onnx")) continue;
        buf_printf(out, "%s%s (", out->size ? ", " : "", args->kid[0]->u.sym);
        const Node *versions = args->kid[1];
        for (uint32_t k = 0; k < versions->nkid; k++)
            buf_printf(out, "%s%lld", k ? ", " : "", (long long)versions->kid[k]->u.i);
        buf_putc(out, ')');
    }
}

// The declaration up to its clauses and body: "add(a: T[p...], b: T[q...]) -> (y: ...)".
static void signature(Arena *a, const Node *op, Buf *out)
{
    Node *bare = node_new(a, N_OP, op->loc, (int)op->nkid);
    memcpy(bare->kid, op->kid, op->nkid * sizeof(Node *));
    bare->u = op->u;
    KID(bare, OP, clauses) = node_new(a, N_TUPLE, op->loc, 0);
    KID(bare, OP, body) = node_new(a, N_SEQ, op->loc, 0);
    Buf text;
    buf_init(&text, a);
    lang_print(bare, &text);
    const char *s = buf_text(&text), *end = strrchr(s, '{');
    size_t n = end ? (size_t)(end - s) : strlen(s);
    while (n && (s[n - 1] == ' ' || s[n - 1] == '\n')) n--;
    if (!strncmp(s, "op ", 3)) s += 3, n -= 3;
    buf_append(out, s, n);
}

static int by_name(const void *x, const void *y)
{
    return strcmp((*(const Node *const *)x)->u.sym, (*(const Node *const *)y)->u.sym);
}

static void print_op(Arena *a, const Node *op, bool whole)
{
    Buf text, onnx;
    buf_init(&text, a);
    buf_init(&onnx, a);
    if (whole) lang_print(op, &text);
    else signature(a, op, &text);
    onnx_names(op, &onnx);
    printf("%s%s", buf_text(&text), whole ? "" : "\n");
    if (onnx.size && !whole) printf("    ONNX: %s\n", buf_text(&onnx));
}

static heald_status ops_body(heald_context *c, Arena *a, void *user)
{
    Cli *cli = user;
    const Map *ops = &c->library.ops;
    if (cli->noperand == 0) {
        VEC(const Node *) list = {0};
        for (int i = 0; i < ops->n; i++) VEC_PUSH(a, &list, ops->entry[i].value);
        qsort(list.at, (size_t)list.n, sizeof *list.at, by_name);
        for (int i = 0; i < list.n; i++) print_op(a, list.at[i], false);
        if (!cli_has(cli, OPT_QUIET)) printf("%d operators\n", list.n);
        return HEALD_OK;
    }
    for (int i = 0; i < cli->noperand; i++) {
        const Node *op = map_get(ops, intern(c->names, cli->operand[i]));
        if (!op)
            return error_set(&c->error, HEALD_NOT_FOUND, "no operator is called '%s'",
                             cli->operand[i]);
        print_op(a, op, true);
    }
    return HEALD_OK;
}

int cmd_ops(Cli *c)
{
    if (!cli_context(c)) return EXIT_ERROR;
    return context_call(c->context, ops_body, c) ? cli_context_error(c) : EXIT_DONE;
}
