# SPDX-License-Identifier: Apache-2.0
"""Computes digests of data sets, by which a Loader notices that a saved state belongs to other data. The computation reads no files, and a data set has the
same digest after it was moved to another folder."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from typing import Any

_MOST = 4096  # a digest covers at most this many entries of a list, evenly spaced
_DEPTH = 8  # the most levels of data sets inside others that a digest covers


# By Dataset of the package `datasets`: its list of rows and its table, which are never changed in place, and its digest. Reading the rows takes milliseconds,
# and a program may save a state after each batch.
_digests_of_rows: weakref.WeakKeyDictionary[Any, tuple[Any, Any, str]] = weakref.WeakKeyDictionary()


def some_of(entries: Sequence[Any]) -> list[Any]:
    """Returns the entries of a list that its digest covers."""
    count = len(entries)
    return [entries[i] for i in range(count)] if count <= _MOST else [entries[i * count // _MOST] for i in range(_MOST)]


def digest_of_text(*parts: Any) -> str:
    import hashlib

    return hashlib.blake2b("\n".join(map(str, parts)).encode(errors="surrogateescape"), digest_size=8).hexdigest()


def _plain(value: Any) -> str:
    """Returns a text that is the same in each run: repr() for numbers (also NumPy's and torch's), texts, lists and None; the type's name for other values."""
    value = value.tolist() if hasattr(value, "tolist") else value
    return repr(value) if isinstance(value, (bool, int, float, str, type(None), list)) else type(value).__name__


def _folder_of_all(names: Sequence[str]) -> int:
    """Returns the length of the longest folder path, including its slash, with which all names begin."""
    first, last = min(names, default=""), max(names, default="")
    same = next((k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first.rfind("/", 0, same) + 1


def digest_of_pairs(paths: Sequence[Any], targets: Sequence[Any]) -> str:
    """Returns a digest of paths and their targets. If all paths are absolute or URIs, their longest common folder is left out."""
    names = [os.fsdecode(path) for path in some_of(paths)]
    cut = _folder_of_all(names) if all(n.startswith("/") or "://" in n for n in names) else 0
    return digest_of_text(len(paths), *(n[cut:] for n in names), *map(_plain, some_of(targets)))


def digest_of_targets(targets: Any, *facts: Any) -> str:
    """Returns a digest of a list of targets, which may be None, and of other facts about the data set."""
    return digest_of_text(*facts, *(() if targets is None else map(_plain, some_of(targets))))


def _digest_of_rows(dataset: Any) -> str:
    """Returns a digest of a Dataset of the package `datasets`: of the number of rows, the columns, and the list of rows that select, shuffle and filter leave.
    The fingerprint that `datasets` makes is not used, because it is random after map() of a function that cannot be pickled."""
    rows, table = dataset._indices, dataset.data
    hashable = type(dataset).__hash__ is not None
    kept = _digests_of_rows.get(dataset) if hashable else None
    if kept is not None and kept[0] is rows and kept[1] is table:
        return kept[2]
    columns = sorted(f"{name}: {table.schema.field(name).type}" for name in dataset.column_names)
    digest = digest_of_text(len(dataset), *columns, *([] if rows is None else _some_of_chunks(rows.column(0))))
    if hashable:
        _digests_of_rows[dataset] = rows, table, digest
    return digest


def _some_of_chunks(column: Any) -> list[Any]:
    """Returns some_of() the values of a column of pyarrow. A list of rows may have 100 000 chunks, and pyarrow searches all of them for each value."""
    found: list[Any] = []
    wanted, begin = some_of(range(len(column))), 0
    for chunk in column.iterchunks():
        end = begin + len(chunk)
        while len(found) < len(wanted) and wanted[len(found)] < end:
            found.append(chunk[wanted[len(found)] - begin].as_py())
        begin = end
    return found


def digest_of(dataset: Any, depth: int = 0) -> str | None:
    """Returns a digest of a Dataset; None for kinds that have none. For torchvision's folders, it covers the list of files, and for Datasets of the package
    `datasets` the list of rows. For torch's Subset and ConcatDataset, it includes the digests of the data sets inside. depth: the number of data sets around
    this one; a Subset or ConcatDataset inside _DEPTH others has no digest."""
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(dataset).__mro__}
    try:
        if "stoker.loader.sources._hub.HubTable" in kinds:
            return digest_of(dataset.source, depth)
        if "datasets.arrow_dataset.Dataset" in kinds:
            return _digest_of_rows(dataset)
        if "torchvision.datasets.folder.DatasetFolder" in kinds and len(dataset) == len(dataset.samples):
            return digest_of_pairs([path for path, _ in dataset.samples], [target for _, target in dataset.samples])
        if depth < _DEPTH and "torch.utils.data.dataset.Subset" in kinds:
            return digest_of_text(len(dataset.dataset), digest_of(dataset.dataset, depth + 1), *map(_plain, some_of(dataset.indices)))
        if depth < _DEPTH and "torch.utils.data.dataset.ConcatDataset" in kinds:
            return digest_of_text(*(f"{len(part)} {digest_of(part, depth + 1)}" for part in dataset.datasets))
    except (TypeError, ValueError, AttributeError, IndexError, KeyError):
        return None  # a subclass may keep other things under these names
    return None


def differ(was: int, is_now: int) -> str:
    """Returns a message about data that differ from those of a state. was, is_now: the numbers of samples; if these are equal, the digests differ."""
    if was != is_now:
        return f"the state is of a data set of {was} samples; this one has {is_now}"
    return f"the state is of another data set: it has as many samples ({was}), but other names, labels or indices, or another order"


WAY_OUT = "give the data of the run that was saved, or begin a new epoch of these without the state"
