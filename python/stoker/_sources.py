# SPDX-License-Identifier: Apache-2.0
"""Where external_source takes its samples from: callables, iterables, generators, and feed_input.

Each source has pull(epoch, batch, index, count, position): a batch, as a list of arrays or one array for each output, or None at the end of the epoch; and
reset(epoch). Both are called on the pipeline's callback thread, one call at a time.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stoker import _core
from stoker._arrays import as_buffer, layout_of, samples_of, wait_for, with_dtype
from stoker._on_gpu import GpuSamples, gpu_samples
from stoker._processes import Processes, Raised
from stoker._types import BatchInfo, SampleInfo
from stoker.errors import InvalidArgumentError

# What a source's samples depend on, and so where a restored run may begin: stk_seek of the library.
BY_CALLS_OF_EPOCH, _BY_BATCH, _BY_POSITION, BY_ALL_CALLS = range(4)

Pulled = list[Any] | None


class Kept:
    """Exceptions of a user's Python, kept by a _core.Source until the consumer asks for the sample."""

    handle: _core.Source
    uploads = False  # what it gives goes to the GPU and is read nowhere else
    device_id: int | None = None  # of that GPU, where the pipeline has one

    def take_error(self, epoch: int, position: int) -> BaseException | None:
        """The exception kept for a sample, or where the sample is not known the oldest one; it is not kept any longer."""
        errors = self.handle.errors
        for i, entry in enumerate(errors):
            if position < 0 or (entry[0] == epoch and entry[2] == position):
                return errors.pop(i)[4]
        return None


class Source(Kept):
    """What all sources share: number of outputs, declared types, and the exceptions kept for the consumer."""

    seek = BY_ALL_CALLS
    shard = (0, 1)  # without a reader: which batches of the global sequence these are
    told = "external_source"  # with its place in the user's program
    short_is_last = False  # a short batch ends the epoch; else only StopIteration does, as in DALI

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
        self.copy = copy  # what the source gives may be written to later, before the workers have read it
        self.single = single  # the source gives the data itself, not a tuple with one entry an output
        self.layouts = layouts  # as declared; "" where they are not
        self.dtypes = dtypes
        self.by_sample = by_sample  # it gives one sample after the other
        self.stream = stream  # on which data on a GPU is made
        self.ends: deque[int] = deque(maxlen=64)  # epochs that ended here, lately
        self.handle = _core.Source(self.pull, self.reset, layouts, False, self.seek, self.shard, self.short_is_last)

    def pull(self, epoch: int, batch: int, _index: int, count: int, position: int, _inputs: Any = ()) -> Pulled:
        """On the callback thread."""
        if self.by_sample:
            return self._pull_samples(epoch, batch, count, position)
        try:
            given = self.take(epoch, batch, 0, count, position)
            self._take_layouts(given)
            lists = self.split(given, count)
            self.handle.on_gpu = bytes(isinstance(items, GpuSamples) for items in lists)
            return [items.samples if isinstance(items, GpuSamples) else items for items in lists]
        except StopIteration:
            self.ends.append(epoch)
            return None
        except Exception as e:
            e.add_note(f"in the source of {self.told}, for sample {position} of epoch {epoch} (batch {batch})")
            raise

    def _take_layouts(self, given: Any) -> None:
        """Layouts of tensors of another pipeline, for outputs that declare none."""
        if all(self.layouts):
            return
        parts = (given,) if self.single else given
        if isinstance(parts, (tuple, list)) and len(parts) == self.outputs:
            self.handle.layouts = tuple(declared or layout_of(part) for declared, part in zip(self.layouts, parts, strict=True))

    def _pull_samples(self, epoch: int, batch: int, count: int, position: int) -> Pulled:
        """A whole batch. Where the source ends inside it, what came of it is left out, as in DALI."""
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
                self.ends.append(epoch)
                return None
            except Exception as e:
                e.add_note(f"in the source of {self.told}, for sample {position + i} of epoch {epoch} (batch {batch})")
                raise
        return lists

    def _parts(self, given: Any) -> Sequence[Any]:
        """What the user gave, one entry an output."""
        parts = (given,) if self.single else given
        if not isinstance(parts, (tuple, list)) or len(parts) != self.outputs:
            what = f"{len(parts)} things" if isinstance(parts, (tuple, list)) else type(parts).__name__
            raise InvalidArgumentError(
                f"external_source: num_outputs={self.outputs}, but the source gave {what}; it gives a tuple with one entry an output"
            )
        return parts

    def split(self, given: Any, count: int) -> list[Any]:
        """A batch of up to `count` samples: for each output a list of buffers, or one whose first axis counts them."""
        parts = self._parts(given)
        for part in parts:
            wait_for(self.stream, part)
        return [self._samples(part, count, dtype) for part, dtype in zip(parts, self.dtypes, strict=True)]

    def _samples(self, part: Any, count: int, dtype: int | None) -> Any:
        there = gpu_samples(part, count, self.device_id, self.copy) if self.device_id is not None else None
        items = samples_of(part, count, self.copy) if there is None else there.samples
        for item in items if isinstance(items, list) else [items]:
            with_dtype(item, dtype)
        return items if there is None else there

    def take(self, epoch: int, batch: int, index: int, count: int, position: int) -> Any:
        """The user's data: a batch, or with by_sample sample `index` of it. StopIteration at the end of the epoch."""
        raise NotImplementedError

    def reset(self, epoch: int) -> None:
        """A new epoch begins."""

    def ended_in(self, epoch: int) -> bool:
        """Whether the source had no more data in this epoch."""
        return epoch in self.ends

    def close(self) -> None:
        """The pipeline ends: no pull may wait any longer."""


class CallableSource(Source):
    """A callable: of nothing, of the iteration or a BatchInfo, or where it gives samples of a SampleInfo."""

    def __init__(self, function: Callable[..., Any], batch_info: bool, ahead: int | None, **kwargs: Any) -> None:
        self.function = function
        self.ahead = ahead  # batches that worker processes begin early; None: without processes
        self.processes: Processes | None = None
        self._size = 0
        self._given: list[Any] = []  # what the processes gave for the batch in hand
        self.batch_info = batch_info
        self.with_argument = _takes_argument(function)
        self.seek = _BY_BATCH if self.with_argument else BY_ALL_CALLS
        super().__init__(**kwargs)

    def start(self, batch_size: int, workers: int, method: str, pickler: Any) -> None:
        """Starts the worker processes of parallel=True. A callable without an argument has none: it is called on the pipeline's thread,
        call after call."""
        if self.processes is not None and self._size != batch_size:
            raise InvalidArgumentError("external_source(parallel=True) serves pipelines of one batch size")
        if self.ahead is not None and self.with_argument and self.processes is None:
            if workers < 1:
                raise InvalidArgumentError("external_source(parallel=True) needs a process: give the pipeline py_num_workers=1 or more")
            self._size = batch_size
            self.processes = Processes(self.function, self._arguments, workers, method, pickler, self.ahead)
            self.copy = False  # what comes from a process is nobody else's

    def stop(self) -> None:
        """The pipeline could not be made: processes end, and another try starts new ones."""
        if self.processes is not None:
            self.processes.close()
            self.processes = None

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


# Of a sample: what messages call it, its number in the user's data, why it could not be had, and the exception that says so; each may be None.
Said = tuple[str | None, int | None, str | None, BaseException | None]


@dataclass
class Told:
    """A batch of which something is said beside its data: for each output its samples, and for each sample what is said of it. A sample that could not be had
    has data all the same, which nobody reads."""

    outputs: tuple[Any, ...]
    samples: tuple[Said, ...]


@dataclass
class ByPosition:
    """A function of (epoch, position, count) as a source: the samples from a position of the epoch's global sequence on, or Told. Ranks share the
    sequence: rank i of n is asked for every n-th batch."""

    function: Callable[[int, int, int], Any]
    shard: tuple[int, int] = (0, 1)
    close: Callable[[], None] | None = None  # ends a call that waits


class PositionSource(Source):
    """The source over a ByPosition."""

    seek = _BY_POSITION
    short_is_last = True

    def __init__(self, given: ByPosition, **kwargs: Any) -> None:
        self.function = given.function
        self.shard = given.shard
        self._close = given.close
        super().__init__(**kwargs)

    def take(self, epoch: int, batch: int, index: int, count: int, position: int) -> Any:
        given = self.function(epoch, position, count)
        if isinstance(given, Told):
            self.handle.told = given.samples
            return given.outputs
        return given

    def close(self) -> None:
        if self._close is not None:
            self._close()


class IterableSource(Source):
    """An iterable or generator of batches or samples. cycle: None or False (ends for good), True or "quiet" (starts over without an end), "raise" (ends
    each epoch)."""

    def __init__(self, iterable: Any, cycle: str | bool | None, **kwargs: Any) -> None:
        self.iterable = iterable
        self.cycle = {True: "quiet", False: None, "no": None}.get(cycle, cycle)
        self.iterator: Iterator[Any] | None = None
        self.seek = BY_CALLS_OF_EPOCH if self.cycle == "raise" else BY_ALL_CALLS
        super().__init__(**kwargs)

    def _restart(self) -> Iterator[Any]:
        # A generator function starts anew; a generator that is running cannot.
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


class FedSource(Source):
    """Batches that the user hands in with feed_input; after a restore, those behind the state."""

    seek = _BY_POSITION
    unused = False  # no output of the pipeline needs it: nobody takes what is fed

    def __init__(self, repeat_last: bool = False, blocking: bool = False, **kwargs: Any) -> None:
        self.repeat_last = repeat_last
        self.blocking = blocking  # a run waits for data, which another thread may feed
        self.last: tuple[list[Any], tuple[str, ...]] | None = None
        self.queue: deque[tuple[list[Any], tuple[str, ...]]] = deque()
        self.ready = threading.Condition()
        self.fed = 0
        self.closed = False
        super().__init__(**kwargs)
        self.parts: list[deque[tuple[Any, str]]] = [deque() for _ in range(self.outputs)]  # of several outputs, what was fed of each

    def feed(self, data: Any, limit: int, layout: str | None = None, stream: Any = None) -> None:
        """Takes a batch of up to `limit` samples, on the user's thread: when this returns, the arrays may be written to (no_copy=False)."""
        wait_for(stream, data)
        parts = self._parts(data)
        self._put((super().split(data, limit), tuple(self._layout(k, part, layout) for k, part in enumerate(parts))))

    def feed_output(self, output: int, data: Any, limit: int, layout: str | None = None, stream: Any = None) -> None:
        """Takes a batch of one of several outputs. A run has data when each of them was fed."""
        wait_for(stream, data)
        self.parts[output].append((self._samples(data, limit, self.dtypes[output]), self._layout(output, data, layout)))
        while all(self.parts):
            columns, layouts = zip(*(waiting.popleft() for waiting in self.parts), strict=True)
            self._put((list(columns), layouts))

    def _layout(self, output: int, data: Any, layout: str | None) -> str:
        """The layout of an output: the one that was given with the data, else the declared one, else the data's own."""
        declared = self.layouts[output]
        if declared and layout and layout != declared:
            raise InvalidArgumentError(f"feed_input: the layout {layout!r}, where the external_source declares {declared!r}")
        return layout or declared or layout_of(data)

    def _put(self, batch: tuple[list[Any], tuple[str, ...]]) -> None:
        if self.unused:
            return
        with self.ready:
            self.queue.append(batch)
            self.last = batch if self.repeat_last else None
            self.fed += 1
            self.ready.notify()

    def prepare(self, taken: int) -> bool:
        """Whether there is data for one batch more than were taken, or the run can wait for it. With repeat_last the last batch is fed once more."""
        if self.fed <= taken and self.last is not None:
            self._put(self.last)
        return self.fed > taken or self.closed or self.blocking

    def take(self, epoch: int, batch: int, index: int, count: int, position: int) -> Any:
        with self.ready:
            self.ready.wait_for(lambda: self.queue or self.closed)
            if not self.queue:
                raise StopIteration
            samples, self.handle.layouts = self.queue.popleft()
            return samples

    def _take_layouts(self, given: Any) -> None:
        """take() has set them."""

    def split(self, given: Any, count: int) -> list[Any]:
        """As it was split when it was fed."""
        samples: list[Any] = given
        return samples

    def close(self) -> None:
        with self.ready:
            self.closed = True
            self.ready.notify_all()


def _takes_argument(function: Callable[..., Any]) -> bool:
    """Whether a callable wants an argument: it has one without a default, or just one, as in DALI; so does one whose signature cannot be read."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = [p for p in parameters if p.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    return (len(positional) == 1 and not isinstance(function, type)) or any(p.default is inspect.Parameter.empty for p in positional)


def _is_generator_function(source: Any) -> bool:
    """A generator function, also a partial one, or an object that is called as one."""
    if isinstance(source, functools.partial):
        return _is_generator_function(source.func)
    return inspect.isgeneratorfunction(source) or inspect.isgeneratorfunction(getattr(type(source), "__call__", None))  # noqa: B004


def make_source(
    source: Any, cycle: str | bool | None, batch_info: bool, repeat_last: bool, blocking: bool, ahead: int | None, **kwargs: Any
) -> Source:
    """The source for what a user gave."""
    if cycle not in (None, False, True, "no", "quiet", "raise"):
        raise ValueError(f"external_source: cycle is 'no', 'quiet', 'raise', True or False, not {cycle!r}")
    if source is None:
        if cycle not in (None, False, "no"):
            raise ValueError("external_source: cycle is for iterables; what is fed has an end of its own")
        return FedSource(repeat_last, blocking, **{**kwargs, "by_sample": False})
    if isinstance(source, ByPosition):
        return PositionSource(source, **kwargs)
    iterable = hasattr(source, "__iter__") and not isinstance(source, type)
    if not iterable and callable(source) and not _is_generator_function(source):
        if cycle is not None and cycle is not False:
            raise ValueError("external_source: cycle is for iterables; a callable ends an epoch by raising StopIteration")
        return CallableSource(source, batch_info, ahead, **kwargs)
    if not iterable and not _is_generator_function(source) and not hasattr(source, "__next__"):
        raise TypeError(f"external_source: source is a callable, an iterable or a generator, not {type(source).__name__}")
    if cycle in ("quiet", "raise", True) and inspect.isgenerator(source):
        raise TypeError("external_source: a generator cannot start over: give the generator function, or an iterable, with cycle")
    return IterableSource(source, cycle, **kwargs)
