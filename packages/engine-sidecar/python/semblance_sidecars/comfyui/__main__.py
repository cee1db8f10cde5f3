"""`python -m semblance_sidecars.comfyui` serves the workflows of the file that SEMBLANCE_COMFYUI_SETTINGS names."""

import sys

from semblance_sidecar import serve

from ..settings import SettingsFault
from .engine import ComfyUi
from .settings import read_settings

if __name__ == "__main__":
    try:
        settings = read_settings()
    except SettingsFault as fault:
        sys.exit(str(fault))
    ComfyUi.capabilities = [recipe.offer for recipe in settings.recipes.values()]
    ComfyUi.concurrency = len(settings.servers)
    serve(ComfyUi)
