# SPDX-License-Identifier: Apache-2.0
"""Transforms as operators of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stoker import fn, types
from stoker import transforms as T
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError, UnsupportedError

FLOATS = (types.FLOAT, types.FLOAT16, types.BFLOAT16)


@dataclass
class Image:
    """An image on its way through the graph (HWC, uint8), and what is known of its height and width."""

    node: DataNode
    extent: tuple[int, int] | None  # None: not known beforehand


def _random_resized_crop(image: Image, t: T.RandomResizedCrop) -> Image:
    draws: dict[str, Any] = {"random_area": list(t.scale), "random_aspect_ratio": list(t.ratio)}
    node = fn.random_resized_crop(image.node, size=list(t.size), interp_type=t.interpolation, antialias=t.antialias, border="drop", **draws)
    return Image(node, t.size)


def _resize(image: Image, t: T.Resize) -> Image:
    # As Pillow: just what there is becomes the output, whatever the exact scale would be, and nothing outside counts.
    filters: dict[str, Any] = {"interp_type": t.interpolation, "antialias": t.antialias, "border": "drop", "subpixel_scale": False}
    if isinstance(t.size, tuple):
        return Image(fn.resize(image.node, size=list(t.size), **filters), t.size)
    extent = None
    if image.extent is not None:
        h, w = image.extent
        extent = (h * t.size // min(h, w), w * t.size // min(h, w))
    return Image(fn.resize(image.node, resize_shorter=t.size, rounding="truncate", **filters), extent)


def _center_crop(image: Image, t: T.CenterCrop) -> Image:
    return Image(fn.crop(image.node, crop=list(t.size), rounding="even", out_of_bounds_policy="pad"), t.size)


def _random_crop(image: Image, t: T.RandomCrop) -> Image:
    left, top, right, bottom = t.padding
    if image.extent is not None:
        room = (image.extent[0] + top + bottom, image.extent[1] + left + right)
        if t.size[0] > room[0] or t.size[1] > room[1]:
            raise InvalidArgumentError(f"RandomCrop: {t.size} does not fit into images of {image.extent} with padding {t.padding}")
    fills = [float(f) for f in t.fill] if isinstance(t.fill, Sequence) else [float(t.fill)]
    return Image(fn.random_crop(image.node, size=list(t.size), padding=list(t.padding), fill_values=fills), t.size)


def _flip(image: Image, horizontal: Any, vertical: Any) -> Image:
    return Image(fn.flip(image.node, horizontal=horizontal, vertical=vertical), image.extent)


def _color_jitter(image: Image, t: T.ColorJitter) -> Image:
    def draw(pair: tuple[float, float] | None, factor: float = 1.0) -> Any:
        return None if pair is None else fn.random.uniform(range=[pair[0] * factor, pair[1] * factor])

    node = image.node
    # Each step rounds to uint8 by itself, as on PIL images.
    if t.brightness is not None:
        node = fn.brightness_contrast(node, brightness=draw(t.brightness))
    if t.contrast is not None:
        node = fn.brightness_contrast(node, contrast=draw(t.contrast), contrast_center=128.0)
    if t.saturation is not None:
        node = fn.saturation(node, saturation=draw(t.saturation))
    if t.hue is not None:
        node = fn.hue(node, hue=draw(t.hue, 360.0))
    return Image(node, image.extent)


def _apply(image: Image, t: T.Transform) -> Image:
    if isinstance(t, T.RandomResizedCrop):
        return _random_resized_crop(image, t)
    if isinstance(t, T.Resize):
        return _resize(image, t)
    if isinstance(t, T.CenterCrop):
        return _center_crop(image, t)
    if isinstance(t, T.RandomCrop):
        return _random_crop(image, t)
    if isinstance(t, T.RandomHorizontalFlip):
        return _flip(image, fn.random.coin_flip(probability=t.p), 0)
    if isinstance(t, T.RandomVerticalFlip):
        return _flip(image, 0, fn.random.coin_flip(probability=t.p))
    if isinstance(t, T.ColorJitter):
        return _color_jitter(image, t)
    raise UnsupportedError(f"{t!r} cannot be compiled")


@dataclass
class Recipe:
    """A list of transforms, taken apart: steps on uint8 images, then one normalisation and the type of the result."""

    steps: list[T.Transform]
    mean: list[float] | None
    std: list[float] | None
    dtype: types.DALIDataType
    channels_last: bool

    @classmethod
    def of(cls, transforms: Sequence[T.Transform], dtype: types.DALIDataType | None, channels_last: bool) -> Recipe:
        steps, normalize, wanted = [], None, dtype
        for t in transforms:
            if isinstance(t, T.ToTensor):
                continue
            if isinstance(t, T.ToDtype):
                wanted = t.dtype if dtype is None else dtype
            elif isinstance(t, T.Normalize):
                if normalize is not None:
                    raise InvalidArgumentError("two Normalize in one list of transforms: put them into one")
                normalize = t
            elif normalize is not None:
                raise InvalidArgumentError(f"{type(t).__name__} comes after Normalize: transforms of images go before it")
            else:
                steps.append(t)
        wanted = types.FLOAT if wanted is None else wanted
        if wanted not in (*FLOATS, types.UINT8):
            raise InvalidArgumentError(f"dtype is torch.float32, float16, bfloat16 or uint8, not {types.dtype_name(wanted)}")
        if wanted == types.UINT8 and normalize is not None:
            raise InvalidArgumentError("Normalize makes numbers around zero: they cannot be uint8")
        mean, std = (normalize.mean, normalize.std) if normalize is not None else (None, None)
        return cls(steps, mean, std, types.DALIDataType(wanted), channels_last)

    def apply(self, image: Image) -> DataNode:
        """The finished images, CHW or HWC."""
        for t in self.steps:
            image = _apply(image, t)
        args: dict[str, Any] = {"dtype": self.dtype, "output_layout": "HWC" if self.channels_last else "CHW"}
        if self.dtype in FLOATS:
            # On the scale of the input, 0..255.
            args["mean"] = [255.0 * m for m in self.mean or [0.0]]
            args["std"] = [255.0 * s for s in self.std or [1.0]]
        node: DataNode = fn.crop_mirror_normalize(image.node, **args)
        return node
