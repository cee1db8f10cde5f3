"""Files: sent in one request when they are small, else so that they go on after a break; and fetched."""

from __future__ import annotations

import mimetypes
import os
import pathlib
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable
from typing import BinaryIO, cast

import httpx

from .._answers import backoff, error_of, json_of, wait_before_repeat
from .._io import asynchronous as io
from ..errors import APIError, ConnectionFailed, SemblanceError, UploadInterrupted
from ..types import Upload
from .sources import Bytes, Opened, Source, Streamed
from .transport import WRONG, Transport

Uploadable = str | os.PathLike[str] | bytes | BinaryIO | Iterable[bytes] | AsyncIterable[bytes]
#: Called with the bytes that are sent, and with those of the whole file, or None while that is unknown.
OnProgress = Callable[[int, "int | None"], object]
#: Up to this size a file is sent in one request.
ONE_REQUEST = 8 << 20
PARTIAL = "application/partial-upload"


class Uploads(Transport):
    async def upload(
        self,
        source: Uploadable,
        *,
        filename: str | None = None,
        content_type: str | None = None,
        on_progress: OnProgress | None = None,
        resume_url: str | None = None,
    ) -> Upload:
        """Uploads a file: the path of one, its bytes, an open file, or a stream of bytes.

        :param filename: whose extension tells the type; left out, that of the path or of the open file
        :param content_type: left out, that of the extension, else of the bytes
        :param on_progress: called with the bytes sent so far, and those in all; after a break it may be fewer again
        :param resume_url: of an `UploadInterrupted`: goes on where that upload ended
        :raises UploadInterrupted: repeats did not come further
        """
        if isinstance(source, (str, os.PathLike)):
            path = pathlib.Path(source)
            with await io.run(lambda: path.open("rb")) as file:
                return await self.upload(
                    file,
                    filename=filename or path.name,
                    content_type=content_type,
                    on_progress=on_progress,
                    resume_url=resume_url,
                )
        name = filename or os.path.basename(str(getattr(source, "name", ""))) or "file"
        kind = content_type or mimetypes.guess_type(name)[0]
        report = on_progress or (lambda sent, total: None)
        file_source = source_of(source)
        if resume_url is None and file_source.size is not None and file_source.size <= ONE_REQUEST:
            content = b"".join([chunk async for chunk in file_source.body(0)])
            report(0, len(content))
            files = {"file": (name, content, kind or "application/octet-stream")}
            response = await self.request("POST", "/uploads", repeatable=True, files=files)
            report(len(content), len(content))
            return cast(Upload, json_of(response))
        url = resume_url or await self._begin(file_source, name, kind)
        return await self._resume(self.address_of(url), file_source, report, known=resume_url is None)

    async def _begin(self, source: Source, name: str, kind: str | None) -> str:
        extension = "".join(char for char in os.path.splitext(name)[1] if char.isascii() and char.isalnum())
        headers = {
            "Upload-Complete": "?0",
            "Content-Type": kind or "application/octet-stream",
            "Content-Disposition": f'attachment; filename="file.{extension}"',
        }
        if source.size is not None:
            headers["Upload-Length"] = str(source.size)
        response = await self.request("POST", "/resumable-uploads", repeatable=True, headers=headers, content=b"")
        return field(response, "location")

    async def _resume(self, url: str, source: Source, report: OnProgress, *, known: bool) -> Upload:
        """Sends the file from where the service is, until it has all of it."""
        offset, attempt = 0, 0
        while True:
            error: APIError | ConnectionFailed
            try:
                if not known:
                    now = await self._offset(url)
                    attempt = 0 if now > offset else attempt
                    offset, known = now, True
                response, body = await self._append(url, source, offset, report)
                if response.status_code == 200:
                    return cast(Upload, json_of(response))
                if response.is_success:
                    offset, attempt = int(field(response, "upload-offset")), 0
                    continue
                error = error_of(response, body)
                # 409: the service is elsewhere in the file than this request.
                wait = 0.0 if error.status == 409 else wait_before_repeat(error, attempt, True)
                if wait is None:
                    raise error
            except httpx.RequestError as cause:
                error = ConnectionFailed(f"PATCH {url}: {type(cause).__name__}: {cause}")
                wait = backoff(attempt)
                if isinstance(cause, WRONG):
                    raise error from cause
            except ConnectionFailed as cause:
                error, wait = cause, backoff(attempt)
            known = False
            if attempt >= self.max_retries:
                raise UploadInterrupted(
                    f"the upload stays at {offset} bytes: {error}", resume_url=url, offset=offset
                ) from error
            attempt += 1
            await io.sleep(wait)

    async def _offset(self, url: str) -> int:
        # The answer to a HEAD could not say what is wrong.
        return int(field(await self.request("GET", url, repeatable=True), "upload-offset"))

    async def _append(self, url: str, source: Source, offset: int, report: OnProgress) -> tuple[httpx.Response, bytes]:
        length, is_last = await source.prepare(offset)
        headers = {
            "Content-Type": PARTIAL,
            "Upload-Offset": str(offset),
            "Upload-Complete": "?1" if is_last else "?0",
            "Content-Length": str(length),
        }
        total = offset + length if is_last else source.size

        async def content() -> AsyncIterator[bytes]:
            sent = offset
            report(sent, total)
            async for chunk in source.body(offset):
                yield chunk
                sent += len(chunk)
                report(sent, total)

        async with self._send("PATCH", url, headers=headers, content=content()) as response:
            return response, await response.aread()

    async def download(self, url: str, path: str | os.PathLike[str]) -> None:
        """Downloads a link of the service, such as `output_url`, into a file, which is there when it is whole."""
        target = pathlib.Path(path)
        part = target.with_name(f".{target.name}.part")
        try:
            with await io.run(lambda: part.open("wb")) as file:
                await self._fetch(url, file)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)

    async def _fetch(self, url: str, file: BinaryIO) -> None:
        attempt = 0
        while True:
            error: APIError | ConnectionFailed
            try:
                # The link is signed, and may lead to another host.
                async with self._send("GET", url, signed=True, headers={"Accept-Encoding": "identity"}) as response:
                    if response.is_success:
                        async for chunk in response.aiter_raw():
                            file.write(chunk)
                        return
                    error = error_of(response, await response.aread())
                    wait = wait_before_repeat(error, attempt, True)
            except httpx.RequestError as cause:
                error, wait = ConnectionFailed(f"GET of a link: {type(cause).__name__}: {cause}"), backoff(attempt)
            if wait is None or attempt >= self.max_retries:
                raise error
            attempt += 1
            file.seek(0)
            file.truncate()
            await io.sleep(wait)


def source_of(source: object) -> Source:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return Bytes(bytes(source))
    if hasattr(source, "read"):
        file = cast(BinaryIO, source)
        return Opened(file) if file.seekable() else Streamed(iter(lambda: file.read(1 << 16), b""))
    if not isinstance(source, (Iterable, AsyncIterable)):
        raise TypeError("source must be a path, bytes, a file or a stream of bytes")
    return Streamed(source)


def field(response: httpx.Response, name: str) -> str:
    value = response.headers.get(name)
    if value is None:
        raise SemblanceError(f"answered {response.status_code} without {name}")
    return str(value)
