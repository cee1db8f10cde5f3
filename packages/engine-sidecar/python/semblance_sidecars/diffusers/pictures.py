"""Turns inputs into what pipelines take, and what pipelines give into bytes."""

import subprocess
import tempfile
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Sequence, Tuple

import numpy as np
from PIL import Image, ImageOps
from semblance_sidecar import RenderError

from ..media import READER
from .faults import PipelineFault
from .settings import Bounds

Tick = Callable[[], None]


def size_for(width: int, height: int, bounds: Bounds) -> Tuple[int, int]:
    """Returns the size at which a picture goes in: no larger than it is and than the bounds, with sides of the multiple."""
    shrink = min(1.0, (bounds.pixels / (width * height)) ** 0.5)
    sides = [max(bounds.multiple, _down(int(side * shrink + 1e-6), bounds.multiple)) for side in (width, height)]
    # A side that was too short for the multiple has grown.
    longest = max(bounds.multiple, _down(bounds.pixels // min(sides), bounds.multiple))
    return min(sides[0], longest), min(sides[1], longest)


def _down(side: int, multiple: int) -> int:
    return side // multiple * multiple


def picture_of(path: str, what: str, bounds: Bounds) -> Image.Image:
    """Returns a picture in RGB, turned as its file says. Raises RenderError."""
    try:
        with Image.open(path, formats=("PNG", "JPEG", "WEBP")) as opened:
            picture = ImageOps.exif_transpose(opened)
            if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
                picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture.convert("RGBA"))
            if picture.mode.startswith("I"):
                # Pillow cuts grey of 16 bits where it should scale it.
                picture = Image.fromarray((np.asarray(picture).astype(np.uint32) >> 8).astype(np.uint8))
            picture = picture.convert("RGB")
    except Image.DecompressionBombError:
        raise RenderError("input_too_large", f"The {what} has too many pixels.") from None
    except (OSError, SyntaxError, ValueError):
        raise RenderError("unsupported_format", f"The {what} cannot be read.") from None
    size = size_for(*picture.size, bounds)
    return picture if picture.size == size else picture.resize(size, Image.Resampling.LANCZOS)


def frames_of(path: str, what: str, rate: str, bounds: Bounds, most: int, tick: Tick) -> List[Image.Image]:
    """Returns at most `most` frames of a video, at an even rate. Raises RenderError."""
    words = ["ffmpeg", *READER, "-i", f"file:{path}", "-map", "0:V:0"]
    ppm = ["-frames:v", "1", "-f", "image2pipe", "-c:v", "ppm", "-"]
    # ffmpeg turns the frames as the file says, so their size is known from one of them.
    head = _all(_ran([*words, *ppm], what, tick), what).split(b"\n", 2)
    width, height = size_for(*map(int, head[1].split()), bounds)
    # From 0 on, so that pictures and sound stay together where the first frame comes late.
    even = f"fps={rate}:start_time=0,scale={width}:{height}:flags=lanczos+accurate_rnd"
    frames = []
    raw = ["-vf", even, "-frames:v", str(most), "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    for frame in _parts(_ran([*words, *raw], what, tick), width * height * 3):
        frames.append(Image.frombytes("RGB", (width, height), frame))
    if not frames:
        raise RenderError("unsupported_format", f"The {what} has no frames.")
    return frames


def samples_of(path: str, what: str, rate: int, tick: Tick) -> np.ndarray:
    """Returns the sound as one channel of samples from -1 to 1. Raises RenderError."""
    words = ["ffmpeg", *READER, "-i", f"file:{path}", "-map", "0:a:0", "-ac", "1", "-ar", str(rate), "-f", "f32le", "-"]
    return np.frombuffer(_all(_ran(words, what, tick), what), np.float32)


def fitted(frames: Sequence[Any], count: int) -> List[Any]:
    """Returns so many frames: the first ones, or all forwards and backwards until there are enough."""
    if len(frames) == 1:
        return [frames[0]] * count
    # The frame at a turn is shown once.
    around = [*frames, *frames[-2:0:-1]]
    return [around[index % len(around)] for index in range(count)]


def pixels_of(made: Any, video: bool, at: str, pipeline: str) -> List[np.ndarray]:
    """Returns the pictures in what a pipeline returned, as arrays of bytes. Raises RenderError, PipelineFault."""
    flags = getattr(made, "nsfw_content_detected", None)
    if flags and any(flags):
        raise RenderError("content_rejected", "The safety checker of this engine refused the result.")
    wanted = "frames" if video else "images"
    found = getattr(made, wanted, None)
    if found is None:
        raise PipelineFault(f"{at}.pipeline: {pipeline} returned no {wanted}")
    pictures = list(found)
    if video and pictures and (isinstance(pictures[0], (list, tuple)) or np.ndim(pictures[0]) == 4):
        pictures = _only(pictures, at, "videos")
    elif not video:
        pictures = _only(pictures, at, "pictures")
        return [_bytes_of(pictures, at)]
    return [_bytes_of(each, at) for each in pictures]


def _only(made: List[Any], at: str, what: str) -> Any:
    if len(made) != 1:
        raise PipelineFault(f"{at}.arguments: the pipeline made {len(made)} {what}, not one")
    return made[0]


def _bytes_of(picture: Any, at: str) -> np.ndarray:
    if isinstance(picture, Image.Image):
        return np.asarray(picture.convert("RGB"))
    picture = np.asarray(picture)
    if picture.ndim != 3 or picture.shape[2] != 3:
        raise PipelineFault(f"{at}.pipeline: it returned an array of the shape {picture.shape}, which is no picture")
    if picture.dtype == np.uint8:
        return picture
    if not np.isfinite(picture).all():
        raise PipelineFault(f"{at}.dtype: the pipeline computed values that are no numbers; try bfloat16 or float32")
    return (np.clip(picture, 0, 1) * 255).round().astype(np.uint8)


def write_video(pictures: Sequence[np.ndarray], rate: str, scale: str, sound: str, path: str, tick: Tick) -> None:
    """Writes an MP4 with the sound of another file, where that has one."""
    height, width = pictures[0].shape[:2]
    numerator, _, denominator = rate.partition("/")
    lasts = len(pictures) * int(denominator or 1) / int(numerator)
    words = ["ffmpeg", "-v", "error", "-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", rate, "-i", "-"]
    words += [*READER[2:], "-i", f"file:{sound}", "-map", "0:v:0", "-map", "1:a:0?", "-t", f"{lasts:.6f}"]
    words += ["-vf", f"{scale}:flags=lanczos+accurate_rnd:out_color_matrix=bt709:out_range=tv,format=yuv420p"]
    words += ["-c:v", "libx264", "-crf", "17", "-preset", "medium"]
    words += ["-colorspace", "bt709", "-color_primaries", "bt709", "-color_trc", "bt709", "-color_range", "tv"]
    words += ["-c:a", "aac", "-b:a", "192k", "-map_metadata", "-1", "-map_chapters", "-1", "-fflags", "+bitexact"]
    words += ["-flags:v", "+bitexact", "-flags:a", "+bitexact", "-movflags", "+faststart", "-f", "mp4", path]
    with tempfile.TemporaryFile() as said, _child(words, said, stdin=subprocess.PIPE) as process:
        try:
            for picture in pictures:
                tick()
                process.stdin.write(np.ascontiguousarray(picture).tobytes())
            process.stdin.close()
        except BrokenPipeError:
            # It ended early, and says why.
            pass
        while (status := _ended(process)) is None:
            tick()
        if status != 0:
            said.seek(0)
            raise OSError(f"ffmpeg cannot write the video: {said.read()[-300:].decode('utf-8', 'replace').strip()}")


def _ended(process: "subprocess.Popen[bytes]"):
    try:
        return process.wait(0.05)
    except subprocess.TimeoutExpired:
        return None


@contextmanager
def _child(words: Sequence[str], said: Any, **more: Any) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs a program; it is killed if it has not ended at the end."""
    process = subprocess.Popen(words, stderr=said, **{"stdin": subprocess.DEVNULL, **more})
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                try:
                    stream.close()
                except BrokenPipeError:
                    pass


def _ran(words: Sequence[str], what: str, tick: Tick) -> Iterator[bytes]:
    """Yields what a program writes. Raises RenderError when it fails, because then it cannot read the input."""
    with _child(words, subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        while chunk := process.stdout.read(1 << 20):
            tick()
            yield chunk
        if process.wait() != 0:
            raise RenderError("unsupported_format", f"The {what} cannot be read.")


def _all(chunks: Iterator[bytes], what: str) -> bytes:
    found = b"".join(chunks)
    if not found:
        raise RenderError("unsupported_format", f"The {what} cannot be read.")
    return found


def _parts(chunks: Iterator[bytes], size: int) -> Iterator[bytes]:
    rest = bytearray()
    for chunk in chunks:
        rest += chunk
        while len(rest) >= size:
            yield bytes(rest[:size])
            del rest[:size]
