"""Names the weights of a pipeline, with their hashes and licences."""

import hashlib
import os
from typing import List

from semblance_sidecar import Model

from .source import Source


def models_of(source: Source) -> List[Model]:
    """Returns all weights of a source: the folder, then what is added to it."""
    models = [Model(source.name, hash_of_folder(source.folder), source.licence)]
    for adapter in (*source.loras, *([source.ip_adapter] if source.ip_adapter else ())):
        models.append(Model(adapter.name, hash_of_file(adapter.file), adapter.licence))
        if adapter.encoder is not None:
            models.append(Model(f"{adapter.name} encoder", hash_of_folder(adapter.encoder), adapter.licence))
    return models


def hash_of_folder(folder: str) -> str:
    """Returns the SHA-256 of a list of all files, each with its own: the lines that `sha256sum` prints for them.

    In the folder, `find -L . -type f -not -path '*/.*' | LC_ALL=C sort | xargs sha256sum | sha256sum` gives the same.
    """
    files = []
    seen = set()
    for place, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        if real in seen:
            # A link that leads back would never end.
            folders.clear()
            continue
        seen.add(real)
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [os.path.relpath(os.path.join(place, name), folder) for name in names if not name.startswith(".")]
    lines = [f"{hash_of_file(os.path.join(folder, file))}  ./{file}\n" for file in sorted(files, key=os.fsencode)]
    return hashlib.sha256("".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


def hash_of_file(path: str) -> str:
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        while chunk := file.read(1 << 22):
            digest.update(chunk)
    return digest.hexdigest()
