# SPDX-License-Identifier: Apache-2.0
"""Finds out whether each rank has only a part of the data, which the Loader would divide among the ranks again. The ranks compare digests of a few samples."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from stoker._processes import Ended, Worker
from stoker._ranks import Meeting, Shard, together
from stoker.errors import InvalidArgumentError
from stoker.loader._random import random_numbers, same_generators
from stoker.loader.sources._fetch import sample_of

_SAMPLES = 4  # the most samples that are compared; they are spread over the data set
_UNKNOWN = ""  # digest of a part that differs from call to call, or that has no digest


def refuse_divided(dataset: Any, size: int | None, shard: Shard, context: Any) -> None:
    """Raises InvalidArgumentError on all ranks if dataset[i] differs between them for one of a few indices. Parts that change from call to call, such as
    augmented images, are not compared. Does nothing if the ranks cannot communicate (no torch.distributed), or if the size is not known. context: the
    multiprocessing context if the Dataset must be called in another process, else None."""
    group = together(shard)
    if group is None or not size:
        return
    ids = sorted({k * (size - 1) // (_SAMPLES - 1) for k in range(_SAMPLES)})
    mine = _digests(dataset, ids) if context is None else _in_process(context, dataset, ids)
    meeting = Meeting(group)
    meeting.say("their first samples", {"digests": json.dumps(mine)})
    received = [json.loads(text) for text in meeting.receive("their first samples", "digests", range(shard.world))]
    for position, index in enumerate(ids):
        for parts in zip(*(digests[position] for digests in received), strict=False):
            if _UNKNOWN in parts or len(set(parts)) == 1:
                continue
            other = next(rank for rank, part in enumerate(parts) if part != parts[0])
            raise InvalidArgumentError(
                f"Loader: sample {index} of the data set is another one on rank 0 than on rank {other}, so that each rank seems to have a part of the data "
                "already, and the Loader would divide the parts again: give the whole data set on all ranks, or shard=None to read all of this rank's part. "
                f"shard=({shard.rank}, {shard.world}) divides what each rank has without this check"
            )


def _in_process(context: Any, dataset: Any, ids: list[int]) -> list[list[str]]:
    """Calls _digests in a process that ends afterwards, because a Dataset may open files that processes cannot share. Returns an empty list for each id if
    that process dies."""
    worker = Worker(context, "stoker-dataset", "python_workers", True, _begin, dataset)
    try:
        found: list[list[str]] = worker.call(ids)
        return found
    except Ended:
        return [[] for _ in ids]  # not reported here: fetching the first batch raises the error
    finally:
        worker.terminate()
        Worker.end([worker], "python_workers")


def _begin(dataset: Any) -> Callable[[list[int]], list[list[str]]]:
    return lambda ids: _digests(dataset, ids)


def _digests(dataset: Any, ids: list[int]) -> list[list[str]]:
    with same_generators():
        return [_of_sample(dataset, index) for index in ids]


def _of_sample(dataset: Any, index: int) -> list[str]:
    """Returns a digest of each part of a sample. The sample is fetched twice; a part that differs gets _UNKNOWN. Returns [] if the sample cannot be fetched."""
    try:
        first, second = (_parts(dataset, index, turn) for turn in (0, 1))
    except Exception:  # not reported here: fetching the first batch raises the error
        return []
    return [a if a == b else _UNKNOWN for a, b in zip(first, second, strict=False)]


def _parts(dataset: Any, index: int, turn: int) -> list[str]:
    with random_numbers((turn, 0, index, 0)):
        item = sample_of(dataset, index)
    if isinstance(item, Mapping):
        item = [item[name] for name in sorted(item, key=str)]
    elif hasattr(type(item), "__dataclass_fields__"):
        item = [getattr(item, name) for name in item.__dataclass_fields__]
    return [_digest(part) for part in (item if isinstance(item, (list, tuple)) else [item])]


def _digest(value: Any) -> str:
    found = hashlib.blake2b(digest_size=8)
    try:
        _add(found, value)
    except Exception:  # the value has a type that _add does not support
        return _UNKNOWN
    return found.hexdigest()


def _add(found: Any, value: Any) -> None:
    if isinstance(value, os.PathLike) or (isinstance(value, str) and os.path.isabs(value)):
        # Only the last two components of a path are compared, because the files may lie in another folder on each rank.
        value = os.path.join(*os.fsdecode(value).split(os.sep)[-2:])
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    if isinstance(value, Mapping):
        value = [(name, value[name]) for name in sorted(value, key=str)]
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        found.update(repr(value).encode())
    elif isinstance(value, (list, tuple)):
        for part in value:
            _add(found, part)
    elif hasattr(value, "tobytes"):
        found.update(f"{getattr(value, 'shape', getattr(value, 'size', ''))}".encode() + value.tobytes())
    else:
        raise TypeError(type(value).__name__)
