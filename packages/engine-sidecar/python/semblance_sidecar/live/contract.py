"""The interface between an engine of live sessions and this library."""

import json
from typing import Dict, Optional, Tuple

RGB = "rgb"
JPEG = "jpeg"


class Refused(Exception):
    """What a client asks for cannot be used, and it reads the message.

    In open(), for pictures only: the client keeps its own face. In change(): everything stays as it was.
    """


class Unreadable(Exception):
    """A message is no valid media. The session goes on."""


class Session:
    """What one session was opened with, or changed to.

    `prompt` is the client's text, for an engine that takes prompts. `voice` is the definition of the voice. `inputs` maps
    roles (`face`) to paths of files, which may be read in open() and change() only. `sample_rate` is that of the client's
    sound.

    open() and change() may set `note`, a sentence for the client about what it asked for, and open() for sound `input_rate`
    and `output_rate`.
    """

    def __init__(self, settings: Dict[str, str], inputs: Dict[str, str], sample_rate: int):
        self.settings = settings
        self.inputs = inputs
        self.sample_rate = sample_rate
        self.note = ""
        self.input_rate = 0
        self.output_rate = 0

    @property
    def prompt(self) -> Optional[str]:
        return self.settings.get("prompt")

    @property
    def voice(self) -> Optional[dict]:
        return json.loads(self.settings["voice"]) if "voice" in self.settings else None


class _LiveEngine:
    """Base of both kinds. `slots` processes have one instance each, which carries one session at a time.

    `worker` is the number of the process, from 0 to `slots` - 1, such as to choose its GPU. It is set before the instance
    is made.
    """

    name: str = ""
    version: str = ""
    slots: int = 1
    worker: int = 0
    capability: str = ""

    def load(self) -> None:
        """Loads the model and runs it once, so that the first message is not slower than the next."""

    def open(self, session: Session) -> None:
        """Prepares a session, within 8 seconds."""

    def change(self, session: Session) -> None:
        """Takes another prompt, face or voice for the messages to come, within 8 seconds; messages wait meanwhile.

        An engine without this method of its own takes no changes. `session` is that of open(), with the new settings and
        inputs. When this raises Refused, it has the former ones again, and the engine must go on as before.
        """
        raise NotImplementedError

    def convert(self, message):
        """Returns what is sent for a message; None: nothing. Each call gets the next message of the session."""
        raise NotImplementedError

    def close(self, session: Session) -> None:
        """Forgets a session."""


def takes_changes(engine_class) -> bool:
    return engine_class.change is not _LiveEngine.change


class LivePictures(_LiveEngine):
    """Live Swap Pro.

    With `form = "rgb"` convert() gets an array of height × width × 3 bytes in shared memory, upright, and returns one; it
    may change its argument and return it. With `form = "jpeg"` it gets bytes and returns bytes, or a list of them.
    """

    capability = "full-live-swap"
    form: str = RGB
    # Whether it understands any prompt; otherwise it always gets the picture of a face in `session.inputs["face"]`.
    takes_prompt: bool = False
    # Pictures that are on their way at once. With 2 the next one already waits while one is converted.
    in_flight: int = 1
    # Pictures that clients are recommended to send.
    size: Tuple[int, int] = (640, 480)
    fps: float = 25


class LiveSound(_LiveEngine):
    """Voice Swap.

    convert() gets an array of float32 samples from -1 to 1, and returns one of any length: all in all no more sound than it
    got. `input_rate` and `output_rate` are in Hz; 0: that of the client. A session may change them in open().
    """

    capability = "voice"
    input_rate: int = 0
    output_rate: int = 0
