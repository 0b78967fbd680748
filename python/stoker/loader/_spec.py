# SPDX-License-Identifier: Apache-2.0
"""The checked arguments of a Loader: Spec, from which sources build graphs, and DatasetArguments, about the samples of a Dataset."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

from stoker import fn, types
from stoker._ranks import Shard
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError, UnsupportedError
from stoker.loader import _fields
from stoker.loader._kinds import Kind
from stoker.loader.lower import Followers, Image, Recipe, refuse_other_kind

TAILS = {"drop": "drop", "keep": "keep", "pad": "fill"}


@dataclass
class Spec:
    """The settings of a Loader's order, batches and images. Its methods add the operators that all sources share."""

    batch: int
    shard: Shard
    shuffle: bool
    seed: int
    last_batch: str
    views: list[Recipe]  # one recipe for each view of an image; each view draws its own random numbers
    orientation: bool
    settings: dict[str, Any] = field(default_factory=dict)  # arguments of the Pipeline
    by_groups: bool = False  # shuffle="groups": shuffles a table's row groups, then the rows of a few groups at a time
    by_shards: bool = False  # shuffle="shards": shuffles tars instead of single samples
    floats: bool = False  # whether the image is a map of floats
    batches: bool = False  # whether a batch_sampler gives the batches, whose sizes may differ
    pad: dict[str, float] | None = None  # the value with which each kind of field is padded; None: batches are not padded
    size: DataNode | None = None  # height and width of a sample's image before padding; set by `finished`
    padded_kinds: list[tuple[DataNode, str]] = field(
        default_factory=list
    )  # nodes that `padded` made for the latest graph, with their kinds
    video: Any = None  # loader.sources._videos.Video if samples have clips instead of images
    sound: Any = None  # loader.sources._sounds.Sounds if samples have sounds, with clips or instead of images
    taken: list[Any] = field(
        default_factory=list
    )  # records of the objects that were read when the Loader was made; check() of a record notices changes
    as_given: bool = False  # whether no argument changes images; arrays and tensors of uint8 then remain uint8

    @property
    def images(self) -> int:
        """Returns the number of images that all views together make of one image."""
        return sum(view.images for view in self.views)

    @property
    def moves(self) -> bool:
        """Returns whether a view may move pixels."""
        return any(view.moves for view in self.views)

    @property
    def in_python(self) -> bool:
        """Returns whether a view calls a function of the user, which must run only in epochs that the consumer has begun: the user may change it before."""
        return any(view.in_python for view in self.views)

    @property
    def counts_channels(self) -> bool:
        """Returns whether all images must have the same number of channels as the first one."""
        return any(view.counts_channels for view in self.views)

    def check_taken(self) -> None:
        """Raises StateError if the user has changed an object that was read, or compiled, when the Loader was made."""
        for taken in self.taken:
            taken.check()

    def keep_bytes(self) -> None:
        """Replaces the recipe of each view by one without transforms, which keeps images as uint8."""
        self.views = [Recipe.of([], types.UINT8, view.channels_last) for view in self.views]

    def finished(self, image: Image) -> list[DataNode]:
        """Applies the transforms. Returns the nodes of the image's views, if there is an image, then those of the sound. The first node is the graph's first
        output; the others are its last outputs."""
        sound: list[DataNode] = [] if image.sound is None else self.sound.finished(image.sound, self)
        if sound and not image.clip:
            return sound
        if image.followers is not None and self.images > 1:
            raise UnsupportedError(
                "Loader: views of an image that masks, boxes, points or further images follow are not in Stoker yet: give them to Loaders of their own"
            )
        made = [node for view in self.views for node in view.apply(image)]
        if self.pad is None:
            return made + sound
        shape, first = made[0].shape(dtype=types.INT64), (0 if self.views[0].channels_last else 1) + image.clip
        self.size = self.upload(shape[first : first + 2])
        return [self.padded(node, "Image") for node in made] + sound

    def padded(self, node: DataNode, kind: str) -> DataNode:
        """Pads a field's node to the largest height and width in the batch, if batches are padded. kind: the field's kind, a key of `pad`."""
        if self.pad is None:
            return node
        made: DataNode = fn.pad(node, axis_names="HW", fill_value=self.pad[kind])
        self.padded_kinds.append((made, kind))
        return made

    @property
    def gpu(self) -> bool:
        return self.settings.get("device_id") is not None

    @property
    def bad_may_pass(self) -> bool:
        """Returns whether bad samples are left out or replaced, instead of ending the run."""
        return self.settings.get("on_error", "raise") != "raise"

    def decode(self, data: DataNode, floats: bool = False) -> DataNode:
        """Decodes whole images from the bytes of files. floats: the result is float32, with all channels and the unscaled values of the file."""
        kept: dict[str, Any] = {"dtype": types.FLOAT, "output_type": types.ANY_DATA, "values": "kept"}
        how = kept if floats else {"values": "pictures"}
        image: DataNode = fn.decoders.image(data, device="mixed" if self.gpu else "cpu", adjust_orientation=self.orientation, **how)
        return image

    def image(self, data: DataNode, followers: Followers | None = None) -> Image:
        """Decodes the main image of a sample, or the clip or the sound that samples have instead. followers: the fields that move with the image. Raises
        UnsupportedError if a clip has followers."""
        if self.video is not None:
            if followers is not None:
                raise UnsupportedError(
                    "Loader: masks, boxes, points and further images do not follow clips of videos: name their kind None"
                )
            for view in self.views:
                if view.images_only is not None:
                    raise InvalidArgumentError(f"{view.images_only!r}: for clips of videos, give one type or fill in place of a dict")
            made: Image = self.video.image(self, data)
            return made
        if self.sound is not None:
            sound = self.sound.decoded(data)
            return Image(sound.node, None, sound=sound)
        for view in self.views:
            refuse_other_kind(view, "PIL")
        return Image(self.decode(data, self.floats), None, followers, self.floats)

    def upload(self, node: DataNode) -> DataNode:
        """Copies a node's data from the CPU to the GPU if the batch will be on the GPU."""
        return node.gpu() if self.gpu else node

    def label(self, node: DataNode) -> DataNode:
        """Moves a label to the device of the batch. On a GPU it becomes int64, which torch's cross_entropy expects."""
        return fn.cast(node, dtype=types.INT64).gpu() if self.gpu else node

    def reader_arguments(self, indices: array[int] | None, per_rank: bool) -> dict[str, Any]:
        """Returns the arguments that all readers share. indices: the user's order of samples, or None. per_rank: whether it is the order of this rank only."""
        args: dict[str, Any] = {
            "random_shuffle": self.shuffle,
            "shuffle_seed": self.seed,
            "tail": TAILS[self.last_batch],
            "num_shards": 1 if per_rank else self.shard.world,
            "shard_id": 0 if per_rank else self.shard.rank,
            "name": "Reader",
        }
        if indices is not None:
            args["indices"] = indices
        return args

    def has_step(self, samples: int, consumed: int, per_rank: bool) -> bool:
        """Returns whether an epoch has another step after `consumed` of its samples. per_rank: whether both numbers count only the samples of this rank."""
        together = self.batch * (1 if per_rank else self.shard.world)
        return consumed + together <= samples if self.last_batch == "drop" else consumed < samples

    def steps(self, samples: int, per_rank: bool = False) -> int:
        """Returns the number of batches in an epoch, the same for all ranks. per_rank: whether `samples` counts only the samples of this rank."""
        together = self.batch * (1 if per_rank else self.shard.world)
        return samples // together if self.last_batch == "drop" else -(-samples // together)


@dataclass
class DatasetArguments:
    """The user's arguments about a Dataset's samples and about fetching them."""

    names: tuple[str, ...] | None = None
    kinds: dict[str, Kind] | None = None
    ragged: tuple[str, ...] = ()
    python_workers: int = 0
    context: Any = None  # the context of multiprocessing for python_workers; None without such processes
    layout: str | None = None  # "HWC" or "CHW", for images that are arrays or tensors
    main: str = "image"  # the user's name of the field of images; `names` and `kinds` call it "image"
    place: int = 0  # if samples are tuples: the index of the image in the tuple
    sound: Any = None  # loader.sources._sounds.Sounds if samples have sounds instead of images
    made: tuple[str, ...] = ()  # the user's fields that the sound makes, such as "rate"; samples may not have entries of these names
    plain: bool = False  # whether samples hold no image; `main` then names the first of their parts
    padded: tuple[str, ...] = ()  # the user's fields that padding adds, such as "size"; samples may not have entries of these names
    pad: float | None = None  # lists of numbers of samples without an image are padded with this number; None: they are not padded

    def of_columns(self, first: str, pad: float | None) -> None:
        """Records that samples have no image, so that the column `first` is their first part. pad: see the attribute."""
        self.plain, self.main, self.pad = True, first, pad
        self.names = _fields.internal(self.names, first)
        self.kinds = None if self.kinds is None else {"image" if name == first else name: kind for name, kind in self.kinds.items()}
        self.ragged = tuple("image" if name == first else name for name in self.ragged)
