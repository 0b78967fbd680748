# SPDX-License-Identifier: Apache-2.0
"""Which part of the data this process reads."""

from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple

from stoker.errors import InvalidArgumentError


class Shard(NamedTuple):
    """Rank `rank` of `world`."""

    rank: int
    world: int


def process_group() -> Any:
    """torch.distributed where it is in use, else None. Does not import torch."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed
    return None


def _from_environment() -> Shard:
    try:
        return Shard(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))
    except ValueError:
        raise InvalidArgumentError(
            "RANK and WORLD_SIZE in the environment are not whole numbers; shard=None or (i, n) says it plainly"
        ) from None


def resolve(shard: Any) -> Shard:
    """ "auto": an initialised process group, else RANK and WORLD_SIZE; None: everything; (i, n); a DeviceMesh of one dimension."""
    if shard is None:
        return Shard(0, 1)
    if shard == "auto":
        group = process_group()
        found = Shard(group.get_rank(), group.get_world_size()) if group else _from_environment()
    elif isinstance(shard, (tuple, list)) and len(shard) == 2:
        found = Shard(int(shard[0]), int(shard[1]))
    elif hasattr(shard, "get_local_rank") and hasattr(shard, "ndim"):
        if shard.ndim != 1:
            raise InvalidArgumentError(
                f"shard is a DeviceMesh of {shard.ndim} dimensions: give the one that data is divided along, as mesh['dp']"
            )
        found = Shard(shard.get_local_rank(), shard.size())
    else:
        raise InvalidArgumentError(f"shard is 'auto', None, (i, n) or a DeviceMesh, not {shard!r}")
    if not 0 <= found.rank < found.world:
        raise InvalidArgumentError(f"shard: there is no rank {found.rank} of {found.world}; ranks go from 0 to n - 1")
    return found


def check_agreement(what: str, value: Any, shard: Shard) -> None:
    """All ranks of the process group must hold the same value: otherwise they would wait for each other later, for ever."""
    group = process_group()
    if group is None or shard.world == 1 or group.get_world_size() != shard.world:
        return
    values = [None] * shard.world
    group.all_gather_object(values, value)
    if any(v != value for v in values):
        told = ", ".join(f"rank {i}: {v}" for i, v in enumerate(values))
        raise InvalidArgumentError(f"the ranks differ in {what}: {told}")
