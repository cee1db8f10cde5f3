"""Makes a Python model an engine of live sessions: subclass LivePictures or LiveSound, then call serve_live().

See docs/guide/engine-author/live-engines.md. It needs numpy: install semblance-sidecar[live].
"""

from .contract import LivePictures, LiveSound, Refused, Session, Unreadable
from .server import serve_live

__all__ = ["LivePictures", "LiveSound", "Refused", "Session", "Unreadable", "serve_live"]
