# SPDX-License-Identifier: Apache-2.0
"""A lock that admits one thread at a time to a Loader, and raises an error in others."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from stoker.errors import StateError

PATIENCE = 2.0  # seconds: the longest that ask() waits for the thread inside to leave, and that a thread waits to enter while ask() runs


class OneThread:
    """A context for one thread at a time: raises StateError in a second thread while another one is inside. Two threads that iterated at once would each get
    some of the batches. Threads may enter one after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0  # get_ident() of the thread inside; 0: no thread is inside
        self._asked: Callable[[], None] | None = None  # the function of ask(), which the next thread to leave calls once; else None
        self._asking = False  # whether ask() is running; a thread that enters waits until ask() ends

    def __enter__(self) -> None:
        if not self._lock.acquire(False) and not self._enter_after_ask():
            here = threading.current_thread().name
            other = next((t.name for t in threading.enumerate() if t.ident == self._inside), "?")
            raise StateError(
                f"this Loader is in use by the thread {other!r}, and {here!r} came in as well: one thread at a time. "
                "Give each thread a Loader of its own, as with shard=(i, n), or let one thread take the batches and hand them on"
            )
        self._inside = threading.get_ident()

    def _enter_after_ask(self) -> bool:
        """Tries to acquire the lock again, and waits for it if another thread runs ask(). Returns whether this thread has the lock. Call it only after a first
        try has failed: ask() sets _asking before it takes the lock, so if ask() made the try fail, _asking is already visible here."""
        return self._inside != threading.get_ident() and self._lock.acquire(timeout=PATIENCE if self._asking else 0)

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
        """Runs `what` when no thread is inside. Until then, calls interrupt() repeatedly. If the thread inside is the caller, or has not left after
        PATIENCE seconds, returns, and that thread runs `what` when it leaves."""
        self._asked, self._asking = what, True
        until = time.monotonic() + PATIENCE
        try:
            while not self._lock.acquire(False):
                interrupt()
                if self._inside == threading.get_ident() or time.monotonic() > until:
                    return  # this is a signal handler of the thread inside, or the thread inside is late
                if self._lock.acquire(timeout=0.02):
                    break
            self._inside = threading.get_ident()
            self.__exit__()
        finally:
            self._asking = False
