# SPDX-License-Identifier: Apache-2.0
"""The class DataLoader, a subclass of torch's, and its iterators, which count batches and skip those that a saved run has received."""

from __future__ import annotations

import copy
import inspect
import sys
import weakref
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import IterableDataset
from torch.utils.data._utils.worker import _ResumeIteration
from torch.utils.data.dataloader import _DatasetKind, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

from stoker._signatures import add_suggestion
from stoker.dataloader import _accelerate, _progress, _worker_states
from stoker.dataloader._iterator import CompiledIterator
from stoker.dataloader._plan import Plan, plan
from stoker.dataloader._progress import Progress
from stoker.dataloader._reasons import InPython
from stoker.dataloader._worker_states import has_state
from stoker.errors import InvalidArgumentError, StateError
from stoker.loader import _lightning
from stoker.loader._one_thread import VISIT

_T = TypeVar("_T", covariant=True)
_MOST_WORKERS = 4096
_MOST_AHEAD = 1 << 20  # batches; torch requests all of them from the workers before it waits for the first one
_MOST_SECONDS = (2**31 - 1) // 1000  # torch converts the timeout to milliseconds in an int of 32 bits
_OWN = ("_stoker_progress", "_stoker_single", "_stoker_step")  # attributes that copies do not get: they belong to an iterator


class DataLoader(TorchDataLoader[_T]):
    """torch's DataLoader, but faster if Stoker knows the Dataset. Change an import:

        from stoker import DataLoader  # was: from torch.utils.data import ...

        train = DataLoader(ImageFolder("data/train", transform), 256,
                           shuffle=True, num_workers=8, pin_memory=True)
        for images, labels in train:
            ...
        print(train.explain())  # what runs in C, what in Python, and why

    It is a subclass with the same arguments, and one more. It yields what
    torch's yields: the same structure, types, dtypes, lengths and number of
    batches, with the samples in the same order for the same generator and
    sampler; or it raises what torch's raises. Only random draws in compiled
    transforms differ: they follow from torch's seed, epoch and sample position.

    What runs in C:
      - reading, decoding and transforms of ImageFolder and of torchvision's
        data sets that list image files or hold arrays (CIFAR, MNIST);
      - the same of Datasets whose __getitem__ opens an image, transforms it
        and returns it with its target;
      - Subset, random_split and ConcatDataset of these, with torchvision's
        transforms (doc/from-torchvision.md) or `weights.transforms()`;
      - a TensorDataset, which is indexed a batch at a time.
    Everything else runs as Python, in torch's own DataLoader. The first line
    of explain() goes to the logger "stoker.dataloader" when the first epoch
    begins; STOKER_QUIET=1 turns that off.

    If images are made in C, there are no worker processes, and:
      - num_workers is the number of threads (0: as many as the process may
        use), and prefetch_factor the number of batches made ahead;
      - worker_init_fn is not called if it only seeds generators; otherwise
        the Dataset runs in workers, as Python;
      - multiprocessing_context, persistent_workers and in_order=False have no
        effect;
      - the Dataset's own __getitem__, target_transform and collate_fn run on
        the thread of the loop.

    state_dict() and load_state_dict() are those of torchdata's
    StatefulDataLoader: a run continues with the batch after the last one that
    the loop had. States of Datasets in worker processes are part of the state:
    each worker sends its Dataset's state with every batch. If states are large,
    snapshot_every_n_steps=n sends them with every n-th batch only. A resumed
    run makes the batches since that batch again, and drops them.
    """

    snapshot_every_n_steps: int = 1
    _stoker_progress: Progress | None = None
    _stoker_resume: dict[str, Any] | None = None
    _stoker_step: dict[str, Any] | None = None  # the state at the beginning of a step for which Accelerate takes several batches
    _stoker_single: weakref.ref[_Single] | None = None  # the latest iterator that called the Dataset in this process; None: there was none

    def __init__(self, *arguments: Any, snapshot_every_n_steps: int | None = 1, **named: Any) -> None:
        self.snapshot_every_n_steps = _every(snapshot_every_n_steps)
        try:
            super().__init__(*arguments, **named)
        except TypeError as e:
            own = inspect.signature(DataLoader.__init__).parameters
            add_suggestion(e, {**inspect.signature(torch.utils.data.DataLoader.__init__).parameters, **own})
            raise
        _check_range("num_workers", self.num_workers, _MOST_WORKERS, "as many as there are cores are enough")
        _check_range("batch_size", self.batch_size, sys.maxsize, "len(dataset) makes one batch of an epoch")
        _check_range("timeout", self.timeout, _MOST_SECONDS, "0 waits without a limit")
        ahead = (self.prefetch_factor or 0) * self.num_workers
        _check_range("prefetch_factor * num_workers, the batches made ahead,", ahead, _MOST_AHEAD, "give a smaller prefetch_factor")

    @property
    def _is_accelerate_prepared(self) -> bool:
        """Prepares Accelerate's module, which reads this attribute just before it makes another DataLoader from this one. Returns False."""
        _accelerate.expect(self)
        return False

    def _rebuilt(self, with_state: bool, *arguments: Any, **named: Any) -> Any:
        """Makes a DataLoader of this class with other arguments. with_state: whether it gets the state that was loaded into this one, if any."""
        made = type(self)(*arguments, **{"snapshot_every_n_steps": self.snapshot_every_n_steps, **named})
        if with_state and self._stoker_resume is not None:
            made.load_state_dict(self._stoker_resume)
        _accelerate.know(made)
        return made

    # ---- iteration ----

    def __iter__(self) -> Any:
        return _lightning.begun(self, self._begin)

    def _begin(self) -> Any:
        """Returns a new iterator, or that of the last epoch if its workers persist."""
        if self.persistent_workers and self.num_workers > 0 and self._iterator is not None:
            if self._stoker_resume is None and isinstance(self._iterator, _Tracked):
                before = self._stoker_progress
                self._stoker_progress = _progress.begin(self) if before is None else _progress.after(self, before)
                self._iterator._stoker_begin(self._stoker_progress, 0, None)
                self._iterator._reset(self)
                return self._iterator
            self._iterator = None
        return super().__iter__()

    def _get_iterator(self) -> Any:
        resume, self._stoker_resume = self._stoker_resume, None
        if resume is None:
            self._stoker_progress = _progress.begin(self)
            return self._make_iterator(0, None)
        _worker_states.check(self, resume)
        _progress.rewind(self, resume)
        stream = isinstance(self.dataset, IterableDataset)
        if not stream and not resume["inside"]:
            self._restore_dataset(resume)
        by_default = _progress.order_by_default(self)
        if not resume["inside"] and (by_default or (self.num_workers and self.generator is None)):
            now = torch.get_rng_state()
            _progress.set_default_generator(resume["default_generator"])  # the next epoch then has the order of the saved run
            self._stoker_progress = _progress.begin(self, resume)
            iterator = self._make_iterator(0, resume)
            if not by_default:  # default_generator only gave the workers' seed, and not the order of later epochs
                torch.set_rng_state(now)
            return iterator
        if not resume["inside"] or (stream and self.num_workers == 0):
            self._stoker_progress = _progress.begin(self, resume)
            return self._make_iterator(resume["batches"], resume)
        now = torch.get_rng_state()
        _progress.set_default_generator(resume["default_generator"])
        try:
            self._stoker_progress = _progress.begin(self, resume)
            iterator = self._make_iterator(resume["batches"], resume)
        finally:
            if resume["batches"]:
                torch.set_rng_state(now)
        if by_default:  # the next epochs then have the order of the saved run, too
            _progress.set_default_generator(resume["default_generator_now"])
        if not stream:
            self._restore_dataset(resume)
        return iterator

    def _restore_dataset(self, resume: dict[str, Any]) -> None:
        if "dataset_state" in resume and self.num_workers == 0:
            dataset: Any = self.dataset
            dataset.load_state_dict(resume["dataset_state"])

    def _make_iterator(self, skip: int, resume: dict[str, Any] | None) -> Any:
        assert self._stoker_progress is not None
        made = plan(self)
        if made.in_c:
            try:
                iterator = _InC(self, made, self._stoker_progress, skip, resume)
                made.tell(self)
                return iterator
            except InPython as e:
                made = Plan(reason=str(e))
        made.tell(self)
        if self.num_workers == 0:
            single = _Single(self, self._stoker_progress, skip, resume)
            self._stoker_single = weakref.ref(single)
            return single
        self.check_worker_number_rationality()
        return _Workers(self, self._stoker_progress, skip, resume)

    # ---- state ----

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the loop, after the last batch that it
        received. The dict has the same keys at any time, which
        torch.distributed.checkpoint requires. Another thread may call this: it
        waits until the loop has its batch.
        """
        before = _lightning.state_for_checkpoint(self)
        if before is not None:
            return before
        taken = _accelerate.taken_for_step()
        if taken and self._stoker_step is not None:
            return dict(self._stoker_step)  # a run continues with the first batch of a step
        state = self._state()
        if taken == 0:
            self._stoker_step = copy.deepcopy(state)
        return state

    def _state(self) -> dict[str, Any]:
        if self._stoker_resume is not None:
            return dict(self._stoker_resume)
        progress = self._stoker_progress
        if progress is None:
            return _progress.save(self, None, self._state_of_dataset())
        inside = progress.lock.is_mine()  # the loop's thread asks, from a function that it calls for a batch
        if not inside and not progress.lock.acquire(VISIT):
            raise StateError(
                f"state_dict(): another thread has been waiting for a batch for {VISIT:.0f} s, and the position is known only between two batches: call it "
                "again, or from that thread"
            )
        try:
            return _progress.save(self, progress, self._state_of_dataset())
        finally:
            if not inside:
                progress.lock.release()

    def _state_of_dataset(self) -> Any:
        """Returns the state of the Dataset, or of its iterator; None if neither can save one, or if workers hold it."""
        if self.num_workers:
            return None
        single = None if self._stoker_single is None else self._stoker_single()
        inside = self._stoker_progress is not None and not self._stoker_progress.over
        for owner in (single.stream if single is not None and inside else None, self.dataset):
            if has_state(owner):
                try:
                    return owner.state_dict()  # type: ignore[union-attr]
                except AttributeError:
                    if self._stoker_progress is not None:
                        raise
                    return {}  # state_dict() reads an attribute that the first iteration will make
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration continue from a state. Samples before it are
        not read, except that an IterableDataset without a state yields them
        again. The present iteration, if there is one, raises StateError when it
        has another batch. Raises StateError if the state is damaged, if the
        Dataset has another length, or if it is one of torchvision's folders (or
        a Subset or ConcatDataset of them) with another list of files.
        """
        _progress.check(state)
        _progress.check_data(self, state)
        _worker_states.check(self, state)
        self._stoker_resume = dict(state)
        if self._stoker_progress is not None:
            self._stoker_progress.left = True
        self._stoker_progress = None
        if _lightning.leaves_epoch(self, bool(state["inside"])):
            self._leave_epoch(state.get("epoch", -1))

    def _leave_epoch(self, epoch: int) -> None:
        """Begins the rest of the restored epoch and leaves it, as the saved run did before its next epoch, so that samplers and generators get the same states
        as in that run. epoch: the epoch of a sampler with set_epoch(), or -1."""
        self._begin()
        sampler = _progress._with_epoch(self)
        if sampler is not None and epoch >= 0:
            sampler.set_epoch(epoch + 1)

    def explain(self) -> str:
        """Returns a text that says what runs in C, what runs in Python, and why."""
        made = plan(self)
        lines = [made.line(self)]
        if made.reader is not None and made.compiled is not None:
            try:
                machine = CompiledIterator.trial(self, made)
            except InPython as e:
                return Plan(reason=str(e)).line(self)
            lines += ["", machine.explain()]
            machine.close()
        return "\n".join(lines)

    # ---- copies ----

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OWN} | {"_iterator": None}


class _Tracked:
    """Base of all iterators here. Counts the batches, and skips the batches that the loop had received when its state was saved."""

    _progress: Progress
    _skip = 0
    _taken = 0  # number of batches that torch's iterator has begun to return, also those that end in an error
    _saved: dict[str, Any] | None = None  # the state with which the indices of skipped batches are compared; None: they are not compared

    def _stoker_begin(self, progress: Progress, skip: int, resume: dict[str, Any] | None) -> None:
        self._progress, self._skip = progress, skip
        self._saved = resume

    def _next_index(self) -> Any:
        self._pass_over()
        indices = super()._next_index()  # type: ignore[misc]
        if self._dataset_kind == _DatasetKind.Map:  # type: ignore[attr-defined]
            self._progress.draw(indices)
        return indices

    def _pass_over(self) -> None:
        """Draws the indices of the batches to skip. Raises StateError if there are fewer, or if their digest differs from that of the saved run."""
        if not self._skip or self._dataset_kind == _DatasetKind.Iterable:  # type: ignore[attr-defined]
            return
        skip, self._skip = self._skip, 0
        for _ in range(skip):
            try:
                self._progress.draw(super()._next_index())  # type: ignore[misc]
            except StopIteration:
                raise self._other(self._saved) from None
            self._progress.count()
        if self._saved is not None:
            self._progress.check_drawn(self._saved)
        self._num_yielded = skip

    def _other(self, resume: dict[str, Any] | None) -> StateError:
        ranks = self._progress.share[1]
        return _progress.other_samples((resume or {}).get("ranks", ranks), ranks)

    def _pass_over_stream(self) -> None:
        """Takes and drops the batches to skip. The samples of an IterableDataset can be skipped in no other way."""
        skip, self._skip = self._skip, 0
        for _ in range(skip):
            super().__next__()  # type: ignore[misc]
            self._progress.count()

    def __next__(self) -> Any:
        lock = self._progress.lock
        inside = lock.is_mine() or not lock.acquire()
        try:
            return self._take()
        finally:
            if not inside:
                lock.release()

    def _take(self) -> Any:
        if self._skip and self._dataset_kind == _DatasetKind.Iterable:  # type: ignore[attr-defined]
            self._pass_over_stream()
        taken = self._taken
        try:
            data = super().__next__()  # type: ignore[misc]
        except StopIteration:
            self._progress.over = True
            raise
        except Exception:
            if self._taken > taken:  # the loop may continue with the batch after the one that failed
                self._progress.count(self._number())
            raise
        # The end of an iteration raises no error, since a loop may load a state after its last batch.
        if self._progress.left:
            raise StateError(
                "a state was loaded into this DataLoader after this iteration had begun, and the iteration would not continue from it: begin a new "
                "iteration, iter(loader), after load_state_dict()"
            )
        self._progress.count(self._number())
        return data

    def _number(self) -> int | None:
        """Returns the index in the epoch of the batch that was received last; None if batches arrive in order."""
        return None


class _InC(_Tracked, CompiledIterator):
    def __init__(self, loader: Any, made: Plan, progress: Progress, skip: int, resume: dict[str, Any] | None) -> None:
        self._stoker_begin(progress, skip, resume)
        super().__init__(_same_workers(loader, progress), made, progress.turn, progress.base_seed)
        progress.base_seed = int(self._base_seed)
        self._pass_over()


def _same_workers(loader: Any, progress: Progress) -> Any:
    """Returns the loader to pass to torch's iterator. Persistent workers that continue a saved run keep that run's seed; torch would draw one from the
    loader's generator, so the returned view has another generator."""
    return loader if not progress.turn else _worker_states.View(loader, generator=torch.Generator())


class _Single(_Tracked, _SingleProcessDataLoaderIter):
    def __init__(self, loader: Any, progress: Progress, skip: int, resume: dict[str, Any] | None) -> None:
        self._stoker_begin(progress, skip, resume)
        saved = None if resume is None or loader._dataset_kind == _DatasetKind.Map else resume.get("dataset_state")
        if saved and has_state(loader.dataset) and not hasattr(type(loader.dataset), "__next__"):
            loader.dataset.load_state_dict(saved)
        super().__init__(loader)
        if saved is not None:
            if saved and has_state(self.stream):
                self.stream.load_state_dict(saved)
            progress.batches, self._skip = skip, 0
        self._pass_over()

    def _next_index(self) -> Any:
        indices = super()._next_index()
        self._taken += 1
        return indices

    @property
    def stream(self) -> Any:
        """Returns the iterator over the IterableDataset; None for other Datasets."""
        return getattr(self._dataset_fetcher, "dataset_iter", None)


class _Workers(_Tracked, _MultiProcessingDataLoaderIter):
    _priming = True

    def __init__(self, loader: Any, progress: Progress, skip: int, resume: dict[str, Any] | None) -> None:
        self._states = progress.workers
        self._restored = self._states is not None and self._states.any
        self._every = 1 if self._states is None or not loader.in_order else loader.snapshot_every_n_steps or 0
        since = 0 if resume is None or not skip else int((resume.get("worker_states") or {}).get("since", 0))
        skip -= since
        streams = loader._dataset_kind == _DatasetKind.Iterable
        if streams and skip and (self._restored or not loader.in_order):
            if not self._restored:
                raise StateError(
                    "with in_order=False the batches of an IterableDataset come in an order that does not repeat, so that the ones before the saved "
                    "position are "
                    "not known: give the IterableDataset methods state_dict and load_state_dict, or save states between epochs"
                )
            progress.batches, skip = skip, 0
        self._stoker_begin(progress, skip, None if since else resume)
        self._passed = set(progress.ahead)  # indices in the epoch of batches that the saved run received before batches drawn earlier
        self._mixed = not loader.in_order and not streams
        self._numbers: dict[int, int] = {}  # for each unanswered task: torch's number -> index of its batch in the epoch
        self._task = 0  # torch's number of the task that was answered last
        self._ends: list[tuple[int, int, bytes | None]] = []  # for ended workers: number of the task, index of the worker, its state
        view = _same_workers(loader, progress)
        seed = progress.base_seed if progress.turn else None
        if self._states is not None or seed is not None:
            context = _worker_states.Context(loader.multiprocessing_context, self._states, seed, self._every == 1)
            view = _worker_states.View(view, multiprocessing_context=context)
        super().__init__(_worker_states.View(view, worker_init_fn=_worker_states.Begin(loader.worker_init_fn)))
        if seed is not None:
            self._base_seed = seed
        progress.base_seed = int(self._base_seed)
        if since:
            self._repeat(since, resume)

    def _repeat(self, batches: int, resume: Any) -> None:
        """Makes the batches between the last snapshot of the workers' states and the saved position again, and drops them. Raises StateError if the sampler
        gives other indices for them than in the saved run. batches: the number of batches to make. resume: the saved state."""
        progress = self._progress
        end = progress.batches + batches
        while progress.batches < end:
            before = progress.batches
            try:
                next(self)
            except StopIteration:
                break
            except Exception:
                if progress.batches == before:  # the error does not belong to a batch, because a batch that fails is counted too
                    raise
        if progress.batches != end:
            raise self._other(resume)
        progress.check_drawn(resume)

    def _reset(self, loader: Any, first_iter: bool = False) -> None:
        if not first_iter and self._states is not None:
            for _, *answer in self._task_info.values():
                self._keep_late_state(*answer)
        self._drawn = 0
        self._numbers.clear()
        self._length = _length_of(self._index_sampler)
        self._priming = False  # ignore torch's requests for the first batches, since the next worker is not known yet
        super()._reset(loader, first_iter)
        self._priming = True
        if not first_iter:
            self._passed = set()
            if self._states is not None:
                self._note_ends()
                self._states = self._progress.workers = self._states.at_next_epoch(
                    True
                )  # includes states of batches that the loop did not receive
        elif self._restored:
            for _ in range(self._states.last + 1):
                next(self._worker_queue_idx_cycle)
        if self._every != 1:
            self._states.keep(self._progress.batches + self._skip)
        for _ in range(self._prefetch_factor * self._num_workers):
            self._try_put_index()

    def _try_put_index(self) -> None:
        if self._priming:
            super()._try_put_index()

    def _next_index(self) -> Any:
        while True:
            indices = super()._next_index()
            number, self._drawn = self._drawn, self._drawn + 1
            if number not in self._passed:
                if self._mixed:
                    self._numbers[self._send_idx] = number
                return indices if self._every == 1 else _worker_states.Task(indices, self._wants_state(number))

    def _wants_state(self, number: int) -> bool:
        """Returns whether a worker has to send its state with a batch: the batch may be this worker's last one before a snapshot or before the next epoch.
        number: index of the batch in the epoch."""
        every, workers = self._every, self._num_workers
        # An IterableDataset may end at any batch. A worker that ends always sends its state, so only snapshots need states here.
        if self._dataset_kind == _DatasetKind.Iterable:
            return bool(every) and self._progress.batches % every + 1 + workers * (1 + self._prefetch_factor) >= every
        if every and number % every + workers >= every:
            return True
        return self._persistent_workers and (self._length is None or number + workers >= self._length)

    def _pass_over(self) -> None:
        skip = self._skip
        super()._pass_over()
        self._drawn += skip - self._skip

    def _number(self) -> int | None:
        return self._numbers.pop(self._task) if self._mixed else None

    def _get_data(self) -> Any:
        answer = super()._get_data()
        self._task, data = answer
        if isinstance(data, _worker_states.Ended):
            self._ends.append((self._task, data.worker_id, data.state))
        elif not self._priming:
            self._keep_late_state(data)
            if isinstance(self._task, _ResumeIteration):
                return self._task, None
        return answer

    def _keep_late_state(self, data: Any = None) -> None:
        """Stores the state that a worker sent with a batch, if the loop left the epoch without receiving the batch."""
        if isinstance(data, _worker_states.Sent):
            self._states.put(data.worker, data.state)

    def _process_data(self, data: Any, worker: int) -> Any:
        self._taken += 1
        if self._states is not None:
            if isinstance(data, _worker_states.Sent):
                self._states.put(worker, data.state)
                data = data.data
            self._states.last = worker
            self._note_ends(self._rcvd_idx if self._in_order else None)
        return super()._process_data(data, worker)

    def _note_ends(self, before: int | None = None) -> None:
        """Stores the states of workers whose IterableDataset has ended. before: only of workers whose last task has a lower number; None: of all workers."""
        while self._ends and (before is None or self._ends[0][0] < before):
            _, worker, state = self._ends.pop(0)
            self._states.put(worker, state)

    def __next__(self) -> Any:
        try:
            data = super().__next__()
        except StopIteration:
            self._note_ends()
            raise
        if self._every > 1 and self._progress.batches % self._every == 0:
            self._states.keep(self._progress.batches)
        return data


def _length_of(sampler: Any) -> int | None:
    try:
        return len(sampler)
    except (TypeError, NotImplementedError):
        return None


def _check_range(what: str, value: Any, most: int, advice: str) -> None:
    """Raises InvalidArgumentError, with the advice, if `value` is a number above `most`. torch accepts such numbers, and then starts processes or requests
    batches endlessly, or fails in the first epoch. what: the argument's name."""
    if isinstance(value, (int, float)) and value > most:
        raise InvalidArgumentError(f"DataLoader: {what} is at most {most}, not {value}: {advice}")


def _every(steps: Any) -> int:
    """Returns the argument snapshot_every_n_steps; 0 for None. Raises InvalidArgumentError unless it is None or a whole number of at least 0."""
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 0):
        raise InvalidArgumentError(
            f"DataLoader: snapshot_every_n_steps is a whole number of steps; 0 or None takes no snapshots; not {steps!r}"
        )
    return steps or 0


def _signature() -> inspect.Signature:
    """Returns the signature of the installed torch's DataLoader plus this class's argument. Frameworks read it to copy a DataLoader."""
    torchs = inspect.signature(TorchDataLoader.__init__)
    own = inspect.Parameter("snapshot_every_n_steps", inspect.Parameter.KEYWORD_ONLY, default=1)
    return torchs.replace(parameters=[*torchs.parameters.values(), own])


DataLoader.__init__.__signature__ = _signature()  # type: ignore[attr-defined]
