#!/bin/sh
# A write to etcd that only the holder of an etcd lock can make: run it under `snib run -U etcd://...`.
#
#   snib run -U etcd://HOST stock -- examples/etcd_guard.sh KEY VALUE
#
# The token is the create revision of the holder's own key, so one comparison in the transaction that
# writes is enough: when the lock is lost the key is gone, and nothing is written. The exit status is
# then 1. ETCDCTL_ENDPOINTS says where etcd is, as for etcdctl itself.

set -eu
key=$1 value=$2

holder=$(ETCDCTL_API=3 etcdctl get --prefix --keys-only --sort-by=CREATE --limit=1 "$SNIB_NAME/")
answer=$(ETCDCTL_API=3 etcdctl txn <<END
create("$holder") = "$SNIB_TOKEN"

put $key $value


END
)
case $answer in
SUCCESS*) echo "written with token $SNIB_TOKEN" ;;
*)
    echo "refused: token $SNIB_TOKEN holds no longer" >&2
    exit 1
    ;;
esac
