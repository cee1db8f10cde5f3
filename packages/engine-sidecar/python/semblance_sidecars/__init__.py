"""Ready engines that drive a program of the owner's: `comfyui` and `facefusion`. Each is run with `python -m`."""
