# SPDX-License-Identifier: Apache-2.0
"""States of the Datasets in a DataLoader's worker processes.

Each worker has its own copy of the Dataset. If that copy, or the iterator that it returns, has state_dict() and load_state_dict(), the worker sends its state
with every batch, or with the batches that snapshot_every_n_steps demands. state_dict() of the DataLoader contains the states that belong to the last batches
that the loop received. Worker processes run torch's own loop. This module passes that loop its own objects in place of the Dataset, the queues of tasks and
answers, and the worker_init_fn.
"""

from __future__ import annotations

import enum
import inspect
import multiprocessing.util
import os
import pickle
from collections.abc import Callable, Iterator
from typing import Any

from torch._utils import ExceptionWrapper
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils.worker import _IterableDatasetStopIteration, _ResumeIteration
from torch.utils.data.dataloader import _DatasetKind

from stoker.errors import StateError


def has_state(owner: Any) -> bool:
    """Returns whether an object can save its state and load it again."""
    return hasattr(owner, "state_dict") and hasattr(owner, "load_state_dict")


class Phase(enum.IntEnum):
    """When a worker's state was taken. Until a worker sends its first batch of an epoch, it has the state of the end of the previous epoch."""

    FRESH = 0  # the worker has not sent a batch; a new worker does not load such a state
    INSIDE = 1
    ENDED = 2  # the worker's IterableDataset has returned its last sample in this epoch
    EARLIER = 3  # the state is from the end of an earlier epoch


def possible(loader: Any) -> bool:
    """Returns whether a loader's workers may have states. The iterator of an IterableDataset exists only in workers, so every IterableDataset may."""
    from torch.utils.data import IterDataPipe, MapDataPipe

    dataset = loader.dataset
    return not isinstance(dataset, (IterDataPipe, MapDataPipe)) and (isinstance(dataset, IterableDataset) or has_state(dataset))


class WorkerStates:
    """The states of all workers, stored in the process of the training loop. last: index of the worker that made the last batch; -1: no batch yet."""

    def __init__(self, workers: int) -> None:
        self.last = -1
        self._states: list[bytes | dict[str, Any] | None] = [None] * workers
        # The number of batches at the last snapshot, and the states at that time. None: there is a snapshot after each batch.
        self._kept: tuple[int, WorkerStates] | None = None

    def keep(self, batches: int) -> None:
        """Takes a snapshot, which save() uses until the next one. batches: number of batches of the epoch so far."""
        states = WorkerStates(0)
        states.last, states._states = self.last, list(self._states)
        self._kept = batches, states

    def put(self, worker: int, state: bytes | None) -> None:
        """Stores a state that a worker sent. None: the state has not changed since the last one."""
        if state is not None:
            self._states[worker] = state

    def state_of(self, worker: int) -> dict[str, Any] | None:
        """Returns the state of one worker, which the caller may change; None if the worker has sent no state."""
        state = self._states[worker]
        if isinstance(state, bytes):
            made: dict[str, Any] = pickle.loads(state)
            return made
        return None if state is None else dict(state)

    def at_next_epoch(self, persistent: bool) -> WorkerStates:
        """Returns the states with which the workers begin the next epoch. persistent: whether the same processes continue."""
        made = WorkerStates(len(self._states))
        for worker in range(len(self._states)):
            state = self.state_of(worker)
            if state is not None and state["phase"] != Phase.FRESH:
                state["phase"] = int(Phase.EARLIER if persistent else Phase.FRESH)
            made._states[worker] = state
        return made

    def save(self, dataset: Any, batches: int) -> dict[str, Any] | None:
        """Returns all states for state_dict(), or None if neither the Dataset nor a worker has one. dataset: the Dataset in this process, whose state stands
        for workers that sent none. batches: number of batches of the epoch so far. A resumed run makes the batches since the last snapshot again."""
        if self._kept is not None:
            then, kept = self._kept
            return kept._save(dataset, batches - then)
        return self._save(dataset, 0)

    def _save(self, dataset: Any, since: int) -> dict[str, Any] | None:
        states = [self.state_of(worker) for worker in range(len(self._states))]
        if not has_state(dataset) and not any(states):
            return None
        made = [state or {"phase": int(Phase.FRESH), "dataset": _state_now(dataset), "iterator": None} for state in states]
        return {"last": self.last, "states": made, "since": since}

    @classmethod
    def load(cls, loader: Any, saved: Any) -> WorkerStates:
        """Makes the object from a state_dict(). saved: its entry "worker_states", or None if no worker had a state."""
        made = cls(loader.num_workers)
        if saved is not None:
            made._states = list(saved["states"])
            made.last = saved["last"]
        return made

    @property
    def any(self) -> bool:
        return any(state is not None for state in self._states)


def check(loader: Any, state: dict[str, Any]) -> None:
    """Raises StateError if the states of workers are damaged, or if they cannot be continued with the loader's number of workers. A state with another number
    of workers is accepted if no worker had begun and no epoch was running."""
    saved = state.get("worker_states")
    if saved is None:
        if loader.num_workers and state.get("dataset_state"):
            raise StateError(
                f"the state was saved with num_workers=0, and holds the state of the Dataset in that process; the loader has {loader.num_workers} "
                "workers, each "
                "with a Dataset of its own: continue with num_workers=0"
            )
        return
    fields = isinstance(saved, dict) and isinstance(saved.get("last"), int) and isinstance(saved.get("states"), (list, tuple))
    since = saved.get("since", 0) if fields else None
    if (
        not isinstance(since, int)
        or not 0 <= since <= state["batches"]
        or not all(isinstance(s, dict) and s.keys() == {"phase", "dataset", "iterator"} for s in saved["states"])
    ):
        raise StateError("the state of a stoker.DataLoader holds damaged states of worker processes")
    count = len(saved["states"])
    begun = any(s["phase"] != Phase.FRESH for s in saved["states"])
    if count != loader.num_workers and (begun or state["inside"]):
        raise StateError(
            f"the state was saved with num_workers={count}, and holds the states of the Datasets in these workers; the loader has num_workers="
            f"{loader.num_workers}: continue with {count} workers"
        )


def _state_now(dataset: Any) -> Any:
    try:
        return dataset.state_dict() if has_state(dataset) else None
    except AttributeError:
        return {}  # the Dataset makes its attributes in the first iteration


# ---- passing the states to torch's iterator ----


class View:
    """A DataLoader in which some attributes have other values. It is passed to torch's iterator in place of the DataLoader."""

    def __init__(self, loader: Any, **changed: Any) -> None:
        self._loader = loader
        vars(self).update(changed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


class Context:
    """A multiprocessing context that starts workers with their states. states: None if the workers have none. base_seed: the seed for the workers in place of
    torch's; None: torch's. every_batch: whether each worker sends its state with each batch."""

    def __init__(self, context: Any, states: WorkerStates | None, base_seed: int | None, every_batch: bool) -> None:
        import torch

        self._context = torch.multiprocessing if context is None else context
        self._states, self._base_seed, self._every_batch = states, base_seed, every_batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def Process(self, target: Callable[..., None], args: tuple[Any, ...]) -> Any:  # noqa: N802
        named = dict(inspect.signature(target).bind(*args).arguments)
        if self._base_seed is not None:
            named["base_seed"] = self._base_seed
        if self._states is None:
            return self._context.Process(target=target, args=tuple(named.values()))
        return self._context.Process(target=_work, args=(target, self._states.state_of(named["worker_id"]), named, self._every_batch))


class Task:
    """The indices of a batch, and whether the worker has to send its state with the batch."""

    def __init__(self, indices: Any, state: bool) -> None:
        self.indices, self.state = indices, state


# ---- in a worker process ----


class Begin:
    """The worker_init_fn of all workers: arranges that an orphaned process exits without waiting for its queue, then calls the user's function."""

    def __init__(self, user: Callable[[int], object] | None) -> None:
        self.user = user

    def __call__(self, worker: int) -> None:
        # If the main process was killed, the worker would hang at its exit: torch's queue waits until all answers are written, no process reads the pipe, and
        # because other workers have it open, writing does not fail. So this finalizer runs before the queue is closed.
        multiprocessing.util.Finalize(None, _leave_if_orphaned, (os.getppid(),), exitpriority=100)
        if self.user is not None:
            self.user(worker)


def _leave_if_orphaned(parent: int) -> None:
    if os.getppid() != parent:
        os._exit(1)


class Sent:
    """A batch from a worker. state: the worker's state after this batch, pickled; None if it has not changed."""

    def __init__(self, data: Any, worker: int, state: bytes | None) -> None:
        self.data, self.worker, self.state = data, worker, state

    def pin_memory(self) -> Sent:
        """Pins the memory of the batch. torch's thread that pins batches calls this."""
        from torch.utils.data._utils.pin_memory import pin_memory

        return Sent(pin_memory(self.data), self.worker, self.state)


class Ended(_IterableDatasetStopIteration):
    """The message with which a worker reports the end of its IterableDataset, with the worker's last state."""

    state: bytes | None = None

    def __reduce__(self) -> Any:
        return _ended, (self.worker_id, self.state)


def _ended(worker: int, state: bytes | None) -> Ended:
    made = Ended(worker)
    object.__setattr__(made, "state", state)
    return made


def _work(loop: Callable[..., None], saved: dict[str, Any] | None, named: dict[str, Any], every_batch: bool) -> None:
    """The main function of a worker process. loop: the main function of torch's workers. saved: the state to load, or None. named: arguments of `loop`.
    every_batch: whether to send the state with each batch; if not, only with batches for which a Task asks."""
    if saved is not None and saved["phase"] == Phase.FRESH:
        saved = None
    dataset, init_fn = named["dataset"], named["init_fn"]
    copy: _Copy = _Stream(dataset, saved) if named["dataset_kind"] == _DatasetKind.Iterable else _Copy(dataset)

    def init(worker: int) -> None:
        object.__setattr__(get_worker_info(), "dataset", dataset)  # WorkerInfo.__setattr__ would raise an error
        if init_fn is not None:
            init_fn(worker)
        if saved is not None and type(copy) is _Copy:
            dataset.load_state_dict(saved["dataset"])

    named["dataset"] = copy if isinstance(copy, _Stream) else dataset
    answers = _Answers(named["data_queue"], copy, named["worker_id"], every_batch)
    loop(**{**named, "init_fn": init, "index_queue": _Tasks(named["index_queue"], answers), "data_queue": answers})


class _Copy:
    phase = Phase.INSIDE

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def state(self) -> dict[str, Any] | None:
        return {"phase": int(self.phase), "dataset": self._dataset.state_dict(), "iterator": None}


class _Stream(_Copy, IterableDataset[Any]):
    """Wraps the worker's copy of an IterableDataset. torch's loop iterates over this object."""

    def __init__(self, dataset: Any, saved: dict[str, Any] | None) -> None:
        super().__init__(dataset)
        self._saved, self._stateful = saved, False
        self._iterator: Any = None

    def __iter__(self) -> Iterator[Any]:
        saved, self._saved = self._saved, None
        self.phase = Phase.INSIDE
        if saved is not None and saved["dataset"] is not None and has_state(self._dataset):
            self._dataset.load_state_dict(saved["dataset"])
        self._iterator = iter(self._dataset)
        if saved is not None and saved["iterator"] is not None and has_state(self._iterator):
            self._iterator.load_state_dict(saved["iterator"])
        if saved is not None and saved["phase"] == Phase.EARLIER:
            self._iterator = iter(self._dataset)
        elif saved is not None and saved["phase"] == Phase.ENDED:
            self.phase = Phase.ENDED
        self._stateful = has_state(self._dataset) or has_state(self._iterator)
        made: Iterator[Any] = _Counted(self, self._iterator) if self._stateful else self._iterator
        return made

    def state(self) -> dict[str, Any] | None:
        if not self._stateful:
            return None
        apart = self._iterator is not self._dataset and has_state(self._dataset)
        return {
            "phase": int(self.phase),
            "dataset": self._dataset.state_dict() if apart else None,
            "iterator": self._iterator.state_dict() if has_state(self._iterator) else None,
        }


class _Counted:
    """Iterates over an IterableDataset. At the end, sets the stream's phase to ENDED: the Dataset's own state may then look like that of a new epoch."""

    def __init__(self, stream: _Stream, iterator: Any) -> None:
        self._stream, self._iterator = stream, iterator

    def __iter__(self) -> _Counted:
        return self

    def __next__(self) -> Any:
        if self._stream.phase == Phase.ENDED:
            raise StopIteration
        try:
            return next(self._iterator)
        except StopIteration:
            self._stream.phase = Phase.ENDED
            raise


class _Tasks:
    """Wraps the queue of a worker's tasks. get() replaces a Task by its indices, and notes whether the training loop wants the state with that batch."""

    def __init__(self, queue: Any, answers: _Answers) -> None:
        self._queue, self._answers = queue, answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def get(self, *arguments: Any, **named: Any) -> Any:
        task = self._queue.get(*arguments, **named)
        if isinstance(task, tuple) and isinstance(task[1], Task):
            self._answers.wanted = task[1].state
            return task[0], task[1].indices
        return task


class _Answers:
    """The queue of a worker's answers, which adds states to them. every_batch: whether the training loop wants the state with each batch. wanted: whether it
    wants the state with the next answer."""

    wanted = True

    def __init__(self, queue: Any, copy: _Copy, worker: int, every_batch: bool) -> None:
        self._queue, self._copy, self._worker, self._last = queue, copy, worker, b""
        self._every_batch = every_batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    def put(self, answer: tuple[Any, Any]) -> None:
        number, data = answer
        begins = isinstance(number, _ResumeIteration)  # whether this is the answer that begins an epoch, before its batches
        if begins:
            self._last = b""
        # The training loop may have left the last epoch before it received the latest state. So the worker sends its state at the start of an epoch, unless it
        # does so with each batch.
        if not begins or not self._every_batch:
            self.wanted |= begins
            try:
                data = self._with_state(data)
            except Exception:
                if not isinstance(data, ExceptionWrapper):
                    data = ExceptionWrapper(where="in state_dict of the Dataset in a DataLoader worker process")
        self._queue.put((number, data))

    def _with_state(self, data: Any) -> Any:
        state = self._copy.state() if self.wanted or isinstance(data, _IterableDatasetStopIteration) else None
        if state is None:
            return data
        made: bytes | None = pickle.dumps(state)  # pickled now, because the queue would do it later, when the Dataset may have changed
        if made == self._last:
            made = None
        else:
            self._last = made or b""
        return _ended(self._worker, made) if isinstance(data, _IterableDatasetStopIteration) else Sent(data, self._worker, made)
