# SPDX-License-Identifier: Apache-2.0
"""Converts and checks numbers and booleans that users give as settings. A number that does not fit raises an error instead of wrapping around."""

from __future__ import annotations

import math
import operator
import re
from typing import Any

from stoker.errors import ArgumentError, InvalidArgumentError

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
SAMPLE_MEMORY = 2 << 30  # default of memory_limit, in bytes

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _is_bool(value: Any) -> bool:
    """Returns whether a value is True or False, also of NumPy or as a tensor."""
    return isinstance(value, bool) or str(getattr(value, "dtype", "")) in ("bool", "torch.bool")


def whole(what: str, value: Any, least: int, most: int = INT32_MAX) -> int:
    """Returns `value` as an int. Accepts integers of any type from `least` to `most`; raises an error for all other values, also True, False and floats. what:
    the value's name in messages, such as "Pipeline: batch_size"."""
    try:
        if _is_bool(value):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(f"{what} is a whole number, not {_shown(value)}") from None
    if number < least:
        raise InvalidArgumentError(f"{what} is at least {least}, not {_shown(number)}")
    if number > most:
        raise InvalidArgumentError(f"{what} is at most {most}, not {_shown(number)}")
    return number


def number(what: str, value: Any, least: float = 0, most: float = math.inf) -> float:
    """Returns `value` as a float. Raises an error unless least <= value <= most, and for NaN. An integer too large for a float counts as infinite. what: the
    value's name in messages."""
    if isinstance(value, (str, bytes)) or _is_bool(value) or not hasattr(value, "__float__"):
        raise ArgumentError(f"{what} is a number, not {_shown(value)}")
    try:
        given = float(value)
    except OverflowError:
        given = math.inf if value > 0 else -math.inf
    except (TypeError, ValueError):  # an array of several elements
        raise ArgumentError(f"{what} is a number, not {_shown(value)}") from None
    if not given >= least:
        raise InvalidArgumentError(f"{what} is at least {least:g}, not {_shown(value)}")
    if given > most:
        raise InvalidArgumentError(f"{what} is at most {most:g}, not {_shown(value)}")
    return given


def size(what: str, value: Any, least: int = 0) -> int:
    """Returns a size in bytes from a number, or from a text with a unit such as "200GB" or "1.5GiB". Raises an error if it is below `least`."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, str):
        return whole(what, value, least, INT64_MAX)
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", value)
    unit = _UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None:
        half = found[2].upper() if found else ""
        both = f"; {half} could be {half}B (powers of 1000) or {half}iB (powers of 1024)" if half in ("K", "M", "G", "T") else ""
        raise InvalidArgumentError(f'{what} is a number of bytes, as 200_000_000_000, "200GB" or "1.5GiB", not {_shown(value)}{both}')
    from fractions import Fraction  # its import takes some milliseconds, and most programs never need it

    return whole(what, int(Fraction(found[1]) * unit), least, INT64_MAX)


def memory_limit(given: Any) -> int:
    """Returns the setting memory_limit in bytes; for None and 0, its default."""
    return (0 if given is None else size("memory_limit", given)) or SAMPLE_MEMORY


def flag(what: str, value: Any, *, exact: bool = False, also: str = "") -> bool:
    """Returns a bool for True, False, 0 or 1; False for None. Raises ArgumentError for other values, such as the text "no", which would count as True.

    exact: accept only True and False, of Python or NumPy. also: further values that the message names after "True or False"."""
    if not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_"):  # NumPy's type has had both names
        try:
            fits = not exact and bool(value is None or value == 0 or value == 1)
        except (TypeError, ValueError, RuntimeError):  # an array of several numbers has no truth value
            fits = False
        if not fits:
            raise ArgumentError(f"{what} is True or False{also}, not {_shown(value)}")
    return bool(value)
