"""System calls of a worker, by strace: which there were, between what, and how many bytes they moved."""
import collections
import os
import re
import signal
import subprocess

import pytest

from .wait import wait_until

LINE = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)")
UNFINISHED = re.compile(r"^(\d+) +(.*) <unfinished \.\.\.>$")
RESUMED = re.compile(r"^(\d+) +<\.\.\. \w+ resumed>(.*)$")


class Call:
    def __init__(self, thread, name, arguments, result):
        self.thread, self.name, self.arguments, self.result = thread, name, arguments, result

    def fd(self, index=0):
        """The index-th descriptor among the arguments, as strace -yy tells it: «TCP:[…]», a path, «pipe:[…]»."""
        return re.findall(r"\b\d+<((?:->|[^<>])*)>", self.arguments)[index]

    def __repr__(self):
        return f"{self.name}({self.arguments[:150]}) = {self.result}"


def parse(path):
    begun, calls = {}, []
    with open(path, errors="replace") as f:
        for line in f:
            line = line.rstrip("\n")
            if m := UNFINISHED.match(line):
                begun[m[1]] = m[2]
                continue
            if m := RESUMED.match(line):
                line = f"{m[1]} {begun.pop(m[1], '?(')}{m[2]}"
            if m := LINE.match(line):
                calls.append(Call(int(m[1]), m[2], m[3], int(m[4])))
    return calls


class Trace:
    """strace on a process and its threads while the block runs; then «calls»."""

    def __init__(self, pid, directory):
        self.pid, self.path = pid, os.path.join(directory, "trace")

    def __enter__(self):
        self.strace = subprocess.Popen(["strace", "-f", "-yy", "-s", "0", "-o", self.path, "-p", str(self.pid)],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

        def attached():
            if self.strace.poll() is not None:
                pytest.skip("strace may not attach here: " + self.strace.stderr.read().decode())
            threads = os.listdir(f"/proc/{self.pid}/task")
            return all(self._traced(t) for t in threads)
        wait_until(attached, "strace to attach")
        return self

    def _traced(self, thread):
        with open(f"/proc/{self.pid}/task/{thread}/status") as f:
            return not re.search(r"^TracerPid:\s+0$", f.read(), re.M)

    def _waits(self):
        """Its loop has nothing more to do: the last call is epoll_wait (232) or epoll_pwait (281, 22)."""
        with open(f"/proc/{self.pid}/syscall") as f:
            return f.read().split()[0] in ("232", "281", "22")

    def __exit__(self, *_):
        wait_until(self._waits, "the last call's end")
        self.strace.send_signal(signal.SIGINT)
        self.strace.wait(10)
        self.strace.stderr.close()
        self.calls = parse(self.path)


class Ways:
    """Calls of the node's first worker, with the descriptors told apart: client, origin, body (segment or chunk file), pipe, other."""

    def __init__(self, calls, node, port, origin_port):
        """port: of the listener that clients came to."""
        self.calls, self.main = calls, node.pids("worker")[0]
        self.client = f":{port}->127.0.0.1:"
        self.origin = f"->127.0.0.1:{origin_port}]"

    def kind(self, fd):
        if self.client in fd:
            return "client"
        if self.origin in fd:
            return "origin"
        if "/segments/" in fd or "/chunks/" in fd:
            return "body"
        return "pipe" if fd.startswith("pipe:") else "other"

    def of(self, name, *kinds):
        """The calls of this name whose descriptors are of these kinds, in order."""
        return [c for c in self.calls if c.name == name and c.result >= 0
                and all(self.kind(c.fd(i)) == kind for i, kind in enumerate(kinds))]

    def moved(self, name, *kinds):
        return sum(c.result for c in self.of(name, *kinds))

    def names(self):
        """How often each call was made in the loop's own thread."""
        return collections.Counter(c.name for c in self.calls if c.thread == self.main)

    def copied(self):
        """Bytes that went between a descriptor of a body's way and memory, in any thread."""
        total = 0
        for c in self.calls:
            if c.name in ("read", "readv", "pread64", "preadv", "preadv2", "recvfrom", "recvmsg", "write", "writev", "pwrite64",
                          "pwritev", "pwritev2", "sendto", "sendmsg") and c.result > 0 and self.kind(c.fd()) != "other":
                total += c.result
        return total
