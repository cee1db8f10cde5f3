"""What RMVPE of RVC-Project hears and says: 128 mel bands, and 360 classes of pitch."""

import numpy as np

RATE, HOP, BANDS = 16_000, 160, 128
FFT = 1_024
LOWEST_HZ, HIGHEST_HZ = 30, RATE / 2
QUIETEST = 1e-5
# Cents of the first class above 10 Hz, cents between two, and how many count on each side of the strongest.
FIRST_CENTS, STEP_CENTS, AROUND = 1997.3794084376191, 20, 4
CLASSES = 360

_HANN = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT) / FFT)


def _basis() -> np.ndarray:
    """Returns triangles of equal area, uniform on the HTK mel scale (Young et al., "The HTK Book")."""
    to_mel = lambda hz: 2_595 * np.log10(1 + hz / 700)  # noqa: E731
    edges = 700 * (10 ** (np.linspace(to_mel(LOWEST_HZ), to_mel(HIGHEST_HZ), BANDS + 2) / 2_595) - 1)
    left, centre, right = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    hz = np.arange(FFT // 2 + 1) * RATE / FFT
    height = np.minimum((hz - left) / (centre - left), (right - hz) / (right - centre))
    return np.maximum(0, height) * 2 / (right - left)


_BASIS = _basis()


def log_mel(samples: np.ndarray, columns: int) -> np.ndarray:
    """Returns natural logarithms of the magnitudes, `BANDS` × `columns`. The ends are mirrored."""
    padded = np.pad(samples, FFT // 2, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT)[::HOP][:columns]
    magnitudes = np.abs(np.fft.rfft(frames * _HANN, axis=1))
    return np.log(np.maximum(QUIETEST, _BASIS @ magnitudes.T)).astype(np.float32)


def pitch_of_salience(salience: np.ndarray, threshold: float) -> np.ndarray:
    """Returns Hz of each frame, 0 where no class is above the threshold."""
    strongest = salience.argmax(axis=1)
    classes = np.arange(CLASSES)
    near = np.abs(classes - strongest[:, None]) <= AROUND
    weights = np.where(near, salience, 0).astype(np.float64)
    sums = weights.sum(axis=1)
    cents = (weights * (FIRST_CENTS + STEP_CENTS * classes)).sum(axis=1) / np.where(sums == 0, 1, sums)
    return np.where(salience.max(axis=1) > threshold, 10 * 2 ** (cents / 1_200), 0.0)
