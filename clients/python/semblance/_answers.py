"""What answers mean: errors by their code, and how long to wait before a repeat."""

from __future__ import annotations

import email.utils
import json
import random
import time
from typing import Any

import httpx

from .errors import ERRORS, APIError, SemblanceError

#: First and longest wait between two tries without a Retry-After, in seconds.
FIRST_WAIT, LONGEST_BACKOFF = 0.5, 8.0
#: Longest Retry-After that is waited for. The window of the rate limit is a minute.
LONGEST_RETRY_AFTER = 65.0


def retry_after_of(headers: httpx.Headers) -> float | None:
    """Returns the seconds of Retry-After, which is a number or a date."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None


def error_of(response: httpx.Response, body: bytes, idempotency_key: str | None = None) -> APIError:
    code, message = "unknown", f"answered {response.status_code} without an error of the service"
    try:
        error = json.loads(body)["error"]
        if isinstance(error["code"], str) and isinstance(error["message"], str):
            code, message = error["code"], error["message"]
    except (ValueError, KeyError, TypeError):
        # A proxy between answers in a form of its own.
        pass
    return ERRORS.get(code, APIError)(
        code,
        message,
        status=response.status_code,
        request_id=response.headers.get("request-id"),
        retry_after=retry_after_of(response.headers),
        idempotency_key=idempotency_key,
    )


def json_of(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        raise SemblanceError(f"answered {response.status_code} with a body that is no JSON") from None


def backoff(attempt: int) -> float:
    """Returns the seconds before the next try; attempts count from 0. Random, so that clients do not come together."""
    wait = min(LONGEST_BACKOFF, FIRST_WAIT * 2.0 ** min(attempt, 10))
    return wait * random.uniform(0.5, 1.0)


def wait_before_repeat(error: APIError, attempt: int, repeatable: bool) -> float | None:
    """Returns the seconds before a repeat; None when the request is not repeated.

    A request that must not be done twice is repeated only when it was refused: then nothing was done.
    """
    capacity = error.code in ("capacity_unavailable", "capacity_warming")
    refused = error.status == 429 or capacity or error.code == "at_capacity"
    if not refused and not (repeatable and error.status in (500, 502, 503, 504)):
        return None
    if error.retry_after is None:
        # Capacity for a live session takes a minute or more: its caller decides.
        return None if capacity else backoff(attempt)
    if error.retry_after > LONGEST_RETRY_AFTER:
        return None
    # Never earlier than the service asks, and not all clients at once.
    return error.retry_after + random.uniform(0, 0.5)
