# SPDX-License-Identifier: Apache-2.0
"""Rules of crops, resizes, pads and flips."""

from __future__ import annotations

from typing import Any

from stoker import fn
from stoker import transforms as T
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError
from stoker.loader.lower._follow import as_size, resized
from stoker.loader.lower._rules import Gate, Image, Rule, Size, coin, lowers, one_of, rule_for


def filters_of(t: Any) -> dict[str, Any]:
    """Returns arguments of fn.resize. As in Pillow, the whole image is mapped to the whole output even if the extents were rounded, and pixels outside of the
    image have no weight."""
    return {"interp_type": t.interpolation, "antialias": t.antialias, "border": "drop", "subpixel_scale": False}


# Attributes of the rules (see _rules.Rule) of transforms that give all images one size.
SIZED: dict[str, Any] = {"in_groups": False, "takes_floats": True, "fixes_size": True}


@lowers(T.RandomResizedCrop, **SIZED, takes_clips=True)
def _resized_crop(image: Image, t: T.RandomResizedCrop, gate: Gate) -> Image:
    draws: dict[str, Any] = {"random_area": list(t.scale), "random_aspect_ratio": list(t.ratio)}
    filters: dict[str, Any] = {"interp_type": one_of(t.drawn or [t.interpolation]), "antialias": t.antialias, "border": "drop"}
    if image.followers is not None:
        return image.moved(image.followers.random_resized_crop(image.node, t.size, {**filters, "subpixel_scale": False}, draws), t.size)
    return image.moved(fn.random_resized_crop(image.node, size=list(t.size), **filters, **draws), t.size)


@rule_for(T.Resize, in_groups=False, takes_floats=True, takes_clips=True, fixes_size=lambda t: isinstance(t.size, tuple))
class _Resize(Rule):
    def lowered(self, image: Image, gate: Gate) -> Image:
        t, filters = self.t, filters_of(self.t)
        if isinstance(t.size, tuple):
            if image.followers is not None:
                image.followers.resize(t.size, filters)
            return image.moved(fn.resize(image.node, size=list(t.size), **filters), t.size)
        if image.followers is not None:
            image.followers.resize(t.size, filters, t.max_size)
        if t.max_size is not None:
            wanted = resized(image.size(), t.size, t.max_size) if image.followers is None else image.followers.extent
            return image.moved(fn.resize(image.node, size=as_size(wanted), **filters), wanted if image.extent is not None else None)
        extent = None if image.extent is None else resized(image.extent, t.size, None)
        return image.moved(fn.resize(image.node, resize_shorter=t.size, rounding="truncate", **filters), extent)

    def size_after(self, size: Size) -> Size | None:
        return size if isinstance(self.t.size, tuple) else resized(size, self.t.size, self.t.max_size)


@lowers(T.CenterCrop, **SIZED, takes_clips=True)
def _center_crop(image: Image, t: T.CenterCrop, gate: Gate) -> Image:
    window: dict[str, Any] = {"crop": list(t.size), "rounding": "even", "out_of_bounds_policy": "pad"}
    if image.followers is not None:
        image.followers.center_crop(t.size, **window)
    return image.moved(fn.crop(image.node, **window), t.size)


@lowers(T.RandomCrop, **SIZED, takes_clips=lambda t: not t.pad_if_needed and t.padding_mode == "constant")
def _random_crop(image: Image, t: T.RandomCrop, gate: Gate) -> Image:
    left, top, right, bottom = t.padding
    if image.extent is not None:
        room = (image.extent[0] + top + bottom, image.extent[1] + left + right)
        if not t.pad_if_needed and (t.size[0] > room[0] or t.size[1] > room[1]):
            raise InvalidArgumentError(f"RandomCrop: {t.size} does not fit into images of {image.extent} with padding {t.padding}")
    if image.followers is not None or t.pad_if_needed or t.padding_mode != "constant":
        return image.moved(image.moving().random_crop(image.as_field(), t, image.byte_of_one), t.size)
    crop = fn.random_crop(
        image.node, size=list(t.size), padding=list(t.padding), fill_values=image.as_field().fill(t, image.byte_of_one), smaller="error"
    )
    return image.moved(crop, t.size)


@rule_for(T.Pad, in_groups=False, takes_floats=True)
class _Pad(Rule):
    def lowered(self, image: Image, gate: Gate) -> Image:
        left, top, right, bottom = self.t.padding
        followers = image.moving()
        extent = None if image.extent is None else self.size_after(image.extent)
        return image.moved(followers.pad(image.as_field(), self.t, image.byte_of_one, (top, left), (bottom, right)), extent)

    def size_after(self, size: Size) -> Size:
        left, top, right, bottom = self.t.padding
        return size[0] + top + bottom, size[1] + left + right


def _flipped(image: Image, horizontal: Any, vertical: Any) -> Image:
    if image.followers is not None:
        image.followers.flip(horizontal, vertical)
    return image.changed(fn.flip(image.node, horizontal=horizontal, vertical=vertical))


@lowers(T.RandomHorizontalFlip, of_subclasses=True, takes_floats=True, takes_clips=True)
def _horizontal_flip(image: Image, t: T.RandomHorizontalFlip, gate: Gate) -> Image:
    return _flipped(image, coin(t.p, gate), 0)


@lowers(T.RandomVerticalFlip, of_subclasses=True, takes_floats=True, takes_clips=True)
def _vertical_flip(image: Image, t: T.RandomVerticalFlip, gate: Gate) -> Image:
    return _flipped(image, 0, coin(t.p, gate))


@rule_for(T.FiveCrop, of_subclasses=True, in_groups=False, takes_floats=True, images=5)
class _FiveCrop(Rule):
    def lowered(self, image: Image, gate: Gate) -> Image:
        raise self.error_in_group()  # outside of groups, `each` makes the images

    def each(self, image: Image) -> list[Image]:
        return self.five(image, image.node)

    def five(self, image: Image, node: DataNode) -> list[Image]:
        """Returns the corners and the middle of the node, as images like `image`."""
        size = self.t.size
        corners = [
            fn.crop(node, crop=list(size), crop_pos_x=x, crop_pos_y=y, out_of_bounds_policy="error") for y in (0.0, 1.0) for x in (0.0, 1.0)
        ]
        return [*(image.moved(corner, size) for corner in corners), _center_crop(image.changed(node), T.CenterCrop(size), None)]


@rule_for(T.TenCrop, images=10)
class _TenCrop(_FiveCrop):
    def each(self, image: Image) -> list[Image]:
        crops, upside_down = self.five(image, image.node), self.t.vertical_flip
        return crops + self.five(image, fn.flip(image.node, horizontal=int(not upside_down), vertical=int(upside_down)))
