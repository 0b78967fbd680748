# SPDX-License-Identifier: Apache-2.0
"""The class DataLoader."""

from __future__ import annotations

import weakref
from typing import Any, TypeVar

import torch
from torch.utils.data import DataLoader as TorchDataLoader
from torch.utils.data import IterableDataset
from torch.utils.data.dataloader import _DatasetKind, _MultiProcessingDataLoaderIter, _SingleProcessDataLoaderIter

from stoker._where import tell
from stoker.dataloader import _progress
from stoker.dataloader._iterator import CompiledIterator
from stoker.dataloader._plan import Plan, plan
from stoker.dataloader._progress import Progress, has_state
from stoker.dataloader._reasons import InPython
from stoker.errors import StateError

_T = TypeVar("_T", covariant=True)
_OWN = ("_stoker_progress", "_stoker_resume", "_stoker_single")


class DataLoader(TorchDataLoader[_T]):
    """torch's DataLoader, faster where Stoker knows the Dataset. Change one import, and nothing else:

        from stoker import DataLoader                      # was: from torch.utils.data import DataLoader

        train = DataLoader(ImageFolder("data/train", transform), batch_size=256, shuffle=True, num_workers=8, pin_memory=True)
        for images, labels in train:
            ...

    It is a subclass with the same arguments, and for the same arguments it yields what torch's yields: the same structure, types, dtypes, lengths and number
    of batches, the samples in the same order for the same generator and sampler; or it raises what torch's raises. Only draws inside compiled transforms
    come from streams of its own, which follow from torch's seed, the epoch and the sample's place.

    These run in C: reading, decoding and transforms of ImageFolder, of torchvision's data sets that list image files or hold arrays (CIFAR, MNIST), and of
    Datasets whose __getitem__ opens an image, transforms it and returns it with its target; also in Subset, random_split and ConcatDataset; with
    torchvision's transforms, v1 or v2, as doc/from-torchvision.md lists them, or `weights.transforms()`. A TensorDataset is indexed a batch at a time.
    Everything else runs as Python, by torch's own DataLoader. `explain()` says what runs where, and why. Its first line goes to the logger
    "stoker.dataloader" when the first epoch begins (STOKER_QUIET=1 turns that off).

    If images are made in C, there are no worker processes. num_workers is the number of threads (0: as many as the process may use),
    prefetch_factor the number of batches made ahead, and worker_init_fn is not called if it only seeds generators (else the Dataset runs in workers, as
    Python). multiprocessing_context, persistent_workers and in_order=False have no effect then. A Dataset's own __getitem__,
    target_transform and collate_fn run on the loop's thread.

    state_dict() and load_state_dict(state) are those of torchdata's StatefulDataLoader: a run continues with the batch after the last one that the loop had.
    """

    _stoker_progress: Progress | None = None
    _stoker_resume: dict[str, Any] | None = None
    _stoker_single: weakref.ref[_Single] | None = None  # the iterator, if it runs in this process, and in Python

    @property
    def _is_accelerate_prepared(self) -> bool:
        """Accelerate asks for this before it makes another DataLoader of this one's arguments, which is torch's own."""
        tell(
            "Accelerate makes torch's own DataLoader from the arguments of a stoker.DataLoader, so that all of it runs in Python: prepare() takes "
            "stoker.Loader(...).as_dataloader() as it is"
        )
        return False

    # ---- iteration ----

    def __iter__(self) -> Any:
        if self.persistent_workers and self.num_workers > 0 and self._iterator is not None:
            if self._stoker_resume is None and isinstance(self._iterator, _Tracked):
                self._stoker_progress = _progress.begin(self)
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
        _progress.rewind(self, resume)
        stream = isinstance(self.dataset, IterableDataset)
        if not stream and not resume["inside"]:
            self._restore_dataset(resume)
        if not resume["inside"] and _progress.order_by_default(self):
            now = torch.get_rng_state()
            _progress.set_default_generator(
                resume["default_generator"]
            )  # the next epoch has the order that it would have had in the saved run
            self._stoker_progress = _progress.begin(self)
            iterator = self._make_iterator(0, resume)
            if self.num_workers:  # without workers the sampler draws when the first batch is asked for
                torch.set_rng_state(now)
            return iterator
        if not resume["inside"] or (stream and self.num_workers == 0):
            self._stoker_progress = _progress.begin(self)
            return self._make_iterator(resume["batches"], resume)
        now = torch.get_rng_state()
        _progress.set_default_generator(resume["default_generator"])
        try:
            self._stoker_progress = _progress.begin(self)
            iterator = self._make_iterator(resume["batches"], resume)
        finally:
            if resume["batches"]:
                torch.set_rng_state(now)
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
        """Returns the position of the loop, after the batches that it had. The structure is the same at any time, as torch.distributed.checkpoint wants it."""
        if self._stoker_resume is not None:
            return dict(self._stoker_resume)
        return _progress.save(self, self._stoker_progress, self._state_of_dataset())

    def _state_of_dataset(self) -> Any:
        """Returns the state of the Dataset, or of its iterator, if they have one and live in this process."""
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
                    return {}  # its attributes are made by the first iteration
        return None

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Makes the next iteration continue from a state. Samples before it are not read, except that an IterableDataset without a state gives them again."""
        _progress.check(state)
        self._stoker_resume = dict(state)
        self._stoker_progress = None

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
    """The part that all iterators share: it counts batches, and skips those that an earlier run had."""

    _progress: Progress
    _skip = 0
    _expected: int | None = None  # the digest of what was skipped

    def _stoker_begin(self, progress: Progress, skip: int, resume: dict[str, Any] | None) -> None:
        self._progress, self._skip = progress, skip
        self._expected = None if resume is None else resume["digest"]

    def _next_index(self) -> Any:
        self._pass_over()
        indices = super()._next_index()  # type: ignore[misc]
        if self._dataset_kind == _DatasetKind.Map:  # type: ignore[attr-defined]
            self._progress.draw(indices)
        return indices

    def _pass_over(self) -> None:
        """Draws the indices of the batches that an earlier run had, and compares their digest."""
        if not self._skip or self._dataset_kind == _DatasetKind.Iterable:  # type: ignore[attr-defined]
            return
        skip, self._skip = self._skip, 0
        for _ in range(skip):
            try:
                self._progress.draw(super()._next_index())  # type: ignore[misc]
            except StopIteration:
                raise self._other() from None
            self._progress.took()
        if self._progress.digest != self._expected:
            raise self._other()
        self._num_yielded = skip

    @staticmethod
    def _other() -> StateError:
        return StateError(
            "the sampler gives other samples than in the run that was saved, so that samples would come twice and others not at all: give it a "
            "generator, or methods state_dict and load_state_dict"
        )

    def _pass_over_stream(self) -> None:
        """Takes the batches that an earlier run had of an IterableDataset, which cannot be skipped."""
        skip, self._skip = self._skip, 0
        for _ in range(skip):
            super().__next__()  # type: ignore[misc]
            self._progress.took()

    def __next__(self) -> Any:
        if self._skip and self._dataset_kind == _DatasetKind.Iterable:  # type: ignore[attr-defined]
            self._pass_over_stream()
        try:
            data = super().__next__()  # type: ignore[misc]
        except StopIteration:
            self._progress.over = True
            raise
        self._progress.took()
        return data


class _InC(_Tracked, CompiledIterator):
    def __init__(self, loader: Any, made: Plan, progress: Progress, skip: int, resume: dict[str, Any] | None) -> None:
        self._stoker_begin(progress, skip, resume)
        super().__init__(loader, made)
        self._pass_over()


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

    @property
    def stream(self) -> Any:
        """The iterator of an IterableDataset."""
        return getattr(self._dataset_fetcher, "dataset_iter", None)


class _Workers(_Tracked, _MultiProcessingDataLoaderIter):
    def __init__(self, loader: Any, progress: Progress, skip: int, resume: dict[str, Any] | None) -> None:
        self._stoker_begin(progress, skip, resume)
        super().__init__(loader)
