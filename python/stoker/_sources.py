# SPDX-License-Identifier: Apache-2.0
"""The sources of external_source: callables, iterables, generators, and feed_input.

Each source has a method pull(), which returns a batch, with a list of arrays or one array for each output, or None at the end of the epoch. The method
reset(epoch) begins an epoch. The pipeline's callback thread calls both, one call at a time.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from stoker import _core
from stoker._arrays import as_buffer, layout_of, samples_of, wait_for, with_dtype
from stoker._on_gpu import GpuSamples, gpu_samples
from stoker._processes import Processes, Raised
from stoker._types import BatchInfo, SampleInfo
from stoker.errors import InvalidArgumentError

# Each constant names what a source's samples depend on: its calls since the epoch began, the batch's number, the position, or all of its calls. This decides
# where a restored run may begin. The values are those of enum stk_seek in the C library.
BY_CALLS_OF_EPOCH, _BY_BATCH, _BY_POSITION, BY_ALL_CALLS = range(4)

Pulled = list[Any] | None


class KeptErrors:
    """Base of sources and of python_function's functions. `handle` stores exceptions of users' code until the consumer asks for the sample."""

    handle: _core.Source
    uploads = False  # whether the samples are only copied to the GPU, so that no code on the CPU reads them
    device_id: int | None = None  # number of the GPU that the pipeline uses; None: it uses none
    first_epoch = 0  # number that messages give to the first epoch

    def take_error(self, epoch: int, position: int) -> BaseException | None:
        """Removes and returns the exception of a sample, or the oldest one if position is negative; None if there is no such exception."""
        errors = self.handle.errors
        for entry in list(errors):
            if position < 0 or (entry[0] == epoch and entry[2] == position):
                with suppress(ValueError):  # a library thread has removed it from the list in this moment
                    errors.remove(entry)
                return entry[4]
        return None


class Source(KeptErrors):
    """Base of all sources. Converts the user's data to buffers for the C library, and stores exceptions until the consumer asks for them."""

    seek = BY_ALL_CALLS
    shard = (0, 1)  # (i, n): takes batches i, i + n, i + 2 * n, ... of the global sequence; used if the pipeline has no reader
    title = "external_source"  # the source's name in messages; external_source() replaces it by a name with the user's line
    short_is_last = False  # whether a short batch ends the epoch; if not, only StopIteration does, as in DALI

    def __init__(
        self,
        outputs: int,
        single: bool,
        layouts: tuple[str, ...],
        dtypes: tuple[int | None, ...],
        copy: bool,
        by_sample: bool = False,
        stream: Any = None,
    ) -> None:
        self.outputs = outputs
        self.copy = copy  # whether to copy arrays, because the user may write to them before the workers have read them
        self.single = single  # whether the source returns the data of its one output, not a tuple with an entry for each output
        self.layouts = layouts  # the declared layout of each output, or ""
        self.dtypes = dtypes
        self.by_sample = by_sample  # whether the source returns one sample at a time
        self.stream = stream  # the CUDA stream on which the user's GPU data is computed
        self.ends: deque[int] = deque(maxlen=64)  # numbers of the epochs that this source ended, at most the last 64
        self.ended_at: tuple[int, int] | None = None  # (epoch, number) of the batch at which this source last ended an epoch
        self.handle = _core.Source(self.pull, self.reset, layouts, False, self.seek, self.shard, self.short_is_last)

    def pull(self, epoch: int, batch: int, _index: int, count: int, position: int, _inputs: Any = ()) -> Pulled:
        """Returns the next batch, or None at the end of the epoch. Runs on the callback thread."""
        if self.by_sample:
            return self._pull_samples(epoch, batch, count, position)
        try:
            given = self.take(epoch, batch, 0, count, position)
            self._take_layouts(given)
            lists = self.split(given, count)
            self.handle.on_gpu = bytes(isinstance(items, GpuSamples) for items in lists)
            return [items.samples if isinstance(items, GpuSamples) else items for items in lists]
        except StopIteration:
            self._end(epoch, batch)
            return None
        except Exception as e:
            e.add_note(f"in the source of {self.title}, for sample {position} of epoch {self.first_epoch + epoch} (batch {batch})")
            raise

    def _take_layouts(self, given: Any) -> None:
        """Sets the layouts of outputs without a declared layout to those of the data, if the data are tensors of a pipeline."""
        if all(self.layouts):
            return
        parts = (given,) if self.single else given
        if isinstance(parts, (tuple, list)) and len(parts) == self.outputs:
            self.handle.layouts = tuple(declared or layout_of(part) for declared, part in zip(self.layouts, parts, strict=True))

    def _pull_samples(self, epoch: int, batch: int, count: int, position: int) -> Pulled:
        """Collects a batch sample by sample. If the source ends inside the batch, the samples so far are dropped, as in DALI."""
        lists: list[list[Any]] = [[] for _ in range(self.outputs)]
        for i in range(count):
            try:
                given = self.take(epoch, batch, i, count, position)
                if i == 0:
                    self._take_layouts(given)
                parts = self._parts(given)
                for items, part, dtype in zip(lists, parts, self.dtypes, strict=True):
                    wait_for(self.stream, part)
                    items.append(with_dtype(as_buffer(part, self.copy), dtype))
            except StopIteration:
                self._end(epoch, batch)
                return None
            except Exception as e:
                e.add_note(f"in the source of {self.title}, for sample {position + i} of epoch {self.first_epoch + epoch} (batch {batch})")
                raise
        return lists

    def _parts(self, given: Any) -> Sequence[Any]:
        """Returns the user's data as one entry for each output. Raises InvalidArgumentError if the number of entries is wrong."""
        parts = (given,) if self.single else given
        if not isinstance(parts, (tuple, list)) or len(parts) != self.outputs:
            what = f"{len(parts)} things" if isinstance(parts, (tuple, list)) else type(parts).__name__
            raise InvalidArgumentError(
                f"external_source: num_outputs={self.outputs}, but the source gave {what}; it must give a tuple with one entry for each output"
            )
        return parts

    def split(self, given: Any, count: int) -> list[Any]:
        """Returns for each output a list with a buffer for each sample, one buffer whose first axis counts the samples, or GpuSamples. count: the most samples
        that the data may have."""
        parts = self._parts(given)
        for part in parts:
            wait_for(self.stream, part)
        return [self._samples(part, count, dtype) for part, dtype in zip(parts, self.dtypes, strict=True)]

    def _samples(self, part: Any, count: int, dtype: int | None) -> Any:
        on_gpu = gpu_samples(part, count, self.device_id, self.copy) if self.device_id is not None else None
        items = samples_of(part, count, self.copy) if on_gpu is None else on_gpu.samples
        for item in items if isinstance(items, list) else [items]:
            with_dtype(item, dtype)
        return items if on_gpu is None else on_gpu

    def take(self, epoch: int, batch: int, index: int, count: int, position: int) -> Any:
        """Returns the user's data: a batch, or with by_sample sample `index` of it. Raises StopIteration at the end of the epoch."""
        raise NotImplementedError

    def reset(self, epoch: int) -> None:
        """Begins an epoch. Does nothing here; a subclass may override it."""

    def _end(self, epoch: int, batch: int) -> None:
        self.ends.append(epoch)
        self.ended_at = epoch, batch

    def ended_in(self, epoch: int) -> bool:
        return epoch in self.ends

    def order_facts(self) -> dict[str, Any] | None:
        """Returns facts about the order of samples. A state of mid-epoch and a run that continues from it must have the same facts. None: nothing is compared."""
        return None

    def close(self) -> None:
        """Prepares for the end of the pipeline. Does nothing here; a subclass whose pull() may wait overrides it to end that wait."""


@dataclass
class OfRank:
    """A source over a callable that gives only the batches of one rank. shard: (rank, number of ranks). Batches of different ranks that have the same number
    follow each other in the global sequence, so that a state can be restored with another number of ranks."""

    function: Callable[..., Any]
    shard: tuple[int, int]


class CallableSource(Source):
    """A source over a callable, which takes no argument or one: the number of the batch, a BatchInfo, or a SampleInfo if it returns single samples."""

    def __init__(
        self, function: Callable[..., Any], batch_info: bool, ahead: int | None, shard: tuple[int, int] = (0, 1), **kwargs: Any
    ) -> None:
        self.function = function
        self.shard = shard
        self.ahead = ahead  # number of batches after the current one for which worker processes begin the calls; None: no processes
        self.processes: Processes | None = None
        self._size = 0
        self._given: list[Any] = []  # the processes' results for the current batch
        self.batch_info = batch_info
        self.with_argument = _takes_argument(function)
        self.seek = _BY_BATCH if self.with_argument else BY_ALL_CALLS
        super().__init__(**kwargs)

    def start(self, batch_size: int, workers: int, method: str, pickler: Any) -> None:
        """Starts the worker processes of parallel=True. The calls of a callable without an argument have an order, so such a callable gets no processes; the
        pipeline's callback thread calls it. Raises InvalidArgumentError if the pipeline has no workers, or another batch size than an earlier one."""
        if self.processes is not None and self._size != batch_size:
            raise InvalidArgumentError(
                "external_source(parallel=True): an earlier pipeline with this source had another batch size: make a source for each pipeline"
            )
        if self.ahead is not None and self.with_argument and self.processes is None:
            if workers < 1:
                raise InvalidArgumentError("external_source(parallel=True) needs a process: give the pipeline py_num_workers=1 or more")
            self._size = batch_size
            self.processes = Processes(self.function, self._arguments, workers, method, pickler, self.ahead)
            self.copy = False  # no other code has a reference to the results of a process

    def stop(self) -> None:
        """Ends the processes. Called if the pipeline could not be built; start() may be called again."""
        if self.processes is not None:
            self.processes.close()
            self.processes = None

    def order_facts(self) -> dict[str, Any] | None:
        facts: Callable[[Any], dict[str, Any] | None] | None = getattr(type(self.function), "stoker_order_facts", None)
        return None if facts is None else facts(self.function)

    def _arguments(self, epoch: int, batch: int) -> list[Any]:
        if self.by_sample:
            return [SampleInfo(batch * self._size + i, i, batch, epoch) for i in range(self._size)]
        return [BatchInfo(batch, epoch) if self.batch_info else batch]

    def take(self, epoch: int, batch: int, index: int, count: int, position: int) -> Any:
        if not self.with_argument:
            return self.function()
        if self.processes is None:
            info = BatchInfo(batch, epoch) if self.batch_info else batch
            return self.function(SampleInfo(batch * count + index, index, batch, epoch) if self.by_sample else info)
        if index == 0:
            self._given = self.processes.batch(epoch, batch)
        given = self._given[index]
        if isinstance(given, Raised):
            raise given.error
        return given

    def close(self) -> None:
        if self.processes is not None:
            self.processes.close()


# Describes a sample: its name for messages, its index in the user's data, the reason why it could not be read, and the exception. Each may be None.
Description = tuple[str | None, int | None, str | None, BaseException | None]


@dataclass
class DescribedBatch:
    """A batch with a description of each sample. outputs: for each output, a list or array of its samples. A sample that could not be read needs an entry there
    too, which the library ignores."""

    outputs: tuple[Any, ...]
    samples: tuple[Description, ...]


@dataclass
class ByPosition:
    """A source over a function of (epoch, position, count). The function returns `count` samples of the epoch's global sequence, from `position` on, as
    arrays or as a DescribedBatch. shard: (rank, number of ranks): rank i of n takes batches i, i + n, i + 2 * n, ... of the sequence."""

    function: Callable[[int, int, int], Any]
    shard: tuple[int, int] = (0, 1)
    close: Callable[[], None] | None = None  # ends a waiting call of the function
    short_is_last: bool = True  # whether a batch with fewer than `count` samples ends the epoch


class PositionSource(Source):
    """A source over a ByPosition."""

    seek = _BY_POSITION

    def __init__(self, given: ByPosition, **kwargs: Any) -> None:
        self.function = given.function
        self.shard = given.shard
        self.short_is_last = given.short_is_last
        self._close = given.close
        super().__init__(**kwargs)

    def take(self, epoch: int, batch: int, index: int, count: int, position: int) -> Any:
        given = self.function(epoch, position, count)
        if isinstance(given, DescribedBatch):
            self.handle.descriptions = given.samples
            return given.outputs
        return given

    def close(self) -> None:
        if self._close is not None:
            self._close()


class IterableSource(Source):
    """A source over an iterable or generator of batches or samples. cycle: what happens at the iterable's end. None, False or "no": the epoch ends, and later
    epochs are empty. True or "quiet": starts over in the same epoch. "raise": the epoch ends, and the next one starts over."""

    def __init__(self, iterable: Any, cycle: str | bool | None, **kwargs: Any) -> None:
        self.iterable = iterable
        self.cycle = {True: "quiet", False: None, "no": None}.get(cycle, cycle)
        self.iterator: Iterator[Any] | None = None
        self.seek = BY_CALLS_OF_EPOCH if self.cycle == "raise" else BY_ALL_CALLS
        super().__init__(**kwargs)

    def _restart(self) -> Iterator[Any]:
        # A generator function is called again and returns a new generator. A generator object cannot start again.
        self.iterator = iter(self.iterable() if _is_generator_function(self.iterable) else self.iterable)
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


FedBatch = tuple[list[Any], tuple[str, ...]]  # for each output, its samples and their layout


class FedSource(Source):
    """A source of the batches that the user passes to feed_input. After a restore, the user has to feed the batches that follow the saved position."""

    seek = _BY_POSITION
    unused = False  # whether no output of the pipeline needs the source; fed batches are dropped then

    def __init__(self, repeat_last: bool = False, blocking: bool = False, **kwargs: Any) -> None:
        self.repeat_last = repeat_last
        self.blocking = blocking  # whether a run waits for data that another thread feeds
        self.last: FedBatch | None = None
        self.queue: deque[FedBatch] = deque()
        self.others: list[Source] = []  # sources of the same pipeline that may end an epoch
        self._taken: tuple[tuple[int, int], FedBatch] | None = None  # (epoch, number) and data of the last batch, if there are `others`
        self.ready = threading.Condition()
        self.fed = 0
        self.closed = False
        super().__init__(**kwargs)
        self.parts: list[deque[tuple[Any, str]]] = [
            deque() for _ in range(self.outputs)
        ]  # for each output, its fed batches that wait until the other outputs were fed too

    def feed(self, data: Any, limit: int, layout: str | None = None, stream: Any = None) -> None:
        """Queues a batch of at most `limit` samples. Runs on the user's thread, which may write to the arrays again afterwards, unless no_copy=True."""
        wait_for(stream, data)
        parts = self._parts(data)
        self._put((super().split(data, limit), tuple(self._layout(k, part, layout) for k, part in enumerate(parts))))

    def feed_output(self, output: int, data: Any, limit: int, layout: str | None = None, stream: Any = None) -> None:
        """Queues a batch for one of several outputs. The pipeline can take it only after a batch was fed for each of the other outputs too. limit: the most
        samples."""
        wait_for(stream, data)
        self.parts[output].append((self._samples(data, limit, self.dtypes[output]), self._layout(output, data, layout)))
        while all(self.parts):
            columns, layouts = zip(*(waiting.popleft() for waiting in self.parts), strict=True)
            self._put((list(columns), layouts))

    def _layout(self, output: int, data: Any, layout: str | None) -> str:
        """Returns the layout of an output: the one given to feed_input, else the declared one, else the data's own. Raises InvalidArgumentError if the first
        two differ."""
        declared = self.layouts[output]
        if declared and layout and layout != declared:
            raise InvalidArgumentError(f"feed_input: the layout is {layout!r}, but the external_source declares {declared!r}")
        return layout or declared or layout_of(data)

    def _put(self, batch: FedBatch) -> None:
        if self.unused:
            return
        with self.ready:
            self.queue.append(batch)
            self.last = batch if self.repeat_last else None
            self.fed += 1
            self.ready.notify()

    def prepare(self, taken: int) -> bool:
        """Returns whether the next run has data, or may wait for it. taken: number of batches taken so far. With repeat_last, queues the last batch again if
        no other was fed."""
        if self.fed <= taken and self.last is not None:
            self._put(self.last)
        return self.fed > taken or self.closed or self.blocking

    def take(self, epoch: int, batch: int, index: int, count: int, position: int) -> Any:
        with self.ready:
            self.ready.wait_for(lambda: self.queue or self.closed)
            if not self.queue:
                raise StopIteration
            fed = self.queue.popleft()
            self._taken = ((epoch, batch), fed) if self.others else None
            samples, self.handle.layouts = fed
            return samples

    def reset(self, epoch: int) -> None:
        """Returns the last batch to the queue if another source ended the epoch at this batch: the pipeline did not deliver it. As in DALI, it is the first of
        the next epoch."""
        super().reset(epoch)
        taken, self._taken = self._taken, None
        if taken is not None and any(other.ended_at == taken[0] for other in self.others):
            with self.ready:
                self.queue.appendleft(taken[1])

    def _take_layouts(self, given: Any) -> None:
        """Does nothing: take() has set the layouts."""

    def split(self, given: Any, count: int) -> list[Any]:
        """Returns the data unchanged: it was split when the user fed it."""
        samples: list[Any] = given
        return samples

    def close(self) -> None:
        with self.ready:
            self.closed = True
            self._taken = None
            self.ready.notify_all()


def _takes_argument(function: Callable[..., Any]) -> bool:
    """Returns whether to call the callable with an argument, by DALI's rule: if it has a positional parameter without a default, or exactly one
    positional parameter and is not a class, or if its signature cannot be read."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = [p for p in parameters if p.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    return (len(positional) == 1 and not isinstance(function, type)) or any(p.default is inspect.Parameter.empty for p in positional)


def _is_generator_function(source: Any) -> bool:
    """Returns whether `source` is a generator function, a functools.partial of one, or an object whose __call__ is one."""
    if isinstance(source, functools.partial):
        return _is_generator_function(source.func)
    return inspect.isgeneratorfunction(source) or inspect.isgeneratorfunction(getattr(type(source), "__call__", None))  # noqa: B004


def make_source(
    source: Any, cycle: str | bool | None, batch_info: bool, repeat_last: bool, blocking: bool, ahead: int | None, **kwargs: Any
) -> Source:
    """Makes the source for the `source` argument of external_source. Raises TypeError or ValueError for arguments that do not fit."""
    if cycle not in (None, False, True, "no", "quiet", "raise"):
        raise ValueError(f"external_source: cycle must be 'no', 'quiet', 'raise', True or False, not {cycle!r}")
    if source is None:
        if cycle not in (None, False, "no"):
            raise ValueError("external_source: cycle is only for iterables, and feed_input has no iterable to start over")
        return FedSource(repeat_last, blocking, **{**kwargs, "by_sample": False})
    if isinstance(source, ByPosition):
        return PositionSource(source, **kwargs)
    if isinstance(source, OfRank):
        return CallableSource(source.function, batch_info, ahead, source.shard, **kwargs)
    iterable = hasattr(source, "__iter__") and not isinstance(source, type)
    if not iterable and callable(source) and not _is_generator_function(source):
        if cycle is not None and cycle is not False:
            raise ValueError("external_source: cycle is only for iterables; a callable ends an epoch by raising StopIteration")
        return CallableSource(source, batch_info, ahead, **kwargs)
    if not iterable and not _is_generator_function(source) and not hasattr(source, "__next__"):
        raise TypeError(f"external_source: source must be a callable, an iterable or a generator, not {type(source).__name__}")
    if cycle in ("quiet", "raise", True) and inspect.isgenerator(source):
        raise TypeError("external_source: a generator cannot start over: with cycle, pass the generator function or an iterable")
    return IterableSource(source, cycle, **kwargs)
