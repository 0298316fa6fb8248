#!/bin/sh
# A migration that several instances start at the same time, when they come up: one does it, the
# others wait, and then find it done. Not -n: who comes second must not start before it is over.
set -eu

: "${MIGRATE:=./migrate}" # must do nothing when there is nothing to do
: "${SERVE:=./serve}"

snib run -w 600 --label "$0" schema-migration -- "$MIGRATE"
exec "$SERVE"
