"""Converts one stream of speech, block by block, as packages/voice/rvc does."""

from typing import Any, Callable, Mapping, Optional

import numpy as np

from .index import Index
from .mel import HOP, RATE
from .models import BEYOND, NOISE_WIDTH, Encoder, Voice
from .pitch import Target, interpolated, pitch_class

# Length that each run adds, length of its fade-in, and largest shift, in ms.
BLOCK_MS, FADE_MS, SEARCH_MS = 100, 30, 10
BLOCK = BLOCK_MS * RATE // 1_000
NEW_FRAMES = BLOCK // HOP
# Defaults of a voice, and its `protect` from which nothing is protected.
INDEX_RATE, PROTECT, UNPROTECTED = 0.75, 0.33, 0.5
# Of the loudness of windows: length and distance of its frames, in ms, and what counts as silence.
LOUD_MS, LOUD_HOP_MS, SILENT = 40, 10, 1e-3

FindPitch = Callable[[np.ndarray, int], np.ndarray]


class Stream:
    def __init__(
        self,
        voice: Mapping[str, Any],
        model: Voice,
        encoder: Encoder,
        find_pitch: FindPitch,
        index: Optional[Index],
        frames: int,
        rms_mix_rate: float,
    ):
        """`voice` is its definition: pitch_hz, transpose, index_rate, protect."""
        self.rate = model.rate
        self._model, self._encoder, self._find_pitch = model, encoder, find_pitch
        self._frames, self._mix = frames, rms_mix_rate
        self._window = np.zeros(frames * HOP + BEYOND)
        self._pending = np.zeros(0, np.float32)
        options = model.entry.options
        self._noise = FrameNoise(frames, float(options["noise"])) if "rnd" in model.inputs else None
        self._sings = "pitchf" in model.inputs
        self._interpolates = options["interpolate"] == 1
        self._target = Target(voice, HOP / RATE)
        self._index_rate = float(voice.get("index_rate", INDEX_RATE))
        self._index = index if self._index_rate > 0 else None
        protect = float(voice.get("protect", PROTECT))
        self._unvoiced = protect if protect < UNPROTECTED else 1.0
        length, fade, search = (ms * model.rate // 1_000 for ms in (BLOCK_MS, FADE_MS, SEARCH_MS))
        self._splicer = Splicer(length, fade, search)
        self._end = length + fade + search

    def push(self, samples: np.ndarray) -> np.ndarray:
        """Takes sound at 16 kHz, and returns as much as is ready at the rate of the model."""
        self._pending = np.concatenate([self._pending, samples])
        made = [np.zeros(0)]
        while len(self._pending) >= BLOCK:
            block, self._pending = self._pending[:BLOCK], self._pending[BLOCK:]
            made.append(self._convert(block))
        return np.concatenate(made).astype(np.float32)

    def _convert(self, block: np.ndarray) -> np.ndarray:
        self._window = np.concatenate([self._window[BLOCK:], block])
        window, frames = self._window, self._frames
        said = self._encoder.content(window)
        heard = self._find_pitch(window, frames) if self._sings else None
        hz = np.zeros(frames)
        if heard is not None:
            hz = self._target.of(heard, NEW_FRAMES)
            hz = interpolated(hz) if self._interpolates else hz
        noise = self._noise.next(NEW_FRAMES) if self._noise else None
        sound = self._model.audio(self._features(said, heard), hz, pitch_class(hz), noise)
        if self._mix < 1:
            sound = loudness_mixed(window[: frames * HOP], sound, self._model.rate, self._mix)
        return self._splicer.add(sound[-self._end :])

    def _features(self, said: np.ndarray, heard: Optional[np.ndarray]) -> np.ndarray:
        """Returns the content, each frame twice. Frames without a voice take less from the index (`protect`)."""
        mixed = self._index.mixed(said, self._index_rate) if self._index else said
        mixed, said = np.repeat(mixed, 2, axis=0), np.repeat(said, 2, axis=0)
        if heard is None or self._index is None:
            return mixed
        share = np.where(heard > 0, 1, self._unvoiced).astype(np.float32)[:, None]
        return share * mixed + (1 - share) * said


class Splicer:
    """Joins overlapping pieces where each is most similar to the end of the one before (SOLA: Roucos and Wilgus 1985)."""

    def __init__(self, length: int, fade: int, search: int):
        self._length, self._fade, self._search = length, fade, search
        self._weights = np.sin(np.pi * (np.arange(fade) + 0.5) / (2 * fade)) ** 2
        self._tail = np.zeros(fade)

    def add(self, piece: np.ndarray) -> np.ndarray:
        at = self._likest(piece)
        out = piece[at : at + self._length].copy()
        out[: self._fade] = self._weights * out[: self._fade] + (1 - self._weights) * self._tail
        self._tail = piece[at + self._length : at + self._length + self._fade].copy()
        return out

    def _likest(self, piece: np.ndarray) -> int:
        """Returns the place with the largest correlation with the tail, divided by the piece's own level."""
        begin = piece[: self._fade + self._search]
        both = np.correlate(begin, self._tail, "valid")
        own = 1e-8 + np.convolve(begin**2, np.ones(self._fade), "valid")
        like = both / np.sqrt(np.maximum(own, 1e-8))
        return int(like.argmax()) if like.max() > 0 else 0


class FrameNoise:
    """Normal noise, a column for each frame of a stream, the same for every stream (Box and Muller 1958, mulberry32)."""

    SEED, STEP = 0x5E3B1A7C, 0x6D2B79F5

    def __init__(self, frames: int, deviation: float):
        self._deviation = deviation
        self._drawn = 0
        self._values = self._columns(frames)

    def next(self, moved: int) -> np.ndarray:
        """Moves the window on by so many frames, and returns it: `NOISE_WIDTH` × frames."""
        self._values = np.concatenate([self._values[:, moved:], self._columns(moved)], axis=1)
        return self._values

    def _columns(self, count: int) -> np.ndarray:
        uniform = self._uniform(2 * NOISE_WIDTH * count)
        normal = np.sqrt(-2 * np.log(1 - uniform[::2])) * np.cos(2 * np.pi * uniform[1::2])
        return (self._deviation * normal).reshape(count, NOISE_WIDTH).T.astype(np.float32)

    def _uniform(self, count: int) -> np.ndarray:
        steps = np.arange(self._drawn + 1, self._drawn + count + 1, dtype=np.uint64)
        self._drawn += count
        low = np.uint64(0xFFFFFFFF)
        state = (np.uint64(self.SEED) + steps * np.uint64(self.STEP)) & low
        mixed = ((state ^ (state >> np.uint64(15))) * (state | np.uint64(1))) & low
        mixed ^= (mixed + (((mixed ^ (mixed >> np.uint64(7))) * (mixed | np.uint64(61))) & low)) & low
        return (mixed ^ (mixed >> np.uint64(14))).astype(np.float64) / 2**32


def loudness_mixed(source: np.ndarray, sound: np.ndarray, rate: int, mix: float) -> np.ndarray:
    """Returns a sound whose loudness is mixed with that of its source: 1 leaves it, 0 takes the source's (RVC's `change_rms`)."""
    places = np.linspace(0, 1, len(sound))
    loud = [np.interp(places, np.linspace(0, 1, len(each)), each) for each in (_loudness(source, RATE), _loudness(sound, rate))]
    return sound * (loud[0] / np.maximum(loud[1], SILENT)) ** (1 - mix)


def _loudness(sound: np.ndarray, rate: int) -> np.ndarray:
    length, hop = LOUD_MS * rate // 1_000, LOUD_HOP_MS * rate // 1_000
    padded = np.pad(sound, length // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, length)[::hop]
    return np.sqrt((frames**2).mean(axis=1))
