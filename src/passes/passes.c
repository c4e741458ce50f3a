// SPDX-License-Identifier: Apache-2.0
// Runs the list of passes.def.
#include "passes/pass.h"

#include <string.h>

const PassInfo passes[] = {
#define PASS(name, summary) {#name, summary, pass_##name},
#include "passes/passes.def"
#undef PASS
};
const int npass = (int)COUNT(passes);

static void print_after(const PassContext *c, const PassInfo *p)
{
    const PassOptions *o = c->options;
    if (!o->print_after || !o->printed) return;
    if (strcmp(o->print_after, "all") && strcmp(o->print_after, p->name)) return;
    buf_printf(o->printed, "// after %s\n", p->name);
    kernel_print(c->kernel, o->printed);
}

static bool run_one(PassContext *c, const PassInfo *p)
{
    int before = c->diag->nerror;
    bool ok = p->run(c);
    if (ok && c->options->verify && !kernel_verify(c->kernel, c->diag)) ok = false;
    print_after(c, p);
    if (!ok && c->diag->nerror == before) diag_error(c->diag, c->kernel->loc, "cannot be compiled");
    if (!ok) diag_note(c->diag, 0, "in pass %s of kernel %s", p->name, c->kernel->name);
    return ok;
}

bool passes_run(Kernel *k, const PassOptions *options, Diag *d)
{
    static const PassOptions defaults;
    PassContext c = {.kernel = k, .diag = d, .options = options ? options : &defaults};
    for (int i = 0; i < npass; i++) {
        if (!run_one(&c, &passes[i])) return false;
        if (c.options->stop_after && !strcmp(c.options->stop_after, passes[i].name)) return true;
    }
    k->lowered = true;
    return true;
}
