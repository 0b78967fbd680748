# SPDX-License-Identifier: Apache-2.0
"""The class Loader. Checks the user's arguments, opens the source, and makes batches of tensors from a pipeline's outputs."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Unpack

from stoker import _foreign_state, _html, _needs, _numbers, _ranks
from stoker._settings import PassedOn, takes
from stoker._sheet import Sheet, view
from stoker._signatures import BriefHelp, brief, suggests
from stoker._where import log, notice
from stoker.errors import CancelledError, InvalidArgumentError, MissingFileError, ShapeError, StateError, safe_text
from stoker.loader import _fields, _layout, _lightning, _options
from stoker.loader._accelerate import refuse_skipping, reported
from stoker.loader._buckets import make_buckets
from stoker.loader._epoch import END, Epoch, call
from stoker.loader._kinds import BOXES, FLOATS, has_sound, internal, kinds_of, lists_of, main_of, several
from stoker.loader._mixture import Mixture
from stoker.loader._order import BatchOrder, Order, make_order
from stoker.loader._refused import drops_state, no_attribute, not_copied, read_once
from stoker.loader._run import Run
from stoker.loader._saved import MOST_EPOCHS, Saved, is_whole
from stoker.loader._spec import DatasetArguments, Spec
from stoker.loader.batches import _collate, _pad
from stoker.loader.lower import Recipe
from stoker.loader.sources._array_source import ArraySource
from stoker.loader.sources._arrays import Arrays, in_folder
from stoker.loader.sources._dataset import DatasetSource
from stoker.loader.sources._described import Listing, classes_of, object_of
from stoker.loader.sources._files import CifarSource, FileSource, from_folder, from_list, listed, table_error
from stoker.loader.sources._hub import HubStream, HubTable, is_hub, table_of, turned, whole_of
from stoker.loader.sources._image_sizes import waveforms
from stoker.loader.sources._known import Listed, Taken, TakenTransforms, is_stream, known
from stoker.loader.sources._pipeline_source import PipelineSource
from stoker.loader.sources._source import Source
from stoker.loader.sources._stream import StreamSource
from stoker.loader.sources._table import MEMORY, Table, loaded
from stoker.loader.sources._table_folders import tables_in, tables_of
from stoker.loader.sources._table_source import TableSource
from stoker.loader.sources._tars import TarSource, tars_of
from stoker.loader.sources._videos import VIDEO_ENDINGS, Separated, as_images, separated_clips, wants_clips
from stoker.pipeline import Pipeline
from stoker.transforms import Transform, flatten

if TYPE_CHECKING:
    import torch

    from stoker.loader._robot_loader import RobotLoader
    from stoker.loader.batches._batch import Batch
    from stoker.loader.batches._mix import BatchTransforms

_STATE = 1
_LARGE_PARTS = ("shards", "groups")  # values of the argument `shuffle` that shuffle tars or row groups


@takes(PassedOn, rest="dataloader_arguments", brief=("source", "batch_size", "transforms", "shuffle", "device"))
@suggests
class Loader(metaclass=BriefHelp):
    """Reads, decodes, augments and batches samples. A loop gets torch tensors.

        train = Loader("data/train", 256, shuffle=True, device="cuda",
                       transforms=[T.RandomResizedCrop(224), T.ToTensor()])
        for epoch in range(train.epoch, 90):
            for images, labels in train:  # (256, 3, 224, 224), (256,)
                ...
        Loader("s3://bucket/shards-{000..127}.tar", 256, shuffle="shards")
        Loader(dataset, 64, fields={"image": "Image", "boxes": "BoundingBoxes"})

    doc/loader.md describes each argument at length.

    What is read
      source, dataset: a folder of classes, a list of (path, target), tars,
          Parquet files, a Dataset, arrays (X, y), a Pipeline. Local or s3://
      split: "train" or "test", of CIFAR and MNIST
      frames, stride: the frames of a clip of a video, and their distance
      layout: "HWC" or "CHW", of images that are arrays or tensors
      exif_orientation: True turns images as their EXIF data says
    Batches
      batch_size, global_batch_size: samples in a batch of a rank, of all ranks
      last_batch: "keep" (default), "drop" or "pad". Or drop_last=True
      fields: names of a batch's fields, or a dict from names to kinds
      ragged: fields that become one RaggedBatch in place of a list
      pad: a number, or "zeros", that fills smaller images up to the largest
      bucket_by: "aspect_ratio", "size" or "duration": batches similar samples
      collate_fn: a function that changes each finished batch
    Order
      shuffle: True. "shards" (of tars) and "groups" (of tables) read faster
      seed: for order and random draws. Default: torch.manual_seed's, or 0
      sampler, batch_sampler: torch's, a function of the epoch, lists of ids
      shard: "auto" (the rank's part), None (everything) or (i, n): i of n
    Images
      transforms: of stoker.transforms or torchvision, in order
      views: in place of them, [(2, large_crops), (6, small_crops)]
      batch_transforms: MixUp, CutMix, or functions of (images, labels)
      dtype: torch.float32 (0..1, the default), float16, bfloat16, uint8;
        uint16, int16 for a FloatMap. memory_format: torch.channels_last
    Devices and threads
      device: "cpu", "cuda", "cuda:1". decode: "auto", "gpu" or "cores"
      num_threads: "auto" or a number. prefetch: batches made ahead (2)
      python_workers: processes for a Dataset's Python. pin_memory: True
    Bad samples and limits
      on_error: "raise", "skip" or "replace". strict: False takes damaged
        JPEGs. max_errors: share (< 1) or number of samples to skip (1%)
      timeout: seconds to wait for a batch. held_limit: bytes of kept batches
      memory_limit: bytes of a sample. gpu_memory_limit: bytes on the GPU
    Reading
      storage: a stoker.Storage, for remote objects. trace: a Chrome trace
      read_requests, read_bytes: most requests and bytes to read ahead
    Attributes of a Loader
      batch_size, classes, class_to_idx, epoch; step: steps of the epoch that
        are done; pipeline: for explain(), counters() and bad_samples()
    """

    # Names that help() leaves out: special methods, attributes that the docstring explains, and attributes that frameworks read from a DataLoader.
    _unlisted = (
        *(
            "__abstractmethods__",
            "__dict__",
            "__enter__",
            "__exit__",
            "__getattr__",
            "__getitem__",
            "__getstate__",
            "__init__",
            "__repr__",
            "__setattr__",
            "__weakref__",
        ),
        *("__iter__", "__len__", "batch_size", "class_to_idx", "classes", "epoch", "pipeline", "step"),
        *("batch_sampler", "dataset", "drop_last", "end_of_dataloader", "num_workers", "remainder", "sampler"),
    )

    @suggests
    def __init__(
        self,
        source: Any = None,
        batch_size: int | None = None,
        *,
        transforms: Transform | Sequence[Any] | None = None,
        global_batch_size: int | None = None,
        shuffle: bool | str = False,
        seed: int | str | None = "torch",
        sampler: Callable[[int], Any] | Any = None,
        batch_sampler: Any = None,
        shard: Any = "auto",
        last_batch: str | None = None,
        drop_last: bool | None = None,
        device: Any = "cpu",
        dtype: torch.dtype | Any = None,
        memory_format: torch.memory_format | None = None,
        layout: str | None = None,
        frames: int | None = None,
        stride: int = 1,
        num_threads: int | str = "auto",
        prefetch: int = 2,
        fields: Sequence[str] | Mapping[str, Any] | None = None,
        ragged: Sequence[str] = (),
        pin_memory: bool = False,
        split: str | None = None,
        exif_orientation: bool = False,
        views: Sequence[tuple[int, Any]] | None = None,
        python_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        batch_transforms: Any = None,
        pad: Any = None,
        bucket_by: Any = None,
        **more: Unpack[_options.Arguments],
    ) -> None:
        given = dict(locals())
        parts = _separate_sounds_and_clips(_options.source_of(source, more), given)
        pipeline = PipelineSource(parts.source) if isinstance(parts.source, Pipeline) else None
        settings = _options.take_more(more, list(inspect.signature(Loader.__init__).parameters))
        _check_arguments(parts, pipeline is not None, given)
        place = _ranks.resolve(shard) if pipeline is None else pipeline.shard(shard)
        pads = _pad.checked(pad)
        fields, self._fields_of_padded = _pad.without_own_fields(pads, parts.fields)
        kinds = kinds_of(fields)
        arguments = self._dataset_arguments(fields, kinds, parts, given)
        self._given = object_of(parts.source)
        source, images = _known_source(pipeline or parts.source, "train" if split is None else split, more.get("storage"), arguments)
        if isinstance(source, Table) and source.plain:
            _options.refuse_of_images(given, self._fields_of_padded)
            arguments.of_columns(source.image, _pad.of_lists(pad))
            self._names, self._main, pads = arguments.names, source.image, None
        self._classes, self._class_to_idx = classes_of(source)
        batch = 1 if pipeline is not None or batch_sampler is not None else _options.batch_of(batch_size, global_batch_size, place)
        self._spec = _spec_of(source, images, arguments, parts, given, batch, place, pads, settings)
        self._spec.taken += [Taken(source)] if images is not None and hasattr(source, "__dict__") else []
        self._spec.taken += _taken_transforms(parts.transforms, given)
        gpu = self._spec.settings["device_id"]
        if pipeline is not None and device != "cpu" and pipeline.pipe.device_id != gpu:
            raise InvalidArgumentError(f"Loader: device={device!r}, but the pipeline was made with device_id={pipeline.pipe.device_id}")
        self._device = None if gpu is None else f"cuda:{gpu}"
        opened, order = _open_in_order(source, images, arguments, self._spec, given)
        _fields.refuse_double(arguments.made, opened.column_names())
        _fields.refuse_padded(arguments.padded, opened.column_names())
        self._kinds, self._may_list = arguments.kinds, self._may_list_images(opened, given, arguments)
        self._listed = False  # becomes True if the images turn out to differ in size, so that batches hold lists of images
        opened.settle(self._spec, order is not None, self._may_list)
        self._run = Run(opened, self._spec, order)
        self._described = repr(opened)
        self._generation = 0
        self._untouched = False  # True from the start of an iteration until its first batch is taken
        self._just_loaded = False  # whether a state was loaded, and since then no batch was taken and no other epoch set
        self._loops_epoch = -1  # the epoch of the latest iteration
        self._one_thread = self._run.one_thread
        self._narrowed_was_noticed = self._asks_dataset = False
        self._set_batch_options(kinds, pads, given)
        self._check(order is not None, arguments)
        self._run.agree()
        if isinstance(shard, str) and place.world > 1 and not self._run.per_rank:
            opened.check_divided(place)

    def _dataset_arguments(self, fields: Any, kinds: Any, parts: Separated, given: dict[str, Any]) -> DatasetArguments:
        """Collects the arguments about a Dataset's samples. Also sets self._main and self._names."""
        self._main = parts.main or main_of(kinds)
        self._names = _fields.internal(_names_of(fields), self._main)
        ragged, processes = parts.ragged, given["python_workers"]
        return DatasetArguments(
            self._names,
            internal(kinds),
            (ragged,) if isinstance(ragged, str) else tuple(ragged),
            _options.workers_of(processes),
            _options.processes_of(given["more"].get("multiprocessing_context")) if processes else None,
            _layout.checked(given["layout"]),
            self._main,
            _fields.place_of(self._names) if self._main != "image" else 0,
            parts.sounds if parts.main else None,
            () if parts.sounds is None else parts.sounds.made,
            padded=tuple(name for name in self._fields_of_padded or () if name in _pad.FIELDS),
        )

    def _set_batch_options(self, kinds: Any, pads: dict[str, float] | None, given: dict[str, Any]) -> None:
        self._batches: Any = None  # a Batches of batches/_tuples.py, from the first batch on
        self._pin = bool(given["pin_memory"])
        self._collate = _collate.checked(given["collate_fn"])
        self._mix: BatchTransforms | None = None
        self._lists = lists_of(self._kinds)
        self._boxes = next(((name, kind.format) for name, kind in (kinds or {}).items() if kind.name == BOXES), None)
        if "image" in self._lists:
            _check_lists(pads is not None, given["batch_transforms"] is not None)
        if given["batch_transforms"] is not None:
            from stoker.loader.batches._mix import BatchTransforms

            self._mix = BatchTransforms(given["batch_transforms"], lambda: len(self.classes))
        self._several = given["views"] is not None or self._spec.images > 1

    def _may_list_images(self, opened: Source, given: dict[str, Any], arguments: DatasetArguments) -> bool:
        """Returns whether batches may hold their images as lists, if the images turn out to differ in size."""
        spec, sampler = self._spec, given["sampler"]
        arranged = any(given[name] is not None for name in ("batch_sampler", "bucket_by", "batch_transforms", "views", "pad"))
        # A sampler that the user wrote may put images of one size into each batch; torch's samplers do not.
        arranged |= sampler is not None and not type(sampler).__module__.startswith("torch.utils.data.")
        images = opened.owns_pipeline and not arguments.plain and spec.video is None and spec.sound is None and spec.images == 1
        one_size = spec.batch == 1 or spec.views[0].fixes_size(True)
        return images and not (arranged or one_size or "image" in lists_of(arguments.kinds))

    def _list_images(self, fields: dict[str, int | None], batch: Any) -> None:
        """Lets all batches hold lists of images if the images differ in size, and prints a notice the first time. batch: the first batch."""
        source, recipe = self._run.source, self._spec.views[0]
        if source.several:
            return  # the samples hold a list of views, which stays as it is
        if not self._listed:
            if not recipe.draws_size(self._boxes is not None) and not self._differ(
                source, recipe, {tuple(shape) for shape in batch.shapes(0)}
            ):
                return
            self._listed = True
            log(
                f"{self._described}: its images differ in size, so each batch has them as a list of tensors. transforms=[T.Resize((224, 224))] or pad='zeros' "
                f"make one tensor; fields={{'{self._main}': list, ...}} says that a list is wanted, and ends this notice"
            )
        self._batches.list_images(source.list_fields(self._kinds), fields)

    def _differ(self, source: Source, recipe: Any, shapes: set[tuple[int, ...]]) -> bool:
        """Returns whether images of the data set, or those of the first batch, differ in size. Returns False for images that seem to be sounds. Raises
        ShapeError if there are several ranks and only this rank's first batch shows the difference. shapes: the shapes of the images in the first batch, after
        the transforms."""
        if waveforms(shapes, recipe.channels_last):
            return False
        if recipe.sizes_differ(source.some_sizes(self._spec, self._run.data_size, lambda: self.classes)):
            return True
        if len(shapes) > 1 and self._spec.shard.world > 1:
            raise ShapeError(
                f"{self._described}: the images of this rank's first batch differ in size, and each rank has another first batch, so say what a batch holds: "
                f"fields={{'{self._main}': list, ...}}: a list of tensors; pad='zeros': one tensor, padded to the largest; transforms=[T.Resize((224, 224))]: "
                "images of one size"
            )
        return len(shapes) > 1

    def _check(self, ordered: bool, arguments: DatasetArguments) -> None:
        """Raises errors about files or arguments now instead of at the first batch, and prints notices. ordered: whether the user gave an order of samples."""
        source = self._run.source
        source.check(self._spec, ordered)
        if source.makes_order:
            return
        if arguments.python_workers:
            notice("python_workers is ignored: no Python runs for these samples")
        pipe = self._run.ready()
        self._fields_of(source)
        source.notice_left_out(pipe, lambda: self.classes)

    def _notice_narrowed_images(self) -> None:
        """Prints a notice at the end of an epoch if 16-bit images were rounded to 8 bits."""
        if self._narrowed_was_noticed or not self._run.source.owns_pipeline:
            return
        count = self._run.narrowed
        if count:
            self._narrowed_was_noticed = True
            log(
                f"{self._described}: images of 16 bits a channel are rounded to 8 ({count} so far); fields={{'image': 'FloatMap', ...}} keeps their"
                " numbers as float32, or with dtype=torch.uint16 as they are; so does a Pipeline with fn.decoders.image(dtype=types.UINT16), which Loader takes"
            )

    @classmethod
    @suggests
    @brief("table", "batch_size", "path")
    def from_csv(
        cls,
        table: Any,
        batch_size: int | None = None,
        *,
        path: str = "path",
        targets: str | Sequence[str] | Mapping[str, str] | None = None,
        root: str | os.PathLike[str] | None = None,
        **arguments: Unpack[_options.LoaderArguments],
    ) -> Loader:
        """Makes a Loader from a DataFrame or a CSV file that lists images."""
        _options.refuse_unknown(arguments, cls.from_csv, cls)
        from stoker.loader.sources._csv import from_table, refuse_coordinates, rows_of  # imported here, because it loads the module csv

        kinds = kinds_of(arguments.get("fields"))
        refuse_coordinates(kinds or {})
        if several(internal(kinds)):
            return cls(rows_of(table, path, targets, root, kinds or {}), batch_size, **arguments)
        return cls(from_table(table, path, targets, root), batch_size, **arguments)

    @classmethod
    @suggests
    @brief("tars", "batch_size")
    def from_tars(
        cls,
        tars: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        batch_size: int | None = None,
        *,
        components: Mapping[str, Any] | None = None,
        index_paths: str | Sequence[str] | None = None,
        missing_component_behavior: str | None = None,
        **arguments: Unpack[_options.LoaderArguments],
    ) -> Loader:
        """Makes a Loader from tars. components: {"image": "jpg", "text": "txt"}."""
        _options.refuse_unknown(arguments, cls.from_tars, cls)
        paths = [os.fsdecode(t) for t in ([tars] if isinstance(tars, (str, bytes, os.PathLike)) else tars)]
        indexes = [index_paths] if isinstance(index_paths, str) else index_paths
        endings: dict[str, Any] = {"endings": VIDEO_ENDINGS} if wants_clips(arguments) else {}
        if has_sound(arguments.get("fields")) and not endings:
            from stoker.loader.sources import _sounds

            endings, components = {"endings": _sounds.SOUND_ENDINGS}, _sounds.components_of(arguments["fields"], components)
        made = TarSource(tars_of(tars) or paths, components, indexes, missing_component_behavior, arguments.get("storage"), **endings)
        return cls(made, batch_size, **arguments)

    @classmethod
    @suggests
    @brief("table", "batch_size")
    def from_parquet(
        cls,
        table: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        batch_size: int | None = None,
        *,
        image: str | None = None,
        nulls: Mapping[str, Any] | None = None,
        memory: int | str = MEMORY,
        **arguments: Unpack[_options.LoaderArguments],
    ) -> Loader:
        """Makes a Loader from Parquet files (doc/tables.md)."""
        _options.refuse_unknown(arguments, cls.from_parquet, cls)
        fields, sound = arguments.get("fields"), None
        _fields.names_of(fields)  # raises an error for wrong names, and for empty fields
        if has_sound(fields):
            from stoker.loader.sources import _sounds

            sound, fields = _sounds.names_of_rows(arguments)
        fields, padded = _pad.without_own_fields(_pad.checked(arguments.get("pad")), as_images(fields))
        names, kinds = _names_of(fields), kinds_of(fields)
        names = names if sound is None else _fields.internal(names, sound)
        paths = [os.fsdecode(t) for t in ([table] if isinstance(table, (str, bytes, os.PathLike)) else table)]
        if not paths:
            raise InvalidArgumentError("Loader.from_parquet: the list of files is empty")
        if len(paths) == 1 and os.path.isdir(paths[0]):
            paths = tables_in(paths[0])
        most = _numbers.size("Loader.from_parquet: memory", memory, 1)
        made = Table(paths, arguments.get("storage"), names, kinds, image, nulls, most, sound, sound or main_of(kinds), padded is not None)
        return cls(made, batch_size, **arguments)

    @staticmethod
    @suggests
    @brief("root", "batch_size")
    def from_lerobot(
        root: str | os.PathLike[str],
        batch_size: int | None = None,
        *,
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        episodes: Sequence[int] | None = None,
        image_transforms: Callable[[Any], Any] | None = None,
        tolerance_s: float = 1e-4,
        columns: Sequence[str] | None = None,
        global_batch_size: int | None = None,
        shuffle: bool = False,
        seed: int | str | None = "torch",
        shard: Any = "auto",
        last_batch: str | None = None,
        drop_last: bool | None = None,
        device: Any = "cpu",
        num_threads: int | str = 2,
    ) -> RobotLoader:
        """Makes batches of a robot data set of LeRobot (doc/robots.md)."""
        _needs.torch("Loader.from_lerobot")
        from stoker.loader._robot_loader import RobotLoader
        from stoker.loader.sources._robots import Robots

        root = os.fsdecode(root) if isinstance(root, bytes) else root
        dataset = Robots(root, delta_timestamps, episodes, image_transforms, tolerance_s, columns)
        return RobotLoader(dataset, batch_size, global_batch_size, shuffle, seed, shard, last_batch, drop_last, device, num_threads)

    @staticmethod
    @suggests
    @brief("sources", "epoch", "steps")
    def mix(
        sources: Sequence[tuple[Any, Any]] | Mapping[str, tuple[Any, Any]], *, epoch: int | str | None = None, steps: int | None = None
    ) -> Mixture:
        """Mixes Loaders: {"web": (web, 0.7), "books": (books, 0.3)}."""
        return Mixture(sources, epoch, steps)

    # ---- iteration ----

    end_of_dataloader = False  # Accelerate reads this attribute and `remainder`
    remainder = -1

    def __iter__(self) -> Iterator[Batch]:
        """Iterates over one epoch, or over its rest after a state was loaded."""
        return reported(self, self, _lightning.begun(self, self._begin))

    def _begin(self) -> Epoch:
        """Begins an epoch, or continues a restored one. Unlike __iter__, does not notify Accelerate."""
        epoch = None if self._run.loaded_inside else _lightning.epoch_to_begin(self)
        if epoch is not None:
            self.set_epoch(epoch)
        with self._one_thread:
            self._spec.check_taken()
            if self._mix is not None:
                self._mix.check()
            self._generation += 1
            self._run.begin()
            self._loops_epoch = self._run.epoch
            self._untouched = True
        return Epoch(self, self._generation)

    def _take(self, generation: int) -> Any:
        """Returns the next batch, or END. If an interrupt comes before it returns (KeyboardInterrupt, SystemExit), the next call returns the same batch; after
        another exception, for example in a collate_fn, it returns the batch after it."""
        if generation != self._generation:
            raise StateError(
                "a newer iteration over this Loader has begun, its position was set, or it was closed; to iterate twice at the same time, make two Loaders"
            )
        changed = False  # whether a user's function may have changed the batch
        try:
            with self._one_thread:
                self._untouched = self._just_loaded = False
                if self._run.epoch != self._loops_epoch:  # an interrupt came between the last batch and the end of the loop
                    return END
                batch, epoch = self._run.take(), self._run.epoch
            if batch is None:
                self._notice_narrowed_images()
                return END
            if self._batches is None:
                fields = self._fields_of(self._run.source)
                self._batches = self._make_batches(batch, fields)
                if self._may_list and fields.get("image") is not None:
                    self._list_images(fields, batch)
            made = self._batches.make(batch, *self._dataset_facts(batch)) if self._asks_dataset else self._batches.make(batch)
            if self._spec.video is not None and self._spec.video.clips is not None and self._main in made._fields:
                made = made._replace(**{self._main: self._spec.video.parted(getattr(made, self._main))})
            if self._mix is not None and len(batch):
                changed = True
                rank = self._spec.shard.rank if self._run.per_rank else 0
                made = call("a function of batch_transforms", self._mix, made, (self._spec.seed, epoch, batch.sample(0)[1], rank))
            if self._collate is not None:
                changed = True
                made = _collate.collated(self._collate, made)
        except BaseException as e:
            with contextlib.suppress(StateError), self._one_thread:  # another thread may be inside: it has taken a later batch then
                self._run.put_back(isinstance(e, Exception), changed)
            if isinstance(e, CancelledError) and generation != self._generation:
                raise StateError("the Loader was closed while a batch was waited for") from None
            raise
        session = self._run.session
        if session is not None:
            session.core.held = None  # no call follows, at whose end an interrupt could come
        return made

    def _fields_of(self, source: Source) -> dict[str, int | None]:
        """Returns the index of the pipeline's output for each field of a batch; None for a field that comes from a sample's metadata. Raises
        InvalidArgumentError if last_batch="pad" would add a field `valid` that the data have already."""
        fields = source.fields(self._names)
        if self._spec.sound is not None:
            fields = self._spec.sound.with_fields(fields, len(self._run.descs) - (self._spec.pad is not None), self._main)
        if self._spec.last_batch != "pad":
            return fields
        if fields.get("valid") is not None:
            raise InvalidArgumentError(
                "Loader: last_batch='pad' adds a mask `valid`, and the dataset's dicts have a 'valid' of their own: rename it"
            )
        return {**fields, "valid": None}

    def _make_batches(self, batch: Any, fields: dict[str, int | None]) -> Any:
        from stoker.loader.batches._tuples import Batches  # imported here, because it loads torch

        source = self._run.source
        if self._mix is not None:
            self._mix.refuse_followers(source.kinds_of_targets())
        self._asks_dataset = source.makes_order and bool({"valid", "index"} & set(fields))
        finishing, count = source.finishing, len(self._run.descs) - (self._spec.pad is not None)
        if self._spec.pad is not None:
            padded_names = self._fields_of_padded
            padded_names = padded_names if padded_names is None else tuple("image" if name == self._main else name for name in padded_names)
            fields, finishing = _pad.with_fields(fields, finishing, padded_names, count)
        if self._spec.sound is not None:
            finishing = self._spec.sound.finishing(finishing, count)
        last = count if self._spec.sound is None else count - self._spec.sound.outputs
        views = [0, *range(last - self._spec.images - source.views + 1, last)] if self._several or source.several else None
        return Batches(fields, batch, self._device, finishing, views, self._pin and _options.can_pin(), self._lists, self._main)

    def _dataset_facts(self, batch: Any) -> tuple[list[bool], list[int]]:
        """Returns two lists with an entry for each sample of a Dataset's batch: whether it is a repeat that fills the batch, and its id in the Dataset."""
        facts = self._run.dataset_samples(batch)
        return [padded for _, padded in facts], [i for i, _ in facts]

    def _reorders(self) -> bool:
        """Returns whether epochs may differ in their order: the Loader shuffles, or the user gives the order."""
        return self._spec.shuffle or self._run.order is not None

    def _at_last(self) -> bool:
        """Returns whether the last batch that was taken is known to be the last one of the epoch."""
        return self._run.last or (self._run.samples() is not None and self._run.step == len(self))

    def _samples_of_last_step(self) -> int:
        """Returns the number of samples, over all ranks, in an epoch's last step, without the repeats that fill it; 0 if the step is full, last_batch is not
        "pad", or the number of samples is not known."""
        return (self._run.samples() or 0) % (self.batch_size * self._spec.shard.world) if self._spec.last_batch == "pad" else 0

    @property
    def epoch(self) -> int:
        """Returns the epoch of this iteration, or of the next one if none is running."""
        return self._run.epoch

    @property
    def step(self) -> int:
        """Returns the number of steps taken in this epoch, including those before a restore."""
        if self._one_thread.is_inside():  # the caller is a function that the Loader calls
            return self._step()
        with self._one_thread.visit("step"):
            return self._step()

    def _step(self) -> int:
        if self._run.in_stretches:
            return self._run.step
        state = self._run.position()
        together = self.batch_size * (1 if self._run.per_rank else self._spec.shard.world)
        if state["epoch"] == self.epoch:
            return int((state["pipeline"] or {}).get("consumed", 0)) // together
        if self._run.samples() is not None:
            return len(self)
        return self._run.step

    def __getitem__(self, index: Any) -> Any:
        raise TypeError(
            "a Loader gives batches in a loop, not by index: next(iter(loader)) is one, loader.as_dataloader() is a torch DataLoader for a Trainer, and what "
            "DataLoader(...) takes is the data set"
        )

    def __len__(self) -> int:
        """Returns the number of batches in an epoch, which is the same for all ranks. Raises TypeError if it is not known."""
        run = self._run
        steps = run.source.steps()
        if steps is not None:
            return steps
        samples = run.counted()
        if samples is None:
            who = "IterableDataset" if self._run.order is None else "sampler"
            raise TypeError(f"this Loader has no length: its {who} does not say how many samples it gives")
        return self._spec.steps(samples, run.per_rank)

    # ---- state ----

    def state_dict(self) -> dict[str, Any]:
        """Returns the position after the last batch taken: a dict of under 1 KB."""
        before = _lightning.state_for_checkpoint(self)
        if before is not None:
            return before
        with self._one_thread.visit("state_dict()"):
            return {"stoker_loader": _STATE, **self._run.state(), **({"listed": True} if self._listed else {})}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a state; ranks may differ if Loader divides the samples."""
        if not isinstance(state, dict) or not is_whole(state.get("stoker_loader")) or state["stoker_loader"] != _STATE:
            raise _foreign_state.refused(state, "a Loader", _STATE)
        with self._one_thread:
            self._run.load(Saved.of(state))  # raises an error if it refuses the state
            self._generation += 1
            self._untouched = False
            self._just_loaded = True
            if _lightning.leaves_epoch(self, self._run.step > 0):
                self._run._leave_epoch()
            if self._may_list and (state.get("listed") is True) != self._listed:
                self._listed, self._batches = not self._listed, None

    # ---- attributes, and methods that other libraries call ----

    @property
    def batch_size(self) -> int:
        """Returns the number of samples in a batch of this rank."""
        return self._run.source.batch_size(self._spec)

    @property
    def pipeline(self) -> Pipeline:
        """Returns the Loader's pipeline, for explain(), counters() and bad_samples(). Builds it if needed."""
        return self._run.ready()

    @property
    def classes(self) -> list[str]:
        """Returns the names of the classes, in the order of their labels."""
        if self._classes:
            return list(self._classes)
        return self._run.source.class_names(self._run.ready)

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Returns a dict from the name of each class to its label."""
        return dict(self._class_to_idx) or {name: label for label, name in enumerate(self.classes)}

    @property
    def dataset(self) -> Any:
        """Returns the user's Dataset, or an object with the number of samples and the classes."""
        if self._given is not None:
            return self._given
        return Listing(self._described, self._run.data_size, self.classes, self.class_to_idx)

    @property
    def drop_last(self) -> bool:
        """Returns whether samples after the last full batch are dropped."""
        return self._spec.last_batch == "drop"

    @property
    def num_workers(self) -> int:
        """Returns 0, because there are no workers of torch. Exists for code that expects a DataLoader."""
        return 0

    @property
    def sampler(self) -> Sampler:
        """Returns an object for loops that call loader.sampler.set_epoch(epoch). If every epoch has the data set's order, the object is a torch
        SequentialSampler too."""
        in_order = not self._reorders() and not self._spec.batches and self._run.samples() is not None
        if in_order and self._run.source.has_indices and "torch.utils.data" in sys.modules:
            return _sequential()(self)
        return Sampler(self)

    @property
    def batch_sampler(self) -> None:
        """Returns None. Exists for code that expects a DataLoader."""
        return None

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next iteration. Loops need not call it."""
        # A state that is saved before that iteration begins, and close(), continue the current epoch.
        # For the epoch of a state that was just loaded, the next iteration continues from the state.
        epoch = _numbers.whole("set_epoch: an epoch", epoch, 0, MOST_EPOCHS - 1)
        if epoch == self.epoch:
            self._run.repeat()
            return
        if self._just_loaded and epoch != self.epoch + 1 and _lightning.continues_epoch(self):
            return  # the state has the Loader's epoch, which may be later than Lightning's
        if self._run.loaded_inside and epoch != self.epoch + 1:
            raise drops_state(epoch, self.epoch)
        with self._one_thread:
            self._run.go_to(epoch)
            self._just_loaded = False
            if self._untouched:  # when Lightning resumes a run, it makes the iterator before it sets the epoch
                self._spec.check_taken()
                self._run.begin()
                self._loops_epoch = self._run.epoch
            else:
                self._generation += 1

    def as_dataloader(self) -> Any:
        """Returns a torch DataLoader with these batches, for frameworks."""
        from stoker.loader._dataloader import wrap

        return wrap(self)

    def show(self, images: int = 16, columns: int | None = None) -> Sheet:
        """Returns a contact sheet of the next batch, and does not consume it."""
        if self._run.inside:
            raise StateError("Loader.show: an epoch has begun; show() before it or after it, or stoker.view(batch) of a batch")
        state, loaded = self.state_dict(), self._run.loaded_inside
        try:
            batch = next(iter(self))
        finally:
            self.load_state_dict(state)
            if not loaded:
                self._run.loaded = None
        recipe = self._spec.views[0]
        image = getattr(batch, "image", batch)
        if self._several and isinstance(image, list):
            image = image[0]
        boxes = getattr(batch, self._boxes[0], None) if self._boxes is not None else None
        sheet: Sheet = view(image, images, columns, recipe.mean, recipe.std, boxes, self._boxes[1] if self._boxes is not None else "XYXY")
        return sheet

    def close(self) -> None:
        """Ends the work and frees its memory. Batches stay valid."""
        self._generation += 1
        self._untouched = False
        self._one_thread.ask(self._run.close, self._run.interrupt)

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getstate__(self) -> Any:
        raise not_copied("a Loader")

    if not TYPE_CHECKING:  # type checkers would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            refuse_skipping(name, sys._getframe(1))
            return no_attribute(self, name, {})

        def __setattr__(self, name: str, value: Any) -> None:
            if name in _options.ARGUMENTS and not self._is_of_subclass(name, sys._getframe(1)):
                raise read_once(type(self).__name__, name)
            object.__setattr__(self, name, value)

    def _is_of_subclass(self, name: str, frame: FrameType | None) -> bool:
        """Returns whether an attribute with the name of an argument belongs to the user's subclass: its class has it, or it is set while a method of the
        subclass runs. frame: that of the code that sets it."""
        if name in vars(self) or getattr(type(self), name, None) is not getattr(Loader, name, None):
            return True
        own = [kind for kind in type(self).__mro__ if kind not in Loader.__mro__]
        while own and frame is not None:
            if any(_is_within(frame, kind) for kind in own):
                return True
            frame = frame.f_back
        return False

    def _repr_html_(self) -> str:
        return _html.of_pipeline(repr(self), self._run.pipe)

    def __repr__(self) -> str:
        try:
            return self._text()
        except StateError:  # a repr in a log or a traceback must not raise
            why = "its pipeline is closed, in use by another thread, or belongs to the process that forked this one"
        except Exception as e:  # the source has gone since the pipeline was closed, for example
            why = f"{type(e).__name__}: {e!s:.200}"
        return f"Loader({safe_text(str(self._described))}; {why}; epoch {self.epoch})"

    def _text(self) -> str:
        spec, samples, described = self._spec, self._run.samples(), safe_text(str(self._described))
        if not self._run.source.owns_pipeline:
            seed = self._run.source.pipeline_seed()
            return f"Loader({described} with seed {seed}, batches of {self.batch_size}, {len(self)} in an epoch; epoch {self.epoch})"
        if samples is None:
            return f"Loader({described}; seed {spec.seed}; batches of {spec.batch}, last_batch={spec.last_batch!r}; epoch {self.epoch})"
        steps = len(self)
        if spec.batches:
            return f"Loader({described}; batches of the batch_sampler, {_spaced(steps)} in an epoch, seed {spec.seed}; epoch {self.epoch})"
        here = f"{_spaced(samples or 0)} samples"
        if spec.shard.world > 1:
            own = min(samples or 0, steps * spec.batch) if spec.last_batch == "drop" else -(-(samples or 0) // spec.shard.world)
            here = f"rank {spec.shard.rank} of {spec.shard.world}: {_spaced(own)} of {_spaced(samples or 0)} samples"
        order = (
            ("shuffled" if spec.shuffle else "in order" if self._run.order is None else "in the order of the sampler")
            + (" with seed" if spec.shuffle else ", seed")
            + f" {spec.seed}"
        )
        batches = f"{_spaced(steps)} batches of {spec.batch} in an epoch, last_batch={spec.last_batch!r}"
        return f"Loader({described}; {here}, {order}; {batches}; epoch {self.epoch})"


def _is_within(frame: FrameType, kind: type) -> bool:
    """Returns whether a frame runs a method of a class, or a function that is defined in one, such as a closure or a comprehension."""
    code = frame.f_code
    if any(getattr(member, "__code__", None) is code for member in vars(kind).values()):  # a function that was defined outside of the class
        return True
    return frame.f_globals.get("__name__") == kind.__module__ and code.co_qualname.startswith(f"{kind.__qualname__}.")


class Sampler:
    """Stands in for a DistributedSampler, whose methods training loops call. The Loader itself divides its epochs among the ranks."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        """Does the same as Loader.set_epoch."""
        self._loader.set_epoch(epoch)

    def __len__(self) -> int:
        """Returns the number of samples of this rank in an epoch; each batch counts as full."""
        return len(self._loader) * self._loader.batch_size


@functools.cache
def _sequential() -> type[Sampler]:
    """Returns a subclass of Sampler and of torch's SequentialSampler. Lightning's overfit_batches then sees that nothing is shuffled."""
    from torch.utils.data import SequentialSampler

    return type("InOrder", (Sampler, SequentialSampler), {"__module__": __name__, "__doc__": _sequential.__doc__})


def _separate_sounds_and_clips(source: Any, given: dict[str, Any]) -> Separated:
    _fields.names_of(given["fields"])  # raises an error for wrong names, and for empty fields
    parts = Separated(source, given["fields"], None, "", given["ragged"], given["transforms"])
    if has_sound(parts.fields):
        from stoker.loader.sources import _sounds

        parts = _sounds.separated(source, given)
    source, fields, video = separated_clips(parts.source, {**given, "fields": parts.fields})
    return parts._replace(source=source, fields=fields, video=video)


def _check_arguments(parts: Separated, pipeline: bool, given: dict[str, Any]) -> None:
    """Raises an error for flags that are not bools, for arguments that exclude each other, and for those without effect on a Pipeline. given: all arguments."""
    shuffle = given["shuffle"]
    shuffle = True if isinstance(shuffle, str) and shuffle in _LARGE_PARTS else shuffle
    flags = {name: given[name] for name in ("drop_last", "pin_memory", "exif_orientation")}
    _options.check_flags(shuffle=shuffle, **flags)
    if shuffle and given["sampler"] is not None:
        raise InvalidArgumentError("Loader: shuffle and sampler exclude each other: the sampler makes the order")
    if given["batch_sampler"] is not None:
        _options.refuse_with_batch_sampler(given)
    if pipeline:
        changed = {"transforms": parts.transforms, "ragged": parts.ragged}
        _options.refuse_what_a_pipeline_has(inspect.signature(Loader.__init__), {**given, **changed, **given["more"]})


def _spec_of(
    source: Any,
    images: Listed | Arrays | None,
    arguments: DatasetArguments,
    parts: Separated,
    given: dict[str, Any],
    batch: int,
    shard: _ranks.Shard,
    pads: dict[str, float] | None,
    settings: dict[str, Any],
) -> Spec:
    floats = arguments.kinds is not None and "image" in arguments.kinds and arguments.kinds["image"].name == FLOATS
    return Spec(
        batch=batch,
        shard=shard,
        shuffle=bool(given["shuffle"]),
        seed=_options.seed_of(given["seed"], shard),
        last_batch=_options.tail_of(given["last_batch"], given["drop_last"]),
        views=_recipes(_views(given["views"], _transforms(images, parts.transforms)), given["dtype"], given["memory_format"], floats),
        orientation=bool(given["exif_orientation"]) or turned(source) or (isinstance(source, Table) and source.turned),
        settings=_options.checked_settings(
            {
                "num_threads": _ranks.threads(shard) if given["num_threads"] == "auto" else given["num_threads"],
                "device_id": _options.device_id_of(given["device"]),
                "prefetch_queue_depth": given["prefetch"],
                **settings,
            }
        ),
        by_shards=given["shuffle"] == "shards",
        by_groups=given["shuffle"] == "groups",
        floats=floats,
        pad=pads,
        batches=given["batch_sampler"] is not None,
        video=parts.video,
        sound=parts.sounds,
        as_given=all(given[name] is None for name in ("dtype", "views", "batch_transforms")) and not parts.transforms,
    )


def _open_in_order(
    source: Any, images: Listed | Arrays | None, arguments: DatasetArguments, spec: Spec, given: dict[str, Any]
) -> tuple[Source, Order | None]:
    """Opens the source. Returns it, and the order that sampler, batch_sampler or bucket_by gives, or None. bucket_by sets spec.shuffle to False. given: all
    arguments of the Loader."""
    sampler, batch_sampler, bucket_by = given["sampler"], given["batch_sampler"], given["bucket_by"]
    order = make_order(sampler, spec.seed) if batch_sampler is None else BatchOrder(batch_sampler)
    split = given["split"]
    opened = _open_source(source, images, "train" if split is None else split, arguments)
    has_splits = isinstance(opened, CifarSource) or (isinstance(images, Arrays) and isinstance(source, (str, os.PathLike)))
    if split is not None and not has_splits:
        _refuse_split(split, given["source"], opened)
    _check_shuffle(spec, opened)
    opened.check_kinds(arguments)
    if batch_sampler is not None:
        opened = opened.by_batches(arguments)
    if bucket_by is not None:
        _check_buckets(sampler is not None or batch_sampler is not None or spec.by_shards or spec.by_groups, opened)
        order = make_buckets(bucket_by, opened, spec)
        spec.shuffle = False
    return opened, order


def _refuse_split(split: Any, given: Any, opened: Source) -> None:
    """Raises InvalidArgumentError for the argument `split` with a source that has none. Only split="train" of a folder is allowed: it asks for what is read
    anyway. given: the user's source."""
    is_folder = isinstance(opened, FileSource) and opened.root is not None
    if is_folder and split == "train":
        return
    way = "give the samples of the split only"
    if is_folder:
        way = "give the folder of the split itself"
    elif isinstance(opened, TarSource):
        way = f"give the tars of the split only, as 'data/{split}-*.tar'"
    elif isinstance(opened, TableSource):
        folder = os.fsdecode(given) if isinstance(given, (str, os.PathLike)) and os.path.isdir(given) else "data"
        way = f"give the files of the split, as {os.path.join(folder, f'{split}-*.parquet')!r}"
    is_wrapped = isinstance(getattr(opened, "dataset", None), (HubTable, HubStream))
    shown = f"this {type(given).__name__}" if is_wrapped else repr(opened)
    what = f"split={split!r} is" if split in ("train", "test") else f'split is "train" or "test", not {split!r}, and'
    raise InvalidArgumentError(f"Loader: {what} only for the files of CIFAR or MNIST; {shown} has none: {way}")


def _check_buckets(ordered: bool, opened: Source) -> None:
    if ordered or not opened.has_indices:
        raise InvalidArgumentError(
            "Loader: bucket_by makes the order of a data set that has indices: leave out sampler, batch_sampler and shuffle='...', and IterableDatasets and "
            "Pipelines"
        )


def _check_lists(pads: bool, mixes: bool) -> None:
    if pads:
        raise InvalidArgumentError("Loader: pad makes one tensor of images, and fields={'image': list} a list: leave one out")
    if mixes:
        raise InvalidArgumentError(
            "Loader: batch_transforms are of one tensor of images, and fields={'image': list} makes a list: leave one out"
        )


def _check_shuffle(spec: Spec, source: Source) -> None:
    """Raises an error if the argument `shuffle` names an order that the source does not have."""
    if spec.by_shards and source.shuffles != "shards":
        raise InvalidArgumentError('Loader: shuffle="shards" is for tars; other sources shuffle samples: shuffle=True')
    if spec.by_groups and source.shuffles != "groups":
        raise InvalidArgumentError('Loader: shuffle="groups" is for tables in Parquet files; other sources shuffle samples: shuffle=True')


def _spaced(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _transforms(images: Listed | Arrays | None, transforms: Any) -> list[Transform]:
    own = images.transform if images is not None else None
    if own is not None and transforms is not None:
        raise InvalidArgumentError("Loader: the dataset has a transform, and transforms= gives another: leave one of them out")
    return flatten(own, pil=True) if transforms is None else flatten(transforms)


def _taken_transforms(transforms: Any, given: dict[str, Any]) -> list[TakenTransforms]:
    """Returns what the Loader has read of the arguments transforms and views. transforms: those of images, without those of sounds."""
    of_sounds, views = given["transforms"] if has_sound(given["fields"]) else None, given["views"]
    return [
        TakenTransforms("transforms", lambda: flatten(transforms) if of_sounds is None else of_sounds),
        TakenTransforms("views", lambda: None if views is None else _views(views, [])),
    ]


_MOST_VIEWS = 1024


def _recipes(views: list[list[Transform]], dtype: Any, memory_format: Any, floats: bool) -> list[Recipe]:
    return [Recipe.of(view, _options.dtype_of(dtype), _options.channels_last_of(memory_format), floats) for view in views]


def _views(views: Any, transforms: list[Transform]) -> list[list[Transform]]:
    """Returns the transforms of each view; without the argument `views` there is one. Raises InvalidArgumentError if `views` has a wrong form."""
    if views is None:
        return [transforms]
    if transforms:
        raise InvalidArgumentError("Loader: views bring their transforms: leave transforms out, the data set's own too")
    pairs = [
        tuple(pair) if isinstance(pair, (tuple, list)) else (None, None) for pair in (views if isinstance(views, (tuple, list)) else ())
    ]
    if not pairs or any(len(pair) != 2 or not hasattr(pair[0], "__index__") for pair in pairs):
        raise InvalidArgumentError(
            f"Loader: views is a list of (count, transforms), as [(2, global_crops), (6, local_crops)], not {views!r}"
        )
    counts = [_numbers.whole("Loader: the count of a view", count, 1) for count, _ in pairs]
    if sum(counts) > _MOST_VIEWS:
        raise InvalidArgumentError(f"Loader: views are at most {_MOST_VIEWS} in all, not {sum(counts)}")
    return [flatten(given) for count, (_, given) in zip(counts, pairs, strict=True) for _ in range(count)]


def _names_of(fields: Any) -> tuple[str, ...] | None:
    """Returns what _fields.names_of does, and () for empty fields: the user wants only what padding or the sounds of clips add."""
    return () if fields is not None and not fields else _fields.names_of(fields)


def _refuse_loaders(source: Any) -> None:
    """Raises InvalidArgumentError for a Loader, and for a DataLoader that gives batches: a batch of gray images would be taken for one image. A DataLoader with
    batch_size=None gives samples."""
    data = sys.modules.get("torch.utils.data")  # a user who has a DataLoader has imported it
    if isinstance(source, Loader):
        raise InvalidArgumentError("Loader: the source is a Loader already: use it as it is, or Loader.mix to draw from several")
    if data is not None and isinstance(source, data.DataLoader) and source.batch_sampler is not None:
        raise InvalidArgumentError(
            f"Loader: the source is a {type(source).__name__}, which gives batches: give what it loads, as Loader(loader.dataset, batch_size, ...)"
        )


def _known_source(source: Any, split: str, storage: Any, arguments: DatasetArguments) -> tuple[Any, Listed | Arrays | None]:
    """Converts the user's source to one of Stoker's types if it is a Parquet table, tars or a data set of Hugging Face's `datasets`; returns other sources
    unchanged. Also returns the files or arrays of a source whose samples can be made without its Python code, else None. Raises an error for objects that
    cannot be a source, and for sources that need another argument: Loaders, DataLoaders, classes, DataFrames, CSV files, dicts, and paths that begin with
    "~"."""
    if (hasattr(source, "columns") and hasattr(source, "iloc")) or (
        isinstance(source, (str, os.PathLike)) and os.fspath(source).endswith(".csv")
    ):
        raise table_error(source)
    if isinstance(source, type):
        raise InvalidArgumentError(f"Loader: the source is the class {source.__name__}: give an object of it, {source.__name__}(...)")
    source = listed(source)
    _refuse_loaders(source)
    if isinstance(source, (bytes, bytearray)):
        raise InvalidArgumentError(f"Loader: a path is a str or a Path, not {type(source).__name__}: os.fsdecode(path) makes a str of it")
    if isinstance(source, str) and not source:
        raise InvalidArgumentError("Loader: the source is an empty text; give the path of a folder")
    if isinstance(source, (str, os.PathLike)) and os.fsdecode(source).startswith("~") and not os.path.lexists(source):
        raise MissingFileError(
            f"Loader: {source}: there is no such folder; only a shell replaces ~ by the home folder: os.path.expanduser({os.fsdecode(source)!r}) does it here"
        )
    if isinstance(source, Mapping) and not hasattr(source, "num_rows"):
        raise InvalidArgumentError(
            f"Loader: a {type(source).__name__} holds data sets or columns, and no samples: give one of them ({', '.join(map(str, source))}), or (X, y)"
        )
    sound = arguments.main if arguments.sound is not None else None
    tables = tables_of(source)
    if tables is not None:
        source = Table(tables, storage, arguments.names, arguments.kinds, sound=sound, main=arguments.main, padded=bool(arguments.padded))
    if isinstance(source, Table):
        if arguments.sound is not None and arguments.sound.audio.rate is None:
            arguments.sound.take_rate(source.rate)
        if arguments.sound is not None:
            for file, feature in source.features_in_files(source.image):
                given = (feature.get("num_channels"), feature.get("stream_index")) if feature.get("_type") == "Audio" else (None, None)
                arguments.sound.check_feature(source.image, *given, loaded(file))
        return source, None
    tars = tars_of(source)
    if tars is not None:
        return TarSource(tars, storage=storage), None
    if isinstance(source, (str, os.PathLike)):
        return source, in_folder(Path(source), split)
    if isinstance(source, tuple) and len(source) in (1, 2) and getattr(source[0], "ndim", 1) > 1:
        return source, Arrays.of(source[0], source[1] if len(source) == 2 else None, layout=arguments.layout)
    if isinstance(source, Source):
        return source, None
    source = whole_of(source)
    if is_hub(source) and not is_stream(source):
        source = table_of(source, arguments.names, arguments.kinds, sound, arguments.main)
        if isinstance(source, HubTable):
            _take_sound(source, arguments)
    return source, known(source) if sound is None else None


def _take_sound(rows: HubTable | HubStream, arguments: DatasetArguments) -> None:
    """Takes the rate of the sounds from their feature, which must fit the user's Audio. Does nothing if the rows have no sounds."""
    if arguments.sound is not None:
        arguments.sound.take_rate(rows.rows.rate)
        arguments.sound.check_feature(rows.column, *rows.rows.sound, "table")


def _open_source(source: Any, found: Listed | Arrays | None, split: str, arguments: DatasetArguments) -> Source:
    if isinstance(found, Arrays):
        named, given = isinstance(source, (str, os.PathLike)), isinstance(source, tuple)
        name = os.fspath(source) if named else "arrays" if given else type(source).__name__
        return ArraySource(found, arguments, name, None if given or named else source, given)
    if isinstance(source, Source):
        return source
    if isinstance(source, Table):
        return TableSource(source, arguments)
    if found is not None:
        return from_list(found.samples)
    if isinstance(source, (str, os.PathLike)):
        return from_folder(os.fspath(source), split)
    if isinstance(source, list) and source and isinstance(source[0], (tuple, list, dict)) and several(arguments.kinds):
        return DatasetSource(source, arguments)
    if isinstance(source, (list, tuple)):
        return from_list(source)
    if is_hub(source) and is_stream(source):
        sound = arguments.main if arguments.sound is not None else None
        # The first sample shows whether rows without features have entries that a sound would replace.
        names = arguments.names and (*arguments.names, *arguments.made)
        rows = HubStream(source, names, arguments.kinds, sound, arguments.main)
        _take_sound(rows, arguments)
        return StreamSource(rows, arguments, unchanging=True)
    if not is_stream(source) and hasattr(source, "__len__"):
        opened = DatasetSource(source, arguments)
        opened.many = opened.unchanging = isinstance(source, HubTable)
        return opened
    if is_stream(source) and hasattr(source, "__iter__"):
        return StreamSource(source, arguments)
    raise InvalidArgumentError(
        "Loader: the source is a folder, a list of (path, target), arrays (X, y), one of torchvision's or Hugging Face's data sets, a Dataset with "
        f"__getitem__ and __len__ or with __iter__, or a Pipeline, not {type(source).__name__}"
    )
