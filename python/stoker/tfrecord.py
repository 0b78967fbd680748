# SPDX-License-Identifier: Apache-2.0
"""Describes the features that fn.readers.tfrecord reads from each record. The names are those of nvidia.dali.tfrecord.

features = {
    "image/encoded": tfrecord.FixedLenFeature((), tfrecord.string, ""),
    "image/class/label": tfrecord.FixedLenFeature([1], tfrecord.int64, -1),
    "image/object/bbox/xmin": tfrecord.VarLenFeature(tfrecord.float32, 0.0),
}
inputs = fn.readers.tfrecord(path="train.tfrecord", features=features)
images = fn.decoders.image(inputs["image/encoded"])
"""

from __future__ import annotations

import math
import numbers
import operator
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from stoker._catalog import Op
from stoker.errors import InvalidArgumentError

__all__ = ["Feature", "FixedLenFeature", "VarLenFeature", "float32", "int64", "string"]

int64, string, float32 = 0, 1, 2  # the numbers that these types have in DALI
_NAMES = {int64: "int64", string: "string", float32: "float32"}


class Feature:
    """The type and the shape of a feature, and the default for records that lack it. Made by FixedLenFeature and VarLenFeature."""

    def __init__(self, dtype: int, shape: Sequence[int], default: Any, varies: bool) -> None:
        if dtype not in _NAMES:
            raise InvalidArgumentError(f"a feature's type is tfrecord.int64, tfrecord.float32 or tfrecord.string, not {dtype!r}")
        try:
            dims = [operator.index(n) for n in shape]
        except TypeError:
            raise InvalidArgumentError(f"a feature's shape is a list of whole numbers, not {shape!r}") from None
        if any(n < 0 for n in dims):
            raise InvalidArgumentError(
                f"a feature's shape has no negative extents, as {dims} has: VarLenFeature takes any number of values"
            )
        self._text = f"{_NAMES[dtype]}[{','.join(['*'] * varies + [str(n) for n in dims])}]" + _default_text(dtype, default)

    def __repr__(self) -> str:
        return f"<feature {self._text}>"


def _default_text(dtype: int, value: Any) -> str:
    if value is None:
        return ""
    if dtype == string:
        if not isinstance(value, (str, bytes)):
            raise InvalidArgumentError(f"the default of a string is a string, not {value!r}")
        try:
            text = value if isinstance(value, str) else value.decode()
        except UnicodeDecodeError:
            raise InvalidArgumentError(f"the default of a string is text, and {value!r} is not UTF-8") from None
        if "\0" in text:
            raise InvalidArgumentError(f"the default of a string has no zero bytes, as {value!r} has")
        return "=" + text
    if dtype == int64:
        try:
            number = operator.index(value)
        except TypeError:
            raise InvalidArgumentError(f"the default of whole numbers is one, not {value!r}") from None
        if not -(2**63) <= number < 2**63:
            raise InvalidArgumentError(f"the default of whole numbers is an int64, which {value!r} does not fit into")
        return f"={number}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not math.isfinite(value):
        raise InvalidArgumentError(f"the default of floats is a finite number, not {value!r}")
    try:
        struct.pack("<f", value)
    except OverflowError:
        raise InvalidArgumentError(f"the default of floats is a float32, which {value!r} does not fit into") from None
    return f"={float(value)!r}"


def FixedLenFeature(shape: Sequence[int], dtype: int, default_value: Any = None) -> Feature:
    """Describes a feature with one value for each element of the shape. A string, whose shape is () or (1,), is read as bytes (uint8). A record without the
    feature gets the default; without a default, the sample is bad."""
    return Feature(dtype, shape, default_value, False)


def VarLenFeature(*args: Any, **kwargs: Any) -> Feature:
    """Describes a feature whose number of values (or of groups of the partial shape) differs between records. A record without the feature has 0
    values.

    The arguments are (dtype, default_value) or (partial_shape, dtype, default_value).
    """
    names = ["dtype", "default_value"] if len(args) < 3 and not (args and isinstance(args[0], (list, tuple))) else []
    names = names if "partial_shape" not in kwargs and names else ["partial_shape", "dtype", "default_value"]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if len(args) > len(names) or "dtype" not in given or not given.keys() <= {"partial_shape", "dtype", "default_value"}:
        raise InvalidArgumentError("VarLenFeature takes (dtype, default_value) or (partial_shape, dtype, default_value)")
    return Feature(given["dtype"], given.get("partial_shape", ()), given.get("default_value"), True)


def as_arguments(op: Op, kwargs: dict[str, Any]) -> tuple[dict[str, Any], list[str] | None]:
    """Replaces the argument `features`, if it is a dict, by the lists feature_names and features. Returns the arguments and the features' names. Without such a
    dict, returns the arguments unchanged, and None."""
    features = kwargs.get("features")
    if "feature_names" not in op.by_name or not isinstance(features, Mapping):
        return kwargs, None
    for name, feature in features.items():
        if not isinstance(feature, Feature):
            raise InvalidArgumentError(
                f'{op.name}: feature "{name}" is made by stoker.tfrecord\'s FixedLenFeature or VarLenFeature, not {type(feature).__name__}'
            )
    names = [str(name) for name in features]
    return {**kwargs, "feature_names": names, "features": [f._text for f in features.values()]}, names
