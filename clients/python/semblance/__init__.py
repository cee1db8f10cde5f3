"""Client of the Semblance API."""

from ._async.client import AsyncSemblance
from ._events import JobEvent
from ._sync.client import Semblance
from .errors import (
    APIError,
    AtCapacityError,
    CapabilityUnavailableError,
    CapacityUnavailableError,
    CapacityWarmingError,
    ConnectionFailed,
    ForbiddenError,
    InputTooLargeError,
    InsufficientBalanceError,
    InternalError,
    InvalidInputError,
    JobFailed,
    NotFoundError,
    RateLimitedError,
    SemblanceError,
    UnauthorizedError,
    UnsupportedFormatError,
    UploadInterrupted,
    WaitTimeout,
    WebhookVerificationError,
)
from .webhooks import verify_webhook

__all__ = [
    "APIError",
    "AsyncSemblance",
    "AtCapacityError",
    "CapabilityUnavailableError",
    "CapacityUnavailableError",
    "CapacityWarmingError",
    "ConnectionFailed",
    "ForbiddenError",
    "InputTooLargeError",
    "InsufficientBalanceError",
    "InternalError",
    "InvalidInputError",
    "JobEvent",
    "JobFailed",
    "NotFoundError",
    "RateLimitedError",
    "Semblance",
    "SemblanceError",
    "UnauthorizedError",
    "UnsupportedFormatError",
    "UploadInterrupted",
    "WaitTimeout",
    "WebhookVerificationError",
    "verify_webhook",
]
