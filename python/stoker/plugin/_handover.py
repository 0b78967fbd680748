# SPDX-License-Identifier: Apache-2.0
"""Makes torch tensors from batches. This runs for every batch of a training loop, so values that do not change are computed only once."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils.dlpack

from stoker import _core

# Ways to describe the axes of an output. The values are those of enum core_view in the C module.
AS_IT_LIES, CHANNELS_FIRST, NUMBERS = range(3)

# The function that torch.from_dlpack calls for a capsule. A direct call is faster, because from_dlpack first raises and drops an AttributeError.
_from_capsule: Any = getattr(torch._C, "_from_dlpack", torch.utils.dlpack.from_dlpack)


class Handover:
    """Makes torch tensors over the memory of batches. Tensors on a GPU are ready for work on the stream that is current on that GPU.

    views: the axes of each output. AS_IT_LIES: as in memory; CHANNELS_FIRST: images of shape (N,H,W,C) become (N,C,H,W), torch's channels_last format; NUMBERS:
    samples that are one number each become a vector. batch: any batch of the pipeline, which determines the device of the
    outputs.
    """

    def __init__(self, views: list[int], batch: _core.Batch) -> None:
        self._views = bytes(views)
        self._device = max((batch.describe(i)[5] for i in range(len(views))), default=-1)
        self._stream: Any = None
        if self._device >= 0:
            torch.cuda.current_stream(self._device)  # initialises torch's CUDA, or raises an error without it
            # A function that returns the number of the current stream without making a stream object.
            self._stream = getattr(torch._C, "_cuda_getCurrentRawStream", _current_stream)

    def tensors(self, batch: _core.Batch) -> list[torch.Tensor | None]:
        """Returns a tensor for each output; None for an output whose samples differ in shape, or if the batch is empty."""
        # The legacy default stream is 1 in DLPack, and 0 in torch.
        stream = 0 if self._stream is None else self._stream(self._device) or 1
        capsules = batch.capsules(self._views, stream)
        if None in capsules:
            return [None if capsule is None else _from_capsule(capsule) for capsule in capsules]
        return list(map(_from_capsule, capsules))


def _current_stream(device: int) -> int:
    return int(torch.cuda.current_stream(device).cuda_stream)
