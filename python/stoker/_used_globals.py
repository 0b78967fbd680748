# SPDX-License-Identifier: Apache-2.0
"""Finds the global variables that functions use."""

from __future__ import annotations

import functools
from types import CodeType, FunctionType
from typing import Any

_USES = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "DELETE_GLOBAL"))


def globals_used_by(function: FunctionType) -> dict[str, Any]:
    """Returns the global variables that a function's code uses, including the code of functions inside it. An attribute with the name of a global variable is not
    a use of that variable."""
    return {name: function.__globals__[name] for name in _names_in(function.__code__) if name in function.__globals__}


@functools.lru_cache(4096)  # since dis takes a millisecond for a few hundred instructions
def _names_in(code: CodeType) -> tuple[str, ...]:
    import dis

    names = dict.fromkeys(step.argval for step in dis.get_instructions(code) if step.opname in _USES)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names.update(dict.fromkeys(_names_in(constant)))
    return tuple(names)
