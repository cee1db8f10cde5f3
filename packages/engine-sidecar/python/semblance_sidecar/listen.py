"""Opens the socket of the front process, and never takes the socket of another process."""

import os
import secrets
import socket
import stat
from typing import Tuple

# Longest path in bytes: the agent accepts no longer one, and it fits into a socket address on every system.
LONGEST = 100


class Unusable(Exception):
    """The socket cannot be used; the message is one line."""


def inside(root: str, path: str) -> str:
    """Returns the full path of a file in the shared folder. Raises ValueError for one outside."""
    full = os.path.join(root, path)
    if os.path.commonpath([root, os.path.normpath(full)]) != root:
        raise ValueError(f"{path} is outside the shared directory")
    return full


def assert_free(path: str) -> None:
    """Raises Unusable unless the path is free or has the socket of an engine that has ended."""
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
            pass  # The queue of connections is full, so another process listens.
        except OSError as error:
            raise Unusable(f"{path} cannot be used: {error}") from error
    raise Unusable(f"somebody listens on {path} already")


def bind(server, path: str) -> Tuple[int, int]:
    """Makes the gRPC server listen at the path. Returns the identity of the socket: its device and inode.

    The socket is bound under a secret name and then renamed, because gRPC removes any file at the path that it knows,
    before it listens and again when it ends.
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
    """Removes the socket if it still has this identity.

    Call it while the socket is open, because another file may get its inode later.
    """
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return
    if (there.st_dev, there.st_ino) == identity:
        os.unlink(path)
