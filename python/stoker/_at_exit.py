# SPDX-License-Identifier: Apache-2.0
"""Ends work before the interpreter ends, or waits for it: pipelines, calls of users' functions on this package's threads, and calls of the
library that run Python code.

A thread that wants to run Python code when the interpreter has ended is ended itself (before Python 3.14), by an exception of C++ that nobody may catch.
Code in C++ that called it, such as torch's or OpenCV's, aborts the process then."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from stoker._where import tell
from stoker.errors import StateError

_PATIENCE = 2.0  # seconds to wait for running calls

_open: weakref.WeakSet[Any] = weakref.WeakSet()  # objects whose threads must end before the interpreter does
_running: set[object] = set()  # a key for each call that runs
_inside: set[object] = set()  # a key for each call of the library that runs Python code
_registered = False
_leaving = False  # the interpreter's end has begun
_ending = False  # all objects are closed


def close_at_exit(thing: Any) -> None:
    """Calls thing.close() before the interpreter goes: a callback must not find it gone."""
    _register()
    _open.add(thing)


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a user's function on a thread of this package. The interpreter's end waits for the call. Once it has begun to wait, no call begins."""
    _register()
    key = object()
    _running.add(key)
    try:
        if not (_ending and _outlives()):
            return function(*arguments)
    finally:
        _running.discard(key)
    _stay()


@contextlib.contextmanager
def library_call() -> Iterator[None]:
    """Surrounds a call of the library that runs Python code meanwhile, and whose callbacks call check_leaving(). The interpreter's end waits for the call:
    if Python ended the thread in a callback, other threads of the library would go on using its stack."""
    _register()
    key = object()
    _inside.add(key)
    try:
        check_leaving()
        yield
    finally:
        _inside.discard(key)
        if _leaving and _outlives():
            _stay()


def check_leaving() -> None:
    """Raises StateError on threads that outlive the interpreter, once its end has begun. library_call() takes it."""
    if _leaving and _outlives():
        raise StateError("the interpreter ends while this thread still works: join the thread before the program's end")


def _outlives() -> bool:
    """Returns whether the interpreter may end before this thread does."""
    return threading.current_thread() is not threading.main_thread() and threading.current_thread().daemon


def _stay() -> NoReturn:
    """Does nothing until the process ends. A thread that went on could print, and the interpreter aborts if it ends a thread that holds stderr."""
    while True:
        time.sleep(3600)


def _register() -> None:
    global _registered
    if not _registered:
        _registered = True
        atexit.register(_end)
        os.register_at_fork(after_in_child=_forget)


def _end() -> None:
    global _leaving, _ending
    _leaving = True
    for thing in list(_open):
        thing.close()
    _ending = True
    end = time.monotonic() + _PATIENCE
    while _running or _inside:
        if time.monotonic() > end:
            if not _running:
                return
            tell(
                f"the program ends while {len(_running)} calls of a Dataset or a fetch function of yours run, which have not returned within {_PATIENCE:.0f} s: "
                "they are not waited for any longer"
            )
            return
        time.sleep(0.001)


def _forget() -> None:
    """Resets the state in a forked child, where the parent's threads do not exist."""
    _open.clear()
    _running.clear()
    _inside.clear()
