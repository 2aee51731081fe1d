#!/bin/sh
# Runs after each task, in the folder that it worked in. A result counts when this ends well.
set -eu
for file in steep.sh test.sh; do
  if [ -f "$file" ]; then sh -n "$file"; fi
done
if [ -f steep.sh ] && [ -f test.sh ]; then sh test.sh; fi
echo "nothing is broken"
