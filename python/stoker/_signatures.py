# SPDX-License-Identifier: Apache-2.0
"""Makes signatures that help() shows in a few lines, but that hold all parameters for tools that read them."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

_WIDTH = 72  # help() indents a class by four columns, and a method by another four


class Quiet(inspect.Parameter):
    """A parameter that help() does not show in the signature. The documentation describes it, or says that it has no effect."""


class Shown(inspect.Signature):
    """A signature whose text has names and defaults but no types, and an ellipsis in place of the quiet parameters."""

    def __str__(self) -> str:
        return self.format()

    def format(self, **_: Any) -> str:
        p = inspect.Parameter
        shown = [a for a in self.parameters.values() if not isinstance(a, Quiet)]
        parts: list[str] = []
        by_name = False
        for i, a in enumerate(shown):
            if a.kind is p.KEYWORD_ONLY and not by_name:
                parts.append("*")
                by_name = True
            by_name = by_name or a.kind is p.VAR_POSITIONAL
            star = "*" if a.kind is p.VAR_POSITIONAL else "**" if a.kind is p.VAR_KEYWORD else ""
            parts.append(star + a.name + ("" if a.default is p.empty else f"={a.default!r}"))
            following = shown[i + 1].kind if i + 1 < len(shown) else None
            if a.kind is p.POSITIONAL_ONLY and following is not p.POSITIONAL_ONLY:
                parts.append("/")
        if len(shown) < len(self.parameters):
            parts.append("...")
        return "(" + _wrapped(parts) + ")"


def _wrapped(parts: list[str]) -> str:
    lines = [""]
    for i, part in enumerate(parts):
        text = part + ("," if i + 1 < len(parts) else "")
        if lines[-1] and len(lines[-1]) + 1 + len(text) > _WIDTH - (16 if len(lines) == 1 else 4):
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + text
    return "\n    ".join(lines)


_Function = TypeVar("_Function", bound=Callable[..., Any])


def brief(*names: str) -> Callable[[_Function], _Function]:
    """Decorates a function of which help() shows only these parameters in the signature."""

    def decorate(function: _Function) -> _Function:
        given = inspect.signature(function)
        parameters = [
            a if a.name in ("self", "cls", *names) else Quiet(a.name, a.kind, default=a.default, annotation=a.annotation)
            for a in given.parameters.values()
        ]
        function.__signature__ = Shown(parameters, return_annotation=given.return_annotation)  # type: ignore[attr-defined]
        return function

    return decorate


class BriefHelp(abc.ABCMeta):
    """The type of a class with a short help(): help() and dir(class) leave out the names in its `_unlisted`. Instances have them all.

    It is an ABCMeta, so that a subclass may also be a subclass of an abstract class.
    """

    __module__ = "stoker"  # help() shows it
    _unlisted: tuple[str, ...] = ()

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if name not in cls._unlisted]
