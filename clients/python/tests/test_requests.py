"""Errors, repeats, idempotency keys and pages, in front of a server that misbehaves."""

from __future__ import annotations

import email.utils
import json
import time
import unittest

from misbehaving import KEY, Answer, Asyncio, Got, Halves, refusal

import semblance
from semblance import errors

SWAP = {"image_key": "api/a", "face_key": "api/b"}
QUEUED = Answer(200, {"id": "job-1", "status": "queued", "status_url": "/api/v1/jobs/job-1"})


class Requests(Halves):
    def refused(self, kind: type[BaseException], *answers: Answer, call=lambda c: c.get_balance(), **options):
        server = self.server(*answers)
        with self.assertRaises(kind) as caught:
            self.do(server, call, **options)
        return server, caught.exception

    def test_every_code_has_its_class(self) -> None:
        for code, kind in errors.ERRORS.items():
            with self.subTest(code):
                _, error = self.refused(kind, refusal(400, code), max_retries=0)
                self.assertEqual((type(error), error.code, error.status), (kind, code, 400))
                self.assertEqual((error.message, error.request_id), ("No.", "req-1"))

    def test_an_unknown_code_and_an_answer_of_a_proxy_are_api_errors(self) -> None:
        for answer, code in (
            (refusal(418, "teapot"), "teapot"),
            (Answer(404, b"<html>"), "unknown"),
            (Answer(404, [1]), "unknown"),
            (Answer(404, {"error": "no"}), "unknown"),
            (Answer(404, {"error": {"code": 7, "message": None}}), "unknown"),
            (Answer(302, b"", {"Location": "http://elsewhere.invalid/"}), "unknown"),
        ):
            with self.subTest(answer):
                server, error = self.refused(errors.APIError, answer)
                self.assertEqual((error.code, len(server.got)), (code, 1))

    def test_a_good_answer_that_is_no_json_is_an_error(self) -> None:
        self.refused(semblance.SemblanceError, Answer(200, b"{"))

    def test_retry_after_is_obeyed_in_both_forms(self) -> None:
        for form, least in (("1", 1.0), ("date", 0.9)):
            with self.subTest(form):
                form = form if form == "1" else email.utils.formatdate(time.time() + 2, usegmt=True)
                server = self.server(refusal(429, "rate_limited", form), Answer(200, {"balance_usd": 1}))
                began = time.monotonic()
                self.assertEqual(self.do(server, lambda c: c.get_balance()), {"balance_usd": 1})
                self.assertGreaterEqual(time.monotonic() - began, least)

    def test_a_wait_of_minutes_is_left_to_the_caller(self) -> None:
        server, error = self.refused(errors.AtCapacityError, refusal(429, "at_capacity", "900"))
        self.assertEqual((error.retry_after, len(server.got)), (900.0, 1))

    def test_repeats_end(self) -> None:
        server, _ = self.refused(errors.InternalError, refusal(502, "internal_error"), max_retries=2)
        self.assertEqual(len(server.got), 3)

    def test_repeats_of_a_submit_have_one_key(self) -> None:
        answers = (
            Answer(cut_request=1 << 20),
            Answer(200, b'{"id": "job', cut=3),
            refusal(502, "internal_error"),
            QUEUED,
        )
        server = self.server(*answers)
        submitted = self.do(server, lambda c: c.submit("face-swap-image", **SWAP))
        self.assertEqual(submitted["id"], "job-1")
        self.assertEqual([json.loads(got.body) for got in server.got], [SWAP] * 4)
        keys = {got.headers["idempotency-key"] for got in server.got}
        self.assertEqual([len(key) for key in keys], [36])
        second = self.server(QUEUED)
        self.do(second, lambda c: c.submit("face-swap-image", idempotency_key="mine", **SWAP))
        self.do(second, lambda c: c.submit_batch(items=[{"capability": "face-swap-image", **SWAP}]))
        own, other = (got.headers["idempotency-key"] for got in second.got)
        self.assertEqual(own, "mine")
        self.assertNotIn(other, {own, *keys})

    def test_a_submit_that_stays_unanswered_tells_its_key(self) -> None:
        server, error = self.refused(
            semblance.ConnectionFailed,
            Answer(cut_request=0),
            call=lambda c: c.submit("face-swap-image", **SWAP),
            max_retries=1,
        )
        self.assertEqual(error.idempotency_key, server.got[0].headers["idempotency-key"])

    def test_what_must_not_be_done_twice_is_repeated_only_when_it_was_refused(self) -> None:
        def call(client):
            return client.create_key(name="shop")

        server, _ = self.refused(errors.InternalError, refusal(502, "internal_error"), call=call)
        self.assertEqual(len(server.got), 1)
        server, _ = self.refused(semblance.ConnectionFailed, Answer(cut_request=0), call=call)
        self.assertEqual(len(server.got), 1)
        server = self.server(refusal(429, "rate_limited", "0"), Answer(201, {"key_id": "key-1"}))
        self.assertEqual(self.do(server, call), {"key_id": "key-1"})

    def test_capacity_of_sessions_is_left_to_the_caller_unless_the_service_says_when(self) -> None:
        def call(client):
            return client.open_voice_swap()

        server, _ = self.refused(errors.CapacityWarmingError, refusal(502, "capacity_warming"), call=call)
        self.assertEqual(len(server.got), 1)
        server = self.server(refusal(502, "capacity_warming", "0"), Answer(200, {"session_id": "ses-1"}))
        self.assertEqual(self.do(server, call), {"session_id": "ses-1"})

    def test_nobody_listens(self) -> None:
        server = self.server(QUEUED)
        server.close()
        with self.assertRaises(semblance.ConnectionFailed):
            self.do(server, lambda c: c.create_key(), max_retries=1)

    def test_pages_follow_each_other(self) -> None:
        def decide(got: Got) -> Answer:
            if "/batches" in got.path:
                at = 2 if "from_index=2" in got.path else 0
                return Answer(200, {"jobs": [{"index": at}, {"index": at + 1}], "next_index": None if at else 2})
            if "/usage" in got.path:
                return Answer(200, [] if "to=" in got.path else [{"id": "1", "created_at": "2026-01-01T00:00:00Z"}])
            last = "cursor=b" in got.path
            return Answer(200, {"jobs": [{"id": "2" if last else "1"}], "next_cursor": None if last else "b"})

        server = self.server(decide=decide)
        jobs = self.do(server, lambda c: c.iterate_jobs(status="failed", from_="2026-01-01", limit=1))
        self.assertEqual([job["id"] for job in jobs], ["1", "2"])
        paths = ["/api/v1/jobs?status=failed&from=2026-01-01&limit=1" + end for end in ("", "&cursor=b")]
        self.assertEqual([got.path for got in server.got], paths)
        jobs = self.do(server, lambda c: c.iterate_batch_jobs("bat-1"))
        self.assertEqual([job["index"] for job in jobs], [0, 1, 2, 3])
        self.assertEqual([entry["id"] for entry in self.do(server, lambda c: c.iterate_usage())], ["1"])
        self.assertIn("to=2026-01-01T00%3A00%3A00Z", server.got[-1].path)

    def test_an_id_stays_one_segment_of_the_path(self) -> None:
        server = self.server(Answer(200, {}))
        self.do(server, lambda c: c.delete_upload("api/up-1"))
        self.do(server, lambda c: c.get_job("../x?y=1#z"))
        self.assertEqual(
            [got.path for got in server.got], ["/api/v1/uploads/api%2Fup-1", "/api/v1/jobs/..%2Fx%3Fy%3D1%23z"]
        )
        for wrong in ("", ".", "..", None, 7):
            with self.assertRaises(ValueError):
                self.do(server, lambda c, wrong=wrong: c.get_job(wrong))
        self.assertEqual(len(server.got), 2)

    def test_the_key_goes_to_the_service_alone(self) -> None:
        server, elsewhere = self.server(Answer(200, {})), self.server(Answer(200, b"bytes"))
        self.do(server, lambda c: c.get_balance())
        self.assertEqual(server.got[0].headers["authorization"], f"Bearer {KEY}")
        stolen = elsewhere.base + "/resumable-uploads/up-1"
        with self.assertRaises(ValueError):
            self.do(server, lambda c: c.upload(b"x", resume_url=stolen))
        self.assertEqual(elsewhere.got, [])
        for key in ("", "a b", "a\nb", "ключ"):
            with self.assertRaises(ValueError) as caught:
                semblance.Semblance(key, server.base)
            self.assertNotIn(key or "?", str(caught.exception))
        for base in ("", "example.com", "ftp://example.com", "/api/v1"):
            with self.assertRaises(ValueError):
                semblance.Semblance(KEY, base)


class RequestsOfAsyncio(Asyncio, Requests):
    pass


if __name__ == "__main__":
    unittest.main()
