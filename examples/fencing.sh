#!/bin/sh
# The story of the paused holder, told twice: with a resource that believes everybody, and with one
# that checks the token.
#
#     examples/fencing.sh [SNIB]     the command to use, else what was built, else what is installed
#
# A holder is paused between its decision and its write. Its lock is taken back meanwhile, here
# because it may hold it for a second at most (--max-hold), elsewhere because its lease ran out, and
# somebody else gets it. Then the first one goes on, and does not know.
#
# `snib run` would have stopped its command in time. It is told not to (--on-lost ignore), because
# in the story the command is on a host that does not obey.

set -eu

here=$(dirname "$0")
snib=${1:-$here/../build/release/snib}
[ -x "$snib" ] || snib=snib

work=$(mktemp -d)
clean_up() {
    [ ! -s "$work/paused" ] || kill -KILL "$(cat "$work/paused")"
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir "$work/locks"
snib=$(command -v "$snib") || { echo "no snib; build it with make" >&2 && exit 69; }
case $snib in
/*) ;;
*) snib=$PWD/$snib ;;
esac
cd "$work"
export SNIB_URL="file://$work/locks" snib

# store WHO: what the lock protects, the file `data`, is written. In the second telling the resource
# lets nobody at it whose token is smaller than the largest it has seen.
cat >store <<'END'
case $checked in
no) echo "$1" >data ;;
yes) "$snib" guard data -- sh -c 'echo "$1" >data' sh "$1" ;;
esac
END

cat >first <<'END'
echo "  first    has the lock, token $SNIB_TOKEN, and is paused before its write"
echo $$ >paused
kill -STOP $$
echo "  first    goes on to write"
sh ./store first
END

cat >second <<'END'
echo "  second   has the lock, token $SNIB_TOKEN, and writes"
sh ./store second
END

# The first one sleeps when its process is in state T.
is_paused() {
    [ -s paused ] && grep -q '^State:[[:space:]]*T' "/proc/$(cat paused)/status"
}

tell() {
    rm -f data
    "$snib" run --max-hold 1s --on-lost ignore stock -- sh ./first 2>said &
    until is_paused; do
        sleep 0.05
    done
    "$snib" run stock -- sh ./second
    kill -CONT "$(cat paused)"
    wait $! || true
    rm paused
    sed -n 's/^snib: guard of/  snib     guard of/p' said
    echo "  the data is of: $(cat data)"
}

echo "A resource that believes everybody:"
export checked=no
tell
[ "$(cat data)" = first ] || exit 1

echo
echo "A resource that checks the token (snib guard):"
checked=yes
tell
[ "$(cat data)" = second ] || exit 1
