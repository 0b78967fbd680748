# SPDX-License-Identifier: Apache-2.0
"""Finds out when Lightning's Trainer.fit() calls a loader, and what it does there.

A loader cannot tell this from its own position: fit() may end its epochs before the loader's (limit_train_batches), sets an epoch only after it has made the
iterator, and takes a batch ahead of training from loaders without a length, to know which batch is the last one. The loops are Lightning's internals, and a
version of Lightning without their attributes counts as no Lightning.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from stoker.errors import StateError
from stoker.loader._callers import callers

_PACKAGES = ("lightning.pytorch", "pytorch_lightning")
_COMBINED = {f"{package}.utilities.combined_loader" for package in _PACKAGES}
_FITTING = {f"{package}.loops.fit_loop" for package in _PACKAGES}

_MOST_BYTES = 1 << 18  # of a state, which is copied for each batch

# For each loader that fit() iterates over: its pickled states before the last batches that it gave, or the reason why there is none,
# as a text, because an exception would hold the frames that it passed, and with them the loader.
_before: weakref.WeakKeyDictionary[Any, deque[bytes | str]] = weakref.WeakKeyDictionary()
_ended: weakref.WeakSet[Any] = weakref.WeakSet()  # loaders of which fit() makes the next iterator for an epoch that has ended
# For each loader into which fit() has loaded its last state, in the middle of an epoch of fit(): Lightning's FitLoop.
_continued: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()


class Stateful(Protocol):
    def state_dict(self) -> dict[str, Any]: ...


def _fit_loop(loader: Any, *methods: str) -> Any:
    """Returns Lightning's FitLoop if one of these methods of it now calls a method of `loader`, which is one of its training loaders; else None."""
    if sys.modules.keys().isdisjoint(_COMBINED):
        return None
    combined: Any = None
    for frame in callers(sys._getframe(1)):
        module = frame.f_globals.get("__name__")
        if module in _COMBINED:
            asker = frame.f_locals.get("self")
            combined = asker if hasattr(asker, "flattened") else combined
        elif module in _FITTING and combined is not None:
            loop = frame.f_locals.get("self")
            asks = frame.f_code.co_name in methods and getattr(loop, "_combined_loader", None) is combined
            is_own = any(own is loader or getattr(own, "loader", None) is loader for own in combined.flattened)
            return loop if asks and is_own else None
    return None


def epoch_to_begin(loader: Any) -> int | None:
    """Returns the epoch that fit() will set for the iteration that it begins now; None if it is not fit() that begins one, or if fit() continues from a
    checkpoint."""
    loop = _fit_loop(loader, "setup_data")
    return None if loop is None or loop.restarting else loop.epoch_progress.current.processed


def leaves_epoch(loader: Any, inside: bool) -> bool:
    """Returns whether fit() loads a state into the loader that was saved after the last batch of fit()'s epoch, while the loader was `inside` an epoch. The
    loader's next epoch then has to follow, also if this epoch of the loader has batches left. If the state was saved after the hooks of that batch, as in a
    validation, fit() first makes an iterator for the epoch that has ended, and takes no batch from it: begun() returns an empty one. It also returns an empty
    one if the loader had ended before fit()'s epoch, in a CombinedLoader of mode "max_size"."""
    loop = _fit_loop(loader, "_load_combined_loader_states")
    _ended.discard(loader)
    _continued.pop(loader, None)
    if loop is None:
        return False
    progress = loop.epoch_loop.batch_progress
    if not progress.is_last_batch:
        _continued[loader] = weakref.ref(loop)
        if not inside and progress.current.processed and _gives_none(loop):
            _ended.add(loader)
        return False
    if progress.total.completed == progress.total.processed:
        _ended.add(loader)
    return inside


def continues_epoch(loader: Any) -> bool:
    """Returns whether set_epoch() of a loader is called by the fit() that has loaded the loader's last state, in the middle of an epoch of fit(). The call must
    then have no effect: in a CombinedLoader, a loader that begins again when it ends is in a later epoch than fit()."""
    loop = _continued.get(loader, lambda: None)()
    if loop is None:
        return False
    names = []
    for frame in callers(sys._getframe(1)):
        names.append(frame.f_code.co_name)
        if frame.f_globals.get("__name__") in _FITTING:
            # fit() also calls hooks of the user, who may call set_epoch() there.
            return frame.f_locals.get("self") is loop and "_set_sampler_epoch" in names
    return False


def _gives_none(loop: Any) -> bool:
    """Returns whether fit() continues with None in place of the batches of a loader that has ended."""
    return getattr(loop._combined_loader, "_mode", None) == "max_size"


def begun(loader: Stateful, begin: Callable[[], Any]) -> Any:
    """Returns begin(), an iterator over an epoch of the loader. If fit() iterates, the iterator keeps the states for state_for_checkpoint()."""
    loop = _fit_loop(loader, "setup_data", "advance")
    if loop is None:
        return begin()
    if loader in _ended:
        _ended.discard(loader)
        epoch: Any = iter(())
    else:
        epoch = begin()
    return _Watched(loader.state_dict, epoch, weakref.ref(loop), _before.setdefault(loader, deque()))


class _TooLarge(StateError):
    """The state of a loader is too large to be copied for each batch."""


class _Bounded:
    """A file of at most _MOST_BYTES bytes, for a Pickler. A larger state costs no more time than one of that size."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self._size = 0

    def write(self, part: Any) -> None:
        self._size += len(part)
        if self._size > _MOST_BYTES:
            raise _TooLarge(
                f"this loader has no length, so Lightning has taken a batch ahead of training. The state before that batch is not known, because states of over "
                f"{_MOST_BYTES >> 10} KB are not copied for each batch: give the IterableDataset a __len__, or save when an epoch has ended"
            )
        self.parts.append(bytes(part))


class _Watched:
    def __init__(self, state_dict: Callable[[], dict[str, Any]], epoch: Any, loop: weakref.ref[Any], before: deque[bytes | str]) -> None:
        self._state_dict, self._epoch, self._loop, self._before = state_dict, epoch, loop, before
        self._too_large: str | None = None

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        fetcher = getattr(self._loop(), "_data_fetcher", None)
        ahead = 0 if fetcher is None or fetcher.length is not None else getattr(fetcher, "prefetch_batches", 0)
        if not ahead:
            return next(self._epoch)
        before = self._state()
        try:
            batch = next(self._epoch)
        except StopIteration:
            if _gives_none(self._loop()):
                self._keep(before, ahead)
            raise
        self._keep(before, ahead)
        return batch

    def _keep(self, before: bytes | str, ahead: int) -> None:
        self._before.append(before)
        while len(self._before) > ahead + 1:
            self._before.popleft()

    def _state(self) -> bytes | str:
        """Returns the loader's pickled state. If there is none, returns the reason: most loops never save between the ends of two epochs, and need no state."""
        if self._too_large is not None:
            return self._too_large
        import pickle  # imported here, because it takes time

        file = _Bounded()
        try:
            # A Dataset may return the dict that it works with, and so the state is copied at once.
            pickle.Pickler(file, pickle.HIGHEST_PROTOCOL).dump(self._state_dict())
        except _TooLarge as e:
            self._too_large = str(e)
            return self._too_large
        except StateError as e:
            return str(e)
        except Exception as e:
            return f"the loader's state before the batch that Lightning has taken ahead cannot be copied: {type(e).__name__}: {e}"
        return b"".join(file.parts)

    def __len__(self) -> int:
        return len(self._epoch)


def state_for_checkpoint(loader: Any) -> dict[str, Any] | None:
    """Returns the loader's state before the batches that fit() has taken ahead of training, if fit() asks for a state and has taken some; else None."""
    loop = _fit_loop(loader, "on_save_checkpoint")
    held = 0 if loop is None else len(getattr(loop._data_fetcher, "batches", ()))
    if not held:
        return None
    before = _before.get(loader, ())
    if len(before) < held:
        raise StateError(
            "this loader has no length, so Lightning has taken a batch ahead of training, and the position before it is not known: give the IterableDataset or "
            "the sampler a __len__"
        )
    state = before[-held]
    if isinstance(state, str):
        raise StateError(state)
    import pickle  # imported here, because it takes time

    made: dict[str, Any] = pickle.loads(state)
    return made
