"""Ready engines that drive what the owner has: `comfyui`, `diffusers` and `facefusion`. Each is run with `python -m`."""
