#!/bin/sh
# An agent in a few lines of shell: it reads its instruction, works in the project's folder and prints its
# result. It knows the tasks of hello.toml by the first line of their instruction.
set -eu

instruction=$(cat)
task=$(printf '%s\n' "$instruction" | sed -n 1p)

# What the task $1 returned, from its block in the instruction.
result_of() {
    printf '%s\n' "$instruction" | awk -v head="[result of $1:" '
        inside && $0 == fence { exit }
        inside { print }
        !inside && index($0, head) == 1 { getline fence; inside = 1 }
    '
}

# Writes its input to the file $1 in one step, so that nobody reads half of it, and prints it.
write() {
    cat >"$1.new"
    mv "$1.new" "$1"
    cat "$1"
}

# As if it were thinking.
think() {
    echo "$1" >&2
    sleep 0.2 2>/dev/null || sleep 1
}

case $task in
"Plan the page.")
    think "thinking about tea"
    echo "# Draft" | write page.txt >/dev/null
    {
        echo "history: it came from Yunnan and went around the world"
        echo "brewing: hot water, a few leaves, three minutes"
    } | write plan.txt
    ;;
"Write the part: "*)
    part=${task#"Write the part: "}
    think "reading the plan for $part"
    says=$(result_of plan | sed -n "s/^$part: //p")
    [ -n "$says" ] || { echo "the plan says nothing about $part" >&2; exit 1; }
    mkdir -p parts
    {
        # The first letter of a title is a capital one.
        echo "# $(printf %s "$part" | cut -c 1 | tr a-z A-Z)$(printf %s "$part" | cut -c 2-)"
        echo "In short: $says."
    } | write "parts/$part.txt"
    ;;
"Combine the parts.")
    think "putting the parts together"
    {
        echo "# Tea"
        result_of history
        result_of brewing
    } | write page.txt
    ;;
"Check the page.")
    think "reading the page"
    result_of combine | cmp -s - page.txt || { echo "page.txt is not what was combined" >&2; exit 1; }
    echo "$(($(wc -l <page.txt))) lines, $(($(wc -w <page.txt))) words, the same as what was combined:"
    cat page.txt
    ;;
*)
    echo "I do not know this task: $task" >&2
    exit 1
    ;;
esac
