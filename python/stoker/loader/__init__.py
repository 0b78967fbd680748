# SPDX-License-Identifier: Apache-2.0
"""stoker.Loader: reads a data set, applies transforms and returns batches of tensors, without an explicit pipeline."""

from stoker.loader._random import sample_rng
from stoker.loader.batches._batch import Batch
from stoker.loader.loader import Loader
from stoker.loader.sources._videos import Video

__all__ = ["Batch", "Loader", "Video", "sample_rng"]
