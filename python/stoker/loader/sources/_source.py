# SPDX-License-Identifier: Apache-2.0
"""The base class of a Loader's sources. Loader and Run call these methods; the defaults fit sources whose samples a reader of the library reads."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from stoker._ranks import Shard
from stoker._session import Session
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError, StateError
from stoker.loader import _fields
from stoker.loader._kinds import IMAGE, LIST, MASK, OTHER, Kind, lists_of
from stoker.loader._order import Order
from stoker.loader._saved import OF_DATA, Saved
from stoker.loader._spec import DatasetArguments, Spec
from stoker.loader.batches._finish import Finishing
from stoker.loader.sources._image_sizes import ADVICE, Size
from stoker.pipeline import Pipeline


class Source:
    """Base of the sources. A source adds the operators that read samples to a graph. A reader of the library orders and counts the samples, divides them among
    ranks and knows where an epoch ends, unless the source does that itself (makes_order). In the methods, `indices` is the user's order of an epoch, or None,
    and `per_rank` says whether each rank counts positions of its own. Methods without code are for subclasses that have something to do."""

    targets = 1  # number of outputs that are targets; they come after the image
    views = 0  # number of further views of the image that the samples hold
    several = False  # whether the samples hold the image as a list of views
    finishing = Finishing()  # conversions of outputs to fields; `nodes` may replace them
    one_epoch = False  # whether a graph reads only one epoch; the number of samples is then unknown until that epoch has ended
    makes_order = False  # whether Python makes the order. The library then knows only positions, and learns of an epoch's end when it asks for more samples
    per_rank = False  # whether each rank has its own sequence of samples
    has_indices = True  # whether samples have indices, by which the user may order them
    restarts = True  # whether an epoch can be continued in its middle without reading what comes before
    owns_pipeline = True  # whether the Loader makes and closes the pipelines; False: it is the user's, which keeps its own position
    takes_kinds = False  # whether fields may have kinds, and may be ragged
    takes_layout = False  # whether the Loader's argument `layout` may be given, for images that are arrays or tensors
    shuffles = ""  # a string that this source accepts for the Loader's argument `shuffle`, such as "groups"; "": it accepts only bools

    # ---- the graph ----

    def check_kinds(self, arguments: DatasetArguments) -> None:
        """Raises InvalidArgumentError for kinds of fields, `ragged` and `layout` if they have no effect."""
        others = [kind.name for name, kind in (arguments.kinds or {}).items() if name != "image"]
        if not self.takes_kinds and (arguments.ragged or any(name not in (OTHER, IMAGE) for name in others)):
            raise InvalidArgumentError(
                "Loader: ragged, and kinds of fields, are for the samples of a Dataset, of a list [(path, path, label), ...], or of a table; a folder or tars "
                "have an image and a label"
            )
        if not self.takes_layout and arguments.layout is not None:
            raise InvalidArgumentError(
                f"Loader: layout={arguments.layout!r} is for images that a Dataset gives as arrays or tensors, or for X in (X, y), and would have no effect "
                "here: leave it out (memory_format sets the layout of batches)"
            )

    def column_names(self) -> Collection[str]:
        """Returns the names of all columns or components of the data, also of those that are not read; () if only samples show them."""
        return ()

    def settle(self, spec: Spec, own_order: bool, may_list: bool) -> None:
        """Passes settings to the source that `nodes` depends on. Called once, before `nodes`. own_order: whether the user gives the order of samples.
        may_list: whether batches may hold images as lists."""

    def check(self, spec: Spec, own_order: bool) -> None:
        """Raises InvalidArgumentError for arguments of the Loader that the source does not support. own_order: as in `settle`."""

    def check_divided(self, shard: Shard) -> None:
        """Raises InvalidArgumentError if the ranks hold different samples, so that the user has divided them already."""

    def fields(self, names: tuple[str, ...] | None) -> dict[str, int | None]:
        """Returns a dict from fields of a batch to indices of outputs, or to None for metadata of samples. Call after `nodes`."""
        return _fields.of_folder(names)

    def settings(self, spec: Spec) -> dict[str, Any]:
        """Returns the arguments of the Pipeline."""
        return spec.settings

    def nodes(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[DataNode]:
        """Adds the operators to the current graph. Returns its outputs: the finished image or sound, then the targets, then further views of the image and
        other nodes that the source needs."""
        raise NotImplementedError

    def built(self, order: Order | None, build: Callable[[bool], Pipeline]) -> Pipeline:
        """Returns a built pipeline. Raises InvalidArgumentError if the user's order does not fit the number of samples. build: builds a pipeline, which follows
        the user's order if the argument is True."""
        if order is None:
            return build(True)
        try:
            pipe = build(True)
        except InvalidArgumentError:
            # If the number of samples is wrong, this raises an error that explains more than the first one, which names a wrong id.
            _check_order(order, build(False)).close()
            raise
        return _check_order(order, pipe)

    def started(self, session: Session) -> None:
        """Prepares the session of a new pipeline. Does nothing here."""

    # ---- epochs and the number of samples ----

    def begin(self, epoch: int, consumed: int, base: int) -> None:
        """Sets the position from which the next pipeline reads; called before that pipeline is built. consumed: samples of the epoch that all ranks together
        consumed. base: the epoch that is 0 for the pipeline. Does nothing here, because the library knows the position of a reader."""

    def let_begin(self, epoch: int) -> None:
        """Allows the source to fetch samples of an epoch; called when the consumer begins it. Does nothing here."""

    def meta(self, ready: Callable[[], Pipeline]) -> dict[str, Any]:
        """Returns the metadata of the reader; {} without a reader. ready: returns the pipeline, and builds it if needed."""
        return ready()._started().meta()

    def steps(self) -> int | None:
        """Returns the number of batches in an epoch; None if it follows from the number of samples."""
        return None

    def batch_size(self, spec: Spec) -> int:
        return spec.batch

    def division(self, meta: dict[str, Any], spec: Spec, per_rank: bool, samples: Callable[[], int | None]) -> tuple[bool, int, int]:
        """Returns three facts: whether the last batch of an epoch is kept if it is smaller, the number of ranks that share an epoch, and the number of samples
        in an epoch, which is below 1 if it is unknown. meta: the reader's metadata. samples: a function that returns the number of samples in an epoch."""
        return bool(meta.get("keeps")), int(meta.get("number_of_shards", 1)), int(meta.get("epoch_size", -1))

    def resized(self) -> bool:
        """Updates the number of samples, and returns whether it changed. A reader's number never changes."""
        return False

    def index(self) -> None:
        """Makes the source use an index from now on, so that its length is known and one graph reads all epochs. Only sources with one_epoch implement this."""
        raise NotImplementedError

    def count(self, spec: Spec) -> int:
        """Returns the number of samples. Only sources with one_epoch implement this."""
        raise NotImplementedError

    def forget_orders(self) -> None:
        """Drops what the source has stored about the order of samples. Called when the user's order for the current epoch changes. Does nothing here, because
        only some sources store an order."""

    def steps_left(self, epoch: int, consumed: int, spec: Spec, indices: array[int] | None, per_rank: bool) -> bool:
        """Returns whether the epoch has another step after all ranks together consumed this many samples. Returns True here, because the state of a reader
        already says whether its epoch has ended."""
        return True

    def has_step(self, epoch: int, consumed: int, spec: Spec) -> bool:
        """Returns True. A source of unknown length overrides this: it fetches and stores the samples of the step after `consumed` samples of all ranks, and
        returns whether there are any."""
        return True

    def samples(self, epoch: int, positions: Sequence[int], spec: Spec, indices: array[int] | None) -> list[tuple[int, bool]]:
        """Returns (id, padded) for each position. padded: whether the sample is a repeated one that fills the last batch. Only sources with makes_order
        implement this."""
        raise NotImplementedError

    def by_batches(self, arguments: DatasetArguments) -> Source:
        """Returns a source of the same samples that supports a batch_sampler. Raises InvalidArgumentError if that is not possible."""
        raise InvalidArgumentError(
            "Loader: batch_sampler is for Datasets, arrays and lists of files: of a folder give torchvision's ImageFolder(folder), or a list of (path, target)"
        )

    # ---- sizes and names ----

    def durations(self) -> Callable[[Spec], list[float]] | None:
        """Returns a function that returns each sound's length in seconds; None if there are no sounds, or their lengths are not known before reading."""
        return None

    def check_bucket_by(self) -> None:
        """Raises InvalidArgumentError if the samples are sounds whose lengths are not known."""

    def image_sizes(self, oriented: bool, bad_may_pass: bool) -> list[Size]:
        """Returns (height, width) of each image, for bucket_by. Raises InvalidArgumentError if they are not known. oriented: whether the EXIF orientation is
        applied. bad_may_pass: as in sizes_of_files."""
        raise InvalidArgumentError(
            f"bucket_by: the sizes of the images are not known before they are read: add get_height_and_width(i) to the Dataset, or {ADVICE}"
        )

    def some_sizes(self, spec: Spec, samples: Callable[[], int | None], classes: Callable[[], list[str]]) -> Iterable[Size]:
        """Returns the sizes of some images, the same images on all ranks and in all runs. Returns [] if reading them would take too long: for remote folders,
        tables, streams, and tars without an index. samples: returns the number of samples of the data set. classes: returns the names of its classes."""
        return []

    def kinds_of_targets(self) -> list[str]:
        """Returns the kinds of the samples' parts after the image. Call after `nodes`."""
        return []

    def list_fields(self, kinds: dict[str, Kind] | None) -> set[str]:
        """Returns the names of the fields that become lists when the images do. kinds: the kinds of fields that the user gave. An override may also change how
        masks are finished, so that each sample's masks are an entry of a list."""
        found = {**(kinds or {}), "image": Kind(format=LIST)}
        return lists_of(found) | {name for name, kind in found.items() if kind.name == MASK}

    def class_names(self, ready: Callable[[], Pipeline]) -> list[str]:
        """Returns the names of the classes, in the order of their labels. ready: returns the pipeline, and builds it if needed."""
        names = (ready()._running().class_name(None, i) for i in range(self.meta(ready).get("classes", 0)))
        return [n for n in names if n is not None]

    def notice_left_out(self, pipe: Pipeline, classes: Callable[[], list[str]]) -> None:
        """Prints notices about files that are not read, or are read by accident. classes: returns the names of the classes."""

    # ---- state ----

    def pipeline_seed(self) -> int | None:
        """Returns the Pipeline's seed if the user made it, else None."""
        return None

    def go_on_with(self, pipeline_seed: int) -> None:
        """Continues with this seed of the saved run, if the source is a Pipeline of the user."""

    def saved(self, spec: Spec) -> dict[str, Any]:
        """Returns the entries of a Loader's state that this source adds."""
        return {}

    def reader_facts(self, session: Session, total: int | None) -> dict[str, Any] | None:
        """Returns the reader's facts about the data, for a state that is saved without a pipeline; None if `saved` has such facts. total: the number of samples
        if it was counted while the source was read, else None."""
        core = session.state()
        found = {name: core[name] for name in OF_DATA if name in core}
        return {**found, "size": total} if core.get("streamed") and total is not None else found

    def check_loadable(self) -> None:
        """Raises StateError if it is too late to continue from a state."""

    def restore(self, state: Saved, spec: Spec) -> None:
        """Takes a state's facts about the data. Raises StateError if the state is of other data."""
        if state.dataset is not None:
            raise StateError(
                "the state is of a Loader that fetches samples by index, as those of a Dataset, of arrays, or of files with a batch_sampler; this one reads its "
                "source itself: give the source and the batch_sampler of the run that was saved"
            )

    def check_targets(self, digests: Mapping[str, str]) -> None:
        """Raises StateError if targets differ from those of a state whose files are the same. digests: the state's digests, by field."""

    def continued(self, state: dict[str, Any], session: Session) -> dict[str, Any]:
        """Returns the state from which a new pipeline continues: `state` with the seed of the new pipeline's session. A pipeline's seed is derived from the
        Loader's seed and may differ between ranks, so the one in `state`, perhaps of another rank, is not used."""
        return {**state, "seed": session.state()["seed"]}

    def check_set_epoch(self) -> None:
        """Raises StateError if the Loader cannot go to another epoch."""

    def close(self) -> None:
        """Ends the source's threads and processes; called when no more batches are needed. Does nothing here."""


def _check_order(order: Order, pipe: Pipeline) -> Pipeline:
    """Raises InvalidArgumentError, and closes the pipeline, if the user's order does not fit the reader's number of samples. Returns the pipeline."""
    try:
        order.check(pipe._started().meta()["samples"] or 0)
    except BaseException:
        pipe.close()
        raise
    return pipe
