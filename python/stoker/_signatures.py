# SPDX-License-Identifier: Apache-2.0
"""Makes signatures that help() shows in a few lines, but that hold all parameters for tools that read them."""

from __future__ import annotations

import abc
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

_UNKNOWN = r"got an unexpected keyword argument '(\w+)'"
_TOO_MANY = r"takes .* positional arguments? but .* given"
_WIDTH = 72  # help() indents a class by four columns, and a method by another four


class Quiet(inspect.Parameter):
    """A parameter that help() leaves out of the signature. The documentation describes it."""


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


def filled(text: str, width: int, following: str = "") -> str:
    """Returns the text in lines of at most `width` characters, unless a word is longer. following: the beginning of each line after the first.

    textwrap.fill does the same, but importing it and filling the docstrings of a few operators takes 5% of the time that a program needs to start."""
    lines, line = [], ""
    indent = text[: len(text) - len(text.lstrip())]
    for word in text.split():
        if not line:
            line = indent + word
        elif len(line) + 1 + len(word) <= width:
            line += " " + word
        else:
            lines.append(line)
            line = following + word
    return "\n".join([*lines, line])


_Function = TypeVar("_Function", bound=Callable[..., Any])


def brief(*names: str) -> Callable[[_Function], _Function]:
    """Decorates a function: help() shows only these parameters in its signature."""

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
    """The type of a class whose help() is short: help() and dir(class) leave out the names in `_unlisted`. dir(object) does not.

    It is an ABCMeta, so that a subclass may also be a subclass of an abstract class.
    """

    __module__ = "stoker"  # help() shows this name as the module of the class
    _unlisted: tuple[str, ...] = ()

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if name not in cls._unlisted]


def suggests(thing: _Function) -> _Function:
    """Decorates a function, or a class that has its own constructor. If a call names an unknown argument, the error also names the most similar one. If a call
    passes too many arguments by position, the error says to pass the others by name."""
    if not isinstance(thing, type):
        return _suggesting(thing)  # type: ignore[return-value]
    if "__init__" in vars(thing):
        thing.__init__ = _suggesting(thing.__init__)  # type: ignore[misc]
    return thing


def _suggesting(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def suggesting(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TypeError as e:
            if e.__traceback__ is not None and e.__traceback__.tb_next is None:  # the call itself failed, and not the function's code
                add_suggestion(e, inspect.signature(function).parameters)
            raise

    return suggesting


def add_suggestion(error: TypeError, parameters: Mapping[str, inspect.Parameter]) -> None:
    """Changes Python's message about an unknown named argument: names the argument that may have been meant, or lists all. Changes the message about too many
    positional arguments: says which arguments must be named."""
    text = str(error)
    unknown = re.search(_UNKNOWN, text)
    only_named = [p.name for p in parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY and not p.name.startswith("_")]
    if unknown is None:
        if only_named and re.search(_TOO_MANY, text):
            error.args = (f"{text}; give the others by name, as {only_named[0]}=...",)
        return
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = [p.name for p in parameters.values() if p.kind in by_name and p.name not in ("self", "cls") and not p.name.startswith("_")]
    error.args = (f"{text[: unknown.end()]}; {hint_for(unknown[1], names)}",)  # newer versions of Python suggest a name by themselves


def hint_for(name: str, known: Iterable[str], otherwise: str | None = None, cutoff: float = 0.6) -> str:
    """Returns "did you mean ...?" with the known name that is most similar. If no name is similar, returns `otherwise`, by default a list of the known names.
    cutoff: the least similarity, from 0 to 1, as difflib computes it."""
    import difflib

    names = list(known)
    close = difflib.get_close_matches(name, names, 2, cutoff) or [
        n for n in names if len(name) > 2 and (n.startswith(name) or name.startswith(n))
    ]
    if len({n.lower() for n in close[:2]}) == 1:  # "Dataloader" is nearer to the class DataLoader than to the module dataloader
        close.sort(key=lambda n: n[0].isupper() != name[0].isupper())
    if close:
        return f"did you mean {close[0]!r}?"
    return f"it takes {', '.join(names) or 'no arguments by name'}" if otherwise is None else otherwise
