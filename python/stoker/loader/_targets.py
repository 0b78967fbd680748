# SPDX-License-Identifier: Apache-2.0
"""Converts targets of samples to arrays. If the targets of a list of files are whole numbers of 32 bits, they are the reader's labels. Otherwise they are
stored in a table, and the reader's label is an index into it."""

from __future__ import annotations

import numbers
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from stoker._arrays import TORCH, as_buffer, narrowed, refuse_masked
from stoker.errors import InvalidArgumentError

_BYTES = (bytes, bytearray, memoryview)

# Advice for messages about values of these types, by the name of the type.
_ADVICE = {
    "Decimal": "convert it, as by float(value) or str(value)",
    "Fraction": "convert it, as by float(value)",
    "datetime": "convert it, as by value.timestamp() or value.isoformat()",
    "date": "convert it, as by value.toordinal() or value.isoformat()",
    "timedelta": "convert it, as by value.total_seconds()",
    "datetime64": "convert it to whole numbers, as by value.astype('int64')",
    "complex": "give both of its parts, as by [value.real, value.imag]",
}


def _is_whole(value: Any) -> bool:
    if isinstance(value, numbers.Integral):
        return getattr(getattr(value, "dtype", None), "kind", "i") != "m"  # NumPy calls its timedelta64 an integer
    return getattr(value, "ndim", None) == 0 and hasattr(value, "__index__") and _indexes(value)


def _indexes(value: Any) -> bool:
    try:
        value.__index__()
    except TypeError:
        return False
    return True


def of_list(targets: Sequence[Any]) -> tuple[array[int], Callable[[Any], Any] | None]:
    """Returns labels for the reader, and a function from a batch of labels to the batch's targets, or None if the labels are the targets.

    In the results of the function, whole numbers are int64 and other numbers float32. Vectors and arrays of one shape make a tensor (N, ...), strings a list.
    """
    if all(_is_whole(t) and -(2**31) <= int(t) < 2**31 for t in targets):
        return array("q", (int(t) for t in targets)), None
    return array("q", range(len(targets))), table(targets)


def table(targets: Sequence[Any]) -> Callable[[Any], Any]:
    """Returns a function from a tensor of indices to the targets with these indices: a list of strings, or a tensor. Raises InvalidArgumentError for targets
    that differ in shape, or are neither strings nor numbers."""
    if all(isinstance(t, str) for t in targets):
        return lambda rows: [targets[i] for i in rows.tolist()]
    return _Table(_numbers(targets))


def shape_of(function: Callable[[Any], Any]) -> tuple[int, ...]:
    """Returns the shape of one target of a function that table() returned; () for strings."""
    return tuple(function.rows.shape[1:]) if isinstance(function, _Table) else ()


def _numbers(targets: Sequence[Any]) -> Any:
    """Converts all targets to one NumPy array of int64 or float32. Raises InvalidArgumentError if they differ in shape or are not numbers."""
    import numpy as np

    try:
        table = np.asarray([np.asarray(known(t)) for t in targets])
    except ValueError:
        table = np.empty(0, object)
    if table.dtype.kind not in "iufb" and not any(beyond_int64(t) for t in targets):
        raise InvalidArgumentError(
            "targets of a list of files are whole numbers, floats, vectors of one length, or strings, the same for all files; a Dataset can give others"
        )
    return in_common_type(table, targets, "targets of a list of files")


def known(target: Any) -> Any:
    """Returns the target as float32 if it has torch's bfloat16, which NumPy lacks; otherwise unchanged."""
    return target.detach().float() if _name(getattr(target, "dtype", "")) == "bfloat16" else target


def in_common_type(table: Any, targets: Sequence[Any], what: str) -> Any:
    """Converts the array `table`, which NumPy made from the targets of all samples, to int64 or float32. Raises InvalidArgumentError for a number that does not
    fit. what: the targets' name in messages."""
    import numpy as np

    for target in targets if _may_be_beyond(table) else ():
        if beyond_int64(target):
            raise InvalidArgumentError(f"{what}: whole numbers are int64 (64 bits), and {_first_beyond(target)} does not fit: give strings")
    try:
        return narrowed(table, np.float32) if table.dtype.kind == "f" else table.astype(np.int64, copy=False)
    except OverflowError as e:
        raise InvalidArgumentError(
            f"{what}: {e}: scale the targets, or let a Dataset give arrays of float64, as by numpy.array([value])"
        ) from None


def _may_be_beyond(table: Any) -> bool:
    """Returns whether NumPy may have made the array from whole numbers beyond int64: it makes uint64, floats or objects of them."""
    import numpy as np

    if table.dtype == object:
        return True
    if not table.size or table.dtype not in (np.uint64, np.float64):
        return False
    return bool(table.max() >= 2**63 or table.min() < -(2**63))


def beyond_int64(values: Any) -> bool:
    """Returns whether a number, an array or nested lists hold only whole numbers, and at least one is beyond int64."""
    return _first_beyond(values) is not None


def _first_beyond(values: Any) -> int | None:
    """Returns the first whole number beyond int64; None if there is none, or if a value is not a whole number."""
    import numpy as np

    if hasattr(values, "permute"):
        values = values.detach().cpu()
        values = values.numpy() if _name(values.dtype) in TORCH else 0
    try:
        found = np.asarray(values, object).ravel().tolist()
    except ValueError:  # rows of different lengths
        return None
    if not all(_is_whole(v) for v in found):
        return None
    return next((int(v) for v in found if not -(2**63) <= v < 2**63), None)


class _Table:
    """Maps labels to targets, on the labels' device. rows: an array whose row k is the target of label k."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.tensor: Any = None

    def __call__(self, labels: Any) -> Any:
        if self.tensor is None:
            import torch

            self.tensor = torch.from_numpy(self.rows).to(labels.device)
        return self.tensor[labels]


class Target:
    """Converts one target of a Dataset's samples to arrays; returns strings unchanged, which boxes and points cannot be. Whole numbers become int64, as in
    torch's default_collate; Python floats, NumPy's float scalars of 64 bits or more, and lists of floats become float32. Arrays and tensors keep their type,
    but floats of more than 64 bits become float64. All values must have the type of the first sample, except that Python's whole numbers become floats if the
    first sample has floats. Raises an error for a value of another type, and for a number that does not fit into the type that it gets.

    what: the target's name in messages. width: the number of coordinates in a row of boxes or points, which may have no rows; None for other
    targets.
    """

    def __init__(self, what: str, width: int | None) -> None:
        self.what, self.width = what, width
        self.like = ""  # type of the first value that has rows, or "str"; "" before that
        self.rest: tuple[int, ...] = ()  # extents of the first value that has rows, without the first extent

    def __call__(self, value: Any) -> Any:
        if isinstance(value, str):
            if self.width is not None:
                raise TypeError(self._refused("a string"))
            self.like = self.like or "str"
            return value if self.like == "str" else self._differs("str")
        made = self._array(value)
        if self.width and made.shape in ((0,), (0, 0)):  # a table whose lists of coordinates may have any length gives (0, 0)
            made = made.reshape(0, self.width)
        dtype, without_rows = _name(made.dtype), bool(made.shape) and made.shape[0] == 0
        if not self.like and not without_rows:  # a value without rows, such as [], has no type
            self.like, self.rest = dtype, tuple(made.shape[1:])
        if without_rows and self.like:
            return self.without_rows(made)
        if dtype == (self.like or dtype):
            return made
        plain = isinstance(value, (bool, int, list, tuple))
        return self._narrowed(made, self.like) if plain and dtype == "int64" and self.like.startswith("float") else self._differs(dtype)

    def without_rows(self, made: Any) -> Any:
        """Converts a value without rows to the type of the values that have rows. One of these must have come before, so that the type is known. Raises
        TypeError if they are strings."""
        if self.like == "str":
            return self._differs(_name(made.dtype))
        return made if _name(made.dtype) == self.like and made.ndim > 1 else _zeros((0, *self.rest), self.like)

    def settle(self, made: Any) -> None:
        """Takes the type of all values from a converted value without rows. Call if no sample has a value with rows."""
        self.like, self.rest = _name(made.dtype), tuple(made.shape[1:])

    def _differs(self, dtype: str) -> Any:
        if "str" in (dtype, self.like):
            raise TypeError(
                f"the dataset gave strings as {self.what} of some samples, and other things of others: give one type for all samples"
            )
        both = {dtype, self.like}
        advice = (
            "float(value)"
            if both == {"int64", "float32"}
            else f"numpy.asarray(value, numpy.{'float32' if 'float' in ''.join(both) else 'int64'})"
        )
        raise TypeError(
            f"the dataset gave {dtype} as {self.what}, and {self.like} in its first sample: give all of one type, as by {advice}"
        )

    def _array(self, value: Any) -> Any:
        import numpy as np

        if isinstance(value, (bool, int)) and self.width is None:
            return whole(value, self.what)
        refuse_masked(value)
        if isinstance(value, (float, np.float64, np.longdouble)):
            return self._narrowed(np.asarray(value), np.float32)
        if isinstance(value, (list, tuple)):
            return self._of_list(value)
        if not isinstance(value, (np.ndarray, np.generic)) and not hasattr(value, "permute"):
            if not any(hasattr(value, a) for a in ("__array_interface__", "__dlpack__", "as_cpu")) and not isinstance(value, _BYTES):
                raise TypeError(self._refused(type(value).__name__, type(value).__name__))
            value = np.asarray(as_buffer(value)) if not isinstance(value, _BYTES) else np.frombuffer(value, np.uint8)
        dtype = value.dtype
        if not isinstance(dtype, np.dtype):
            self._check_tensor(value)
        elif dtype.kind not in "biuf":
            raise TypeError(self._refused(str(dtype), {"c": "complex", "M": "datetime64", "m": "datetime64"}.get(dtype.kind, "")))
        elif dtype.kind == "f" and dtype.itemsize > 8:
            value = self._narrowed(value, np.float64)
        if str(dtype).endswith("uint64") and tuple(value.shape) in ((), (1,)):
            value = (
                value if isinstance(dtype, np.dtype) else value.detach().cpu().numpy()
            )  # torch's own conversion to int fails above int64
            return whole(int(value.reshape(())), self.what).reshape(tuple(value.shape))
        return value

    def _narrowed(self, value: Any, dtype: Any) -> Any:
        """Converts floats to a narrower type. Raises OverflowError for a finite number that would become infinite."""
        try:
            return narrowed(value, dtype)
        except OverflowError as e:
            advice = (
                "scale the values"
                if value.dtype.itemsize > 8
                else "give an array of float64 in each sample, as by numpy.array([value]), or scale it"
            )
            raise OverflowError(f"{self.what} of the dataset: {e}: {advice}") from None

    def _check_tensor(self, value: Any) -> None:
        if str(value.layout) != "torch.strided":
            raise TypeError(f"the dataset gave a tensor of the layout {value.layout} as {self.what}: give a dense one, as by .to_dense()")
        if _name(value.dtype) not in TORCH:
            raise TypeError(f"the dataset gave {value.dtype} as {self.what}, which NumPy does not have: convert it, as by .float()")

    def _of_list(self, values: Any) -> Any:
        import numpy as np

        try:
            made = np.asarray(values)
        except (ValueError, TypeError):  # rows of different lengths, or values that are not numbers
            made = np.empty(0, object)
        if _may_be_beyond(made) and (found := _first_beyond(values)) is not None:
            whole(found, self.what)  # raises OverflowError
        if made.dtype.kind not in "biuf":
            raise TypeError(
                self._refused(
                    f"a {type(values).__name__} of unlike things" if made.dtype == object else f"a {type(values).__name__} of {made.dtype}"
                )
            )
        if self.width is not None or made.dtype == np.float64:
            return self._narrowed(made, np.float32)
        return made

    def _refused(self, given: str, type: str = "") -> str:
        """Returns the message about a value that cannot be in a batch. type: its type's name, for _ADVICE."""
        if type in _ADVICE:
            return f"the dataset gave {given} as {self.what}, which a tensor does not hold: {_ADVICE[type]}, or leave its name out of fields=(...)"
        if self.width is not None:
            return (
                f"the dataset gave {given} as {self.what}, and {'boxes' if self.width == 4 else 'points'} are an array or lists of numbers, {self.width} a row: "
                "give these as a part of their own, or the kind None to a field that does not follow the image"
            )
        return (
            f"the dataset gave {given} as {self.what}: it is a number, a string, or an array or tensor of numbers. Several targets are "
            "parts of their own, (image, *targets) or a dict; of those that you do not need, leave the names out of fields=(...)"
        )


def of_one_type(values: list[Any]) -> list[Any]:
    """Returns the values of a batch. Empty lists, which have no type, become empty arrays of the other values' type."""
    bare = [getattr(v, "shape", None) == (0,) for v in values]
    if not any(bare) or all(bare):
        return values
    like = next(v for v, empty in zip(values, bare, strict=True) if not empty)
    rest = _zeros((0, *like.shape[1:]), _name(like.dtype))
    return [rest if empty else v for v, empty in zip(values, bare, strict=True)]


def _name(dtype: Any) -> str:
    return str(dtype.newbyteorder("=") if hasattr(dtype, "newbyteorder") else dtype).removeprefix("torch.")


def _zeros(shape: tuple[int, ...], dtype: str) -> Any:
    import numpy as np

    return np.zeros(shape, dtype)


def whole(value: int, what: str) -> Any:
    """Returns a whole number as an int64 array. Raises OverflowError if it does not fit. what: the target's name in the message."""
    import numpy as np

    if not -(2**63) <= value < 2**63:
        raise OverflowError(
            f"the dataset gave {value} as {what}: whole numbers are int64, which does not hold it: give a string, as by str(value)"
        )
    return np.asarray(value, np.int64)


def text(value: str) -> Any:
    """Encodes a string as an array of its UTF-8 bytes and a zero byte, because a tensor must not be empty. Keeps surrogates, which Python uses in names of
    files that are not UTF-8."""
    import numpy as np

    return np.frombuffer(value.encode(errors="surrogatepass") + b"\0", np.uint8)


def texts(values: Any) -> list[str]:
    """Returns the strings that `text` encoded. values: a tensor with a row for each string, or a list of tensors."""
    import numpy as np

    # The last byte is the zero of `text`. A tensor of a batch with only empty strings has lost its last dimension.
    return [np.asarray(v.cpu() if hasattr(v, "cpu") else v).tobytes()[:-1].decode(errors="surrogatepass") for v in values]
