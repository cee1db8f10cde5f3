"""Jobs: wait for them by their events, or by polling where no events come."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import cast

import httpx

from .._answers import error_of
from .._events import EventParser, JobEvent
from .._io import asynchronous as io
from ..errors import (
    APIError,
    ConnectionFailed,
    ForbiddenError,
    JobFailed,
    NotFoundError,
    UnauthorizedError,
    WaitTimeout,
)
from ..types import Job
from .transport import Transport, segment

OnEvent = Callable[[JobEvent], object]
ENDED = ("succeeded", "failed")
#: The service sends something every 15 s; a stream that is silent for longer is broken, or held back by a proxy.
LONGEST_SILENCE = 40.0
#: Streams in a row that bring nothing, before the job is polled.
FRUITLESS_STREAMS = 2
FIRST_POLL, LONGEST_POLL = 1.0, 5.0
#: Longest time without any answer, in seconds.
LONGEST_OUTAGE = 300.0
# They do not change by waiting.
FINAL = (NotFoundError, UnauthorizedError, ForbiddenError)


class Jobs(Transport):
    async def wait(self, job_id: str, *, timeout: float | None = None, on_event: OnEvent | None = None) -> Job:
        """Waits until a job has succeeded, and returns it.

        :param timeout: seconds, looked at whenever the service sends something, which it does every 15 s at least
        :param on_event: called with each change, such as the progress
        :raises JobFailed: it failed, or was cancelled
        :raises WaitTimeout: it has not ended in time, and goes on
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        async with aclosing(self._follow(job_id, deadline)) as events:
            async for event in events:
                if on_event is not None:
                    on_event(event)
                if has_ended(event):
                    job = cast(Job, event.data)
                    if job["status"] == "failed":
                        raise JobFailed(job)
                    return job
        raise WaitTimeout(job_id)

    async def follow(self, job_id: str) -> AsyncGenerator[JobEvent, None]:
        """Goes through the changes of a job until it has ended."""
        async with aclosing(self._follow(job_id, None)) as events:
            async for event in events:
                yield event

    async def _follow(self, job_id: str, deadline: float | None) -> AsyncGenerator[JobEvent, None]:
        parser = EventParser()
        fruitless = 0
        while fruitless < FRUITLESS_STREAMS:
            brought = False
            parser.restart()
            try:
                async with aclosing(self._stream(job_id, parser, deadline)) as chunks:
                    async for chunk in chunks:
                        brought = True
                        for event in parser.feed(chunk):
                            yield event
                            if has_ended(event):
                                return
                        if is_over(deadline):
                            return
            except FINAL:
                raise
            except (APIError, httpx.RequestError):
                # Polling finds out what is wrong, if anything is.
                pass
            if is_over(deadline):
                return
            fruitless = 0 if brought else fruitless + 1
            await io.sleep(within(deadline, parser.retry))
        async with aclosing(self._poll(job_id, deadline)) as events:
            async for event in events:
                yield event

    async def _stream(self, job_id: str, parser: EventParser, deadline: float | None) -> AsyncGenerator[bytes, None]:
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity"}
        if parser.last_id is not None:
            headers["Last-Event-ID"] = parser.last_id
        url = self.address_of(f"/jobs/{segment(job_id)}/events")
        async with self._send("GET", url, headers=headers, timeout=within(deadline, LONGEST_SILENCE)) as response:
            if response.status_code != 200 or "text/event-stream" not in response.headers.get("content-type", ""):
                raise error_of(response, await response.aread())
            async for chunk in response.aiter_raw():
                yield chunk

    async def _poll(self, job_id: str, deadline: float | None) -> AsyncGenerator[JobEvent, None]:
        pause, status, answered = FIRST_POLL, None, time.monotonic()
        while not is_over(deadline):
            try:
                job = cast(Job, await self._call("GET", f"/jobs/{segment(job_id)}"))
            except FINAL:
                raise
            except (APIError, ConnectionFailed):
                if time.monotonic() - answered > LONGEST_OUTAGE:
                    raise
            else:
                answered = time.monotonic()
                if job["status"] != status:
                    status = job["status"]
                    yield JobEvent("status", job)
                if status in ENDED:
                    return
            await io.sleep(within(deadline, pause))
            pause = min(LONGEST_POLL, pause * 1.5)


def has_ended(event: JobEvent) -> bool:
    return event.event == "status" and event.data.get("status") in ENDED


def is_over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


def within(deadline: float | None, seconds: float) -> float:
    """Returns the seconds, or what is left until the deadline."""
    return seconds if deadline is None else max(0.01, min(seconds, deadline - time.monotonic()))
