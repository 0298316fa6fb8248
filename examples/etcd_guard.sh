#!/bin/sh
# A write to etcd that only the holder of an etcd lock can make: run it under `snib run -U etcd://...`.
#
#   snib run -U etcd://HOST stock -- examples/etcd_guard.sh KEY VALUE
#
# The token is the create revision of the holder's own key, so one comparison in the transaction that
# writes is enough: when the lock is lost the key is gone, and nothing is written. The exit status is
# then 1. ETCDCTL_ENDPOINTS says where etcd is, as for etcdctl itself. For exclusive locks, whose name
# has no slash and no percent sign; with etcd://HOST/PREFIX, PREFIX/ stands before $SNIB_NAME below.

set -eu
key=$1 value=$2

quoted() {
    printf '"%s"' "$(printf %s "$1" | sed 's/[\\"]/\\&/g')"
}

holder=$(ETCDCTL_API=3 etcdctl get --prefix --keys-only --sort-by=CREATE --limit=1 "$SNIB_NAME/")
answer=
if [ -n "$holder" ]; then
    answer=$(ETCDCTL_API=3 etcdctl txn <<END
create($(quoted "$holder")) = "$SNIB_TOKEN"

put -- $(quoted "$key") $(quoted "$value")


END
    )
fi
case $answer in
SUCCESS*) echo "written with token $SNIB_TOKEN" ;;
*)
    echo "refused: token $SNIB_TOKEN does not hold $SNIB_NAME" >&2
    exit 1
    ;;
esac
