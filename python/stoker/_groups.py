# SPDX-License-Identifier: Apache-2.0
"""Modules whose attributes are operators: fn.readers.file, ops.readers.File. Errors about names that only DALI has say what to use instead."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from stoker import _core
from stoker._elsewhere import instead
from stoker._where import missing

# The groups of DALI's operators. Each can be imported as a module, even if Stoker has no operators in it.
_DALI_GROUPS = (
    "decoders experimental experimental.decoders experimental.inputs experimental.readers io io.file io.video noise random readers".split()
)
_DALI_GROUPS += ["reductions", "segmentation", "transforms"]


class Group(ModuleType):
    """A module of operators, such as stoker.fn.readers. prefix: the beginning of its operators' full names, "readers."."""

    def __init__(self, module: str, prefix: str, family: Family) -> None:
        super().__init__(module, f"Operators {prefix}*." if prefix else None)
        self.__path__: list[str] = []  # a package, because it may contain further groups
        self._prefix = prefix
        self._family = family

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._family.get(self, self._prefix, name)

    def __dir__(self) -> list[str]:
        return self._family.dir(self._prefix)


class Family:
    """All modules of stoker.fn, or of stoker.ops. root: name of the root module. names: full names of the operators, spelled as in this family. find: returns
    the function or class for such a name, or None. plain: converts such a name to the operator's name, "readers.file"."""

    def __init__(self, root: str, names: Iterable[str], find: Callable[[str], Any], plain: Callable[[str], str]) -> None:
        self.root = root
        self.names = list(names)
        self.find = find
        self.plain = plain
        known = {n.rpartition(".")[0] for n in self.names} | set(_DALI_GROUPS)
        prefixes = {p[:i] for p in known - {""} for i in [*(k for k, c in enumerate(p) if c == "."), len(p)]}
        self.groups = {p: Group(f"{root}.{p}", p + ".", self) for p in sorted(prefixes)}
        for prefix, group in self.groups.items():
            sys.modules[group.__name__] = group
            parent, _, name = prefix.rpartition(".")
            if parent:
                setattr(self.groups[parent], name, group)

    def get(self, module: Any, prefix: str, name: str) -> Any:
        """Returns an operator's function or class, and stores it in its module. Raises AttributeError, with advice, if there is no such operator."""
        found = self.find(prefix + name)
        if found is None:
            advice = instead(f"{self.root}.{prefix}{name}")
            raise missing(
                f"module {self.root!r} has no attribute {name!r}{advice}" if advice else _core.explain_missing(self.plain(prefix + name)), 3
            )
        setattr(module, name, found)
        return found

    def dir(self, prefix: str) -> list[str]:
        """Returns the names of the operators directly under a prefix, and of the groups there that contain operators."""
        return sorted({n[len(prefix) :].partition(".")[0] for n in self.names if n.startswith(prefix)})
