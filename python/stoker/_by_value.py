# SPDX-License-Identifier: Apache-2.0
"""Pickles callables that another process cannot import: lambdas, functions within functions, functions of the main module.

Such a function is pickled as its code, its defaults, the variables of enclosing functions, and the global variables that its code uses. All other objects
are pickled as usual, modules and their contents by name. The process that unpickles must run the same version of Python.
"""

from __future__ import annotations

import builtins
import importlib
import io
import marshal
import pickle
import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from stoker._used_globals import globals_used_by


def _imported(function: FunctionType) -> bool:
    """Returns whether another process can import the function by its name."""
    found: Any = sys.modules.get(function.__module__ or "")
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return found is function and function.__module__ != "__main__"


def _cell_value(cell: Any) -> Any:
    try:
        return (cell.cell_contents,)
    except ValueError:  # the variable has no value yet
        return ()


def _empty_function(code: bytes, module: str, cells: int) -> FunctionType:
    """Makes a function without the objects to which it refers. These are added later, because they may refer to the function."""
    from types import CellType

    return FunctionType(
        marshal.loads(code), {"__name__": module, "__builtins__": builtins}, closure=tuple(CellType() for _ in range(cells)) or None
    )


def _filled(function: FunctionType, state: dict[str, Any]) -> None:
    function.__globals__.update(state["globals"])
    for cell, value in zip(function.__closure__ or (), state["cells"], strict=True):
        if value:
            cell.cell_contents = value[0]
    function.__defaults__, function.__kwdefaults__ = state["defaults"], state["kwdefaults"]
    function.__qualname__ = state["qualname"]
    function.__dict__.update(state["dict"])


class _Pickler(pickle.Pickler):
    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, ModuleType):
            return importlib.import_module, (obj.__name__,)
        if not isinstance(obj, FunctionType) or _imported(obj):
            return NotImplemented
        cells = [_cell_value(cell) for cell in obj.__closure__ or ()]
        state = {
            "globals": globals_used_by(obj),
            "cells": cells,
            "defaults": obj.__defaults__,
            "kwdefaults": obj.__kwdefaults__,
            "qualname": obj.__qualname__,
            "dict": obj.__dict__,
        }
        return _empty_function, (marshal.dumps(obj.__code__), obj.__module__ or "", len(cells)), state, None, None, _filled


def dumps(function: Callable[..., Any]) -> bytes:
    """Returns the callable as bytes for pickle.loads. Raises pickle.PicklingError, TypeError or other errors if an object that it refers to cannot be
    pickled."""
    to = io.BytesIO()
    _Pickler(to).dump(function)
    return to.getvalue()
