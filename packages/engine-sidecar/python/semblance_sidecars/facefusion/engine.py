"""The engine: it runs FaceFusion once for each render, on the device of its worker."""

import asyncio
import os
import tempfile
from typing import Callable, Mapping, Optional

from semblance_sidecar import Engine, Job, RenderError, RenderInterrupted, Result
from semblance_sidecar.contract import Value

from ..media import Media, check_input, check_output
from ..momentary import MOMENTARY
from .program import run
from .settings import Settings, Use, read_settings

# What FaceFusion 3 says, in its English, when the source shows no face.
NO_FACE = "no source face detected"

Tell = Callable[[float, Optional[str]], None]


class FaceFusionFault(Exception):
    """FaceFusion does not do what it should. The message goes to the log."""


class FaceFusion(Engine):
    name = "facefusion"
    version = "1"

    def load(self) -> None:
        """Checks the program, its version and the options of all arguments, and renders the samples."""
        self.settings: Settings = read_settings()
        quiet: Tell = lambda *_: None  # noqa: E731
        status, said = run([*self.settings.program, "--version"], self.settings.folder, quiet)
        if status != 0 or not said.splitlines()[-1].startswith("FaceFusion 3."):
            raise FaceFusionFault(f"{self.settings.program} in {self.settings.folder} is no FaceFusion 3: {said[-300:]}")
        print(said.splitlines()[-1], flush=True)
        status, said = run([*self.settings.program, "headless-run", "--help"], self.settings.folder, quiet, kept=10_000)
        known = set(said.replace(",", " ").split())
        for name, use in self.settings.uses.items():
            for word in (*use.arguments, *(word for words in use.options.values() for word in words.all)):
                if word.startswith("--") and word.split("=")[0] not in known:
                    raise FaceFusionFault(f"{name}: this FaceFusion has no option {word}")
        for name, use in self.settings.uses.items():
            if use.sample:
                print(f"rendering the sample of {name}", flush=True)
                with tempfile.TemporaryDirectory() as folder:
                    self._run(use, use.sample, asyncio.run(self._look(use, use.sample)), folder, quiet, {})

    def render(self, job: Job) -> Result:
        use = self.settings.uses[job.capability]

        def tell(fraction: float, bar: Optional[str]) -> None:
            job.progress(0.02 + 0.95 * fraction, bar or "start")

        job.progress(0, "decode")
        found = asyncio.run(self._look(use, job.inputs))
        self._refuse_size(job, found[use.target])
        path = self._run(use, job.inputs, found, job.output_dir, tell, job.options)
        job.progress(0.98, "measure")
        output = asyncio.run(check_output(path, use.shape.unit))
        if output is None:
            raise FaceFusionFault(f"{job.capability}: FaceFusion wrote no {'picture' if use.shape.unit == 'image' else 'MP4'}")
        name = f"output{output.suffix}"
        os.rename(path, job.output(name))
        if use.shape.unit == "image":
            return Result(name, output.content_type, images=1)
        return Result(name, output.content_type, seconds=output.seconds)

    async def _look(self, use: Use, inputs: Mapping[str, str]) -> Mapping[str, Media]:
        """Returns what each input holds. Raises RenderError for one that does not fit."""
        roles = use.shape.roles
        return {role: await check_input(inputs[role], role, roles[role], use.offer.limits) for role in roles}

    def _refuse_size(self, job: Job, target: Media) -> None:
        """FaceFusion scales by steps only, so a size is taken only where nothing has to be scaled."""
        wanted = job.parameters.get("output_resolution_p")
        if wanted is not None and int(wanted) != min(target.width, target.height):
            raise RenderError("processing_failed", "This engine keeps the size of the video: leave output_resolution_p out.")

    def _run(
        self,
        use: Use,
        inputs: Mapping[str, str],
        found: Mapping[str, Media],
        folder: str,
        tell: Tell,
        options: Mapping[str, Value],
    ) -> str:
        """Renders, and returns the path of the output. Everything is written below the folder."""
        work = os.path.join(folder, "work")
        os.mkdir(work)
        paths = {}
        for role in (use.target, use.source):
            # FaceFusion tells files by their suffix, and wants that of the target for the output; ffmpeg looks inside.
            suffix = {"video": ".mp4", "audio": ".wav"}.get(use.shape.roles[role], found[role].suffix)
            paths[role] = os.path.join(work, f"{role}{suffix}")
            os.symlink(os.path.abspath(inputs[role]), paths[role])
        output = os.path.join(work, f"output{os.path.splitext(paths[use.target])[1]}")
        words = [*self.settings.program, "headless-run", *use.arguments]
        # Of two of the same argument, the last counts.
        words += [word for name, said in use.options.items() if name in options for word in said.of(options[name])]
        words += ["--source-paths", paths[use.source], "--target-path", paths[use.target], "--output-path", output]
        # Its jobs are named by the second, and its temporary files by the target.
        words += ["--jobs-path", os.path.join(work, "jobs"), "--temp-path", os.path.join(work, "temp")]
        words += ["--execution-device-ids", self.settings.devices[self.worker], "--log-level", "info"]
        status, said = run(words, self.settings.folder, tell)
        last = f"FaceFusion ended with {status}: {said[-300:]}"
        if NO_FACE in said.lower():
            raise RenderError("face_not_detected", f"No face was found in the {use.source}.")
        if status < 0:
            raise RenderInterrupted(f"FaceFusion was killed by signal {-status}: {said[-300:]}")
        if status == 0 and os.path.isfile(output):
            return output
        raise RenderInterrupted(last) if MOMENTARY.search(said) else FaceFusionFault(last)
