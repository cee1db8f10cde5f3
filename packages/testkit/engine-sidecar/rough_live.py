"""A picture engine that dies, hangs, errs or says too much as the prompt of a session asks."""

import os
import signal
import time

from semblance_sidecar.live import LivePictures, Refused, Unreadable, serve_live


class RoughLive(LivePictures):
    name, version = "rough-live", "1"
    slots = 2
    form = "jpeg"
    takes_prompt = True

    def open(self, session):
        self.mode = session.prompt
        session.note = f"{os.getpid()}"
        if self.mode == "refuse":
            raise Refused("Not " + "this" * 200)
        if self.mode == "raise-open":
            raise ValueError("no such style")
        if self.mode == "die-open":
            os.kill(os.getpid(), signal.SIGKILL)

    def change(self, session):
        asked = session.prompt
        if asked == "refuse":
            raise Refused("Not " + "this" * 200)
        if asked == "raise-change":
            raise ValueError("no such style")
        if asked == "unreadable-change":
            raise Unreadable("no message")
        if asked == "hang-change":
            time.sleep(3600)
        self.mode = asked
        session.note = f"now {asked}"

    def convert(self, picture):
        if self.mode == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.mode == "hang":
            time.sleep(3600)
        if self.mode == "raise":
            raise ValueError("no such frame")
        if self.mode == "full":
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
        if self.mode == "unreadable":
            raise Unreadable("not this one")
        if self.mode == "text":
            return "no picture"
        if self.mode == "nothing":
            return None
        return [picture, picture] if self.mode == "twice" else picture

    def close(self, session):
        if self.mode == "raise-close":
            raise ValueError("no end")
        if self.mode == "hang-close":
            time.sleep(3600)


if __name__ == "__main__":
    serve_live(RoughLive)
