# SPDX-License-Identifier: Apache-2.0
"""The iterator of an epoch whose images Stoker makes, or whose tensors Stoker indexes a batch at a time.

It draws indices from torch's samplers on the same thread and at the same moments as torch's DataLoader, so that random generators end in the same state. With
num_workers=0 it draws early only from torch's own samplers, which fix the order of an epoch at its beginning.
"""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    _utils,
)
from torch.utils.data.dataloader import _BaseDataLoaderIter, _DatasetKind

from stoker.dataloader._machine import Machine
from stoker.dataloader._placeholder import NeedsPython, Placeholder, replaced, with_target
from stoker.dataloader._plan import Plan, is_default
from stoker.dataloader._reasons import InPython
from stoker.dataloader._transforms import Parts
from stoker.errors import StalledError, StokerError
from stoker.loader._random import mix

if TYPE_CHECKING:
    import torch

_AHEAD = 2  # number of batches to make ahead of the loop if num_workers is 0; otherwise prefetch_factor batches for each worker
_MOST_AHEAD = 8  # the largest prefetch_queue_depth of the pipeline, in batches


@dataclass
class _PendingBatch:
    """A batch whose indices were drawn, and that was not delivered yet."""

    number: int  # index of the batch in the epoch
    indices: Any
    samples: list[Any] = field(default_factory=list)  # a Placeholder stands for each image
    entries: list[Any] = field(default_factory=list)  # Reader.entry() of each sample; empty if it is not compared later
    undone: list[Placeholder] = field(default_factory=list)  # the placeholders, in the order in which the Machine gets their images
    machine: Machine | None = None
    error: Exception | None = None  # an exception of the Dataset's Python, which is raised when the loop asks for the batch
    whole: bool = True  # whether all samples have the same number of placeholders, so that the images of a field form one tensor
    python: bool = False  # whether the Dataset's own Python makes the batch


class CompiledIterator(_BaseDataLoaderIter):
    """The iterator of an epoch (see the module). Derived from torch's iterator, so that programs find the attributes of an iterator of torch.

    The loop may change the Dataset while it iterates. Without workers, torch shows each change in the next batch, and this class does so if the change replaces
    an attribute of the Dataset or of its class, a variable that its code reads, an index of a Subset, an entry of a list of torchvision's Dataset, or a part of
    the transform. With workers, torch shows no change, as they have copies; this class does the same for attributes, variables and their lists.

    The following changes are not noticed. Up to _AHEAD batches are made of the old data without workers, and with workers batches are made of the new data:
      - pixels and labels of an array or a tensor that are changed in place (a TensorDataset without workers shows these at once, as torch does);
      - entries of lists and dicts that a user's Dataset reads, without workers; of lists in lists, with workers;
      - attributes of other objects than the Dataset, of modules and of classes that the code names, with workers.
    """

    _workers: tuple[Any, ...] = ()  # programs read this attribute of torch's iterators, which lists the worker processes
    _skip = 0  # number of this epoch's batches that the loop of the saved run had received
    _taken = 0  # number of batches taken from _flights, also those that end in an error

    def __init__(self, loader: Any, plan: Plan, turn: int = 0, base_seed: int = 0) -> None:
        """turn: how many epochs the persistent workers of the saved run had finished; 0 without a saved run. base_seed: torch's seed of these workers, if turn
        is not 0."""
        if plan.reader is not None:
            self.trial(loader, plan).close()  # raises InPython if no Machine can be built, before an index is drawn
        super().__init__(loader)
        if turn:
            self._base_seed = base_seed
        self._plan = plan
        self._fused = is_default(loader.collate_fn)
        self._fetcher: Any = None
        self._turn = turn  # number of epochs that these persistent workers have done
        self._machines: set[Machine] = set()
        self._stop = weakref.finalize(self, _close_all, self._machines)
        self._ahead = loader.prefetch_factor * loader.num_workers if loader.num_workers else _ahead_of(loader)
        if plan.reader is not None and plan.reader.slow:
            self._ahead = 0  # otherwise the first batch would wait until Python has made the samples of later batches too
        self._settings = _settings_of(loader)
        self._begin()
        if self._num_workers:
            super()._reset(loader, True)  # torch's iterator with workers also begins the sampler's epoch a second time
            self._draw(self._ahead)

    @classmethod
    def trial(cls, loader: Any, plan: Plan) -> Machine:
        """Makes a Machine, to find out whether it can be built. The caller closes it and feeds it no batches. Raises InPython if it cannot be built."""
        assert plan.reader is not None
        try:
            return cls._make(plan, 1, plan.reader.channels, 0, 0, _settings_of(loader))
        except (StokerError, ValueError, TypeError) as e:
            raise InPython(str(e)) from e

    @staticmethod
    def _make(plan: Plan, batch: int, channels: int, seed: int, first: int, settings: dict[str, Any]) -> Machine:
        assert plan.reader is not None and plan.compiled is not None
        return Machine(plan.compiled.recipe, plan.reader.files, channels, batch, seed, first, settings)

    # ---- epochs ----

    def _begin(self) -> None:
        self._flights: deque[_PendingBatch] = deque()
        self._drawn = self._skip
        self._ended = False
        self._rest_in_python = False  # whether the Dataset's own Python makes the rest of the epoch
        self._machine: Machine | None = None
        self._seed = mix(int(self._base_seed), self._turn)
        reader = self._plan.reader
        self._transform = Parts(reader.transform) if reader is not None and not self._num_workers else None
        self._early = _early_of(self._index_sampler) if self._ahead and not self._num_workers else 0

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        super()._reset(loader, first_iter)
        self._close()
        self._turn += 1
        self._begin()
        self._draw(self._ahead)

    def _shutdown_workers(self) -> None:
        """Stops making batches. The name is that of the method with which programs end the workers of torch's iterator."""
        self._ended = True
        self._flights.clear()
        self._close()

    def _close(self) -> None:
        _close_all(self._machines)
        self._machines.clear()

    # ---- drawing ----

    def _draw(self, most: int) -> None:
        """Draws indices until `most` batches are pending, or until the sampler ends."""
        while len(self._flights) < most and not self._ended:
            try:
                indices = self._next_index()
            except StopIteration:
                self._ended = True
                return
            self._flights.append(self._begun(indices))
            self._drawn += 1

    def _begun(self, indices: Any) -> _PendingBatch:
        flight = _PendingBatch(self._drawn, indices)
        if self._plan.gather is not None or self._stale():
            return flight
        reader = self._plan.reader
        assert reader is not None
        try:
            if self._ahead and not self._num_workers:
                flight.entries = [reader.entry(index) for index in indices]
            self._take_samples(flight)
        except Exception as e:
            flight.error = e
            return flight
        if flight.undone:
            try:
                self._send(flight)
            except StokerError:  # the transform was changed since the epoch began
                flight.python = True
        return flight

    def _take_samples(self, flight: _PendingBatch) -> None:
        reader = self._plan.reader
        assert reader is not None
        of_sample: list[list[Placeholder]] = []
        for index in flight.indices:
            try:
                sample, undone = reader.sample(index)
                flight.samples.append(sample)
                of_sample.append(undone)
            except NeedsPython:
                flight.whole = False
                flight.samples.append(_FromDataset(index))
        counts = {len(undone) for undone in of_sample}
        flight.whole = flight.whole and len(counts) == 1
        if flight.whole:  # the images of a field follow each other, so that the field is a slice of the images
            flight.undone = [undone[k] for k in range(counts.pop()) for undone in of_sample]
        else:
            flight.undone = [u for undone in of_sample for u in undone]
        for number, image in enumerate(flight.undone):
            image.number = number

    def _send(self, flight: _PendingBatch) -> None:
        count = len(flight.undone)
        if self._machine is None or self._machine.batch < count or self._machine.next != flight.number:
            self._machine = self._new_machine(max(count, self._machine.batch if self._machine else 0), flight)
        flight.machine = self._machine
        flight.machine.feed([undone.source for undone in flight.undone])

    def _new_machine(self, batch: int, flight: _PendingBatch) -> Machine:
        source = flight.undone[0].source
        channels = 3 if isinstance(source, str) else source.shape[-1]
        machine = self._make(self._plan, batch, channels, self._seed, flight.number, self._settings)
        self._machines.add(machine)
        return machine

    # ---- batches ----

    def _next_data(self) -> Any:
        self._draw(1 + self._ahead_now())
        if not self._flights:
            self._close()
            raise StopIteration
        flight = self._flights.popleft()
        self._taken += 1
        if self._num_workers:
            self._draw(self._ahead)
        if flight.error is not None and not self._stale():
            raise flight.error
        data = self._finished(flight)
        if self._pin_memory:
            data = _utils.pin_memory.pin_memory(data, self._pin_memory_device)
        return data

    def _ahead_now(self) -> int:
        """Returns how many batches to draw after the next one, of those that may be drawn early."""
        if self._num_workers:
            return 0
        return max(0, min(self._ahead, self._early - self._drawn - (not self._flights)))

    def _finished(self, flight: _PendingBatch) -> Any:
        if self._plan.gather is not None and not self._stale():
            try:
                return self._plan.gather.batch(flight.indices)
            except (NeedsPython, IndexError, TypeError, ValueError, RuntimeError):
                return self._from_dataset(flight.indices)
        if flight.python or self._stale():
            return self._from_dataset(flight.indices)
        if flight.entries and self._has_other_entries(flight):
            self._leave_to_python()
            return self._from_dataset(flight.indices)
        images: Any = []
        if flight.machine is not None:
            try:
                images = self._images(flight)
            except StalledError as e:
                raise RuntimeError(f"DataLoader timed out after {self._timeout} seconds") from e
            except StokerError:
                return self._made_in_python(flight)
        if self._fused and flight.whole:
            flight.samples = [with_target(sample) for sample in flight.samples]
            return self._collated(flight, images)
        return self._collate_fn([self._materialised(sample, images) for sample in flight.samples])

    def _stale(self) -> bool:
        """Returns whether the loop has changed the Dataset or its transform since the epoch began. A change takes effect at once without workers, so the
        Dataset's own Python then makes the rest of the epoch."""
        if not self._rest_in_python and not self._num_workers and not self._unchanged():
            self._leave_to_python()
        return self._rest_in_python

    def _unchanged(self) -> bool:
        source = self._plan.reader if self._plan.gather is None else self._plan.gather
        assert source is not None
        return source.unchanged() and (self._transform is None or self._transform.unchanged())

    def _leave_to_python(self) -> None:
        self._rest_in_python = True
        self._close()

    def _has_other_entries(self, flight: _PendingBatch) -> bool:
        """Returns whether the loop has changed an entry of the Dataset's list since the batch's samples were read."""
        reader = self._plan.reader
        assert reader is not None
        try:
            now = [part for index in flight.indices for part in reader.entry(index)]
        except (IndexError, ValueError):
            return True
        before = [part for entry in flight.entries for part in entry]
        return len(now) != len(before) or not all(map(_is_same_entry, now, before))

    def _images(self, flight: _PendingBatch) -> Any:
        machine = flight.machine
        assert machine is not None
        images = machine.take()
        if machine is not self._machine and not any(f.machine is machine for f in self._flights):
            machine.close()
            self._machines.discard(machine)
        return images

    def _collated(self, flight: _PendingBatch, images: Any) -> Any:
        size = len(flight.samples)

        def stacked(batch: Any, *, collate_fn_map: Any = None) -> Any:
            first = batch[0].number
            if len(batch) != size or first % size or any(undone.number != first + k for k, undone in enumerate(batch)):
                return _utils.collate.default_collate([images[undone.number] for undone in batch])
            column = images if len(images) == size else images[first : first + size]
            return column if not isinstance(column, list) else _utils.collate.default_collate(column)

        return _utils.collate.collate(flight.samples, collate_fn_map={**_utils.collate.default_collate_fn_map, Placeholder: stacked})

    def _materialised(self, sample: Any, images: Any) -> Any:
        if isinstance(sample, _FromDataset):
            return self._dataset[sample.index]
        wrap = _tv_image if self._plan.compiled is not None and self._plan.compiled.tv_image else None
        return replaced(with_target(sample), lambda undone: images[undone.number] if wrap is None else wrap(images[undone.number]))

    # ---- what the pipeline cannot do ----

    def _from_dataset(self, indices: Any) -> Any:
        if self._fetcher is None:
            self._fetcher = _DatasetKind.create_fetcher(
                self._dataset_kind, self._dataset, self._auto_collation, self._collate_fn, self._drop_last
            )
        return self._fetcher.fetch(indices)

    def _made_in_python(self, flight: _PendingBatch) -> Any:
        """Makes a batch again with the Dataset's own Python, because one of its images failed. That code may be able to read the file, or raises the error that
        torch's DataLoader raises. A new Machine makes the following batches."""
        machine = flight.machine
        assert machine is not None
        machine.close()
        self._machines.discard(machine)
        if self._machine is machine:
            self._machine = None
        batch = machine.batch
        for later in self._flights:
            if later.machine is machine:
                if self._machine is None or self._machine.next != later.number:
                    self._machine = self._new_machine(batch, later)
                later.machine = self._machine
                self._machine.feed([undone.source for undone in later.undone])
        return self._from_dataset(flight.indices)


@dataclass
class _FromDataset:
    """Stands for a sample that the Dataset's own Python makes."""

    index: Any


def _tv_image(tensor: torch.Tensor) -> Any:
    from torchvision import tv_tensors

    return tv_tensors.Image(tensor, device=tensor.device)


def _close_all(machines: set[Machine]) -> None:
    for machine in machines:
        machine.close()


def _settings_of(loader: Any) -> dict[str, Any]:
    ahead = min(max(loader.prefetch_factor or _AHEAD, 1), _MOST_AHEAD)
    settings: dict[str, Any] = {"prefetch_queue_depth": ahead}
    if loader.num_workers:
        settings["num_threads"] = loader.num_workers
    if loader.timeout:
        settings["timeout"] = float(loader.timeout)
    return settings


_FIXED = (SequentialSampler, SubsetRandomSampler, WeightedRandomSampler, DistributedSampler)


def _is_same_entry(now: Any, before: Any) -> bool:
    """Returns whether two parts of Reader.entry() are one object, or equal numbers or texts, of which an array makes a new object each time."""
    return now is before or (type(now) is type(before) and isinstance(now, (int, str, bytes)) and now == before)


def _ahead_of(loader: Any) -> int:
    """Returns how many batches may be drawn before the loop needs them. Above 0 only if the order was fixed when the epoch began: then neither the program nor
    a generator can notice that batches were drawn early."""
    if type(loader.batch_sampler) is not BatchSampler:
        return 0
    sampler = loader.batch_sampler.sampler
    if type(sampler) is RandomSampler:
        once = not sampler.replacement and sampler.num_samples <= len(sampler.data_source)
        return _AHEAD if once or sampler.generator is None else 0
    return _AHEAD if type(sampler) in _FIXED else 0


def _early_of(batches: BatchSampler) -> int:
    """Returns how many of an epoch's batches may be drawn before the loop needs them: those that do not run the sampler to its end, because code in the sampler
    must not see the end of an epoch before the loop does. BatchSampler runs it to its end to build a partial last batch, and a RandomSampler then draws once
    more from its generator."""
    sampler: Any = batches.sampler
    draws_at_end = type(sampler) is RandomSampler and sampler.generator is not None
    return len(batches) - (draws_at_end and not batches.drop_last and len(sampler) % batches.batch_size > 0)
