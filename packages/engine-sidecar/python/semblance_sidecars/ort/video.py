"""Reads and writes the frames of a video with ffmpeg and ffprobe, which must be in PATH."""

import json
import subprocess
import tempfile
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Iterator, List, Optional

import numpy as np
from semblance_sidecar import RenderError, RenderInterrupted

from ..media import READER
from ..momentary import MOMENTARY

# x264's rate factor: visually lossless.
CRF = 19
SLOWEST, FASTEST, USUAL = 1, 120, "25/1"


class VideoFault(Exception):
    """ffmpeg does not do what it should. The message goes to the log."""


@dataclass(frozen=True)
class Facts:
    """`rate` is a fraction in text, as ffmpeg takes it. `sound` is the codec of the sound, if there is any."""

    rate: str
    sound: Optional[str]

    @property
    def per_second(self) -> float:
        over, under = self.rate.split("/")
        return int(over) / int(under)


def facts_of(path: str) -> Facts:
    command = ["ffprobe", *READER, "-show_entries", "stream=codec_type,codec_name,avg_frame_rate:stream_disposition=attached_pic"]
    done = subprocess.run([*command, "-of", "json", f"file:{path}"], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    streams = json.loads(done.stdout or "{}").get("streams", [])
    pictures = [each for each in streams if each.get("codec_type") == "video" and not each.get("disposition", {}).get("attached_pic")]
    sounds = [each.get("codec_name", "") for each in streams if each.get("codec_type") == "audio"]
    rate = next((each.get("avg_frame_rate", "") for each in pictures), "")
    over, _, under = rate.partition("/")
    usable = over.isdigit() and under.isdigit() and int(under) > 0 and SLOWEST <= int(over) / int(under) <= FASTEST
    return Facts(rate if usable else USUAL, sounds[0] if sounds else None)


@contextmanager
def frames_of(path: str, facts: Facts, shorter: Optional[int], threads: int) -> Iterator[Iterator[np.ndarray]]:
    """Opens the frames of a video: upright, evenly spaced, red first. The size is even and never larger than the video.

    :param shorter: its shorter side, if the job says one
    """
    share = f"min(1,{shorter}/min(iw*sar,ih))" if shorter else "1"
    side = lambda length: f"max(2,min(2*round({length}*{share}/2),2*floor({length}/2)))"  # noqa: E731
    scale = f"scale=w='{side('iw*sar')}':h='{side('ih')}':flags=bicubic+accurate_rnd+full_chroma_int"
    command = ["ffmpeg", "-nostdin", *READER, "-threads", str(threads), "-i", f"file:{path}", "-map", "0:V:0"]
    command += ["-fps_mode", "cfr", "-r", facts.rate, "-vf", f"{scale},setsar=1,format=rgb24"]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen([*command, "-f", "image2pipe", "-c:v", "ppm", "-"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said)
        try:
            yield _read(process)
            if process.wait() != 0:
                raise _fault("decode", process.returncode, said, RenderError("unsupported_format", "The video cannot be decoded."))
        finally:
            _end(process)


def _read(process: subprocess.Popen) -> Iterator[np.ndarray]:
    """Yields each frame. Every one says its own size, as a PPM does."""
    pipe = process.stdout
    while pipe.readline() == b"P6\n":
        width, height = (int(each) for each in pipe.readline().split())
        pipe.readline()
        data = pipe.read(width * height * 3)
        if len(data) < width * height * 3:
            return
        yield np.frombuffer(bytearray(data), np.uint8).reshape(height, width, 3)


class Writer:
    """Encodes H.264 in MP4 with the sound of another file."""

    def __init__(self, to: str, width: int, height: int, facts: Facts, sound_of: str, threads: int):
        self._said = tempfile.TemporaryFile()
        command = ["ffmpeg", "-nostdin", "-y", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}"]
        command += ["-r", facts.rate, "-i", "pipe:0"]
        if facts.sound is not None:
            command += [*READER, "-i", f"file:{sound_of}"]
        self._process = subprocess.Popen([*command, *_output(facts, threads), f"file:{to}"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=self._said)

    def write(self, frame: np.ndarray) -> None:
        try:
            self._process.stdin.write(frame.data)
        except BrokenPipeError:
            raise self._ended() from None

    def finish(self) -> None:
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        if self._process.wait() != 0:
            raise self._ended()

    def _ended(self) -> Exception:
        return _fault("encode", self._process.wait(), self._said, None)

    def close(self) -> None:
        _end(self._process)
        self._said.close()


def _output(facts: Facts, threads: int) -> List[str]:
    colours = "scale=out_color_matrix=bt709:out_range=limited:flags=bicubic+accurate_rnd+full_chroma_int,format=yuv420p"
    words = ["-map", "0:v:0", "-vf", colours, "-c:v", "libx264", "-preset", "veryfast", "-crf", str(CRF), "-threads", str(threads)]
    words += ["-color_primaries", "bt709", "-color_trc", "bt709", "-colorspace", "bt709", "-color_range", "tv"]
    if facts.sound is not None:
        words += ["-map", "1:a:0", *(["-c:a", "copy"] if facts.sound == "aac" else ["-c:a", "aac", "-b:a", "192k"])]
    return [*words, "-map_metadata", "-1", "-fflags", "+bitexact", "-movflags", "+faststart", "-f", "mp4"]


def _fault(what: str, status: int, said, refusal: Optional[Exception]) -> Exception:
    said.seek(0)
    text = said.read()[-300:].decode("utf-8", "replace").strip()
    sentence = f"ffmpeg cannot {what} the video: status {status}: {text}"
    if status < 0 or MOMENTARY.search(text):
        return RenderInterrupted(sentence)
    return refusal or VideoFault(sentence)


def _end(process: subprocess.Popen) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe:
            with suppress(OSError):
                pipe.close()
