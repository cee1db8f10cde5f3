"""Renders by the FaceFusion of the owner, as a program. See docs/guide/engine-author/facefusion.md."""
