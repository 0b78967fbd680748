# SPDX-License-Identifier: Apache-2.0
"""A line on the terminal that says how far long work is, once that takes longer than a second."""

from __future__ import annotations

import sys
import time


class ProgressLine:
    """On stderr, where that is a terminal; gone when the work is."""

    def __init__(self) -> None:
        self._begun, self._shown = time.monotonic(), False

    def show(self, text: str) -> None:
        """Shows the progress. Called about ten times a second."""
        if time.monotonic() - self._begun > 1 and sys.stderr is not None and sys.stderr.isatty():
            self._shown = True
            sys.stderr.write(f"\r\033[K{text}")
            sys.stderr.flush()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\033[K")
