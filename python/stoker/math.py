# SPDX-License-Identifier: Apache-2.0
"""Mathematical functions of DataNodes, element by element. abs, min, max, clamp and pow keep integers; the other functions convert them to float32."""

from __future__ import annotations

from typing import Any

from stoker.data_node import DataNode, arithmetic

_UNARY = frozenset(
    ["sqrt", "rsqrt", "cbrt", "exp", "log", "log2", "log10", "abs", "fabs", "floor", "ceil", "sin", "cos", "tan", "asin", "acos", "atan"]
    + ["sinh", "cosh", "tanh", "asinh", "acosh", "atanh"]
)


def min(left: Any, right: Any) -> DataNode:
    """Returns the smaller of two values."""
    return arithmetic("min", left, right)


def max(left: Any, right: Any) -> DataNode:
    """Returns the larger of two values."""
    return arithmetic("max", left, right)


def clamp(value: Any, lo: Any, hi: Any) -> DataNode:
    """Returns `value`, limited to the range from lo to hi."""
    return min(max(value, lo), hi)


def pow(base: Any, exponent: Any) -> DataNode:
    """Returns base to the power of exponent, in the common type of the operands."""
    return arithmetic("pow", base, exponent)


def fpow(base: Any, exponent: Any) -> DataNode:
    """Returns base to the power of exponent, computed in floating point."""
    return arithmetic("fpow", base, exponent)


def atan2(x: Any, y: Any) -> DataNode:
    """Returns the angle in radians, from -pi to pi, whose tangent is x / y. The names and the order are DALI's; most libraries call the first argument y."""
    return arithmetic("atan2", x, y)


def __getattr__(name: str) -> Any:
    if name not in _UNARY:
        raise AttributeError(f"module 'stoker.math' has no attribute {name!r}")

    def function(input: Any) -> DataNode:
        return arithmetic(name, input)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name} of each element."
    globals()[name] = function
    return function


def __dir__() -> list[str]:
    return sorted([*globals(), *_UNARY])
