# SPDX-License-Identifier: Apache-2.0
"""Calls the user's functions in Python, one image at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker import fn
from stoker import transforms as T
from stoker._where import notice
from stoker.data_node import DataNode
from stoker.loader._changes import SerializedCalls
from stoker.loader._random import random_numbers


def name_of(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__name__


def notice_python_transform(name: str) -> None:
    notice(
        f"the transform {name} runs in Python, one sample at a time under the GIL; the other transforms run in C. What it draws from global generators differs "
        "from run to run; stoker.sample_rng() repeats"
    )


def seeds() -> DataNode:
    drawn: DataNode = fn.random.uniform(range=[0.0, float(1 << 24)], shape=[2])
    return drawn


def call(node: DataNode, t: T.Lambda, gate: DataNode | None) -> DataNode:
    """Calls the user's function in Python, for samples whose gate is not 0. In the function, sample_rng() returns a generator that is seeded for the sample."""
    name = name_of(t.lambd)
    notice_python_transform(name)
    more = () if gate is None else (gate,)
    made: DataNode = fn.python_function(node.cpu(), seeds(), *more, function=_Call(t.lambd, t.takes, name), output_layouts="HWC")
    return made.gpu() if node.device == "gpu" else made


class _Call:
    """Wraps the user's function so that it takes and returns an array. takes: the form of image that the function gets, see Lambda.takes. While the
    function runs, sample_rng() is seeded from `seeds`. If the gate is 0, the image is returned unchanged."""

    def __init__(self, function: Callable[..., Any], takes: str, name: str) -> None:
        called = (lambda image: function(image=image)["image"]) if takes == "keyword" else function
        self.function, self.takes, self.name = SerializedCalls(called, name), takes, name

    def __call__(self, image: Any, seeds: Any, gate: Any = 1) -> Any:
        if not int(gate):
            return image
        with random_numbers((int(seeds[0]), int(seeds[1]))):
            return self._array(self.function(self._given(image)))

    def _given(self, image: Any) -> Any:
        if self.takes == "tensor":
            import torch

            return torch.from_numpy(image).permute(2, 0, 1).contiguous()  # as ToTensor gives it; modules may call view()
        if self.takes == "PIL":
            from PIL import Image

            return Image.fromarray(image if image.shape[2] > 1 else image[..., 0])
        return image

    def _array(self, made: Any) -> Any:
        import numpy as np

        if isinstance(made, (list, tuple)):
            raise TypeError(
                f"the transform {self.name} gave {len(made)} values for one image: views=[(2, transforms)] makes two views of each image, and leaves "
                "this one out"
            )
        planes = type(made).__module__.startswith(("torch", "torchvision")) and hasattr(made, "permute")
        array = np.asarray(made.permute(1, 2, 0) if planes and made.ndim == 3 else made)
        array = array[..., None] if array.ndim == 2 else array
        if array.ndim == 3 and array.shape[2] > 4 and array.shape[0] <= 4:
            raise TypeError(
                f"the transform {self.name} gave an array of the shape {array.shape}, channels first: it returns (H, W, C), as array.transpose(1, 2, 0) is"
            )
        if array.dtype != np.uint8 or array.ndim != 3:
            what = f"{array.dtype} of the shape {array.shape}" if hasattr(made, "shape") or hasattr(made, "size") else type(made).__name__
            raise TypeError(
                f"the transform {self.name} gave {what}: it returns an image as it got it, uint8 (H, W, C). Types and normalisation are ToDtype's and "
                "Normalize's"
            )
        return np.ascontiguousarray(array)
