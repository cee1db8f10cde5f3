"""The HTTP and WebSocket calls of ComfyUI that the sidecar makes, as ComfyUI's server.py answers them."""

import asyncio
import json
import os
import sys
from contextlib import suppress
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import aiohttp
from semblance_sidecar import RenderError, RenderInterrupted

# Longest silence of a request, in seconds; and the size of an answer in JSON, in bytes.
SILENCE_S = 30
JSON_BYTES = 64 << 20
# Largest message of the WebSocket, in bytes: previews come as pictures.
MESSAGE_BYTES = 32 << 20
AWAY = (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, asyncio.TimeoutError, ConnectionError)


class BadAnswer(Exception):
    """The server answered as ComfyUI does not. The message says which request."""


class ComfyServer:
    """One ComfyUI server. Use it as an async context manager.

    `client_id` names this worker to the server; names of uploads begin with it too.
    """

    def __init__(self, url: str, client_id: str, folders: Mapping[str, str]):
        self.url = url
        self.client_id = client_id
        self._folders = folders
        self._session: Optional[aiohttp.ClientSession] = None

    async def __aenter__(self) -> "ComfyServer":
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5, sock_read=SILENCE_S)
        self._session = aiohttp.ClientSession(timeout=timeout)
        return self

    async def __aexit__(self, *_) -> None:
        await self._session.close()

    async def get(self, path: str, **query: str) -> Any:
        status, said = await self._json("GET", path, params=query)
        if status != 200:
            raise BadAnswer(f"GET {self.url}{path} answered {status}")
        return said

    async def post(self, path: str, body: Mapping[str, Any]) -> None:
        status, _ = await self._json("POST", path, json=body)
        if status != 200:
            raise BadAnswer(f"POST {self.url}{path} answered {status}")

    async def upload(self, file: str, name: str, what: str) -> str:
        """Uploads an input under a name that must be free, and returns the name that nodes know it by."""
        with open(file, "rb") as content:
            form = aiohttp.FormData()
            form.add_field("image", content, filename=name, content_type="application/octet-stream")
            form.add_field("type", "input")
            status, said = await self._json("POST", "/upload/image", data=form)
        if status == 413:
            raise RenderError("input_too_large", f"The {what} is larger than the engine takes.")
        if status != 200 or not isinstance(said, dict) or not isinstance(said.get("name"), str):
            raise BadAnswer(f"POST {self.url}/upload/image answered {status}")
        return said["name"]

    async def empty(self, name: str, subfolder: str, kind: str) -> None:
        """Removes a file of a job, where the folder is known; otherwise leaves nothing in it. There is no route that removes one."""
        folder = self._folders.get(kind)
        if folder is not None:
            path = os.path.normpath(os.path.join(folder, subfolder, name))
            if os.path.commonpath([os.path.normpath(folder), path]) != os.path.normpath(folder):
                return
            try:
                os.unlink(path)
                return
            except FileNotFoundError:
                return
            except OSError as error:
                # The folder may belong to ComfyUI's user alone.
                print(f"{path} cannot be removed, and is emptied: {error.strerror}", file=sys.stderr)
        form = aiohttp.FormData()
        form.add_field("image", b"", filename=name, content_type="application/octet-stream")
        for field, value in (("type", kind), ("subfolder", subfolder), ("overwrite", "true")):
            form.add_field(field, value)
        status, _ = await self._json("POST", "/upload/image", data=form)
        if status != 200:
            raise BadAnswer(f"POST {self.url}/upload/image answered {status}")

    async def queue(self, prompt: Mapping[str, Any], prompt_id: str) -> Tuple[int, Any]:
        """Queues a prompt, and returns the status and what was said."""
        body = {"prompt": prompt, "client_id": self.client_id, "prompt_id": prompt_id}
        return await self._json("POST", "/prompt", json=body)

    async def history(self, prompt_id: str) -> Optional[Mapping[str, Any]]:
        """Returns what is known of a prompt that has ended; None if it has not."""
        said = await self.get(f"/history/{prompt_id}")
        entry = said.get(prompt_id) if isinstance(said, dict) else None
        return entry if isinstance(entry, dict) else None

    async def waiting(self) -> Tuple[Dict[str, Any], Dict[str, Any]]:
        """Returns the prompts that run and those that wait, by number: each its list as the server has it."""
        said = await self.get("/queue")
        if not isinstance(said, dict):
            raise BadAnswer(f"GET {self.url}/queue answered no mapping")
        lists: List[Dict[str, Any]] = []
        for name in ("queue_running", "queue_pending"):
            each = said.get(name)
            items = each if isinstance(each, list) else []
            lists.append({str(item[1]): item for item in items if isinstance(item, list) and len(item) > 3})
        return lists[0], lists[1]

    async def stop(self, prompt_id: str) -> bool:
        """Takes a prompt out of the queue, or interrupts it. Returns whether it is still running.

        ComfyUI before 0.3.57 interrupts whatever runs, so it is only asked while this prompt does.
        """
        await self.post("/queue", {"delete": [prompt_id]})
        running, _ = await self.waiting()
        if prompt_id in running:
            await self.post("/interrupt", {"prompt_id": prompt_id})
        return prompt_id in running

    async def fetch(self, file: Mapping[str, str], path: str, most: int) -> None:
        """Writes an output to a path. Raises BadAnswer when it has more bytes than `most`."""
        query = {"filename": file["filename"], "subfolder": file["subfolder"], "type": file["type"]}
        async with self._session.get(f"{self.url}/view", params=query) as answer:
            if answer.status != 200:
                raise BadAnswer(f"GET {self.url}/view answered {answer.status} for {file['filename']}")
            size = 0
            with open(path, "wb") as out:
                async for chunk in answer.content.iter_chunked(1 << 20):
                    size += len(chunk)
                    if size > most:
                        raise BadAnswer(f"{file['filename']} has more than {most} bytes (output_mib)")
                    out.write(chunk)

    async def listen(self, hear: Callable[[str, Mapping[str, Any]], None], connected: asyncio.Event) -> None:
        """Passes messages on until it is cancelled. Connects again a second after each loss of the socket."""
        while True:
            try:
                url = f"{self.url}/ws?clientId={self.client_id}"
                async with self._session.ws_connect(url, max_msg_size=MESSAGE_BYTES, heartbeat=SILENCE_S) as socket:
                    connected.set()
                    async for message in socket:
                        # Other messages are previews.
                        if message.type == aiohttp.WSMsgType.TEXT:
                            _pass_on(message.data, hear)
            except (*AWAY, aiohttp.ClientError):
                # The history tells how a prompt ended, whether or not there is a socket.
                pass
            await asyncio.sleep(1)

    async def _json(self, method: str, path: str, **more: Any) -> Tuple[int, Any]:
        async with self._session.request(method, f"{self.url}{path}", **more) as answer:
            if answer.status >= 500:
                raise RenderInterrupted(f"{method} {self.url}{path} answered {answer.status}")
            body = await _all(answer)
            if len(body) > JSON_BYTES:
                raise BadAnswer(f"{method} {self.url}{path} answered more than {JSON_BYTES >> 20} MiB")
            if not body or answer.status >= 400 and answer.content_type != "application/json":
                return answer.status, None
            try:
                return answer.status, json.loads(body)
            except ValueError:
                raise BadAnswer(f"{method} {self.url}{path} answered no JSON") from None


async def _all(answer: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > JSON_BYTES:
            break
    return bytes(body)


def _pass_on(text: str, hear: Callable[[str, Mapping[str, Any]], None]) -> None:
    with suppress(ValueError):
        said = json.loads(text)
        if isinstance(said, dict) and isinstance(said.get("data"), dict):
            hear(str(said.get("type")), said["data"])
