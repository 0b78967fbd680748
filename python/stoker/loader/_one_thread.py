# SPDX-License-Identifier: Apache-2.0
"""A lock that admits one thread at a time to a Loader or a mixture, and raises an error in other threads, unless they only ask for its state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident

from stoker.errors import StateError
from stoker.loader._fair_lock import FairLock

PATIENCE = 2.0  # seconds: the longest that ask() waits for the thread inside to leave, and that a thread waits to enter while ask() runs
VISIT = 30.0  # seconds: the longest that visit() waits for the thread inside to leave, and that a thread waits to enter while visit() runs


class OneThread(FairLock):
    """A context for one thread at a time: raises StateError in a second thread while another one is inside. Two threads that iterated at once would each get
    some of the batches. Threads may enter one after the other. what: the name of the guarded object in the error message."""

    def __init__(self, what: str = "Loader") -> None:
        super().__init__()
        self._what = what
        self._asked: Callable[[], None] | None = None  # the function of ask(), which the next thread to leave calls once; else None
        self._asking = False  # whether ask() is running; a thread that enters waits until ask() ends
        self._visitors: set[int] = set()  # get_ident() of the threads in visit(); a thread that enters waits until they have left

    def __enter__(self) -> None:
        if not self._line and self._lock.acquire(False):  # as try_acquire(), without a call for each batch
            self.owner = get_ident()
        elif self.is_inside() or not self.wait(self._patience()):
            raise StateError(
                f"this {self._what} is in use by the thread {self._other()!r}, and the thread {threading.current_thread().name!r} called it meanwhile: one "
                f"thread at a time may use it. Give each thread a {self._what} of its own, as with shard=(i, n), or let one thread take the batches and hand "
                "them on"
            )

    def _patience(self) -> float:
        """Returns how long a thread that enters waits. Call it only after a first try has failed: ask() sets _asking, and visit() adds to _visitors, before they
        take the lock. So if one of them made the try fail, this method sees it."""
        return VISIT if self._visitors else PATIENCE if self._asking else 0

    def _other(self) -> str:
        """Returns the name of the thread inside."""
        return next((t.name for t in threading.enumerate() if t.ident == self.owner), "?")

    is_inside = FairLock.is_mine

    @contextmanager
    def visit(self, call: str) -> Iterator[None]:
        """A context for a short call that any thread may make while another one takes batches. Waits until the thread inside leaves; a thread that wants to
        enter meanwhile waits as well. Raises StateError if the thread inside is the caller, or does not leave within VISIT seconds. call: the name of the
        call in the error message."""
        here = get_ident()
        self._visitors.add(here)
        try:
            if self.is_inside() or not self.acquire(VISIT):
                raise self._not_visited(call)
            try:
                yield
            finally:
                self.__exit__()
        finally:
            self._visitors.discard(here)

    def _not_visited(self, call: str) -> StateError:
        if self.is_inside():
            return StateError(
                f"{call} was called while this thread takes a batch, by a signal handler or a function that the {self._what} calls: the position is between "
                "two batches. Set a flag there, and save in the loop, after the batch"
            )
        return StateError(
            f"{call}: the thread {self._other()!r} has been waiting for a batch for {VISIT:.0f} s, and the position is known only between two batches: call "
            "it again, or from that thread"
        )

    def __exit__(self, *_: object) -> None:
        try:
            if self._asked is not None:
                self._answer()
        finally:
            self.release()

    def _answer(self) -> None:
        function, self._asked = self._asked, None
        if function is not None:
            function()

    def ask(self, what: Callable[[], None], interrupt: Callable[[], None]) -> None:
        """Runs `what` when no thread is inside. Until then, calls interrupt() repeatedly. If the thread inside is the caller, or has not left after
        PATIENCE seconds, returns, and that thread runs `what` when it leaves."""
        self._asked, self._asking = what, True
        until = time.monotonic() + PATIENCE
        try:
            while not self.try_acquire():
                interrupt()
                if self.is_inside() or time.monotonic() > until:
                    return  # this is a signal handler of the thread inside, or the thread inside is late
                if self.wait(0.02):
                    break
            self.__exit__()
        finally:
            self._asking = False

    def _forget_parent(self) -> None:
        super()._forget_parent()
        self._visitors &= {get_ident()}
        self._asked, self._asking = None, False
