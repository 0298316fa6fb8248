#!/bin/bash
# What a lock around a command costs: `snib run x -- true`, both of its processes included, beside
# `flock f true`. The bound is 1.3 times.
#
# Usage: bench/run.sh [RUNS]. Means and minima of all runs; the two take turns, in rounds, so that
# whatever else the machine does hits both.

set -euo pipefail
cd "$(dirname "$0")/.."

runs=${1:-2000} rounds=10
snib=$PWD/build/release/snib

for command in hyperfine flock awk; do
    if ! command -v "$command" >/dev/null; then
        echo "bench: $command is missing" >&2
        exit 69
    fi
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/locks"
export SNIB_URL=file://$folder/locks

for ((round = 0; round < rounds; round++)); do
    hyperfine -N --style none --warmup 20 --runs $((runs / rounds)) \
        --export-csv "$folder/$round.csv" \
        -n flock "flock $folder/f true" -n snib "$snib run x -- true" >/dev/null 2>&1
done

# name,mean,stddev,median,user,system,min,max in seconds
cat "$folder"/*.csv | awk -F , -v runs="$runs" '
    $1 == "flock" || $1 == "snib" {
        mean[$1] += $2 * 1000
        median[$1] += $4 * 1000
        n[$1]++
        if (!($1 in min) || $7 * 1000 < min[$1]) { min[$1] = $7 * 1000 }
    }
    END {
        printf "%-22s %10s %10s %10s   (ms, %d runs)\n", "", "mean", "median", "min", runs
        line("flock f true", "flock")
        line("snib run x -- true", "snib")
        printf "%-22s %10.2f %10.2f %10.2f\n", "ratio", mean["snib"] / mean["flock"],
            median["snib"] / median["flock"], min["snib"] / min["flock"]
    }
    function line(text, name) {
        printf "%-22s %10.3f %10.3f %10.3f\n", text, mean[name] / n[name],
            median[name] / n[name], min[name]
    }'
