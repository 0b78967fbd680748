# SPDX-License-Identifier: Apache-2.0
"""Says how to install NumPy and PyTorch, which the package needs only in parts, when one of them is missing."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# What to do, by the module that is missing.
_ADVICE = {
    "numpy": "pip install numpy",
    "torch": "pip install torch; without it, a Pipeline (stoker.pipeline_def) gives batches that NumPy, JAX and CuPy can read",
}


def advice(name: str) -> str:
    """Returns the rest of Python's message that it finds no module of this name; "" if another package than this one imports it."""
    if name not in _ADVICE:
        return ""
    frame = sys._getframe(1)
    while frame.f_back is not None and (frame.f_code.co_name == "find_spec" or frame.f_code.co_filename.startswith("<frozen")):
        frame = frame.f_back
    return f"; this part of Stoker needs it: {_ADVICE[name]}" if frame.f_code.co_filename.startswith(_PACKAGE) else ""


def torch(who: str) -> None:
    """Raises ModuleNotFoundError if PyTorch is not installed. Does not import it, which takes a second or more. who: what the user calls."""
    if sys.modules.get("torch") is not None:
        return
    try:
        found = find_spec("torch")
    except ModuleNotFoundError:  # the package's own finder has been asked
        found = None
    if found is None:
        raise ModuleNotFoundError(f"{who} makes torch tensors, and torch is not installed: {_ADVICE['torch']}", name="torch")


def numpy(who: str) -> None:
    """Raises ModuleNotFoundError if NumPy is not installed; otherwise imports it. who: what the user calls."""
    try:
        import numpy  # noqa: F401
    except ModuleNotFoundError as e:
        if e.name != "numpy":
            raise
        raise ModuleNotFoundError(f"{who} makes NumPy arrays, and NumPy is not installed: {_ADVICE['numpy']}", name="numpy") from None
