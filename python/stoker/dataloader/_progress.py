# SPDX-License-Identifier: Apache-2.0
"""Counts the batches of an epoch that the loop has received, and makes and checks the states of DataLoader.state_dict()."""

from __future__ import annotations

import base64
import zlib
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.data import IterableDataset

from stoker import _foreign_state, _same_data
from stoker.dataloader import _worker_states as worker_states
from stoker.errors import StateError
from stoker.loader._fair_lock import FairLock

VERSION = 1
_MOST_SAMPLERS = 8  # samplers inside samplers that are looked at


@dataclass
class Progress:
    """The progress of one epoch."""

    start: dict[str, str]  # states of the generators when the epoch began, by their names in a saved state
    parts: dict[str, Any]  # states of samplers when the epoch began, by the name of their attribute
    batches: int = 0  # number of batches that the loop has received without a gap, from the epoch's first batch on
    digest: int = 0  # checksum of the samples' indices in the first `batches` batches
    over: bool = False  # whether the loop has seen the epoch's end
    left: bool = False  # whether a state was loaded into the loader since, from which only the next iteration continues
    drawn: deque[int] = field(default_factory=deque)  # for each batch that was drawn but not received: the digest up to this batch
    ahead: set[int] = field(default_factory=set)  # with in_order=False: indices of received batches after the first missing one
    turn: int = 0  # number of earlier epochs of the same worker processes
    base_seed: int = 0  # torch's seed of the worker processes
    share: tuple[int, int] = (0, 1)  # the rank for which the sampler gives indices, and the number of ranks
    epoch: int = -1  # the epoch of a sampler with set_epoch(); -1: there is no such sampler
    workers: Any = None  # states of the workers' Datasets (WorkerStates); None if these cannot have states
    # Held by the thread that takes a batch, and by one that saves a state: a Dataset's state must not be ahead of the number of batches.
    lock: FairLock = field(default_factory=FairLock, repr=False, compare=False)

    def draw(self, indices: Any) -> None:
        last = self.drawn[-1] if self.drawn else self.digest
        self.drawn.append(zlib.crc32(repr(indices).encode(), last))

    def count(self, number: int | None = None) -> None:
        """Counts a batch that the loop received. number: the batch's index in the epoch; None: the next batch."""
        if number is not None and number != self.batches:
            self.ahead.add(number)
            return
        self._step()
        while self.batches in self.ahead:
            self.ahead.remove(self.batches)
            self._step()

    def _step(self) -> None:
        self.batches += 1
        self.digest = self.drawn.popleft() if self.drawn else self.digest

    def check_drawn(self, resume: dict[str, Any]) -> None:
        """Raises StateError if the batches so far have other indices than in the run that was saved. Frameworks save the state of one rank, usually rank 0, and
        load it on all. The indices of another rank cannot be compared; that rank compares its own."""
        rank, ranks = resume.get("rank", self.share[0]), resume.get("ranks", self.share[1])
        if self.digest != resume["digest"] and (rank == self.share[0] or ranks != self.share[1]):
            raise other_samples(ranks, self.share[1])


def other_samples(ranks_before: int, ranks: int) -> StateError:
    """Returns the error for a sampler that gives other indices than in the run that was saved, on `ranks_before` ranks."""
    consequence = "so that some samples would come twice and others never"
    if ranks_before != ranks:
        return StateError(
            f"the state is of a sampler that divides the samples among {ranks_before} ranks; here they are divided among {ranks}, {consequence}: continue with "
            "as many ranks, or from a state that was saved at the end of an epoch; a stoker.Loader continues with any number of ranks"
        )
    return StateError(
        f"the sampler gives other samples than in the run that was saved, {consequence}: give the batch_size, shuffle and sampler of that run; a sampler that "
        "draws random numbers needs a generator, or methods state_dict and load_state_dict"
    )


def _samplers(loader: Any) -> list[Any]:
    """Returns the loader's samplers, and the samplers inside a BatchSampler or inside Accelerate's BatchSamplerShard."""
    found = [loader.sampler, loader.batch_sampler]
    for outer in found:
        inner = [getattr(outer, name, None) for name in ("sampler", "batch_sampler")]
        found += [sampler for sampler in inner if sampler is not None and all(sampler is not other for other in found)]
        if len(found) > _MOST_SAMPLERS:
            break
    return found


def _share_of(loader: Any) -> tuple[int, int]:
    """Returns the rank for which the loader's samplers give indices, and the number of ranks; (0, 1) if no sampler divides them. Finds torch's
    DistributedSampler, Accelerate's BatchSamplerShard, and other samplers that have the same attributes."""
    for sampler in _samplers(loader):
        for names in (("rank", "num_replicas"), ("process_index", "num_processes")):
            rank, ranks = (getattr(sampler, name, None) for name in names)
            if isinstance(rank, int) and isinstance(ranks, int):
                return rank, ranks
    return 0, 1


def _with_epoch(loader: Any) -> Any:
    """Returns the sampler whose order follows from set_epoch(), such as torch's DistributedSampler, or None."""
    stateful = _stateful(loader).values()
    return next(
        (
            sampler
            for sampler in _samplers(loader)
            if isinstance(getattr(sampler, "epoch", None), int)
            and hasattr(sampler, "set_epoch")
            and all(sampler is not part for part in stateful)
        ),
        None,
    )


def _generators(loader: Any) -> dict[str, Any]:
    """Returns the generators of the loader and of its sampler, by their names in a state; None in place of a generator that is not set."""
    inner = getattr(loader.batch_sampler, "sampler", None)
    found = {"generator": loader.generator}
    found["sampler_generator"] = next(
        (g for s in (loader.sampler, loader.batch_sampler, inner) if (g := getattr(s, "generator", None)) is not None), None
    )
    return found


def _stateful(loader: Any) -> dict[str, Any]:
    """Returns a dict from attributes' names to those samplers that can save their state."""
    parts = {"sampler": loader.sampler, "batch_sampler": loader.batch_sampler}
    return {name: part for name, part in parts.items() if worker_states.has_state(part)}


def _state_of(generator: Any) -> str:
    """Returns the state of a generator as text, because states may be saved as JSON; "" for None."""
    return "" if generator is None else base64.b64encode(generator.get_state().numpy()).decode()


def _tensor(state: str) -> torch.Tensor:
    try:
        return torch.frombuffer(bytearray(base64.b64decode(state, validate=True)), dtype=torch.uint8)
    except ValueError:
        raise StateError("the state of a stoker.DataLoader holds a damaged state of a generator") from None


def order_by_default(loader: Any) -> bool:
    """Returns whether the order comes from torch's default generator: the sampler's `generator` is None, and no sampler saves a state of its own."""
    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
    return getattr(sampler, "generator", loader) is None and not _stateful(loader)


def set_default_generator(state: str) -> None:
    torch.set_rng_state(_tensor(state))


def begin(loader: Any, resume: dict[str, Any] | None = None) -> Progress:
    """Returns the progress of an epoch that begins now, or of one that continues from the state `resume`."""
    start = {name: _state_of(generator) for name, generator in _generators(loader).items()}
    start["default_generator"] = _state_of(torch.default_generator)
    made = Progress(start, {name: part.state_dict() for name, part in _stateful(loader).items()}, share=_share_of(loader))
    made.epoch = getattr(_with_epoch(loader), "epoch", -1)
    if loader.num_workers and worker_states.possible(loader):
        made.workers = worker_states.WorkerStates.load(loader, None if resume is None else resume.get("worker_states"))
    if resume is not None:
        made.turn, made.base_seed, made.ahead = resume["turn"], resume["base_seed"], numbers_ahead(resume)
    return made


def after(loader: Any, before: Progress) -> Progress:
    """Returns the progress at the start of the epoch that follows `before`. Persistent workers keep their seed."""
    made = begin(loader)
    if loader.num_workers and loader.persistent_workers:
        made.turn, made.base_seed = before.turn + 1, before.base_seed
    if made.workers is not None and before.workers is not None:
        made.workers = before.workers.at_next_epoch(loader.persistent_workers)
    return made


def save(loader: Any, progress: Progress | None, dataset: Any) -> dict[str, Any]:
    """Returns the state for state_dict(). For one loader, its keys and types are always the same. dataset: the Dataset's own state, or None."""
    inside = progress is not None and not progress.over
    if progress is None:
        progress = begin(loader)
    now = after(loader, progress) if progress.over else progress
    workers = None if now.workers is None else now.workers.save(loader.dataset, now.batches)
    return {
        "stoker_dataloader": VERSION,
        "inside": int(inside),
        "batches": now.batches,
        "digest": now.digest,
        "ahead": ",".join(map(str, sorted(now.ahead))),  # a text: the number of entries of a list would differ between states
        "turn": now.turn,
        "base_seed": now.base_seed,
        "rank": now.share[0],
        "ranks": now.share[1],
        "epoch": now.epoch,
        **_data_of(loader.dataset),
        **now.start,
        "default_generator_now": _state_of(torch.default_generator),
        **{f"{name}_state": state for name, state in now.parts.items()},
        **({} if dataset is None else {"dataset_state": dataset}),
        **({} if workers is None else {"worker_states": workers}),
    }


def _data_of(dataset: Any) -> dict[str, Any]:
    """Returns the number of samples of a Dataset (-1: not known), and a digest of its list of files ("": not known)."""
    if isinstance(dataset, IterableDataset):
        return {"data_size": -1, "data_digest": ""}
    try:
        size = len(dataset)
    except (TypeError, NotImplementedError):
        size = -1
    return {"data_size": size, "data_digest": _same_data.digest_of(dataset) or ""}


def check_data(loader: Any, state: dict[str, Any]) -> None:
    """Raises StateError if a state belongs to other data. States of earlier versions have no facts about the data, and are accepted."""
    was = {"data_size": state.get("data_size", -1), "data_digest": state.get("data_digest", "")}
    if not isinstance(was["data_size"], int) or not isinstance(was["data_digest"], str):
        raise StateError(f"the state of a stoker.DataLoader holds damaged facts about the data: {was!r:.200}")
    now = _data_of(loader.dataset)
    sizes = was["data_size"], now["data_size"]
    digests = was["data_digest"], now["data_digest"]
    if -1 not in sizes and (sizes[0] != sizes[1] or ("" not in digests and digests[0] != digests[1])):
        raise StateError(f"{_same_data.differ(*sizes)}: {_same_data.WAY_OUT}")


def check(state: Any) -> None:
    if not isinstance(state, dict) or state.get("stoker_dataloader") != VERSION:
        raise _foreign_state.refused(state, "a stoker.DataLoader", VERSION)
    for name, end in (("inside", 2), ("batches", 2**48), ("digest", 2**64), ("turn", 2**32), ("base_seed", 2**64)):
        if not isinstance(state.get(name), int):
            raise StateError(f"the state of a stoker.DataLoader has no whole number {name!r}")
        if not -(2**63) * (name == "base_seed") <= state[name] < end:
            raise StateError(f"the state of a stoker.DataLoader is damaged: {name!r} is {state[name]!r:.100}")
    # States of earlier versions lack these entries.
    for name, least, end in (("rank", 0, 2**31), ("ranks", 0, 2**31), ("epoch", -(2**63), 2**63)):
        if not isinstance(state.get(name, 0), int) or not least <= state.get(name, 0) < end:
            raise StateError(f"the state of a stoker.DataLoader is damaged: {name!r} is {state[name]!r:.100}")
    for name in ("generator", "sampler_generator", "default_generator", "default_generator_now"):
        if not isinstance(state.get(name), str):
            raise StateError(f"the state of a stoker.DataLoader has no state of a generator {name!r}")
    try:
        good = isinstance(state.get("ahead"), str) and all(0 <= number < 2**48 for number in numbers_ahead(state))
    except ValueError:
        good = False
    if not good:
        raise StateError("the state of a stoker.DataLoader has no list of batches 'ahead'")


def numbers_ahead(state: dict[str, Any]) -> set[int]:
    """Returns the indices of batches that the loop had received while an earlier batch was still missing."""
    return {int(number) for number in state["ahead"].split(",") if number}


def rewind(loader: Any, state: dict[str, Any]) -> None:
    """Sets generators and samplers to their states at the beginning of the saved epoch."""
    for name, generator in _generators(loader).items():
        if generator is not None and state[name]:
            generator.set_state(_tensor(state[name]))
    for name, part in _stateful(loader).items():
        if f"{name}_state" in state:
            part.load_state_dict(state[f"{name}_state"])
    sampler = _with_epoch(loader)
    if sampler is not None and state["inside"] and state.get("epoch", -1) >= 0:
        sampler.set_epoch(state["epoch"])  # Lightning calls set_epoch() only after it has made the iterator
