from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

sleep = asyncio.sleep


async def run(function: Callable[[], T]) -> T:
    """Runs what blocks, such as reading a file, beside the event loop."""
    return await asyncio.to_thread(function)


async def chunks_of(source: Iterable[bytes] | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(source, AsyncIterable):
        async for chunk in source:
            yield chunk
        return
    iterator = iter(source)

    def following() -> bytes | None:
        return next(iterator, None)

    while (found := await run(following)) is not None:
        yield found


async def next_of(chunks: AsyncIterator[bytes]) -> bytes | None:
    try:
        return await chunks.__anext__()
    except StopAsyncIteration:
        return None
