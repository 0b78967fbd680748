# SPDX-License-Identifier: Apache-2.0
"""The functions that call a loader: frameworks call the same methods for different purposes, and only the caller shows which."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType

_MOST = 48  # frames that are looked at


def callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Yields the frame, the frame of its caller, and so on. Leaves out comprehensions, which have frames of their own in some versions of Python."""
    for _ in range(_MOST):
        if frame is None:
            return
        if frame.f_code.co_name not in ("<dictcomp>", "<listcomp>"):
            yield frame
        frame = frame.f_back
