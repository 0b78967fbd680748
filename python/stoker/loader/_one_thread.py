# SPDX-License-Identifier: Apache-2.0
"""A lock that admits one thread at a time to a Loader or a mixture, and raises an error in other threads, unless they only ask for its state."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from types import FrameType

from stoker.errors import StateError
from stoker.loader._fair_lock import FairLock

PATIENCE = 2.0  # seconds: the longest that ask() waits for the thread inside to leave, and that a thread waits to enter while ask() runs
ABANDONED = 0.5  # seconds: a lock that has had no owner for so long was abandoned: a thread that takes it becomes its owner at once
VISIT = 30.0  # seconds: the longest that visit() waits for the thread inside to leave, and that a thread waits to enter while visit() runs

_ENTRANCE = (__file__, contextmanager.__code__.co_filename)  # the files of the functions that are called to enter
_taking = threading.Lock()  # held while an abandoned lock is taken


class OneThread(FairLock):
    """A context for one thread at a time: raises StateError in a second thread while another one is inside. Two threads that iterated at once would each get
    some of the batches. Threads may enter one after the other. what: the name of the guarded object in the error message. The guarded object has the attribute
    `_one_thread` or `one_thread`.

    A signal's handler may raise an exception at any call, such as KeyboardInterrupt just before __exit__ is called, or just after the lock was taken. The lock
    then stays taken. The next thread that needs the lock notices this and takes it."""

    def __init__(self, what: str = "Loader") -> None:
        super().__init__()
        self._what = what
        self._asked: Callable[[], None] | None = None  # the function of ask(), which the next thread to leave calls once; else None
        self._asking = False  # whether ask() is running; a thread that enters waits until ask() ends
        self._visitors: set[int] = set()  # get_ident() of the threads in visit(); a thread that enters waits until they have left

    def __enter__(self) -> None:
        if not self._line and self._lock.acquire(False):  # as try_acquire(), without a call for each batch
            self.owner = get_ident()
        elif self.is_mine():
            if not self._is_abandoned():
                raise self._in_use()
        elif not self.wait(self._patience()) and not self._take_abandoned():
            raise self._in_use()

    def _in_use(self) -> StateError:
        return StateError(
            f"this {self._what} is in use by the thread {self._other()!r}, and the thread {threading.current_thread().name!r} called it meanwhile: one "
            f"thread at a time may use it. Give each thread a {self._what} of its own, as with shard=(i, n), or let one thread take the batches and hand "
            "them on"
        )

    def _is_abandoned(self) -> bool:
        """Returns whether no function is inside that called the one that asks. The caller's thread must have the lock."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename in _ENTRANCE:
            frame = frame.f_back
        return frame is None or not self._may_be_inside(frame.f_back)

    def _may_be_inside(self, frame: FrameType | None) -> bool:
        """Returns whether this function, or one that called it, may have entered: whether it knows this lock, or is a method of the guarded object."""
        while frame is not None:
            known = frame.f_locals
            for value in known.values():
                if value is self:
                    return True
            method = frame.f_code.co_name != "__iter__"  # which only calls a method that enters
            if method and str(frame.f_globals.get("__name__")).startswith("stoker."):
                guarded = getattr(known.get("self"), "_loader", known.get("self"))
                if getattr(guarded, "one_thread", None) is self or getattr(guarded, "_one_thread", None) is self:
                    return True
            frame = frame.f_back
        return False

    def _take_abandoned(self) -> bool:
        """Takes the lock if the thread that has it is not inside, or if it has no owner for ABANDONED seconds. Returns whether it did."""
        owner, until = self.owner, time.monotonic() + ABANDONED
        if owner and self._may_be_inside(sys._current_frames().get(owner)):
            return False
        while not owner and time.monotonic() < until:
            if self.owner:
                return False
            if self.wait(ABANDONED / 10):
                return True
        with _taking:
            if self.owner != owner or not self._lock.locked():
                return False
            self.owner = get_ident()
            return True

    def _acquire_from_others(self, patience: float) -> bool:
        """Takes the lock within `patience` seconds, also if it was abandoned. Returns whether it did. The caller's thread must not be inside."""
        if self.is_mine():
            self.release()
        return self.try_acquire() or self._take_abandoned() or self.wait(patience)

    def _patience(self) -> float:
        """Returns how long a thread that enters waits. Call it only after a first try has failed: ask() sets _asking, and visit() adds to _visitors, before they
        take the lock. So if one of them made the try fail, this method sees it."""
        return VISIT if self._visitors else PATIENCE if self._asking else 0

    def _other(self) -> str:
        """Returns the name of the thread inside."""
        return next((t.name for t in threading.enumerate() if t.ident == self.owner), "?")

    def is_inside(self) -> bool:
        """Returns whether one of the functions that called the caller of this one is inside."""
        return self.is_mine() and not self._is_abandoned()

    @contextmanager
    def visit(self, call: str) -> Iterator[None]:
        """A context for a short call that any thread may make while another one takes batches. Waits until the thread inside leaves; a thread that wants to
        enter meanwhile waits as well. Raises StateError if the thread inside is the caller, or does not leave within VISIT seconds. call: the name of the
        call in the error message."""
        here = get_ident()
        self._visitors.add(here)
        try:
            if self.is_inside() or not self._acquire_from_others(VISIT):
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
            while self.is_inside() or not self._acquire_from_others(0.02):
                interrupt()
                if self.is_inside() or time.monotonic() > until:
                    return  # this is a signal handler of the thread inside, or the thread inside is late
            self.__exit__()
        finally:
            self._asking = False

    def _forget_parent(self) -> None:
        super()._forget_parent()
        self._visitors &= {get_ident()}
        self._asked, self._asking = None, False
