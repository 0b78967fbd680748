# SPDX-License-Identifier: Apache-2.0
"""Runs the tail of a list of transforms in Python, on the finished image as a tensor. The tail begins with a function that receives tensors, or with Normalize
after an erasing with noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stoker import fn, types
from stoker import transforms as T
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError
from stoker.loader._changes import SerializedCalls
from stoker.loader._random import random_numbers
from stoker.loader.lower._functions import name_of, notice_python_transform, seeds


@dataclass
class Tail:
    """A function from a tensor (C, H, W) to a tensor (C, H, W), and its name in messages."""

    function: Callable[[Any], Any]
    name: str


def own_function(t: T.Transform) -> Tail:
    """Returns a Tail with torchvision's transform, from which t was translated. Raises InvalidArgumentError for Stoker's own transforms."""
    own = getattr(t, "_own", None)
    if own is not None:
        return Tail(own, name_of(own))
    raise InvalidArgumentError(
        f"{t!r} would run in Python, because it is or follows a function that gets tensors. Only torchvision's transforms run there, and "
        "not Stoker's own: put it before the function and before ToTensor, or do the function's work on the batch (collate_fn)"
    )


class Normalized:
    """Subtracts the mean of each channel from a tensor (C, H, W), and divides by the channel's deviation."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean, self.std = mean, std

    def __call__(self, image: Any) -> Any:
        mean, std = (image.new_tensor(list(v)).reshape(-1, 1, 1) for v in (self.mean, self.std))
        return (image - mean) / std


def asks_kind(tail: Sequence[Tail]) -> bool:
    """Returns whether a function of the tail is a transform of torchvision's v2, which may do something else with plain tensors than with images of
    tv_tensors: it may hold a Lambda with types."""
    return any(type(part.function).__module__.startswith("torchvision.transforms.v2.") for part in tail)


def call(
    node: DataNode, tail: Sequence[Tail], channels_last: bool, half: bool, tv_image: bool, dtype: types.DALIDataType | None
) -> DataNode:
    """Adds an operator that calls the functions of the tail, and returns its node. half: the functions get bfloat16. tv_image: they get images of tv_tensors.
    dtype: the type to which the result is converted; None: the type that the last function returns, or float32 for bfloat16."""
    for part in tail:
        notice_python_transform(part.name)
    layout = "HWC" if channels_last else "CHW"
    made: DataNode = fn.python_function(node.cpu(), seeds(), function=_Call(tail, channels_last, half, tv_image), output_layouts=layout)
    made = made if dtype is None else fn.cast(made, dtype=dtype)
    return made.gpu() if node.device == "gpu" else made


class _Call:
    """Calls the functions of a tail in order, for an image that is an array."""

    def __init__(self, tail: Sequence[Tail], channels_last: bool, half: bool, tv_image: bool) -> None:
        self.tail, self.channels_last, self.half, self.tv_image = tail, channels_last, half, tv_image
        self._functions = [SerializedCalls(part.function, part.name) for part in tail]

    def __call__(self, image: Any, seeds: Any) -> Any:
        import numpy as np
        import torch

        tensor = torch.from_numpy(np.array(image))
        made: Any = tensor.permute(2, 0, 1) if self.channels_last else tensor
        made = made.bfloat16() if self.half else made
        if self.tv_image:
            from torchvision import tv_tensors

            made = tv_tensors.Image(made)
        with random_numbers((int(seeds[0]), int(seeds[1]))):
            for function in self._functions:
                made = function(made)
        if isinstance(made, (list, tuple)):
            raise TypeError(
                f"the transform {self.tail[-1].name} gave {len(made)} values for one image: views=[(2, transforms)] makes two views of each image"
            )
        if not isinstance(made, torch.Tensor) or made.ndim != 3:
            what = f"a tensor of the shape {tuple(made.shape)}" if isinstance(made, torch.Tensor) else type(made).__name__
            raise TypeError(
                f"the transform {self.tail[-1].name} gave {what}: it returns a tensor (C, H, W). Do other work on the batch (collate_fn)"
            )
        made = made.float() if made.dtype == torch.bfloat16 else made
        return np.ascontiguousarray((made.permute(1, 2, 0) if self.channels_last else made).detach().numpy())
