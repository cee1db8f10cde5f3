"""Swaps a face between two pictures: photo_swap.py BASE.jpg FACE.jpg OUT.jpg, with BASE and KEY in the environment."""

import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path


class Refused(Exception):
    """A refusal by the service, with its message."""


def call(method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> dict:
    request = urllib.request.Request(
        os.environ["BASE"] + path,
        data=body,
        method=method,
        headers={"Authorization": f"Bearer {os.environ['KEY']}", **(headers or {})},
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)
    except urllib.error.HTTPError as refusal:
        error = json.load(refusal)["error"]
        raise Refused(f"{error['code']}: {error['message']}") from None


def upload(path: str) -> str:
    boundary = uuid.uuid4().hex
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{Path(path).name}"\r\n\r\n'
    body = head.encode() + Path(path).read_bytes() + f"\r\n--{boundary}--\r\n".encode()
    answer = call("POST", "/uploads", body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})
    return answer["file_key"]


def finished(job_id: str) -> dict:
    """Waits until the job has ended. A key may make 60 requests a minute."""
    while True:
        job = call("GET", f"/jobs/{job_id}")
        if job["status"] in ("succeeded", "failed"):
            return job
        time.sleep(2)


def main() -> None:
    if len(sys.argv) != 4 or not os.environ.get("BASE") or not os.environ.get("KEY"):
        sys.exit("usage: BASE=… KEY=… photo_swap.py BASE.jpg FACE.jpg OUT.jpg")
    image, face, out = sys.argv[1:]
    swap = {"image_key": upload(image), "face_key": upload(face)}
    # The same Idempotency-Key sent twice makes one job and one charge, so keep it until the answer has come.
    headers = {"Content-Type": "application/json", "Idempotency-Key": str(uuid.uuid4())}
    job_id = call("POST", "/face-swap-image", json.dumps(swap).encode(), headers)["id"]
    print("submitted", job_id)
    job = finished(job_id)
    if job["status"] == "failed":
        sys.exit(f"{job['error']['code']}: {job['error']['message']}")
    # The link is signed, so it needs no key.
    with urllib.request.urlopen(job["output_url"], timeout=60) as response:
        Path(out).write_bytes(response.read())
    print("charged", job["charged_usd"], "USD; written to", out)


try:
    main()
except Refused as refusal:
    sys.exit(str(refusal))
