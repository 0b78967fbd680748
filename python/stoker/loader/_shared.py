# SPDX-License-Identifier: Apache-2.0
"""What calls of a Dataset share: memory that it may write to again."""

from __future__ import annotations

import sys
from typing import Any


def owned(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A converted sample whose memory nobody else writes to.

    Samples are fetched batches ahead, and a Dataset may fill a buffer of its own again for each of them: what it can still write to is copied now. An array
    that it made for this sample alone is not. The caller has let go of the sample as it came, so that references beside the row's are the Dataset's.
    """
    return tuple([_copy(row[number]) if _may_change(row, number) else row[number] for number in range(len(row))])


def _may_change(row: tuple[Any, ...], number: int) -> bool:
    """Whether somebody else may write to the memory of a part. What can only be read is not written to by anybody."""
    import numpy as np

    held = sys.getrefcount(row[number]) > 2  # the row's reference and the argument's
    part = row[number]
    if isinstance(part, np.ndarray):
        while isinstance(part.base, np.ndarray):
            held = held or sys.getrefcount(part.base) > 2  # the view's and the argument's
            part = part.base
        return bool(part.flags.writeable and (held or part.base is not None))
    if isinstance(part, memoryview):
        return not part.readonly
    return held if isinstance(part, bytearray) else hasattr(part, "permute")  # a tensor does not tell who else holds its memory


def _copy(part: Any) -> Any:
    import numpy as np

    if isinstance(part, (bytearray, memoryview)):
        return bytes(part)
    return np.array(part, order="C") if isinstance(part, np.ndarray) else part.detach().clone()
