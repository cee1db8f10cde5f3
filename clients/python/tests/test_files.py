"""Uploads that break, and downloads."""

from __future__ import annotations

import io
import os
import pathlib
import tempfile
import unittest

from misbehaving import Answer, Asyncio, Got, Halves, refusal

import semblance

BIG = os.urandom(9 << 20)
DONE = Answer(200, {"file_key": "api/up-1", "url": "http://x/"})
AT = "/api/v1/resumable-uploads/up-1"


class Store:
    """Keeps what arrives; `plan` says for each PATCH what goes wrong."""

    def __init__(self, *plan: Answer | None, lag: int = 0) -> None:
        self.plan = list(plan)
        self.kept = b""
        self.lag = lag

    def keep(self, body: bytes) -> None:
        self.kept += body

    def decide(self, got: Got) -> Answer:
        if got.method == "POST":
            return Answer(201, b"", {"Location": AT})
        if got.method == "GET":
            return Answer(204, b"", {"Upload-Offset": str(len(self.kept)), "Upload-Complete": "?0"})
        if int(got.headers["upload-offset"]) != len(self.kept):
            return Answer(409, {}, {"Upload-Offset": str(len(self.kept))})
        planned = self.plan.pop(0) if self.plan else None
        if planned:
            return planned if planned.status != 200 else planned._replace(then=self.keep)
        if got.headers["upload-complete"] == "?1":
            return DONE._replace(then=self.keep)
        end = len(self.kept) + int(got.headers["content-length"])
        return Answer(204, b"", {"Upload-Offset": str(end)}, then=self.keep)


def pieces(content: bytes):
    for at in range(0, len(content), 100_000):
        yield content[at : at + 100_000]


class NoSeek(io.BytesIO):
    def seekable(self) -> bool:
        return False


class Files(Halves):
    def upload(self, store: Store, source, **options):
        server = self.server(decide=store.decide)
        return server, self.do(server, lambda c: c.upload(source, **options))

    def test_a_small_file_is_one_request_with_its_name_and_type(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "fäce.jpg")
            path.write_bytes(b"\xff\xd8 picture")
            server = self.server(Answer(cut_request=3), refusal(502, "internal_error"), DONE)
            seen: list[tuple[int, int | None]] = []
            for source in (path, str(path), path.read_bytes(), path.open("rb")):
                name = None if not isinstance(source, bytes) else "x.jpg"
                told = self.do(
                    server, lambda c: c.upload(source, filename=name, on_progress=lambda *at: seen.append(at))
                )
                self.assertEqual(told["file_key"], "api/up-1")
                self.assertIn(b"\r\nContent-Type: image/jpeg\r\n\r\n\xff\xd8 picture\r\n", server.got[-1].body)
                if hasattr(source, "close"):
                    source.close()
            self.assertEqual([got.path for got in server.got], ["/api/v1/uploads"] * 6)
            self.assertEqual(seen, [(0, 10), (10, 10)] * 4)

    def test_a_large_file_goes_on_where_the_service_is(self) -> None:
        cut = Answer(200, cut_request=5 << 20)
        for source in (BIG, io.BytesIO(BIG), NoSeek(BIG), list(pieces(BIG)), pieces(BIG)):
            with self.subTest(type(source).__name__):
                store = Store(cut, refusal(502, "internal_error"), cut._replace(cut_request=1 << 20))
                seen: list[tuple[int, int | None]] = []
                server, told = self.upload(store, source, filename="clip.mp4", on_progress=lambda *at: seen.append(at))
                self.assertEqual(told["file_key"], "api/up-1")
                self.assertTrue(store.kept == BIG)
                offsets = [int(got.headers["upload-offset"]) for got in server.got if got.method == "PATCH"]
                self.assertEqual(offsets, [0, 5 << 20, 5 << 20, 6 << 20])
                begin = server.got[0].headers
                self.assertEqual((begin["content-type"], begin["upload-complete"]), ("video/mp4", "?0"))
                self.assertEqual(seen[-1], (len(BIG), len(BIG)))
                self.assertIn((0, len(BIG)), seen)

    def test_a_long_stream_is_sent_in_pieces_and_keeps_one_of_them(self) -> None:
        content = BIG * 5
        # The second piece breaks.
        store = Store(None, Answer(200, cut_request=1 << 20))
        server, _ = self.upload(store, pieces(content))
        self.assertTrue(store.kept == content)
        patches = [got for got in server.got if got.method == "PATCH"]
        self.assertEqual([got.headers["upload-complete"] for got in patches], ["?0", "?0", "?0", "?1"])
        self.assertEqual(max(len(got.body) for got in patches), 16 << 20)
        self.assertNotIn("upload-length", server.got[0].headers)

    def test_an_answer_that_got_lost_is_asked_for_again(self) -> None:
        store = Store(Answer(200, DONE.body, cut=4))
        server, told = self.upload(store, BIG)
        self.assertEqual(told["file_key"], "api/up-1")
        self.assertTrue(store.kept == BIG)
        self.assertEqual((server.got[-1].headers["upload-offset"], server.got[-1].body), (str(len(BIG)), b""))

    def test_another_offset_is_taken_over(self) -> None:
        store = Store()
        store.kept = BIG[: 3 << 20]
        server, _ = self.upload(store, BIG)
        self.assertTrue(store.kept == BIG)
        self.assertEqual([got.method for got in server.got], ["POST", "PATCH", "GET", "PATCH"])

    def test_an_upload_that_stays_broken_can_be_resumed_later(self) -> None:
        store = Store(Answer(200, cut_request=2 << 20), *[Answer(200, cut_request=0)] * 2)
        server = self.server(decide=store.decide)
        with self.assertRaises(semblance.UploadInterrupted) as caught:
            self.do(server, lambda c: c.upload(BIG), max_retries=1)
        error = caught.exception
        self.assertEqual((error.offset, error.resume_url), (2 << 20, server.base + AT.removeprefix("/api/v1")))
        for wrong in (BIG[:100], iter([b"short"])):
            with self.assertRaises(ValueError):
                self.do(server, lambda c, wrong=wrong: c.upload(wrong, resume_url=error.resume_url))
        told = self.do(server, lambda c: c.upload(pieces(BIG), resume_url=error.resume_url))
        self.assertEqual(told["file_key"], "api/up-1")
        self.assertTrue(store.kept == BIG)

    def test_a_refusal_ends_the_upload_at_once(self) -> None:
        store = Store(refusal(400, "unsupported_format"))
        server = self.server(decide=store.decide)
        with self.assertRaises(semblance.UnsupportedFormatError):
            self.do(server, lambda c: c.upload(BIG))
        self.assertEqual([got.method for got in server.got], ["POST", "PATCH"])

    def test_sources_that_are_none(self) -> None:
        server = self.server(Answer(201, b"", {"Location": AT}))
        for wrong in (None, 7, io.StringIO("text"), ["text"]):
            with self.subTest(wrong), self.assertRaises(TypeError):
                self.do(server, lambda c, wrong=wrong: c.upload(wrong))
        with self.assertRaises(FileNotFoundError):
            self.do(server, lambda c: c.upload("/nowhere/at/all.jpg"))

    def test_a_download_is_whole_or_not_there(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "out.jpg")
            busy = refusal(503, "at_capacity", "0")
            server = self.server(Answer(200, b"0123456789", cut=4), busy, Answer(200, b"0123456789"))
            self.do(server, lambda c: c.download(server.base + "/files/x", path))
            self.assertEqual(path.read_bytes(), b"0123456789")
            self.assertEqual({"authorization" in got.headers for got in server.got}, {False})
            broken = self.server(Answer(200, b"abcdefghij", cut=4))
            with self.assertRaises(semblance.ConnectionFailed):
                self.do(broken, lambda c: c.download(broken.base + "/files/x", path), max_retries=1)
            self.assertEqual(path.read_bytes(), b"0123456789")
            self.assertEqual(os.listdir(folder), ["out.jpg"])


class FilesOfAsyncio(Asyncio, Files):
    def test_an_asynchronous_stream_is_a_source(self) -> None:
        async def stream():
            for piece in pieces(BIG):
                yield piece

        store = Store(Answer(200, cut_request=5 << 20))
        self.upload(store, stream())
        self.assertTrue(store.kept == BIG)


if __name__ == "__main__":
    unittest.main()
