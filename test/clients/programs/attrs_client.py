"""A round through the API with the client of openapi-python-client."""

import json
import os
import time
from io import BytesIO
from pathlib import Path

import httpx
from client import AuthenticatedClient
from client.api.jobs import get_job, submit_photo_swap
from client.api.sessions import end_session, list_sessions, open_voice_swap
from client.api.uploads import upload
from client.models import (
    ErrorEnvelope,
    Job,
    ListSessionsOpen,
    PhotoSwapSubmit,
    Session,
    Submitted,
    Upload,
    UploadForm,
    VoiceSwapOpen,
    VoiceSwapSession,
)
from client.types import File

client = AuthenticatedClient(base_url=os.environ["API_URL"], token=os.environ["API_KEY"])


def key_of(name: str, mime_type: str) -> str:
    file = File(payload=BytesIO(Path(name).read_bytes()), file_name=name, mime_type=mime_type)
    answer = upload.sync(client=client, body=UploadForm(file=file))
    assert isinstance(answer, Upload), answer
    return answer.file_key


image_key = key_of("base.jpg", "image/jpeg")
face_key = key_of("face.png", "image/png")
submitted = submit_photo_swap.sync(
    client=client,
    body=PhotoSwapSubmit(image_key=image_key, face_key=face_key),
    idempotency_key="one",
)
assert isinstance(submitted, Submitted), submitted
while True:
    time.sleep(1)
    job = get_job.sync(submitted.id, client=client)
    assert isinstance(job, Job), job
    if job.status in ("succeeded", "failed") and job.charged_usd is not None:
        break
assert job.output_url is not None, job.error
output = httpx.get(job.output_url)

invalid = submit_photo_swap.sync(
    client=client, body=PhotoSwapSubmit(image_key="api/nothing", face_key=face_key)
)
unknown = get_job.sync("job-unknown", client=client)
refusals = [
    answer.error.code if isinstance(answer, ErrorEnvelope) else None for answer in (invalid, unknown)
]

opened = open_voice_swap.sync(client=client, body=VoiceSwapOpen(duration_minutes=1))
assert isinstance(opened, VoiceSwapSession), opened
sessions = list_sessions.sync(client=client, open_=ListSessionsOpen("true"), limit=1)
assert isinstance(sessions, list), sessions
listed = [session.status for session in sessions if session.session_id == opened.session_id]
ended = end_session.sync(opened.session_id, client=client)
assert isinstance(ended, Session), ended

print(
    json.dumps(
        {
            "job": {
                "status": job.status,
                "charged_usd": job.charged_usd,
                "output": output.headers["content-type"].split("/")[0],
            },
            "refusals": refusals,
            "session": {
                "opened": len(opened.session_token) > 0 and opened.max_duration_sec == 60,
                "listed": listed[0],
                "ended": ended.session_id == opened.session_id,
            },
        }
    )
)
