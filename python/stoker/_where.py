# SPDX-License-Identifier: Apache-2.0
"""The user's line: where in somebody's program an operator was called, and notices that are shown once."""

from __future__ import annotations

import os
import sys

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_shown: set[str] = set()


def users_line() -> str:
    """ "train.py:31" of the innermost frame outside this package."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_PACKAGE) and not name.startswith("<frozen"):
            return f"{os.path.basename(name)}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return "?"


def missing(message: str, up: int = 2) -> Exception:
    """The exception for a name that a __getattr__ does not find. It is an ImportError where the name is asked for by `from module import name`, which would
    put a bare message in the place of an AttributeError. up: how many frames above this one that is."""
    import opcode

    frame = sys._getframe(up)
    importing = frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] == opcode.opmap["IMPORT_FROM"]
    return ImportError(message) if importing else AttributeError(message)


def notice(text: str) -> None:
    """Prints a line once a process: for what is accepted and does nothing, or not what it says."""
    if text not in _shown:
        _shown.add(text)
        tell(text)


def tell(text: str) -> None:
    """Prints a line."""
    print(f"stoker: {text}", file=sys.stderr)
