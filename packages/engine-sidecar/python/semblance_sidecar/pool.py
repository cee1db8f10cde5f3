"""The worker processes of an engine: they are started, lent, buried and started again."""

import queue
import sys
import threading
import time

import grpc

from .answers import text_of
from .worker import Worker


class Workers:
    """`make` returns the worker with a number. Each is lent to one caller at a time."""

    def __init__(self, count: int, make):
        self._workers = [make(number) for number in range(count)]
        self._idle: "queue.Queue[Worker]" = queue.Queue()
        self._dead: "queue.Queue[Worker]" = queue.Queue()
        self._warm_lock = threading.Lock()
        self._warm = False
        self._trouble = ""
        self._closing = threading.Event()
        # Started now, because the machine may have no thread left when a worker must be restarted.
        for _ in self._workers:
            threading.Thread(target=self._mend, daemon=True).start()

    def _warm_up(self, context) -> None:
        with self._warm_lock:
            if self._warm:
                return
            for worker in self._workers:
                try:
                    worker.start()
                except RuntimeError as error:
                    if self._closing.is_set():
                        context.abort(grpc.StatusCode.UNAVAILABLE, "the engine is ending")
                    print(f"the model cannot be loaded: {error}", file=sys.stderr)
                    context.abort(grpc.StatusCode.FAILED_PRECONDITION, text_of(str(error)[-500:]))
            for worker in self._workers:
                self._idle.put(worker)
            self._warm = True

    def _begin(self, work, context, wait: float) -> Worker:
        """Sends the work to a worker; to another one if it is dying and so has not read the work."""
        for _ in self._workers:
            worker = self._take(context, wait)
            try:
                worker.send(work)
                return worker
            except OSError:
                self._bury(worker, "a process died before it had its work")
                self._give_back(worker)
        context.abort(grpc.StatusCode.ABORTED, "the processes that were to do the work have died")

    def _take(self, context, wait: float) -> Worker:
        until = time.monotonic() + wait
        while context.is_active() and time.monotonic() < until:
            try:
                worker = self._idle.get(timeout=0.1)
            except queue.Empty:
                continue
            if worker.alive:
                return worker
            # The kernel kills idle processes too, such as for lack of memory.
            self._bury(worker, "a process died while it had nothing to do")
            self._give_back(worker)
        context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "no worker is free")

    def _bury(self, worker: Worker, what: str) -> None:
        how = worker.bury()
        if not self._closing.is_set():
            print(f"{what}: {how}", file=sys.stderr)

    def _give_back(self, worker: Worker) -> None:
        """Makes a worker available at once, or after its restart in the background if its process is dead."""
        (self._idle if worker.alive else self._dead).put(worker)

    def _mend(self) -> None:
        """Restarts dead workers one after the other, and retries each until it runs."""
        while True:
            worker = self._dead.get()
            pause = 1
            while not self._closing.is_set():
                try:
                    worker.start()
                    self._trouble = ""
                    self._idle.put(worker)
                    break
                except Exception as error:
                    if self._closing.is_set():
                        break
                    # The agent offers nothing while this is set.
                    self._trouble = str(error) or repr(error)
                    print(f"a worker cannot be started again: {error!r}", file=sys.stderr)
                    self._closing.wait(pause)
                    pause = min(30, pause * 2)

    def close(self) -> None:
        self._closing.set()
        for worker in self._workers:
            worker.end()
