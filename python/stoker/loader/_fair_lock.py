# SPDX-License-Identifier: Apache-2.0
"""A lock that threads get in the order in which they asked for it. A thread that releases a threading.Lock and takes it again at once, as a training loop
does, usually gets it before a thread that waits for it, which may then wait for ever."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections import deque
from typing import ClassVar

_SLICE = 0.05  # seconds between two looks at whether a function that was interrupted by this signal handler has got the lock


class _Turn:
    """The place of a thread in the line. `came` is released when the thread gets the FairLock."""

    __slots__ = ("came", "thread")

    def __init__(self) -> None:
        self.came, self.thread = threading.Lock(), threading.get_ident()
        self.came.acquire()


class FairLock:
    """A lock of one thread at a time. A thread that releases it hands it to the thread that has waited longest. owner: get_ident() of the thread that has it;
    0: none. In a forked child it is free, unless the thread that forked has it."""

    _all: ClassVar[weakref.WeakSet[FairLock]] = weakref.WeakSet()

    def __init__(self) -> None:
        self._lock = threading.Lock()  # held while a thread has this lock, and while one thread hands it to the next
        self._line: deque[_Turn] = deque()
        self.owner = 0
        FairLock._all.add(self)

    def is_mine(self) -> bool:
        """Returns whether the caller's thread has the lock."""
        return self.owner == threading.get_ident()

    def acquire(self, timeout: float = math.inf) -> bool:
        """Returns True once the caller's thread has the lock, or False after `timeout` seconds. The caller's thread must not have it yet. If this is called by
        a signal handler, and the function that was interrupted gets the lock meanwhile, returns False earlier."""
        return self.try_acquire() or self.wait(timeout)

    def try_acquire(self) -> bool:
        """Takes the lock if it is free and no thread waits for it. Returns whether it did."""
        if self._line or not self._lock.acquire(False):
            return False
        self.owner = threading.get_ident()
        return True

    def wait(self, timeout: float) -> bool:
        """Does the same as acquire(), after try_acquire() has failed."""
        turn, until = _Turn(), time.monotonic() + timeout
        self._line.append(turn)
        try:
            if self._lock.acquire(False):  # it was released before this thread came to the line
                self.release()
            while not turn.came.acquire(timeout=min(max(until - time.monotonic(), 0), _SLICE)):
                if self.owner == turn.thread or time.monotonic() >= until:
                    return not self._leave(turn)
        except BaseException:  # of a signal handler
            if not self._leave(turn):
                self.release()
            raise
        return True

    def _leave(self, turn: _Turn) -> bool:
        """Leaves the line. Returns False if this thread has got the lock instead."""
        try:
            self._line.remove(turn)
        except ValueError:
            turn.came.acquire()  # the thread that took this turn out of the line is about to release it
            return False
        return True

    def release(self) -> None:
        """Hands the lock to the first thread in the line, if there is one."""
        while True:
            while self._line:
                try:
                    turn = self._line.popleft()
                except IndexError:  # the last thread has left the line
                    break
                self.owner = turn.thread
                turn.came.release()
                return
            self.owner = 0
            self._lock.release()
            if not (self._line and self._lock.acquire(False)):
                return
            # A thread has come to the line while this one released the lock.

    def _forget_parent(self) -> None:
        """Forgets the threads that do not exist in this forked child."""
        self._line.clear()
        if self.owner != threading.get_ident():
            self._lock, self.owner = threading.Lock(), 0

    @classmethod
    def _after_fork(cls) -> None:
        for lock in cls._all:
            lock._forget_parent()


os.register_at_fork(after_in_child=FairLock._after_fork)
