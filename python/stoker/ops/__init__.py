# SPDX-License-Identifier: Apache-2.0
"""The operators as classes, DALI's older way to write a pipeline:

    decode = ops.decoders.Image(device="cpu", output_type=types.RGB)      # arguments that are the same in each call
    resize = ops.Resize(size=224)
    images = resize(decode(files), interp_type=types.INTERP_CUBIC)        # inputs, and more arguments

Most are made from the library's table when first used; dir(ops) lists them. stoker.fn has the same operators as functions.
"""

from __future__ import annotations

import sys
from typing import Any

from stoker import _composed
from stoker._catalog import public_names
from stoker._classes import Compose, DLTensorPythonFunction, ExternalSource, PythonFunction, class_name, find, operator_name
from stoker._groups import Family

__all__ = ["Compose", "DLTensorPythonFunction", "ExternalSource", "PythonFunction"]

for _kind in (Compose, DLTensorPythonFunction, ExternalSource, PythonFunction):
    _kind.__module__ = __name__  # repr() shows the module that users know

_family = Family(__name__, map(class_name, [*public_names(), *_composed.FUNCTIONS]), find, operator_name)
globals().update({name: group for name, group in _family.groups.items() if "." not in name})


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _family.get(sys.modules[__name__], "", name)


def __dir__() -> list[str]:
    return sorted({*_family.dir(""), *__all__})
