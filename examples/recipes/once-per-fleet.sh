#!/bin/sh
# CI: one deployment per environment at a time, in the order they were asked for; and the token
# goes along, for a target that refuses what is older than what it has.
set -eu

: "${ENVIRONMENT:=staging}" "${DEPLOY:=./deploy}"
export DEPLOY

# shellcheck disable=SC2016 # for the shell that snib starts: the token is known there
exec snib run -w 1800 --max-hold 20m --label "build ${BUILD_NUMBER:-unknown}" \
    "deploy/$ENVIRONMENT" -c 'exec "$DEPLOY" --fence "$SNIB_TOKEN"'
