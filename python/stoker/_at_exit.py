# SPDX-License-Identifier: Apache-2.0
"""Finishes work before the interpreter ends: closes pipelines and Loaders, and waits for users' functions that run on this package's threads, for calls of
the library that run Python callbacks, and for loops over batches on users' daemon threads.

Without this, the process may be aborted. Before Python 3.14, the interpreter at its end stops each other thread that wants to run Python code: it unwinds the
thread's stack as a C++ exception would. If C++ code that may not throw, such as some of torch's or OpenCV's, is on that stack, the process is aborted."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from stoker._where import log
from stoker.errors import StateError

_PATIENCE = 2.0  # the most seconds that the interpreter's end waits for running calls
_LOOP_PATIENCE = 1.0  # the most seconds that it waits for threads with users' loops over batches to end

_open: weakref.WeakSet[Any] = weakref.WeakSet()  # objects to close before the interpreter ends
# Kinds of calls, by the function that registers them. _FUNCTION: call(). _LIBRARY: library_call(). _JOB: job().
_FUNCTION, _LIBRARY, _JOB = "function", "library", "job"
_calls: dict[object, str] = {}  # the kind of each running call
_thread = threading.local()  # job: the key in _calls of this thread's last job
_loops: set[int] = set()  # get_ident() of daemon threads that have taken batches
_main = threading.main_thread().ident
_registered = False
_leaving = False  # whether the interpreter has begun to end
_ending = False  # whether all objects of _open are closed


def close_at_exit(thing: Any) -> None:
    """Lets the interpreter call thing.close() before it ends, so that no callback runs later."""
    _register()
    _open.add(thing)


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a user's function on a thread of this package, and returns its result. The interpreter's end waits for such calls, up to _PATIENCE seconds. After
    all objects were closed, no call begins on a daemon thread."""
    _register()
    key = object()
    _calls[key] = _FUNCTION
    try:
        if not (_ending and _outlives()):
            return function(*arguments)
    finally:
        _calls.pop(key, None)
    _wait_forever()


@contextlib.contextmanager
def job() -> Iterator[None]:
    """A context for one task of a daemon thread of this package. The context also includes the release of the task's result, because freeing objects such as
    torch's tensors runs C++ code. The interpreter's end waits up to _PATIENCE seconds for the task. After all objects were closed, the thread stops for good
    instead of leaving the context."""
    _register()
    _thread.job = key = object()
    _calls[key] = _JOB
    try:
        yield
    finally:
        _calls.pop(key, None)
        if _ending and _outlives():
            _wait_forever()


@contextlib.contextmanager
def library_call() -> Iterator[None]:
    """A context for a call of the library that runs Python callbacks; these call check_leaving(). The interpreter's end waits up to _PATIENCE seconds for the
    call, because Python must not end the thread in a callback: other threads of the library still use variables on the thread's stack."""
    _register()
    key = object()
    _calls[key] = _LIBRARY
    try:
        check_leaving()
        yield
    finally:
        _calls.pop(key, None)
        if _leaving and _outlives():
            _wait_forever()


def wait_for_loop() -> None:
    """Lets the interpreter's end wait up to _LOOP_PATIENCE seconds for the calling thread, if it is a daemon thread. Call this whenever a user's loop takes a
    batch: after the end has closed the Loader, the loop gets an exception and frees its last batch, and torch may not be stopped while it frees a tensor."""
    thread = threading.get_ident()
    if thread != _main and thread not in _loops and _outlives():
        _register()
        _loops.add(thread)


def end_loop() -> None:
    """Raises SystemExit if the interpreter has begun to end and the calling thread may outlive it. Call this where a loop over batches gets the StateError of
    a closed Loader or pipeline: the end of the program is no error, and threading prints a traceback for any other exception."""
    if _leaving and _outlives():
        raise SystemExit


def check_leaving() -> None:
    """Raises StateError if the interpreter has begun to end and this thread may outlive it. The error ends the call inside library_call()."""
    if _leaving and _outlives():
        raise StateError("the interpreter ends while this thread still works: join the thread before the program's end")


def _outlives() -> bool:
    """Returns whether the interpreter may end before this thread: it is a daemon thread."""
    return threading.current_thread() is not threading.main_thread() and threading.current_thread().daemon


def _wait_forever() -> NoReturn:
    """Stops this thread for good, and ends its job. If the thread continued, it could print, and the interpreter aborts when it has to end a thread that holds
    the lock of stderr."""
    _calls.pop(getattr(_thread, "job", None), None)
    while True:
        time.sleep(3600)


def _register() -> None:
    global _registered
    if not _registered:
        _registered = True
        atexit.register(_end)
        os.register_at_fork(after_in_child=_reset_in_child)


def _end() -> None:
    global _leaving, _ending
    _leaving = True
    for thing in list(_open):
        thing.close()
    _ending = True
    _wait_for_loops()
    end = time.monotonic() + _PATIENCE
    while _calls:
        if time.monotonic() > end:
            functions = list(_calls.values()).count(_FUNCTION)
            if not functions:
                return
            log(
                f"the program ends while {functions} calls of a Dataset or a fetch function of yours run, which have not returned within {_PATIENCE:.0f} s: "
                "they are not waited for any longer"
            )
            return
        time.sleep(0.001)


def _wait_for_loops() -> None:
    end = time.monotonic() + _LOOP_PATIENCE
    while not _loops.isdisjoint(t.ident for t in threading.enumerate()) and time.monotonic() < end:
        time.sleep(0.001)


def _reset_in_child() -> None:
    """Resets the state in a forked child, where the parent's threads do not exist."""
    global _main
    _main = threading.get_ident()
    _open.clear()
    _calls.clear()
    _loops.clear()
