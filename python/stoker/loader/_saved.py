# SPDX-License-Identifier: Apache-2.0
"""Parses the state of a Loader. Raises StateError, with the fault, for wrong types and ranges."""

from __future__ import annotations

import json
from array import array
from dataclasses import asdict, dataclass, replace
from typing import Any

from stoker._ranks import Shard
from stoker.errors import StateError

MOST_EPOCHS = 2**32
MOST_SAMPLES = 2**48


def is_whole(value: Any) -> bool:
    """Returns whether a value is an int, but not True or False."""
    return isinstance(value, int) and not isinstance(value, bool)


def whole_of(state: dict[str, Any], name: str, end: int) -> int:
    """Returns state[name]. Raises StateError unless it is a whole number from 0 to end - 1."""
    value: Any = state.get(name)
    if not is_whole(value) or not 0 <= value < end:
        shown = f"{value!r:.100}" if name in state else "missing"
        raise StateError(f'the state is damaged: "{name}" is {shown}, not a whole number from 0 to {end - 1}')
    return value


@dataclass
class Facts:
    """Facts about a Dataset and the order of its samples."""

    size: int
    shuffle: bool
    seed: int
    digest: str | None = None  # digest of the list of samples; None: the list was not known, or an older version saved the state
    groups: dict[str, Any] | None = None  # for shuffle="groups": digest of the table, and how its rows are divided among ranks; else None
    ranks: int | None = None  # of an IterableDataset: the number of ranks; None otherwise, and if an older version saved the state

    @staticmethod
    def of(state: Any) -> Facts:
        if not isinstance(state, dict) or set(state) - {"groups", "digest", "ranks"} != {"size", "shuffle", "seed"}:
            raise StateError('the state is damaged: "dataset" does not hold size, shuffle and seed')
        if not isinstance(state["shuffle"], bool):
            raise StateError(f'the state is damaged: "dataset" is {state!r:.200}')
        found = state.get("digest")
        if found is not None and not isinstance(found, str):
            raise StateError(f'the state is damaged: "digest" of "dataset" is {found!r:.100}')
        seed = whole_of(state, "seed", 2**63)
        ranks = whole_of(state, "ranks", 2**31) if "ranks" in state else None
        return Facts(whole_of(state, "size", 2**63), state["shuffle"], seed, found, _groups_of(state.get("groups")), ranks)


def _groups_of(state: Any) -> dict[str, Any] | None:
    if state is None:
        return None

    def whole(values: Any, count: int) -> bool:
        return isinstance(values, (list, tuple)) and len(values) == count and all(is_whole(v) and 0 <= v < MOST_SAMPLES for v in values)

    good = isinstance(state, dict) and set(state) == {"table", "now", "kept"} and isinstance(state["table"], str)
    if not good or not whole(state["now"], 3) or not (state["kept"] is None or whole(state["kept"], 4)):
        raise StateError(f'the state is damaged: "groups" is {state!r:.200}')
    if min(state["now"]) < 1 or (state["kept"] is not None and min(state["kept"][1:]) < 1):
        raise StateError(f'the state is damaged: "groups" is {state!r:.200}')
    return {**state, "now": list(state["now"])}


@dataclass
class Ids:
    """A summary of the ids of an epoch, from the user's order, for a state that is saved in mid-epoch."""

    samples: int
    digest: str
    rank: int  # the rank whose ids these are; 0 for the ids of all ranks
    ranks: int  # the number of ranks; 1 for the ids of all ranks

    @staticmethod
    def drawn(ids: array[int], shard: Shard | None) -> Ids:
        """Summarizes ids. shard: the rank whose ids these are; None: they are the ids of all ranks together."""
        return Ids(len(ids), digest(ids), *((shard.rank, shard.world) if shard is not None else (0, 1)))

    @staticmethod
    def of(state: Any) -> Ids:
        if not isinstance(state, dict) or set(state) != {"samples", "digest", "rank", "ranks"} or not isinstance(state["digest"], str):
            raise StateError('the state is damaged: "order" does not hold samples, digest, rank and ranks')
        return Ids(whole_of(state, "samples", MOST_SAMPLES), state["digest"], *(whole_of(state, name, 2**31) for name in ("rank", "ranks")))

    def facts(self) -> dict[str, Any]:
        """Returns the entry "order" of a state."""
        return asdict(self)

    def differ(self, drawn: Ids) -> bool:
        """Returns whether the ids certainly differ. Returns False for two ranks of one run, whose ids cannot be compared."""
        another_rank = self.ranks == drawn.ranks and self.rank != drawn.rank
        return self.digest != drawn.digest and not another_rank


def other_ranks(saved: int, here: int, advice: str) -> StateError:
    """Returns the error for a state in mid-epoch whose samples were divided in another way. saved, here: the number of ranks that have their own sequences of
    samples, 1 for one sequence of all samples. advice: further ways out."""
    was, now = ("one sequence has all samples" if n == 1 else f"each of {n} ranks has its own sequence of samples" for n in (saved, here))
    return StateError(
        f"the state is in mid-epoch of a run in which {was}; in this run {now}, so that some samples would come twice and others never: use the number of ranks "
        f"of the run that was saved, {advice}"
    )


def digest(ids: array[int]) -> str:
    import hashlib

    return hashlib.blake2b(ids, digest_size=8).hexdigest()


# The entries about the data in a pipeline's state. Of that state, a Loader saves only these between two epochs.
OF_DATA = ("shuffle", "block", "size", "streamed", "fingerprint", "files", "runs", "reader", "beside")
# The entries of OF_DATA that depend on the order. They are not compared if the user gives the order: epochs may then differ in length, and the reader does not
# shuffle.
OF_ORDER = ("size", "shuffle", "block")


def _data_of(data: Any) -> dict[str, Any]:
    if not isinstance(data, dict) or set(data) - set(OF_DATA) or not isinstance(data.get("fingerprint"), str):
        raise StateError(f'the state is damaged: "data" is {data!r:.200}')
    try:
        copied: dict[str, Any] = json.loads(json.dumps(data, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as e:
        raise StateError(f'the state is damaged: "data" holds what is no JSON ({e})') from None
    return copied


@dataclass
class Saved:
    """The contents of Loader.state_dict(). pipeline: the state of the library, which checks it further; None at the start of an epoch. Fields that older
    versions did not save are None in their states."""

    epoch: int
    pipeline: dict[str, Any] | None
    dataset: Facts | None  # None: the source is no Dataset
    order: Ids | None  # None: the user gave no order, or no epoch had begun
    seed: int | None  # seed of the saved run
    data: dict[str, Any] | None  # facts about the data; None: saved in mid-epoch, or the source is a Dataset
    pipeline_seed: int | None  # seed of a Pipeline that the user gave; None: the user gave none
    targets: dict[str, str]  # digests of targets by field, where the reader's facts do not cover them
    own_order: bool = False  # whether the user gave the saved run an order (sampler, batch_sampler or bucket_by)

    def without_order(self, shuffle: bool) -> Saved:
        """Returns this state, of the beginning of an epoch, for a Loader whose order is of another kind: without the facts that depend on the order. shuffle:
        whether that Loader shuffles."""
        data = self.data if self.pipeline is None else {name: value for name, value in self.pipeline.items() if name in OF_DATA}
        data = None if data is None or self.dataset is not None else {name: data[name] for name in data if name not in OF_ORDER}
        dataset = None if self.dataset is None else replace(self.dataset, shuffle=shuffle)
        return replace(self, pipeline=None, order=None, data=data, dataset=dataset)

    @staticmethod
    def of(state: dict[str, Any]) -> Saved:
        unknown = set(state) - {
            "stoker_loader",
            "epoch",
            "pipeline",
            "dataset",
            "order",
            "seed",
            "pipeline_seed",
            "listed",
            "data",
            "targets",
            "own_order",
        }
        if unknown or "pipeline" not in state:
            raise StateError(f"the state is damaged: {f'it holds {min(map(str, unknown))!r}' if unknown else 'pipeline is missing'}")
        for name in ("listed", "own_order"):
            if state.get(name, True) is not True:
                raise StateError(f'the state is damaged: "{name}" is {state[name]!r:.100}')
        epoch, pipeline = whole_of(state, "epoch", MOST_EPOCHS), state["pipeline"]
        if pipeline is not None:
            if not isinstance(pipeline, dict):
                raise StateError(f'the state is damaged: "pipeline" is {type(pipeline).__name__}')
            try:
                pipeline = json.loads(json.dumps(pipeline, allow_nan=False))  # a copy: the program may change its dict later
            except (TypeError, ValueError, RecursionError) as e:
                raise StateError(f'the state is damaged: "pipeline" holds what is no JSON ({e})') from None
            whole_of(pipeline, "consumed", 2 * MOST_SAMPLES)
            if whole_of(pipeline, "epoch", MOST_EPOCHS) not in (0, epoch):
                raise StateError(f"the state contradicts itself: epoch {epoch} of the Loader, {pipeline['epoch']} of its pipeline")
        dataset = Facts.of(state["dataset"]) if "dataset" in state else None
        own = whole_of(state, "pipeline_seed", 2**64) if "pipeline_seed" in state else None
        if own is None and pipeline is not None and isinstance(pipeline.get("seed"), (int, str)) and str(pipeline["seed"]).isdigit():
            own = whole_of({"seed": int(pipeline["seed"])}, "seed", 2**64)
        data = _data_of(state["data"]) if "data" in state else None
        seed = whole_of(state, "seed", 2**63) if "seed" in state else dataset.seed if dataset is not None else None
        targets = state.get("targets", {})
        if not isinstance(targets, dict) or not all(isinstance(text, str) for pair in targets.items() for text in pair):
            raise StateError(f'the state is damaged: "targets" is {targets!r:.200}')
        order = Ids.of(state["order"]) if "order" in state else None
        # States of older versions have no "own_order". If the user had given the order, each epoch had its own pipeline, which counted epochs from 0.
        ordered = "own_order" in state or order is not None or (pipeline is not None and pipeline["epoch"] != epoch)
        return Saved(epoch, pipeline, dataset, order, seed, data, own, targets, ordered)
