# SPDX-License-Identifier: Apache-2.0
"""What calls of a Dataset share: memory that it may write to again, and open files."""

from __future__ import annotations

import io
import sys
import threading
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
    """Finds out from the first samples whether a Dataset fills memory again that it gave before. Until that is known, and from then on if it does, what it gives
    is copied. Calls run one after the other where several could fill the same memory before it is copied. To copy all samples of Datasets that only keep what
    they give, such as `self.X[i]`, would take a third of their rate.

    count: samples that tell it. copies: whether samples are copied. alone: whether calls run one after the other.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.copies = self.alone = False
        self._lock = threading.Lock()
        self._given: dict[int, tuple[Any, bytes]] = {}  # by address: what lies there, which keeps it from others, and its content

    def begin(self, row: tuple[Any, ...], made: tuple[Any, ...]) -> None:
        """Of the first sample as it came, and as it was made one's own."""
        parts = [(part, own) for part, own in zip(row, made, strict=True) if _is_watched(part, own)]
        if self.count and parts:
            self.copies, self.alone = True, any(_is_kept(part) for part, _ in parts)
            self.look(row, made)

    def look(self, row: tuple[Any, ...], made: tuple[Any, ...]) -> None:
        """The same of another sample."""
        with self._lock:
            if self.count == 0:
                return
            if any(self._is_filled_again(part, own) for part, own in zip(row, made, strict=True) if _is_watched(part, own)):
                self.count, self.copies, self.alone = 0, True, True
                notice(
                    "the dataset fills memory again that it gave before: it is called one at a time, and its samples are copied. Calls run at once where "
                    "each gives an array of its own"
                )
            else:
                self.count -= 1
                if self.count == 0:
                    self.copies = self.alone = False
            if self.count == 0:
                self._given.clear()

    def _is_filled_again(self, part: Any, own: Any) -> bool:
        now = own if isinstance(own, bytes) else own.tobytes()
        return bool(self._given.setdefault(_address(part), (part, now))[1] != now)


def _is_watched(part: Any, own: Any) -> bool:
    """Whether a part was copied, and tells where it lies."""
    return own is not part and (hasattr(part, "__array_interface__") or (isinstance(part, (bytearray, memoryview)) and len(part) > 0))


def _address(part: Any) -> int:
    import numpy as np

    array = part if isinstance(part, np.ndarray) else np.frombuffer(part, np.uint8)
    return int(array.__array_interface__["data"][0])


def _is_kept(part: Any) -> bool:
    """Whether the Dataset keeps what a part lies in. What a tensor made for this sample alone became is not kept, and over memory of others it does not tell."""
    while hasattr(getattr(part, "base", None), "__array_interface__"):
        part = part.base
    references = getattr(getattr(sys.modules.get("torch"), "_C", None), "_storage_Use_Count", None)
    if references is None or not hasattr(getattr(part, "base", None), "untyped_storage"):
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
