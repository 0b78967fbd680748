# SPDX-License-Identifier: Apache-2.0
"""Protects the samples of a Dataset from its later calls: copies memory that the Dataset may write to again, and finds open files."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from typing import Any

from stoker._where import notice


def owned(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns a converted sample whose memory the Dataset cannot change.

    Samples are fetched several batches ahead, and a Dataset may write all of them into one buffer. So parts to which the Dataset can still write are copied. An
    array that was made only for this sample is not copied. The caller must have dropped the original sample: every reference from outside of `row` then counts
    as the Dataset's.
    """
    return tuple([_copy(row[number]) if _may_change(row, number) else row[number] for number in range(len(row))])


def _may_change(row: tuple[Any, ...], number: int) -> bool:
    """Returns whether the Dataset may still write to the memory of row[number]. Read-only memory counts as safe, a tensor never does."""
    import numpy as np

    referenced = sys.getrefcount(row[number]) > 2  # the row and the call's argument hold one reference each
    part = row[number]
    if isinstance(part, np.ndarray):
        while isinstance(part.base, np.ndarray):
            referenced = referenced or sys.getrefcount(part.base) > 2  # the view and the call's argument hold one reference each
            part = part.base
        return bool(part.flags.writeable and (referenced or part.base is not None))
    if isinstance(part, memoryview):
        return not part.readonly
    # A tensor is always copied, because its references do not include other tensors that share its memory.
    return referenced if isinstance(part, bytearray) else hasattr(part, "permute")


class ReuseDetector:
    """Finds out from the first samples whether a Dataset reuses the memory of earlier samples. Until this is known, samples are copied, and calls run one at a
    time if another call could overwrite a sample before it is copied. Afterwards samples are copied only if the Dataset reuses memory: copying always would
    cost a Dataset that returns parts of its own data, such as `self.X[i]`, a third of its speed.

    count: the number of samples that are still to be checked. copies: whether samples are copied. serial: whether only one call may run at a time.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.copies = self.serial = False
        self._closed = False
        self._lock = threading.Lock()
        # By address: the first part at this address, and a copy of its bytes. The reference to the part keeps its memory from being freed and reused.
        self._given: dict[int, tuple[Any, bytes]] = {}

    def begin(self, row: tuple[Any, ...], made: tuple[Any, ...]) -> None:
        """Starts to watch, with the first sample. row: the parts of a sample. made: the result of owned(row), in which some parts are copies."""
        self._closed = False
        parts = [(part, own) for part, own in zip(row, made, strict=True) if _is_watched(part, own)]
        if self.count and parts:
            self.copies, self.serial = True, any(_is_kept(part) for part, _ in parts)
            self.check(row, made)

    def check(self, row: tuple[Any, ...], made: tuple[Any, ...]) -> None:
        """Checks whether a sample lies in the memory of an earlier one and has other contents. If so, all later samples are copied, and the data set is called
        one sample at a time. The arguments are those of `begin`."""
        with self._lock:
            if self.count == 0 or self._closed:
                return
            if any(self._is_filled_again(part, own) for part, own in zip(row, made, strict=True) if _is_watched(part, own)):
                self.count, self.copies, self.serial = 0, True, True
                notice(
                    "the dataset returns the same memory again with new contents: it is called one at a time, and its samples are copied. If each call "
                    "returns a new array, several calls run at the same time"
                )
            else:
                self.count -= 1
                if self.count == 0:
                    self.copies = self.serial = False
            if self.count == 0:
                self._given.clear()

    def forget(self) -> None:
        """Drops the samples that are kept for comparison, and lets calls that are still running add none. A sample can keep much memory alive: a view of one
        row keeps the whole row group of its table."""
        with self._lock:
            self._closed = True
            self._given.clear()

    def _is_filled_again(self, part: Any, own: Any) -> bool:
        now = own if isinstance(own, bytes) else own.tobytes()
        return bool(self._given.setdefault(_address(part), (part, now))[1] != now)


def _is_watched(part: Any, own: Any) -> bool:
    """Returns whether a part was copied, and has an address to compare."""
    return own is not part and (hasattr(part, "__array_interface__") or (isinstance(part, (bytearray, memoryview)) and len(part) > 0))


def _address(part: Any) -> int:
    import numpy as np

    array = part if isinstance(part, np.ndarray) else np.frombuffer(part, np.uint8)
    return int(array.__array_interface__["data"][0])


def _is_kept(part: Any) -> bool:
    """Returns whether the Dataset may still have a reference to a part's memory. The Dataset has none if the part was made from a tensor whose storage is not
    referenced elsewhere."""
    while hasattr(getattr(part, "base", None), "__array_interface__"):
        part = part.base
    references = getattr(getattr(sys.modules.get("torch"), "_C", None), "_storage_Use_Count", None)
    if references is None or not hasattr(getattr(part, "base", None), "untyped_storage"):
        return True
    return bool(references(part.base.untyped_storage()._cdata) > 2)  # the tensor and the argument hold one reference each


def _copy(part: Any) -> Any:
    import numpy as np

    if isinstance(part, (bytearray, memoryview)):
        return bytes(part)
    return np.array(part, order="C") if isinstance(part, np.ndarray) else part.detach().clone()


def open_file(dataset: Any, forked: bool) -> str | None:
    """Returns the name of an attribute that holds an open file, such as "Records.file", or None. Also searches Datasets inside Subset and ConcatDataset. A call
    could move the file's position between the seek and the read of another call. forked: calls run in forked processes, which also share the position; False:
    they run on threads."""
    for part in _parts(dataset):
        for name, value in getattr(part, "__dict__", {}).items():
            if any(_moves(one, forked) for one in (value, _first(value))):
                return f"{type(part).__name__}.{name}"
    return None


def _parts(dataset: Any) -> Iterator[Any]:
    """Yields the Dataset, and the Datasets in its attributes `dataset` and `datasets`, at all depths."""
    found: list[Any] = [dataset]
    for part in found:
        yield part
        inner = getattr(part, "__dict__", {})
        within = inner.get("datasets")
        within = [inner.get("dataset"), *(within if isinstance(within, (list, tuple)) else ())]
        found += [other for other in within if other is not None and not any(other is known for known in found)]


def _first(value: Any) -> Any:
    """Returns the first value of a list, tuple or dict, which may hold several files; None for other values."""
    values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    return next(iter(values), None)


def _moves(value: Any, forked: bool) -> bool:
    """Returns whether a value is an open file whose position two calls at once would move."""
    if isinstance(value, io.IOBase):
        return not value.closed and value.readable() and not (forked and isinstance(value, io.BytesIO))
    zipfile, tarfile = sys.modules.get("zipfile"), sys.modules.get("tarfile")
    if zipfile is not None and isinstance(value, zipfile.ZipFile):
        return forked and value.fp is not None  # ZipFile itself locks its position between threads
    return tarfile is not None and isinstance(value, tarfile.TarFile) and not value.closed
