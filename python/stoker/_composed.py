# SPDX-License-Identifier: Apache-2.0
"""Operators of DALI that consist of two operators in Stoker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker import _docs, _video_input
from stoker._catalog import Op, find
from stoker._operator import call
from stoker._signatures import hint_for
from stoker._where import users_line
from stoker.errors import ArgumentError, UnknownArgumentError


def _op(name: str) -> Op:
    op = find(name)
    assert op is not None
    return op


def video_resize(*inputs: Any, **kwargs: Any) -> Any:
    """Reads clips of videos and resizes their frames: readers.video, then resize, with the arguments of both.

    dtype and normalized are arguments of the reader: frames are converted when they are read, and resizing keeps their type. The outputs are those of
    readers.video.
    """
    if inputs:
        raise ArgumentError(f"readers.video_resize at {users_line()}: takes 0 inputs, {len(inputs)} were given (arguments go by name)")
    first, second = _divided(kwargs)
    made = call(_op("readers.video"), (), first)
    clip, *others = made if isinstance(made, (list, tuple)) else [made]
    small = call(_op("resize"), (clip,), second)
    return [small, *others] if others else small


def _divided(kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the arguments of readers.video and those of resize. Raises an error for an argument that neither has."""
    reader, resize = _op("readers.video"), _op("resize")
    first = {k: v for k, v in kwargs.items() if k in reader.by_name or k in _docs.COMMON}
    second = {k: v for k, v in kwargs.items() if k in resize.by_name and k not in first}
    unknown = [k for k in kwargs if k not in first and k not in second]
    if unknown:
        hint = hint_for(unknown[0], [*reader.by_name, *resize.by_name], "it takes those of readers.video and of resize")
        raise UnknownArgumentError(f"readers.video_resize at {users_line()}: there is no argument '{unknown[0]}'; {hint}")
    return first, second


# The function of each composed operator, and a function that raises an error for arguments that the operator does not take.
FUNCTIONS: dict[str, Callable[..., Any]] = {"readers.video_resize": video_resize, _video_input.NAME: _video_input.video_input}
CHECKS: dict[str, Callable[[dict[str, Any]], object]] = {"readers.video_resize": _divided, _video_input.NAME: _video_input.check}
