"""The engine: it runs a pipeline for each render, on the device of its worker."""

import asyncio
import os
import tempfile
import time
from typing import Any, Dict, List, Mapping

import numpy as np
from PIL import Image
from semblance_sidecar import Engine, Findings, Job, RenderError, Result

from ..media import Media, check_output
from .faults import PipelineFault
from .inputs import look, work_of
from .pictures import pixels_of, write_video
from .pipeline import Pipeline, Tell
from .settings import SOUNDS, Settings, Use, read_settings
from .weights import models_of

# Shares of the progress when the inputs are read, and when the pipeline has ended.
READ, RUN = 0.05, 0.93


class Diffusers(Engine):
    name = "diffusers"
    version = "1"

    def load(self) -> None:
        """Loads all pipelines, checks their arguments, and renders the samples."""
        self.settings: Settings = read_settings()
        self.pipelines: Dict[Any, Pipeline] = {}
        self.findings: Dict[Any, Findings] = {}
        device = self.settings.devices[self.worker]
        for use in self.settings.uses.values():
            source = use.source
            if source not in self.pipelines:
                began = time.monotonic()
                self.pipelines[source] = Pipeline(source, device, use.at)
                self.findings[source] = Findings(models=models_of(source))
                print(f"{source.pipeline} with {source.name} is on {device} after {time.monotonic() - began:.0f} s", flush=True)
            fault = self.pipelines[source].fault_of(use)
            if fault:
                raise PipelineFault(fault)
            if "callback_on_step_end" not in self.pipelines[source].parameters:
                print(f"{use.at}.pipeline: {source.pipeline} does not tell its steps, so nothing is known of its progress", flush=True)
        for name, use in self.settings.uses.items():
            if use.sample:
                print(f"rendering the sample of {name}", flush=True)
                files, parameters = use.sample
                with tempfile.TemporaryDirectory() as folder:
                    found = asyncio.run(look(use, files))
                    self._render(use, files, found, parameters, folder, lambda *_: None)

    def render(self, job: Job) -> Result:
        use = self.settings.uses[job.capability]
        job.progress(0, "decode")
        found = asyncio.run(look(use, job.inputs))
        name = self._render(use, job.inputs, found, job.parameters, job.output_dir, job.progress)
        job.progress(0.99, "measure")
        output = asyncio.run(check_output(job.output(name), use.shape.unit))
        if output is None:
            raise PipelineFault(f"{use.at}: {name} cannot be read back")
        more: Mapping[str, float] = {"seconds": output.seconds} if use.video else {"images": 1}
        details = {"pipeline": use.source.pipeline, "weights": use.source.name}
        return Result(name, output.content_type, details=details, findings=self.findings[use.source], **more)

    def _render(
        self, use: Use, inputs: Mapping[str, str], found: Mapping[str, Media], parameters: Mapping[str, str], folder: str, progress: Any
    ) -> str:
        """Renders into a folder, and returns the name of the output."""
        work = work_of(use, inputs, found, parameters, lambda: progress(0, "decode"))
        tell: Tell = lambda done: progress(READ + (RUN - READ) * done, "denoise")  # noqa: E731
        tell(0)
        pipeline = self.pipelines[use.source]
        made = pipeline.run(use, work.arguments, tell)
        progress(RUN, "encode")
        pictures = pixels_of(made, use.video, use.at, use.source.pipeline)
        self._assert_fits(use, pictures, work.count)
        if not use.video:
            Image.fromarray(pictures[0]).save(os.path.join(folder, "output.png"))
            return "output.png"
        scale = _scale(use, pictures[0], parameters)
        sound = inputs[SOUNDS[use.offer.name]]
        path = os.path.join(folder, "output.mp4")
        write_video(pictures[: work.count], work.rate, scale, sound, path, lambda: progress(RUN, "encode"))
        return "output.mp4"

    def _assert_fits(self, use: Use, pictures: List[np.ndarray], count: int) -> None:
        if use.video and len(pictures) < count:
            raise PipelineFault(f"{use.at}.frames: the pipeline returned {len(pictures)} frames for {count}")
        if use.video and any(each.shape != pictures[0].shape for each in pictures):
            raise PipelineFault(f"{use.at}.pipeline: it returned frames of several sizes")
        height, width = pictures[0].shape[:2]
        if height * width > use.bounds.output_pixels:
            raise PipelineFault(f"{use.at}.output.pixels: the pipeline returned {width}x{height}, more than {use.bounds.output_pixels}")


def _scale(use: Use, picture: np.ndarray, parameters: Mapping[str, str]) -> str:
    """Returns ffmpeg's filter for the size of the video: even, and as the job asks unless the pipeline gets that."""
    height, width = picture.shape[:2]
    wanted = parameters.get("output_resolution_p")
    factor = 1.0
    if wanted is not None and "output_resolution_p" not in use.parameters:
        factor = int(wanted) / min(width, height)
    to = [max(2, 2 * round(side * factor / 2)) for side in (width, height)]
    if to[0] * to[1] > use.bounds.output_pixels:
        raise RenderError("processing_failed", f"This engine makes no video of {to[0]} x {to[1]} pixels.")
    return f"scale={to[0]}:{to[1]}"
