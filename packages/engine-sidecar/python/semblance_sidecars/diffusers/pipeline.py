"""Loads a pipeline on a device, checks that it takes what the settings give it, and runs it.

Nothing here imports torch or diffusers before a pipeline is loaded, because the front process needs neither.
"""

import difflib
import importlib.util
import inspect
import os
import sys
import time
from contextlib import contextmanager
from typing import Any, Callable, Dict, List, Mapping, Optional

from .faults import PipelineFault, of_error
from .settings import Use
from .source import SAFE, Source

# Nothing is downloaded or told to anybody, whatever a class or a component's configuration asks for. No bars are drawn.
ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "DIFFUSERS_DISABLE_REMOTE_CODE": "1",
    "TQDM_DISABLE": "1",
}
# Pause between two looks at a cancel, in seconds.
TICK_S = 0.05

# Gets how many of the steps are done, from 0 to 1. It raises in a cancelled job.
Tell = Callable[[float], None]


class Pipeline:
    """One loaded pipeline. `at` is the place of the settings that name it."""

    def __init__(self, source: Source, device: str, at: str):
        os.environ.update(ENVIRONMENT)
        self.source = source
        self._at = at
        self._class = _class_of(source, at)
        self.parameters = inspect.signature(self._class.__call__).parameters
        _assert_device(device)
        try:
            self._pipe = self._load(device)
        except Exception as error:
            raise of_error(error, at) from error

    def _load(self, device: str) -> Any:
        import torch

        source = self.source
        # With None diffusers would fall back to pickled weights.
        more: Dict[str, Any] = {"use_safetensors": None if source.allow_pickle else True}
        if source.variant:
            more["variant"] = source.variant
        self._torch = torch
        dtype = getattr(torch, source.dtype)
        try:
            pipe = self._class.from_pretrained(source.folder, dtype=dtype, local_files_only=True, **more)
        except OSError as error:
            if source.allow_pickle or SAFE not in str(error):
                raise
            setting = f"{self._at}.weights.allow_pickle: true loads pickled weights, which can run code of whoever made them"
            raise PipelineFault(f"{source.folder} lacks a {SAFE} file; {setting}: {' '.join(str(error).split())}") from None
        self._add(pipe)
        self._save_memory(pipe, device)
        pipe.set_progress_bar_config(disable=True)
        return pipe

    def _add(self, pipe: Any) -> None:
        source = self.source
        safe = {"use_safetensors": None if source.allow_pickle else True}
        names = []
        for index, lora in enumerate(source.loras):
            names.append(f"lora{index}")
            with _named(f"{lora.at}.file"):
                folder, file = os.path.split(lora.file)
                pipe.load_lora_weights(folder, weight_name=file, adapter_name=names[-1], local_files_only=True, **safe)
        if names:
            with _named(f"{self._at}.loras"):
                pipe.set_adapters(names, [lora.scale for lora in source.loras])
        adapter = source.ip_adapter
        if adapter:
            with _named(adapter.at):
                folder, file = os.path.split(adapter.file)
                pipe.load_ip_adapter(
                    folder, subfolder="", weight_name=file, image_encoder_folder=adapter.encoder, local_files_only=True
                )
                pipe.set_ip_adapter_scale(adapter.scale)

    def _save_memory(self, pipe: Any, device: str) -> None:
        source = self.source
        if source.attention_slicing:
            with _named(f"{self._at}.memory.attention_slicing"):
                pipe.enable_attention_slicing()
        if source.vae_tiling:
            with _named(f"{self._at}.memory.vae_tiling"):
                pipe.vae.enable_tiling()
        if source.vae_slicing:
            with _named(f"{self._at}.memory.vae_slicing"):
                pipe.vae.enable_slicing()
        if source.offload is None:
            pipe.to(device)
        else:
            with _named(f"{self._at}.memory.cpu_offload"):
                offload = pipe.enable_model_cpu_offload if source.offload == "model" else pipe.enable_sequential_cpu_offload
                offload(device=device)

    def fault_of(self, use: Use) -> Optional[str]:
        """Returns the first argument in the settings that the class does not take, in one sentence; None if it takes all."""
        taken = [name for name, each in self.parameters.items() if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
        for argument, where in use.named.items():
            if argument not in taken[1:]:
                near = difflib.get_close_matches(argument, taken[1:], 1)
                meant = f"; did you mean {near[0]}?" if near else ""
                return f"{use.at}.{where}: {self.source.pipeline} takes no argument {argument}{meant}"
        for name in taken[1:]:
            if self.parameters[name].default is inspect.Parameter.empty and name not in use.named:
                return f"{use.at}: {self.source.pipeline} needs the argument {name}, which no setting gives"
        return None

    def run(self, use: Use, arguments: Mapping[str, Any], tell: Tell) -> List[Any]:
        """Returns the pictures that the pipeline makes, as arrays of bytes. Raises RenderError, RenderInterrupted, PipelineFault."""
        given = dict(arguments)
        done = 0.0

        def stepped(pipe: Any, step: int, _time: Any, kept: Dict[str, Any]) -> Dict[str, Any]:
            nonlocal done
            steps = getattr(pipe, "num_timesteps", None) or given.get("num_inference_steps") or 0
            done = min(1.0, (step + 1) / steps) if steps else done
            tell(done)
            return kept

        if "callback_on_step_end" in self.parameters:
            given["callback_on_step_end"] = stepped
        if "generator" in self.parameters:
            # On the CPU, because numbers of a card differ by its kind.
            given["generator"] = self._torch.Generator("cpu").manual_seed(use.seed)
        if "output_type" in self.parameters:
            given["output_type"] = "np"
        try:
            with self._watched(lambda: tell(done)):
                made = self._pipe(**given)
        except Exception as error:
            raise of_error(error, use.at, use.refusals) from error
        finally:
            if self.source.offload == "model":
                # An error or a cancel leaves a model on the card.
                self._pipe.maybe_free_model_hooks()
        return made

    @contextmanager
    def _watched(self, tell: Callable[[], None]):
        """Tells at every module that runs, at most once in TICK_S. So a cancel need not wait for the end of a step."""
        last = time.monotonic()

        def before(*_: Any) -> None:
            nonlocal last
            if time.monotonic() - last >= TICK_S:
                last = time.monotonic()
                tell()

        handle = self._torch.nn.modules.module.register_module_forward_pre_hook(before)
        try:
            yield
        finally:
            handle.remove()


def _class_of(source: Source, at: str) -> Any:
    """Returns the class: one that diffusers exports, or one of the owner's file. Raises PipelineFault."""
    try:
        import diffusers
    except ImportError as error:
        raise PipelineFault(f"diffusers cannot be imported: {error}") from None
    where: Any = diffusers
    if source.file is not None:
        spec = importlib.util.spec_from_file_location(f"semblance_pipeline_{os.path.basename(source.file)[:-3]}", source.file)
        where = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = where
        try:
            spec.loader.exec_module(where)
        except Exception as error:
            raise PipelineFault(f"{at}.file: {source.file} cannot be imported: {type(error).__name__}: {error}") from error
    try:
        found = getattr(where, source.pipeline, None)
    except Exception as error:
        # diffusers imports a class when it is first asked for.
        raise PipelineFault(f"{at}.pipeline: {source.pipeline} cannot be imported: {error}") from error
    if not isinstance(found, type) or not issubclass(found, diffusers.DiffusionPipeline) or found is diffusers.DiffusionPipeline:
        has = source.file or f"diffusers {diffusers.__version__}"
        raise PipelineFault(f"{at}.pipeline: {has} has no class of pipelines {source.pipeline}")
    return found


def _assert_device(device: str) -> None:
    import torch

    kind, _, number = device.partition(":")
    there = {"cuda": torch.cuda, "xpu": getattr(torch, "xpu", None), "mps": torch.backends.mps}.get(kind)
    if kind == "cpu" or (there is not None and there.is_available() and (not number or int(number) < there.device_count())):
        return
    raise PipelineFault(f"devices: there is no {device}")


@contextmanager
def _named(setting: str):
    """Names the setting in an error that is raised inside."""
    try:
        yield
    except Exception as error:
        raise of_error(error, setting) from error
