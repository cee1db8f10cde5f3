"""A server that answers as a test says, over real sockets; and the two halves of the client in front of it."""

from __future__ import annotations

import asyncio
import json
import threading
import unittest
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from unittest import mock

from semblance import AsyncSemblance, Semblance

KEY = "sk_test"


class Got(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """What the server does: `cut` ends the connection after so many bytes of the body."""

    status: int = 200
    body: Any = b""
    headers: dict[str, str] = {}
    cut: int | None = None
    #: Ends the connection after so many bytes of the request's body, without an answer.
    cut_request: int | None = None
    #: Called with the bytes that were received.
    then: Callable[[bytes], object] | None = None


def refusal(status: int, code: str, retry_after: str | None = None) -> Answer:
    headers = {"Request-Id": "req-1", **({"Retry-After": retry_after} if retry_after else {})}
    return Answer(status, {"error": {"code": code, "message": "No."}}, headers)


class Misbehaving:
    """Answers each request with what `decide` returns, or with the next of a list; the last one stays."""

    def __init__(self, *answers: Answer, decide: Callable[[Got], Answer] | None = None) -> None:
        self.got: list[Got] = []
        todo = list(answers)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(this) -> None:
                length = int(this.headers.get("Content-Length") or 0)
                headers = {name.lower(): value for name, value in this.headers.items()}
                early = Got(this.command, this.path, headers, b"")
                answer = decide(early) if decide else todo[0] if len(todo) == 1 else todo.pop(0)
                wanted = length if answer.cut_request is None else min(length, answer.cut_request)
                body = this.rfile.read(wanted)
                self.got.append(early._replace(body=body))
                if answer.then:
                    answer.then(body)
                if answer.cut_request is not None:
                    this.close_connection = True
                    return
                this.answer(answer)

            do_GET = do_POST = do_PATCH = do_HEAD = do_DELETE = handle_any

            def answer(this, answer: Answer) -> None:
                content = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                headers = {"Content-Type": "application/json", "Content-Length": str(len(content)), **answer.headers}
                this.send_response(answer.status)
                for name, value in headers.items():
                    if not (answer.status == 204 and name.startswith("Content-")):
                        this.send_header(name, value)
                this.end_headers()
                if this.command != "HEAD" and answer.status != 204:
                    this.wfile.write(content[: answer.cut])
                if answer.cut is not None:
                    this.close_connection = True

            def log_message(this, *_: object) -> None:
                """Prints nothing for each request."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self._server.server_address[1]}/api/v1"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Halves(unittest.TestCase):
    """Runs a test through the client that blocks, and in a subclass through that of asyncio."""

    def setUp(self) -> None:
        # Waits that the service does not ask for are short.
        for name, seconds in (
            ("_answers.FIRST_WAIT", 0.05),
            ("_async.jobs.FIRST_POLL", 0.05),
            ("_sync.jobs.FIRST_POLL", 0.05),
        ):
            patch = mock.patch(f"semblance.{name}", seconds)
            patch.start()
            self.addCleanup(patch.stop)

    def server(self, *answers: Answer, decide: Callable[[Got], Answer] | None = None) -> Misbehaving:
        server = Misbehaving(*answers, decide=decide)
        self.addCleanup(server.close)
        return server

    def do(self, server: Misbehaving, call: Callable[[Any], Any], **options: Any) -> Any:
        """Returns what a call returns, or a list of what it yields."""
        with Semblance(KEY, server.base, **options) as client:
            result = call(client)
            return list(result) if hasattr(result, "__next__") else result


class Asyncio:
    def do(self, server: Misbehaving, call: Callable[[Any], Any], **options: Any) -> Any:
        async def run() -> Any:
            async with AsyncSemblance(KEY, server.base, **options) as client:
                result = call(client)
                return [each async for each in result] if hasattr(result, "__anext__") else await result

        return asyncio.run(run())
