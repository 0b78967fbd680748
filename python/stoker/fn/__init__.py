# SPDX-License-Identifier: Apache-2.0
"""The operators as functions: fn.resize(images, size=224), fn.readers.file(...), fn.decoders.image(...), fn.random.uniform(...).

Most are made from the library's table when they are first used. help(fn.resize) shows the arguments of an operator, and dir(fn) lists all operators. fn.eager
calls a single operator with lists of arrays.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from stoker import _composed, _operator
from stoker._catalog import public_names
from stoker._external import external_source
from stoker._function import dl_tensor_python_function, python_function
from stoker._groups import Family

__all__ = ["dl_tensor_python_function", "external_source", "python_function"]

_names = [*public_names(), *_composed.FUNCTIONS]
_family = Family(__name__, _names, lambda name: _composed.FUNCTIONS.get(name) or _operator.function(name), str)
globals().update({name: group for name, group in _family.groups.items() if "." not in name})


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "eager":  # stoker._eager imports stoker.pipeline, which imports this module
        sys.modules[f"{__name__}.eager"] = globals()[name] = importlib.import_module("stoker._eager")
        return globals()[name]
    return _family.get(sys.modules[__name__], "", name)


def __dir__() -> list[str]:
    return sorted({*_family.dir(""), *__all__, "eager"})
