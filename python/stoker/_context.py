# SPDX-License-Identifier: Apache-2.0
"""The library's worker threads. All pipelines of a process with the same number of threads share them, except for pipelines that a user's function makes. The
library gives pipelines that call users' functions workers of their own."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from stoker import _core
from stoker._function import here
from stoker._where import log

_lock = threading.Lock()
_contexts: weakref.WeakValueDictionary[tuple[int, int], Any] = weakref.WeakValueDictionary()


class _Workers:
    """Refers to a context of the library. This class exists because the limited API of Python 3.11 does not allow weak references to a C type."""

    def __init__(self, threads: int) -> None:
        self.core = _core.Context(threads=threads, on_log=_log)


def _log(level: int, text: str) -> None:
    log(text, (40, 30, 20, 10)[min(level, 3)])  # the numbers of the module logging for error, warning, info and debug


def workers(threads: int | None) -> _Workers:
    """Returns the workers of pipelines with this number of threads. None or a number below 1 means the number of cores that the process may use. A forked
    child gets new workers. So does a pipeline that a user's function makes while a worker calls it: such pipelines often have one thread, and would take turns
    on a shared one although several workers call the function at once."""
    if here.in_function:
        return _Workers(max(threads or 0, 0))
    key = (os.getpid(), max(threads or 0, 0))
    with _lock:
        found = _contexts.get(key)
        if found is None:
            found = _contexts[key] = _Workers(key[1])
        return found


def _reset_in_child() -> None:
    """Resets the state in a forked child: the parent's threads do not exist there, and the lock may have been locked."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_reset_in_child)
