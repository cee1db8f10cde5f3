"""A round through the API with the models of datamodel-code-generator, over httpx."""

import json
import os
import time
from pathlib import Path
from typing import TypeVar

import httpx
from models import (
    ErrorEnvelope,
    Job,
    PhotoSwapSubmit,
    Session,
    Submitted,
    Upload,
    VoiceSwapOpen,
    VoiceSwapSession,
)
from pydantic import BaseModel, TypeAdapter

api = httpx.Client(
    base_url=os.environ["API_URL"],
    headers={"Authorization": f"Bearer {os.environ['API_KEY']}"},
    timeout=60,
)
Model = TypeVar("Model", bound=BaseModel)


def post(path: str, body: BaseModel) -> httpx.Response:
    return api.post(path, json=body.model_dump(mode="json", exclude_none=True))


def taken(answer: httpx.Response, model: type[Model]) -> Model:
    assert answer.status_code == 200, answer.text
    return model.model_validate_json(answer.content, strict=True)


def refused(answer: httpx.Response) -> str:
    assert answer.status_code >= 400, answer.text
    return ErrorEnvelope.model_validate_json(answer.content, strict=True).error.code


def key_of(name: str, mime_type: str) -> str:
    file = (name, Path(name).read_bytes(), mime_type)
    return taken(api.post("/uploads", files={"file": file}), Upload).file_key


image_key = key_of("base.jpg", "image/jpeg")
face_key = key_of("face.png", "image/png")
submitted = taken(post("/face-swap-image", PhotoSwapSubmit(image_key=image_key, face_key=face_key)), Submitted)
while True:
    time.sleep(1)
    job = taken(api.get(f"/jobs/{submitted.id}"), Job)
    if job.status.root in ("succeeded", "failed") and job.charged_usd is not None:
        break
output = httpx.get(str(job.output_url))

refusals = [
    refused(post("/face-swap-image", PhotoSwapSubmit(image_key="api/nothing", face_key=face_key))),
    refused(api.get("/jobs/job-unknown")),
]

opened = taken(post("/voice/session", VoiceSwapOpen(duration_minutes=1)), VoiceSwapSession)
answer = api.get("/sessions", params={"open": "true", "limit": 1})
sessions = TypeAdapter(list[Session]).validate_json(answer.content, strict=True)
listed = [session.status.root for session in sessions if session.session_id == opened.session_id]
ended = taken(api.delete(f"/sessions/{opened.session_id}"), Session)

print(
    json.dumps(
        {
            "job": {
                "status": job.status.root,
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
