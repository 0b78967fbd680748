# SPDX-License-Identifier: Apache-2.0
"""Finds Datasets and transforms that store values of a call in attributes, such as a transform that draws random numbers in one method and applies them in
another. Threads that call such an object at once would overwrite each other's values."""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

from stoker._used_globals import globals_used_by
from stoker._where import notice

_CALLS = 8  # number of first calls that run one at a time, and whose effects on attributes are compared
_FIRST, _DEPTH, _MOST = 32, 6, 2000  # limits of a search: elements of a container, depth of attributes, number of objects
_PLAIN = (bool, int, float, complex, str, bytes, type(None))
# Packages whose objects do not store values of a call, or protect them with a lock.
_OTHERS = {"PIL", "datasets", "h5py", "lmdb", "numpy", "pandas", "pyarrow", "stoker", "torch", "torchvision", *sys.stdlib_module_names} - {
    "__main__"
}
# Modules whose objects are not compared, but are searched for objects that are.
_HOLDERS = ("torch.utils.data", "torchvision.", "functools", "stoker.")
_WRITTEN_ONLY = {("albumentations", "params")}  # (package, attribute): the package's calls write the attribute but do not read it

Marks = dict[tuple[int, str], Any]
DATASET = ("the dataset", "With python_workers=N calls run at once, in processes")


class Changes:
    """Compares the attributes of a Dataset or of a transform's function, and of the objects in it, before and after calls.

    counting: the first calls are still compared, so calls must run one at a time. serial: an attribute has changed, so calls must always run one at a time.
    Call begin() after the first call, which often opens files; then mark() before each further one, because the user may change attributes between two epochs, and
    compare() after it. what: the name of the Dataset or transform in the notice
    that a change prints. way_out: the advice in this notice.
    """

    def __init__(self, what: str, way_out: str) -> None:
        self._what, self._way_out = what, way_out
        self.counting = self.serial = False
        self._left = 0
        self._marks: Marks = {}
        self._kept: list[Any] = []  # references to the objects whose ids are in _marks, so that Python gives these ids to no other objects

    def begin(self, dataset: Any) -> None:
        self._marks, self._kept = _marks_of(dataset)
        self.counting = bool(self._marks)
        self._left = _CALLS

    def mark(self, dataset: Any) -> None:
        """Stores the attributes before a call, if it is one of those that are compared."""
        if self.counting:
            self._marks, self._kept = _marks_of(dataset)

    def compare(self, dataset: Any) -> None:
        """Compares the attributes with those at `mark`. Does nothing after _CALLS comparisons, or after a change. Call while no thread runs the dataset."""
        if not self.counting:
            return
        marks, kept = _marks_of(dataset)
        changed = next((key for key, mark in marks.items() if key in self._marks and _differ(self._marks[key], mark)), None)
        self._left -= 1
        if changed is not None:
            self.serial = True
            owner = next((type(one).__name__ for one in kept if id(one) == changed[0]), "?")
            notice(
                f"a call of {self._what} changes {owner}.{changed[1]}, so calls that run at the same time would disturb each other: {self._what} is called one "
                f"at a time. {self._way_out}"
            )
        if self.serial or self._left == 0:
            self.counting = False
            self._marks, self._kept = {}, []


class SerializedCalls:
    """Wraps a function so that several threads may call it. If its first calls change attributes, all calls run one at a time; else calls run at once."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self._function, self._name = function, name
        self._changes = Changes(f"the transform {name}", "Calls run at once where the transform keeps such values in local variables")
        self._lock, self._begun = threading.Lock(), False

    def __reduce__(self) -> Any:
        return SerializedCalls, (self._function, self._name)

    def __call__(self, argument: Any) -> Any:
        if self._begun and not (self._changes.counting or self._changes.serial):
            return self._function(argument)
        with self._lock:
            self._changes.mark(self._function)
            made = self._function(argument)
            if self._begun:
                self._changes.compare(self._function)
            else:
                self._changes.begin(self._function)
                self._begun = True
        return made


def _differ(old: Any, new: Any) -> bool:
    """Returns whether an attribute's value has changed. A change from None does not count, because attributes of objects that are made at their first use
    change like that, and only once."""
    return old is not None and old is not new and bool(old != new)


def _marks_of(dataset: Any) -> tuple[Marks, list[Any]]:
    """Returns the attributes of a Dataset and of the objects in it, _DEPTH levels deep and of about _MOST objects at most: a dict from (id of the object, name)
    to the value, or to the value's id if its type is not in _PLAIN. Also returns all objects with these ids."""
    marks: Marks = {}
    kept: list[Any] = []
    seen: set[int] = set()
    level = [dataset]
    for _ in range(_DEPTH):
        inner: list[Any] = []
        for one in level:
            if id(one) in seen or len(kept) > _MOST:
                continue
            seen.add(id(one))
            kept.append(one)
            for name, value in _attributes(one):
                if name is not None:
                    marks[id(one), name] = value if isinstance(value, _PLAIN) else id(value)
                if not isinstance(value, _PLAIN):
                    kept.append(value)
                    inner.append(value)
        level = inner
    return marks, kept


def _attributes(one: Any) -> list[tuple[str | None, Any]]:
    """Returns (name, value) for each attribute of an object. If the name is None, the value itself is not compared, but further objects are searched in it:
    elements of a container, the object of a bound method, the objects that a function uses, and attributes of objects from modules in _HOLDERS. Returns [] for
    classes, modules, descriptors, and objects of packages in _OTHERS."""
    if isinstance(one, dict):  # calls the methods of dict, list and tuple directly: a subclass's may run other code
        return [(None, value) for value in list(dict.values(one))[:_FIRST]]
    if isinstance(one, (list, tuple)):
        elements = list.__getitem__(one, slice(_FIRST)) if isinstance(one, list) else tuple.__getitem__(one, slice(_FIRST))
        return [(None, value) for value in elements]
    if isinstance(one, types.MethodType):
        return [(None, one.__self__)]
    if isinstance(one, types.FunctionType):
        return [(None, value) for value in _objects_used_by(one)]
    if isinstance(one, (type, types.ModuleType)) or hasattr(type(one), "__get__"):
        return []
    package = type(one).__module__.partition(".")[0]
    holds = type(one).__module__.startswith(_HOLDERS)
    if package in _OTHERS and not holds:
        return []
    try:
        found = list(object.__getattribute__(one, "__dict__").items())
    except AttributeError:
        return []
    return [(None if holds else name, value) for name, value in found if (package, name) not in _WRITTEN_ONLY]


def _objects_used_by(function: types.FunctionType) -> list[Any]:
    """Returns the values of the variables of enclosing functions and of the module that a function uses. Returns [] for functions of packages in _OTHERS."""
    if function.__module__ is not None and function.__module__.partition(".")[0] in _OTHERS:
        return []
    found = []
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # the variable has no value yet
            found.append(cell.cell_contents)
    return [*found, *globals_used_by(function).values()]
