# SPDX-License-Identifier: Apache-2.0
"""Raises errors that say how to install NumPy or PyTorch, which only parts of the package need."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
# Advice on how to install each module.
_ADVICE = {
    "numpy": "pip install numpy",
    "torch": "pip install torch; without it, a Pipeline (stoker.pipeline_def) gives batches that NumPy, JAX and CuPy can read",
}


def advice(name: str) -> str:
    """Returns advice to append to Python's message about a missing module; "" for modules that are not in _ADVICE, and for imports outside of this package."""
    if name not in _ADVICE:
        return ""
    frame = sys._getframe(1)
    while frame.f_back is not None and (frame.f_code.co_name == "find_spec" or frame.f_code.co_filename.startswith("<frozen")):
        frame = frame.f_back
    return f"; this part of Stoker needs it: {_ADVICE[name]}" if frame.f_code.co_filename.startswith(_PACKAGE) else ""


def torch(who: str) -> None:
    """Raises ModuleNotFoundError if PyTorch is not installed. Does not import it, which takes a second or more. who: the name of the function in the
    message."""
    if sys.modules.get("torch") is not None:
        return
    try:
        found = find_spec("torch")
    except ModuleNotFoundError:  # raised by _Elsewhere, this package's finder
        found = None
    if found is None:
        raise ModuleNotFoundError(f"{who} makes torch tensors, and torch is not installed: {_ADVICE['torch']}", name="torch")


def numpy(who: str) -> None:
    """Raises ModuleNotFoundError if NumPy is not installed; otherwise imports it. who: the name of the function in the message."""
    try:
        import numpy  # noqa: F401
    except ModuleNotFoundError as e:
        if e.name != "numpy":
            raise
        raise ModuleNotFoundError(f"{who} makes NumPy arrays, and NumPy is not installed: {_ADVICE['numpy']}", name="numpy") from None
