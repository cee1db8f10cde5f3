"""One session inside a worker process."""

import mmap
import os
import traceback
from contextlib import suppress

from ..limits import cut
from ..worker import fault_of
from .contract import LivePictures, Refused, Session, Unreadable

# Most characters of a sentence for the client.
TEXT = 300
# First word of a message that asks for a change.
CHANGE = "change"


def carry(engine, work, pipe, _cancelled):
    """Carries a session from its opening until the front process closes it. Returns the last message about it."""
    session = Session(work["settings"], work["inputs"], work["sample_rate"])
    try:
        media = _Pictures(work["shared"]) if isinstance(engine, LivePictures) else _Sound()
        if not isinstance(engine, LivePictures):
            session.input_rate, session.output_rate = engine.input_rate, engine.output_rate
        engine.open(session)
        opened = ("opened", _note(session), int(session.input_rate), int(session.output_rate))
    except Refused as error:
        return ("refused", _why(error))
    except BaseException as error:
        return fault_of(error)
    pipe.send(opened)
    failed = False
    while (message := pipe.recv())[0] != "close":
        if failed:
            continue
        sequence = message[0]
        try:
            if sequence == CHANGE:
                pipe.send(_change(engine, session, message[1]))
                continue
            for answer in media.convert(engine, *message):
                pipe.send(answer)
        except Unreadable:
            pipe.send(("unreadable", sequence))
        except BaseException as error:
            failed = True
            pipe.send(fault_of(error))
    try:
        engine.close(session)
    except Exception:
        # The session is over all the same.
        traceback.print_exc()
    media.close()
    return ("closed",)


def _change(engine, session: Session, asked: dict):
    former = (session.settings, session.inputs, session.note)
    session.settings, session.inputs, session.note = asked["settings"], asked["inputs"], ""
    try:
        engine.change(session)
        return ("changed", _note(session))
    except Refused as error:
        session.settings, session.inputs, session.note = former
        return ("unchanged", _why(error))
    except Unreadable as error:
        raise TypeError("change() raised Unreadable, which is for messages") from error


def _note(session: Session) -> str:
    return cut(str(session.note).strip(), TEXT)


def _why(error: Refused) -> str:
    return cut(str(error).strip(), TEXT) or "The engine refused what it was asked for."


class _Sound:
    def convert(self, engine, sequence, samples):
        import numpy as np

        if samples:
            result = engine.convert(np.frombuffer(samples, np.int16).astype(np.float32) / 32768)
            if result is not None and len(result) > 0:
                scaled = np.nan_to_num(np.asarray(result, np.float32).reshape(-1)) * 32768
                yield ("sound", sequence, np.clip(np.rint(scaled), -32768, 32767).astype(np.int16).tobytes())
                return
        yield ("done", sequence)

    def close(self):
        pass


class _Pictures:
    """`shared` is None for JPEG, else the path of the file and the length of a picture in it."""

    def __init__(self, shared):
        self._memory = None
        if shared:
            path, self._bytes = shared
            file = os.open(path, os.O_RDWR)
            try:
                self._memory = mmap.mmap(file, 0)
            finally:
                os.close(file)

    def convert(self, engine, sequence, jpeg, place):
        if place is None:
            results = engine.convert(jpeg)
            results = [] if results is None else [results] if isinstance(results, (bytes, bytearray)) else list(results)
            for result in results:
                if not isinstance(result, (bytes, bytearray)):
                    raise TypeError(f"convert() returned {type(result).__name__}, not bytes")
                yield ("picture", sequence, bytes(result), None)
            if not results:
                yield ("done", sequence)
            return
        import numpy as np

        slot, width, height = place
        at = slot * 2 * self._bytes
        pixels = np.frombuffer(self._memory, np.uint8, width * height * 3, at).reshape(height, width, 3)
        result = engine.convert(pixels)
        if result is None:
            yield ("done", sequence)
            return
        result = np.asarray(result)
        if result.dtype != np.uint8 or result.ndim != 3 or result.shape[2] != 3 or result.size == 0:
            raise TypeError(f"convert() returned {result.dtype} of {result.shape}, not height × width × 3 bytes")
        if result.size > self._bytes:
            raise ValueError(f"convert() returned {result.shape[1]} × {result.shape[0]} pixels, more than there is room for")
        room = np.frombuffer(self._memory, np.uint8, result.size, at + self._bytes)
        room[:] = result.reshape(-1)
        yield ("picture", sequence, None, (slot, result.shape[1], result.shape[0]))

    def close(self):
        if self._memory is not None:
            # The engine may still hold a picture; the memory goes with it.
            with suppress(BufferError):
                self._memory.close()
