"""The engine. What it loads is imported by its workers only."""

from semblance_sidecar import Engine, Findings, Job, Result

from .settings import read_settings


class Ort(Engine):
    name = "ort"
    version = "1"

    def load(self) -> None:
        from .renders import Renders

        self.renders = Renders(read_settings(), self.worker)

    def render(self, job: Job) -> Result:
        return self.renders.render(job)

    def inspect(self, job: Job) -> Findings:
        return self.renders.inspect(job)
