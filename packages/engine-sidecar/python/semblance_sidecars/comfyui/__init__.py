"""Renders by the owner's workflows in a ComfyUI server. See docs/guide/engine-author/comfyui.md."""
