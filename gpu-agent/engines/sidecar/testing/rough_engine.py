"""An engine that dies, hangs or errs as the parameter `mode` of a render asks."""

import os
import signal
import time

from semblance_sidecar import Capability, Engine, RenderError, Result, serve


class RoughEngine(Engine):
    name = "rough"
    version = "1"
    concurrency = 2
    capabilities = [Capability("face-swap-image", memory_mib=16)]

    def render(self, job):
        mode = job.parameters["mode"]
        job.progress(0.1, "begin")
        with open(job.output("out.png"), "wb") as file, open(job.inputs["image"], "rb") as image:
            file.write(image.read())
        if mode == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == "hang":
            time.sleep(60)
        if mode == "raise":
            raise ValueError("private details of the engine")
        if mode == "refuse":
            raise RenderError("content_rejected", "Not this one.")
        for step in range(20):
            job.progress(0.1 + step / 25, "wait", (20 - step) / 20)
            time.sleep(0.05)
        return Result("out.png", "image/png", images=1, details={"mode": mode})


if __name__ == "__main__":
    serve(RoughEngine)
