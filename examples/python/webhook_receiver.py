"""Receives webhooks: SECRET=… webhook_receiver.py PORT. The secret is the account's, as the service showed it."""

import hashlib
import hmac
import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_AGE_SEC = 300
MAX_BYTES = 1 << 20
# Ids of the deliveries already handled. A real service keeps them in its database, because a delivery may come again
# after a restart.
taken: set[str] = set()


def is_signed(header: str, body: bytes) -> bool:
    """Returns whether the header signs exactly these bytes at the present time.

    While a secret is replaced, the next one signs in a header of its own, so a receiver may change its secret at any
    time before the next one is promoted.
    """
    parts = [part.partition("=")[::2] for part in header.split(",")]
    sent = next((value for name, value in parts if name == "t"), "")
    if not (sent.isascii() and sent.isdigit()) or abs(time.time() - int(sent)) > MAX_AGE_SEC:
        return False
    wanted = hmac.new(os.environ["SECRET"].encode(), sent.encode() + b"." + body, hashlib.sha256).hexdigest()
    return any(name == "v1" and hmac.compare_digest(value.encode(), wanted.encode()) for name, value in parts)


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        if length > MAX_BYTES:
            return self.answer(413)
        body = self.rfile.read(length)
        signatures = [self.headers.get(name, "") for name in ("Service-Signature", "Service-Signature-Next")]
        if not any(is_signed(signature, body) for signature in signatures):
            return self.answer(401)
        # Answer before you process: a delivery that takes more than 10 s counts as failed and is sent again.
        self.answer(204)
        told = json.loads(body)
        if told["delivery_id"] in taken:
            return
        taken.add(told["delivery_id"])
        job = told["data"]
        line = {"event": told["event"], "delivery_id": told["delivery_id"], "job": job["id"], "status": job["status"]}
        print(json.dumps(line), flush=True)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Prints nothing for each request."""


if len(sys.argv) != 2 or not sys.argv[1].isdigit() or not os.environ.get("SECRET"):
    sys.exit("usage: SECRET=… webhook_receiver.py PORT")
server = ThreadingHTTPServer(("", int(sys.argv[1])), Receiver)
print(f"listening on {server.server_address[1]}", flush=True)
server.serve_forever()
