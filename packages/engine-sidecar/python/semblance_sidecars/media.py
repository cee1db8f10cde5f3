"""Looks into files with ffprobe and ffmpeg, which must be in PATH. Nothing but local files is opened."""

import asyncio
import json
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Mapping, Optional

from semblance_sidecar import Limits, RenderError

# Demuxers that may read a file, with the suffix that programs know such a file by. Playlists are not among them.
SUFFIXES = {
    "png_pipe": ".png",
    "jpeg_pipe": ".jpg",
    "webp_pipe": ".webp",
    "mov": ".mp4",
    "matroska": ".mkv",
    "avi": ".avi",
    "wav": ".wav",
    "mp3": ".mp3",
    "flac": ".flac",
    "ogg": ".ogg",
    "aac": ".aac",
}
PICTURES = (".png", ".jpg", ".webp")
# What a result may be, by what ffprobe calls it.
TYPES = {".png": "image/png", ".jpg": "image/jpeg", ".webp": "image/webp", ".mp4": "video/mp4", ".webm": "video/webm"}
# Time to look into one file, in seconds. Packets are counted, not decoded.
LONGEST_S = 120
READER = ["-v", "error", "-protocol_whitelist", "file", "-format_whitelist", ",".join(SUFFIXES)]


class NoMedia(Exception):
    """The file is no picture, video or sound that can be read."""


@dataclass(frozen=True)
class Media:
    """What a file holds. `seconds` is the length of its picture, or of its sound where it has none; 0 for a still.

    `rate` is the mean number of frames in a second, as a fraction such as 30000/1001; 0/0 where it is not known.
    """

    suffix: str
    width: int = 0
    height: int = 0
    seconds: float = 0
    sound: bool = False
    rate: str = "0/0"

    @property
    def content_type(self) -> str:
        return TYPES[self.suffix]

    @property
    def kind(self) -> str:
        if self.suffix in PICTURES:
            return "image"
        return "video" if self.width else "audio"


async def look(path: str) -> Media:
    """Returns what a file holds. A picture is decoded, so that one that is cut off is refused. Raises NoMedia."""
    show = "format=format_name:stream=codec_type,codec_name,width,height,duration,avg_frame_rate:packet=pts_time,duration_time"
    said = await _probe(path, "-select_streams", "V:0", "-show_packets", "-show_entries", show)
    sounds = await _probe(path, "-select_streams", "a:0", "-show_entries", "format=format_name,duration:stream=duration")
    names = said.get("format", {}).get("format_name", "").split(",")
    suffix = next((SUFFIXES[name] for name in names if name in SUFFIXES), None)
    pictures, sound = said.get("streams", []), bool(sounds.get("streams"))
    if suffix is None or not (pictures or sound):
        raise NoMedia("no picture, video or sound")
    if not pictures:
        length = float(sounds["streams"][0].get("duration") or sounds.get("format", {}).get("duration") or 0)
        return Media(".m4a" if suffix == ".mp4" else suffix, seconds=length, sound=True)
    stream = pictures[0]
    if suffix == ".mkv" and stream.get("codec_name") in ("vp8", "vp9", "av1"):
        suffix = ".webm"
    if suffix in PICTURES:
        await _run("ffmpeg", *READER, "-xerror", "-i", f"file:{path}", "-frames:v", "1", "-f", "null", "-")
    seconds = 0 if suffix in PICTURES else _length(said.get("packets", []))
    rate = stream.get("avg_frame_rate", "0/0")
    return Media(suffix, int(stream.get("width", 0)), int(stream.get("height", 0)), seconds, sound, rate)


async def _probe(path: str, *words: str) -> Mapping[str, Any]:
    return json.loads(await _run("ffprobe", *READER, *words, "-of", "json", f"file:{path}"))


def _length(packets) -> float:
    """Returns the seconds from the first frame to the end of the last one."""
    times = [(float(each["pts_time"]), float(each.get("duration_time") or 0)) for each in packets if "pts_time" in each]
    if not times:
        raise NoMedia("a video without frames")
    return max(at + lasts for at, lasts in times) - min(at for at, _ in times)


async def _run(program: str, *words: str) -> bytes:
    process = await asyncio.create_subprocess_exec(
        program, *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), LONGEST_S)
    except asyncio.TimeoutError:
        raise NoMedia(f"{program} took too long") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    if process.returncode != 0:
        raise NoMedia(err.decode("utf-8", "replace").strip()[-300:] or f"{program} failed")
    return out


async def check_input(path: str, role: str, kind: str, limits: Limits) -> Media:
    """Returns what an input holds. Raises RenderError unless it is of this kind and within the limits."""
    what = role.replace("_", " ")
    try:
        found = await look(path)
    except NoMedia:
        raise RenderError("unsupported_format", f"The {what} cannot be read.") from None
    if found.kind != kind and not (kind == "audio" and found.sound):
        raise RenderError("unsupported_format", f"The {what} is not of the kind {kind}.")
    if limits.max_pixels and found.width * found.height > limits.max_pixels:
        raise RenderError("input_too_large", f"The {what} has more than {limits.max_pixels} pixels.")
    if limits.max_seconds and found.seconds > limits.max_seconds:
        raise RenderError("input_too_large", f"The {what} is longer than {limits.max_seconds:g} s.")
    return found


async def check_output(path: str, unit: str) -> Optional[Media]:
    """Returns what an output holds; None if it is none that a job may have."""
    try:
        found = await look(path)
    except NoMedia:
        return None
    fits = found.suffix in TYPES and (found.kind == "image") == (unit == "image")
    return found if fits and os.path.getsize(path) > 0 else None
