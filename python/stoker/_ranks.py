# SPDX-License-Identifier: Apache-2.0
"""Finds the part of the data that this process reads, and checks that all ranks agree on it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from stoker import _numbers
from stoker._cores import usable_cores
from stoker.errors import ArgumentError, InvalidArgumentError, StalledError, StokerError


class Shard(NamedTuple):
    """The part of the data that one rank reads. rank: the number of the rank, from 0 on. world: the number of ranks."""

    rank: int
    world: int


def process_group() -> Any:
    """Returns torch.distributed if the program uses it, else None. Does not import torch."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed
    return None


def _from_environment() -> Shard:
    try:
        return Shard(int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1")))
    except ValueError:
        raise InvalidArgumentError(
            "RANK and WORLD_SIZE in the environment are not whole numbers: correct them, or give shard=None or shard=(i, n)"
        ) from None


def resolve(shard: Any) -> Shard:
    """Returns the Shard for a user's argument. "auto": the rank in an initialised process group, else RANK and WORLD_SIZE of the environment. None: all data.
    (i, n): rank i of n. A DeviceMesh of one dimension: the rank in that mesh."""
    if shard is None:
        return Shard(0, 1)
    if shard == "auto":
        group = process_group()
        found = Shard(group.get_rank(), group.get_world_size()) if group else _from_environment()
    elif isinstance(shard, (tuple, list)) and len(shard) == 2:
        try:
            found = Shard(*(_numbers.whole("shard: the number of ranks", n, -_numbers.INT32_MAX) for n in shard))
        except ArgumentError:
            raise InvalidArgumentError(f"shard: rank and number of ranks are whole numbers, not {shard!r}") from None
    elif hasattr(shard, "get_local_rank") and hasattr(shard, "ndim"):
        if shard.ndim != 1:
            raise InvalidArgumentError(
                f"shard is a DeviceMesh of {shard.ndim} dimensions: give the one that data is divided along, as mesh['dp']"
            )
        found = Shard(shard.get_local_rank(), shard.size())
    else:
        raise InvalidArgumentError(f"shard is 'auto', None, (i, n) or a DeviceMesh, not {shard!r}")
    if shard == "auto" and not process_group() and not 0 <= found.rank < found.world:
        rank, world = (os.environ.get(name, "not set") for name in ("RANK", "WORLD_SIZE"))
        raise InvalidArgumentError(
            f"shard: the environment names no rank of several: RANK is {rank}, WORLD_SIZE is {world}. Set both, as torchrun does, or give shard=None or "
            "shard=(i, n)"
        )
    if not 0 <= found.rank < found.world:
        raise InvalidArgumentError(f"shard: there is no rank {found.rank} of {found.world}; ranks go from 0 to n - 1")
    return found


def together(shard: Shard) -> Any:
    """Returns the process group if the data is divided among exactly its ranks, and these are more than one; else None."""
    group = process_group()
    return group if group is not None and shard.world > 1 and group.get_world_size() == shard.world else None


def check_agreement(what: str, facts: dict[str, Any], shard: Shard) -> None:
    """Raises an error on all ranks unless all pass the same facts. Ranks that differ could later wait for each other for ever, or train on different data.
    what: the subject of the facts in messages. Does nothing if the shard's ranks are not those of a process group (see together).

    The facts are exchanged by the process group's store, not by a collective operation: the store needs no device, and the message can name a rank that does
    not answer.
    """
    group = together(shard)
    if group is None:
        return
    meeting = Meeting(group)
    text = json.dumps(facts, sort_keys=True)
    import hashlib

    meeting.say(what, {"digest": hashlib.blake2b(text.encode(), digest_size=16).hexdigest(), "text": text})
    digests = meeting.receive(what, "digest", range(shard.world))
    odd = next((r for r, d in enumerate(digests) if d != digests[0]), None)
    if odd is None:
        return
    others = sorted({0, odd, group.get_rank()})
    values = [json.loads(t) for t in meeting.receive(what, "text", others)]
    keys = [k for k in facts if any(v.get(k) != values[0].get(k) for v in values)]
    lines = [f"{k}: " + ", ".join(f"rank {r} has {v.get(k)}" for r, v in zip(others, values, strict=True)) for k in keys]
    raise InvalidArgumentError(f"the ranks differ in {what}. " + "; ".join(lines))


def share(what: str, value: str, shard: Shard) -> str:
    """Returns rank 0's value on all ranks. Raises an error if there are several ranks without a common process group. what: the value's name in messages."""
    if shard.world == 1:
        return value
    group = together(shard)
    if group is None:
        raise InvalidArgumentError(f"{what} would differ between the ranks, which have no process group to agree in: give a number")
    meeting = Meeting(group)
    meeting.say(what, {"value": value})
    return meeting.receive(what, "value", [0])[0]


class Meeting:
    """An exchange of texts between all ranks of the process group: each rank publishes its own texts and reads those of others. All ranks must make their
    Meetings in the same order."""

    def __init__(self, group: Any) -> None:
        self.rank = int(group.get_rank())
        self._store = group.distributed_c10d._get_default_store()
        self._number = self._store.add(f"stoker/turn/{self.rank}", 1)

    def _key(self, part: str, rank: int) -> str:
        return f"stoker/{self._number}/{part}/{rank}"

    def say(self, what: str, parts: dict[str, str]) -> None:
        try:
            for part, text in parts.items():
                self._store.set(self._key(part, self.rank), text)
        except RuntimeError as e:
            raise self._no_answer(what, e) from None

    def receive(self, what: str, part: str, ranks: Iterable[int]) -> list[str]:
        """Returns the texts that these ranks have published under the name `part`, in the order of `ranks`. Waits at most for the store's timeout, then raises
        an error."""
        keys = {r: self._key(part, r) for r in ranks}
        try:
            self._store.wait(list(keys.values()))
            return [v.decode() for v in self._store.multi_get(list(keys.values()))]
        except RuntimeError as e:
            raise self._no_answer(what, e, keys) from None

    def _no_answer(self, what: str, error: Exception, keys: dict[int, str] | None = None) -> StokerError:
        try:
            missing = [r for r, key in (keys or {}).items() if not self._store.check([key])]
        except RuntimeError:
            missing = []
        if not missing:
            return StokerError(
                f"rank {self.rank} lost the others while they compared {what}: rank 0, which keeps their store, has died? ({error})"
            )
        who = f"rank {missing[0]} has" if len(missing) == 1 else f"ranks {', '.join(map(str, missing))} have"
        return StalledError(
            f"rank {self.rank} waited {self._store.timeout.total_seconds():g} s to compare {what}: {who} made no such Loader or iterator, or died. "
            "Make it on every rank; one that a single rank uses takes shard=None"
        )


def threads(shard: Shard) -> int | None:
    """Returns the number of worker threads for this rank: its share of the cores of its host. Returns None if LOCAL_WORLD_SIZE is set (the library then
    computes the number itself), or if the ranks of the shard are not those of a process group. Otherwise gathers the host names of all ranks, so each rank must
    call this."""
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    if text and (not text.strip().isdecimal() or int(text) == 0):
        raise InvalidArgumentError(
            f"LOCAL_WORLD_SIZE in the environment is {text!r}, and not the number of processes on this host: correct it, or give num_threads"
        )
    group = together(shard)
    if "LOCAL_WORLD_SIZE" in os.environ or group is None:
        return None
    import socket

    meeting, host = Meeting(group), socket.gethostname()
    meeting.say("their hosts", {"host": host})
    return max(1, int(usable_cores()) // meeting.receive("their hosts", "host", range(shard.world)).count(host))
