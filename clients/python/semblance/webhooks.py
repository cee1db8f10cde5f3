"""Webhooks: check that the service sent them."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import cast

from .errors import WebhookVerificationError
from .types import AccountWebhook, JobWebhook

#: Most seconds between the signature and now.
TOLERANCE = 300.0
# While the secret is replaced, the next one signs in a header of its own.
_HEADERS = ("service-signature", "service-signature-next")


def verify_webhook(
    body: bytes, headers: Mapping[str, str], secret: str, *, tolerance: float = TOLERANCE
) -> JobWebhook | AccountWebhook:
    """Returns the webhook of a request.

    `body` is what was received, byte for byte. While the secret is replaced, either one is good.

    :raises WebhookVerificationError: the request is not signed with the secret, or was signed more than
        `tolerance` seconds from now.
    """
    if not secret:
        raise ValueError("the secret is empty")
    if not isinstance(body, (bytes, bytearray, memoryview)):
        raise TypeError("body must be the bytes that were received")
    raw = bytes(body)
    signatures = [value for name, value in headers.items() if name.lower() in _HEADERS]
    if not signatures:
        raise WebhookVerificationError("there is no Service-Signature")
    # All are compared, so that the time tells nothing about which one is right.
    verdicts = [_is_signed(signature, raw, secret.encode()) for signature in signatures]
    signed = [sent for sent, right in verdicts if right]
    if not signed:
        raise WebhookVerificationError("no signature is of this body and this secret")
    if all(abs(time.time() - sent) > tolerance for sent in signed):
        raise WebhookVerificationError(f"it was signed more than {tolerance:g} s from now")
    try:
        told = json.loads(raw)
    except ValueError:
        raise WebhookVerificationError("the body is no JSON") from None
    return cast("JobWebhook | AccountWebhook", told)


def _is_signed(header: str, body: bytes, secret: bytes) -> tuple[int, bool]:
    """Returns the time of a signature `t=<unix seconds>,v1=<hex>`, and whether it is of the body."""
    parts = [part.strip().partition("=")[::2] for part in header.split(",")]
    sent = next((value for name, value in parts if name == "t"), "")
    if not (sent.isascii() and sent.isdigit() and len(sent) <= 12):
        return 0, False
    wanted = hmac.new(secret, sent.encode() + b"." + body, hashlib.sha256).hexdigest().encode()
    right = [hmac.compare_digest(value.encode(), wanted) for name, value in parts if name == "v1"]
    return int(sent), any(right)
