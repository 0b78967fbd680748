# SPDX-License-Identifier: Apache-2.0
"""The pipeline that makes the images of one epoch's batches."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from stoker import fn, types
from stoker._sources import FedSource
from stoker.data_node import DataNode
from stoker.loader.lower import Image, Recipe
from stoker.pipeline import Pipeline

if TYPE_CHECKING:
    import torch


class Machine:
    """Makes the images of batches from their files or arrays. Only the thread of the training loop calls it.

    files: whether the images are given as paths of files; otherwise as arrays (H, W, C) with `channels` channels. batch: the most images that one batch has.
    seed: the random draws for an image depend on the seed and on the image's position in the epoch. first: index in the epoch of the batch that is fed first.
    """

    def __init__(self, recipe: Recipe, files: bool, channels: int, batch: int, seed: int, first: int, settings: dict[str, Any]) -> None:
        self.batch = batch
        self._files = files
        self._pipe = Pipeline(batch, seed=seed, device_id=None, enable_conditionals=True, **settings)
        with self._pipe:
            self._pipe.set_outputs(*_graph(recipe, files, channels))
        self._pipe.build()
        self._session = self._pipe._started()
        if first:
            self._session.restore({**self._session.state(), "consumed": first * batch})
        self.next = first  # index in the epoch of the batch that feed() takes next
        self._fed: FedSource = self._session._fed[0][1]
        self._handover: Any = None

    def feed(self, sources: Sequence[Any]) -> None:
        import numpy as np

        items = (
            [np.frombuffer(os.fsencode(path), np.uint8) for path in sources] if self._files else [np.ascontiguousarray(a) for a in sources]
        )
        self.next += 1
        self._fed._put(([items], self._fed.layouts))

    def take(self) -> torch.Tensor | list[torch.Tensor]:
        """Returns the images of the oldest batch that was fed: one tensor, or a list with a tensor for each image if their shapes differ. Raises a StokerError
        if an image failed or the timeout has passed."""
        from stoker.plugin._handover import AS_IT_LIES, Handover
        from stoker.tensors import tensor_list

        batch = self._session.next()
        assert batch is not None
        if self._handover is None:
            self._handover = Handover([AS_IT_LIES], batch)
        (dense,) = self._handover.tensors(batch)
        if dense is not None:
            made: torch.Tensor = dense
            return made
        from torch.utils.dlpack import from_dlpack

        return [from_dlpack(image) for image in tensor_list(batch, 0)]

    def explain(self) -> str:
        return str(self._pipe.explain())

    def close(self) -> None:
        self._pipe.close()


def _graph(recipe: Recipe, files: bool, channels: int) -> list[Any]:
    if files:
        name = fn.external_source(name="files", blocking=True, dtype=types.UINT8, ndim=1, no_copy=True)
        image = Image(fn.decoders.image(fn.io.file.read(name), device="cpu"), None)
    else:
        pixels = fn.external_source(name="images", blocking=True, dtype=types.UINT8, layout="HWC", no_copy=True)
        assert isinstance(pixels, DataNode)
        image = Image(pixels, None, gray=channels == 1, channels=channels)
    return recipe.apply(image)
