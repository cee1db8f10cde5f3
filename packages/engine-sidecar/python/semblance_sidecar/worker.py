"""Worker processes: each has one engine and one render, so that a crash or kill ends nothing else."""

import multiprocessing
import os
import re
import signal
import sys
import threading
import time
import traceback
from contextlib import contextmanager, suppress
from typing import Callable, Optional

from . import limits
from .contract import Cancelled, Findings, Job, RenderError, RenderInterrupted, Result

_context = multiprocessing.get_context("spawn")
# Time after a cancel until a worker that goes on is killed, in seconds. A cancelled render must end within 1 s.
CANCEL_GRACE_S = 0.5
# Time in which a process ends after its last message, in seconds.
END_S = 1


# Errors of CUDA, its libraries, PyTorch and onnxruntime for memory of the card that could not be had.
_FULL = re.compile(
    r"\bcuda.*\bout of memory\b|\bCUDA_ERROR_OUT_OF_MEMORY\b|\bCUDA failure 2\b|\bcudaErrorMemoryAllocation\b"
    r"|\bCUBLAS_STATUS_ALLOC_FAILED\b|\bCUDNN_STATUS_(INTERNAL_ERROR_DEVICE_)?ALLOC(ATION)?_FAILED\b"
    r"|\bFailed to allocate memory for requested buffer\b",
    re.IGNORECASE,
)


class _Pipe:
    """The worker's end of the pipe. It ends the worker when the other end is closed."""

    def __init__(self, pipe):
        self._pipe = pipe

    def send(self, message) -> None:
        try:
            self._pipe.send(message)
        except OSError:
            _end()

    def recv(self):
        try:
            return self._pipe.recv()
        except (EOFError, OSError, KeyboardInterrupt):
            _end()


def _main(engine_class, number, answer, pipe, cancelled) -> None:
    _lead()
    pipe = _Pipe(pipe)
    os.umask(0o007)
    threading.Thread(target=_die_with_parent, daemon=True).start()
    try:
        engine_class.worker = number
        engine = engine_class()
        engine.load()
    except BaseException:
        pipe.send(("unusable", traceback.format_exc(limit=5)))
        return
    pipe.send(("ready",))
    while True:
        pipe.send(answer(engine, pipe.recv(), pipe, cancelled))


def _answer(engine, work, pipe, cancelled):
    """Renders, or inspects where there is nothing to write to."""
    job = Job(**work, tell=lambda *said: pipe.send(("progress", *said)), cancelled=cancelled.is_set)
    inspects = job.output_dir is None
    try:
        result = engine.inspect(job) if inspects else engine.render(job)
        kind = Findings if inspects else Result
        if not isinstance(result, kind):
            name = "inspect" if inspects else "render"
            returned = "None" if result is None else type(result).__name__
            fault = f"{name}() returned {returned}, not a {kind.__name__}"
            print(fault, file=sys.stderr)
            return ("fault", fault)
        if inspects:
            return ("findings", limits.findings(result))
        units = (result.unit, result.milli_units)
        details = limits.details(result.details)
        findings = limits.findings(result.findings)
        return ("result", result.file, result.content_type, units, job.stages(), details, findings)
    except Cancelled:
        return ("cancelled",)
    except RenderError as error:
        return ("failure", error.code, limits.refusal(error.message), _told(error))
    except RenderInterrupted as error:
        print(f"a render was interrupted: {error.message}", file=sys.stderr)
        return ("interrupted", error.message, error.reload)
    except BaseException as error:
        return fault_of(error)


def fault_of(error: BaseException):
    """Returns the answer for an error of the engine's code, and logs it. Ends the process where the card is full."""
    traceback.print_exc()
    if _FULL.search(f"{type(error).__name__}: {error}"):
        # What the process took of the card is free only when it ends. The work is not the cause, and is repeated.
        print("the device is full: the process ends, and another one is started", file=sys.stderr, flush=True)
        _end()
    return ("fault", " ".join("".join(traceback.format_exception_only(type(error), error)).split()))


def _told(error: RenderError):
    try:
        return limits.findings(error.findings)
    except Exception:
        # The refusal counts, whatever was to be told beside it.
        traceback.print_exc()
        return None


def _die_with_parent() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(0.2)
    _end()


def _lead() -> None:
    """Makes this process the leader of its own session and group, so that a kill also ends the engine's programs."""
    os.setsid()
    # This discards an earlier Ctrl-C, which was meant for the front process. That process ends this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _end() -> None:
    """Ends this process and the programs that its engine started."""
    os.killpg(0, signal.SIGKILL)


@contextmanager
def _deaf_to_ctrl_c():
    """Blocks Ctrl-C for a process that is started meanwhile, until it leads its own group."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _kill_group(process) -> None:
    """Kills a worker's process and the programs that it started, also if the process is already dead."""
    if process.exitcode is None:
        # It may not lead its group yet, so killing the group may miss it.
        process.kill()
    else:
        with suppress(ProcessLookupError):
            # The kernel reuses the pid only after the whole group has ended, so this is another process.
            os.getpgid(process.pid)
            return
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _how(exitcode: Optional[int]) -> str:
    if exitcode is None:
        return "it spoke no more, and was killed"
    if exitcode >= 0:
        return f"exit status {exitcode}"
    try:
        return signal.Signals(-exitcode).name
    except ValueError:
        return f"signal {-exitcode}"


class Worker:
    """One worker process. Only one thread may use it at a time, and another may send; any thread may call `end`."""

    def __init__(self, engine_class, number: int = 0, answer: Callable = _answer):
        self._engine_class = engine_class
        self._number = number
        self._answer = answer
        self._process = None
        self._pipe = None
        self._cancelled = None
        # Held to start, check or kill the process, because only one thread may collect its exit status.
        self._lock = threading.Lock()
        self._over = False

    def start(self) -> None:
        """Starts the process if it does not run, and waits until the model is loaded. Raises RuntimeError."""
        if self.alive:
            return
        self.kill()
        ours = theirs = None
        try:
            ours, theirs = _context.Pipe()
            cancelled = _context.Event()
            process = _context.Process(target=_main, args=(self._engine_class, self._number, self._answer, theirs, cancelled), daemon=True)
            with self._lock:
                if self._over:
                    raise RuntimeError("the engine is ending")
                with _deaf_to_ctrl_c():
                    process.start()
                self._pipe, self._cancelled, self._process = ours, cancelled, process
        except OSError as error:
            # The machine lacks memory, processes or files at the moment.
            if ours is not None:
                ours.close()
            raise RuntimeError(f"its process cannot be started: {error}") from error
        finally:
            if theirs is not None:
                theirs.close()
        answer = self.read(None)
        if answer is None:
            raise RuntimeError(f"the process ended while the model was loaded: {self.bury()}")
        if answer[0] != "ready":
            self.kill()
            raise RuntimeError(answer[1])

    @property
    def alive(self) -> bool:
        with self._lock:
            return self._process is not None and self._process.is_alive()

    def send(self, work) -> None:
        """Raises OSError when the process is dead."""
        self._cancelled.clear()
        self._pipe.send(work)

    def read(self, timeout: Optional[float]):
        """Returns the next message of the process; () if none came in time, None if it is dead."""
        try:
            while not self._pipe.poll(END_S if timeout is None else timeout):
                # A program that it started may keep the other end of the pipe open.
                if not self.alive and not self._pipe.poll(0):
                    return None
                if timeout is not None:
                    return ()
            return self._pipe.recv()
        except (EOFError, OSError):
            return None

    def cancel(self) -> None:
        """Cancels the render and waits until it has ended. Kills the process if it does not end in time."""
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

    def bury(self) -> str:
        """Returns how a dead process ended, and kills the programs that it left running."""
        with self._lock:
            process = self._process
            if process is not None:
                process.join(END_S)
        how = _how(process.exitcode if process is not None else None)
        self.kill()
        return how

    def kill(self) -> None:
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                _kill_group(process)
                process.join()
                self._pipe.close()

    def end(self) -> None:
        """Kills the process for good, even if another thread uses it. That thread reads that it is dead."""
        with self._lock:
            self._over = True
            if self._process is not None:
                _kill_group(self._process)
                self._process.join()
