#!/bin/sh
# Whether the files of the page agree with each other. It runs in the project's folder after each task of
# hello.toml, so it checks what there is by now.
set -eu

fail() {
    echo "$1" >&2
    exit 1
}

grep -q '^history: *[^ ]' plan.txt || fail "plan.txt says nothing about history"
grep -q '^brewing: *[^ ]' plan.txt || fail "plan.txt says nothing about brewing"

for part in History Brewing; do
    file=parts/$(printf %s "$part" | tr A-Z a-z).txt
    [ ! -e "$file" ] || {
        [ "$(sed -n 1p "$file")" = "# $part" ] || fail "$file does not begin with its title"
        [ "$(($(wc -l <"$file")))" -ge 2 ] || fail "$file has no text"
    }
done

# A draft holds nothing yet. A page holds every line of both parts.
if [ "$(sed -n 1p page.txt)" != "# Draft" ]; then
    [ "$(sed -n 1p page.txt)" = "# Tea" ] || fail "page.txt does not begin with its title"
    cat parts/history.txt parts/brewing.txt | while IFS= read -r line; do
        grep -Fxq -- "$line" page.txt || fail "page.txt lacks the line: $line"
    done
fi
echo "plan.txt, parts and page.txt agree"
