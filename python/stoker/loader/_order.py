# SPDX-License-Identifier: Apache-2.0
"""Orders of samples that the user gives: a function of the epoch, weights, a list of ids, one of torch's samplers, or batches of ids."""

from __future__ import annotations

import itertools
import math
import operator
import traceback
from array import array
from collections.abc import Callable, Iterable, Iterator
from types import GeneratorType
from typing import Any

from stoker._where import notice
from stoker.errors import InvalidArgumentError, StateError

GAP = -1  # fills the lists of ids of batches that have fewer samples than the largest batch
LARGEST_BATCH = 1 << 20

# The next ids of an epoch, and an iterator over the ids after them, or None if these are the last.
Further = tuple["array[int]", Iterator[Any] | None]


class Order:
    """Base of the orders. indices(epoch) returns the ids of an epoch's samples in order. per_rank: whether these are the ids of this rank only; otherwise they
    are those of all ranks together. most: the most ids that are drawn at once from a sampler without a length, which may never end. rest: an iterator over the
    epoch's further ids; None if there are none."""

    per_rank = False
    most = 1 << 20
    rest: Iterator[Any] | None = None
    _drawn_from: Iterator[Any] | None = None  # the user's iterator that `rest` draws from
    name = "the sampler"  # the Loader's argument, for an error message
    repeated = ""  # for an error message: how to make the order return the same ids for an epoch again

    def indices(self, epoch: int) -> array[int]:
        raise NotImplementedError

    def more(self) -> Further:
        """Returns the next ids of the epoch, at most `most`; no ids at its end. Until the caller sets `rest` to the second part of the result, all calls return
        the same ids, so that an interrupt loses none. An exception that passes through the user's generator ends it: all later calls in this epoch then raise
        StateError, because the further ids are lost. The end of a generator inside another iterator is not noticed."""
        assert self.rest is not None
        rest, ids = self.rest, array("q")
        self.rest = itertools.chain(ids, rest)  # before the first id is drawn, since an interrupt may come at any call
        try:
            ids.extend(map(operator.index, itertools.islice(rest, self.most)))
        except BaseException as e:
            if _has_ended(self._drawn_from, e):
                self.rest = _Lost(self.name)
            raise
        return ids, None if len(ids) < self.most else rest

    def _begun(self, ids: Iterable[int]) -> array[int]:
        """Returns the first ids of an epoch: all if `ids` has a length, else at most `most`. Sets `rest` to an iterator over further ids, or to None."""
        self.rest = None
        if hasattr(ids, "__len__"):
            return _as_array(ids)
        iterator = self._drawn_from = iter(ids)
        further = itertools.chain(iterator)  # calls iter(iterator) only here: it may begin again, if the sampler is its own iterator
        first = _as_array(itertools.islice(further, self.most), once=iterator is ids)
        self.rest = further if len(first) == self.most else None
        return first

    def length(self) -> int | None:
        """Returns the number of ids in an epoch; None if it is not known without drawing them."""
        return None

    def check(self, samples: int) -> None:
        """Raises InvalidArgumentError if the order does not fit a data set of this many samples. The base class accepts any number."""

    def go_on_with(self, seed: int) -> None:
        """Replaces the seed by that of the saved run, from whose state the Loader continues. Only orders that draw numbers themselves have a seed."""


class _Lost:
    """An iterator over ids that are lost: it raises StateError."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __iter__(self) -> _Lost:
        return self

    def __next__(self) -> Any:
        raise StateError(
            f"an exception has ended {self.name}, a generator, in the middle of the epoch: its further ids are lost. To begin the epoch again, call "
            "set_epoch(loader.epoch) and iterate again"
        )


def _has_ended(iterator: Iterator[Any] | None, error: BaseException) -> bool:
    """Returns whether `error` has passed through a generator, which ends it. A generator that had no further ids has lost none."""
    if not isinstance(iterator, GeneratorType) or iterator.gi_frame is not None:
        return False
    return any(frame.f_code is iterator.gi_code for frame, _ in traceback.walk_tb(error.__traceback__))


class FunctionOrder(Order):
    repeated = "the function has to give an epoch the same ids whenever it is called"

    def __init__(self, function: Callable[[int], Iterable[int]]) -> None:
        self.function = function

    def indices(self, epoch: int) -> array[int]:
        ids = self.function(epoch)
        if not hasattr(ids, "__iter__"):
            raise InvalidArgumentError(f"sampler: the function of the epoch returns the ids of its samples, not {type(ids).__name__}")
        return self._begun(ids)


class WeightedOrder(Order):
    """Draws as many ids as there are weights, by weight and with replacement. The draws depend only on the seed and the epoch."""

    repeated = "give the weights and the seed of that run"

    def __init__(self, weights: Iterable[float], seed: int) -> None:
        self.weights = [_weight(w) for w in weights]
        if min(self.weights) < 0 or not 0 < sum(self.weights) < math.inf:
            raise InvalidArgumentError("sampler: weights are not negative, some are greater than zero, and their sum is finite")
        self.cumulative = list(itertools.accumulate(self.weights))
        self.seed = seed

    def indices(self, epoch: int) -> array[int]:
        import random

        draw = random.Random(f"stoker weights {self.seed} {epoch}")
        return array("q", draw.choices(range(len(self.weights)), cum_weights=self.cumulative, k=len(self.weights)))

    def length(self) -> int:
        return len(self.weights)

    def go_on_with(self, seed: int) -> None:
        self.seed = seed

    def check(self, samples: int) -> None:
        if len(self.weights) != samples:
            raise InvalidArgumentError(
                f"sampler: there are {len(self.weights)} weights; the data set has {samples} samples, and each needs one"
            )


def _weight(value: Any) -> float:
    if isinstance(value, (list, tuple)) or getattr(value, "ndim", None):
        raise InvalidArgumentError(
            f"sampler: it is a list of lists, {value!r:.80} and so on; lists of the ids of each batch are a batch_sampler"
        )
    if isinstance(value, (str, bytes)) or not hasattr(value, "__float__"):
        raise InvalidArgumentError(f"sampler: it has the ids of samples, or a number for each sample as its weight, and not {value!r:.80}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


class SamplerOrder(Order):
    """Takes the ids from one of torch's samplers, or from a list or another iterable. As with a DataLoader, these are the samples of this rank."""

    per_rank = True
    repeated = (
        "one that draws again cannot go on in mid-epoch. Give a function of the epoch, which gives it the same ids again (sampler=lambda epoch: ...), "
        "or shuffle=True"
    )

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def indices(self, epoch: int) -> array[int]:
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)
        return self._begun(self.sampler)

    def length(self) -> int | None:
        try:
            return len(self.sampler)
        except TypeError:
            return None


class ListOrder(SamplerOrder):
    """Takes the ids from a list of whole numbers. Such a list, with an entry for each sample, may have been meant as weights, which torch takes as whole numbers
    too. Weights have few different values, and are rarely 0. Ids that were drawn with replacement have about 0.63 times as many values as entries if all
    samples were equally likely, and fewer if some were drawn more often, as to balance classes."""

    def check(self, samples: int) -> None:
        values = set(self.sampler)
        if len(self.sampler) != samples or len(values) == samples:
            return
        many = 2 * len(values) > samples or (0 in values and len(values) > max(2, samples // 10))
        if not many or max(values) >= samples:
            raise InvalidArgumentError(
                f"sampler: ids or weights? It is a list of {samples} whole numbers, one for each sample, with {len(values)} different values. Weights are "
                "floats: sampler=[float(w) for w in weights]. For ids give a function of the epoch: sampler=lambda epoch: ids (those of all ranks)"
            )
        notice(
            f"sampler: its {samples} whole numbers, one for each sample, are taken as ids of samples; [float(w) for w in weights] makes weights of them"
        )


class BatchOrder(Order):
    """Takes the batches of this rank from one of torch's batch samplers, or from a list of lists. Fills smaller batches with GAP, so that all have the size of
    the epoch's largest one."""

    per_rank = True
    name = "the batch_sampler"
    repeated = SamplerOrder.repeated

    def __init__(self, batches: Any) -> None:
        if not hasattr(batches, "__iter__"):
            raise InvalidArgumentError(
                f"batch_sampler is one of torch's batch samplers, or a list of lists of ids, not {type(batches).__name__}"
            )
        self.batches = batches
        self.largest = 1  # size of the epoch's largest batch

    def indices(self, epoch: int) -> array[int]:
        for sampler in (self.batches, getattr(self.batches, "sampler", None)):
            set_epoch = getattr(sampler, "set_epoch", None)
            if set_epoch is not None:
                set_epoch(epoch)
        rows = [_as_array(batch, "batch_sampler", "this batch") for batch in self.batches]
        if not rows:
            raise InvalidArgumentError("batch_sampler: it gave no batches for this epoch")
        self.largest = max(map(len, rows))
        if self.largest > LARGEST_BATCH:
            raise InvalidArgumentError(f"batch_sampler: a batch has at most {LARGEST_BATCH} samples, not {self.largest}")
        ids = array("q")
        for row in rows:
            ids.extend(row)
            ids.extend([GAP] * (self.largest - len(row)))
        return ids

    def length(self) -> int | None:
        try:
            return len(self.batches) * self.largest
        except TypeError:
            return None


def _as_array(ids: Iterable[int], what: str = "sampler", where: str = "this epoch", once: bool = False) -> array[int]:
    try:
        result = array("q", map(operator.index, ids))
    except (TypeError, ValueError, OverflowError) as e:
        if e.__traceback__ is not None and e.__traceback__.tb_next is not None:  # an error of the sampler's own Python
            raise
        raise InvalidArgumentError(f"{what}: it gives whole numbers, the ids of samples ({e})") from None
    if result and max(result) <= 1 and (isinstance(ids, (list, tuple)) or hasattr(ids, "tolist")):
        _refuse_bools(map(_plain, ids), what)
    if not result:
        why = ": it can be iterated once; a list, or a function of the epoch, gives each epoch its samples" if once else ""
        raise InvalidArgumentError(f"{what}: it gave no samples for {where}{why}")
    if (least := min(result)) < 0:
        raise InvalidArgumentError(
            f"{what}: it gave the sample {least}; samples are numbered from 0, and negative numbers do not count from the end"
        )
    return result


def _plain(value: Any) -> Any:
    """Converts a number of NumPy, and a tensor or array without dimensions, to Python's type."""
    return value.item() if hasattr(value, "item") and not getattr(value, "ndim", 0) else value


def _refuse_bools(values: Iterable[Any], what: str) -> None:
    if any(isinstance(v, bool) for v in values):
        raise InvalidArgumentError(
            f"{what}: it is a list of True and False; give the ids of the samples that you want, as numpy.flatnonzero(mask)"
        )


def make_order(sampler: Any, seed: int) -> Order | None:
    """Makes the order for the Loader's argument `sampler`; None if the user gave none. seed: for weights. Raises InvalidArgumentError for other objects, and
    for a list of bools."""
    if sampler is None:
        return None
    if callable(sampler) and not hasattr(sampler, "__iter__"):
        return FunctionOrder(sampler)
    values = sampler.tolist() if hasattr(sampler, "tolist") else sampler
    if isinstance(values, (list, tuple)):
        if any(hasattr(kind, "item") for kind in set(map(type, values))):  # list(numpy.random.permutation(n)) has numbers of NumPy's types
            values = list(map(_plain, values))
        _refuse_bools(values, "sampler")
        # A list of whole numbers has ids, as for a DataLoader. A list with another number in it has weights.
        return ListOrder(values) if all(isinstance(v, int) for v in values) else WeightedOrder(values, seed)
    if hasattr(sampler, "__iter__"):
        return SamplerOrder(sampler)
    raise InvalidArgumentError(
        f"sampler is a function of the epoch, a list of ids, a list of floats as weights, or one of torch's samplers, not {type(sampler).__name__}"
    )
