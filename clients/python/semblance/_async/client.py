"""The client."""

from __future__ import annotations

from types import TracebackType

from typing_extensions import Self

from .calls import Calls
from .uploads import Uploads


class AsyncSemblance(Calls, Uploads):
    """A client of the v1 API. Use it by `with`, or close it."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
