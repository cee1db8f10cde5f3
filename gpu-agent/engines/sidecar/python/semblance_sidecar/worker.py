"""Processes that render: one holds one engine and one render, so a crash or a kill takes nothing else with it."""

import multiprocessing
import os
import sys
import threading
import time
import traceback
from typing import Optional

from . import limits
from .contract import Cancelled, Job, RenderError

_context = multiprocessing.get_context("spawn")
# A cancelled render ends within 1 s; what does not notice by then is killed.
CANCEL_GRACE_S = 0.5


class _Pipe:
    """The worker's end: with nobody at the other there is nothing left to do."""

    def __init__(self, pipe):
        self._pipe = pipe

    def send(self, message) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            os._exit(1)

    def recv(self):
        try:
            return self._pipe.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            os._exit(0)


def _main(engine_class, pipe, cancelled) -> None:
    pipe = _Pipe(pipe)
    os.umask(0o007)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        engine = engine_class()
        engine.load()
    except BaseException:
        pipe.send(("unusable", traceback.format_exc(limit=5)))
        return
    pipe.send(("ready",))
    while True:
        pipe.send(_render(engine, pipe.recv(), pipe, cancelled))


def _render(engine, work, pipe, cancelled):
    job = Job(**work, tell=lambda *said: pipe.send(("progress", *said)), cancelled=cancelled.is_set)
    try:
        result = engine.render(job)
        units = (result.unit, result.milli_units)
        details = limits.details(result.details)
        return ("result", result.file, result.content_type, units, job.stages(), details)
    except Cancelled:
        return ("cancelled",)
    except RenderError as error:
        return ("failure", error.code, limits.refusal(error.message))
    except BaseException:
        traceback.print_exc()
        return ("fault", traceback.format_exc(limit=1).strip().splitlines()[-1])


def _die_with_parent() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.2)
    os._exit(1)


class Worker:
    """One such process; used by one thread at a time."""

    def __init__(self, engine_class):
        self._engine_class = engine_class
        self._process = None
        self._pipe = None
        self._cancelled = None

    def start(self) -> None:
        """Starts the process if it does not run, and waits until the model is loaded. Raises RuntimeError."""
        if self.alive:
            return
        self.kill()
        ours = theirs = None
        try:
            ours, theirs = _context.Pipe()
            cancelled = _context.Event()
            process = _context.Process(target=_main, args=(self._engine_class, theirs, cancelled), daemon=True)
            process.start()
        except OSError as error:
            # The machine has no memory, no processes or no files left for it just now.
            if ours is not None:
                ours.close()
            raise RuntimeError(f"its process cannot be started: {error}") from error
        finally:
            if theirs is not None:
                theirs.close()
        self._pipe, self._cancelled, self._process = ours, cancelled, process
        answer = self.read(None)
        if answer is None or answer[0] != "ready":
            self.kill()
            raise RuntimeError(answer[1] if answer else "the process ended while the model was loaded")

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.is_alive()

    def send(self, work) -> None:
        """Raises OSError when the process is dead."""
        self._cancelled.clear()
        self._pipe.send(work)

    def read(self, timeout: Optional[float]):
        """What the process said; () when it said nothing in time, None when it is dead."""
        try:
            return self._pipe.recv() if self._pipe.poll(timeout) else ()
        except (EOFError, OSError):
            return None

    def cancel(self) -> None:
        """Returns when the process renders no longer, at the price of its life if need be."""
        self._cancelled.set()
        end = time.monotonic() + CANCEL_GRACE_S
        while (left := end - time.monotonic()) > 0:
            answer = self.read(left)
            if answer is None:
                break
            if answer and answer[0] != "progress":
                return
        print("ending the process of a cancelled render", file=sys.stderr)
        self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._pipe.close()
            self._process = None
