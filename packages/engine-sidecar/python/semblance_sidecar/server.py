"""The front process: answers the agent and passes each render to a worker process."""

import sys
import threading
import time
from contextlib import closing

import grpc
from semblance.engine.v1 import engine_pb2 as pb
from semblance.engine.v1 import engine_pb2_grpc

from . import listen, run
from .answers import abort, failure, findings_of, option_of, speech_of
from .check import fault_of
from .contract import Engine
from .pool import Workers
from .worker import Worker

# Longest pause between two messages, in seconds. The agent considers a render hanging after a minute without one.
HEARTBEAT_S = 5
# Longest wait for a worker that is being restarted, in seconds.
WORKER_WAIT_S = 45


class _Service(Workers, engine_pb2_grpc.EngineServiceServicer):
    def __init__(self, engine_class, root: str):
        super().__init__(engine_class.concurrency, lambda number: Worker(engine_class, number))
        self._engine = engine_class
        self._root = root
        self._lock = threading.Lock()
        self._running = set()

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
                speech=speech_of(offer.speech),
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
        self._warm_up(context)
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
            worker = self._begin(work, context, WORKER_WAIT_S)
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

    def _work(self, request, output_dir) -> dict:
        def inside(path: str) -> str:
            return listen.inside(self._root, path)

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


def serve(engine_class) -> None:
    """Serves until SIGTERM or Ctrl-C. `--socket PATH` names the socket, otherwise SEMBLANCE_SIDECAR_SOCKET does."""
    if fault := fault_of(engine_class):
        sys.exit(fault)

    def add(root: str, server) -> _Service:
        service = _Service(engine_class, root)
        engine_pb2_grpc.add_EngineServiceServicer_to_server(service, server)
        return service

    run.until_end(engine_class, engine_class.concurrency + 4, add)
