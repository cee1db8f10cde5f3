"""Errors that the client raises. Branch on the class, or on `code`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .types import Job


class SemblanceError(Exception):
    """Any error of the service or of the way to it."""


class APIError(SemblanceError):
    """A refusal by the service. `code` is stable, the message may change."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int,
        request_id: str | None = None,
        retry_after: float | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        #: Id by which the owner of the service finds the request.
        self.request_id = request_id
        #: Seconds after which the request may be repeated.
        self.retry_after = retry_after
        #: Key of a submit, with which it can be repeated without a second charge.
        self.idempotency_key = idempotency_key


class UnauthorizedError(APIError):
    """The key is missing, unknown, revoked, expired, or not for this address."""


class ForbiddenError(APIError):
    """The key lacks the scope of the call."""


class InsufficientBalanceError(APIError):
    """The balance, or a cap, does not cover the hold."""


class InvalidInputError(APIError):
    """A field failed validation."""


class UnsupportedFormatError(APIError):
    """The type of the file is not accepted."""


class InputTooLargeError(APIError):
    """The file is over the limit of its type."""


class CapabilityUnavailableError(APIError):
    """The capability is switched off."""


class NotFoundError(APIError):
    """There is no such resource, or it belongs to another account."""


class RateLimitedError(APIError):
    """The key sends too fast."""


class AtCapacityError(APIError):
    """The service is briefly full, or a ceiling of the account is reached."""


class CapacityUnavailableError(APIError):
    """There is no capacity for a live session now."""


class CapacityWarmingError(APIError):
    """Voice capacity is starting up; it takes about a minute."""


class InternalError(APIError):
    """The service failed. Nothing is billed."""


#: Class of each code; a code of a later release is an APIError.
ERRORS: dict[str, type[APIError]] = {
    "unauthorized": UnauthorizedError,
    "forbidden": ForbiddenError,
    "insufficient_balance": InsufficientBalanceError,
    "invalid_input": InvalidInputError,
    "unsupported_format": UnsupportedFormatError,
    "input_too_large": InputTooLargeError,
    "capability_unavailable": CapabilityUnavailableError,
    "not_found": NotFoundError,
    "rate_limited": RateLimitedError,
    "at_capacity": AtCapacityError,
    "capacity_unavailable": CapacityUnavailableError,
    "capacity_warming": CapacityWarmingError,
    "internal_error": InternalError,
}


class ConnectionFailed(SemblanceError):
    """No whole answer came. The service may have done what was asked."""

    def __init__(self, message: str, *, idempotency_key: str | None = None) -> None:
        super().__init__(message)
        #: Key of a submit, with which it can be repeated without a second charge.
        self.idempotency_key = idempotency_key


class UploadInterrupted(ConnectionFailed):
    """An upload did not come further. `upload(…, resume_url=error.resume_url)` goes on."""

    def __init__(self, message: str, *, resume_url: str, offset: int) -> None:
        super().__init__(message)
        self.resume_url = resume_url
        #: Bytes that the service is known to have.
        self.offset = offset


class JobFailed(SemblanceError):
    """A job ended as `failed`; it costs nothing."""

    def __init__(self, job: Job) -> None:
        error = job["error"] or {"code": "processing_failed", "message": "The job failed."}
        super().__init__(f"{job['id']}: {error['code']}: {error['message']}")
        self.job = job
        self.code = error["code"]
        self.message = error["message"]


class WaitTimeout(SemblanceError, TimeoutError):
    """A job has not ended in time. It goes on; wait for it again by its id."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"{job_id} has not ended in time; it goes on")
        self.job_id = job_id


class WebhookVerificationError(SemblanceError, ValueError):
    """A webhook is not signed with the secret, or is too old."""
