"""Live sessions: sound by Voice Swap, pictures by Live Swap Pro. Needs `semblance[live]` and asyncio."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from typing_extensions import Unpack

from ._answers import error_of
from ._async.client import AsyncSemblance
from .errors import ConnectionFailed, SemblanceError
from .types import LiveSwapProOpen, LiveSwapProSession, VoiceSwapOpen, VoiceSwapSession

try:
    from websockets.asyncio.client import ClientConnection
    from websockets.asyncio.client import connect as connect_socket
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
except ImportError as missing:
    raise ImportError("live sessions need the package websockets: pip install 'semblance[live]'") from missing

#: Called with each notice of the service, such as `{"type": "ending", …}`.
OnNotice = Callable[[Mapping[str, Any]], object]
#: Most bytes of one message.
MAX_MESSAGE_BYTES = 16 << 20
#: Messages that wait for a reader, before the service has to.
WAITING = 16
#: The granted time is used up.
LIMIT_REACHED = 4001
#: Longest time in which sound that was late is caught up with, in seconds.
MOST_LATE = 1.0


class SessionEnded(SemblanceError):
    """The service ended the session before its time, or the connection broke."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"the session ended with {code} {reason}".rstrip())
        self.code = code
        #: Begins with a word such as `going_away` or `render_failed`.
        self.reason = reason


class ChangeRefused(SemblanceError):
    """A change was refused; the session goes on as it was."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class LiveSession:
    """A connected session. Iterate over it to receive: read all the time."""

    def __init__(self, opened: VoiceSwapSession | LiveSwapProSession, socket: ClientConnection) -> None:
        self.opened = opened
        self.id = opened["session_id"]
        #: First message of the service: `sample_rate` and `chunk_frames` of sound; `width`, `height`, `fps` and
        #: `codec` of pictures.
        self.format: Mapping[str, Any] = {}
        #: What `change` may change.
        self.changeable: tuple[str, ...] = ()
        self._socket = socket
        self._received: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(WAITING)
        self._answers: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._ids = itertools.count(1)
        self._end: SessionEnded | None = None

    async def send(self, data: bytes) -> None:
        """Sends sound (mono PCM, int16 little-endian) or one encoded picture, in real time.

        :raises SessionEnded: the session has ended
        """
        try:
            await self._socket.send(data)
        except ConnectionClosed as closed:
            raise end_of(closed) from None

    async def send_in_real_time(self, sound: bytes) -> None:
        """Sends sound as fast as it is spoken, in the messages that the service asks for."""
        size = int(self.format["chunk_frames"]) * 2
        seconds = self.format["chunk_frames"] / self.format["sample_rate"]
        due = time.monotonic()
        for at in range(0, len(sound), size):
            await self.send(sound[at : at + size])
            due = max(due + seconds, time.monotonic() - MOST_LATE)
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Goes through what comes back, until you close the session or its granted time is used up.

        :raises SessionEnded: the service ended it before
        """
        while (data := await self._received.get()) is not None:
            self._room.release()
            yield data
        # Whoever else reads learns of the end, too.
        self._received.put_nowait(None)
        if self._end is not None and self._end.code != LIMIT_REACHED:
            raise self._end

    async def change(self, *, prompt: str | None = None, voice_profile_id: str | None = None) -> str | None:
        """Changes the face or prompt, or the voice. Returns how it was understood, where the service says so.

        Its answer comes between the media, so something must be reading them.

        :raises ChangeRefused: everything stays as it was
        """
        id = str(next(self._ids))
        fields = {"prompt": prompt, "voice_profile_id": voice_profile_id}
        given = {name: value for name, value in fields.items() if value is not None}
        answer: asyncio.Future[Mapping[str, Any]] = asyncio.get_running_loop().create_future()
        self._answers[id] = answer
        try:
            await self._socket.send(json.dumps({"type": "change", "id": id, **given}))
            told = await answer
        except ConnectionClosed as closed:
            raise end_of(closed) from None
        finally:
            del self._answers[id]
        if told["type"] != "changed":
            raise ChangeRefused(str(told.get("code")), str(told.get("message")))
        note = told.get("note")
        return None if note is None else str(note)

    async def close(self) -> None:
        """Ends the session; what was streamed is charged."""
        await self._socket.close()

    async def _begin(self) -> None:
        """Reads what the service says before the media."""
        try:
            self.format = json.loads(await self._socket.recv())
            told = json.loads(await self._socket.recv())
        except ConnectionClosed as closed:
            raise end_of(closed) from None
        self.changeable = tuple(told.get("fields", ()))

    async def _read(self, on_notice: OnNotice | None) -> None:
        end = SessionEnded(1006, "reading was given up")
        self._end = end
        try:
            while True:
                data = await self._socket.recv()
                if isinstance(data, bytes):
                    await self._room.acquire()
                    self._received.put_nowait(data)
                    continue
                told = json.loads(data)
                answer = self._answers.get(str(told.get("id")))
                if answer is not None and not answer.done():
                    answer.set_result(told)
                elif on_notice is not None:
                    on_notice(told)
        except ConnectionClosed as closed:
            end = end_of(closed)
            # The close of the client itself is no error.
            own = closed.sent is not None and not closed.rcvd_then_sent
            self._end = None if own else end
        except Exception as error:
            self._end = end = SessionEnded(1006, f"{type(error).__name__} while reading: {error}")
        finally:
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(end)
            self._received.put_nowait(None)


def end_of(closed: ConnectionClosed) -> SessionEnded:
    frame = closed.rcvd or closed.sent
    return SessionEnded(frame.code, frame.reason) if frame else SessionEnded(1006, "the connection broke")


@asynccontextmanager
async def connect(
    opened: VoiceSwapSession | LiveSwapProSession, *, on_notice: OnNotice | None = None
) -> AsyncIterator[LiveSession]:
    """Connects to a session that is open, within 15 s of its opening. Leaving the block ends the session.

    :raises APIError: the service refused the connection
    """
    # The header keeps the token out of the logs of proxies.
    headers = {"Authorization": f"Bearer {opened['session_token']}"}
    address = f"{opened['stream_url']}?notices=on&changes=on"
    try:
        socket = await connect_socket(address, additional_headers=headers, compression=None, max_size=MAX_MESSAGE_BYTES)
    except InvalidStatus as refused:
        raise refusal_of(refused) from None
    except (OSError, InvalidHandshake) as cause:
        raise ConnectionFailed(f"{opened['session_id']}: {type(cause).__name__}: {cause}") from cause
    async with socket:
        session = LiveSession(opened, socket)
        await session._begin()
        reading = asyncio.create_task(session._read(on_notice))
        try:
            yield session
        finally:
            await socket.close()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


def refusal_of(refused: InvalidStatus) -> SemblanceError:
    head, body = refused.response, bytes(refused.response.body or b"")
    return error_of(httpx.Response(head.status_code, headers=list(head.headers.raw_items())), body)


@asynccontextmanager
async def voice_swap(
    client: AsyncSemblance, *, on_notice: OnNotice | None = None, **fields: Unpack[VoiceSwapOpen]
) -> AsyncIterator[LiveSession]:
    """Opens a session of Voice Swap and connects to it. Leaving the block ends it."""
    async with connect(await client.open_voice_swap(**fields), on_notice=on_notice) as session:
        yield session


@asynccontextmanager
async def live_swap_pro(
    client: AsyncSemblance, *, on_notice: OnNotice | None = None, **fields: Unpack[LiveSwapProOpen]
) -> AsyncIterator[LiveSession]:
    """Opens a session of Live Swap Pro and connects to it. Leaving the block ends it."""
    async with connect(await client.open_live_swap_pro(**fields), on_notice=on_notice) as session:
        yield session
