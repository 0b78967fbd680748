# SPDX-License-Identifier: Apache-2.0
"""What a Loader was asked for, in the form that sources build graphs from."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

from stoker import fn, types
from stoker._ranks import Shard
from stoker.data_node import DataNode
from stoker.errors import UnsupportedError
from stoker.loader._lower import Image, Recipe

TAILS = {"drop": "drop", "keep": "keep", "pad": "fill"}


@dataclass
class Spec:
    """Everything about order, batches and images."""

    batch: int
    shard: Shard
    shuffle: bool
    seed: int
    last_batch: str
    views: list[Recipe]  # what is made of each image; of several, each draws for itself
    orientation: bool
    settings: dict[str, Any] = field(default_factory=dict)  # of the Pipeline
    by_shards: bool = False  # stretches of neighbouring samples are shuffled, not samples

    @property
    def images(self) -> int:
        """How many are made of one."""
        return sum(view.images for view in self.views)

    @property
    def moves(self) -> bool:
        """Whether a pixel may end up somewhere else."""
        return any(view.moves for view in self.views)

    @property
    def counts_channels(self) -> bool:
        """Whether all images have to have as many channels as the first one."""
        return any(view.counts_channels for view in self.views)

    def finished(self, image: Image) -> list[DataNode]:
        """Its views. Among the outputs the first one comes first, and the others behind all else."""
        if image.followers is not None and self.images > 1:
            raise UnsupportedError(
                "Loader: views of an image that masks, boxes or points follow are not in Stoker yet: give them to Loaders of their own"
            )
        return [node for view in self.views for node in view.apply(image)]

    @property
    def gpu(self) -> bool:
        """Whether images are made on a GPU."""
        return self.settings.get("device_id") is not None

    def decode(self, data: DataNode) -> DataNode:
        """Whole images from the bytes of files."""
        image: DataNode = fn.decoders.image(data, device="mixed" if self.gpu else "cpu", adjust_orientation=self.orientation)
        return image

    def upload(self, node: DataNode) -> DataNode:
        """What the cores made, moved to where the batch will be."""
        return node.gpu() if self.gpu else node

    def label(self, node: DataNode) -> DataNode:
        """A label where the batch will be; on a GPU of the type that torch's cross_entropy wants, so that no kernel has to convert it."""
        return fn.cast(node, dtype=types.INT64).gpu() if self.gpu else node

    def reader_arguments(self, indices: array[int] | None, per_rank: bool) -> dict[str, Any]:
        """Arguments that all readers share."""
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

    def steps(self, samples: int, per_rank: bool = False) -> int:
        """Batches of an epoch, the same for all ranks."""
        together = self.batch * (1 if per_rank else self.shard.world)
        return samples // together if self.last_batch == "drop" else -(-samples // together)
