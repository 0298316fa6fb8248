# SPDX-License-Identifier: Apache-2.0
"""redis-py's lock, for run: see contend.c."""
import os
import sys
import time

import redis

way, port, name, kind = sys.argv[1:5]
client = redis.Redis(port=int(port))
lock = client.lock(name, timeout=2 if kind.endswith("brief") else 30, sleep=0.005)


def now_us():
    return time.time_ns() // 1000


def say(text):
    print(text, flush=True)


if way == "contend":
    done, path = 0, sys.argv[6]
    end = time.monotonic() + int(sys.argv[5])
    while time.monotonic() < end:
        with lock:
            with open(path) as file:
                value, token = file.read().split()
            time.sleep(0.0001)
            with open(path, "w") as file:
                file.write(f"{int(value) + 1} {token}\n")
            done += 1
        time.sleep(0.001)
    say(done)
elif way == "hold":
    with lock:
        say("held")
        while not os.path.exists(sys.argv[5]):
            time.sleep(0.002)
        say(now_us())
else:
    say("waiting")
    with lock:
        say(now_us())
