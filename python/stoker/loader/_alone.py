# SPDX-License-Identifier: Apache-2.0
"""One thread at a time."""

from __future__ import annotations

import threading

from stoker.errors import StateError


class Alone:
    """Refuses a second thread while one is inside: one after the other is fine. Two would each get some of the batches, in no order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._who = ""

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            here = threading.current_thread().name
            raise StateError(
                f"this Loader is in use by the thread {self._who!r}, and {here!r} came in as well: one thread at a time. "
                "Give each thread a Loader of its own, as with shard=(i, n), or let one thread take the batches and hand them on"
            )
        self._who = threading.current_thread().name

    def __exit__(self, *_: object) -> None:
        self._lock.release()
