"""Runs one model by onnxruntime: with bound memory on its device, and within limits of memory."""

from typing import Any, Dict, List, Mapping, Optional, Sequence

import numpy as np
import onnxruntime
from semblance_sidecar import RenderError

from .contracts import ANY, BATCH, Tensor, tensors_of
from .graph import ModelFault, emap_of
from .manifest import Entry
from .opening import at_start, in_run, open_session, read_model
from .settings import Running

TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


class Session:
    """One model. Its inputs and outputs have memory on its device that is bound once, so a run allocates none."""

    def __init__(self, entry: Entry, running: Running, device: int):
        self.entry = entry
        data, model = read_model(entry.path, entry.sha256)
        self.emap = emap_of(model) if entry.contract.identity == "emap" else None
        del model
        self.session, self._run_options = open_session(data, running, device)
        self._place = ("cpu", 0) if list(running.providers)[0] == "cpu" else ("cuda", device)
        self.size = self._side()
        self._inputs, self._outputs = self._bind()
        self._memory: Dict[str, onnxruntime.OrtValue] = {}
        self._binding = self.session.io_binding()
        self._first_run()

    def _side(self) -> int:
        """Returns the side of the model's picture: of its contract, of its options, or as its file fixes it."""
        contract = self.entry.contract
        if contract.size is not None:
            return contract.size
        found = self.session.get_inputs()[0].shape
        at = 1 if contract.identity == "own" else 2
        side = found[at] if len(found) > at else None
        fallback = 224 if contract.identity == "own" else 640
        return self.entry.options.get("size") or (side if isinstance(side, int) else fallback)

    def _bind(self):
        """Pairs the tensors of the contract with those of the file. Raises ModelFault with all that do not fit."""
        inputs, outputs = tensors_of(self.entry.contract, self.size)
        faults: List[str] = []
        found_in, found_out = self.session.get_inputs(), self.session.get_outputs()
        bound_in = _pairs("input", inputs, found_in, faults)
        bound_out = _pairs("output", outputs, found_out, faults)
        taken = {arg.name for _, arg in bound_in}
        faults += [f'input "{arg.name}": expected no such input' for arg in found_in if arg.name not in taken]
        if faults:
            raise ModelFault("; ".join(faults))
        return bound_in, bound_out

    def has(self, role: str) -> bool:
        return any(spec.name == role for spec, _ in self._inputs)

    def _first_run(self) -> None:
        """Runs on zeros: finds the sizes of the outputs, and gives every tensor its memory."""
        feeds = {}
        for spec, arg in self._inputs:
            zeros = np.zeros(_first(_shape(spec, arg)), TYPES[arg.type])
            feeds[arg.name] = zeros
            self._memory[arg.name] = onnxruntime.OrtValue.ortvalue_from_numpy(zeros, *self._place)
            self._binding.bind_ortvalue_input(arg.name, self._memory[arg.name])
        try:
            outputs = self.session.run([arg.name for _, arg in self._outputs], feeds, self._run_options)
        except Exception as error:
            raise at_start(error) from None
        for (spec, arg), output in zip(self._outputs, outputs):
            if not any(_fits(dims, output.shape) for dims in (spec.dims, *spec.otherwise)):
                raise ModelFault(f'output "{arg.name}": expected {_said(spec)}, found {list(output.shape)} when it ran')
            memory = onnxruntime.OrtValue.ortvalue_from_shape_and_type(list(output.shape), TYPES[arg.type], *self._place)
            self._binding.bind_ortvalue_output(arg.name, memory)
            self._memory[arg.name] = memory

    def run(self, feeds: Mapping[str, np.ndarray]) -> Dict[str, np.ndarray]:
        """Returns the outputs by role. Raises RenderError for values that are not finite."""
        for spec, arg in self._inputs:
            memory = self._memory[arg.name]
            given = np.ascontiguousarray(feeds[spec.name], TYPES[arg.type]).reshape(memory.shape())
            memory.update_inplace(given)
        try:
            self.session.run_with_iobinding(self._binding, self._run_options)
        except Exception as error:
            raise in_run(error) from None
        outputs = {}
        for spec, arg in self._outputs:
            values = self._memory[arg.name].numpy().astype(np.float32, copy=False)
            if not spec.partly and not np.isfinite(values).all():
                raise no_numbers(self.entry.name)
            outputs[spec.name] = values
        return outputs

    def first(self, feeds: Mapping[str, np.ndarray]) -> np.ndarray:
        """Returns the first output, without its batch."""
        return self.run(feeds)[self._outputs[0][0].name][0]


def no_numbers(name: str) -> RenderError:
    return RenderError("processing_failed", f"The model {name} gave values that are not finite numbers.")


def _pairs(kind: str, specs: Sequence[Tensor], found: Sequence[Any], faults: List[str]):
    named = {spec.name for spec in specs if not spec.free}
    others = [arg for arg in found if arg.name not in named]
    pairs = []
    for spec in specs:
        arg = (others.pop(0) if others else None) if spec.free else next((each for each in found if each.name == spec.name), None)
        if arg is None:
            if not spec.optional:
                faults.append(f'{kind} "{spec.name}": expected {_said(spec)}, found none')
        elif arg.type not in TYPES or (kind == "input" and _shape(spec, arg) is None):
            faults.append(f'{kind} "{arg.name}": expected {_said(spec)}, found {arg.type} {arg.shape}')
        else:
            pairs.append((spec, arg))
    return pairs


def _shape(spec: Tensor, arg: Any) -> Optional[Sequence[Any]]:
    """Returns the shape of a contract that the declared one fits; None if it fits none."""
    for dims in (spec.dims, *spec.otherwise):
        if len(dims) == len(arg.shape) and all(
            not isinstance(there, int) or wanted == ANY or there == (1 if wanted == BATCH else wanted)
            for wanted, there in zip(dims, arg.shape)
        ):
            return dims
    return None


def _fits(dims: Sequence[Any], found: Sequence[int]) -> bool:
    return len(dims) == len(found) and all(wanted == ANY or there == (1 if wanted == BATCH else wanted) for wanted, there in zip(dims, found))


def _first(dims: Optional[Sequence[Any]]) -> List[int]:
    return [1 if each == BATCH else each for each in dims or ()]


def _said(spec: Tensor) -> str:
    shapes = (f"[{', '.join('1 or open' if each == BATCH else str(each) for each in dims)}]" for dims in (spec.dims, *spec.otherwise))
    return f"float32 or float16 {' or '.join(shapes)}"
