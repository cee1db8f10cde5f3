"""Runs FaceFusion as a child process, and reads its progress."""

import os
import re
import selectors
import signal
import subprocess
from collections import deque
from contextlib import suppress
from typing import Callable, Deque, List, Optional, Sequence, Tuple

# Pause between two reports of the progress, in seconds.
TICK_S = 0.1
# Bars of FaceFusion 3 by name, with the part of the whole progress that each is.
BARS = {"analysing": (0.0, 0.1), "extracting": (0.1, 0.15), "processing": (0.15, 0.9), "merging": (0.9, 0.97)}
BAR = re.compile(r"^(\w+):\s+(\d+)%")


def run(words: Sequence[str], folder: str, tell: Callable[[float, Optional[str]], None], kept: int = 40) -> Tuple[int, str]:
    """Runs a program in a folder and returns its exit status (negative: a signal) and the last lines that it said.

    `tell` gets the progress and the bar several times a second; when it raises, the program and what it started are
    killed, within milliseconds.
    """
    said: Deque[str] = deque(maxlen=kept)
    fraction, bar, rest = 0.0, None, b""
    process = subprocess.Popen(words, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                tell(fraction, bar)
                if not selector.select(TICK_S):
                    continue
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    break
                # A bar is written over itself, with a carriage return.
                *lines, rest = re.split(rb"[\r\n]", rest + chunk)
                for line in (each.decode("utf-8", "replace").strip() for each in lines):
                    found = BAR.match(line)
                    if found and found[1] in BARS:
                        begin, end = BARS[found[1]]
                        fraction, bar = max(fraction, begin + (end - begin) * int(found[2]) / 100), found[1]
                    elif line:
                        said.append(line)
        while process.poll() is None:
            tell(fraction, bar)
            with suppress(subprocess.TimeoutExpired):
                process.wait(TICK_S)
        return process.returncode, "\n".join([*said, rest.decode("utf-8", "replace").strip()]).strip()
    finally:
        # It shares the group of its worker, so that it also ends with that. So its own programs are found one by one.
        for pid in [process.pid, *_below(process.pid)] if process.poll() is None else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()


def _below(pid: int) -> List[int]:
    """Returns all processes that this one and those below it started. Linux only; elsewhere none."""
    found = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children") as file:
                found += [int(child) for child in file.read().split()]
    return found + [each for child in found for each in _below(child)]
