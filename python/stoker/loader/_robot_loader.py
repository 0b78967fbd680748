# SPDX-License-Identifier: Apache-2.0
"""RobotLoader, which Loader.from_lerobot returns: batches of a robot data set."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from stoker import _core, _foreign_state, _numbers, _ranks
from stoker._at_exit import close_at_exit, wait_for_loop
from stoker._same_data import WAY_OUT
from stoker.errors import InvalidArgumentError, NotFoundError, StateError
from stoker.loader import _lightning, _options
from stoker.loader._epoch import END, Epoch, call
from stoker.loader._one_thread import OneThread
from stoker.loader._refused import advice, drops_state, no_attribute, not_copied
from stoker.loader._saved import MOST_EPOCHS, MOST_SAMPLES, whole_of
from stoker.loader.sources._fetch import Threads, unfinished
from stoker.loader.sources._robot_cameras import InTurn, Videos
from stoker.loader.sources._robots import Robots
from stoker.loader.sources._table_source import permutation

_STATE = 1
_INSTEAD = advice(
    "Loader.from_lerobot makes batches for a loop, and no torch DataLoader; torch.utils.data.DataLoader(loader.dataset, ...) is one of the same samples",
    sampler="the Loader shuffles its samples and divides them among the ranks itself, and loader.set_epoch(epoch) sets the epoch",
)
_MOST_THREADS = 256
_AHEAD = 3  # number of batches that are made ahead of the loop


def _device_of(device: Any) -> Any:
    """Returns a torch.device; that of a GPU has the number of the GPU, because each thread has a current GPU of its own. Raises NotFoundError if the device is a
    GPU and torch finds no CUDA."""
    import torch

    device_ = torch.device("cpu" if device is None else device)
    if device_.type != "cuda":
        return device_
    if not torch.cuda.is_available():
        raise NotFoundError(
            f"Loader.from_lerobot: device={str(device)!r}, and torch finds no CUDA: leave device out; `stoker doctor` says what is missing"
        )
    return torch.device("cuda", torch.cuda.current_device()) if device_.index is None else device_


def _threads_of(given: Any, shard: _ranks.Shard) -> int:
    """Returns the number of threads for the argument num_threads. "auto" is this rank's share of the cores, as for other Loaders. Raises InvalidArgumentError
    for wrong values."""
    if given == "auto":
        return min(_ranks.threads(shard) or _core.machine()["threads"], _MOST_THREADS)
    try:
        return _numbers.whole("", given, 1, _MOST_THREADS)
    except InvalidArgumentError:
        raise InvalidArgumentError(f'Loader.from_lerobot: num_threads is "auto" or from 1 to {_MOST_THREADS}, not {given!r}') from None


class RobotLoader:
    """Iterates over batches, which are dicts with LeRobot's keys. The order of samples depends only on the seed and the epoch. At step k, rank r of R takes
    the B samples from position (kR + r)B on, where B is the batch size."""

    def __init__(
        self,
        dataset: Robots,
        batch_size: int | None,
        global_batch_size: int | None,
        shuffle: bool,
        seed: int | str | None,
        shard: Any,
        last_batch: str | None,
        drop_last: bool | None,
        device: Any,
        threads: int | str,
    ) -> None:
        for name, value in (("shuffle", shuffle), ("drop_last", drop_last)):
            _numbers.flag(f"Loader.from_lerobot: {name}", value)
        self.dataset = dataset
        self._shard = _ranks.resolve(shard)
        self._batch = _options.batch_of(batch_size, global_batch_size, self._shard)
        self._shuffle, self._seed = bool(shuffle), _options.seed_of(seed, self._shard)
        self._last = _options.tail_of(last_batch, drop_last)
        self._device, self._count = _device_of(device), _threads_of(threads, self._shard)
        self._team: _Team | None = None
        # The epoch, and the position after its last batch that was taken. They are one tuple, so that other threads read both at once.
        self._at = (0, 0)
        self._loaded: tuple[int, int] | None = None  # the value of _at that load_state_dict() has set
        self._inside = self._resumed = False
        self._again = False  # whether the next iteration begins this epoch again, as set_epoch() asked
        self._first = 0  # the value of _done with which this iteration began
        self._order: tuple[tuple[int, int], Any] | None = None  # (seed, epoch), and the ids of that epoch in order
        self._generation = 0
        self._one_thread = OneThread()
        self._lock = threading.Lock()  # held while an iteration submits work, and while close() ends all iterations
        if len(self) == 0:
            raise InvalidArgumentError(
                f"{dataset}: too few samples for one batch of {self._batch} on each of {self._shard.world} ranks; last_batch='pad' fills the batch with repeats"
            )

    @property
    def batch_size(self) -> int:
        """Returns the number of samples in a batch of this rank."""
        return self._batch

    @property
    def epoch(self) -> int:
        """Returns the epoch of the current iteration, or of the next one if none is running."""
        return self._epoch

    @property
    def _epoch(self) -> int:
        return self._at[0]

    @property
    def _done(self) -> int:
        return self._at[1]

    @property
    def stats(self) -> dict[str, dict[str, Any]]:
        """Returns statistics of the features, in the form of LeRobot's meta.stats."""
        return self.dataset.stats

    @property
    def _together(self) -> int:
        return self._batch * self._shard.world

    def __len__(self) -> int:
        """Returns the number of batches in an epoch, which is the same for all ranks."""
        samples = len(self.dataset)
        return samples // self._together if self._last == "drop" else -(-samples // self._together)

    def _ids(self, epoch: int, first: int) -> tuple[Any, Any, Any]:
        """Returns the ids and positions of this rank's batch in the step that begins at position `first`, and an array with a bool for each position of a full
        batch: False for positions after the end of the epoch."""
        import numpy as np

        # A thread that still makes a batch of an epoch that the loop has left may replace self._order, so this method reads it once.
        order, key = self._order, (self._seed, epoch)
        if self._shuffle and (order is None or order[0] != key):
            self._order = order = (key, permutation(len(self.dataset), *key))
        begin, total = first + self._shard.rank * self._batch, len(self.dataset)
        positions = np.arange(begin, begin + self._batch)
        valid = positions < total
        # With "keep" a rank without samples in the last step repeats the last sample once, as other Loaders do.
        positions = np.minimum(positions, total - 1) if self._last == "pad" else positions[valid] if valid.any() else np.array([total - 1])
        return positions if order is None or not self._shuffle else order[1][positions], positions, valid

    def _make(self, team: _Team, epoch: int, first: int) -> tuple[dict[str, Any], Any]:
        """Returns a batch, and the CUDA event after which it is complete; None if it is complete already."""
        import torch

        from stoker._to_device import to_device

        ids, positions, valid = self._ids(epoch, first)
        places = [(self._seed, epoch, int(p)) for p in positions]
        with team.stream():
            batch = self.dataset.batch(ids, places, team, str(self._device) if self._device.type == "cuda" else "cpu", team.videos)
            if self._last == "pad":
                batch["valid"] = torch.from_numpy(valid)
            if self._device.type == "cpu":
                return batch, None
            batch = to_device(batch, self._device)
            return batch, None if team.on is None else team.on.record_event()

    def _has_step(self, first: int) -> bool:
        return first + self._together <= len(self.dataset) if self._last == "drop" else first < len(self.dataset)

    def __iter__(self) -> Iterator[Any]:
        """Iterates over one epoch. If an iteration was left early, the next one begins the next epoch; after load_state_dict or close, it continues."""
        return _lightning.begun(self, self._begin)

    def _begin(self) -> Epoch:
        self._generation += 1
        again, self._again = self._again, False
        if again:
            self._at = (self._epoch, 0)
        elif self._has_begun or (self._resumed and not self._has_step(self._done)):
            self._at = (self._epoch + 1, 0)
        self._inside, self._resumed = True, False
        self._first = self._done
        return Epoch(_Ahead(self), self._generation)

    @property
    def _has_begun(self) -> bool:
        """Returns whether this iteration has given a batch. The next iteration then begins the next epoch, unless set_epoch() sets this one again."""
        return self._inside and not self._resumed and self._done > self._first

    def _leave_epoch(self) -> None:
        """Lets the next iteration begin the next epoch, also if this one was resumed or closed, and has given no batch since then."""
        self.set_epoch(self._epoch + 1)

    def _end_epoch(self, generation: int) -> None:
        if generation == self._generation:
            self._at, self._inside, self._again = (self._epoch + 1, 0), False, False

    def _check_generation(self, generation: int) -> None:
        if generation != self._generation:
            raise StateError("a newer iteration over this Loader has begun, its position was set, or it was closed")

    def _check_process(self) -> None:
        """Raises StateError in a forked child of the process that started the threads: they do not run there, so a wait for a batch would never end."""
        if self._team is not None and self._team.pid != os.getpid():
            raise StateError(
                f"this Loader was made in process {self._team.pid} and its threads live there: after a fork, make a new one in the child (process "
                f"{os.getpid()})"
            )

    def _submit(self, generation: int, epoch: int, first: int) -> Any:
        """Begins to make the batch that begins at position `first`, and returns its future. Raises StateError if the iteration is no longer the current one."""
        with self._lock:
            self._check_generation(generation)
            if self._team is None:
                self._team = _Team(self._count, self._device, self.dataset.open_videos)
                close_at_exit(self)
            return self._team.begin(self._make, self._team, epoch, first)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the last batch that was taken. Another number of ranks can continue from it."""
        before = _lightning.state_for_checkpoint(self)
        if before is not None:
            return before
        epoch, done = self._at
        over = not self._has_step(done)
        return {
            "stoker_robots": _STATE,
            "epoch": epoch + over,
            "consumed": 0 if over else done,
            "seed": self._seed,
            "size": len(self.dataset),
            "shuffle": self._shuffle,
            "digest": self.dataset.digest(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a state, with any number of ranks and with the state's seed. Raises StateError for a state that is damaged or of other data."""
        if not isinstance(state, dict) or state.get("stoker_robots") != _STATE:
            raise _foreign_state.refused(state, "Loader.from_lerobot", _STATE)
        for name, end in (("epoch", MOST_EPOCHS), ("size", MOST_SAMPLES), ("seed", 2**64)):
            whole_of(state, name, end)
        if not isinstance(state.get("shuffle"), bool):
            raise StateError(f"the state is damaged: {state!r:.200}")
        if state["size"] != len(self.dataset) or state["shuffle"] != self._shuffle:
            raise StateError(
                f"the state is of {state['size']} frames, {'shuffled' if state['shuffle'] else 'in order'}; here are {len(self.dataset)}, "
                f"{'shuffled' if self._shuffle else 'in order'}: give the episodes and the shuffle of the run that was saved"
            )
        if state.get("digest", self.dataset.digest()) != self.dataset.digest():
            raise StateError(
                f"the state is of another robot data set: it has as many frames ({state['size']}), but other episodes, features or tasks: {WAY_OUT}"
            )
        whole_of(state, "consumed", state["size"] + 1)
        self._generation += 1
        self._at = self._loaded = (state["epoch"], state["consumed"]) if self._has_step(state["consumed"]) else (state["epoch"] + 1, 0)
        self._seed = state["seed"]
        self._order = None
        self._resumed, self._inside, self._again = True, True, False
        if _lightning.leaves_epoch(self, self._done > 0):
            self._leave_epoch()

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration, which begins at the epoch's start, or continues from the state if a state of this epoch was just loaded. An
        iteration over the same epoch continues; if it reaches the end of the epoch, the next one begins the next epoch. Raises InvalidArgumentError unless the
        epoch is a whole number of at least 0, and StateError if the position of a state that was just loaded would be lost."""
        epoch = _numbers.whole("set_epoch: an epoch", epoch, 0, MOST_EPOCHS - 1)
        if epoch == self._epoch:
            self._again = self._again or self._has_begun
        elif self._at is self._loaded and self._done and epoch != self._epoch + 1:
            raise drops_state(epoch, self._epoch)
        else:
            self._generation += 1
            self._at, self._inside, self._resumed, self._again = (epoch, 0), False, False, False

    def close(self) -> None:
        """Ends the threads, and closes the videos. state_dict() returns the same as before, and a new iteration continues from that position."""
        with self._lock:
            self._generation += 1
            self._resumed, self._again = self._inside, False
            if not self._has_step(self._done):
                self._at = self._epoch + 1, 0
            team, self._team = self._team, None
            self.dataset.close_videos()  # with the lock, so that a new team does not get the closed ones
        if team is not None and team.pid == os.getpid():
            team.close()

    def __enter__(self) -> RobotLoader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> Any:
        raise not_copied("a Loader of robot data")

    if not TYPE_CHECKING:  # type checkers would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            return no_attribute(self, name, _INSTEAD)

    def __repr__(self) -> str:
        order = f"shuffled with seed {self._seed}" if self._shuffle else "in order"
        return f"Loader({self.dataset}; {order}; {len(self)} batches of {self._batch} in an epoch, last_batch={self._last!r}; epoch {self._epoch})"


def _ready(batch: dict[str, Any], event: Any) -> Any:
    """Lets the current stream wait until a batch is complete, and returns the batch. event: as _make() returns it."""
    if event is not None:
        import torch

        stream = torch.cuda.current_stream(event.device)
        stream.wait_event(event)
        for value in batch.values():
            if isinstance(value, torch.Tensor):
                value.record_stream(stream)  # the tensors were allocated on another stream
    return batch


class _Team:
    """The threads of a Loader. Some make one batch each; these divide the frames of its cameras among the others, which decode. A Loader with one thread does
    everything on that thread, one batch after the other.

    on: the CUDA stream on which batches are made on a GPU, so that they need not wait for the steps that the loop has queued; None for other devices.
    videos: the open videos that the threads use, also after close(), which does not wait for the batches that they are making."""

    def __init__(self, count: int, device: Any, videos: Videos) -> None:
        import torch

        self.videos = videos
        self.pid, self.count = os.getpid(), count
        self._batches = Threads(_AHEAD if count > 1 else 1)
        self._decoders = Threads(count) if count > 1 else None
        self.on = torch.cuda.Stream(device) if device.type == "cuda" else None

    def stream(self) -> AbstractContextManager[Any]:
        """Returns a context in which torch's work is queued on the stream of the batches."""
        import torch

        return nullcontext() if self.on is None else torch.cuda.stream(self.on)

    def begin(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Lets a thread of those that make batches call a function, and returns the future of its result."""
        return self._batches.submit(function, *arguments)

    def __call__(self, functions: Sequence[Callable[[], None]]) -> None:
        """Calls functions on the threads that decode, and returns when all have ended. Raises the first exception in the order of the functions."""
        if self._decoders is None:
            InTurn()(functions)
            return
        futures = [self._decoders.submit(self._run, function) for function in functions]
        unfinished(futures)
        for future in futures:
            future.result()

    def _run(self, function: Callable[[], None]) -> None:
        with self.stream():
            function()

    def close(self) -> None:
        self._batches.close()
        if self._decoders is not None:
            self._decoders.close()


class _Ahead:
    """The rest of an epoch of a RobotLoader. Threads make a few batches ahead of the loop.

    An exception of a signal's handler, such as KeyboardInterrupt, may end a call between any two lines. The loop may then go on, and must neither lose a batch
    nor get one twice. So the position has only one copy, `_at` of the Loader, which changes when the batch is about to be returned."""

    def __init__(self, loader: RobotLoader) -> None:
        self._loader, self._epoch = loader, loader._epoch
        self._waiting: deque[tuple[int, Any]] = deque()  # the position where a batch begins, and its future; in order, without gaps
        loader._ids(self._epoch, 0)  # makes the epoch's order here, so that the threads do not each make it

    def __len__(self) -> int:
        return len(self._loader)

    def _take(self, generation: int) -> Any:
        """Returns the next batch, or END at the end of the epoch. A batch that fails counts: the next call continues with the batch after it."""
        with self._loader._one_thread:
            return self._take_next(generation)

    def _take_next(self, generation: int) -> Any:
        loader, waiting = self._loader, self._waiting
        loader._check_generation(generation)
        loader._check_process()
        if loader._epoch != self._epoch:
            return END
        while waiting and waiting[0][0] < loader._done:
            waiting.popleft()
        first = waiting[-1][0] + loader._together if waiting else loader._done
        while len(waiting) < _AHEAD and loader._has_step(first):
            waiting.append((first, loader._submit(generation, self._epoch, first)))
            first += loader._together
        if not waiting:
            loader._end_epoch(generation)
            return END
        wait_for_loop()
        first, future = waiting[0]
        unfinished([future])
        after = (self._epoch, first + loader._together)
        try:
            batch = _ready(*call("image_transforms", future.result))
        except Exception:
            if generation == loader._generation:
                loader._at = after
            raise
        loader._check_generation(generation)
        loader._at = after
        return batch
