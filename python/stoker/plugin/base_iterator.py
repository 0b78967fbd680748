# SPDX-License-Identifier: Apache-2.0
"""Divides the batches of pipelines into epochs: finds the end of an epoch, and fills, cuts or drops its last batch. Base of the iterators for frameworks."""

from __future__ import annotations

import contextlib
import copy
import warnings
import weakref
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, NamedTuple, NoReturn, TypeVar

from stoker import _core
from stoker._elsewhere import no_attribute
from stoker._ranks import Shard, check_agreement, resolve
from stoker._session import Session
from stoker._signatures import suggests
from stoker.errors import InvalidArgumentError, StateError
from stoker.pipeline import Pipeline
from stoker.plugin._shards import Shards

_Made = TypeVar("_Made")


class IteratorArgumentError(InvalidArgumentError, AssertionError):
    """Raised if an iterator gets no pipeline, or arguments that exclude each other. Also an AssertionError, as in DALI."""


class LastBatchPolicy(Enum):
    """Decides what an iterator does if an epoch ends inside a batch.

    The table shows the last batch of an epoch and the first of the next one, for samples 1..7 in batches of 2. A reader with pad_last_batch=True pads: it
    repeats the last sample. Other readers wrap: they fill the batch with samples of the next epoch.

                 the reader pads    the reader wraps
        FILL     [7,7]; [1,2]       [7,1]; [2,3]
        PARTIAL  [7];   [1,2]       [7];   [2,3]
        DROP     [5,6]; [1,2]       [5,6]; [2,3]
    """

    FILL = 0
    DROP = 1
    PARTIAL = 2


_FILL, _DROP, _PARTIAL = (
    LastBatchPolicy.FILL,
    LastBatchPolicy.DROP,
    LastBatchPolicy.PARTIAL,
)  # read for each batch; globals are faster than attributes of the Enum


class Taken(NamedTuple):
    """A batch of one pipeline. valid: number of samples, from the first on, that the iterator returns."""

    batch: _core.Batch
    valid: int


class _FailedBatch(NamedTuple):
    """Stands for a batch that has failed."""

    error: Exception
    planned: int
    is_last: bool


@suggests
class EpochIterator:
    """Takes batches from pipelines until an epoch ends.

    The epoch ends with the reader's epoch if reader_name is given, or after `size` samples if size is given. Otherwise it ends when the pipeline raises
    StopIteration, if it ever does. An error of a batch takes the place of its step: the call after it gives the next step, of all pipelines.

    valid_samples: for each pipeline, the number of samples in the last step that belong to the epoch. This is the number of samples in the step, except if an
    iterator over one pipeline with LastBatchPolicy.PARTIAL has no sample left for the epoch's last step. The step then has one sample that is not in the epoch,
    and valid_samples is [0]: the mean of a loss over no samples would be NaN, and if this rank left out the step, the others would wait for ever. An iterator
    over several pipelines then returns an empty batch, as DALI's does.
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        suggests(cls)

    def __init__(
        self,
        pipelines: Pipeline | Sequence[Pipeline],
        size: int = -1,
        reader_name: str | None = None,
        auto_reset: str | bool | None = False,
        fill_last_batch: bool | None = None,
        last_batch_padded: bool = False,
        last_batch_policy: LastBatchPolicy = LastBatchPolicy.FILL,
        prepare_first_batch: bool = True,
    ) -> None:
        self._pipes = [pipelines] if isinstance(pipelines, Pipeline) else list(pipelines)
        if not self._pipes:
            raise IteratorArgumentError("an iterator needs at least one pipeline")
        if reader_name is not None and size != -1:
            raise IteratorArgumentError("reader_name and size exclude each other: the size is taken from the reader")
        if reader_name is not None and last_batch_padded:
            raise IteratorArgumentError("reader_name and last_batch_padded exclude each other: the reader itself knows whether it pads")
        if reader_name is None and size == -1 and len(self._pipes) > 1:
            raise IteratorArgumentError(
                "an iterator over several pipelines needs reader_name or size: their sources may end at different steps"
            )
        if size == 0 or size < -1:
            raise InvalidArgumentError("size must be the number of samples in an epoch, or -1")
        if not isinstance(last_batch_policy, LastBatchPolicy):
            raise InvalidArgumentError(f"last_batch_policy must be a LastBatchPolicy, not {last_batch_policy!r}")
        if fill_last_batch is not None:
            last_batch_policy = _FILL if fill_last_batch else _PARTIAL
        self._policy = last_batch_policy
        self.valid_samples: list[int] = []
        self._samples = size
        self._padded = last_batch_padded
        self._reader = reader_name
        self._shards: Shards | None = None
        self._auto_reset = _auto_reset(auto_reset)
        self._counter = 0  # steps of this epoch if there is a reader; otherwise samples of all pipelines together
        self._ended = False
        self._begun = False
        self._given = 0  # number of steps that were returned or skipped in this epoch
        self._restored = 0  # how many of the steps in _given belong to the run whose saved state was loaded
        self._kept: list[Taken] | None = None  # a step that _is_over() took early and _take() has not returned yet
        self._counted_out = False  # whether the last epoch ended after `size` samples, so that a source may yet report its end
        # The batches of the pipelines in the step that is being taken or was taken last. None: the pipeline's epoch has ended.
        self._given_by: dict[int, _core.Batch | _FailedBatch | None] = {}
        self._all_gave = True  # whether the next step is taken from all pipelines; otherwise only from those that are not in _given_by
        self._unanswered: list[str] = []  # warnings of calls since the last step, to be given if the epoch turns out to have another batch
        self._ends = 0  # number of epochs whose end the sources had reported before those calls
        self._before: tuple[Any, ...] = ()  # the _position() before the step that was taken last
        self._done = [False] * len(self._pipes)  # for each pipeline, whether it has delivered the last batch of its shard
        self._sessions = [pipe._started() for pipe in self._pipes]
        if reader_name is not None:
            for session in self._sessions:
                session.lead(reader_name)
            self._metas = [p.reader_meta(reader_name) for p in self._pipes]
            self._agree()
            self._refuse_short()
            if all(m["wraps"] and m["contiguous"] for m in self._metas):  # as in DALI, a batch may begin in one shard and end in the next
                m = self._metas[0]
                self._shards = Shards(m["epoch_size"], m["number_of_shards"], self._pipes[0].batch_size, m["stick_to_shard"])
        for session in self._sessions:
            session.extra_state = weakref.WeakMethod(self._extra_state)  # weak, so that dropping the iterator ends the pipeline
        if any(session.restored for session in self._sessions):
            self._go_on()
        self._shard_steps = self._steps(self._shards) if self._shards else 0  # steps in this epoch
        self._full_steps = self._count_full_steps()  # steps in this epoch; only used with DROP and a reader whose shards are not DALI's
        if prepare_first_batch:
            self._check_first_batch()
            for pipe in self._pipes:
                pipe.start()

    def _check_first_batch(self) -> None:
        """Raises InvalidArgumentError if DROP leaves an epoch without a batch, as DALI does: a training loop would silently do nothing."""
        together = sum(p.batch_size for p in self._pipes) if self._reader is None else self._pipes[0].batch_size
        if self._policy is _DROP and 0 <= self.size < together:
            raise InvalidArgumentError(
                f"an epoch (samples: {self.size}) is smaller than a batch (samples: {self._pipes[0].batch_size}), and LastBatchPolicy.DROP drops "
                "batches that are not full: use a smaller batch size, PARTIAL or FILL"
            )

    def _refuse_short(self) -> None:
        """Raises InvalidArgumentError for readers with tail="keep" unless the policy is PARTIAL: their last batches may be short."""
        if any(m["keeps"] and self._policy is not _PARTIAL for m in self._metas):
            raise InvalidArgumentError(
                f'reader {self._reader!r} has tail="keep", whose last batches may be short: LastBatchPolicy.{self._policy.name} is not '
                'possible over it. Give the reader tail="fill": the policy then fills the last batch, cuts it off or drops it'
            )

    def _agree(self) -> None:
        """Raises an error if a reader shuffles, but not with the same files and seed on all ranks: some samples would be read twice, and others never."""
        for meta, session in zip(self._metas, self._sessions, strict=True):
            state = session.state()
            if state["shuffle"]:
                facts = {"seed of the order": state["order_seed"], "samples": meta["epoch_size"], "files (digest)": state["fingerprint"]}
                check_agreement("what their readers read", facts, Shard(meta["shard_id"], meta["number_of_shards"]))

    # ---- restoring ----

    def _go_on(self) -> None:
        """Sets the iterator's counters from the states to which its pipelines were restored. Raises InvalidArgumentError if these were saved after different
        batches."""
        states = [session.restored or {"epoch": 0, "consumed": 0} for session in self._sessions]
        delivered = {self._delivered(k, state) for k, state in enumerate(states)}
        if len(delivered) > 1:
            raise InvalidArgumentError(
                "the pipelines of an iterator were saved after different batches: restore all of them from the states that one call of checkpoints() returned"
            )
        count = delivered.pop()
        if self._shards is not None:
            if self._policy is _FILL:
                self._counter = self._shards.go_on_filled(count)
            else:
                drops = self._policy is _DROP and self._shards.drops_one()
                self._counter = self._shards.go_on(count, self._steps(self._shards) + drops)
            self._given = self._counter
        elif self._reader is not None:
            self._counter = self._given = self._restored = count
        elif self._samples >= 0:
            self._counter = count
            if self._counted_out:
                for session in self._sessions:
                    session.reset()

    def _delivered(self, k: int, state: dict[str, Any]) -> int:
        """Returns how much pipeline k had delivered when `state` was saved: with DALI's shards, batches since the run began; with another reader, batches of
        the epoch; with size, samples of the iterator's epoch; otherwise 0."""
        if self._reader is None:
            return self._restored_samples(state) if self._samples >= 0 else 0
        meta = self._metas[k]
        steps, rest = divmod(state["consumed"], self._pipes[k].batch_size * meta["number_of_shards"])
        if self._shards is None:
            return int(steps)
        if rest:
            raise InvalidArgumentError(
                f"the state is of another batch size or another number of shards than {self._pipes[k].batch_size} and {meta['number_of_shards']}: "
                "a run over contiguous shards can only continue with the same ones"
            )
        return int(steps + self._shards.steps_before(meta["shard_id"], state["epoch"]))

    def _restored_samples(self, state: dict[str, Any]) -> int:
        """Returns the number of samples in the current epoch that were taken before the state was saved. Used only if `size` was given."""
        kept = state.get("iterator")
        if isinstance(kept, dict) and kept.keys() <= {"orders", "reset"}:  # the pipeline saved its state without an iterator
            kept = None
        if kept is None and state["consumed"] == 0:
            return 0
        if kept is None:
            raise InvalidArgumentError(
                "the state was saved in mid-epoch without an iterator that has a size, so the end of this iterator's epoch is not known: "
                "save states with the iterator's checkpoints()"
            )
        taken, steps = (kept.get("samples"), kept.get("steps")) if isinstance(kept, dict) else (None, None)
        if not isinstance(taken, int) or not isinstance(steps, int) or min(taken, steps) < 0:
            raise InvalidArgumentError('the state is damaged: "iterator" does not hold whole numbers of "samples" and "steps"')
        if taken >= self._samples:
            raise InvalidArgumentError(
                f"the state was saved after {taken} samples of an iterator's epoch, but an epoch has only {self._samples} here"
            )
        self._given = steps
        self._counted_out = steps == 0
        return taken

    def _extra_state(self, session: Session, state: dict[str, Any]) -> dict[str, Any]:
        """Returns the entries that a saved state of a pipeline needs for this iterator: with `size`, the position in the iterator's epoch; else {}. After the
        last batch of an epoch, the position is the beginning of the next epoch. Raises StateError if batches were taken that no step has returned yet."""
        if self._kept is not None:
            raise StateError(
                "reset() was called before the end of the epoch and has taken the next batch early: get that batch first, then save the state"
            )
        if self._gives_late():
            raise StateError(
                "the iterator has taken batches of its next step, which it has not returned yet: get that step first, then save the state"
            )
        if self._samples < 0:
            return {}
        samples, steps = self._counter, self._given
        if self._samples <= self._counter:
            samples, steps = self._carried(), 0
        elif (self._ended and not self._counted_out) or (session.source_ended(state) and (steps or not self._counted_out)):
            samples = steps = 0
        return {"iterator": {"samples": samples, "steps": steps}}

    def _gives_late(self) -> bool:
        """Returns whether batches of a step were taken in a call that raised an error, so that the next call returns them."""
        return bool(self._given_by) and not self._all_gave

    def _carried(self) -> int:
        """Returns how many samples of the last step count for the next epoch; 0 unless the policy is FILL and nothing pads. Used only if `size` is given."""
        carries = not self._padded and self._policy is _FILL
        return self._counter % self._samples if carries and self._counter > self._samples else 0

    # ---- one step ----

    def _give(self, convert: Callable[[list[Taken]], _Made]) -> _Made:
        """Returns the next step, converted to what the iterator gives. If an interrupt comes before this returns (KeyboardInterrupt, SystemExit), the next call
        gives the same step. Raises StopIteration at the end of the epoch."""
        for session in self._sessions:
            session.hold()
        self._before = self._position()
        late = tuple(self._given_by) if self._gives_late() else ()
        try:
            made = convert(self._take())
        except StopIteration:  # without a call, at which an interrupt could come and take its place
            raise
        except BaseException as e:
            if not isinstance(e, Exception):
                self._put_back(late, *self._before)
            raise
        self._given_by = {}
        first, *others = self._sessions
        first.core.held = None  # no call follows, at whose end an interrupt could come
        for session in others:
            session.core.held = None
        return made

    def _position(self) -> tuple[Any, ...]:
        return self._counter, self._given, self._begun, self._done, self._kept

    def _put_back(self, late: tuple[int, ...], counter: int, given: int, begun: bool, done: list[bool], kept: list[Taken] | None) -> None:
        """Makes the batches in `held` of the sessions the next ones again, if a session has one. The next step also gets what other pipelines have given for
        this one. late: the pipelines whose batches of this step were taken in an earlier call. The other arguments are the _position() before this step."""
        if self._ended or (kept is None and not late and all(session.core.held is None for session in self._sessions)):
            return
        self._counter, self._given, self._begun, self._done, self._kept = counter, given, begun, done, kept
        if kept is None:
            self._all_gave = False
            for k, session in enumerate(self._sessions):
                if k not in late and (session.put_back() or not session.holds):
                    self._given_by.pop(k, None)

    def _take(self) -> list[Taken]:
        """Returns the next batch of each pipeline, filled or cut by the policy. Raises StopIteration at the end of the epoch."""
        if self._kept is None:
            try:
                taken = self._step()
            except StopIteration:
                if self._auto_reset:
                    self.reset()
                raise
        else:
            taken, self._kept = self._kept, None
        self._given += 1
        self.valid_samples = [t.valid for t in taken]
        if self.valid_samples == [0]:
            taken = [taken[0]._replace(valid=min(1, len(taken[0].batch)))]
        return taken

    def _step(self) -> list[Taken]:
        """Returns the next step that has samples. Leaves out steps in which all samples of a pipeline's batch are bad, but counts them as steps of the epoch.
        Raises StopIteration at the end of the epoch."""
        first: int | None = None  # epoch of the first skipped step
        while True:
            taken = self._any_step()
            if all(len(t.batch) for t in taken) and (len(taken) > 1 or taken[0].valid):
                return taken
            ranks = self._ranks()
            empty = [
                (s, t.batch)
                for s, t in zip(self._sessions, taken, strict=True)
                if len(t.batch) == 0 or (len(taken) == 1 and self._all_bad(t))
            ]
            if not empty:
                return taken
            for session, batch in empty:
                session.check_left_out(batch, ranks)
            first = taken[0].batch.epoch if first is None else first
            if taken[0].batch.epoch > first + 1:
                self._sessions[0].refuse_unread(first + 1)
            self._given += 1

    def _all_bad(self, taken: Taken) -> bool:
        """Returns whether all of this epoch's samples in the batch are bad. Its other samples are then repeats or belong to the next epoch."""
        return taken.valid == 0 and len(taken.batch) < taken.batch.planned

    def _ranks(self) -> int:
        shards = max(int(s.meta(self._reader).get("number_of_shards", 1)) for s in self._sessions)
        return max(shards, len(self._sessions), resolve("auto").world)

    def _any_step(self) -> list[Taken]:
        self._before = self._position()
        if self._ended:
            raise StopIteration
        if all(self._done):
            self._finish()
        if 0 <= self._samples <= self._counter:
            self._finish(counted_out=True)
        if self._shards is not None and self._counter >= self._shard_steps:
            if self._policy is _DROP and self._shards.drops_one():
                self._batches()
            self._finish()
        batches = self._batches()
        self._begun = True
        self._answer()
        taken = self._by_reader(batches) if self._reader is not None else self._by_size(batches)
        if taken is None:
            self._finish(counted_out=self._samples >= 0)
        return taken

    def _batches(self) -> list[_core.Batch]:
        """Takes the next batch of each pipeline. Raises StopIteration if their epochs have ended. If a batch fails, raises its error, but only after the other
        pipelines have given theirs: otherwise the pipelines would be at different steps afterwards."""
        if self._all_gave:
            self._given_by, self._all_gave = {}, False
        given = self._given_by
        waits: Exception | None = None  # a timeout, for example: the pipeline has given nothing, and the next call asks it again
        for k, session in enumerate(self._sessions):
            if k in given:
                continue
            try:
                given[k] = session.take()
            except StopIteration:
                given[k] = None
            except Exception as e:
                if session.failed is None:
                    waits = waits or e
                else:
                    given[k] = _FailedBatch(e, session.failed.planned, session.failed.is_last)
        try:
            if waits is not None:
                raise waits
            self._all_gave = True
            return self._of_step([given[k] for k in range(len(self._sessions))])
        finally:
            # An error's traceback refers to this frame. If the frame referred to the error, the batches would live until the garbage collector runs.
            del given, waits

    def _of_step(self, step: list[_core.Batch | _FailedBatch | None]) -> list[_core.Batch]:
        """Returns the batches of a step, whose entries are those of _given_by. Raises StopIteration at the end of an epoch, and an error if a batch has failed or
        only some pipelines have ended."""
        batches = [b for b in step if isinstance(b, _core.Batch)]
        if len(batches) == len(step):
            return batches
        if all(b is None for b in step):
            self._finish()
        errors = [b.error for b in step if isinstance(b, _FailedBatch)]
        steps, ended = self._given, [k for k, b in enumerate(step) if b is None]
        self._count_failed(step)
        self._given_by = {}
        try:
            if errors:
                raise errors[0]
            self._ended, self._counted_out = True, False
            raise InvalidArgumentError(
                f"pipeline {ended[0]} of this iterator has ended its epoch after {steps} steps, and others have not: give the sources of all pipelines equally "
                "many batches in an epoch"
            )
        finally:
            del step, batches, errors

    def _count_failed(self, step: list[_core.Batch | _FailedBatch | None]) -> None:
        """Counts a step that raises an error, so that the epoch ends where it would have ended without the error."""
        self._begun = True
        self._given += 1
        if self._reader is None:
            self._counter += sum(b.planned for b in step if b is not None)
        elif self._shards is not None and self._counter >= self._shard_steps:  # a step that DROP takes after the epoch's last one
            self._ended = True
        else:
            self._counter += 1
            if self._shards is None:
                self._done = [done or b is None or b.is_last for done, b in zip(self._done, step, strict=True)]

    def _finish(self, counted_out: bool = False) -> NoReturn:
        self._ended = True
        self._counted_out = counted_out
        raise StopIteration

    def _go_on_with(self, warning: str) -> None:
        """Warns that the epoch has not ended. If only the sources know that, lets the next step begin the next epoch if the last one was this epoch's last, and
        otherwise warn."""
        if self._reader is not None or self._samples >= 0 or self._gives_late():
            warnings.warn(warning, stacklevel=3)
            return
        self._ends = self._sessions[0].ends
        self._unanswered.append(warning)
        for pipe in self._pipes:
            pipe.reset()

    def _answer(self) -> None:
        """Gives the warnings of calls since the last step if the epoch continues. If the user has made warnings errors, the next call returns this step."""
        unanswered, self._unanswered = self._unanswered, []
        if unanswered and self._sessions[0].ends == self._ends:
            self._all_gave = False
            for warning in dict.fromkeys(unanswered):
                warnings.warn(warning, stacklevel=7)
            self._all_gave = True

    def _is_over(self) -> bool:
        """Returns whether the epoch has ended. If the caller stopped at the last batch, before StopIteration, this takes the next step to find out, and stores
        it in self._kept."""
        last = all(self._done) or 0 <= self._samples <= self._counter or 0 < len(self) <= self._given
        if not self._ended and self._begun and last and self._kept is None:
            with contextlib.suppress(StopIteration):
                self._kept = self._step()
        return self._ended

    def _steps(self, shards: Shards) -> int:
        """Returns the number of batches in this epoch, which is equal for all shards. shards: DALI's contiguous shards."""
        if self._policy is _FILL:
            return shards.steps_filled()
        return shards.steps_partial() if self._policy is _PARTIAL else shards.steps_full()

    def _count_full_steps(self) -> int:
        """Returns the number of steps in this epoch whose batches are full on all ranks. Call before the epoch's first step, or after a restore. If the reader
        wraps, the epoch's first samples may have come in a batch of the previous epoch."""
        if self._reader is None or self._shards is not None or self._policy is not _DROP:
            return 0
        meta = self._metas[0]
        size, together = meta["epoch_size"], meta["number_of_shards"] * self._pipes[0].batch_size
        if size < 0 or not meta["wraps"]:
            return int(max(size, 0) // together)
        return int(max(size - self._sessions[0].state()["consumed"], 0) // together) + self._restored

    def _by_reader(self, batches: list[_core.Batch]) -> list[Taken] | None:
        """Returns each batch with the number of its samples that belong to this epoch; None if the policy drops the step."""
        taken = []
        for k, batch in enumerate(batches):
            valid = self._own_samples(k, batch)
            if self._policy is _DROP and valid < len(batch):
                return None
            taken.append(Taken(batch, valid if self._policy is _PARTIAL else len(batch)))
        self._counter += 1
        return taken

    def _own_samples(self, k: int, batch: _core.Batch) -> int:
        """Returns how many of the first samples in a batch belong to this epoch of pipeline k: 0 after its last batch, or if DROP drops this step on all ranks.
        With DALI's shards, returns all samples unless the policy is PARTIAL. Updates self._done[k], except with DALI's shards."""
        if self._shards is not None:
            # As in DALI, an epoch has as many samples as the shard, no matter at which sample of the shard it begins.
            left = self._shards.size(self._metas[k]["shard_id"]) - self._counter * self._pipes[k].batch_size
            return len(batch) if self._policy is not _PARTIAL else self._sessions[k].good_of(batch, max(left, 0))
        if self._done[k]:
            return 0
        self._done = [*self._done[:k], batch.is_last, *self._done[k + 1 :]]
        if self._policy is _DROP and batch.is_last and self._others_drop(k, batch):
            return 0
        return _own_samples(batch)

    def _others_drop(self, k: int, batch: _core.Batch) -> bool:
        """Returns whether the batch of another rank in this step is not full. DROP then drops the step on all ranks, so that they make equally many steps."""
        meta = self._metas[k]
        if not meta["wraps"]:
            return bool(self._counter >= len(self) and meta["epoch_size"] >= 0)
        epoch, position, *_ = batch.sample(0)
        step = position - meta["shard_id"] * self._pipes[k].batch_size  # first position of this step, over all ranks
        return bool(epoch != batch.epoch or step + meta["number_of_shards"] * self._pipes[k].batch_size > meta["epoch_size"])

    def _by_size(self, batches: list[_core.Batch]) -> list[Taken] | None:
        count = sum(b.planned for b in batches)  # includes skipped bad samples: without them, the epoch would end later
        self._counter += count
        ends = 0 <= self._samples <= self._counter
        if ends and self._policy is _DROP and any(b.planned < p.batch_size for b, p in zip(batches, self._pipes, strict=True)):
            return None  # the last batch of a user source may be short
        if self._samples < 0 or self._counter <= self._samples or self._policy is _FILL:
            return [Taken(b, len(b)) for b in batches]
        if self._policy is _DROP:
            return None
        left = count - (self._counter - self._samples)
        taken = []
        for session, batch in zip(self._sessions, batches, strict=True):
            taken.append(Taken(batch, session.good_of(batch, max(0, left))))
            left -= min(batch.planned, max(0, left))
        return taken

    # ---- epochs ----

    def reset(self) -> None:
        """Begins the next epoch if all batches of this one were taken. Otherwise ignores the call, with a warning if a batch was taken, as in DALI. If only the
        sources know where an epoch ends, the warning comes with the next step."""
        if not self._is_over():
            if self._begun:
                self._go_on_with("reset() in the middle of an epoch is ignored: iterate to its end, or use stoker.Loader")
            return
        counter, done, shards, shard_steps = self._carried() if self._samples >= 0 else 0, [False] * len(self._pipes), self._shards, 0
        if shards is not None:
            shards = copy.copy(shards)
            if self._policy is _FILL:
                shards.next_epoch()
            else:
                shards.epoch += 1
            shard_steps = self._steps(shards)
        for pipe in self._pipes:
            pipe.reset()
        self._restored = 0
        if self._reader is not None:  # epochs of a reader that wraps differ in length
            self._metas = [p.reader_meta(self._reader) for p in self._pipes]
            self._full_steps = self._count_full_steps()
        # No call follows, at which an interrupt could come. After an interrupt before this, the epoch has still ended, and the next call does all of it again.
        self._counter, self._given, self._done, self._shards, self._shard_steps = counter, 0, done, shards, shard_steps
        self._ended, self._begun, self._unanswered = False, False, []

    def __getstate__(self) -> Any:
        raise TypeError(
            "an iterator over pipelines cannot be pickled or copied: a copy would take every other batch of the same pipelines. Make another pipeline with "
            "another iterator; checkpoints() is what to save"
        )

    def __iter__(self) -> Any:
        if self._is_over():  # as in DALI, this does not depend on auto_reset
            self.reset()
        if self._begun and not self._ended:
            self._go_on_with(
                "this epoch has not ended: the iterator continues where it was, as DALI's iterators do (stoker.Loader begins the next epoch)"
            )
        return self

    def __len__(self) -> int:
        """Returns the number of batches in an epoch; 0 if the size of an epoch is not known. With `size`, the number is the same for all epochs, as in DALI:
        LastBatchPolicy.FILL makes fewer batches if samples of the epoch came in the previous epoch's last batch."""
        per_step = sum(p.batch_size for p in self._pipes)
        drop = self._policy is _DROP
        if self._reader is not None:
            if self._shards is not None:
                return self._steps(self._shards)
            if drop:
                return self._full_steps
            # If all ranks together take more samples in a step than an epoch has, an epoch may have no step of its own: the next step is then counted.
            steps = int(self._metas[0]["steps"]) + self._restored
            return max(steps, 1) if self._metas[0]["wraps"] else max(steps, 0)
        if self._samples < 0:
            return 0
        return self._samples // per_step if drop else -(-self._samples // per_step)

    @property
    def size(self) -> int:
        """Returns DALI's size of one pipeline's epoch in samples. With a reader: its full batches, including the samples that fill the last one; with
        LastBatchPolicy.DROP the share of one shard, including samples of the batch that is dropped. Without a reader: the argument `size`, or -1."""
        if self._reader is None:
            return self._samples
        meta = self._metas[0]
        if self._policy is _DROP:
            return int(meta["epoch_size"] // meta["number_of_shards"])
        if meta["pad_last_batch"]:
            return int(meta["epoch_size_padded"] // meta["number_of_shards"])
        return len(self) * self._pipes[0].batch_size

    _size = size  # scripts in DALI's own examples read this attribute

    @property
    def batch_size(self) -> int:
        """Returns the number of samples in a batch of one pipeline."""
        return self._pipes[0].batch_size

    def checkpoints(self) -> list[bytes]:
        """Returns the states of the pipelines, for Pipeline(checkpoint=...). An iterator over the restored pipelines continues after the last batch that was
        taken, and its epoch ends where this one's would. After the last batch of an epoch, it continues with the next epoch."""
        return [p.checkpoint() for p in self._pipes]


def _own_samples(batch: _core.Batch) -> int:
    """Returns how many samples of a batch belong to the epoch that it began in and are not repeats. These come first in the batch."""
    if not batch.is_last:
        return len(batch)
    own = 0
    for i in range(len(batch)):
        epoch, _position, _id, _uri, padded, _replaced = batch.sample(i)
        own += epoch == batch.epoch and not padded
    return own


def _auto_reset(value: str | bool | None) -> bool:
    if value in (False, None, "no"):
        return False
    if value in (True, "yes", "True"):
        return True
    raise InvalidArgumentError(f'auto_reset must be "yes", "no" or a bool, not {value!r}')


def __getattr__(name: str) -> NoReturn:
    raise no_attribute(__name__, name)
