# SPDX-License-Identifier: Apache-2.0
# Wraps lines that are only a "//" comment at 100 columns. What does not fit moves to the next line of
# the same paragraph (same indentation, no list item, no "name: ..." row), or to a line of its own.
# A list item, or in an indented block a line that starts with a name and a colon.
function is_row(pre, text,    colon)
{
    colon = index(text, ": ")
    return text ~ /^- / || text ~ /^[^ ].*:  / || (colon > 0 && colon < 22 && pre ~ /\/\/  /)
}

function flush_rest()
{
    while (rest != "") emit(prefix, rest)
}

# Prints prefix and as much of text as fits; the remainder becomes `rest`.
function emit(pre, text,    room, cut)
{
    room = 100 - length(pre)
    if (length(text) <= room) {
        print pre text
        rest = ""
        return
    }
    for (cut = room + 1; cut > 1 && substr(text, cut, 1) != " "; cut--)
        ;
    if (cut == 1) cut = length(text) + 1
    print pre substr(text, 1, cut - 1)
    rest = substr(text, cut + 1)
    prefix = pre
    if (is_row(pre, text)) prefix = pre "  "
}

{
    if (!match($0, /^ *\/\/ +/) || $0 ~ /SPDX/) {
        flush_rest()
        print
        next
    }
    pre = substr($0, 1, RLENGTH)
    text = substr($0, RLENGTH + 1)
    if (rest != "" && pre == prefix && !is_row(pre, text)) {
        text = rest " " text
        rest = ""
    }
    flush_rest()
    emit(pre, text)
}

END { flush_rest() }
