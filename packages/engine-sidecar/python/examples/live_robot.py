"""Voice Swap as an example: a robot's voice. Sound is multiplied by a tone and passed through a comb.

It shows a sound engine with a rate of its own, which gathers sound in blocks and so answers several messages at once, and
whose voice may change.
"""

import numpy as np

from semblance_sidecar.live import LiveSound, serve_live

RATE = 16_000
# Samples that are converted at once: 40 ms.
BLOCK = 640


class Robot(LiveSound):
    name, version = "numpy-robot", "1"
    slots = 2
    input_rate = output_rate = RATE

    def open(self, session):
        self.change(session)
        self.held = np.zeros(0, np.float32)
        self.at = 0

    def change(self, session):
        voice = session.voice or {}
        pitch = voice.get("pitch_hz", {"low": 80, "high": 120})
        self.tone = float(np.sqrt(pitch["low"] * pitch["high"])) / 2
        self.comb = np.zeros(round(RATE / self.tone), np.float32)

    def block(self, samples):
        moments = (self.at + np.arange(BLOCK)) / RATE
        self.at += BLOCK
        ringing = samples * np.sin(2 * np.pi * self.tone * moments).astype(np.float32)
        delayed = np.concatenate([self.comb, ringing])
        self.comb = delayed[-len(self.comb) :]
        return 0.7 * ringing + 0.5 * delayed[:BLOCK]

    def convert(self, samples):
        self.held = np.concatenate([self.held, samples])
        whole = len(self.held) // BLOCK * BLOCK
        blocks, self.held = self.held[:whole].reshape(-1, BLOCK), self.held[whole:]
        return np.concatenate([self.block(each) for each in blocks]) if whole else None


if __name__ == "__main__":
    serve_live(Robot)
