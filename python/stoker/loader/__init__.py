# SPDX-License-Identifier: Apache-2.0
"""stoker.Loader: the short way from a folder of images to batches of tensors."""

from stoker.loader._batch import Batch
from stoker.loader._random import sample_rng
from stoker.loader._videos import Video
from stoker.loader.loader import Loader

__all__ = ["Batch", "Loader", "Video", "sample_rng"]
