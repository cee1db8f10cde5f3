"""A round through a running stack: API_URL and API_KEY in the environment, base.jpg and face.png in the folder."""

from __future__ import annotations

import json
import os
import queue
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from semblance import InvalidInputError, JobEvent, JobFailed, NotFoundError, Semblance, verify_webhook

calls: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()


class Receiver(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(204)
        self.end_headers()
        calls.put((dict(self.headers), body))

    def log_message(self, *_: object) -> None:
        """Prints nothing for each request."""


receiver = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=receiver.serve_forever, daemon=True).start()
callback_url = f"http://127.0.0.1:{receiver.server_address[1]}/hook"


def delivered(secret: str) -> list[str]:
    """Returns what the next webhook tells, and the names of its headers with a signature."""
    headers, body = calls.get(timeout=60)
    told = verify_webhook(body, headers, secret)
    return [told["event"], str(told["data"].get("id")), *sorted(name for name in headers if "Service-Sig" in name)]


def main(client: Semblance) -> dict[str, object]:
    image_key = client.upload("base.jpg")["file_key"]
    content = Path("face.png").read_bytes()
    # A stream is a resumable upload.
    stream = (content[at : at + 10_000] for at in range(0, len(content), 10_000))
    face_key = client.upload(stream, filename="face.png")["file_key"]
    secret = client.read_webhook_secret()["secret"]
    events: list[JobEvent] = []
    job = client.submit_and_wait(
        "face-swap-image",
        image_key=image_key,
        face_key=face_key,
        callback_url=callback_url,
        on_event=events.append,
        timeout=100,
    )
    assert job["output_url"] is not None
    client.download(job["output_url"], "out.jpg")
    webhook = delivered(secret)
    assert webhook[:2] == ["job.succeeded", job["id"]], webhook

    following = client.rotate_webhook_secret("begin")["next"]
    assert following is not None and following != secret
    try:
        blank = client.upload(Path("blank.png").read_bytes(), filename="blank.png")["file_key"]
        client.submit_and_wait("face-swap-image", image_key=blank, face_key=face_key, callback_url=callback_url)
        raise AssertionError("a picture without a face succeeded")
    except JobFailed as failure:
        failed = failure
    headers, body = calls.get(timeout=60)
    rotated = [verify_webhook(body, headers, each)["data"].get("id") for each in (secret, following)]

    refusals = []
    try:
        client.submit("face-swap-image", image_key="api/nothing", face_key=face_key)
    except InvalidInputError as refusal:
        refusals.append([refusal.code, refusal.status, bool(refusal.request_id)])
    try:
        client.get_job("job-unknown")
    except NotFoundError as refusal:
        refusals.append([refusal.code, refusal.status, bool(refusal.request_id)])

    batch = client.submit_batch(
        items=[
            {"capability": "face-swap-image", "image_key": image_key, "face_key": face_key},
            {"capability": "face-swap-image", "image_key": image_key, "face_key": face_key},
        ],
        metadata={"album": "1"},
    )
    again = client.submit("face-swap-image", image_key=image_key, face_key=face_key, idempotency_key="one")
    same = client.submit("face-swap-image", image_key=image_key, face_key=face_key, idempotency_key="one")
    for each in client.iterate_batch_jobs(batch["id"], limit=1):
        client.wait(each["id"])
    client.wait(again["id"])
    estimate = client.estimate({"capability": "face-swap-image", "image_key": image_key, "face_key": face_key})
    session = client.open_voice_swap(duration_minutes=1)
    return {
        "job": job["status"],
        "events": [events[0].event, events[-1].event],
        "output": Path("out.jpg").read_bytes()[:3].hex(),
        "failed": [failed.code, failed.job["charged_usd"]],
        "rotated": rotated == [failed.job["id"]] * 2,
        "refusals": refusals,
        "batch": client.read_batch(batch["id"])["status"],
        "jobs": len({entry["id"] for entry in client.iterate_jobs(limit=2)}),
        "usage": len({entry["id"] for entry in client.iterate_usage(limit=2)}),
        "idempotent": again["id"] == same["id"],
        "estimate": estimate["hold_usd"] > 0,
        "session": client.end_session(session["session_id"])["session_id"] == session["session_id"],
        "balance": client.get_balance()["available_usd"] > 0,
    }


if __name__ == "__main__":
    with Semblance(os.environ["API_KEY"], os.environ["API_URL"]) as one:
        print(json.dumps(main(one)))
