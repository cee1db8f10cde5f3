"""Live Swap Pro as an example: tints what moves in the colour that the prompt names, with OpenCV's background model.

It shows a picture engine with a free prompt that may change, pictures in shared memory, and what a session remembers.
"""

import re

import cv2
import numpy as np

from semblance_sidecar.live import LivePictures, Refused, serve_live

COLOURS = {"red": (255, 0, 0), "green": (0, 200, 0), "blue": (0, 80, 255), "gold": (255, 190, 0)}


class Tint(LivePictures):
    name, version = "opencv-tint", "1"
    slots = 2
    takes_prompt = True

    def load(self):
        cv2.setNumThreads(1)
        self.mask(np.zeros((48, 64, 3), np.uint8))

    def open(self, session):
        named = self.named(session)
        self.colour = np.array(COLOURS[named or "gold"], np.float32)
        if named is None:
            session.note = f"The prompt names none of {', '.join(COLOURS)}: gold is used."
        self.background = None

    def change(self, session):
        named = self.named(session)
        if named is None:
            raise Refused(f"The prompt names none of {', '.join(COLOURS)}.")
        self.colour = np.array(COLOURS[named], np.float32)

    def named(self, session):
        words = re.findall(r"[a-z]+", (session.prompt or "").lower())
        return next((word for word in words if word in COLOURS), None)

    def mask(self, grey_source):
        """Returns how much of each pixel moves, 0 to 1."""
        grey = cv2.GaussianBlur(cv2.cvtColor(grey_source, cv2.COLOR_RGB2GRAY), (0, 0), 2).astype(np.float32)
        if getattr(self, "background", None) is None or self.background.shape != grey.shape:
            self.background = grey
        moved = cv2.absdiff(grey, self.background)
        cv2.accumulateWeighted(grey, self.background, 0.05)
        return cv2.GaussianBlur((moved > 12).astype(np.float32), (0, 0), 3)[..., None]

    def convert(self, picture):
        share = 0.2 + 0.4 * self.mask(picture)
        return (picture * (1 - share) + self.colour * share).astype(np.uint8)


if __name__ == "__main__":
    serve_live(Tint)
