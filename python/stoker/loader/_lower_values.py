# SPDX-License-Identifier: Apache-2.0
"""Compiles the user's functions and the transforms that change values. A gate is a node that is 1 for samples to which the transform is applied, else 0; or the
number 1, or None, if it is applied to all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker import fn, types
from stoker import transforms as T
from stoker._where import notice
from stoker.data_node import DataNode
from stoker.loader._changes import SerializedCalls
from stoker.loader._random import random_numbers

Gate = Any  # a node that is 0 or 1 for each sample, or the number 1


def grayscale(node: DataNode, channels: int, gate: Gate) -> DataNode:
    if channels == 1:
        gray: DataNode = fn.color_space_conversion(node, image_type=types.RGB, output_type=types.GRAY)
        return gray
    luma: DataNode = fn.color_twist(node, saturation=1.0 - gate * 1.0)
    return luma


def invert(node: DataNode, gate: Gate) -> DataNode:
    return _as_bytes(node + gate * (255 - 2 * _wide(node)))


def solarize(node: DataNode, threshold: float, gate: Gate) -> DataNode:
    above = fn.cast(node >= threshold, dtype=types.INT32)
    return _as_bytes(node + gate * above * (255 - 2 * _wide(node)))


def invert_floats(node: DataNode, gate: Gate, threshold: float | None) -> DataNode:
    """Replaces floats on the scale 0..1 by 1 - value; with a threshold, only floats that are at least the threshold."""
    chosen = gate if threshold is None else gate * fn.cast(node >= threshold, dtype=types.INT32)
    inverted: DataNode = node + chosen * (1.0 - 2.0 * node)
    return inverted


def posterize(node: DataNode, bits: int, gate: Gate) -> DataNode:
    dropped = (1 << (8 - bits)) - 1
    return _as_bytes(node - gate * (_wide(node) & dropped))


def _wide(node: DataNode) -> DataNode:
    wide: DataNode = fn.cast(node, dtype=types.INT32)
    return wide


def _as_bytes(node: DataNode) -> DataNode:
    narrow: DataNode = fn.cast(node, dtype=types.UINT8)
    return narrow


def blur(node: DataNode, t: T.GaussianBlur, gate: DataNode | None) -> DataNode:
    """Blurs the image. gate: a node; if it is 0, the window is one pixel, which changes nothing. None: the image is always blurred."""
    width, height = t.kernel_size  # torchvision's order
    sigma = fn.random.uniform(range=list(t.sigma)) if t.sigma[0] < t.sigma[1] else t.sigma[0]
    window: Any = [height, width] if gate is None else fn.stack(1 + gate * (height - 1), 1 + gate * (width - 1))
    blurred: DataNode = fn.gaussian_blur(node, sigma=sigma, window_size=window)
    return blurred


def erase(node: DataNode, t: T.RandomErasing, extent: tuple[Any, Any], gate: Gate) -> DataNode:
    """Replaces a random window by t.value (t.noise is None), by random pixels ("values"), or by one random color (any other t.noise). If the gate is 0, the
    window is empty. extent: the image's height and width. t.ratio is height / width, as in torchvision; fn.random_crop_generator takes width / height."""
    size = types.Constant(list(extent), dtype=types.INT32) if isinstance(extent[0], int) else fn.stack(*extent)
    low, high = t.ratio
    anchor, shape = fn.random_crop_generator(size, random_area=list(t.scale), random_aspect_ratio=[1 / high, 1 / low])
    where: dict[str, Any] = {"anchor": anchor, "shape": shape * gate}
    if t.noise == "values":
        noisy: DataNode = fn.erase_noise(node, axis_names="HW", **where)
        return noisy
    fill = [v * t.unit for v in t.value] if t.noise is None else fn.random.normal(shape=[3])
    erased: DataNode = fn.cutout(node, fill_value=fill, **where)
    return erased


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
    """Calls the user's function in Python, for samples whose gate is not 0. sample_rng() in the function has the sample's own random numbers."""
    name = name_of(t.lambd)
    notice_python_transform(name)
    more = () if gate is None else (gate,)
    made: DataNode = fn.python_function(node.cpu(), seeds(), *more, function=_Call(t.lambd, t.takes, name), output_layouts="HWC")
    return made.gpu() if node.device == "gpu" else made


class _Call:
    """Wraps the user's function so that it takes and returns an array. takes: the form of image that the function gets, see Lambda.takes. While it
    runs, sample_rng() is seeded from `seeds`. If the gate is 0, the image is returned unchanged."""

    def __init__(self, function: Callable[[Any], Any], takes: str, name: str) -> None:
        self.function, self.takes, self.name = SerializedCalls(function, name), takes, name

    def __call__(self, image: Any, seeds: Any, gate: Any = 1) -> Any:
        if not int(gate):
            return image
        with random_numbers((int(seeds[0]), int(seeds[1]))):
            return self._array(self.function(self._given(image)))

    def _given(self, image: Any) -> Any:
        if self.takes == "tensor":
            import torch

            return torch.from_numpy(image).permute(2, 0, 1)
        if self.takes == "PIL":
            from PIL import Image

            return Image.fromarray(image if image.shape[2] > 1 else image[..., 0])
        return image

    def _array(self, made: Any) -> Any:
        import numpy as np

        if isinstance(made, (list, tuple)):
            raise TypeError(
                f"the transform {self.name} gave {len(made)} values for one image: views=[(2, transforms)] makes two views of each image, and leaves this one out"
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
                f"the transform {self.name} gave {what}: it returns an image as it got it, uint8 (H, W, C). Types and normalisation are ToDtype's and Normalize's"
            )
        return np.ascontiguousarray(array)
