"""The models of voices: both layouts of a voice, content encoders, RMVPE with and without its spectrogram."""

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
from semblance_sidecar import RenderError

from ..ort.graph import ModelFault
from ..ort.manifest import Entry
from ..ort.opening import at_start, in_run, open_session, read_model
from ..ort.settings import Running
from .mel import BANDS, CLASSES, HOP, log_mel, pitch_of_salience

TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64}
NOISE_WIDTH = 192
# Samples that the encoder's last frame reads beyond the window; it reads 400 every 320.
BEYOND = 80
# Inputs of a voice: the name that RVC-Project's export has for each of w-okada's.
ALIASES = {"feats": "phone", "p_len": "phone_lengths", "sid": "ds"}
NEEDED, OPTIONAL = ("feats", "p_len", "sid"), ("pitch", "pitchf", "rnd")
# Outputs of a content encoder that has several layers.
LAYERS = {256: "units9", 768: "unit12"}
# Least strengths of a pitch, of RVC for a salience, and of w-okada's voice changer for a model that hears sound.
SALIENT, SURE = 0.03, 0.3


class VoiceModel:
    """One model, opened. Its inputs are told by role."""

    def __init__(self, entry: Entry, running: Running, device: int):
        self.entry = entry
        data, _ = read_model(entry.path, entry.sha256)
        self._session, self._options = open_session(data, running, device)
        self.inputs: Dict[str, Any] = {}
        self.output = self._session.get_outputs()[0].name

    def _bind(self, roles: Mapping[str, Any], shapes: Mapping[str, Sequence[Optional[int]]]) -> None:
        """Keeps the inputs by role. Raises ModelFault for one that does not fit; None in a shape: any size."""
        for role, arg in roles.items():
            shape = shapes[role]
            fits = len(arg.shape) == len(shape) and all(
                not isinstance(there, int) or wanted is None or there == wanted for wanted, there in zip(shape, arg.shape)
            )
            if arg.type not in TYPES or not fits:
                wanted = ["open" if each is None else each for each in shape]
                raise ModelFault(f'input "{arg.name}": expected {wanted}, found {arg.type} {arg.shape}')
            # Where the file fixes the number of frames or samples, a window of another length could not be fed.
            if any(wanted is None and isinstance(there, int) for wanted, there in zip(shape, arg.shape)):
                raise ModelFault(f'input "{arg.name}": its length must be open, found {arg.shape}')
        self.inputs = dict(roles)

    def run(self, feeds: Mapping[str, np.ndarray], start: bool = False) -> np.ndarray:
        named = {
            arg.name: np.ascontiguousarray(feeds[role], TYPES[arg.type]).reshape(feeds[role].shape) for role, arg in self.inputs.items()
        }
        try:
            found = self._session.run([self.output], named, self._options)[0]
        except Exception as error:
            raise (at_start if start else in_run)(error) from None
        if not np.isfinite(found).all():
            raise RenderError("processing_failed", f"The model {self.entry.name} gave values that are not finite numbers.")
        return found

    @property
    def args(self) -> List[Any]:
        return self._session.get_inputs()


class Voice(VoiceModel):
    def __init__(self, entry: Entry, running: Running, device: int, frames: int):
        super().__init__(entry, running, device)
        width = entry.contract.size
        found = {arg.name: arg for arg in self.args}
        roles = {role: found.get(role) or found.get(ALIASES.get(role, role)) for role in (*NEEDED, *OPTIONAL)}
        missing = [f"{role} or {ALIASES[role]}" for role in NEEDED if roles[role] is None]
        if missing:
            raise ModelFault(f"it has no input {', '.join(missing)}; found {', '.join(found)}")
        known = {role: arg for role, arg in roles.items() if arg is not None}
        others = set(found) - {arg.name for arg in known.values()}
        if others:
            raise ModelFault(f"it has inputs that no voice of RVC has: {', '.join(sorted(others))}")
        frame = [1, None]
        shapes = {"feats": [1, None, width], "p_len": [1], "sid": [1], "pitch": frame, "pitchf": frame, "rnd": [1, NOISE_WIDTH, None]}
        self._bind(known, shapes)
        self.rate = entry.options["sample_rate"]
        self.audio(np.zeros((frames, width), np.float32), np.zeros(frames), np.ones(frames, np.int64), self._silence(frames), start=True)

    def _silence(self, frames: int) -> Optional[np.ndarray]:
        return np.zeros((NOISE_WIDTH, frames), np.float32) if "rnd" in self.inputs else None

    def audio(self, feats: np.ndarray, hz: np.ndarray, classes: np.ndarray, noise: Optional[np.ndarray], start: bool = False) -> np.ndarray:
        """Returns the sound of a window. Raises ModelFault when it has another length than its rate says."""
        frames = len(feats)
        feeds = {
            "feats": feats[None],
            "p_len": np.array([frames]),
            "sid": np.array([int(self.entry.options["speaker"])]),
            "pitch": classes[None],
            "pitchf": hz[None],
        }
        if noise is not None:
            feeds["rnd"] = noise[None]
        sound = self.run(feeds, start).reshape(-1).astype(np.float64)
        if len(sound) != frames * self.rate // 100:
            raise ModelFault(f"it gave {len(sound)} samples for {frames / 100:g} s, so its sample_rate is not {self.rate}")
        return sound


class Encoder(VoiceModel):
    def __init__(self, entry: Entry, running: Running, device: int, frames: int):
        super().__init__(entry, running, device)
        self.width = entry.contract.size
        if len(self.args) != 1:
            raise ModelFault(f"expected one input, the sound; found {', '.join(arg.name for arg in self.args)}")
        self._rank = len(self.args[0].shape)
        self._bind({"sound": self.args[0]}, {"sound": [1, 1, None] if self._rank == 3 else [1, None]})
        outputs = self._session.get_outputs()
        named = next((arg.name for arg in outputs if arg.name == LAYERS[self.width]), None)
        self.output = named or next((arg.name for arg in outputs if list(arg.shape)[-1:] == [self.width]), outputs[0].name)
        self.content(np.zeros(frames * HOP + BEYOND), start=True)

    def content(self, window: np.ndarray, start: bool = False) -> np.ndarray:
        """Returns what is said, a row for each 20 ms."""
        sound = window.astype(np.float32).reshape((1, 1, -1) if self._rank == 3 else (1, -1))
        said = self.run({"sound": sound}, start)
        frames = (len(window) - BEYOND) // (2 * HOP)
        if said.shape != (1, frames, self.width):
            raise ModelFault(f"expected content of [1, {frames}, {self.width}] for {len(window)} samples, found {list(said.shape)}")
        return said[0].astype(np.float32)


class Rmvpe(VoiceModel):
    def __init__(self, entry: Entry, running: Running, device: int, frames: int):
        super().__init__(entry, running, device)
        found = {arg.name: arg for arg in self.args}
        self._hears = "waveform" in found
        roles = {name: found.get(name) for name in ("waveform", "threshold")} if self._hears else {"mel": self.args[0]}
        if None in roles.values() or len(roles) != len(found):
            raise ModelFault(f"expected waveform and threshold, or one input with {BANDS} mel bands; found {', '.join(found)}")
        self._scalar = self._hears and len(found["threshold"].shape) == 0
        shapes = {"waveform": [1, None], "threshold": [] if self._scalar else [1], "mel": [1, BANDS, None]}
        self._bind(roles, shapes)
        said = entry.options["threshold"]
        self._threshold = (SURE if self._hears else SALIENT) if said is None else said
        self.pitch(np.zeros(frames * HOP + BEYOND), frames, start=True)

    def pitch(self, window: np.ndarray, frames: int, start: bool = False) -> np.ndarray:
        """Returns Hz of each frame, 0 without a voice."""
        if not self._hears:
            salience = self.run({"mel": log_mel(window, frames)[None]}, start)
            if salience.shape != (1, frames, CLASSES):
                raise ModelFault(f"expected a salience of [1, {frames}, {CLASSES}], found {list(salience.shape)}")
            return pitch_of_salience(salience[0].astype(np.float32), self._threshold)
        # The first frame is centred on the first sample, so a further sample would make a further frame.
        threshold = np.array(self._threshold if self._scalar else [self._threshold], np.float32)
        hz = self.run({"waveform": window[None, : HOP * frames - 1], "threshold": threshold}, start).reshape(-1)
        if len(hz) != frames:
            raise ModelFault(f"expected the pitch of {frames} frames, found {len(hz)}")
        return hz.astype(np.float64)


Opened = Tuple[Dict[str, Voice], Dict[int, Encoder], Optional[Rmvpe]]


def open_models(entries: Sequence[Entry], running: Running, device: int, frames: int) -> Opened:
    """Opens every model and runs it once on a window of so many frames. Raises ModelFault with all faults."""
    voices: Dict[str, Voice] = {}
    encoders: Dict[int, Encoder] = {}
    rmvpe: Optional[Rmvpe] = None
    faults = []
    for entry in entries:
        try:
            if entry.contract.stage == "voice":
                voices[entry.name] = Voice(entry, running, device, frames)
            elif entry.contract.stage == "voice-pitch":
                rmvpe = Rmvpe(entry, running, device, frames)
            else:
                encoders[entry.contract.size] = Encoder(entry, running, device, frames)
        except (ModelFault, RenderError) as fault:
            faults.append(f"{entry.name} ({entry.file}): {fault}")
    if faults:
        raise ModelFault("; ".join(faults))
    return voices, encoders, rmvpe
