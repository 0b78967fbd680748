# SPDX-License-Identifier: Apache-2.0
"""Targets beside images: whole numbers travel through the pipeline; other ones of a list of files stand in a table that labels point into."""

from __future__ import annotations

import numbers
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from stoker.errors import InvalidArgumentError


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) or (getattr(value, "ndim", None) == 0 and hasattr(value, "__index__") and _indexes(value))


def _indexes(value: Any) -> bool:
    try:
        value.__index__()
    except TypeError:
        return False
    return True


def of_list(targets: Sequence[Any]) -> tuple[array[int], Callable[[Any], Any] | None]:
    """Labels for the reader, and what makes the targets of a batch of labels; None: they are the labels.

    Whole numbers are int64; numbers with a fraction float32; vectors and arrays of one shape tensors (N, ...); strings lists of str.
    """
    if all(_is_whole(t) and -(2**31) <= int(t) < 2**31 for t in targets):
        return array("q", (int(t) for t in targets)), None
    return array("q", range(len(targets))), table(targets)


def table(targets: Sequence[Any]) -> Callable[[Any], Any]:
    """What makes the targets of a batch of their numbers."""
    if all(isinstance(t, str) for t in targets):
        return lambda rows: [targets[i] for i in rows.tolist()]
    return _Table(_numbers(targets))


def _numbers(targets: Sequence[Any]) -> Any:
    """All targets as one NumPy array: int64 or float32."""
    import numpy as np

    try:
        table = np.asarray([np.asarray(t) for t in targets])
    except ValueError:
        table = np.empty(0, object)
    if table.dtype == np.uint64 and table.max(initial=0) >= 2**63:
        table = np.empty(0, object)
    if table.dtype.kind not in "iufb":
        raise InvalidArgumentError(
            "targets of a list of files are whole numbers, floats, vectors of one length, or strings, the same for all files, and fit into 64 bits; "
            "a Dataset can give others"
        )
    return table.astype(np.float32 if table.dtype.kind == "f" else np.int64)


class _Table:
    """Maps labels to targets, on the device where the labels are."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows
        self.tensor: Any = None

    def __call__(self, labels: Any) -> Any:
        if self.tensor is None:
            import torch

            self.tensor = torch.from_numpy(self.rows).to(labels.device)
        return self.tensor[labels]


def whole(value: int, number: int) -> Any:
    """A whole number of a Dataset's sample as int64."""
    import numpy as np

    if not -(2**63) <= value < 2**63:
        raise OverflowError(f"the dataset gave {value} as target {number}: whole numbers are int64")
    return np.asarray(value, np.int64)


def text(value: str) -> Any:
    """A string as the pipeline carries it: the bytes of its UTF-8 and one more, since a tensor must not be empty."""
    import numpy as np

    return np.frombuffer(value.encode() + b"\0", np.uint8)


def texts(values: Any) -> list[str]:
    """What `text` made, of a batch: a tensor, or a list of them."""
    return [bytes(v.reshape(-1).tolist()[:-1]).decode() for v in values]  # one of empty strings alone has lost its dimension
