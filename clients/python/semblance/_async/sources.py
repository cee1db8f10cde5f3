"""Sources of uploads: each gives its bytes again from an offset, as far as the service may still need them."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from functools import partial
from typing import BinaryIO, Protocol

from .._io import asynchronous as io

CHUNK = 256 << 10
#: Bytes of a stream that one request sends, and that are kept until the service has them.
PIECE = 16 << 20


class Source(Protocol):
    #: Bytes in all; None while that is unknown.
    size: int | None

    async def prepare(self, offset: int) -> tuple[int, bool]:
        """Returns how many bytes the next request sends from the offset, and whether they are the last."""

    def body(self, offset: int) -> AsyncIterator[bytes]:
        """Returns these bytes."""


class Bytes:
    def __init__(self, content: bytes) -> None:
        self.size: int | None = len(content)
        self._content = content

    async def prepare(self, offset: int) -> tuple[int, bool]:
        return rest(len(self._content), offset), True

    async def body(self, offset: int) -> AsyncIterator[bytes]:
        for at in range(offset, len(self._content), CHUNK):
            yield self._content[at : at + CHUNK]


class Opened:
    """A file that can be read from anywhere, from its present position on."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._start = file.tell()
        self._size = file.seek(0, os.SEEK_END) - self._start
        self.size: int | None = self._size

    async def prepare(self, offset: int) -> tuple[int, bool]:
        return rest(self._size, offset), True

    async def body(self, offset: int) -> AsyncIterator[bytes]:
        self._file.seek(self._start + offset)
        left = rest(self._size, offset)
        while chunk := await io.run(partial(self._file.read, min(CHUNK, left))):
            if not isinstance(chunk, bytes):
                raise TypeError("the file must be open in binary mode")
            left -= len(chunk)
            yield chunk


class Streamed:
    """A stream that can be read once."""

    size: int | None = None

    def __init__(self, source: Iterable[bytes] | AsyncIterable[bytes]) -> None:
        self._chunks = io.chunks_of(source)
        self._kept = bytearray()
        self._from = 0
        self._ended = False

    async def prepare(self, offset: int) -> tuple[int, bool]:
        while not self._ended and self._from + len(self._kept) <= offset + PIECE:
            chunk = await io.next_of(self._chunks)
            if chunk is None:
                self._ended = True
                self.size = self._from + len(self._kept)
            else:
                self._kept += chunk
            # What the service has is not needed again.
            done = min(max(0, offset - self._from), len(self._kept))
            del self._kept[:done]
            self._from += done
        left = rest(self._from + len(self._kept), offset)
        return min(left, PIECE), self._ended and left <= PIECE

    async def body(self, offset: int) -> AsyncIterator[bytes]:
        begin = offset - self._from
        end = min(len(self._kept), begin + PIECE)
        for at in range(begin, end, CHUNK):
            yield bytes(self._kept[at : min(at + CHUNK, end)])


def rest(size: int, offset: int) -> int:
    if offset > size:
        raise ValueError(f"the service has {offset} bytes of a file that has {size}: it is another file")
    return size - offset
