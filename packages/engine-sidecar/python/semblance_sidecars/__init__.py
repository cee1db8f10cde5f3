"""Ready engines that drive a program of the owner's: `comfyui`. Each is run with `python -m`."""
