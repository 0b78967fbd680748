# SPDX-License-Identifier: Apache-2.0
"""One thread at a time."""

from __future__ import annotations

import threading

from stoker.errors import StateError


class Alone:
    """Refuses a second thread while one is inside: one after the other is fine. Two would each get some of the batches, in no order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0  # the thread, by the number that costs least to ask for

    def __enter__(self) -> None:
        if not self._lock.acquire(False):
            here = threading.current_thread().name
            there = next((t.name for t in threading.enumerate() if t.ident == self._inside), "?")
            raise StateError(
                f"this Loader is in use by the thread {there!r}, and {here!r} came in as well: one thread at a time. "
                "Give each thread a Loader of its own, as with shard=(i, n), or let one thread take the batches and hand them on"
            )
        self._inside = threading.get_ident()

    def __exit__(self, *_: object) -> None:
        self._lock.release()
