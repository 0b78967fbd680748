# SPDX-License-Identifier: Apache-2.0
"""A running pipeline: delivers batches in order, finds the ends of epochs, saves and restores state, and raises exceptions of users' sources."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple, NoReturn

from stoker import _core
from stoker._at_exit import end_loop, wait_for_loop
from stoker._build import UserSource
from stoker._sources import FedSource, KeptErrors, Source
from stoker._where import log
from stoker.errors import CancelledError, CorruptError, NoDataError, StateError, StokerError, from_status


class Failed(NamedTuple):
    """A batch that failed. It counts as taken: the next call takes the one after it."""

    epoch: int
    planned: int  # number of samples that the batch was to have
    is_last: bool


class Session:
    """Delivers batches to Pipeline.run, the iterators and Loader.

    step: number of batches taken in this epoch, since it began or was restored, including those that failed. last: True after the epoch's last batch, until the
    end of the epoch was reported. failed: the batch whose error the last call of take() raised; None: it raised no such error. ends: number of ends of epochs
    that sources or `before` have reported. before: a function that take() calls before each batch; if it raises StopIteration, the epoch ends. check: a
    function that is called with the first batch. holds: whether `core.held` keeps each batch until its taker sets it to None, so that put_back() can return
    the batch to the pipeline, and whether `core.ended` stays True after the end of an epoch until its taker sets it to False. keeps_state: whether close()
    keeps the state for state(), which takes time if there are many files. extra_state: an iterator's
    method that returns entries for save() to add to the pipeline's state. restored: the state from which this run continues.
    """

    def __init__(self, core: _core.Pipeline, sources: Sequence[UserSource], timeout: float | None, first_epoch: int = 0) -> None:
        self.core = core
        self.step = 0
        self.last = False
        self.failed: Failed | None = None
        self.ends = 0
        self.before: Callable[[], None] | None = None
        self.check: Callable[[_core.Batch], None] | None = None
        self.holds = False
        self.keeps_state = False
        self._before = (0, 0, False, 0, False)  # the _counts() before the last batch was taken
        self.extra_state: weakref.WeakMethod[Callable[[Session, dict[str, Any]], dict[str, Any]]] | None = None
        self.restored: dict[str, Any] | None = None
        self._kept: list[KeptErrors] = [s.source for s in sources]
        self._sources = [s.source for s in sources if isinstance(s.source, Source)]
        self._fed = [(s.name, s.source) for s in sources if isinstance(s.source, FedSource) and not s.source.unused]
        for _, fed in self._fed:
            # If there is a reader, a source that ends inside an epoch makes a batch fail. Data of batches that fail is not used again.
            fed.others = [] if core.readers() else [s for s in self._sources if not isinstance(s, FedSource)]
        self._timeout = -1.0 if timeout is None else timeout
        self._earlier = 0  # number of batches in the epochs that have ended
        self._epoch = 0  # epoch of the last batch
        self._ended = False  # whether take() has raised StopIteration, and reset() was not called since
        self._end_asked = False  # whether reset() was called after a batch, and no batch was taken since
        self._first_epoch = first_epoch  # the number by which errors name the epoch that batches and states count as epoch 0
        self._left_out = -1  # number of batches taken when the last one was left out, since all of its samples are bad; -1: none was
        self._closed = False
        self._last_state: str | None = None  # the state that close() has kept
        self._pid = os.getpid()

    # ---- batches ----

    def next(self, across: bool = False) -> _core.Batch | None:
        """Returns the next batch, or None once at the end of each epoch. With across=True, does not return None if batches of the reader may contain samples of
        two epochs. If `holds` is set, returns None again until the caller sets `core.ended` to False, because an interrupt may keep it from counting the end."""
        if self.core.ended:
            self._begin_epoch()
            return None
        if self.last and not across and self._wraps:
            self.core.ended = self.holds
            self._begin_epoch()
            return None
        wait_for_loop()
        self._before = self._counts()
        try:
            batch = self.core.next(self._timeout, self.holds)
        except StokerError as e:
            if self.core.failed is not None:
                self.failed = Failed(*self.core.failed)
                self._count(self.failed.epoch, self.failed.is_last)
            self._raise(e)
        self._drain()
        if batch is None:
            self._begin_epoch()
            return None
        self._count(batch.epoch, batch.is_last)
        if self.check is not None:
            self.failed = Failed(batch.epoch, batch.planned, batch.is_last)
            self.check(batch)
            self.check = self.failed = None
        return batch

    def _count(self, epoch: int, is_last: bool) -> None:
        """Counts a batch that was taken, or that failed."""
        if self.last:
            self._begin_epoch()  # the batch before was its epoch's last one, and no None came between the epochs
        self.step += 1
        self.last, self._epoch, self._end_asked = is_last, epoch, False

    def _counts(self) -> tuple[int, int, bool, int, bool]:
        return self._earlier, self.step, self.last, self._epoch, self._end_asked

    def put_back(self) -> bool:
        """Makes the batch in `core.held` the next one again, as if next() had not been called, and returns True. Does nothing and returns False if `held` is
        None, if another thread took it, or if the pipeline was closed meanwhile."""
        with suppress(StokerError):
            if self.core.put_back():
                self._earlier, self.step, self.last, self._epoch, self._end_asked = self._before
                return True
        return False

    def hold(self) -> None:
        """Lets `core.held` keep each batch that take() returns, unless the user feeds each batch before it is taken: if one were put back, the next data would
        be given the results of the last."""
        self.holds, self.core.held = not self._fed and self.before is None, None

    def take(self) -> _core.Batch:
        """Returns the next batch by the rules of DALI's pipelines. Raises StopIteration after a source has ended or `before` has raised it, until reset() is
        called, and NoDataError if an external_source was not fed. With only readers, continues with the next epoch. If a batch fails, raises its error, sets
        `failed`, and continues with the batch after it."""
        if self._ended:
            raise StopIteration
        self.failed = None
        batch = self._next_of_epoch()
        if batch is None and self._end_asked:  # reset() was called after the epoch's last batch, before this end was known
            self.ends += 1
            self._end_asked = self.core.ended = False
            batch = self._next_of_epoch()
        if batch is None:  # counts the end without a call, at which an interrupt could come
            self.ends += 1
            self._ended, self.core.ended = True, False
            raise StopIteration
        return batch

    def _next_of_epoch(self) -> _core.Batch | None:
        """Returns the next batch; None if a source has ended or `before` has raised StopIteration."""
        if self.before is not None:
            try:
                self.before()
            except StopIteration:  # begins an epoch without a call, at which an interrupt could come
                self._earlier, self.step, self.last = self._earlier + self.step, 0, False
                return None
        self.check_fed()
        while True:
            batch = self.next(across=True)
            if batch is not None:
                return batch
            # Without a reader, the sources end the epoch. With one, a source may still end it earlier.
            if self._sources and (not self.core.readers() or any(s.ended_in(self._epoch) for s in self._sources)):
                return None
            self.core.ended = False

    def check_fed(self) -> None:
        """Raises NoDataError if an external_source was not fed for the next batch, unless it may wait for another thread to feed it. Raises CorruptError instead
        if the batch that was fed last was left out: the user has fed one batch for this step, and cannot know that it needs another."""
        for name, source in self._fed:
            if not source.prepare(self.delivered):
                if self._left_out == self.delivered:
                    bad = [from_status(*error) for error in self.core.bad_samples()[-1:]]
                    raise CorruptError(
                        f"the last batch has no good sample and was left out: call feed_input({name!r}, batch) with another batch, and take the next step"
                        + (f". The last bad sample: {bad[0]}" if bad else "")
                    )
                raise NoDataError(
                    f"external_source {name!r} has no data: call feed_input({name!r}, batch) before each run or step; with blocking=True it waits until "
                    "another thread feeds it"
                )

    def reset(self) -> None:
        """Lets take() continue with the next epoch after StopIteration. If the last batch of an epoch was taken before this call, but not StopIteration yet,
        the next take() raises none. In mid-epoch, does nothing."""
        inside = self.step > 0 or self.core.ended or (self.delivered == 0 and self.restored is not None and self.restored["consumed"] > 0)
        self._end_asked = inside and not self._ended
        self._ended = False

    def check_left_out(self, batch: _core.Batch, ranks: int) -> None:
        """Raises CorruptError if there are several ranks. batch: a batch without good samples. All ranks must make equally many steps, so this rank cannot
        leave the batch out: the other ranks would wait for ever."""
        if ranks < 2:
            self._left_out = self.delivered
            return
        bad = self._bad_of(batch)
        names = ", ".join(e.uri or f"sample {e.sample}" for e in bad[:8]) + (f" and {len(bad) - 8} more" if len(bad) > 8 else "")
        raise CorruptError(
            f"a batch of epoch {self._first_epoch + batch.epoch} has no samples, since all of them are bad: {names or 'repeats of a bad sample'}. "
            f"With {ranks} ranks a batch cannot be left out, because the other ranks would wait for this one. "
            'Use on_error="replace", which takes other samples in their place (a Dataset returns another sample itself), or remove them'
            + (f". The first one: {bad[0]}" if bad else "")
        )

    def refuse_unread(self, epoch: int, bad: Sequence[StokerError] | None = None) -> NoReturn:
        """Raises CorruptError, whose message says that `epoch` had no good sample. Callers use it instead of trying further epochs, which might never give a
        batch. bad: the errors of bad samples, if the pipeline is already closed; None: those of the pipeline."""
        if bad is None:
            bad = [from_status(*error) for error in self.core.bad_samples()[-1:]]
        last = f"; the last one: {bad[-1]}" if bad else ""
        raise CorruptError(f"epoch {epoch} has no good sample: all of its batches were left out{last}")

    def good_of(self, batch: _core.Batch, first: int) -> int:
        """Returns how many of the first `first` planned samples of a batch are good. Only for the batch that was taken last."""
        if len(batch) == batch.planned:
            return min(first, len(batch))
        samples = [(*batch.sample(i)[:2], True) for i in range(len(batch))]
        samples += [(e.epoch - self._first_epoch, e.sample, False) for e in self._bad_of(batch)]
        return sum(good for _, _, good in sorted(samples)[:first])

    def _bad_of(self, batch: _core.Batch) -> list[StokerError]:
        """Returns the errors of the bad samples of `batch`, which must be the batch that was taken last."""
        found = [from_status(*e) for e in self.core.bad_samples()[len(batch) - batch.planned :]]
        found = [e for e in found if e.epoch - self._first_epoch in (batch.epoch, batch.epoch + 1)]
        return [e for e in found if e.epoch != found[-1].epoch or e.sample > found[-1].sample - batch.planned]

    @property
    def can_skip_epoch(self) -> bool:
        """Returns whether skip_epoch() may be called. It would drop batches that the user has fed, and it waits for calls of sources to return, which one that
        waits for data does not do. After the last batch of an epoch, skip_epoch() only reports the epoch's end."""
        return not self._fed or self.last or self.core.ended

    def skip_epoch(self) -> None:
        """Skips the rest of this epoch: the next batch is the first of the next epoch."""
        if self.last or self.core.ended:
            self.next()  # the epoch has no batch left, so next() only reports its end
            self.core.ended = False
        else:
            self.core.skip_epoch()
            self._begin_epoch()

    @property
    def delivered(self) -> int:
        """Returns the number of batches delivered so far, over all epochs."""
        return self._earlier + self.step

    def _begin_epoch(self) -> None:
        self._earlier += self.step
        self.step = 0
        self.last = False

    def _raise(self, e: StokerError) -> NoReturn:
        """Raises the exception of a user's function if `e` reports one, StateError if the pipeline was closed during a wait for a batch, and otherwise
        `e` itself."""
        if e.code == "USER":
            for user in self._kept:
                kept = user.take_error(e.epoch - self._first_epoch, e.sample)
                if kept is not None:
                    raise kept from None
        if self._closed:
            end_loop()
        if isinstance(e, CancelledError) and self._closed:
            raise StateError("the pipeline was closed while a batch was waited for") from None
        raise e

    # ---- metadata and state ----

    def lead(self, reader: str) -> None:
        """Makes the epochs of this reader those of the pipeline, if there are several readers. Call before the first batch."""
        self.core.lead(reader)
        self.__dict__.pop("_wraps", None)

    def meta(self, reader: str | None = None) -> dict[str, Any]:
        """Returns the metadata of a reader; without a name, of the reader whose epochs are the pipeline's, or {} if the pipeline has no reader."""
        readers = self.core.readers() if reader is None else [reader]
        return self.core.reader_meta(readers[0]) if readers else {}

    @cached_property
    def _wraps(self) -> bool:
        """Returns whether batches of the leading reader may contain the end of one epoch and the beginning of the next."""
        return bool(self.meta().get("wraps"))

    def outputs(self) -> list[tuple[int, int, list[int], str]]:
        """Returns (dtype, ndim, shape, layout) of each output. Numbers that are not known yet are negative."""
        found: list[tuple[int, int, list[int], str]] = []
        try:
            while True:
                found.append(self.core.output_desc(len(found)))
        except IndexError:
            return found

    def state(self) -> dict[str, Any]:
        """Returns the pipeline's state after the last batch that was delivered; after close() only if keeps_state is set."""
        state: dict[str, Any] = json.loads(self._last_state or self.core.save())
        return state

    def save(self) -> str:
        """Returns the state as JSON text, with the entries of extra_state and the facts about the orders of sources."""
        text, orders = self.core.save(), self._orders()
        keeps = None if self.extra_state is None else self.extra_state()
        end_asked = self._end_asked and bool(self._sources) and not self.core.readers()
        if keeps is None and not orders and not end_asked:
            return text
        state = json.loads(text)
        extra_state = {} if keeps is None else keeps(self, state)
        if orders:
            extra_state["iterator"] = {**extra_state.get("iterator", {}), "orders": orders}
        if end_asked and state["consumed"]:
            extra_state["iterator"] = {**extra_state.get("iterator", {}), "reset": True}
        return json.dumps({**state, **extra_state}) if extra_state else text

    def _orders(self) -> list[dict[str, Any] | None]:
        """Returns facts about the order of each source's samples, None for a source that has none to compare; [] if no source has any."""
        orders = [source.order_facts() for source in self._sources]
        return orders if any(orders) else []

    def _check_orders(self, state: dict[str, Any]) -> None:
        """Raises StateError for a state of mid-epoch whose sources had another order: some samples would come twice and others never."""
        kept = state.get("iterator")
        saved = kept.get("orders") if isinstance(kept, dict) else None
        now = self._orders()
        if not state.get("consumed") or not isinstance(saved, list) or len(saved) != len(now):
            return
        for was, is_now in zip(saved, now, strict=True):
            if isinstance(was, dict) and is_now is not None and was != is_now:
                name = next(name for name in is_now if was.get(name) != is_now[name])
                raise StateError(
                    f"the state is in mid-epoch, of an order with {name} {was.get(name)}; this one has {name} {is_now[name]}, so that some samples would come "
                    f"twice and others never: give the {name} of the run that was saved, or save at the end of an epoch"
                )

    def source_ended(self, state: dict[str, Any]) -> bool:
        """Returns whether the sources have ended the epoch of the last batch. state: the state that is being saved."""
        return self.delivered > 0 and not self.core.readers() and bool(state["epoch"] > self._epoch)

    def restore(self, state: str | dict[str, Any]) -> None:
        """Continues from a state. Call before the first batch."""
        text = state if isinstance(state, str) else json.dumps(state)
        self.core.restore(text)
        restored = json.loads(text)
        self._check_orders(restored)
        self.restored = restored
        kept = restored.get("iterator")
        self._end_asked = isinstance(kept, dict) and kept.get("reset") is True

    def close(self) -> None:
        """Stops the work and frees the pipeline's memory. Batches that are still referenced stay valid."""
        if os is None or os.getpid() != self._pid:
            return  # a forked child must not touch the parent's threads and locks; os is None if the interpreter has cleared this module
        self._closed = True
        if self.keeps_state:
            with suppress(StokerError):  # the pipeline was closed before, or another thread uses it
                self._last_state = self.core.save()
        for source in self._sources:
            source.close()
        if not self.core.close():
            log(
                "a pipeline was closed while its work ran (a source or function of yours, a read, or the decoding of a sample), which has not ended within "
                "2 s: close() does not wait any longer, and the pipeline's memory is freed when that work ends"
            )
        self._drain()

    def _drain(self) -> None:
        """Releases samples that the library has finished reading. Otherwise they stay in memory until a source is called again, and after close()
        until the garbage collector runs, because a source and its handle refer to each other."""
        for source in self._sources:
            source.handle.drain()

    def interrupt(self, on: bool) -> None:
        """Makes waits for a batch raise CancelledError (on=True), including a wait that has already begun, or lets them continue until there is a batch
        (on=False), as before the first interrupt(). No batch is lost."""
        self.core.interrupt(on)
