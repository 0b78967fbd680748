# SPDX-License-Identifier: Apache-2.0
"""What calls of a Dataset share: memory that it may write to again, and open files."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from typing import Any

from stoker._where import notice


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


class Watch:
    """Finds out from the first samples whether a Dataset fills arrays again that it gave before. Calls that ran at once would do so before they are copied:
    one runs after the other until it is known, and from then on if it does.

    count: samples that tell it. alone: whether calls may not run at once.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.alone = False
        self._given: dict[int, tuple[Any, bytes]] | None = (
            None  # by address: the array, which keeps it from others, and its content; None: nothing is watched
        )

    def begin(self, row: tuple[Any, ...], made: tuple[Any, ...]) -> None:
        """Of the first sample as it came, and as it was made one's own. A Dataset that makes new arrays is not watched."""
        if self.count and any(_is_kept(part, own) for part, own in zip(row, made, strict=True)):
            self.alone, self._given = True, {}
            self.look(row, made)

    def look(self, row: tuple[Any, ...], made: tuple[Any, ...]) -> None:
        """The same of another sample, while no other call runs."""
        if self._given is None:
            return
        for part, own in zip(row, made, strict=True):
            if _is_kept(part, own):
                now = own.tobytes()
                _, before = self._given.setdefault(part.__array_interface__["data"][0], (part, now))
                if before != now:
                    self._given, self.count = None, 0
                    notice(
                        "the dataset fills arrays again that it gave before, and so it is called one at a time: calls run at once where each gives an array "
                        "of its own"
                    )
                    return
        self.count -= 1
        if self.count == 0:
            self.alone, self._given = False, None


def _is_kept(part: Any, own: Any) -> bool:
    """Whether a part is an array that was copied since the Dataset keeps it. What a tensor made for this sample alone became is copied too."""
    if own is part or not hasattr(part, "__array_interface__"):
        return False
    while hasattr(part.base, "__array_interface__"):
        part = part.base
    references = getattr(getattr(sys.modules.get("torch"), "_C", None), "_storage_Use_Count", None)
    if references is None or not hasattr(part.base, "untyped_storage"):
        return True
    return bool(references(part.base.untyped_storage()._cdata) > 2)  # the tensor's and the argument's


def _copy(part: Any) -> Any:
    import numpy as np

    if isinstance(part, (bytearray, memoryview)):
        return bytes(part)
    return np.array(part, order="C") if isinstance(part, np.ndarray) else part.detach().clone()


def open_file(dataset: Any, forked: bool) -> str | None:
    """The attribute that holds an open file, as "Records.file", also of Datasets inside a Subset or ConcatDataset; None: there is none. Between one call's seek
    and its read another call could move the file's position. forked: calls are made in forked processes, which share it too, and not on threads."""
    for part in _parts(dataset):
        for name, value in getattr(part, "__dict__", {}).items():
            if any(_moves(held, forked) for held in (value, _first(value))):
                return f"{type(part).__name__}.{name}"
    return None


def _parts(dataset: Any) -> Iterator[Any]:
    """The Dataset and those inside it."""
    found: list[Any] = [dataset]
    for part in found:
        yield part
        inner = getattr(part, "__dict__", {})
        within = inner.get("datasets")
        within = [inner.get("dataset"), *(within if isinstance(within, (list, tuple)) else ())]
        found += [other for other in within if other is not None and not any(other is known for known in found)]


def _first(value: Any) -> Any:
    """Of several files in a list or dict."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return next(iter(values), None)


def _moves(value: Any, forked: bool) -> bool:
    """Whether this is an open file whose position a call moves under another one."""
    if isinstance(value, io.IOBase):
        return not value.closed and value.readable() and not (forked and isinstance(value, io.BytesIO))
    zipfile, tarfile = sys.modules.get("zipfile"), sys.modules.get("tarfile")
    if zipfile is not None and isinstance(value, zipfile.ZipFile):
        return forked and value.fp is not None  # on threads it guards its position itself
    return tarfile is not None and isinstance(value, tarfile.TarFile) and not value.closed
