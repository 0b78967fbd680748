# SPDX-License-Identifier: Apache-2.0
"""The operators as functions: fn.resize(images, size=224), fn.readers.file(...), fn.decoders.image(...), fn.random.uniform(...).

Each is made from the library's table when first used; help(fn.resize) shows its arguments, dir(fn) what there is.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from stoker import _operator
from stoker._catalog import aliases, operators
from stoker._external import external_source

__all__ = ["external_source"]


def _names(prefix: str) -> list[str]:
    """Operators and legacy names directly under a prefix ("" or "readers.")."""
    known = [op.name for op in operators().values() if not op.hidden] + list(aliases())
    return sorted({n[len(prefix) :] for n in known if n.startswith(prefix) and "." not in n[len(prefix) :]})


class _Group(ModuleType):
    """A group of operators: fn.readers, fn.decoders, fn.random."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__.removeprefix('stoker.fn.')}.{name}"
        function = _operator.function(full)
        if function is None:
            raise AttributeError(_operator.explain_missing(full))
        setattr(self, name, function)
        return function

    def __dir__(self) -> list[str]:
        return _names(self.__name__.removeprefix("stoker.fn.") + ".")


def _make_groups() -> dict[str, ModuleType]:
    groups: dict[str, ModuleType] = {}
    for op in operators().values():
        prefix, dot, _ = op.name.rpartition(".")
        if dot and not op.hidden and prefix not in groups:
            module = _Group(f"stoker.fn.{prefix}", f"Operators {prefix}.*")
            groups[prefix] = sys.modules[module.__name__] = module
    return groups


globals().update(_make_groups())


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    function = _operator.function(name)
    if function is None:
        raise AttributeError(_operator.explain_missing(name))
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    groups = [n for n, v in globals().items() if isinstance(v, _Group)]
    return sorted([*_names(""), *groups, "external_source"])
