"""The front process of a live engine: answers the agent and passes each session to a worker process."""

import sys
import threading
import time

import grpc
from semblance.engine.live.v1 import live_engine_pb2 as pb
from semblance.engine.live.v1 import live_engine_pb2_grpc

from .. import listen, run
from ..answers import text_of
from ..pool import Workers
from ..worker import Worker
from .check import fault_of
from .contract import RGB, LivePictures, takes_changes
from .worker import CHANGE, carry

# Time for an engine to open a session, in seconds; the agent waits a little longer.
OPEN_S = 7.5
# Time for the agent to begin with the media of a session, in seconds.
BEGIN_S = 10
# Time for an engine to close a session before its process is killed, in seconds.
CLOSE_S = 1

_TRANSPORT = {True: pb.PICTURE_TRANSPORT_SHARED_RGB, False: pb.PICTURE_TRANSPORT_JPEG}


class _Live:
    """A session that has a worker. Its media go in by one thread, and come out by another."""

    def __init__(self, worker: Worker):
        self.worker = worker
        self.begun = False
        self._sending = threading.Lock()
        self._over = False

    def give(self, message) -> bool:
        """Waits while the worker has enough to do. Returns False when the session is over."""
        with self._sending:
            if self._over:
                return False
            try:
                self.worker.send(message)
                return True
            except OSError:
                return False

    def close(self) -> None:
        """Ends the session in its worker; kills a worker that does not end it in time."""
        self._over = True
        end = time.monotonic() + CLOSE_S
        if self._sending.acquire(timeout=CLOSE_S):
            try:
                self.worker.send(("close",))
            except OSError:
                pass
            finally:
                self._sending.release()
            while (left := end - time.monotonic()) > 0:
                answer = self.worker.read(left)
                if answer is None:
                    return
                if answer and answer[0] == "closed":
                    return
        print("ending the process of a session that does not end", file=sys.stderr)
        self.worker.kill()


class _Service(Workers, live_engine_pb2_grpc.LiveEngineServiceServicer):
    def __init__(self, engine_class, root: str):
        super().__init__(engine_class.slots, lambda number: Worker(engine_class, number, carry))
        self._engine = engine_class
        self._root = root
        self._lock = threading.Lock()
        # None while the session is opened.
        self._sessions = {}

    def GetInfo(self, request, context):
        engine = self._engine
        said = pb.GetInfoResponse(name=engine.name, version=engine.version, capability=engine.capability, slots=engine.slots)
        said.takes_changes = takes_changes(engine)
        if issubclass(engine, LivePictures):
            said.takes_prompt = engine.takes_prompt
            said.pictures.transports.append(_TRANSPORT[engine.form == RGB])
            said.pictures.in_flight = engine.in_flight
            said.pictures.width, said.pictures.height = engine.size
            said.pictures.fps = engine.fps
        return said

    def WarmUp(self, request, context):
        self._warm_up(context)
        return pb.WarmUpResponse()

    def Health(self, request, context):
        with self._lock:
            sessions = sorted(self._sessions)
        return pb.HealthResponse(serving=not self._trouble, sessions=sessions)

    def Open(self, request, context):
        of = request.session_id
        with self._lock:
            if of in self._sessions:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, "there is such a session")
            self._sessions[of] = None
        live = None
        try:
            work = self._work(request)
            live = _Live(self._begin(work, context, OPEN_S))
            answer = self._opened(live.worker, context)
            if answer[0] == "refused":
                return pb.OpenResponse(refusal=pb.Refusal(message=answer[1]))
            _, note, input_rate, output_rate = answer
            with self._lock:
                self._sessions[of] = live
            late = threading.Timer(BEGIN_S, self._forget, [of, live])
            late.daemon = True
            late.start()
            live = None
            return pb.OpenResponse(opened=pb.Opened(note=note, input_rate=input_rate, output_rate=output_rate))
        finally:
            with self._lock:
                kept = self._sessions.get(of)
                if kept is None:
                    del self._sessions[of]
            if live is not None:
                self._give_back(live.worker)

    def _work(self, request) -> dict:
        shared = None
        if request.HasField("shared"):
            shared = (listen.inside(self._root, request.shared.file), request.shared.picture_bytes)
        return {
            **self._asked(request),
            "sample_rate": request.sample_rate,
            "shared": shared,
        }

    def _asked(self, request) -> dict:
        return {
            "settings": dict(request.settings),
            "inputs": {role: listen.inside(self._root, path) for role, path in request.inputs.items()},
        }

    def _opened(self, worker: Worker, context):
        """Returns the worker's answer to an opening."""
        end = time.monotonic() + OPEN_S
        while (left := end - time.monotonic()) > 0:
            answer = worker.read(left)
            if answer is None:
                self._bury(worker, "the process that opened a session has died")
                context.abort(grpc.StatusCode.ABORTED, "the process that opened the session has died")
            if answer and answer[0] == "fault":
                context.abort(grpc.StatusCode.INTERNAL, text_of(answer[1]))
            if answer:
                return answer
        worker.kill()
        context.abort(grpc.StatusCode.ABORTED, "the session was not opened in time")

    def _forget(self, of: str, live: _Live) -> None:
        """Ends a session whose media have not begun."""
        with self._lock:
            if live.begun or self._sessions.get(of) is not live:
                return
            live.begun = True
        self._end(of, live)

    def _end(self, of: str, live: _Live) -> None:
        live.close()
        self._give_back(live.worker)
        with self._lock:
            del self._sessions[of]

    def Convert(self, requests, context):
        first = next(requests, None)
        of = first.open.session_id if first is not None else ""
        with self._lock:
            live = self._sessions.get(of)
            if live is None or live.begun:
                context.abort(grpc.StatusCode.NOT_FOUND, "there is no such session")
            live.begun = True
        try:
            ended = threading.Event()
            threading.Thread(target=self._feed, args=(requests, live, ended), daemon=True).start()
            while context.is_active() and not ended.is_set():
                answer = live.worker.read(0.05)
                if answer is None:
                    self._bury(live.worker, "the process of a session has died")
                    context.abort(grpc.StatusCode.ABORTED, "the process of the session has died")
                if not answer:
                    continue
                if answer[0] == "fault":
                    context.abort(grpc.StatusCode.INTERNAL, text_of(answer[1]))
                yield _response(answer)
        finally:
            self._end(of, live)

    def _feed(self, requests, live: _Live, ended: threading.Event) -> None:
        """Gives the requests to the worker, and sets `ended` after the last one."""
        try:
            for request in requests:
                message = self._message(request)
                if message is not None and not live.give(message):
                    # The worker is dead or the session over; the other thread knows that.
                    return
        except grpc.RpcError:
            # The call was cancelled.
            pass
        ended.set()

    def _message(self, request):
        """Returns what the worker gets for a request; None for nothing."""
        kind = request.WhichOneof("request")
        if kind == "sound":
            return (request.sound.sequence, request.sound.samples)
        if kind == "picture":
            return (request.picture.sequence, *_picture(request.picture))
        if kind == "change":
            return (CHANGE, self._asked(request.change))
        return None


def _picture(picture):
    if picture.WhichOneof("data") == "jpeg":
        return picture.jpeg, None
    return None, (picture.shared.slot, picture.shared.width, picture.shared.height)


def _response(answer) -> pb.ConvertResponse:
    kind, sequence = answer[:2]
    if kind == "changed":
        return pb.ConvertResponse(changed=pb.Changed(note=answer[1]))
    if kind == "unchanged":
        return pb.ConvertResponse(unchanged=pb.Refusal(message=answer[1]))
    if kind == "sound":
        return pb.ConvertResponse(sound=pb.Sound(sequence=sequence, samples=answer[2]))
    if kind == "picture":
        jpeg, place = answer[2:]
        if place is None:
            return pb.ConvertResponse(picture=pb.Picture(sequence=sequence, jpeg=jpeg))
        slot, width, height = place
        shared = pb.SharedPicture(slot=slot, width=width, height=height)
        return pb.ConvertResponse(picture=pb.Picture(sequence=sequence, shared=shared))
    if kind == "unreadable":
        return pb.ConvertResponse(unreadable=pb.Unreadable(sequence=sequence))
    return pb.ConvertResponse(done=pb.Done(sequence=sequence))


def serve_live(engine_class) -> None:
    """Serves until SIGTERM or Ctrl-C. `--socket PATH` names the socket, otherwise SEMBLANCE_SIDECAR_SOCKET does."""
    if fault := fault_of(engine_class):
        sys.exit(fault)

    def add(root: str, server) -> _Service:
        service = _Service(engine_class, root)
        live_engine_pb2_grpc.add_LiveEngineServiceServicer_to_server(service, server)
        return service

    # Each session has a call for its media, and may be opened or closed meanwhile.
    run.until_end(engine_class, 2 * engine_class.slots + 4, add)
