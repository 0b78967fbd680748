# SPDX-License-Identifier: Apache-2.0
"""Reads a map-style Dataset. Its Python code runs on threads or in worker processes, and returns bytes or arrays, which are decoded and transformed in C.

This file also makes the order of samples, by the same rule as for files: at step k, rank r of R takes the positions (kR + r)B .. (kR + r + 1)B - 1 of the
epoch's sequence, where B is the batch size. So all ranks have the same number of steps.
"""

from __future__ import annotations

import math
import os
import threading
from array import array
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stoker import _numbers, _same_data, fn, types
from stoker._arrays import bytes_of
from stoker._ranks import Shard
from stoker._session import Session
from stoker._sources import ByPosition, DescribedBatch
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError, LimitError, StalledError, StateError, UnsupportedError
from stoker.loader import _fields, _targets
from stoker.loader._coordinates import POINTS as PLACES
from stoker.loader._coordinates import Remove
from stoker.loader._kinds import BOXES, FLOATS, IMAGE, LIST, MASK, OTHER, PICTURES, POINTS, VECTORS, Kind
from stoker.loader._layout import Layout
from stoker.loader._order import GAP, Order
from stoker.loader._pixels import is_array
from stoker.loader._random import Place, bijection, same_generators
from stoker.loader._saved import Saved
from stoker.loader._spec import DatasetArguments, Spec
from stoker.loader.batches._finish import Finish, Finishing, Keep, Lists, Planes, by_value
from stoker.loader.batches._pad import check_holds
from stoker.loader.lower import Field, Followers, Image, refuse_other_kind, refuse_other_tensors
from stoker.loader.sources._fetch import Fetch, Fetched, FetchMany, Item, ProcessWorkers, Workers, unfinished
from stoker.loader.sources._hub import HubStream, HubTable
from stoker.loader.sources._image_sizes import Size, measured, sizes_of_files, spread
from stoker.loader.sources._samples import Samples, column, height_and_width
from stoker.loader.sources._shared import ReuseDetector
from stoker.loader.sources._source import Source
from stoker.pipeline import Pipeline
from stoker.transforms import Filled, with_parts

if TYPE_CHECKING:
    from concurrent.futures import Future

_AHEAD = 2  # number of batches whose samples are fetched before they are needed
MOST_PROBES = 64  # the most samples that are fetched before the first batch to find the types of targets
_MOST_STORED = 1 << 27  # samples of an epoch whose shuffled order is stored; to make this many takes a minute and 1 GiB
_COMPARED = 16  # the most samples whose images are compared in size


def forget_frames(error: BaseException | None) -> None:
    """Removes the tracebacks of an error, and of the errors that caused it. A traceback refers to the callers' frames, and so to the Loader. The library stores
    the error in C, where the garbage collector does not see the cycle, so the Loader would never be freed."""
    rest, seen = [error], set()
    while rest:
        e = rest.pop()
        if e is None or id(e) in seen:  # a user's errors may be causes of each other, as after `raise e from e`
            continue
        seen.add(id(e))
        e.__traceback__ = None
        rest += (e.__cause__, e.__context__)


def _threads() -> int:
    return min(16, 2 * (os.cpu_count() or 1) + 2)


def _too_large(fetched: Fetched, size: int, most: int) -> Fetched:
    """Returns `fetched` as a failed sample: its `size` bytes are more than memory_limit, which is `most` bytes."""
    where = "" if fetched.index is None else f" (in dataset[{fetched.index}])"
    text = f"the sample takes {size} bytes, over memory_limit, {most} bytes; raise that, or leave such samples out (on_error='skip'){where}"
    return replace(fetched, parts=None, error=LimitError(text))


def _rows_of(futures: list[Future[Any]]) -> list[Fetched]:
    """Returns the samples of the futures, and empties the list, so that the traceback of an exception, which the library stores, keeps no samples alive."""
    rows: list[Fetched] = []
    try:
        while futures:
            rows += futures.pop(0).result()
    except BaseException:
        rows.clear()
        futures.clear()
        raise
    return rows


def _type_name(value: Any) -> str:
    """Returns the name of an array's or a tensor's type, as "uint8", whatever its byte order; "" for other values."""
    dtype = getattr(value, "dtype", "")
    return str(getattr(dtype, "name", dtype)).removeprefix("torch.")


def _check_fills(dtype: str, spec: Spec) -> None:
    """Raises InvalidArgumentError if masks of this type cannot represent a value with which they are padded, or which a transform fills in."""
    if spec.pad is not None:
        check_holds(dtype, MASK, spec.pad[MASK])
    for step in with_parts(rule.t for view in spec.views for rule in view.steps):
        if isinstance(step, Filled):
            check_holds(dtype, MASK, step.fill_of(MASK)[0], f"{type(step).__name__}: fill")


class DatasetSource(Source):
    """Reads samples from dataset[i]: an image, or a tuple or dict that holds one; DatasetArguments says where. The image is a path, bytes, array, tensor or PIL
    image. Samples may have a sound instead of an image, or neither."""

    makes_order = takes_kinds = takes_layout = True
    many = False  # whether the dataset has many(ids), which fetches several samples faster than separate calls
    in_memory = True  # whether images that are arrays come from the user's memory; False if they were read from files
    unchanging = False  # whether a sample is the same in each epoch, so that samples of the next epoch may be fetched before it begins
    by_sample = True  # whether a single sample is cheap to fetch, so that the sizes of some images may be compared before the first batch
    typed = False  # whether a value without rows, such as an empty array, already has the type of the target's other values
    compares_sizes = False  # whether `nodes` shall set `sizes`
    sizes: list[Size] | None = None  # (height, width) of up to _COMPARED images, the same images on each rank; None: not fetched

    def __init__(self, dataset: Any, arguments: DatasetArguments) -> None:
        self.dataset, self.arguments = dataset, arguments
        sound = arguments.sound is not None
        self.samples_of = Samples(
            arguments.names,
            arguments.kinds,
            Layout(arguments.layout),
            False,
            arguments.main,
            arguments.place,
            sound,
            arguments.plain,
            arguments.made,
            arguments.padded,
        )
        self.size: int | None = self._size_of(dataset)
        if self.size == 0:
            raise InvalidArgumentError("the dataset is empty")
        self.workers: Workers | None = None
        self._digested: tuple[int | None, str | None] | None = None  # the Dataset's size when the digest was made, and the digest
        self._watch: ReuseDetector | None = None
        self._waiting: deque[tuple[int, int, list[Future[Any]]]] = deque()
        # Samples that were fetched to find the format of all samples; each is kept until its batch is made.
        self._probes: dict[Item, Fetched] = {}
        self._example: tuple[Any, ...] = ()  # the parts of a sample that did not fail
        self._batch_bytes = 0  # size in bytes of all samples of the latest batch
        self._orders: dict[int, tuple[Callable[[int], int], int]] = {}
        self._start = (0, 0, 0)
        self._begun = threading.Condition()
        self._epoch = -1  # the last epoch that the consumer began; guarded by _begun
        self._closed = False  # guarded by _begun

    def _size_of(self, dataset: Any) -> int | None:
        return len(dataset)

    @property
    def by_index(self) -> Any:
        """Returns the object whose __getitem__ gives the samples."""
        return self.dataset

    def column_names(self) -> Collection[str]:
        return self.dataset.column_names if isinstance(self.dataset, (HubTable, HubStream)) else ()

    def settle(self, spec: Spec, own_order: bool, may_list: bool) -> None:
        self.compares_sizes = may_list and self.by_sample

    def check_divided(self, shard: Shard) -> None:
        from stoker.loader.sources._divided import refuse_divided  # imported here, because it loads hashlib and random

        refuse_divided(self.by_index, self.size, shard, self.arguments.context)

    def by_batches(self, arguments: DatasetArguments) -> Source:
        return self

    def settings(self, spec: Spec) -> dict[str, Any]:
        # max_errors may be a share of an epoch, and the library does not know the epoch's length.
        return {**spec.settings, "max_errors": self.most_errors(spec)} if spec.settings.get("on_error") == "skip" else spec.settings

    def built(self, order: Order | None, build: Callable[[bool], Pipeline]) -> Pipeline:
        if order is not None:
            order.check(self.size or 0)
        return build(True)

    def started(self, session: Session) -> None:
        # All epochs may begin, because a user who runs the pipeline directly does not call let_begin.
        session.before = lambda: self._let_begin(2**62)

    def meta(self, ready: Callable[[], Pipeline]) -> dict[str, Any]:
        return {"samples": self.size, "epoch_size": self.size}

    def division(self, meta: dict[str, Any], spec: Spec, per_rank: bool, samples: Callable[[], int | None]) -> tuple[bool, int, int]:
        return spec.last_batch == "keep", 1 if per_rank else spec.shard.world, samples() or 0

    def check_bucket_by(self) -> None:
        if self.arguments.sound is not None and self.durations() is None:
            raise InvalidArgumentError(
                f"bucket_by: the lengths of the sounds in {self} are not known before they are read: give a list with one key for each sample, such as "
                "its seconds"
            )

    def image_sizes(self, oriented: bool, bad_may_pass: bool) -> list[Size]:
        measure = getattr(self.dataset, "get_height_and_width", None)
        if measure is not None and self.size is not None:
            return [(int(height), int(width)) for height, width in measured(measure, range(self.size), self.size)]
        paths = [self.samples_of.path_of(item) for item in self.dataset] if isinstance(self.dataset, list) else []
        if paths and None not in paths:
            return sizes_of_files(paths, oriented, bad_may_pass)
        return super().image_sizes(oriented, bad_may_pass)

    def some_sizes(self, spec: Spec, samples: Callable[[], int | None], classes: Callable[[], list[str]]) -> Iterable[Size]:
        return self.sizes or []

    def kinds_of_targets(self) -> list[str]:
        return [kind.name for kind in self.samples_of.kinds or ()]

    def resized(self) -> bool:
        """Updates the length from the dataset, and returns whether it changed. Raises InvalidArgumentError if the dataset is empty."""
        before, self.size = self.size, self._size_of(self.dataset)
        if self.size == 0:
            raise InvalidArgumentError("the dataset is empty")
        if self.size != before:
            self._orders = {}
        return self.size != before

    def let_begin(self, epoch: int) -> None:
        """Allows the Dataset's code to run for samples of this epoch. Call when the consumer begins the epoch, not earlier: a training loop may change the
        dataset between two epochs."""
        if epoch > self._epoch and not self.unchanging:  # no call of the Dataset is running
            self._probes.clear()  # samples that were fetched for a pipeline that was built before the epoch began
            if self.workers is not None:
                self.workers.begin_epoch()
        self._let_begin(epoch)

    def _let_begin(self, epoch: int) -> None:
        with self._begun:
            self._epoch = epoch
            self._begun.notify_all()

    def _wait_for(self, epoch: int) -> None:
        """Waits until the consumer has begun this epoch. Raises StopIteration if the source was closed. Runs on the pipeline's thread that calls sources."""
        with self._begun:
            self._begun.wait_for(lambda: self._closed or epoch <= self._epoch)
            if self._closed:
                raise StopIteration

    def fields(self, names: tuple[str, ...] | None) -> dict[str, int | None]:
        return _fields.of_dataset(names, self.targets, self.samples_of.keys)

    # ---- state ----

    def saved(self, spec: Spec) -> dict[str, Any]:
        return {"dataset": self.facts(spec)}

    def reader_facts(self, session: Session, total: int | None) -> dict[str, Any] | None:
        return None

    def facts(self, spec: Spec) -> dict[str, Any]:
        """Returns the facts about the data and their order that a saved state contains: size, shuffle, seed, and the digest if there is one."""
        found = self._digest()
        return {"size": self.size, "shuffle": spec.shuffle, "seed": spec.seed, **({} if found is None else {"digest": found})}

    def _digest(self) -> str | None:
        if self._digested is None or self._digested[0] != self.size:
            self._digested = (self.size, self._make_digest())
        return self._digested[1]

    def _make_digest(self) -> str | None:
        return _same_data.digest_of(self.dataset)

    def _is_digest(self, saved: str) -> bool:
        """Returns whether a state's digest is that of the data. Returns True for data without a digest."""
        return self._digest() in (None, saved)

    def restore(self, state: Saved, spec: Spec) -> None:
        facts = state.dataset
        if facts is None:
            raise StateError(
                "the state is of a Loader that reads its source itself; this one fetches samples by index, as those of a Dataset, of arrays, or of files with a "
                "batch_sampler: give the source and the batch_sampler of the run that was saved"
            )
        if facts.size != self.size:
            raise StateError(f"{_same_data.differ(facts.size, self.size or 0)}: {_same_data.WAY_OUT}")
        if facts.digest is not None and not self._is_digest(facts.digest):
            raise StateError(f"{_same_data.differ(facts.size, facts.size)}: {_same_data.WAY_OUT}")
        if facts.shuffle != spec.shuffle:
            raise StateError(
                f"the state is of a {'shuffled' if facts.shuffle else 'sequential'} run; this Loader is not: give the shuffle of the run that was saved"
            )
        self._orders = {}

    # ---- order ----

    def _sequence(self, epoch: int, spec: Spec, indices: array[int] | None) -> tuple[Callable[[int], int], int]:
        """Returns a function from positions to ids of samples, and the number of positions in an epoch. Caches this order and those of the previous and the
        next epoch, because samples of the next epoch may be fetched while the consumer is still in this one."""
        found = self._orders.get(epoch)
        if found is None:
            found = self._make_sequence(epoch, spec, indices)
            self._orders = {**{e: o for e, o in self._orders.items() if abs(e - epoch) == 1}, epoch: found}
        return found

    def _make_sequence(self, epoch: int, spec: Spec, indices: array[int] | None) -> tuple[Callable[[int], int], int]:
        size = self.size or 0
        if indices is not None:
            gaps = (GAP,) if spec.batches else ()
            bad = next((i for i in indices if not 0 <= i < size and i not in gaps), None)
            if bad is not None:
                raise InvalidArgumentError(f"sampler: it gave the sample {bad}; the dataset has 0 to {size - 1}")
            return indices.__getitem__, len(indices)
        if not spec.shuffle:
            return int, size
        if size > _MOST_STORED:
            return bijection(size, spec.seed, epoch), size
        ids = array("q", range(size))
        import random

        random.Random(f"stoker order {spec.seed} {epoch}").shuffle(ids)
        return ids.__getitem__, size

    def forget_orders(self) -> None:
        self._orders = {}

    def steps_left(self, epoch: int, consumed: int, spec: Spec, indices: array[int] | None, per_rank: bool) -> bool:
        return spec.has_step(self._sequence(epoch, spec, indices)[1], consumed, per_rank)

    def samples(self, epoch: int, positions: Sequence[int], spec: Spec, indices: array[int] | None) -> list[tuple[int, bool]]:
        sample, total = self._sequence(epoch, spec, indices)
        return [(sample(min(p, total - 1)), p >= total) for p in positions]

    def batch(self, epoch: int, first: int, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[Item]:
        """Returns an item (id, Place) for each sample of this rank's batch that begins at position `first`; [] after the end of the epoch."""
        rank = 0 if per_rank else spec.shard.rank
        if not self.steps_left(epoch, first - rank * spec.batch, spec, indices, per_rank):
            return []
        total = self._sequence(epoch, spec, indices)[1]
        # With "keep" a rank without samples in the last step repeats the last sample once, since a batch needs a shape.
        end = first + spec.batch if spec.last_batch == "pad" else max(min(first + spec.batch, total), first + 1)
        return self._items(epoch, range(first, end), spec, indices, per_rank)

    def _items(self, epoch: int, positions: range, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[Item]:
        found = self.samples(epoch, positions, spec, indices)
        if spec.batches:
            found = [(i, padded) for i, padded in found if i != GAP]
        seed, _, _, rank = self.place_of(positions.start, epoch, spec, per_rank)
        return [(i, (seed, epoch, position, rank)) for position, (i, _) in enumerate(found, positions.start)]

    # ---- samples ----

    def place_of(self, position: int, epoch: int, spec: Spec, per_rank: bool) -> Place:
        """Returns the four numbers from which a sample's random generator is seeded: seed, epoch, position, rank (0 if all ranks share one order)."""
        return spec.seed, epoch, position, spec.shard.rank if per_rank else 0

    def _submit(self, items: list[Item]) -> list[Future[Any]]:
        """Starts to fetch samples. Returns one future for each call, which fetches one sample, or several by many(ids). Raises StateError after close()."""
        known: list[Future[Any]] = []
        while self._probes and len(known) < len(items) and items[len(known)] in self._probes:
            from concurrent.futures import Future

            done: Future[Any] = Future()
            done.set_result([self._probes.pop(items[len(known)])])
            known.append(done)
        items = items[len(known) :]
        if not items:
            return known
        if self.workers is None:
            raise StateError("the Loader was closed")
        piece = -(-len(items) // self.workers.count) if self.many else 1
        return known + [self.workers.submit(items[i : i + piece]) for i in range(0, len(items), piece)]

    def _take(self, spec: Spec, indices: array[int] | None, per_rank: bool, epoch: int, first: int) -> Any:
        """Returns one batch, and starts to fetch the samples of up to two more batches if all of them together fit into memory_limit. first: position of the
        batch's first sample. Raises StopIteration at the end of the epoch."""
        batch_bytes = self._batch_bytes or sum(map(bytes_of, self._example)) * spec.batch
        stride = spec.batch * (1 if per_rank else spec.shard.world)
        if self._waiting and self._waiting[0][:2] != (epoch, first):
            self._waiting.clear()
        ask = self._waiting[-1][1] + stride if self._waiting else first
        while ask <= first + _AHEAD * stride and (ask == first or (len(self._waiting) + 1) * batch_bytes <= self.most_bytes(spec)):
            items = self.batch(epoch, ask, spec, indices, per_rank)
            if not items:
                break
            self._waiting.append((epoch, ask, self._submit(items)))
            ask += stride
        if not self._waiting:
            raise StopIteration
        return self._described(_rows_of(self._waiting.popleft()[2]), spec)

    def most_bytes(self, spec: Spec) -> int:
        """Returns memory_limit: the most bytes that a sample may have as the dataset returned it."""
        return _numbers.memory_limit(spec.settings.get("memory_limit"))

    def _described(self, given: Sequence[Fetched], spec: Spec) -> DescribedBatch:
        """Makes a batch for the pipeline: a list for each part of the samples, and the metadata of each sample. For a failed sample, the lists have the parts
        of another sample, which the pipeline ignores because the metadata report the failure."""
        sizes = [sum(map(bytes_of, f.parts or ())) for f in given]
        self._batch_bytes = sum(sizes)
        most = self.most_bytes(spec)
        fetched = (
            given
            if max(sizes, default=0) <= most
            else [f if size <= most else _too_large(f, size, most) for f, size in zip(given, sizes, strict=True)]
        )
        rows = [f.parts for f in fetched]
        if None in rows:
            example = next((row for row in rows if row is not None), self._example)
            rows = [example if row is None else row for row in rows]
        columns = tuple(column(list(parts), number, self.samples_of.plain) for number, parts in enumerate(zip(*rows, strict=True)))
        return DescribedBatch(columns, tuple(f.description for f in fetched))

    def _first_items(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> Iterator[Item]:
        """Yields this rank's items in the order in which they are needed, from the position that begin() set. If no step of that epoch is left, begins with
        the next epoch. Raises InvalidArgumentError if the dataset is too small for one batch."""
        epoch, consumed, _ = self._start
        stride = spec.batch * (1 if per_rank else spec.shard.world)
        at = consumed + (0 if per_rank else spec.shard.rank * spec.batch)
        items = self.batch(epoch, at, spec, indices, per_rank)
        if not items and indices is None:
            epoch, at = epoch + 1, at - consumed  # the loaded state was saved at the end of an epoch
            items = self.batch(epoch, at, spec, indices, per_rank)
        if not items:
            raise InvalidArgumentError(
                f"the dataset has {self.size} samples, too few for one batch of {spec.batch} on each of {spec.shard.world} ranks; last_batch='keep' (or 'pad') "
                "also delivers batches that are not full"
            )
        while items:
            yield from items
            at += stride
            items = self.batch(epoch, at, spec, indices, per_rank)

    def _earlier_items(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> Iterator[Item]:
        """Yields the items that come before the position that begin() set in its epoch."""
        epoch, consumed, _ = self._start
        for at in range(0, consumed, spec.batch):
            yield from self._items(epoch, range(at, min(at + spec.batch, consumed)), spec, indices, per_rank)

    def _first(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> tuple[Any, ...]:
        """Returns the parts of the first sample that does not fail. All samples must have its format. Keeps the fetched samples in _probes until their batches
        are made. If all samples that are left in the epoch of a loaded state fail, the earlier samples of that epoch are searched."""
        try:
            return self._first_of(self._first_items(spec, indices, per_rank), self._earlier_items(spec, indices, per_rank), spec)
        except BaseException:
            if self.workers is not None:  # end the processes now, because the exception's traceback keeps this source alive
                self.workers.close()
                self.workers = None
            raise

    def _first_of(self, items: Iterator[Item], earlier: Iterator[Item], spec: Spec) -> tuple[Any, ...]:
        most = self.most_errors(spec)
        self._probes.clear()
        found = self._find_example(items, spec, most)
        if not found:
            probes, self._probes = self._probes, {}  # no coming batch needs the earlier samples
            found = len(probes) <= most and self._find_example(earlier, spec, most - len(probes))
            self._probes = probes
        if not found:
            failed = next(reversed(self._probes.values())).error
            assert failed is not None
            raise failed
        for probe in self._probes.values():
            forget_frames(probe.error)
        return self._example

    def _find_example(self, items: Iterator[Item], spec: Spec, most: int) -> bool:
        """Fetches samples into _probes until one does not fail, and those that _find_types needs. Returns False if all samples or more than `most` failed."""
        for item in items:
            fetched = self._probe(spec, item)
            self._probes[item] = fetched
            if fetched.parts is not None:
                self._example = fetched.parts
                self._find_types(items, spec)
                return True
            if len(self._probes) > most:
                return False
        return False

    def _find_types(self, items: Iterator[Item], spec: Spec) -> None:
        """Fetches further samples until the type of each target is known. A target without rows, such as an empty list of boxes, has no type. Fetches one
        sample at a time: of several concurrent calls, the one that returns first would decide the type. Then gives the types to the samples fetched before."""
        if self.typed:
            self.samples_of.settle_types(self._example)
        if self.samples_of.has_types():
            return
        assert self.workers is not None
        size = sum(map(bytes_of, self._example))
        while not self.samples_of.has_types() and len(self._probes) < MOST_PROBES and size < self.most_bytes(spec):
            if (item := next(items, None)) is None:
                break
            self._probes[item] = self.workers.fetch_next(item)
            size += sum(map(bytes_of, self._probes[item].parts or ()))
        self.samples_of.settle_types(self._example)
        self.workers.share_format()
        self._probes = {item: self._with_types(fetched) for item, fetched in self._probes.items()}
        self._example = next((fetched.parts for fetched in self._probes.values() if fetched.parts is not None), self._example)

    def _with_types(self, fetched: Fetched) -> Fetched:
        """Converts a sample that was fetched before the types of all targets were known, so that its targets have these types."""
        if fetched.parts is None:
            return fetched
        try:
            return replace(fetched, parts=self.samples_of.with_types(fetched.parts))
        except TypeError as e:
            return replace(fetched, parts=None, error=e)

    def _sizes_of_some(self, spec: Spec) -> list[Size]:
        """Fetches some samples, the same ones on all ranks and in all runs, and returns the (height, width) of their images. Leaves out bad samples. Returns []
        if samples have several images. Fetches at once only as many samples as fit into memory_limit. Raises StalledError if fetching takes longer than
        `timeout`."""
        workers = self.workers
        if workers is None or self.samples_of.several:
            return []
        limit = spec.settings.get("timeout") or None
        indices = list(spread(self.size or 0, _COMPARED))
        at_once = max(1, self.most_bytes(spec) // (sum(map(bytes_of, self._example)) + 1))
        sizes: list[Size] = []
        try:
            with same_generators():
                for k in range(0, len(indices), at_once):
                    futures = [workers.submit([(i, (spec.seed, 0, i, 0))]) for i in indices[k : k + at_once]]
                    if unfinished(futures, limit):
                        raise StalledError(f"no batch for {limit:g} s: the dataset has not returned its first samples")
                    # result() raises an error if a process of python_workers has ended; errors of samples are in the rows
                    found = (self._size_of_fetched(fetched, spec) for future in futures for fetched in future.result())
                    sizes += [size for size in found if size is not None]
        except BaseException:
            workers.close()
            self.workers = None
            raise
        return sizes

    def _size_of_fetched(self, fetched: Fetched, spec: Spec) -> Size | None:
        """Returns height and width of a sample's image; None if fetching failed, which the sample's batch reports, or if the size cannot be read."""
        forget_frames(fetched.error)
        return None if fetched.parts is None else height_and_width(fetched.parts[0], self.samples_of.layout, spec.orientation)

    def most_errors(self, spec: Spec) -> int:
        """Returns how many bad samples an epoch may have before the run fails; 0 unless bad samples are skipped."""
        if spec.settings.get("on_error") != "skip":
            return 0
        limit = spec.settings.get("max_errors")
        limit = 0.01 if limit is None else limit
        return int(limit) if limit >= 1 or limit == 0 else 100 if self.size is None else math.ceil(limit * self.size)

    def _probe(self, spec: Spec, item: Item) -> Fetched:
        """Fetches a sample before the format of samples is known. Makes the workers first if there are none."""
        # A Dataset may have a buffer for each index of a batch, or for each thread. The detector watches enough samples to see such a buffer twice.
        self._watch = self._watch or ReuseDetector(2 * spec.batch + 4 * _threads())
        if self.workers is None:
            self.workers = self._make_workers((FetchMany if self.many else Fetch)(self.dataset, self.samples_of))
        return self.workers.fetch_first(item)

    def _make_workers(self, fetch: Fetch) -> Workers:
        if self.arguments.python_workers:
            return ProcessWorkers(fetch, self.arguments.python_workers, self.arguments.context)
        return Workers(fetch, _threads(), self._watch)

    # ---- graph ----

    def begin(self, epoch: int, consumed: int, base: int) -> None:
        self._start = (epoch, consumed, base)
        self._closed = False

    def nodes(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[DataNode]:
        if spec.settings.get("on_error") == "replace":
            raise InvalidArgumentError(
                "Loader: on_error='replace' is for files that Stoker reads itself; with a Dataset use 'skip', or return another sample in its place"
            )
        shard = (0, 1) if per_rank else (spec.shard.rank, spec.shard.world)
        self.samples_of.settle(spec.orientation, spec.counts_channels)
        example = self._first(spec, indices, per_rank)
        self.views, self.several = self.samples_of.views, self.samples_of.several
        if self.compares_sizes and self.sizes is None:
            self.sizes = self._sizes_of_some(spec)
        base = self._start[2]
        kinds = self.samples_of.kinds or []
        self.targets = len(kinds)
        self._check_types(spec, example)
        self._check_targets(spec, example)
        finish = self._finish(example, kinds)

        def source(epoch: int, position: int, _count: int) -> Any:
            if indices is not None and epoch > 0:
                raise StopIteration  # the user's order covers one epoch
            if not self.unchanging or spec.in_python:
                self._wait_for(base + epoch)
            return self._take(spec, indices, per_rank, base + epoch, position)

        pictures = self.samples_of.pictures
        # The indices of the main image and of its further views, which come last. Images of other fields are in `pictures`.
        given = [] if self.arguments.plain else [0, *range(len(example) - self.samples_of.views, len(example))]
        if len(given) > 1 and spec.images > 1:
            raise InvalidArgumentError(
                "the dataset gives several views of an image: give transforms, which each of them passes, and no views=, FiveCrop or TenCrop"
            )
        layouts = {
            **dict.fromkeys(given, self.samples_of.layout.common if given and is_array(example[0]) else None),
            **{k: "HW" if example[k].ndim == 2 else "HWC" for k, kind in enumerate(kinds, 1) if kind.name == MASK},
            **{k: self.samples_of.picture(k).layout.common if is_array(example[k]) else None for k in pictures},
        }
        nodes = fn.external_source(
            ByPosition(source, shard, self.close, not spec.batches),
            num_outputs=len(example),
            layout=[layouts.get(k) for k in range(len(example))],
            name="Dataset",
            no_copy=True,  # the arrays are the source's own: buffers that the dataset reuses were copied after the fetch
        )
        moving = {k: self._field(nodes[k], kind, example[k], k, spec) for k, kind in enumerate(kinds, 1) if kind.name in (MASK, *PICTURES)}
        boxes = next(((nodes[k], kind.format) for k, kind in enumerate(kinds, 1) if kind.name == BOXES), None)
        followers = Followers(nodes[-1], list(moving.values()), boxes) if self.samples_of.follow else None
        finished, *views = (
            [view for k in given for view in spec.finished(self._image(nodes[k], example[k], followers, spec))]
            if given
            else [nodes[0] if 0 in finish else spec.upload(nodes[0])]
        )
        flat = {k for k in pictures if kinds[k - 1].name == FLOATS and self.samples_of.picture(k).flat}
        for k in (k for k, kind in enumerate(kinds, 1) if kind.name == MASK):
            given_type = _type_name(example[k])
            _check_fills(given_type, spec)
            self._convert_mask(moving[k], spec, given_type)
        padded = {k: spec.padded(field.node, field.kind) for k, field in moving.items()}
        moved = {k: fn.squeeze(node, axes=[0]) if k in flat else node for k, node in padded.items()}
        # Targets that Python converts after the pipeline, those in `finish`, stay in host memory.
        targets = [moved[k] if k in moved else nodes[k] if k in finish else spec.upload(nodes[k]) for k in range(1, 1 + self.targets)]
        names = {k: name for name, k in self.fields(self.arguments.names).items() if k is not None}
        images = [k for k in pictures if k not in flat]
        self.finishing = Finishing(
            {names[k]: f for k, f in finish.items() if k in names}, uneven=False, vectors=False, images=images, image=bool(given)
        )
        if followers is None:
            return [finished, *targets, *views]
        self._let_follow(followers, nodes[-1])
        return [finished, *targets, followers.numbers()]

    @staticmethod
    def _convert_mask(field: Field, spec: Spec, given: str) -> None:
        """Converts a mask, whose elements have the type `given`, to the type that a transform demands (ToDtype). It was moved in its own type, because that has
        fewer bytes. Raises InvalidArgumentError if the type cannot hold all values: torchvision would keep only their lowest bits."""
        dtype = spec.views[0].dtypes.get(MASK)
        if dtype is None:
            return
        import numpy as np

        wanted = types.dtype_name(dtype)
        if not wanted.startswith(("float", "bfloat", "bool")) and not np.can_cast(given, wanted):
            raise InvalidArgumentError(
                f"ToDtype converts {MASK} to {wanted}, which cannot hold all values of {given}, the type that the dataset gives: convert masks in the Dataset, "
                f"or give None for {MASK} and convert them on the batch"
            )
        field.node = fn.cast(field.node, dtype=dtype)

    def _field(self, node: DataNode, kind: Kind, example: Any, k: int, spec: Spec) -> Field:
        """Makes the Field of a part that is a mask, a further image or a map of floats. Images and maps become HWC. k: the part's index in the sample. Raises
        InvalidArgumentError for a map of vectors that does not have two channels."""
        if kind.name == MASK:
            return Field(spec.upload(node), MASK)
        floats = kind.name == FLOATS
        if not is_array(example):
            return Field(spec.decode(node, floats), kind.name, kind.format == VECTORS, floats)
        layout = self.samples_of.picture(k).layout
        channels = layout.channels(example)
        if kind.format == VECTORS and channels != 2:
            raise InvalidArgumentError(
                f"{self.samples_of.picture(k).what} is a FloatMap of vectors with {channels} channels: it has two, the parts along x and y"
            )
        node = spec.upload(node)
        node = fn.transpose(node, perm=[1, 2, 0]) if layout.common == "CHW" else node
        return Field(node, kind.name, kind.format == VECTORS, example.dtype.kind == "f", channels == 1 and kind.name == IMAGE, channels)

    def _image(self, node: DataNode, example: Any, followers: Followers | None, spec: Spec) -> Image:
        """Makes the Image of the node, with arrays as HWC. An operator transposes CHW arrays, because NumPy would take three times as long on one thread.
        Raises InvalidArgumentError for arrays if the user wants clips."""
        if not is_array(example):
            return spec.image(node, followers)
        if spec.video is not None:
            raise InvalidArgumentError(
                "Loader: the dataset gives arrays or images where clips are wanted: give paths or bytes of videos, or leave out frames"
            )
        for view in spec.views:
            if self.samples_of.tensors:
                refuse_other_tensors(view.steps)
            refuse_other_kind(view, self.samples_of.image_kind)
        layout = self.samples_of.layout
        if spec.as_given and self.in_memory and self.samples_of.tensors and example.dtype.kind == "u":
            spec.keep_bytes()
        node = spec.upload(node)
        if layout.common == "CHW":
            node = fn.transpose(node, perm=[1, 2, 0])
        channels = layout.channels(example)
        return Image(node, None, followers, example.dtype.kind == "f", channels == 1, channels)

    def _finish(self, example: tuple[Any, ...], kinds: list[Kind]) -> dict[int, Finish]:
        """Returns a dict from the index of a part to the conversion of its output in a batch. Parts that need no conversion have no entry. Raises
        InvalidArgumentError if `ragged` names an unknown field, or one of strings."""
        shown = self.fields(self.arguments.names)
        for name in self.arguments.ragged:
            if not shown.get(name) and not (self.arguments.plain and name in shown):
                raise InvalidArgumentError(f"ragged: there is no target {name!r}; the fields are {', '.join(shown)}")
        ragged = {shown[name]: name for name in self.arguments.ragged}
        finish: dict[int, Finish] = {}
        given = self.samples_of.given or {}
        names = dict(enumerate(self.samples_of.names_of_parts(), 1))
        # If samples have boxes or points, other parts may have a row for each box or point. Such parts become lists as well, even if all samples of a batch
        # have equally many rows.
        rows = any(kind.name in (BOXES, POINTS) for kind in kinds)
        images = (self.arguments.kinds or {}).get("image", Kind()).format
        parts = list(enumerate(zip(kinds, example[1:], strict=False), 1))
        if self.arguments.plain:
            parts.insert(0, (0, ((self.arguments.kinds or {}).get("image", Kind()), example[0])))
        for k, (kind, part) in parts:
            if isinstance(part, str):
                if k in ragged:
                    name = self.arguments.main if ragged[k] == "image" else ragged[k]
                    raise InvalidArgumentError(f"ragged: {name!r} holds strings, and a RaggedBatch holds numbers: leave it out of ragged")
                finish[k] = by_value(_targets.texts)
            elif k in ragged or kind.is_list or (rows and kind.name == OTHER and part.ndim and names.get(k) not in given):
                finish[k] = Lists(k in ragged, format=PLACES if kind.name == POINTS else kind.format)
            elif kind.name == MASK and part.ndim == 3:
                finish[k] = Planes(rows or LIST in (kind.format, images))
        return finish

    def list_fields(self, kinds: dict[str, Kind] | None) -> set[str]:
        parts = dict(zip(self.samples_of.names_of_parts(), self.samples_of.kinds or (), strict=False))
        found = super().list_fields({**(kinds or {}), **parts})
        for finish in self.finishing.finish.values():
            if isinstance(finish, Planes):
                finish.listed = True
        return found

    def _let_follow(self, followers: Followers, geometry: DataNode) -> None:
        """Adds conversions that move boxes and points as the transforms moved the image, and that remove the boxes and points that transforms drop. The
        conversions run for a whole batch. The output after the targets has the numbers of each sample's crops, flips and so on. Raises UnsupportedError if
        boxes or points cannot follow a transform, and InvalidArgumentError if a field that should lose the rows of removed boxes has no rows."""
        numbers = self.targets + 1
        shown = {k: name for name, k in self.fields(self.arguments.names).items()}
        for at, k in enumerate(self.samples_of.stacks, 2):
            stack = self.finishing.finish.get(shown.get(k, ""))
            if isinstance(stack, Planes):
                stack.numbers, stack.column = numbers, followers.column_of(geometry[at])
        keep = self._keep(followers, numbers)
        rows = self._rows_of_boxes(followers) if keep is not None else set()
        names = {name for k, name in shown.items() if k}
        finishes: dict[str, Finish] = {**{name: Lists(False) for name in rows & names}, **self.finishing.finish}
        self.finishing = replace(self.finishing, finish=finishes)
        for name, finish in finishes.items():
            if isinstance(finish, Planes):
                finish.keep = keep
            if isinstance(finish, Lists) and not finish.format and name in rows:
                finish.keep, finish.what = keep, name
            elif name in rows and not isinstance(finish, (Lists, Planes)):
                raise InvalidArgumentError(
                    f"a transform removes boxes, and would have to remove their rows of {name!r}, which holds strings or Python objects: give numbers, or a name "
                    "without 'label'; labels_getter of SanitizeBoundingBoxes names the fields that have a row for each box"
                )
            if isinstance(finish, Lists) and finish.format:
                if followers.only_masks:
                    raise UnsupportedError(f"{followers.only_masks}: masks follow it, but neither boxes nor points can, as in torchvision")
                finish.moves, finish.numbers = followers.moves, numbers
        self.finishing.needed = (numbers,)

    def _keep(self, followers: Followers, numbers: int) -> Keep | None:
        """Returns a Keep, which finds the boxes that remain after the transforms; None if no transform removes boxes, or if samples have no boxes. numbers:
        index of the output with the numbers of each sample's crops, flips and so on."""
        if not any(isinstance(move, Remove) for move in followers.moves):
            return None
        for k, kind in enumerate(self.samples_of.kinds or (), 1):
            if kind.name == BOXES:
                return Keep(k, kind.format, followers.moves, numbers)
        return None

    def _rows_of_boxes(self, followers: Followers) -> set[str]:
        """Returns the names of the fields that lose a row for each removed box. Raises InvalidArgumentError if labels_getter names no field."""
        names = self.samples_of.names_of_parts()
        rows: set[str] = set()
        for wanted in followers.labels:
            if wanted == "default":
                labels = [n for n in names if n.lower() == "labels"] or [n for n in names if "label" in n.lower()]
                rows |= {*labels[:1]}
            elif wanted and wanted not in names:
                raise InvalidArgumentError(f"SanitizeBoundingBoxes: labels_getter is {wanted!r}; the fields are {', '.join(names)}")
            elif wanted:
                rows.add(wanted)
        return rows

    def _check_types(self, spec: Spec, example: tuple[Any, ...]) -> None:
        """Raises InvalidArgumentError for boxes or points of another type than that to which a transform converts them."""
        for target, kind in zip(example[1:], self.samples_of.kinds or (), strict=False):
            wanted = None if kind.name == MASK else spec.views[0].dtypes.get(kind.name)
            if wanted is not None and _type_name(target) != types.dtype_name(wanted):
                raise InvalidArgumentError(
                    f"ToDtype converts {kind.name} to {types.dtype_name(wanted)}, and the dataset gives them as {_type_name(target)}: a Loader keeps their type. "
                    f"Convert them in the Dataset, or give None for {kind.name} and convert them on the batch"
                )

    def _check_targets(self, spec: Spec, example: tuple[Any, ...]) -> None:
        """Raises InvalidArgumentError for a target with the shape of a mask or of boxes, if transforms move the image and the user did not give the kind."""
        named = {k for k, name in enumerate(self.samples_of.names_of_parts(), 1) if name in (self.samples_of.given or {})}
        for k, (target, kind) in enumerate(zip(example[1:], self.samples_of.kinds or (), strict=False), 1):
            shape = getattr(target, "shape", ())
            if spec.moves and len(shape) >= 2 and not kind.follows and k not in named:
                raise InvalidArgumentError(
                    f"target {k} of the dataset has the shape {tuple(shape)}: a mask, boxes or points would have to follow the crops and flips of the image. "
                    "Say what it is, as in fields={'image': 'Image', 'target': 'Mask'} (or 'BoundingBoxes', 'KeyPoints'; None: it is taken as it is)"
                )

    def close(self) -> None:
        with self._begun:
            self._closed = True
            self._begun.notify_all()
        if self.workers is not None:
            self.workers.close()
            self.workers = None
        if self._watch is not None:
            self._watch.forget()
        self._waiting.clear()

    def __repr__(self) -> str:
        return f"{type(self.dataset).__name__}" + (f" of {self.size}" if self.size is not None else "")
