# SPDX-License-Identifier: Apache-2.0
"""A mixture of Loaders: each batch comes from one of the Loaders, and over time each Loader delivers the share of samples that the user gave it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from stoker import _foreign_state, _numbers
from stoker.errors import InvalidArgumentError, StateError
from stoker.loader import _lightning
from stoker.loader._epoch import END, Epoch
from stoker.loader._one_thread import OneThread
from stoker.loader._refused import advice, no_attribute, not_copied
from stoker.loader._saved import MOST_EPOCHS, MOST_SAMPLES, is_whole, whole_of

_STATE = 1
_INSTEAD = advice(
    "a mixture is iterated over in a loop and is no torch DataLoader; mixture.loaders are its Loaders, each with its own attributes",
    dataset="each Loader of the mixture has its own: mixture.loaders[0].dataset",
    sampler="the Loaders of a mixture order their samples and divide them among the ranks themselves, so leave out sampler.set_epoch()",
)


class Mixture:
    """Iterates over batches of several Loaders. Made by Loader.mix, which describes the arguments.

    The next source depends only on how many samples were taken from each source, so all ranks take the same source at each step. The rule is Tijdeman's (The
    chairman assignment problem, 1980): if all batches have one size, the number of samples from a source always differs by less than a batch from its
    share.
    """

    def __init__(self, sources: Any, epoch: int | str | None, steps: int | None) -> None:
        pairs = list(sources.values()) if isinstance(sources, Mapping) else list(sources) if isinstance(sources, Sequence) else []
        self.names = [str(n) for n in sources] if isinstance(sources, Mapping) else [str(k) for k in range(len(pairs))]
        if len(pairs) < 1 or any(not isinstance(p, (tuple, list)) or len(p) != 2 for p in pairs):
            raise InvalidArgumentError(
                f"Loader.mix: the sources are pairs of a Loader and its share, as [(a, 0.7), (b, 0.3)] or {{'name': (a, 0.7), ...}}, not {sources!r:.200}"
            )
        self.loaders: list[Any] = [_unwrapped(loader) for loader, _ in pairs]
        for name, loader in zip(self.names, self.loaders, strict=True):
            if not all(hasattr(loader, part) for part in ("state_dict", "load_state_dict", "batch_size", "__iter__")):
                raise InvalidArgumentError(f"Loader.mix: source {name} is a {type(loader).__name__}, and not a Loader or a mixture of some")
        if len({id(loader) for loader in self.loaders}) < len(self.loaders):
            raise InvalidArgumentError("Loader.mix: one Loader is given twice: make a second one, with another seed")
        self.shares = _shares(self.names, [share for _, share in pairs])
        worlds = {_world(loader) for loader in self.loaders}
        if len(worlds) > 1:
            raise InvalidArgumentError(f"Loader.mix: the sources are divided among different numbers of ranks: {sorted(worlds)}")
        self._world = worlds.pop()
        if epoch is not None and steps is not None:
            raise InvalidArgumentError(
                "Loader.mix: epoch= names the source whose epochs count, and steps= counts steps instead: leave one of them out"
            )
        self._steps = None if steps is None else _numbers.whole("Loader.mix: steps", steps, 1, MOST_SAMPLES)
        self._leader = None if steps is not None else self._number(0 if epoch is None else epoch)  # index of the source that ends epochs
        self._largest = max(map(self._batch, range(len(pairs))))  # the most samples that a step had over all ranks, also before a restore
        self._taken = [0] * len(pairs)  # number of samples from each source, over all ranks; each batch counts as full
        self._begun = list(self._taken)  # the values of _taken at the beginning of the epoch
        self._running: list[Iterator[Any] | None] = [None] * len(pairs)
        self._epoch, self._step, self._inside = 0, 0, False
        self._leader_epoch: int | None = (
            None  # the leader's `epoch` during this epoch; None: the leader has not begun, or has no such attribute
        )
        self._resumed = self._closed = False
        self._generation = 0
        self._first = 0  # the step with which this iteration began
        self._again = False  # whether set_epoch() has asked for the epoch that this iteration has begun
        self._last: int | None = None
        self._one_thread = OneThread("mixture")

    def _number(self, given: int | str) -> int:
        if isinstance(given, str) and given in self.names:
            return self.names.index(given)
        with contextlib.suppress(InvalidArgumentError):
            return _numbers.whole("", given, 0, len(self.names) - 1)
        raise InvalidArgumentError(f"Loader.mix: epoch={given!r} is not one of the sources; they are {', '.join(self.names)}")

    def _batch(self, k: int) -> int:
        """Returns the number of samples in a step of source k, on all ranks together."""
        return int(self.loaders[k].batch_size) * self._world

    def _next_source(self, taken: Sequence[int]) -> int:
        """Returns the index of the source of the next batch. Candidates are the sources that one more batch would not put too far above their shares. Of these,
        returns the one that would otherwise be the first to fall too far below its share. taken: samples from each source so far."""
        total, sources, batch = sum(taken), range(len(taken)), max(map(self._batch, range(len(taken))))
        slack = Fraction(batch, max(1, 2 * len(taken) - 2))
        may = [k for k in sources if self.shares[k] * (total + batch) - taken[k] >= slack] or list(sources)
        return min(may, key=lambda k: ((batch - slack - (self.shares[k] * total - taken[k])) / self.shares[k], k))

    # ---- iteration ----

    def __iter__(self) -> Iterator[Any]:
        """Iterates over a new epoch, or over the rest of one that was restored or closed. If the last iteration stopped early, its epoch ends, and the source
        that ends epochs (the leader) begins its next one. All other sources continue at their positions; when an epoch of theirs ends, their next one
        begins."""
        return _lightning.begun(self, self._begin)

    def _begin(self) -> Epoch:
        with self._one_thread:
            self._check_epoch()
            self._generation += 1
            left_early = self._has_begun
            self._inside, self._resumed, self._closed = True, False, False
            if left_early:
                if self._leader is not None:
                    self._end_leaders_epoch(self._leader)
                    # Starts the leader here, because until then its state is of the epoch that was left.
                    self._start(self._leader, self._generation)
                self._next_epoch()
            self._first = self._step
            return Epoch(self, self._generation)

    def _end_leaders_epoch(self, k: int) -> None:
        """Ends the epoch of the leader, source k, if the leader gave batches in this epoch of the mixture, but none since it was resumed or closed: its next
        iteration would continue that epoch."""
        leader = self.loaders[k]
        if self._taken[k] == self._begun[k] or getattr(leader, "epoch", None) != self._leader_epoch:
            return
        run = getattr(leader, "_run", leader)
        if not getattr(run, "_has_begun", True):
            run._leave_epoch()

    def _leave_epoch(self) -> None:
        """Lets the next iteration begin the next epoch, also if this one was resumed or closed, and has given no batch since then."""
        self._resumed, self._first = False, -1

    @property
    def _has_begun(self) -> bool:
        """Returns whether this iteration has taken a step. The next iteration then begins the next epoch."""
        return self._inside and not self._resumed and self._step > self._first

    def _check_epoch(self) -> None:
        """Raises StateError if set_epoch() has asked for the epoch that the loop has begun. Raises it once: the loop may then begin the next epoch."""
        again, self._again = self._again, False
        if again:
            raise StateError(
                f"set_epoch({self._epoch}) was called after the loop had begun epoch {self._epoch}, and a mixture cannot go back to the start of an epoch: "
                "leave set_epoch out, or load a state that was saved at the start"
            )

    def _take(self, generation: int) -> Any:
        """Returns the next batch, or END at the end of the epoch. After an error, the next call continues with the batch after the one that failed."""
        with self._one_thread:
            return self._take_next(generation)

    def _take_next(self, generation: int) -> Any:
        if self._steps is None or self._step < self._steps:
            self._check_generation(generation)
            k = self._next_source(self._taken)
            batch = self._take_from(k, generation)
            if batch is not END:
                self._count(k)
                self._last = k
                return batch
        if generation == self._generation:
            self._next_epoch()
            self._inside = False
        return END

    def _count(self, k: int) -> None:
        """Counts a step that source k has made."""
        self._taken[k] += self._batch(k)
        self._step += 1

    def _check_generation(self, generation: int) -> None:
        if generation != self._generation:
            raise StateError("a newer iteration over this mixture has begun, its position was set, or it was closed")

    def _take_from(self, k: int, generation: int) -> Any:
        """Returns the next batch of source k, or END after the leader's last batch. A source other than the leader begins its next epoch when one ends. Counts
        the step of a batch that fails if the source continues after it, because other ranks may have got their batches of this step. Raises
        InvalidArgumentError if an epoch of the source has no batches."""
        for _ in range(2):
            iterator = self._running[k]
            started = iterator is None
            if iterator is None:
                iterator = self._start(k, generation)
            if k == self._leader and self._leader_epoch is None:
                self._leader_epoch = getattr(self.loaders[k], "epoch", None)
            elif k == self._leader and started and not self._leader_goes_on():
                return END
            before = _position(self.loaders[k])
            try:
                batch = next(iterator, END)
            except Exception:
                after = _position(self.loaders[k])
                if after[0] == before[0] and after[1] > before[1]:
                    self._count(k)
                raise
            if batch is not END:
                return batch
            self._running[k] = None
            if k == self._leader:
                return END
        raise InvalidArgumentError(f"Loader.mix: an epoch of source {self.names[k]} has no batches")

    def _start(self, k: int, generation: int) -> Iterator[Any]:
        """Returns a new iterator over source k: over the rest of an epoch that was restored or closed, else over a new epoch."""
        iterator = iter(self.loaders[k])
        if self._closed:  # another thread closed the mixture meanwhile, so the source that was just started has to be closed again
            _close(self.loaders[k])
        self._check_generation(generation)
        self._running[k] = iterator
        return iterator

    def _leader_goes_on(self) -> bool:
        """Returns whether the iteration that the leader has just begun belongs to this epoch of the mixture. It belongs to the next one if the mixture was
        saved or closed after the leader's last batch, but before the leader's end was noticed."""
        assert self._leader is not None
        return bool(getattr(self.loaders[self._leader], "epoch", None) == self._leader_epoch)

    def _next_epoch(self) -> None:
        self._epoch += 1
        self._leader_epoch = None
        self._step, self._again = 0, False
        self._begun = list(self._taken)

    def __len__(self) -> int:
        """Returns the number of steps in the current epoch, which can differ from one epoch to the next. Raises TypeError if the source that ends
        epochs has no length."""
        if self._steps is not None:
            return self._steps
        assert self._leader is not None
        left, taken, steps = len(self.loaders[self._leader]), list(self._begun), 0
        while True:
            k = self._next_source(taken)
            left -= k == self._leader
            if left < 0:
                return steps
            taken[k] += self._batch(k)
            steps += 1

    @property
    def epoch(self) -> int:
        """Returns the epoch of the current iteration, or of the next one if none is running."""
        return self._epoch

    @property
    def step(self) -> int:
        """Returns the number of steps of the current epoch that were taken."""
        return self._step

    @property
    def source(self) -> str | None:
        """Returns the name of the source of the last batch; None before the first batch."""
        return None if self._last is None else self.names[self._last]

    @property
    def batch_size(self) -> int:
        """Returns the number of samples in a batch of this rank: of the largest batch, if the sources differ."""
        return max(int(loader.batch_size) for loader in self.loaders)

    def explain(self) -> str:
        """Returns a text about each source: its share, the samples that it has given, and what its pipeline does. Builds pipelines that do not exist yet."""
        with self._one_thread.visit("explain()"):
            total = sum(self._taken)
            lines = [f"a mixture of {len(self.names)} sources; {self._ending}; epoch {self._epoch}, step {self._step}"]
            for name, share, taken, loader in zip(self.names, self.shares, self._taken, self.loaders, strict=True):
                so_far = f"{taken} samples so far" + (f" ({taken / total:.4g})" if total else "")
                lines += ["", f"source {name}: share {float(share):.4g}, {so_far}"]
                lines += [f"  {line}".rstrip() for line in _explained(loader).splitlines()]
        return "\n".join(lines)

    # ---- state ----

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the last batch that was taken, of the mixture and of each source, for a run with any number of ranks."""
        before = _lightning.state_for_checkpoint(self)
        if before is not None:
            return before
        with self._one_thread.visit("state_dict()"):
            return {
                "stoker_mixture": _STATE,
                "epoch": self._epoch,
                "step": self._step,
                "inside": self._inside,
                "shares": [str(share) for share in self.shares],
                "names": list(self.names),
                "ends": self._ends,
                "taken": list(self._taken),
                "begun": list(self._begun),
                "largest": self._largest,
                "leader_epoch": self._leader_epoch,
                "sources": [loader.state_dict() for loader in self.loaders],
            }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a state, with any number of ranks. For a damaged state, or one of another mixture, raises StateError and changes nothing."""
        if not isinstance(state, dict) or state.get("stoker_mixture") != _STATE:
            raise _foreign_state.refused(state, "a mixture (Loader.mix)", _STATE)
        counts: list[Any] = [state.get("taken"), state.get("begun")]
        good = all(isinstance(c, list) and len(c) == len(self.names) and all(is_whole(n) and n >= 0 for n in c) for c in counts)
        texts = [state.get("names"), state.get("shares")]
        good = good and all(isinstance(t, list) and all(isinstance(text, str) for text in t) for t in texts)
        good = good and isinstance(state.get("inside"), bool)
        sources = state.get("sources")
        if not good or not isinstance(sources, list) or len(sources) != len(self.names):
            raise StateError(f"the state is damaged, or of a mixture of other sources; this one mixes {', '.join(self.names)}")
        whole_of(state, "epoch", MOST_EPOCHS)
        whole_of(state, "step", MOST_SAMPLES)
        if state.get("names") != self.names or state.get("shares") != [str(share) for share in self.shares]:
            raise StateError(
                f"the state is of a mixture of {state.get('names')!r:.200} with the shares {state.get('shares')!r:.200}; this one mixes {self.names} with "
                f"{[str(share) for share in self.shares]}: give the same sources and shares"
            )
        if state.get("ends", self._ends) != self._ends:
            raise StateError(
                f"the state is of a mixture whose epochs end with {_end_of(state['ends'])}, and those of this one with {_end_of(self._ends)}: give the "
                "epoch= or "
                "steps= of the run that was saved"
            )
        if self._steps is not None and state["step"] > self._steps:
            raise StateError(f"the state is at step {state['step']} of an epoch, and the epochs of this mixture have {self._steps} steps")
        largest = state.get("largest", self._largest)
        if not is_whole(largest) or not 1 <= largest < 2**31 or not all(self._keeps_shares(c, largest) for c in counts):
            raise StateError("the state is damaged: the samples that each source has given do not agree with the shares")
        leader_epoch = state.get("leader_epoch")
        if leader_epoch is not None:
            whole_of(state, "leader_epoch", MOST_EPOCHS)
        with self._one_thread:
            self._load_sources(sources)
            self._leader_epoch = leader_epoch
            self._largest = max(self._largest, largest)
            self._generation += 1
            self._taken, self._begun = list(state["taken"]), list(state["begun"])
            self._epoch, self._step = state["epoch"], state["step"]
            self._inside = self._resumed = state["inside"]
            self._again = False
            self._running = [None] * len(self.names)
            if _lightning.leaves_epoch(self, self._inside):
                self._leave_epoch()

    @property
    def _ends(self) -> int | str:
        """Returns what ends an epoch: a number of steps, or the name of the source whose epoch ends it."""
        if self._leader is None:
            assert self._steps is not None
            return self._steps
        return self.names[self._leader]

    def _load_sources(self, states: Sequence[Any]) -> None:
        """Loads the states of all sources. If one refuses its state, restores those before it and raises the error."""
        old = [loader.state_dict() for loader in self.loaders]
        for k, (name, loader, state) in enumerate(zip(self.names, self.loaders, states, strict=True)):
            try:
                loader.load_state_dict(state)
            except Exception as e:
                for changed in range(k):
                    self.loaders[changed].load_state_dict(old[changed])
                    self._running[changed] = None  # a new iterator continues from the state that was just restored
                if isinstance(e, StateError):
                    raise StateError(f"source {name} of the mixture: {e}") from e
                raise

    def _keeps_shares(self, taken: Sequence[int], largest: int) -> bool:
        """Returns whether the samples from each source differ from its share by at most `largest`, the most samples in a step of all ranks so far."""
        total = sum(taken)
        return all(abs(share * total - n) <= largest for share, n in zip(self.shares, taken, strict=True))

    def set_epoch(self, epoch: int) -> None:
        """Does nothing for the epoch of the next iteration. If the loop has begun this epoch, accepts its number while the loop continues, but the next
        iteration then raises StateError. Raises StateError for other epochs: a mixture goes through its epochs in order."""
        if epoch == self._epoch:
            self._again = self._again or self._has_begun
        elif epoch == self._epoch + 1 and self._has_begun:
            self._again = False
        else:
            raise StateError(
                f"set_epoch({epoch!r}): a mixture goes through its epochs in order, and is in epoch {self._epoch}; load_state_dict goes elsewhere"
            )

    def close(self) -> None:
        """Closes all sources. state_dict() returns the same as before, and a new iteration continues from that position."""
        self._closed = True
        self._generation += 1
        for loader in self.loaders:
            _close(loader)
        self._running = [None] * len(self.names)
        self._resumed, self._again = self._inside, False

    def __getstate__(self) -> Any:
        raise not_copied("a mixture of Loaders")

    if not TYPE_CHECKING:  # type checkers would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            return no_attribute(self, name, _INSTEAD)

    def __enter__(self) -> Mixture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        parts = ", ".join(
            f"{name}: {float(share):.4g} of {loader!r}" for name, share, loader in zip(self.names, self.shares, self.loaders, strict=True)
        )
        return f"a mixture of {parts}; {self._ending}; epoch {self._epoch}"

    @property
    def _ending(self) -> str:
        """Returns a text about what ends an epoch."""
        return f"{self._steps} steps in an epoch" if self._leader is None else f"epochs of {self.names[self._leader]}"


def _unwrapped(loader: Any) -> Any:
    """Returns the Loader that a DataLoader of Loader.as_dataloader() iterates over, because only the Loader has a position and its part of the ranks. Returns
    other sources unchanged."""
    module = sys.modules.get("stoker.loader._dataloader")  # it imports torch, and such a DataLoader exists only if it was imported
    return loader.loader if module is not None and isinstance(loader, module.StokerDataLoader) else loader


def _explained(loader: Any) -> str:
    """Returns what explain() says about a Loader or a mixture, or the repr of a source without a pipeline."""
    owner = loader if hasattr(loader, "explain") else getattr(loader, "pipeline", None)
    return repr(loader) if owner is None else str(owner.explain())


def _position(loader: Any) -> tuple[int, int]:
    """Returns the epoch of a source, and a number that grows with each batch that it counts in this epoch. Asks no pipeline, because each step calls this."""
    if isinstance(loader, Mixture):
        return loader._epoch, loader._step
    run = getattr(loader, "_run", None)
    if run is not None:
        return run.epoch, run.step
    return getattr(loader, "_at", (0, 0))  # a RobotLoader's epoch and position


def _close(loader: Any) -> None:
    if hasattr(loader, "close"):
        loader.close()


def _is_tensor(share: Any) -> bool:
    """Returns whether the share is a tensor with one number. str() of a tensor does not give a number, but str() of a number of NumPy does."""
    return type(share).__module__ == "torch" and share.ndim == 0


def _shares(names: Sequence[str], given: Sequence[Any]) -> list[Fraction]:
    """Returns the user's shares as fractions whose sum is 1. A float becomes the decimal number as which Python prints it: 0.1 is exactly 1/10. Raises
    InvalidArgumentError for shares that are not numbers above 0."""
    shares = []
    for name, share in zip(names, given, strict=True):
        try:
            shares.append(Fraction(str(share.item() if _is_tensor(share) else share)))
        except (ValueError, ZeroDivisionError):
            raise InvalidArgumentError(f"Loader.mix: the share of source {name} is a number above 0, not {share!r}") from None
        if shares[-1] <= 0:
            raise InvalidArgumentError(f"Loader.mix: the share of source {name} is a number above 0, not {share!r}")
    return [share / sum(shares) for share in shares]


def _world(loader: Any) -> int:
    if isinstance(loader, Mixture):
        return loader._world
    spec = getattr(loader, "_spec", None)
    shard = getattr(loader, "_shard", None) if spec is None else spec.shard  # a RobotLoader has no spec
    return 1 if shard is None else int(shard.world)


def _end_of(ends: Any) -> str:
    return f"{ends} steps" if is_whole(ends) else f"source {ends!r:.100}"
