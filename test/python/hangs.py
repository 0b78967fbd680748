# SPDX-License-Identifier: Apache-2.0
"""Ends a run of tests that hangs, and prints the stacks of all threads.

pytest-timeout raises an exception in the main thread. This has no effect if the main thread waits in C, or for a thread at the interpreter's exit, and
pytest-timeout stops its timer when a test fails. faulthandler's thread needs neither the interpreter nor its lock.
"""

from __future__ import annotations

import faulthandler
import os
from typing import Any

import pytest

_TIMES = 3  # a run hangs if a test takes this many times pytest-timeout's limit
_state: dict[str, Any] = {}  # "stderr": the run's own stderr; "limit": seconds after which a hanging test ends the run


def pytest_configure() -> None:
    _state.setdefault("stderr", os.fdopen(os.dup(2), "w"))  # copies stderr before pytest captures what tests write


def _arm() -> None:
    if "limit" in _state:
        faulthandler.dump_traceback_later(_state["limit"], exit=True, file=_state["stderr"])


@pytest.hookimpl(optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> None:
    _state["limit"] = _TIMES * settings.timeout
    _arm()


@pytest.hookimpl(trylast=True)
def pytest_exception_interact() -> None:
    _arm()  # arms again, because pytest has just disarmed faulthandler


def pytest_unconfigure() -> None:
    _arm()
