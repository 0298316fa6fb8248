# SPDX-License-Identifier: Apache-2.0
"""kazoo's Lock, for run and bench: see Contend.java. KIND: plain, or patterns, with which it sees the
names of Curator."""

import sys
import time

from kazoo.client import KazooClient


def read(path):
    with open(path, encoding="ascii") as file:
        return int(file.read())


def contend(lock, seconds, path):
    done, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        with lock:
            value = read(path)
            time.sleep(0.001)
            with open(path, "w", encoding="ascii") as file:
                file.write(f"{value + 1}\n")
            done += 1
    return done


def pairs(lock, count):
    each = []
    for i in range(-count, count):
        start = time.perf_counter()
        with lock:
            pass
        if i >= 0:
            each.append((time.perf_counter() - start) * 1e6)
    return sorted(each)[count // 2]


def grab(lock, seconds):
    done, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        with lock:
            pass
        done += 1
    return done


def main():
    what, hosts, path, kind, number = sys.argv[1:6]
    client = KazooClient(hosts=hosts, timeout=10)
    client.start()
    patterns = {"extra_lock_patterns": ["-lock-"]} if kind == "patterns" else {}
    lock = client.Lock(path, **patterns)
    if what == "contend":
        print(contend(lock, int(number), sys.argv[6]))
    elif what == "pairs":
        print(pairs(lock, int(number)))
    else:
        print(grab(lock, int(number)))
    client.stop()


main()
