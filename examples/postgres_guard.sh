#!/bin/sh
# A write to PostgreSQL that an older holder of a lock cannot make: run it under `snib run`.
#
#   snib run -U postgres://HOST/DATABASE stock -- examples/postgres_guard.sh NAME VALUE
#
# The row keeps the largest token that has written it; one statement compares and writes. When nothing
# was changed the exit status is 1. PGHOST, PGDATABASE and the others say where, as for psql itself.
# The table:
#
#   CREATE TABLE guarded (name text PRIMARY KEY, value text, token bigint NOT NULL DEFAULT 0)

set -eu

written=$(psql -qtAX -v ON_ERROR_STOP=1 -v name="$1" -v value="$2" -v token="$SNIB_TOKEN" <<'END'
INSERT INTO guarded AS g (name, value, token) VALUES (:'name', :'value', :'token')
ON CONFLICT (name) DO UPDATE SET value = excluded.value, token = excluded.token
WHERE g.token <= excluded.token RETURNING 1;
END
)
if [ "$written" != 1 ]; then
    echo "refused: $1 was written with a token larger than $SNIB_TOKEN" >&2
    exit 1
fi
echo "written with token $SNIB_TOKEN"
