# SPDX-License-Identifier: Apache-2.0
"""A lock that admits one thread at a time to a Loader or a mixture, and raises an error in other threads, unless they only ask for its state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stoker.errors import StateError

PATIENCE = 2.0  # seconds: the longest that ask() waits for the thread inside to leave, and that a thread waits to enter while ask() runs
VISIT = 30.0  # seconds: the longest that visit() waits for the thread inside to leave, and that a thread waits to enter while visit() runs


class OneThread:
    """A context for one thread at a time: raises StateError in a second thread while another one is inside. Two threads that iterated at once would each get
    some of the batches. Threads may enter one after the other. what: the name of the guarded object in the error message."""

    def __init__(self, what: str = "Loader") -> None:
        self._what = what
        self._lock = threading.Lock()
        self._inside = 0  # get_ident() of the thread inside; 0: no thread is inside
        self._asked: Callable[[], None] | None = None  # the function of ask(), which the next thread to leave calls once; else None
        self._asking = False  # whether ask() is running; a thread that enters waits until ask() ends
        self._visitors: set[int] = set()  # get_ident() of the threads in visit(); a thread that enters waits until they have left

    def __enter__(self) -> None:
        if not self._lock.acquire(False) and not self._enter_after_others():
            here = threading.current_thread().name
            other = next((t.name for t in threading.enumerate() if t.ident == self._inside), "?")
            raise StateError(
                f"this {self._what} is in use by the thread {other!r}, and the thread {here!r} called it meanwhile: one thread at a time may use it. "
                f"Give each thread a {self._what} of its own, as with shard=(i, n), or let one thread take the batches and hand them on"
            )
        self._inside = threading.get_ident()

    def _enter_after_others(self) -> bool:
        """Tries to acquire the lock again, and waits for it if another thread runs ask() or visit(). Returns whether this thread has the lock. Call it only
        after a first try has failed: ask() sets _asking, and visit() adds to _visitors, before they take the lock. So if one of them made the try fail, this
        method sees it."""
        patience = VISIT if self._visitors else PATIENCE if self._asking else 0
        return self._inside != threading.get_ident() and self._lock.acquire(timeout=patience)

    def is_inside(self) -> bool:
        """Returns whether the caller's thread is inside."""
        return self._inside == threading.get_ident()

    @contextmanager
    def visit(self, call: str) -> Iterator[None]:
        """A context for a short call that any thread may make while another one takes batches. Waits until the thread inside leaves; a thread that wants to
        enter meanwhile waits as well. Raises StateError if the thread inside is the caller, or does not leave within VISIT seconds. call: the name of the
        call in the error message."""
        here = threading.get_ident()
        if self.is_inside():
            raise StateError(
                f"{call} was called while this thread takes a batch, by a signal handler or a function that the {self._what} calls: the position is between "
                "two batches. Set a flag there, and save in the loop, after the batch"
            )
        self._visitors.add(here)
        try:
            if not self._lock.acquire(timeout=VISIT):
                other = next((t.name for t in threading.enumerate() if t.ident == self._inside), "?")
                raise StateError(
                    f"{call}: the thread {other!r} has been waiting for a batch for {VISIT:.0f} s, and the position is known only between two batches: call "
                    "it again, or from that thread"
                )
            self._inside = here
            try:
                yield
            finally:
                self.__exit__()
        finally:
            self._visitors.discard(here)

    def __exit__(self, *_: object) -> None:
        try:
            self._answer()
        finally:
            self._inside = 0
            self._lock.release()

    def _answer(self) -> None:
        if self._asked is not None:
            function, self._asked = self._asked, None
            function()

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
