"""Processes of the bench: where they run, who counts their CPU time, and the network that they have to themselves."""
import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)

class Group:
    """The processes of one server, for their CPU time: a cgroup, or without one a session."""

    base = None  # where cgroups are made, the file that tells, and how many of its units are a second

    def __init__(self, name):
        self.session = None
        self.path = self.base and f"{self.base[0]}/{name}"
        if self.path:
            os.mkdir(self.path)

    @classmethod
    def find(cls):
        for line in open("/proc/mounts"):
            _, at, kind, options = line.split()[:4]
            if kind == "cgroup2":
                tells = ("cpu.stat", 1e6)
            elif kind == "cgroup" and "cpuacct" in options.split(","):
                tells = ("cpuacct.usage", 1e9)
            else:
                continue
            try:
                path = f"{at}/brim-bench-{os.getpid()}"
                os.mkdir(path)
            except OSError:
                continue
            if os.path.exists(f"{path}/{tells[0]}"):
                cls.base = (path, *tells)
                return
            os.rmdir(path)

    def join(self):
        if self.path:
            with open(f"{self.path}/cgroup.procs", "w") as f:
                f.write(str(os.getpid()))

    def seconds(self):
        if not self.path:
            return sum(map(run_seconds, self.pids()))
        with open(f"{self.path}/{self.base[1]}") as f:
            return int(f.readline().split()[-1]) / self.base[2]

    def pids(self):
        if self.path:
            return [int(pid) for pid in open(f"{self.path}/cgroup.procs")]
        return [] if self.session is None else session_pids(self.session)

    def close(self):
        for _ in range(100 if self.path else 0):
            try:
                return os.rmdir(self.path)
            except OSError:  # its last process is on its way out
                time.sleep(0.02)


def stat_of(pid):
    """The fields of /proc/PID/stat from the state on, or None."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()
    except OSError:
        return None


def session_pids(session):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        fields = stat_of(pid)
        if fields and int(fields[3]) == session and fields[0] != "Z":
            found.append(int(pid))
    return found


def run_seconds(pid):
    """User and system time of a process, its threads, and those of its children that it has waited for."""
    fields = stat_of(pid)
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") if fields else 0.0


def place(core, group):
    """In a new child: where it runs, who counts it, and that it doesn't outlive us."""
    libc.prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
    group.join()
    os.sched_setaffinity(0, {core})
    os.setpriority(os.PRIO_PROCESS, 0, -5)


def enter_namespace(congestion):
    """A network of our own, whose loopback cuts packets as a network card's wire does, and whose senders
    aren't paced (README: traps)."""
    if libc.unshare(0x40000000) != 0:  # CLONE_NEWNET
        sys.exit(f"bench: no network namespace of our own ({os.strerror(ctypes.get_errno())}): run it as root, "
                 "in a container with CAP_SYS_ADMIN")
    with socket.socket() as s:
        fcntl.ioctl(s, 0x8922, struct.pack("16si", b"lo", 1500))  # SIOCSIFMTU
        fcntl.ioctl(s, 0x8914, struct.pack("16sH", b"lo", 0x41))  # SIOCSIFFLAGS: up, running
    for name, value in (("ip_local_port_range", "20000 65000"), ("tcp_congestion_control", congestion)):
        with open(f"/proc/sys/net/ipv4/{name}", "w") as f:
            f.write(value)
