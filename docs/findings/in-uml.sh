#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs a script as root in User-Mode Linux, on this host's files: no root, no virtual machine.
#
#     [UML=linux.uml UML_MODULES=FOLDER UML_LIBRARIES=FOLDER UML_PRELOAD=x.so] sh in-uml.sh SCRIPT
#
# The script starts in an empty /mnt; everything else is read-only.  Ends with the script's exit status, or with 77
# if the kernel did not start.  Needs user-mode-linux.  On processors with AMX Debian's kernels up to 6.12 need
# UML_PRELOAD=build/lib/uml-xstate.so of this checkout.
set -eu
uml=${UML:-linux.uml}
command -v "$uml" >/dev/null || { echo "$uml is not installed"; exit 77; }
script=$(readlink -f -- "$1")
folder=$(mktemp -d /tmp/findings.XXXXXX) # TMPDIR may have a blank, which ends a word of the kernel's
preload=$(readlink -f -- "${UML_PRELOAD:-}") || :
libraries=${preload%/*}${UML_LIBRARIES:+:$UML_LIBRARIES}
trap 'rm -rf "$folder"' EXIT
cat >"$folder/init" <<END
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C HOME=/mnt MODULES="${UML_MODULES:-/usr/lib/uml/modules}"
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs run /run; mount -t tmpfs -o size=900M mnt /mnt
[ -e /dev/loop-control ] || mount -t devtmpfs dev /dev
cut -d'(' -f1 /proc/version
cd /mnt
MODE="${MODE:-}" sh "$script" 2>&1
echo "exit status \$?"
echo o >/proc/sysrq-trigger
sleep 9
END
chmod 755 "$folder/init" "$folder"
timeout -s KILL "${UML_SECONDS:-120}" env LD_PRELOAD="${preload##*/}" \
    LD_LIBRARY_PATH="${libraries#:}" "$uml" rootfstype=hostfs rootflags=/ ro \
    init="$folder/init" mem=1200M con=null con0=fd:0,fd:1 quiet loglevel=0 umid="findings-$$" "uml_dir=$folder" \
    </dev/null >"$folder/said" 2>&1 || true
tr -d '\r' <"$folder/said" | sed -n '/^Linux version/,/^exit status/p'
status=$(sed -n 's/^exit status \([0-9]*\).*/\1/p' "$folder/said")
[ -n "$status" ] || { tail -n 20 "$folder/said"; exit 77; }
exit "$status"
