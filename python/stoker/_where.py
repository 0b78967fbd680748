# SPDX-License-Identifier: Apache-2.0
"""Finds the line of the user's program that called an operator, and logs notices."""

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
        self.steps: list[str] = []  # names of the structured pipeline's steps that are running, outermost first
        self.paths: list[str] = []  # paths in the sample's tree; each is relative to the one before it
        self.silent = False  # whether this thread's notices are dropped


_location = _Location()


@contextmanager
def in_step(name: str) -> Iterator[None]:
    """A context in which operators belong to the step `name` of a structured pipeline. Their errors name the step."""
    _location.steps.append(name)
    try:
        yield
    finally:
        _location.steps.pop()


@contextmanager
def at_path(path: str) -> Iterator[None]:
    """A context in which operators belong to this path in the sample's tree. Their errors name the path."""
    _location.paths.append(path)
    try:
        yield
    finally:
        _location.paths.pop()


def users_line() -> str:
    """Returns a text such as "train.py:31" with the user's line: that of the innermost frame outside of this package. In a step of a structured pipeline, adds
    the step's name and the path in the sample's tree."""
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
    """Returns the exception for a name that a module's __getattr__ does not find: an AttributeError, or an ImportError for `from module import name`, where
    Python would replace an AttributeError's message. up: number of frames from this function to the code that reads the name."""
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
    """A context in which notices of this thread are dropped. The package enters it before it calls its own functions in ways that would give users a notice."""
    before, _location.silent = _location.silent, True
    try:
        yield
    finally:
        _location.silent = before


def notice(text: str) -> None:
    """Logs a line once in each process. Used for arguments that have no effect, or not the effect that their name suggests."""
    if text not in _shown and not _location.silent:
        _shown.add(text)
        log(text)


def log(text: str, level: int = 30) -> None:
    """Logs a line with logging.getLogger("stoker"), by default as a WARNING. Unless the user gave that logger a handler, or switched its propagation off, the
    line is printed on stderr."""
    import logging  # this import takes a millisecond, and most programs never need it

    class Stderr(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if sys.stderr is not None:
                text = safe_text(record.getMessage())  # messages of stoker.DataLoader come here too, and begin with that name
                print(text if text.startswith("stoker.") else f"stoker: {text}", file=sys.stderr)

    logger = logging.getLogger("stoker")
    if not logger.handlers and logger.propagate:
        logger.addHandler(Stderr())
        logger.propagate = False
    logger.log(level, "%s", text)
