#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A log of numbers: appends one, syncs the file, and says so.
case $1 in
setup) : >"$2/log" && sync "$2/log" "$2" ;;
run)
    n=$(($(wc -l <"$2/log") + 1))
    echo ready >&"$POWERCUT_FD"
    while echo "? $n" >&"$POWERCUT_FD"; do
        echo "$n" >>"$2/log" && sync "$2/log" && echo "+ $n" >&"$POWERCUT_FD"
        n=$((n + 1))
    done ;;
# A cut may leave a line torn, or zeroes where one was to be.
check) [ ! -e "$2/log" ] || sed -n 's/^[0-9][0-9]*$/= &/p' "$2/log" >&"$POWERCUT_FD" ;;
esac
