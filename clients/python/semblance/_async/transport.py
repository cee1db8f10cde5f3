"""Requests of the API: the key, repeats, and errors by their code."""

from __future__ import annotations

import os
import urllib.parse
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from .._answers import backoff, error_of, json_of, wait_before_repeat
from .._io import asynchronous as io
from ..errors import APIError, ConnectionFailed

# No byte of the request left this machine.
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# The request itself is wrong, so that a repeat is too.
WRONG = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


def segment(value: str) -> str:
    """Returns a value as one segment of a path."""
    if not isinstance(value, str) or value in ("", ".", ".."):
        raise ValueError(f"{value!r} is no id")
    return urllib.parse.quote(value, safe="")


class Transport:
    """Sends requests with a key, and repeats those that may be repeated."""

    def __init__(
        self,
        api_key: str | None = None,
        base_url: str | None = None,
        *,
        max_retries: int = 4,
        timeout: float | httpx.Timeout = 60.0,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        """
        :param api_key: left out, it is that of SEMBLANCE_API_KEY
        :param base_url: `https://…/api/v1`; left out, it is that of SEMBLANCE_BASE_URL
        :param max_retries: repeats of a request after its first try
        :param timeout: seconds for a connection, and for each wait within an exchange
        :param http_client: for proxies, certificates and the like; it is yours to close
        """
        key = os.environ.get("SEMBLANCE_API_KEY", "") if api_key is None else api_key
        if not key.isascii() or not key.isprintable() or not key or " " in key:
            raise ValueError("api_key, or SEMBLANCE_API_KEY, must be a key of the service")
        address = os.environ.get("SEMBLANCE_BASE_URL", "") if base_url is None else base_url
        base = httpx.URL(address.rstrip("/"))
        if base.scheme not in ("http", "https") or not base.host:
            raise ValueError("base_url, or SEMBLANCE_BASE_URL, must be an address such as https://…/api/v1")
        self.base_url = str(base)
        self.max_retries = max_retries
        self._key = key
        self._timeout = timeout
        self._own = http_client is None
        self._http = http_client or httpx.AsyncClient()

    async def close(self) -> None:
        """Closes its connections."""
        if self._own:
            await self._http.aclose()

    def address_of(self, path: str) -> str:
        """Returns the address of a path or a link of the API.

        :raises ValueError: the link leads elsewhere, where the key must not be sent
        """
        base = httpx.URL(self.base_url)
        url = base.join(path) if "://" in path or path.startswith("/api/") else httpx.URL(self.base_url + path)
        if (url.scheme, url.host, url.port) != (base.scheme, base.host, base.port):
            raise ValueError(f"{url.host} is not the host of the service")
        return str(url)

    @asynccontextmanager
    async def _send(
        self, method: str, url: str, *, timeout: float | None = None, signed: bool = False, **options: Any
    ) -> AsyncIterator[httpx.Response]:
        """Sends one request once. `signed`: the link needs no key, and gets none."""
        headers = dict(options.pop("headers", {}))
        if not signed:
            headers["Authorization"] = f"Bearer {self._key}"
        allowed = self._timeout if timeout is None else timeout
        async with self._http.stream(
            method, url, headers=headers, timeout=allowed, follow_redirects=False, **options
        ) as response:
            yield response

    async def request(
        self,
        method: str,
        path: str,
        *,
        repeatable: bool,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> httpx.Response:
        """Sends a request, and repeats it as the answers and `max_retries` allow.

        :param path: of the API, or a link to it
        :param repeatable: whether doing it twice does no harm
        :raises APIError: the service refused it
        :raises ConnectionFailed: no whole answer came
        """
        url = self.address_of(path)
        headers = headers or {}
        idempotency_key = headers.get("Idempotency-Key")
        attempt = 0
        while True:
            try:
                async with self._send(method, url, headers=headers, **options) as response:
                    body = await response.aread()
                if response.is_success:
                    return response
                error: APIError | ConnectionFailed = error_of(response, body, idempotency_key)
                wait = wait_before_repeat(error, attempt, repeatable) if isinstance(error, APIError) else None
            except httpx.RequestError as cause:
                told = f"{method} {path}: {type(cause).__name__}: {cause}"
                error = ConnectionFailed(told, idempotency_key=idempotency_key)
                error.__cause__ = cause
                again = repeatable or isinstance(cause, NEVER_SENT)
                wait = backoff(attempt) if again and not isinstance(cause, WRONG) else None
            if wait is None or attempt >= self.max_retries:
                raise error
            await io.sleep(wait)
            attempt += 1

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        idempotency_key: str | None = None,
        once: bool = False,
    ) -> Any:
        """Makes a call with JSON. `once`: it has an Idempotency-Key, so it may be repeated."""
        headers = {"Idempotency-Key": idempotency_key or str(uuid.uuid4())} if once else {}
        options: dict[str, Any] = {}
        if query:
            options["params"] = {name: value for name, value in query.items() if value is not None}
        if body is not None:
            options["json"] = body
        response = await self.request(method, path, repeatable=once or method != "POST", headers=headers, **options)
        if response.status_code == 204:
            return None
        return json_of(response) if "json" in response.headers.get("content-type", "") else response.content
