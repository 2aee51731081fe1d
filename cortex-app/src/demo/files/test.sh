#!/bin/sh
# Each kind of tea, and what is none.
set -eu
[ "$(sh steep.sh green)" = 2 ]
[ "$(sh steep.sh black)" = 4 ]
[ "$(sh steep.sh herbal)" = 6 ]
if sh steep.sh coffee 2>/dev/null; then exit 1; fi
echo "4 tests hold"
