# SPDX-License-Identifier: Apache-2.0
"""Finds the length of a sound, for bucket_by. The order of a run depends on these lengths, so all ranks must find the same ones."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from stoker import _core
from stoker._storage import Storage
from stoker._storage import of as storage_of
from stoker.errors import CorruptError, LimitError, NotFoundError, StokerError, UnsupportedError

# Failures that depend only on the file: each rank meets them, and again when it reads the sample.
_OF_FILES = (CorruptError, LimitError, NotFoundError, UnsupportedError)


def length_of(path: Any, data: Any, storage: Storage | None, bad_may_pass: bool, where: Callable[[], str] | None = None) -> float:
    """Returns the length in seconds of a sound, which is a path or a URL, or else the bytes of a file. Returns 0 for a damaged file, whose batch then reports the
    damage. If bad samples may pass, also returns 0 for files that are missing or of another kind. Raises other errors: after a failure of the store, for
    example, one rank would have another order than the others.

    bad_may_pass: whether the Loader leaves out or replaces bad samples. where: returns the name of the sample, for messages."""
    try:
        store = None if path is None else storage_of(os.fsdecode(path), storage)
        file = _core.AudioFile(None if path is None else os.fsencode(path), data, False, None if store is None else store.core())
    except StokerError as e:
        if isinstance(e, CorruptError) or (bad_may_pass and isinstance(e, _OF_FILES)):
            return 0.0
        if where is not None:
            e.args = (f"{where()}: {e}",)
        raise
    _, _, rate, _, _, frames, _, _ = file.info()
    return float(frames / rate)
