# SPDX-License-Identifier: Apache-2.0
"""Finds the named arguments that an augmentation's function takes besides the data and the parameter, and selects them from a caller's arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stoker.errors import ArgumentError

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
DATA_AND_PARAMETER = 2


class MissingArgException(ArgumentError):
    """Raised if an augmentation needs a named argument that its caller did not give."""

    def __init__(self, message: str, augmentation: Any, missing_args: list[str]) -> None:
        super().__init__(message)
        self.augmentation = augmentation
        self.missing_args = missing_args


class UnusedArgException(ArgumentError):
    """Raised if a named argument was given that none of the augmentations takes."""

    def __init__(self, message: str, unused_args: list[str]) -> None:
        super().__init__(message)
        self.unused_args = unused_args


def positional(function: Callable[..., Any]) -> int:
    """Returns how many arguments of the function can be passed by position."""
    return sum(p.kind in _POSITIONAL for p in inspect.signature(function).parameters.values())


def _further(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Returns the parameters that can be passed by name, except the first two, which are the data and the augmentation's parameter."""
    parameters = list(inspect.signature(function).parameters.values())
    first = [p for p in parameters if p.kind in _POSITIONAL][:DATA_AND_PARAMETER]
    return [p for p in parameters if p.kind in _NAMED and p not in first]


def accepted(function: Callable[..., Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns those of the named arguments `given` that the function takes."""
    names = {p.name for p in _further(function)}
    return {name: value for name, value in given.items() if name in names}


def missing(function: Callable[..., Any], given: Mapping[str, Any]) -> list[str]:
    """Returns the names of the function's named arguments that have no default and are not in `given`."""
    return [p.name for p in _further(function) if p.default is inspect.Parameter.empty and p.name not in given]


def check_used(augmentations: Iterable[Any], given: Mapping[str, Any], caller: str) -> None:
    """Raises UnusedArgException if `given` has an argument that no augmentation takes. caller: the function that the user called, for the message."""
    used = {name for augmentation in augmentations for name in accepted(augmentation.op, given)}
    unused = [name for name in given if name not in used]
    if unused:
        plural = len(unused) > 1
        raise UnusedArgException(
            f"The {caller} got unexpected kwarg{'s' * plural}. The kwarg{'s' * plural} `{', '.join(unused)}` {'are' if plural else 'is'} not used by "
            "any of the "
            "augmentations.",
            unused,
        )
