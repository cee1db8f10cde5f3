"""The front process: answers the agent and passes each render to a worker process."""

import argparse
import os
import queue
import signal
import sys
import threading
import time
from concurrent import futures
from contextlib import closing

import grpc
from semblance.engine.v1 import engine_pb2 as pb
from semblance.engine.v1 import engine_pb2_grpc

from . import listen
from .answers import abort, failure, findings_of, option_of, text_of
from .check import fault_of
from .contract import Engine
from .worker import Worker

DEFAULT_SOCKET = "/run/semblance/engine.sock"
# Longest pause between two messages, in seconds. The agent considers a render hanging after a minute without one.
HEARTBEAT_S = 5
# Longest wait for a worker that is being restarted, in seconds.
WORKER_WAIT_S = 45


class _Service(engine_pb2_grpc.EngineServiceServicer):
    def __init__(self, engine_class, root: str):
        self._engine = engine_class
        self._root = root
        self._workers = [Worker(engine_class, number) for number in range(engine_class.concurrency)]
        self._idle: "queue.Queue[Worker]" = queue.Queue()
        self._dead: "queue.Queue[Worker]" = queue.Queue()
        self._lock = threading.Lock()
        self._warm_lock = threading.Lock()
        self._warm = False
        self._trouble = ""
        self._closing = threading.Event()
        self._running = set()
        # Started now, because the machine may have no thread left when a worker must be restarted.
        for _ in self._workers:
            threading.Thread(target=self._mend, daemon=True).start()

    def GetInfo(self, request, context):
        offers = [
            pb.EngineCapability(
                capability=offer.name,
                slots=offer.slots,
                memory_mib=offer.memory_mib,
                vram_mib=offer.vram_mib,
                limits=pb.EngineLimits(
                    max_input_bytes=offer.limits.max_input_bytes,
                    max_pixels=offer.limits.max_pixels,
                    max_seconds=offer.limits.max_seconds,
                ),
                options=[option_of(each) for each in offer.options],
                several_faces=offer.several_faces,
            )
            for offer in self._engine.capabilities
        ]
        engine = self._engine
        return pb.GetInfoResponse(
            name=engine.name,
            version=engine.version,
            capabilities=offers,
            concurrency=engine.concurrency,
            vram_mib=engine.vram_mib,
            inspects=engine.inspect is not Engine.inspect,
        )

    def WarmUp(self, request, context):
        with self._warm_lock:
            if not self._warm:
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
        return pb.WarmUpResponse()

    def Health(self, request, context):
        with self._lock:
            running = sorted(self._running)
        # An engine that was not warmed up yet has no fault.
        return pb.HealthResponse(serving=not self._trouble, running=running)

    def Render(self, request, context):
        work = self._work(request, request.output_dir)
        known = {each.name: each for offer in self._engine.capabilities if offer.name == request.capability for each in offer.options}
        for name in request.options:
            if name not in known:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"no such option: {name}")
        work["options"] = {name: known[name].value_of(text) for name, text in request.options.items()}
        last, told = pb.RenderProgress(fraction=0, stage="start"), time.monotonic()
        with closing(self._answers(request.render_id, work, context)) as answers:
            for answer in answers:
                if answer and answer[0] == "progress":
                    _, fraction, stage, left = answer
                    last = pb.RenderProgress(fraction=fraction, stage=stage, seconds_left=left)
                elif answer:
                    yield self._end(answer, context)
                    return
                if answer or time.monotonic() - told > HEARTBEAT_S:
                    told = time.monotonic()
                    yield pb.RenderResponse(progress=last)

    def Inspect(self, request, context):
        with closing(self._answers(request.inspection_id, self._work(request, None), context)) as answers:
            for answer in answers:
                if not answer or answer[0] == "progress":
                    continue
                if answer[0] == "failure":
                    return pb.InspectResponse(failure=failure(answer))
                if answer[0] != "findings":
                    abort(answer, context)
                return pb.InspectResponse(findings=findings_of(answer[1]))
        context.abort(grpc.StatusCode.CANCELLED, "nobody waits any more")

    def _answers(self, of, work, context):
        """Gives work to a worker and yields what it says; () when it says nothing for a moment. Ends with the call."""
        if work["capability"] not in {offer.name for offer in self._engine.capabilities}:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"no such capability: {work['capability']}")
        with self._lock:
            self._running.add(of)
        worker, busy = None, False
        try:
            worker = self._begin(work, context)
            busy = True
            while context.is_active():
                answer = worker.read(0.05)
                if answer is None:
                    busy = False
                    self._bury(worker, "the process that rendered has died")
                    context.abort(grpc.StatusCode.ABORTED, "the process that rendered has died")
                busy = not answer or answer[0] == "progress"
                if answer and answer[0] == "interrupted" and answer[2]:
                    worker.kill()
                yield answer
                if not busy:
                    return
        finally:
            if worker is not None:
                if busy:
                    worker.cancel()
                self._give_back(worker)
            with self._lock:
                self._running.discard(of)

    def _begin(self, work, context) -> Worker:
        """Sends the work to a worker; to another one if it is dying and so has not read the work."""
        for _ in self._workers:
            worker = self._take(context)
            try:
                worker.send(work)
                return worker
            except OSError:
                self._bury(worker, "a process died before it had its work")
                self._give_back(worker)
        context.abort(grpc.StatusCode.ABORTED, "the processes that were to render have died")

    def _take(self, context) -> Worker:
        until = time.monotonic() + WORKER_WAIT_S
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

    def _work(self, request, output_dir) -> dict:
        def inside(path: str) -> str:
            full = os.path.join(self._root, path)
            if os.path.commonpath([self._root, os.path.normpath(full)]) != self._root:
                raise ValueError(f"{path} is outside the shared directory")
            return full

        return {
            "capability": request.capability,
            "inputs": {role: inside(path) for role, path in request.inputs.items()},
            "parameters": dict(request.parameters),
            "output_dir": None if output_dir is None else inside(output_dir),
        }

    def _end(self, answer, context):
        kind = answer[0]
        if kind == "failure":
            return pb.RenderResponse(failure=failure(answer))
        if kind != "result":
            abort(answer, context)
        _, file, content_type, (unit, milli_units), stages, details, findings = answer
        return pb.RenderResponse(
            result=pb.RenderResult(
                output_file=file,
                content_type=content_type,
                units=pb.Units(unit=unit, milli_units=milli_units),
                stages=[pb.RenderStage(name=name, milliseconds=ms) for name, ms in stages.items()],
                details=details,
                findings=findings_of(findings),
            )
        )

    def close(self) -> None:
        self._closing.set()
        for worker in self._workers:
            worker.end()


def _on_end():
    """Makes SIGTERM and Ctrl-C do nothing but end the wait of the returned function."""
    # It reads a pipe, because a signal to another thread does not wake a main thread that waits for a lock.
    read, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write)
    ends = (signal.SIGTERM, signal.SIGINT)
    for each in ends:
        signal.signal(each, lambda *_: None)

    def wait() -> None:
        while os.read(read, 1)[0] not in ends:
            pass

    return wait


def serve(engine_class) -> None:
    """Serves until SIGTERM or Ctrl-C. `--socket PATH` names the socket, otherwise SEMBLANCE_SIDECAR_SOCKET does."""
    if fault := fault_of(engine_class):
        sys.exit(fault)
    parser = argparse.ArgumentParser(description=f"{engine_class.name} as an engine of Semblance")
    parser.add_argument("--socket", default=os.environ.get("SEMBLANCE_SIDECAR_SOCKET", DEFAULT_SOCKET))
    socket = os.path.abspath(parser.parse_args().socket)
    # The group has access, because agent and sidecar may run as different users.
    os.umask(0o007)
    wait_for_end = _on_end()
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=engine_class.concurrency + 4))
    try:
        listen.assert_free(socket)
        service = _Service(engine_class, os.path.dirname(socket))
        engine_pb2_grpc.add_EngineServiceServicer_to_server(service, server)
        identity = listen.bind(server, socket)
    except listen.Unusable as error:
        sys.exit(str(error))
    server.start()
    print(f"{engine_class.name} {engine_class.version} listens on {socket}", flush=True)
    wait_for_end()
    listen.remove(socket, identity)
    server.stop(grace=0.5).wait()
    service.close()
