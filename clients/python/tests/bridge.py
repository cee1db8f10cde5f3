"""Makes the requests of the conformance suite by the client: bridge.py OPENAPI.json.

A request that a method of the client can express is made by that method; any other, such as one with a broken body, by
`request`, with the key, errors and connections of the client. What the client returns or raises is compared with what
came over the wire. GET answers how often each was used.
"""

from __future__ import annotations

import base64
import collections
import inspect
import json
import re
import sys
import threading
import traceback
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from semblance import APIError, Semblance

used: collections.Counter[str] = collections.Counter()
came = threading.local()
clients: dict[tuple[str, str], Semblance] = {}
lock = threading.Lock()


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", r"_\1", name).lower()


#: Method, pattern of the path, and name of the operation.
OPERATIONS = [
    (
        method.upper(),
        re.compile(re.sub(r"\{(\w+)\}", r"([^/?]+)", path) + r"(?:\?(.*))?$"),
        path,
        snake(operation["operationId"]),
    )
    for path, item in json.loads(Path(sys.argv[1]).read_text())["paths"].items()
    for method, operation in item.items()
    if method != "servers"
]


def client_of(base_url: str, api_key: str) -> Semblance:
    with lock:
        if (base_url, api_key) not in clients:
            http = httpx.Client(
                event_hooks={"response": [lambda response: setattr(came, "response", response)]},
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            )
            # The suite looks at each refusal itself.
            clients[base_url, api_key] = Semblance(api_key, base_url, max_retries=0, http_client=http)
        return clients[base_url, api_key]


class Inexpressible(Exception):
    """No method of the client makes such a request."""


def by_method(client: Semblance, asked: dict[str, Any], body: bytes | None) -> Any:
    headers = {name.lower(): value for name, value in asked["headers"].items()}
    key = headers.pop("idempotency-key", None)
    content_type = headers.pop("content-type", "application/json")
    if headers:
        raise Inexpressible
    if asked["method"] == "POST" and asked["path"] == "/uploads":
        return by_upload(client, content_type, body or b"")
    method, pattern, path, name = operation_of(asked)
    match = pattern.match(asked["path"])
    assert match is not None
    *ids, query = match.groups()
    fields = fields_of(content_type, body)
    arguments: list[Any] = [urllib.parse.unquote(id) for id in ids]
    if path[1:] in ("character-swap", "face-swap", "face-swap-image", "motion-control", "avatar", "lip-sync"):
        name, arguments = "submit", [path[1:]]
    function = getattr(client, name, None)
    if function is None or any(id in ("", ".", "..") for id in arguments):
        raise Inexpressible
    parameters = inspect.signature(function).parameters
    if "body" in parameters and parameters["body"].kind is not inspect.Parameter.VAR_KEYWORD:
        arguments.append(fields)
        fields = {}
    given = {**query_of(query), **({"idempotency_key": key} if key is not None else {})}
    taken = {parameter for parameter, each in parameters.items() if each.kind is inspect.Parameter.KEYWORD_ONLY}
    open_ended = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    if set(given) - taken or set(fields) & taken or (fields and not open_ended) or key == "" or "capability" in fields:
        raise Inexpressible
    used[name] += 1
    return function(*arguments, **given, **fields)


def operation_of(asked: dict[str, Any]) -> tuple[str, re.Pattern[str], str, str]:
    for operation in OPERATIONS:
        if operation[0] == asked["method"] and operation[1].match(asked["path"]):
            return operation
    raise Inexpressible


def fields_of(content_type: str, body: bytes | None) -> dict[str, Any]:
    if body is None:
        return {}
    try:
        # A name that comes twice, and numbers that Python writes in another form, stay as they were sent.
        fields = json.loads(body)
        same = content_type == "application/json" and json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, RecursionError):
        raise Inexpressible from None
    if not isinstance(fields, dict) or not same or same.encode("utf-8", "surrogatepass") != body:
        raise Inexpressible
    return fields


def query_of(query: str | None) -> dict[str, str]:
    pairs = urllib.parse.parse_qsl(query or "", keep_blank_values=True)
    if len(dict(pairs)) != len(pairs):
        raise Inexpressible
    return {name + ("_" if name in ("from", "for") else ""): value for name, value in pairs}


def by_upload(client: Semblance, content_type: str, body: bytes) -> Any:
    """Uploads the file of a form as the suite writes it, if it is a whole one."""
    form = re.fullmatch(
        rb'--(\S+)\r\nContent-Disposition: form-data; name="file"; filename="([^"\r\n]+)"\r\n'
        rb"Content-Type: (\S+)\r\n\r\n(.*)\r\n--\1--\r\n",
        body,
        re.DOTALL,
    )
    if form is None or not content_type.startswith("multipart/form-data"):
        raise Inexpressible
    boundary, name, kind, content = form.groups()
    if b"--" + boundary in content:
        # The form has further parts.
        raise Inexpressible
    used["upload"] += 1
    return client.upload(content, filename=name.decode("latin1"), content_type=kind.decode("latin1"))


def ask(asked: dict[str, Any]) -> httpx.Response:
    client = client_of(asked["baseUrl"], asked["apiKey"])
    body = None if asked["body"] is None else base64.b64decode(asked["body"])
    came.response = None
    try:
        try:
            returned = by_method(client, asked, body)
        except Inexpressible:
            used["request"] += 1
            headers = {name: value for name, value in asked["headers"].items()}
            returned = client.request(asked["method"], asked["path"], repeatable=False, headers=headers, content=body)
    except APIError as refusal:
        response = came.response
        error = (
            response.json()["error"] if refusal.code != "unknown" else {"code": "unknown", "message": refusal.message}
        )
        wire = (response.status_code, error["code"], error["message"])
        assert (refusal.status, refusal.code, refusal.message) == wire, (str(refusal), response.content)
        assert refusal.request_id == response.headers.get("request-id"), refusal.request_id
        return response
    response = came.response
    if not isinstance(returned, httpx.Response):
        good = returned in (None, response.content) or returned == response.json()
        assert good, (returned, response.content)
    return response


class Bridge(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            response = ask(asked)
            headers = [pair for pair in response.headers.multi_items() if pair[0] != "content-encoding"]
            content = base64.b64encode(response.content).decode()
            self.answer(200, {"status": response.status_code, "headers": headers, "body": content})
        except Exception:
            self.answer(500, {"asked": f"{asked['method']} {asked['path']}", "error": traceback.format_exc()})

    def do_GET(self) -> None:
        self.answer(200, dict(used))

    def answer(self, status: int, told: object) -> None:
        content = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Prints nothing for each request."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


server = Server(("127.0.0.1", 0), Bridge)
print(f"http://127.0.0.1:{server.server_address[1]}", flush=True)
server.serve_forever()
