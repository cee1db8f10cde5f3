"""Waiting for jobs: by events, over breaks, and by polling."""

from __future__ import annotations

import json
import unittest

from misbehaving import Answer, Asyncio, Got, Halves, refusal

import semblance
from semblance._events import EventParser

STREAM = {"Content-Type": "text/event-stream"}


def job(status: str, error: object = None) -> dict[str, object]:
    return {"id": "job-1", "status": status, "output_url": None, "charged_usd": 0, "error": error}


def event(name: str, data: object, id: str = "1") -> bytes:
    return f"id: {id}\nevent: {name}\nretry: 200\ndata: {json.dumps(data)}\n\n".encode()


DONE = job("succeeded")
PROGRESS = {"attempt": 1, "progress": 0.5, "eta_seconds": 1}


class Waiting(Halves):
    def wait(self, *streams: Answer, reads: tuple[Answer, ...] = (), **options):
        todo, answers = list(streams), list(reads)

        def decide(got: Got) -> Answer:
            queue = todo if got.path.endswith("/events") else answers
            return queue[0] if len(queue) == 1 else queue.pop(0)

        server = self.server(decide=decide)
        seen: list[semblance.JobEvent] = []
        return server, seen, lambda: self.do(server, lambda c: c.wait("job-1", on_event=seen.append, **options))

    def test_events_tell_the_progress_and_the_end(self) -> None:
        body = b": heartbeat\n\n" + event("status", job("queued")) + event("progress", PROGRESS) + event("status", DONE)
        server, seen, wait = self.wait(Answer(200, body, STREAM))
        self.assertEqual(wait(), DONE)
        self.assertEqual([name for name, _ in seen], ["status", "progress", "status"])
        self.assertEqual([got.path for got in server.got], ["/api/v1/jobs/job-1/events"])

    def test_a_stream_that_breaks_goes_on_with_its_last_id(self) -> None:
        whole = event("progress", PROGRESS, "7")
        cut = Answer(200, whole + event("status", DONE, "8"), STREAM, cut=len(whole) + 20)
        server, seen, wait = self.wait(cut, Answer(200, event("status", DONE, "9"), STREAM))
        self.assertEqual(wait(), DONE)
        self.assertEqual([name for name, _ in seen], ["progress", "status"])
        self.assertEqual([got.headers.get("last-event-id") for got in server.got], [None, "7"])

    def test_where_no_events_come_the_job_is_polled(self) -> None:
        reads = (Answer(200, job("processing")), refusal(502, "internal_error"), Answer(200, DONE))
        for stream in (
            Answer(200, b"<html>a proxy</html>", {"Content-Type": "text/html"}),
            refusal(502, "internal_error"),
            refusal(429, "at_capacity", "1"),
            Answer(204),
            Answer(200, b"", STREAM),
            Answer(cut_request=0),
        ):
            with self.subTest(stream):
                server, seen, wait = self.wait(stream, reads=reads)
                self.assertEqual(wait(), DONE)
                self.assertEqual([data["status"] for _, data in seen], ["processing", "succeeded"])
                self.assertEqual([got.path for got in server.got[-3:]], ["/api/v1/jobs/job-1"] * 3)

    def test_a_failed_job_raises_its_code(self) -> None:
        failed = job("failed", {"code": "face_not_detected", "message": "None was found."})
        _, _, wait = self.wait(Answer(200, event("status", failed), STREAM))
        with self.assertRaises(semblance.JobFailed) as caught:
            wait()
        self.assertEqual((caught.exception.code, caught.exception.job), ("face_not_detected", failed))

    def test_an_unknown_job_and_a_wrong_key_are_told_at_once(self) -> None:
        for status, code, kind in (
            (404, "not_found", semblance.NotFoundError),
            (401, "unauthorized", semblance.UnauthorizedError),
        ):
            server, _, wait = self.wait(refusal(status, code))
            with self.assertRaises(kind):
                wait()
            self.assertEqual(len(server.got), 1)

    def test_the_time_for_waiting_ends(self) -> None:
        queued = job("queued")
        for stream in (Answer(200, event("status", queued), STREAM), refusal(502, "internal_error")):
            _, _, wait = self.wait(stream, reads=(Answer(200, queued),), timeout=1.5)
            with self.assertRaises(semblance.WaitTimeout) as caught:
                wait()
            self.assertEqual(caught.exception.job_id, "job-1")
            self.assertIsInstance(caught.exception, TimeoutError)

    def test_submit_and_wait(self) -> None:
        def decide(got: Got) -> Answer:
            if got.method == "POST":
                return Answer(200, {"id": "job-1", "status": "queued", "status_url": "/api/v1/jobs/job-1"})
            return Answer(200, event("status", DONE), STREAM)

        server = self.server(decide=decide)
        fields = {"image_key": "api/a", "face_key": "api/b"}
        self.assertEqual(self.do(server, lambda c: c.submit_and_wait("face-swap-image", **fields)), DONE)
        self.assertEqual(server.got[0].path, "/api/v1/face-swap-image")


class WaitingOfAsyncio(Asyncio, Waiting):
    pass


class Parser(unittest.TestCase):
    TEXT = (
        b'\xe2\x80\xa8: c\rid: 1\r\nevent: status\r\ndata: {"a":\r\ndata:1}\r\n\r\nretry: 5000\n'
        b'data\ndata: [1]\n\nevent: x\ndata: {}\n\ndata: {"cut": 1}\n'
    )

    def test_chunks_of_any_size_give_the_same_events(self) -> None:
        for size in (1, 2, 3, 7, 1000):
            parser = EventParser()
            found = [each for at in range(0, len(self.TEXT), size) for each in parser.feed(self.TEXT[at : at + size])]
            self.assertEqual(found, [("status", {"a": 1}), ("x", {})], size)
            self.assertEqual((parser.last_id, parser.retry), ("1", 5.0))

    def test_what_is_no_event_is_an_error(self) -> None:
        for wrong in (b"data: {\n\n", b"x" * (1 << 20) + b"xx"):
            with self.assertRaises(semblance.SemblanceError):
                list(EventParser().feed(wrong))


if __name__ == "__main__":
    unittest.main()
