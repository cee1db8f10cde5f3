"""An engine that dies, hangs, errs or says too much as the parameter `mode` of a render asks, or ROUGH_LOAD its start."""

import os
import signal
import subprocess
import sys
import time

from semblance_sidecar import Capability, Engine, Findings, Hint, Model, Option, RenderError, RenderInterrupted, Result, serve


class RoughEngine(Engine):
    name = "rough"
    version = "1"
    concurrency = 2
    capabilities = [
        Capability(
            "face-swap-image",
            memory_mib=16,
            options=[
                Option("strength", "number", "How much.", minimum=0, maximum=1, default=0.5),
                Option("steps", "integer", "Steps.", minimum=1),
                Option("sharp", "boolean", "Whether it is sharp.", default=True),
                Option("look", "choice", "How it looks.", choices=("plain", "film")),
            ],
        )
    ]

    def load(self):
        how = os.environ.get("ROUGH_LOAD")
        if how == "slow":
            print("loading", flush=True)
            time.sleep(60)
        if how == "exit":
            os._exit(3)
        if how == "raise":
            raise ValueError("no weights in /models")

    def render(self, job):
        mode = job.parameters["mode"]
        job.progress(0.1, "begin")
        with open(job.output("out.png"), "wb") as file, open(job.inputs["image"], "rb") as image:
            file.write(image.read())
        if mode == "options":
            job.progress(0.2, repr(sorted(job.options.items())))
        if mode == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if mode == "full":
            raise RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 7.7 GiB")
        if mode in ("child", "orphan"):
            child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
            job.progress(0.2, f"child {child.pid}")
            if mode == "orphan":
                os._exit(4)
            child.wait()
        if mode == "nothing":
            return None
        if mode == "hang":
            time.sleep(60)
        if mode == "raise":
            raise ValueError("private details of the engine")
        if mode in ("interrupt", "interrupt-and-reload"):
            raise RenderInterrupted("the card is full ", reload=mode == "interrupt-and-reload")
        if mode == "refuse":
            raise RenderError("content_rejected", "Not this one.")
        if mode == "refuse-with-findings":
            raise RenderError("content_rejected", "Not this one.", Findings(changed=0, left={"bystander": 2}))
        if mode == "refuse-with-nonsense":
            raise RenderError("content_rejected", "Not this one.", "findings")
        if mode == "refuse-silently":
            raise RenderError("content_rejected", " \n")
        if mode == "refuse-at-length":
            raise RenderError("content_rejected", "\U0001f642" * 2000)
        if mode == "talk":
            for step in range(100):
                job.progress(0.2 + step / 200, f"frame {step}", (float("nan"), float("inf"), -1)[step % 3])
            job.progress(0.8, "", 1)
            job.progress(0.9, "\U0001f642" * 64)
            many = {f"{number} {'n' * 100}": "\U0001f642" * 500 for number in range(50)}
            found = [Hint("face_small", "\U0001f642" * 500, "image") for _ in range(20)]
            left = {f"reason_{chr(97 + number)}": 1 for number in range(20)}
            used = [Model("m" * 99, "ab" * 32, "\U0001f642" * 300) for _ in range(20)]
            findings = Findings(changed=1, left=left, hints=found, models=used)
            return Result("out.png", "image/png", images=1, details=many, findings=findings)
        for step in range(20):
            job.progress(0.1 + step / 25, "wait", (20 - step) / 20)
            time.sleep(0.05)
        return Result("out.png", "image/png", images=1, details={"mode": mode, "pid": str(os.getpid()), "worker": self.worker})

    def inspect(self, job):
        mode = job.parameters["mode"]
        if mode == "writes":
            job.output("out.png")
        if mode == "nothing":
            return None
        if mode == "refuse":
            raise RenderError("face_not_detected", "There is no face.")
        for _ in range(1200 if mode == "waits" else 1):
            job.progress(0.5, "look")
            time.sleep(0.05)
        return Findings(hints=[Hint("face_small", f"It is small, says {os.getpid()}.", "face")])


if __name__ == "__main__":
    serve(RoughEngine)
