"""Pipelines that are called, and answer, as those of diffusers 0.42 do, without networks. They tell TRIAL_LOG what they get.

`prompt` says what happens: see `_act`.
"""

import json
import os
import time
from types import SimpleNamespace

import numpy as np
import torch
from PIL import Image

__version__ = "0.42.1"


def _log(what, **said):
    with open(os.environ["TRIAL_LOG"], "a") as file:
        file.write(json.dumps([what, said], default=_short) + "\n")


def _short(value):
    if isinstance(value, Image.Image):
        return f"picture {value.width}x{value.height}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    if isinstance(value, torch.Generator):
        return f"{value.device} {value.seed}"
    return type(value).__name__


class Model:
    """No pipeline."""


class DiffusionPipeline:
    device = "cpu"

    @classmethod
    def from_pretrained(cls, folder, **more):
        _log("from_pretrained", folder=os.path.basename(folder), **more)
        if not os.path.exists(os.path.join(folder, "model.safetensors")) and more.get("use_safetensors"):
            raise OSError(f"Error no file named diffusion_pytorch_model.safetensors found in directory {folder}.")
        self = cls()
        self.vae = SimpleNamespace(enable_tiling=lambda: _log("vae_tiling"))
        return self

    def to(self, device):
        self.device = device
        return self

    def enable_model_cpu_offload(self, device):
        _log("offload", device=device)

    def maybe_free_model_hooks(self):
        _log("free")

    def load_lora_weights(self, folder, **more):
        _log("lora", **more)
        if "broken" in more["weight_name"]:
            raise ValueError("no LoRA keys")

    def set_adapters(self, names, scales):
        _log("adapters", names=names, scales=scales)

    def set_progress_bar_config(self, disable):
        self.quiet = disable

    def _steps(self, prompt, steps, each):
        """`num_timesteps` is what remains of the steps, as with a strength below 1."""
        self.num_timesteps = steps // 2
        if prompt == "long-step":
            for _ in range(6000):
                time.sleep(0.01)
                torch.run_module()
        for step in range(1000 if prompt == "slow" else self.num_timesteps):
            time.sleep(0.05)
            torch.run_module()
            if each is not None and each(self, step, 1000 - step, {"latents": None}) is None:
                raise TypeError("the callback returned nothing")


def _act(prompt):
    """Raises what the prompt asks for."""
    if prompt == "memory":
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
    if prompt == "cpu-memory":
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory")
    if prompt == "no-face":
        raise ValueError("There is No Face here")
    if prompt == "fail":
        raise ValueError("`image` has to be of type `PIL.Image.Image`")


def _noisy(picture, generator):
    noise = np.random.default_rng(generator.seed).integers(0, 9, np.asarray(picture).shape)
    return np.clip(np.asarray(picture, np.float32) + noise, 0, 255) / 255


class TrialImg2ImgPipeline(DiffusionPipeline):
    def __call__(
        self,
        prompt=None,
        image=None,
        strength=0.8,
        num_inference_steps=50,
        guidance_scale=7.5,
        negative_prompt=None,
        width=None,
        height=None,
        generator=None,
        face_image=None,
        output_type="pil",
        return_dict=True,
        callback_on_step_end=None,
        callback_on_step_end_tensor_inputs=["latents"],  # noqa: B006
        **kwargs,
    ):
        said = {**locals()}
        for name in ("self", "kwargs", "callback_on_step_end", "callback_on_step_end_tensor_inputs"):
            said.pop(name)
        _log("call", device=self.device, **said)
        _act(prompt)
        self._steps(prompt, num_inference_steps, callback_on_step_end)
        first = image[0] if isinstance(image, list) else image
        made = _noisy(first, generator)
        if prompt == "nan":
            made = made * np.float32("nan")
        if prompt == "large":
            made = np.zeros((5000, 5000, 3), np.float32)
        if prompt == "grey":
            made = made[:, :, :1]
        found = [prompt == "unsafe"]
        return SimpleNamespace(images=np.stack([made] * (2 if prompt == "two" else 1)), nsfw_content_detected=found)


class TrialVideoPipeline(DiffusionPipeline):
    def __call__(
        self,
        video,
        prompt=None,
        num_frames=None,
        fps=None,
        audio=None,
        image=None,
        num_inference_steps=8,
        generator=None,
        output_type="pil",
        callback_on_step_end=None,
    ):
        _log("call", frames=len(video), num_frames=num_frames, fps=fps, audio=audio, image=image)
        self._steps(prompt, num_inference_steps, callback_on_step_end)
        frames = np.stack([np.asarray(frame, np.float32) / 255 for frame in video])
        return SimpleNamespace(frames=(frames[:2] if prompt == "short" else frames)[None])


class TrialOldPipeline(DiffusionPipeline):
    """An old one: it gives pictures of Pillow, tells no steps and takes no seed."""

    def __call__(self, image, prompt):
        return SimpleNamespace(images=[image])
