# SPDX-License-Identifier: Apache-2.0
"""Where external_source takes its samples from: callables, iterables, generators, and feed_input.

Each source has pull(epoch, batch, index, count, position): a list of arrays for each output, or None at the end of the epoch; and
reset(epoch). Both are called on the pipeline's callback thread, one call at a time.
"""

from __future__ import annotations

import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from stoker import _core
from stoker._arrays import as_buffer, samples_of, with_dtype
from stoker._types import BatchInfo, SampleInfo
from stoker.errors import InvalidArgumentError

# What a source's samples depend on, and so where a restored run may begin: stk_seek of the library.
_BY_CALLS, _BY_BATCH, _BY_POSITION = 0, 1, 2

Pulled = list[list[Any]] | None


class Source:
    """What all sources share: number of outputs, declared types, and the exceptions kept for the consumer."""

    per_sample = False
    seek = _BY_CALLS
    shard = (0, 1)  # without a reader: which batches of the global sequence these are

    def __init__(self, outputs: int, single: bool, layouts: tuple[str, ...], dtypes: tuple[int | None, ...], copy: bool) -> None:
        self.outputs = outputs
        self.copy = copy  # what the source gives may be written to later, before the workers have read it
        self.single = single  # the source gives the data itself, not a tuple with one entry an output
        self.layouts = layouts  # as declared; "" where they are not
        self.dtypes = dtypes
        self.ends: deque[int] = deque(maxlen=64)  # epochs that ended here, lately
        self.handle = _core.Source(self.pull, self.reset, layouts, self.per_sample, self.seek, self.shard)

    def pull(self, epoch: int, batch: int, index: int, count: int, position: int) -> Pulled:
        """On the callback thread."""
        try:
            given = self.take(epoch, batch, index, count, position)
        except StopIteration:
            self.ends.append(epoch)
            return None
        except Exception as e:
            e.add_note(f"in the callable of external_source, for sample {position} of epoch {epoch} (batch {batch})")
            raise
        return self.split(given, index, count)

    def split(self, given: Any, index: int, count: int) -> list[list[Any]]:
        """What the user gave, as a list of samples for each output: a batch of up to `count` samples, or one sample where index >= 0."""
        parts = (given,) if self.single else given
        if not isinstance(parts, (tuple, list)) or len(parts) != self.outputs:
            what = f"{len(parts)} things" if isinstance(parts, (tuple, list)) else type(parts).__name__
            raise ValueError(
                f"external_source: num_outputs={self.outputs}, but the source gave {what}; it gives a tuple with one entry an output"
            )
        lists = [[as_buffer(p, self.copy)] for p in parts] if index >= 0 else [samples_of(p, count, self.copy) for p in parts]
        return [[with_dtype(x, dtype) for x in items] for items, dtype in zip(lists, self.dtypes, strict=True)]

    def take(self, epoch: int, batch: int, index: int, count: int, position: int) -> Any:
        """The user's data; StopIteration at the end of the epoch."""
        raise NotImplementedError

    def reset(self, epoch: int) -> None:
        """A new epoch begins."""

    def ended_in(self, epoch: int) -> bool:
        """Whether the source had no more data in this epoch."""
        return epoch in self.ends

    def close(self) -> None:
        """The pipeline ends: no pull may wait any longer."""

    def take_error(self, epoch: int, position: int) -> BaseException | None:
        """The exception kept for a sample, or the oldest one; it is not kept any longer."""
        errors = self.handle.errors
        for i, entry in enumerate(errors):
            if entry[0] == epoch and entry[2] == position:
                return errors.pop(i)[4]
        return errors.pop(0)[4] if errors else None


class CallableSource(Source):
    """A callable: of SampleInfo (batch=False), of nothing, of the iteration, or of BatchInfo."""

    def __init__(self, function: Callable[..., Any], per_sample: bool, batch_info: bool, **kwargs: Any) -> None:
        self.per_sample = per_sample
        self.function = function
        self.batch_info = batch_info
        self.with_argument = per_sample or _takes_argument(function)
        self.seek = _BY_BATCH if self.with_argument else _BY_CALLS
        super().__init__(**kwargs)

    def take(self, epoch: int, batch: int, index: int, count: int, position: int) -> Any:
        if self.per_sample:
            return self.function(SampleInfo(batch * count + index, index, batch, epoch))
        if not self.with_argument:
            return self.function()
        return self.function(BatchInfo(batch, epoch) if self.batch_info else batch)


@dataclass
class ByPosition:
    """A function of (epoch, position, count) as a source: the samples from a position of the epoch's global sequence on. Ranks share the
    sequence: rank i of n is asked for every n-th batch."""

    function: Callable[[int, int, int], Any]
    shard: tuple[int, int] = (0, 1)


class PositionSource(Source):
    """ByPosition."""

    seek = _BY_POSITION

    def __init__(self, given: ByPosition, **kwargs: Any) -> None:
        self.function = given.function
        self.shard = given.shard
        super().__init__(**kwargs)

    def take(self, epoch: int, batch: int, index: int, count: int, position: int) -> Any:
        return self.function(epoch, position, count)


class IterableSource(Source):
    """An iterable or generator of batches. cycle: None or False (ends for good), True or "quiet" (starts over without an end), "raise" (ends
    each epoch)."""

    def __init__(self, iterable: Iterable[Any], cycle: str | bool | None, **kwargs: Any) -> None:
        self.iterable = iterable
        self.cycle = "quiet" if cycle is True else cycle or None
        self.iterator: Iterator[Any] | None = None
        super().__init__(**kwargs)

    def _restart(self) -> Iterator[Any]:
        # A generator function starts anew; a generator that is running cannot.
        self.iterator = iter(self.iterable() if inspect.isgeneratorfunction(self.iterable) else self.iterable)
        return self.iterator

    def take(self, epoch: int, batch: int, index: int, count: int, position: int) -> Any:
        iterator = self.iterator or self._restart()
        try:
            return next(iterator)
        except StopIteration:
            if self.cycle != "quiet":
                raise
        return next(self._restart())

    def reset(self, epoch: int) -> None:
        super().reset(epoch)
        if self.cycle == "raise":
            self.iterator = None


class FedSource(Source):
    """Batches that the user hands in with feed_input; after a restore, those behind the state."""

    seek = _BY_POSITION

    def __init__(self, **kwargs: Any) -> None:
        self.queue: deque[tuple[list[list[Any]], tuple[str, ...]]] = deque()
        self.ready = threading.Condition()
        self.fed = 0
        self.closed = False
        super().__init__(**kwargs)

    def feed(self, data: Any, limit: int, layout: str | None = None) -> None:
        """Takes a batch of up to `limit` samples, on the user's thread: when this returns, the arrays may be written to (no_copy=False)."""
        samples = super().split(data, -1, limit)
        layouts = tuple(layout or declared for declared in self.layouts)
        for given, declared in zip(layouts, self.layouts, strict=True):
            if declared and given != declared:
                raise InvalidArgumentError(f"feed_input: the layout {given!r}, where the external_source declares {declared!r}")
        with self.ready:
            self.queue.append((samples, layouts))
            self.fed += 1
            self.ready.notify()

    def take(self, epoch: int, batch: int, index: int, count: int, position: int) -> Any:
        with self.ready:
            self.ready.wait_for(lambda: self.queue or self.closed)
            if not self.queue:
                raise StopIteration
            samples, self.handle.layouts = self.queue.popleft()
            return samples

    def split(self, given: Any, index: int, count: int) -> list[list[Any]]:
        """As it was split when it was fed."""
        samples: list[list[Any]] = given
        return samples

    def close(self) -> None:
        with self.ready:
            self.closed = True
            self.ready.notify_all()


def _takes_argument(function: Callable[..., Any]) -> bool:
    """Whether a callable wants an argument; one that cannot be asked does."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(p.kind in kinds and p.default is inspect.Parameter.empty for p in parameters)


def make_source(source: Any, batch: bool, cycle: str | bool | None, batch_info: bool, **kwargs: Any) -> Source:
    """The source for what a user gave."""
    if source is None:
        return FedSource(**kwargs)
    if isinstance(source, ByPosition):
        return PositionSource(source, **kwargs)
    if callable(source) and not inspect.isgeneratorfunction(source):
        if cycle is not None and cycle is not False:
            raise ValueError("external_source: cycle is for iterables; a callable ends an epoch by raising StopIteration")
        return CallableSource(source, not batch, batch_info, **kwargs)
    if not inspect.isgeneratorfunction(source) and not hasattr(source, "__iter__") and not hasattr(source, "__next__"):
        raise TypeError(f"external_source: source is a callable, an iterable or a generator, not {type(source).__name__}")
    if not batch:
        raise TypeError("external_source: batch=False needs a callable that takes a SampleInfo")
    if cycle in ("quiet", "raise", True) and inspect.isgenerator(source):
        raise TypeError("external_source: a generator cannot start over: give the generator function, or an iterable, with cycle")
    return IterableSource(source, cycle, **kwargs)
