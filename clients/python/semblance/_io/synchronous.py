from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

sleep = time.sleep


def run(function: Callable[[], T]) -> T:
    return function()


def chunks_of(source: Iterable[bytes]) -> Iterator[bytes]:
    return iter(source)


def next_of(chunks: Iterator[bytes]) -> bytes | None:
    return next(chunks, None)
