#!/bin/sh
# Prints how many minutes a kind of tea steeps.
case "${1:-}" in
  green) echo 2 ;;
  black) echo 4 ;;
  herbal) echo 6 ;;
  *)
    echo "usage: sh steep.sh green|black|herbal" >&2
    exit 2
    ;;
esac
