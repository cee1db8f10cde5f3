"""The pitch that a voice sings: found by a model or by Praat, moved to the voice, and put into RVC's classes."""

import math
from typing import Any, Mapping, Optional

import numpy as np

from .mel import HOP, RATE

# Pitch range of RVC's classes, in Hz, and their number.
LOWEST_HZ, HIGHEST_HZ, CLASSES = 50, 1_100, 254
# Of Praat's autocorrelation, as RVC's pipeline asks it.
VOICING = 0.6


def praat_pitch(window: np.ndarray, frames: int) -> np.ndarray:
    """Returns Hz of each frame by Praat's autocorrelation (RVC's `pm`), 0 without a voice."""
    import parselmouth

    sound = parselmouth.Sound(window.astype(np.float64), RATE)
    said = sound.to_pitch_ac(time_step=HOP / RATE, voicing_threshold=VOICING, pitch_floor=LOWEST_HZ, pitch_ceiling=HIGHEST_HZ)
    hz = said.selected_array["frequency"]
    before = max(0, (frames - len(hz) + 1) // 2)
    out = np.zeros(frames)
    out[before : before + len(hz)] = hz[: frames - before]
    return out


def pitch_class(hz: np.ndarray) -> np.ndarray:
    """Returns the class of each pitch, 1 to 255; 1 without a voice."""
    mel = lambda of: 1127 * np.log(1 + np.asarray(of, np.float64) / 700)  # noqa: E731
    share = (mel(hz) - mel(LOWEST_HZ)) / (mel(HIGHEST_HZ) - mel(LOWEST_HZ))
    found = np.floor(np.clip(1 + CLASSES * share, 1, 255) + 0.5)
    return np.where(hz > 0, found, 1).astype(np.int64)


def interpolated(hz: np.ndarray) -> np.ndarray:
    """Fills frames without a voice with a pitch between those beside them (RVC's pipeline since 2026)."""
    voiced = np.flatnonzero(hz > 0)
    return np.interp(np.arange(len(hz)), voiced, hz[voiced]) if len(voiced) else hz


class Target:
    """Moves a source's pitch to that of a voice: by its `transpose`, otherwise into its range, as `builtin` does."""

    def __init__(self, voice: Mapping[str, Any], frame_s: float):
        transpose = voice.get("transpose")
        self._speaker: Optional[Speaker] = None if transpose is not None else Speaker(voice["pitch_hz"], frame_s)
        self._factor = 2 ** ((transpose or 0) / 12)

    def of(self, hz: np.ndarray, fresh: int) -> np.ndarray:
        """Returns Hz of each frame. `fresh`: number of frames at the end that the last window did not have."""
        if self._speaker is None:
            return hz * self._factor
        for each in hz[-fresh:]:
            if each > 0:
                self._speaker.hear(float(each))
        return np.array([each * self._speaker.ratio(float(each)) if each > 0 else 0 for each in hz])


class Speaker:
    """Moves a speaker's running median to the middle of a range, as packages/voice/speaker-pitch.ts does."""

    # Range of pitches that are counted, in Hz, and the width of a class, in octaves.
    LOW, HIGH, CLASS = math.log2(58) - 0.1, math.log2(520) + 0.1, 1 / 96
    HALF_LIFE_S, FOLLOW_SHARE, FOLLOW_S, KNOWN_S = 6, 0.25, 1, 0.4
    KNEE, MOST = 3 / 12, 3.6

    def __init__(self, target: Mapping[str, float], frame_s: float):
        count = math.ceil((self.HIGH - self.LOW) / self.CLASS)
        self._counts, self._means = np.zeros(count), np.zeros(count)
        self._decay, self._frame_s = 2 ** (-frame_s / self.HALF_LIFE_S), frame_s
        self._middle = math.log2(target["low"] * target["high"]) / 2
        self._half = math.log2(target["high"] / target["low"]) / 2
        self._total = self._heard_s = 0.0
        self._median = math.nan

    def hear(self, hz: float) -> None:
        octave = math.log2(hz)
        self._counts *= self._decay
        at = max(0, min(len(self._counts) - 1, math.floor((octave - self.LOW) / self.CLASS)))
        self._counts[at] += 1
        self._means[at] += (octave - self._means[at]) / self._counts[at]
        self._total = self._total * self._decay + 1
        self._heard_s += self._frame_s
        reached = np.flatnonzero(np.cumsum(self._counts[:-1]) >= self._total / 2)
        median = self._means[reached[0] if len(reached) else -1]
        pace = self._frame_s / min(self.FOLLOW_S, max(self._frame_s, self.FOLLOW_SHARE * self._heard_s))
        self._median = octave if math.isnan(self._median) else self._median + pace * (median - self._median)

    def ratio(self, hz: float) -> float:
        """Returns the factor on a pitch."""
        if math.isnan(self._median):
            return 1.0
        octave = math.log2(hz)
        away = min(1, self._heard_s / self.KNOWN_S) * (octave - self._median)
        beyond = abs(away) - self._half
        kept = away if beyond <= 0 else math.copysign(self._half + self.KNEE * math.tanh(beyond / self.KNEE), away)
        return min(self.MOST, max(1 / self.MOST, 2 ** (self._middle + kept - octave)))
