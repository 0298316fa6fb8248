#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Locks for a Python program: one `snib hold --json`, any number of locks (docs/hold-json.md)."""

import json
import queue
import subprocess
import threading


class Snib:
    # "held" may come again at any time: it answers an acquire, and nothing else.
    ANSWERS = {"acquire": {"held", "busy", "cancelled", "error"},
               "release": {"released", "cancelled", "error"}}

    def __init__(self, *options):
        self.process = subprocess.Popen(["snib", "hold", "--json", *options], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.waiting, self.on_lost = {}, {}
        if not self.process.stdout.readline():  # the event "ready"
            raise RuntimeError("snib does not start")
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for event in map(json.loads, self.process.stdout):
            name = event["name"]
            if event["event"] == "lost":
                self._lose(name, event["why"])
            elif name in self.waiting and event["event"] in self.ANSWERS[self.waiting[name][0]]:
                self.waiting.pop(name)[1].put(event)
        for name in list(self.on_lost):  # snib itself is gone: so are its locks
            self._lose(name, "snib has ended")
        for name in list(self.waiting):
            self.waiting.pop(name)[1].put({"event": "error", "message": "snib has ended"})

    def _lose(self, name, why):  # on a thread of its own: it stops the work, then releases
        if name in self.on_lost:
            threading.Thread(target=self.on_lost[name], args=(why,)).start()

    def _ask(self, verb, name, *settings):
        words = (verb, name, *settings)
        if not 1 <= len(name.encode()) <= 200 or any(c < " " for word in words for c in word):
            raise ValueError("a name is 1 to 200 bytes; no tabs or newlines")
        answer = queue.Queue()
        self.waiting[name] = verb, answer
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()
        event = answer.get()
        if event["event"] == "error":
            raise RuntimeError(event["message"])
        return event

    def acquire(self, name, on_lost, **settings):
        """The token; None if it is busy. acquire("x", stop, wait=5, mode="shared")"""
        self.on_lost[name] = on_lost
        words = [f"{key.replace('_', '-')}={value}" for key, value in settings.items()]
        token = None
        try:
            token = self._ask("acquire", name, *words).get("token")
        finally:
            if token is None:
                del self.on_lost[name]
        return token

    def release(self, name):
        """True; False if it had been lost before."""
        self.on_lost.pop(name, None)
        return self._ask("release", name).get("code") == "OK"

    def close(self):
        """Gives all back."""
        self.on_lost.clear()
        self.process.stdin.close()
        self.process.wait()


if __name__ == "__main__":
    snib, other, lost = Snib(), Snib(), queue.Queue()
    print("held with token", snib.acquire("report", print))
    assert other.acquire("report", print, wait=0) is None  # busy
    assert snib.release("report")
    snib.acquire("report", lost.put, max_hold="200ms")
    print("lost:", lost.get(timeout=10))
    assert not snib.release("report")
    snib.close()
    other.close()
