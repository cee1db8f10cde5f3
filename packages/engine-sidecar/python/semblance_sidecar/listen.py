"""The socket on which the process in front listens: never that of somebody else."""

import os
import secrets
import socket
import stat
from typing import Tuple

# So much of a path the agent takes, and fits into the address of a socket everywhere.
LONGEST = 100


class Unusable(Exception):
    """The socket is not to be had; the message is one line."""


def assert_free(path: str) -> None:
    """Raises Unusable unless there is nothing at this path but, perhaps, the socket of an engine that has ended."""
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise Unusable(f"there is no folder {folder}: set SEMBLANCE_SIDECAR_SOCKET")
    if len(os.fsencode(path)) > LONGEST:
        raise Unusable(f"the path {path} is longer than {LONGEST} bytes: set SEMBLANCE_SIDECAR_SOCKET")
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise Unusable(f"{path} is there already, and is no socket")
    with socket.socket(socket.AF_UNIX) as trial:
        trial.settimeout(1)
        try:
            trial.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except (BlockingIOError, socket.timeout):
            pass  # Too many wait to be let in: somebody listens.
        except OSError as error:
            raise Unusable(f"{path} cannot be used: {error}") from error
    raise Unusable(f"somebody listens on {path} already")


def bind(server, path: str) -> Tuple[int, int]:
    """Lets the gRPC server listen there. Returns what tells this socket from another one at the same path.

    It is bound under a name that nobody knows and then moved: gRPC removes whatever lies at the path it was told, before
    it listens and once more when it ends.
    """
    own = os.path.join(os.path.dirname(path), f".{secrets.token_hex(3)}")
    try:
        server.add_insecure_port(f"unix:{own}")
        made = os.lstat(own)
        os.rename(own, path)
    except (RuntimeError, OSError) as error:
        raise Unusable(f"cannot listen on {path}: {error}") from error
    return made.st_dev, made.st_ino


def remove(path: str, identity: Tuple[int, int]) -> None:
    """Removes the socket if it is still this one. To be called while it is open: later another may have its number."""
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return
    if (there.st_dev, there.st_ino) == identity:
        os.unlink(path)
