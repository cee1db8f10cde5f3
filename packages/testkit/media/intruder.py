"""Tries to reach what is outside from the place of a decoder, as code that took it over would.

    intruder.py FACTS      FACTS is JSON: the paths and processes of the test, and the attempts, if not all

It prints JSON: the name of each attempt with what came of it, which is the name of an error, or `reached`. It calls the
kernel by ctypes, because Python's own functions would hide some of the answers.
"""
import ctypes
import errno
import fcntl
import json
import os
import platform
import resource
import signal
import socket
import sys
import threading

facts = json.loads(sys.argv[1])
agent, victim = facts["agent"], facts["victim"]
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == "aarch64"
found = {}
inherited = [fd for fd in range(3, 256) if libc.fcntl(fd, fcntl.F_GETFD) != -1]


def attempt(name, act):
    if name not in facts.get("only", [name]):
        return
    try:
        act()
        found[name] = "reached"
    except OSError as error:
        found[name] = errno.errorcode.get(error.errno, str(error.errno))


def call(number, *values):
    """Calls the kernel by number: of x86-64, and of ARM64."""
    number = number[1] if arm else number[0]
    if libc.syscall(ctypes.c_long(number), *[ctypes.c_long(value) for value in values]) == -1:
        raise OSError(ctypes.get_errno(), "")


def text(value):
    kept = ctypes.create_string_buffer(value.encode())
    call.kept = [*getattr(call, "kept", []), kept]
    return ctypes.addressof(kept)


def read(path):
    return lambda: open(path, "rb").read(1)


def thread():
    seen = []
    runner = threading.Thread(target=lambda: seen.append(1))
    runner.start()
    runner.join()
    if not seen:
        raise OSError(errno.EAGAIN, "")


# What a decoder needs.
attempt("reads its input", read(facts["input"]))
attempt("writes its output", lambda: open(facts["output"], "wb").write(b"output"))
attempt("has threads", thread)
attempt("signals itself", lambda: os.kill(os.getpid(), 0))
attempt("allocates", lambda: bytearray(1 << 24))

# Files.
attempt("the agent's environment", read(f"/proc/{agent}/environ"))
attempt("its own process in /proc", read("/proc/self/environ"))
attempt("the agent's memory", read(f"/proc/{agent}/mem"))
attempt("a file of the agent", read(facts["secret"]))
attempt("the folder of all attempts", lambda: os.listdir(facts["attempts"]))
attempt("the folder of its own attempt", lambda: os.listdir(os.path.dirname(facts["input"])))
attempt("another attempt's input", read(facts["other"]))
attempt("the users of the machine", read("/etc/passwd"))
attempt("a change of its input", lambda: open(facts["input"], "r+b"))
attempt("an empty input", lambda: os.open(facts["input"], os.O_RDONLY | os.O_TRUNC))
attempt("an empty input by its name", lambda: os.truncate(facts["input"], 0))
attempt("a new file beside its output", lambda: open(facts["output"] + ".more", "wb"))
attempt("a new file among the temporary ones", lambda: open("/tmp/semblance-intruder", "wb"))
attempt("a removed input", lambda: os.unlink(facts["input"]))
attempt("a link", lambda: os.link(facts["input"], facts["output"] + ".link"))
attempt("a symbolic link", lambda: os.symlink("/", facts["output"] + ".link"))
attempt("a renamed input", lambda: os.rename(facts["input"], facts["output"] + ".moved"))
attempt("rights of a file of the agent", lambda: os.chmod(facts["secret"], 0o777))
attempt("rights of its input", lambda: os.chmod(facts["input"], 0))
attempt("an owner", lambda: os.chown(facts["secret"], 1, 1))
attempt("times of a file of the agent", lambda: os.utime(facts["secret"], (1, 1)))
attempt("an attribute", lambda: os.setxattr(facts["secret"], "user.a", b"b"))
attempt("news of a folder", lambda: call((294, 26), 0))
attempt("a pipe with a name", lambda: os.mkfifo(facts["output"] + ".pipe"))

# Network.
attempt("TCP", lambda: socket.create_connection(("127.0.0.1", facts["port"]), 1))
attempt("UDP", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
attempt("IPv6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM))
attempt("a Unix socket", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW))
attempt("raw packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("io_uring", lambda: call((425, 425), 1, text("\0" * 120)))

# Processes.
attempt("a signal to the agent", lambda: os.kill(agent, 0))
attempt("the end of another process", lambda: os.kill(victim, signal.SIGKILL))
attempt("the end of its group", lambda: os.kill(0, 0))
attempt("the end of a thread", lambda: call((200, 130), victim, 9))
attempt("the end of a thread of a group", lambda: call((234, 131), victim, victim, 9))
attempt("a signal with a value", lambda: call((129, 138), victim, 9, text("\0" * 128)))
attempt("a handle of the agent", lambda: call((434, 434), agent, 0))
attempt("ptrace", lambda: call((101, 117), 16, victim, 0, 0))
attempt("memory of the agent", lambda: call((310, 270), agent, 0, 0, 0, 0, 0))
attempt("limits of the agent", lambda: resource.prlimit(agent, resource.RLIMIT_NOFILE, (9, 9)))
attempt("a look at limits of itself", lambda: resource.prlimit(0, resource.RLIMIT_NOFILE))
attempt("the agent's priority", lambda: os.setpriority(os.PRIO_PROCESS, agent, 19))
attempt("the agent's processors", lambda: os.sched_setaffinity(agent, {0}))
attempt("a signal by a descriptor", lambda: fcntl.fcntl(1, fcntl.F_SETOWN, victim))
attempt("a process of its own", lambda: os.fork())
attempt("memory by a number", lambda: call((29, 194), 1, 4096, 0o1666))
attempt("a session of its own", lambda: os.setsid())

# Programs and the kernel.
attempt("a shell", lambda: os.execv("/bin/sh", ["sh", "-c", "echo ran"]))
attempt("its own program", lambda: os.execv(sys.executable, [sys.executable, "-c", "print('ran')"]))
attempt("a program by its descriptor", lambda: os.execve(os.open("/bin/sh", os.O_RDONLY), ["sh"], {}))
attempt("a namespace", lambda: call((272, 97), 0x10000000))
attempt("a mount", lambda: call((165, 40), text("none"), text("/mnt"), text("tmpfs"), 0, 0))
attempt("bpf", lambda: call((321, 280), 0, 0, 0))
attempt("keys", lambda: call((250, 219), 0, -3, 1))
attempt("another user", lambda: os.setuid(65534))
attempt("a call of the future", lambda: call((467, 467), 0))

print(json.dumps({
    "found": found,
    "environment": dict(os.environ),
    "descriptors": inherited,
    "limits": {
        name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in ("CPU", "FSIZE", "AS", "CORE", "DATA")
    },
}))
