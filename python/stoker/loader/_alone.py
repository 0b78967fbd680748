# SPDX-License-Identifier: Apache-2.0
"""One thread at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from stoker.errors import StateError

PATIENCE = 2.0  # seconds that ask() waits


class Alone:
    """Refuses a second thread while one is inside: one after the other is fine. Two would each get some of the batches, in no order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0  # the thread, by the number that costs least to ask for
        self._asked: Callable[[], None] | None = None  # for whoever leaves next

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
        try:
            self._answer()
        finally:
            self._inside = 0
            self._lock.release()

    def _answer(self) -> None:
        if self._asked is not None:
            asked, self._asked = self._asked, None
            asked()

    def ask(self, what: Callable[[], None], interrupt: Callable[[], None]) -> None:
        """Has `what` done when no thread is inside: by this one, or where the one inside does not leave soon, by that one. interrupt() tells it to leave."""
        self._asked = what
        until = time.monotonic() + PATIENCE
        while not self._lock.acquire(False):
            interrupt()
            if self._inside == threading.get_ident() or time.monotonic() > until:
                return  # a signal's handler came in between; or it leaves later
            if self._lock.acquire(timeout=0.02):
                break
        self._inside = threading.get_ident()
        self.__exit__()
