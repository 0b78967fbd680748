# SPDX-License-Identifier: Apache-2.0
"""Shows the progress of long work, with the remaining time, as a line on the terminal. Work of less than a second shows nothing."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")


def _clock(seconds: float) -> str:
    whole = int(seconds + 0.5)
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}" if whole >= 3600 else f"{whole // 60}:{whole % 60:02d}"


class ProgressLine:
    """A context that shows a line on stderr, if stderr is a terminal. The line is cut to the terminal's width, and erased when the context ends."""

    def __init__(self) -> None:
        self._begun, self._last, self._shown = time.monotonic(), 0.0, False

    def show(self, text: str, done: int = 0, total: int = 0) -> None:
        """Shows the text and the remaining time, which is estimated from done / total. Does nothing in the first second, and within a tenth of a second after
        the last text. total: 0 if it is not known; no time is then shown."""
        now = time.monotonic()
        passed = now - self._begun
        if passed <= 1 or now - self._last < 0.1 or sys.stderr is None or not sys.stderr.isatty():
            return
        self._shown, self._last = True, now
        if 0 < done <= total:
            text += f", {_clock(passed * (total - done) / done)} left"
        sys.stderr.write(f"\r\033[K{text[: self._width()]}")
        sys.stderr.flush()

    @staticmethod
    def _width() -> int:
        try:
            columns = os.get_terminal_size(sys.stderr.fileno()).columns
        except (OSError, ValueError, AttributeError):  # stderr is replaced by an object that only looks like a terminal
            columns = 0
        return (columns or 80) - 1 or 1  # 0: the size of the terminal was never set

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def counted(items: Iterable[_T], what: str, total: int) -> Iterator[_T]:
    """Yields the items, and shows on the terminal how many were yielded: "reading headers: 120 of 4000". what: the beginning of this line. total: the number of
    items."""
    with ProgressLine() as line:
        try:
            for done, item in enumerate(items, 1):
                line.show(f"{what}: {done} of {total}", done, total)
                yield item
        finally:
            if isinstance(items, Generator):  # closing the generator of Executor.map cancels the calls that have not begun
                items.close()
