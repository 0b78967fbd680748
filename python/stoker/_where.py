# SPDX-License-Identifier: Apache-2.0
"""Finds the line in the program that called an operator, and shows notices once."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from stoker.errors import safe_text

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_shown: set[str] = set()


class _Location(threading.local):
    def __init__(self) -> None:
        self.steps: list[str] = []  # names of the current steps of a structured pipeline, outermost first
        self.paths: list[str] = []  # paths in the sample's tree; each begins where the one before it ends
        self.silent = False  # whether notices of this thread are dropped


_location = _Location()


@contextmanager
def in_step(name: str) -> Iterator[None]:
    """Makes operators that are added within the `with` block belong to a step of a structured pipeline, which their errors name."""
    _location.steps.append(name)
    try:
        yield
    finally:
        _location.steps.pop()


@contextmanager
def at_path(path: str) -> Iterator[None]:
    """Makes operators that are added within the `with` block belong to a path in the sample's tree, which their errors name."""
    _location.paths.append(path)
    try:
        yield
    finally:
        _location.paths.pop()


def users_line() -> str:
    """Returns the user's line as text, such as "train.py:31": that of the innermost frame outside this package. Within a step of a structured pipeline, the
    text also has the step's name and the path in the sample's tree."""
    line = _line()
    if _location.steps:
        line += f", {_location.steps[-1]}"
    return f"{line} at {'.'.join(_location.paths)}" if _location.paths else line


def _line() -> str:
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE) and not name.startswith("<frozen"):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "?"


def missing(message: str, up: int = 2) -> Exception:
    """Returns the exception for a name that a module's __getattr__ does not find: an AttributeError, or an ImportError if `from module import name` asked for
    the name, since Python would replace an AttributeError's message there. up: number of frames from this function to the code that asked."""
    import opcode

    frame = sys._getframe(up)
    importing = frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == opcode.opmap["IMPORT_FROM"]
    return ImportError(message) if importing else AttributeError(message)


def warn(text: str) -> None:
    """Shows a UserWarning at the user's line."""
    import warnings

    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith((_PACKAGE, "<frozen")):
        level, frame = level + 1, frame.f_back
    warnings.warn(safe_text(text), stacklevel=level)


@contextmanager
def without_notices() -> Iterator[None]:
    """Drops the notices of this thread within the `with` block. The package uses it where it calls its own functions in ways that it advises users against."""
    before, _location.silent = _location.silent, True
    try:
        yield
    finally:
        _location.silent = before


def notice(text: str) -> None:
    """Logs a line, once in each process. It is for arguments that are accepted although they have no effect, or another effect than their name says."""
    if text not in _shown and not _location.silent:
        _shown.add(text)
        log(text)


def log(text: str, level: int = 30) -> None:
    """Logs a line with logging.getLogger("stoker"), by default as a WARNING. It is printed on stderr unless the user has given that logger a handler, or
    switched its propagation off."""
    import logging  # this import takes a millisecond, and most programs never need it

    class Stderr(logging.Handler):
        """Writes to the object that sys.stderr is when a line is logged."""

        def emit(self, record: logging.LogRecord) -> None:
            if sys.stderr is not None:
                print(f"stoker: {safe_text(record.getMessage())}", file=sys.stderr)

    logger = logging.getLogger("stoker")
    if not logger.handlers and logger.propagate:
        logger.addHandler(Stderr())
        logger.propagate = False
    logger.log(level, "%s", text)
