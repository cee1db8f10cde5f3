"""The engine of live sessions. What it loads is imported by its workers only."""

from semblance_sidecar.live import LiveSound

from .settings import read_settings

# Rate of what all models before a voice hear, in Hz.
HEARD = 16_000


class Rvc(LiveSound):
    name = "rvc"
    version = "1"
    input_rate = HEARD

    def load(self) -> None:
        from .voices import Voices

        self.voices = Voices(read_settings(), self.worker)

    def open(self, session) -> None:
        self.stream = self.voices.open(session.voice or {})
        session.output_rate = self.stream.rate

    def convert(self, samples):
        made = self.stream.push(samples)
        return made if len(made) else None
