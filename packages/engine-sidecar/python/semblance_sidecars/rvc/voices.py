"""The voices of a worker: its models, loaded once, and streams that they convert."""

from typing import Any, Dict, Mapping

from ..ort.graph import ModelFault
from ..ort.opening import prepare
from .index import Index
from .mel import HOP, RATE
from .models import open_models
from .pitch import praat_pitch
from .settings import PM, Settings
from .stream import Stream


class UnknownVoice(Exception):
    """A voice names no model that is here. The message goes to the agent's log."""


class Voices:
    def __init__(self, settings: Settings, worker: int):
        """Loads every model, and runs it once. Raises ModelFault."""
        self._settings = settings
        self._frames = settings.context_ms * RATE // 1_000 // HOP
        prepare(settings.running)
        if settings.pitch == PM:
            _check_praat()
        entries = [each for each in settings.manifest.entries if settings.pitch != PM or each.contract.stage != "voice-pitch"]
        device = settings.running.devices[worker]
        self._models, self._encoders, self._rmvpe = open_models(entries, settings.running, device, self._frames)
        self._indexes: Dict[str, Index] = {}
        for name, model in self._models.items():
            if model.entry.index:
                try:
                    self._indexes[name] = Index(*model.entry.index, model.entry.contract.size)
                except ModelFault as fault:
                    raise ModelFault(f"{name}: {fault}") from None

    def open(self, voice: Mapping[str, Any]) -> Stream:
        """Returns a stream to a voice, by its definition. Raises UnknownVoice."""
        name = voice.get("model") or self._settings.default
        model = self._models.get(name or "")
        if model is None:
            raise UnknownVoice(f"the voice {voice.get('id')} names the model {name}; there are {', '.join(self._models)}")
        find = praat_pitch if self._rmvpe is None else self._rmvpe.pitch
        encoder = self._encoders[model.entry.contract.size]
        return Stream(voice, model, encoder, find, self._indexes.get(name), self._frames, self._settings.rms_mix_rate)


def _check_praat() -> None:
    try:
        import parselmouth  # noqa: F401
    except ImportError:
        raise ModelFault("the pitch pm needs Praat: pip install praat-parselmouth") from None
