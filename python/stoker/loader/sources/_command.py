# SPDX-License-Identifier: Apache-2.0
"""Options, messages and errors of output for the commands of tables and robot data sets, in the form that the C program `stoker` gives them."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from typing import Any

from stoker._files import named_path
from stoker._storage import Storage
from stoker.errors import InvalidArgumentError, safe_text

STORAGE_TEXTS = ("endpoint", "region", "profile", "ca-bundle", "cache", "cache-limit")
STORAGE_FLAGS = ("anonymous", "path-style")


class UsageError(Exception):
    """Raised if the command's arguments are wrong."""


def _local(argument: str) -> str:
    """Returns the path that a file:// URI names. Returns other arguments as they are, including URIs of files on another host."""
    path = named_path(argument)
    return path if path.startswith("/") else argument


def parse(
    arguments: Sequence[str], texts: Sequence[str], flags: Sequence[str], letters: dict[str, str]
) -> tuple[list[str], dict[str, Any]]:
    """Returns the arguments that are no options, and the options, by the rules of the C program. Raises UsageError for wrong ones. texts: names of options with
    a value. flags: names of options without one. letters: the name of each option of one letter."""
    plain: list[str] = []
    found: dict[str, Any] = {}
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            plain += map(_local, rest)
        elif not argument.startswith("-") or argument == "-":
            plain.append(_local(argument))
        else:
            name, has_value, value = argument[2:].partition("=") if argument.startswith("--") else (letters.get(argument[1:], ""), "", "")
            if name in flags and not has_value:
                found[name] = True
            elif name in texts:
                value = value if has_value else next(rest, "")
                if not value:
                    raise UsageError(f"--{name} needs a value")
                found[name] = _local(value) if name == "output" else value
            else:
                raise UsageError(f"--{name} takes no value" if name in flags else f"no option {argument}")
    return plain, found


def whole(options: dict[str, Any], name: str, usual: int, most: int) -> int:
    """Returns the value of an option that is a whole number from 1 to `most`. usual: the value if the option was not given. Raises UsageError for other
    values."""
    text = options.get(name, str(usual))
    if not (text.isascii() and text.isdecimal() and len(text) < 16 and 1 <= int(text) <= most):
        raise UsageError(f'--{name} takes a whole number from 1 to {most}, not "{text}"')
    return int(text)


def storage_of(options: dict[str, Any]) -> Storage | None:
    """Returns a storage with the settings of the options, or None if none is given. Raises UsageError for wrong values."""
    given: dict[str, Any] = {n.replace("-", "_"): options[n] for n in STORAGE_TEXTS if n in options}
    given |= {n.replace("-", "_"): True for n in STORAGE_FLAGS if n in options}
    try:
        return Storage(**given) if given else None
    except InvalidArgumentError as e:
        raise UsageError(str(e)) from None


def say(command: str, text: str) -> None:
    """Prints a message on stderr, without secrets."""
    if sys.stderr is not None:  # print() would write to stdout instead
        print(f"stoker {command}: {safe_text(text)}", file=sys.stderr)


def shown(name: str) -> str:
    r"""Returns a name as a part of a line: without secrets, and with \n for a line break."""
    return safe_text(name).replace("\n", "\\n").replace("\t", "\\t")


def put(command: str, text: str) -> int:
    """Prints text on stdout. Characters that stdout's encoding lacks are escaped. Returns the exit status: 0, or 1 if the output was lost. Prints a message
    about the loss, unless the output was lost because the program that reads it has ended."""
    if sys.stdout is None:  # it was closed when the program began
        say(command, f"the output could not be written: {os.strerror(errno.EBADF)}")
        return 1
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        print(text, flush=True)
    except OSError as e:
        with contextlib.suppress(OSError, ValueError):  # the rest of the buffer goes nowhere when the program ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if e.errno != errno.EPIPE:
            say(command, f"the output could not be written: {e.strerror}")
        return 1
    return 0
