# SPDX-License-Identifier: Apache-2.0
"""What ends before the interpreter does: pipelines, and calls of users' functions on threads of this package.

A thread that wants to run Python code when the interpreter has ended is ended itself (before Python 3.14), by an exception of C++ that nobody may catch.
Code in C++ that called it, such as torch's or OpenCV's, aborts the process then."""

from __future__ import annotations

import atexit
import os
import time
import weakref
from collections.abc import Callable
from typing import Any

from stoker._where import tell

_PATIENCE = 2.0  # seconds to wait for running calls

_open: weakref.WeakSet[Any] = weakref.WeakSet()  # objects whose threads must end before the interpreter does
_running: set[object] = set()  # a key for each call that runs
_registered = False
_ending = False


def close_at_exit(thing: Any) -> None:
    """Calls thing.close() before the interpreter goes: a callback must not find it gone."""
    _register()
    _open.add(thing)


def call(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a user's function on a thread of this package. The interpreter's end waits for the call. Once it has begun to wait, RuntimeError is raised."""
    _register()
    key = object()
    _running.add(key)
    try:
        if _ending:
            raise RuntimeError("the interpreter ends")
        return function(*arguments)
    finally:
        _running.discard(key)


def _register() -> None:
    global _registered
    if not _registered:
        _registered = True
        atexit.register(_end)
        os.register_at_fork(after_in_child=_forget)


def _end() -> None:
    global _ending
    for thing in list(_open):
        thing.close()
    _ending = True
    end = time.monotonic() + _PATIENCE
    while _running:
        if time.monotonic() > end:
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
