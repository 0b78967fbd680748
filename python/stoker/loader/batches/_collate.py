# SPDX-License-Identifier: Apache-2.0
"""Calls the collate_fn of a Loader with the finished batch. Refuses functions that were written for a list of samples, as torch's DataLoader passes it."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from typing import Any

from stoker.errors import InvalidArgumentError
from stoker.loader._epoch import call

_WAY = "stoker.DataLoader gives it the list"


def checked(collate_fn: Any) -> Any:
    """Returns the collate_fn; None for None. Raises InvalidArgumentError if it is not callable, or was certainly written for a list of samples: torch's
    default_collate and default_convert, and functions that call zip(*batch)."""
    if collate_fn is None:
        return None
    if not callable(collate_fn):
        raise InvalidArgumentError(f"Loader: collate_fn is a function of the finished batch, not {collate_fn!r}")
    of_torch = str(getattr(collate_fn, "__module__", "")).startswith("torch.utils.data")
    if of_torch and getattr(collate_fn, "__name__", "") in ("default_collate", "default_convert"):
        raise InvalidArgumentError(
            f"Loader: {collate_fn.__name__} makes a batch of a list of samples, and a collate_fn gets the finished batch here: leave it out"
        )
    if _transposes(collate_fn):
        name = getattr(collate_fn, "__qualname__", type(collate_fn).__name__)
        raise InvalidArgumentError(
            f"Loader: the collate_fn {name} calls zip(*batch), which is meant for a list of samples, and it gets the finished batch here: take "
            f"the fields, as batch.image and batch.label. {_WAY}"
        )
    return collate_fn


def _transposes(function: Any) -> bool:
    """Returns whether a function calls zip(*p) for its first parameter p, by its byte code."""
    function = inspect.unwrap(getattr(function, "func", function))
    code = getattr(function, "__code__", None) or getattr(getattr(type(function), "__call__", None), "__code__", None)  # noqa: B004
    if code is None:
        return False
    skip = 1 if code.co_varnames[:1] == ("self",) else 0
    first = code.co_varnames[skip : code.co_argcount][:1]
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "COPY_FREE_VARS", "NOP", "PUSH_NULL")]
    for at, step in enumerate(steps[:-2]):
        loads = step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval == "zip"
        if loads and (steps[at + 1].argval,) == first and steps[at + 1].opname.startswith("LOAD_"):
            called = next((s.opname for s in steps[at + 2 :] if s.opname.startswith("CALL") and "INTRINSIC" not in s.opname), "")
            if called == "CALL_FUNCTION_EX":
                return True
        # BUILD_LIST comes between the loads of zip and p if zip() gets keyword arguments.
        if loads and steps[at + 1].opname == "BUILD_LIST" and (steps[at + 2].argval,) == first:
            return True
    return False


def collated(collate_fn: Callable[[Any], Any], batch: Any) -> Any:
    """Calls the collate_fn and returns its result. If it raises an error, adds to the message what a collate_fn receives."""
    try:
        return call("collate_fn", collate_fn, batch)
    except Exception as e:
        fields = ", ".join(getattr(batch, "_fields", ()))
        gets = f"collate_fn gets the finished batch ({fields}), and no list of samples; {_WAY}"
        if len(e.args) == 1 and isinstance(e.args[0], str):
            e.args = (f"{e.args[0]} ({gets})",)
        else:
            e.add_note(gets)
        raise
