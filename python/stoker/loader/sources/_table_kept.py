# SPDX-License-Identifier: Apache-2.0
"""Saves the footers of remote Parquet files for later runs, in _core.index_folder(), where the indexes of tars and videos are. The name of a saved footer is a
digest of the Parquet file's whole name, and its contents include neither that name nor a key in a URL."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from stoker import _core, _files

_MAGIC = b"STKFOOT1"
_DIGEST = 16  # size in bytes of the digest that follows the magic


class Kept(NamedTuple):
    """A saved footer. end: the bytes of the Parquet file from its footer on. size, version: the size in bytes and the version of the Parquet file."""

    size: int
    version: str
    end: bytes


def _digest(data: bytes | memoryview) -> bytes:
    import hashlib  # imported here, because it takes two milliseconds, and most programs do not need it

    return hashlib.blake2b(data, digest_size=_DIGEST).digest()


def _path_of(name: str) -> str | None:
    """Returns the path of the saved footer of the file `name`; None if there is no folder for footers."""
    folder = _core.index_folder()
    return None if folder is None else f"{folder}/{_digest(name.encode('utf-8', 'surrogateescape')).hex()}.footer"


def load(name: str) -> Kept | None:
    """Returns the saved footer of the Parquet file `name`; None if no footer is saved, or if it cannot be read or is damaged."""
    path = _path_of(name)
    try:
        data = _files.read_bytes(path) if path is not None else b""
    except OSError:
        return None
    body = memoryview(data)[len(_MAGIC) + _DIGEST :]
    if not data.startswith(_MAGIC) or _digest(body) != data[len(_MAGIC) : len(_MAGIC) + _DIGEST]:
        return None
    line, _, end = bytes(body).partition(b"\n")
    try:
        size, version = json.loads(line)
    except ValueError:
        return None
    return Kept(int(size), str(version), end)


def keep(name: str, kept: Kept) -> bool:
    """Saves the footer of the Parquet file `name`. Returns False if there is no folder for footers, or if writing failed."""
    path = _path_of(name)
    if path is None:
        return False
    body = json.dumps([kept.size, kept.version]).encode() + b"\n" + kept.end
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        _files.write(path, _MAGIC + _digest(body) + body)
    except OSError:
        return False
    return True
