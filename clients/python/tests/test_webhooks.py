"""Webhooks: vectors, made by another implementation, and rotations."""

from __future__ import annotations

import hashlib
import hmac
import json
import pathlib
import time
import unittest
from unittest import mock

from semblance import WebhookVerificationError, verify_webhook

VECTORS = json.loads(pathlib.Path(__file__).with_name("webhook_vectors.json").read_text())


def sign(body: bytes, secret: str, sent: float) -> str:
    text = str(int(sent))
    return f"t={text},v1={hmac.new(secret.encode(), text.encode() + b'.' + body, hashlib.sha256).hexdigest()}"


class Webhooks(unittest.TestCase):
    def test_vectors(self) -> None:
        self.assertGreater(len(VECTORS), 15)
        for vector in VECTORS:
            with self.subTest(vector["name"]), mock.patch("time.time", return_value=vector["now"]):
                arguments = (vector["body"].encode(), vector["headers"], vector["secret"])
                if vector["good"]:
                    self.assertEqual(verify_webhook(*arguments), json.loads(vector["body"]))
                else:
                    with self.assertRaises(WebhookVerificationError):
                        verify_webhook(*arguments)

    def test_each_changed_byte_is_noticed(self) -> None:
        body = b'{"event":"job.failed","data":{}}'
        headers = {"Service-Signature": sign(body, "whsec_a", time.time())}
        verify_webhook(body, headers, "whsec_a")
        for at in range(len(body)):
            changed = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
            with self.assertRaises(WebhookVerificationError):
                verify_webhook(changed, headers, "whsec_a")

    def test_during_a_rotation_either_secret_is_good(self) -> None:
        body, now = b"{}", time.time()
        headers = {
            "service-signature": sign(body, "whsec_old", now),
            "service-signature-next": sign(body, "whsec_new", now),
        }
        for secret in ("whsec_old", "whsec_new"):
            self.assertEqual(verify_webhook(body, headers, secret), {})
        with self.assertRaises(WebhookVerificationError):
            verify_webhook(body, headers, "whsec_other")

    def test_wrong_calls(self) -> None:
        with self.assertRaises(TypeError):
            verify_webhook("{}", {}, "whsec_a")  # type: ignore[arg-type]
        with self.assertRaises(ValueError):
            verify_webhook(b"{}", {"service-signature": sign(b"{}", "", time.time())}, "")


if __name__ == "__main__":
    unittest.main()
