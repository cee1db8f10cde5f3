"""Writes pipelines with tiny random weights into the folder that it is given. Needs torch, diffusers, transformers and peft.

`picture`: StableDiffusionImg2ImgPipeline; `pickled`: the same with pickled weights; `video`: AnimateDiffVideoToVideoPipeline;
`lora.safetensors` and `adapter.safetensors` (with `adapter-encoder`): a LoRA and an IP-Adapter for them.
"""

import json
import os
import sys

import torch
from diffusers import (
    AnimateDiffVideoToVideoPipeline,
    AutoencoderKL,
    DDIMScheduler,
    MotionAdapter,
    StableDiffusionImg2ImgPipeline,
    UNet2DConditionModel,
)
from peft import LoraConfig
from peft.utils import get_peft_model_state_dict
from safetensors.torch import save_file
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer, CLIPVisionConfig, CLIPVisionModelWithProjection

WIDTH = 32


def tokenizer(folder: str) -> CLIPTokenizer:
    os.makedirs(folder, exist_ok=True)
    letters = [chr(each) for each in range(ord("!"), ord("~") + 1)]
    words = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    with open(os.path.join(folder, "vocab.json"), "w") as file:
        json.dump({word: index for index, word in enumerate(words)}, file)
    with open(os.path.join(folder, "merges.txt"), "w") as file:
        file.write("#version: 0.2\n")
    return CLIPTokenizer.from_pretrained(folder, model_max_length=77)


def parts(folder: str) -> dict:
    torch.manual_seed(0)
    text = CLIPTextConfig(
        vocab_size=256, hidden_size=WIDTH, intermediate_size=37, num_hidden_layers=2, num_attention_heads=4, bos_token_id=0, eos_token_id=2
    )
    blocks = {"block_out_channels": (16, 32), "layers_per_block": 1}
    return {
        "unet": UNet2DConditionModel(
            **blocks,
            sample_size=32,
            in_channels=4,
            out_channels=4,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=WIDTH,
            attention_head_dim=8,
            norm_num_groups=8,
        ),
        "scheduler": DDIMScheduler(beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", clip_sample=False),
        "vae": AutoencoderKL(
            block_out_channels=[16, 32],
            down_block_types=["DownEncoderBlock2D"] * 2,
            up_block_types=["UpDecoderBlock2D"] * 2,
            latent_channels=4,
            norm_num_groups=8,
        ),
        "text_encoder": CLIPTextModel(text),
        "tokenizer": tokenizer(os.path.join(folder, "words")),
    }


def write(folder: str) -> None:
    own = parts(folder)
    none = {"safety_checker": None, "feature_extractor": None, "image_encoder": None}
    picture = StableDiffusionImg2ImgPipeline(**own, **none, requires_safety_checker=False)
    picture.save_pretrained(os.path.join(folder, "picture"))
    picture.save_pretrained(os.path.join(folder, "pickled"), safe_serialization=False)
    motion = MotionAdapter(block_out_channels=(16, 32), motion_layers_per_block=1, motion_norm_num_groups=2, motion_num_attention_heads=4)
    video = AnimateDiffVideoToVideoPipeline(**own, motion_adapter=motion, image_encoder=None, feature_extractor=None)
    video.save_pretrained(os.path.join(folder, "video"))

    unet = UNet2DConditionModel.from_pretrained(os.path.join(folder, "picture", "unet"))
    adapter_of(unet, folder)
    unet.add_adapter(LoraConfig(r=4, lora_alpha=4, target_modules=["to_q", "to_v"], init_lora_weights=False))
    StableDiffusionImg2ImgPipeline.save_lora_weights(
        folder, unet_lora_layers=get_peft_model_state_dict(unet), weight_name="lora.safetensors"
    )


def adapter_of(unet: UNet2DConditionModel, folder: str) -> None:
    """Writes an IP-Adapter whose keys and values are random, as they lie in its files."""
    encoder = CLIPVisionModelWithProjection(
        CLIPVisionConfig(hidden_size=WIDTH, intermediate_size=37, projection_dim=WIDTH, num_hidden_layers=2, num_attention_heads=4)
    )
    encoder.save_pretrained(os.path.join(folder, "adapter-encoder"))
    weights = {
        "image_proj.proj.weight": torch.randn(4 * WIDTH, WIDTH),
        "image_proj.proj.bias": torch.zeros(4 * WIDTH),
        "image_proj.norm.weight": torch.ones(WIDTH),
        "image_proj.norm.bias": torch.zeros(WIDTH),
    }
    number = 1
    for name in unet.attn_processors:
        if name.endswith("attn1.processor"):
            continue
        block = name.split(".")
        out = {"down_blocks": (16, 32), "up_blocks": (32, 16), "mid_block": (32,)}[block[0]][int(block[1]) if block[0] != "mid_block" else 0]
        for kind in ("k", "v"):
            weights[f"ip_adapter.{number}.to_{kind}_ip.weight"] = 0.5 * torch.randn(out, WIDTH)
        number += 2
    save_file(weights, os.path.join(folder, "adapter.safetensors"))


if __name__ == "__main__":
    write(sys.argv[1])
