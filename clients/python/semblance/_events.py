"""Server-sent events, parsed as the HTML standard says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .errors import SemblanceError

#: Most bytes of one event. A job record has some KiB.
MAX_EVENT_BYTES = 1 << 20


class JobEvent(NamedTuple):
    """A change of a job: `status` with the job record, `progress`, or `queue`."""

    event: str
    data: Mapping[str, Any]


class EventParser:
    """Parses the bytes of a stream. Keeps the last id and the wait before reconnecting."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        self.retry = 1.0
        self._rest = b""
        self._fields: dict[str, list[str]] = {}

    def restart(self) -> None:
        """Forgets an event that the end of a stream cut off."""
        self._rest, self._fields = b"", {}

    def feed(self, chunk: bytes) -> Iterator[JobEvent]:
        self._rest += chunk
        if len(self._rest) > MAX_EVENT_BYTES:
            raise SemblanceError("an event of the job is larger than 1 MiB")
        while True:
            line, end, rest = self._next_line()
            if not end:
                return
            self._rest = rest
            if line:
                self._field(line.decode("utf-8", "replace"))
            elif (event := self._dispatch()) is not None:
                yield event

    def _next_line(self) -> tuple[bytes, bytes, bytes]:
        ends = [at for at in (self._rest.find(b"\n"), self._rest.find(b"\r")) if at >= 0]
        if not ends:
            return b"", b"", self._rest
        at = min(ends)
        end = self._rest[at : at + 1]
        if end == b"\r":
            if at + 1 == len(self._rest):
                # A line feed may follow in the next chunk.
                return b"", b"", self._rest
            if self._rest[at + 1 : at + 2] == b"\n":
                end = b"\r\n"
        return self._rest[:at], end, self._rest[at + len(end) :]

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        self._fields.setdefault(name, []).append(value.removeprefix(" "))

    def _dispatch(self) -> JobEvent | None:
        fields, self._fields = self._fields, {}
        if "id" in fields and "\0" not in fields["id"][-1]:
            self.last_id = fields["id"][-1]
        if (retry := fields.get("retry", [""])[-1]).isascii() and retry.isdigit():
            self.retry = max(0.2, min(30.0, int(retry[:9]) / 1000))
        if "data" not in fields:
            return None
        try:
            data = json.loads("\n".join(fields["data"]))
        except ValueError:
            raise SemblanceError("an event of the job is no JSON") from None
        return JobEvent(fields.get("event", ["message"])[-1], data) if isinstance(data, dict) else None
