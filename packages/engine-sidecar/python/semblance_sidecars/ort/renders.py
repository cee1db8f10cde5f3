"""Photo Swap and Video Swap by the owner's models, in a worker."""

import asyncio
import os
from dataclasses import replace
from typing import Callable, List, Optional, Sequence

import numpy as np
from semblance_sidecar import Findings, Hint, Job, Limits, RenderError, Result

from ..media import check_input, check_output
from .faces import Face, suitable
from .graph import ModelFault
from .opening import prepare
from .pictures import FORMATS, encoded, read_base, read_face
from .sessions import Session
from .settings import Settings
from .swap import FaceSwap, Used
from .video import VideoFault, Writer, facts_of, frames_of

# Share of frames without a face from which a hint tells of them.
UNCHANGED = 0.05
# A face is the same as in the last frame if both overlap by this share. Its points follow at once when they move by
# this share of its width, and else by at least `SLOWEST` of the way, so that its crop does not tremble.
SAME, MOVES, SLOWEST = 0.3, 0.02, 0.3


class Renders:
    def __init__(self, settings: Settings, worker: int):
        """Loads every model on the device of the worker, and runs it once. Raises ModelFault."""
        self.settings = settings
        prepare(settings.running)
        sessions: List[Session] = []
        faults = []
        for entry in settings.manifest.entries:
            try:
                sessions.append(Session(entry, settings.running, settings.running.devices[worker]))
            except ModelFault as fault:
                faults.append(f"{entry.name} ({entry.file}): {fault}")
        if faults:
            raise ModelFault(f"the models in {settings.folder} do not fit: {'; '.join(faults)}")
        self.swap = FaceSwap(sessions, settings.manifest.order)
        for session in sessions:
            print(f"worker {worker} runs {session.entry.name} by {', '.join(session.session.get_providers())}", flush=True)

    def render(self, job: Job) -> Result:
        return self._photo(job) if job.capability == "face-swap-image" else self._video(job)

    def inspect(self, job: Job) -> Findings:
        used, step = Used(), lambda: job.progress(0, "detect")
        limits = self._limits(job)
        source = read_face(job.inputs["face"], limits.max_pixels)
        _, hints = self._source(source, used, step)
        if job.capability != "face-swap-image":
            return Findings(hints=hints)
        faces, left = self._targets(read_base(job.inputs["image"], limits.max_pixels).pixels, used, step, hints)
        return Findings(len(faces), left, hints)

    def _limits(self, job: Job) -> Limits:
        return next(offer.limits for offer in self.settings.offers if offer.name == job.capability)

    def _photo(self, job: Job) -> Result:
        used, limits = Used(), self._limits(job)
        job.progress(0, "decode")
        source, base = read_face(job.inputs["face"], limits.max_pixels), read_base(job.inputs["image"], limits.max_pixels)
        step = lambda: job.progress(0.1, "detect")  # noqa: E731
        face, hints = self._source(source, used, step)
        identity = self.swap.identity(source, face, used)
        faces, left = self._targets(base.pixels, used, step, hints)
        job.progress(0.3, "swap")
        self.swap.swap(base.pixels, faces, identity, used, lambda: job.progress(0.5, "swap"))
        job.progress(0.8, "encode")
        extension, content_type = FORMATS[base.format]
        name = f"output.{extension}"
        data = encoded(base)
        job.progress(0.95, "write")
        with open(job.output(name), "wb") as file:
            file.write(data)
        height, width = base.pixels.shape[:2]
        details = {"faces": len(faces), "width": width, "height": height, **used.details}
        return Result(name, content_type, images=1, details=details, findings=Findings(len(faces), left, hints, used.models))

    def _source(self, picture: np.ndarray, used: Used, step: Callable[[], None]):
        """Returns the face of a face picture, and hints about it. Raises RenderError."""
        faces = suitable(self.swap.look(picture, used, step))
        if not faces:
            raise RenderError("face_not_detected", "No face was found in the face picture (face_key).")
        hints = []
        if len(faces) > 1:
            message = f"The face picture shows {len(faces)} faces, and the most prominent one was taken. A picture of one person leaves no doubt."
            hints.append(Hint("several_faces", message, "face"))
        return faces[0], hints

    def _targets(self, picture: np.ndarray, used: Used, step: Callable[[], None], hints: Sequence[Hint]):
        """Returns the faces of a base image that are changed, and why others are not. Raises RenderError."""
        found = self.swap.look(picture, used, step)
        faces = suitable(found)
        if not faces:
            raise RenderError("face_not_detected", "No face was found in the base image (image_key).", Findings(0, {}, hints))
        return faces, left_of(found, faces)

    def _video(self, job: Job) -> Result:
        used, limits = Used(), self._limits(job)
        job.progress(0, "decode")
        path, shorter = job.inputs["video"], job.parameters.get("output_resolution_p")
        source = read_face(job.inputs["face"], limits.max_pixels)
        media = asyncio.run(check_input(path, "video", "video", limits))
        face, hints = self._source(source, used, lambda: job.progress(0.01, "detect"))
        identity = self.swap.identity(source, face, used)
        facts = facts_of(path)
        expected = max(1.0, media.seconds * facts.per_second)
        output = job.output("output.mp4")
        counts, size = Counts(), (0, 0)
        writer: Optional[Writer] = None
        try:
            with frames_of(path, facts, int(shorter) if shorter else None, self.settings.running.threads) as frames:
                before: Sequence[Face] = ()
                for frame in frames:
                    step = lambda: job.progress(0.02 + 0.95 * min(1, counts.frames / expected), "swap")  # noqa: E731
                    step()
                    size = frame.shape[1], frame.shape[0]
                    writer = writer or Writer(output, *size, facts, path, self.settings.running.threads)
                    found = self.swap.look(frame, used, step)
                    before = [steady(each, before) for each in suitable(found, before)]
                    if before:
                        self.swap.swap(frame, before, identity, used, step)
                    counts.add(len(found), len(before))
                    writer.write(frame)
            if writer is None:
                raise RenderError("unsupported_format", "The video has no frame that can be decoded.")
            if counts.most == 0:
                raise RenderError("face_not_detected", "No face was found in the video (video_key).", Findings(0, {}, hints))
            job.progress(0.97, "write")
            writer.finish()
        finally:
            if writer:
                writer.close()
        written = asyncio.run(check_output(output, "second"))
        if written is None:
            raise VideoFault("ffmpeg wrote no MP4 that can be read")
        details = {"faces": counts.most, "frames_with_swap": counts.changed, "width": size[0], "height": size[1], **used.details}
        findings = Findings(counts.most, counts.left, [*hints, *counts.hints], used.models)
        return Result(os.path.basename(output), "video/mp4", seconds=written.seconds, details=details, findings=findings)


class Counts:
    """What the frames of a video showed."""

    def __init__(self) -> None:
        self.frames = self.changed = self.most = self.bystanders = 0

    def add(self, found: int, changed: int) -> None:
        self.frames += 1
        self.changed += changed > 0
        self.most = max(self.most, changed)
        self.bystanders = max(self.bystanders, found - changed)

    @property
    def left(self):
        return {"bystander": self.bystanders} if self.bystanders else {}

    @property
    def hints(self) -> List[Hint]:
        unchanged = self.frames - self.changed
        if unchanged <= UNCHANGED * self.frames:
            return []
        message = f"{unchanged} of {self.frames} frames of the video show no face that can be used. A video that always shows one gives a better result."
        return [Hint("frames_unchanged", message, "video")]


def left_of(found: Sequence[Face], changed: Sequence[Face]):
    others = len(found) - len(changed)
    return {"bystander": others} if others else {}


def steady(face: Face, before: Sequence[Face]) -> Face:
    """Returns a face whose points follow those of the last frame, so that noise of the detector is not seen."""
    last = max(before, key=face.overlap, default=None)
    if last is None or face.overlap(last) < SAME:
        return face
    moved = float(np.hypot(*(face.five - last.five).T).mean())
    share = min(1.0, max(SLOWEST, moved / (MOVES * face.width)))
    return replace(face, five=last.five + share * (face.five - last.five))
