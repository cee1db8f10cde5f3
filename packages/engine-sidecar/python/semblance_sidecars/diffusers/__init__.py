"""Renders by the owner's pipelines of Hugging Face `diffusers`. See docs/guide/engine-author/diffusers.md."""
