"""Live sessions of a running stack: API_URL and API_KEY in the environment, base.jpg in the folder."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from semblance import AsyncSemblance, CapacityUnavailableError, CapacityWarmingError, NotFoundError, UnauthorizedError
from semblance.live import ChangeRefused, LiveSession, SessionEnded, connect, live_swap_pro, voice_swap


async def when_there_is_room(
    open: Callable[[], AbstractAsyncContextManager[LiveSession]], use: Callable[[LiveSession], Any]
) -> Any:
    """Uses a session. Tests beside this one may hold the slots for a while."""
    while True:
        try:
            async with open() as session:
                return await use(session)
        except (CapacityUnavailableError, CapacityWarmingError):
            await asyncio.sleep(1)


async def main(client: AsyncSemblance) -> dict[str, object]:
    async def voice(session: LiveSession) -> dict[str, object]:
        sound = os.urandom(session.format["sample_rate"] * 2)
        speaking = asyncio.create_task(session.send_in_real_time(sound))
        back = b""
        async for data in session:
            back += data
            if len(back) >= len(sound):
                break
        await speaking
        await session.close()
        after = [data async for data in session]
        try:
            await session.send(b"\0\0")
            sent = True
        except SessionEnded:
            sent = False
        second = None
        try:
            async with connect(session.opened):
                pass
        except NotFoundError as refusal:
            second = refusal.code
        return {"same": back == sound, "after": after, "sent": sent, "second": second}

    async def cancelled(session: LiveSession) -> list[object]:
        await client.end_session(session.id)
        try:
            async for _ in session:
                pass
        except SessionEnded as end:
            return [end.code, end.reason.split(":")[0].split(" ")[0]]
        return []

    async def pictures(session: LiveSession) -> dict[str, object]:
        picture = Path("base.jpg").read_bytes()
        received: list[bytes] = []

        async def receive() -> None:
            async for data in session:
                received.append(data)

        async def show() -> None:
            while True:
                await session.send(picture)
                await asyncio.sleep(1 / session.format["fps"])

        tasks = [asyncio.create_task(receive()), asyncio.create_task(show())]
        while len(received) < 3:
            await asyncio.sleep(0.1)
        await session.change(prompt="Keep my own face")
        refused = ""
        try:
            await session.change(prompt="use api/up-nothing")
        except ChangeRefused as refusal:
            refused = refusal.code
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        jpeg = {data[:3].hex() for data in received}
        return {
            "codec": session.format["codec"],
            "jpeg": jpeg == {"ffd8ff"},
            "changeable": session.changeable,
            "refused": refused,
        }

    opened = await client.open_voice_swap(duration_minutes=1)
    wrong = ""
    try:
        async with connect({**opened, "session_token": "wrong"}):
            pass
    except UnauthorizedError as refusal:
        wrong = refusal.code
    await client.end_session(opened["session_id"])
    return {
        "voice": await when_there_is_room(lambda: voice_swap(client, duration_minutes=1), voice),
        "cancelled": await when_there_is_room(lambda: voice_swap(client, duration_minutes=1), cancelled),
        "pictures": await when_there_is_room(lambda: live_swap_pro(client, duration_minutes=1), pictures),
        "wrong": wrong,
    }


async def run() -> None:
    async with AsyncSemblance(os.environ["API_KEY"], os.environ["API_URL"]) as client:
        print(json.dumps(await main(client)))


asyncio.run(run())
