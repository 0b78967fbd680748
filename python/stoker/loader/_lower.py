# SPDX-License-Identifier: Apache-2.0
"""Compiles transforms to operators of a graph."""

from __future__ import annotations

import copy
import itertools
import math as numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stoker import fn, types
from stoker import transforms as T
from stoker._branches import either
from stoker._transforms_timm import LevelledAugment
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError, UnsupportedError
from stoker.loader import _lower_affine, _lower_boxes, _lower_geometry, _lower_tail, _lower_values, _lower_views
from stoker.loader._follow import Field, Followers, as_size, resized
from stoker.loader._kinds import IMAGE, MASK
from stoker.loader._lower_colors import COLORS, OF_FLOATS, gray_floats, where
from stoker.loader._lower_policies import POLICIES
from stoker.loader._lower_timm import augment, one_of

FLOATS = (types.FLOAT, types.FLOAT16, types.BFLOAT16)
WIDE = (types.UINT16, types.INT16)  # types that only the values of a FloatMap may have in a batch


@dataclass
class Image:
    """An image (HWC) in the graph, between two transforms. floats: values are float32, on a scale that the user chose; otherwise uint8. gray: the source's
    image has one channel. channels: the number of channels; None if it is not known."""

    node: DataNode
    extent: tuple[int, int] | None  # height and width; None: not known before the pipeline runs
    followers: Followers | None = None
    floats: bool = False
    gray: bool = False
    channels: int | None = None
    clip: bool = False  # frames of one video (FHWC), which share their random draws
    sound: Any = None  # the sound of the clip, or of a sample that has a sound instead of an image (_lower_sounds.Sound)

    def moved(self, node: DataNode, extent: tuple[int, int] | None) -> Image:
        """Returns the image with another node and extent, as the result of a transform. Drops the sound."""
        return Image(node, extent, self.followers, self.floats, self.gray, self.channels, self.clip)

    def colored(self) -> Image:
        """Returns the image with three channels. A gray image gets three equal ones; other images must have three."""
        node = fn.cat(self.node, self.node, self.node, axis=2) if self.gray else self.node
        return Image(node, self.extent, self.followers, self.floats)

    def size(self) -> tuple[Any, Any]:
        """Returns height and width, as numbers or nodes."""
        if self.extent is not None:
            return self.extent
        shape = self.node.shape(dtype=types.INT32)
        return shape[self.clip], shape[self.clip + 1]


def _random_resized_crop(image: Image, t: T.RandomResizedCrop) -> Image:
    draws: dict[str, Any] = {"random_area": list(t.scale), "random_aspect_ratio": list(t.ratio)}
    filters: dict[str, Any] = {"interp_type": one_of(t.drawn or [t.interpolation]), "antialias": t.antialias, "border": "drop"}
    if image.followers is not None:
        return image.moved(image.followers.random_resized_crop(image.node, t.size, {**filters, "subpixel_scale": False}, draws), t.size)
    return image.moved(fn.random_resized_crop(image.node, size=list(t.size), **filters, **draws), t.size)


def _resize(image: Image, t: T.Resize) -> Image:
    # As in Pillow, the whole image is mapped to the whole output even if the extents were rounded, and pixels outside of the image have no weight.
    filters: dict[str, Any] = {"interp_type": t.interpolation, "antialias": t.antialias, "border": "drop", "subpixel_scale": False}
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


def _center_crop(image: Image, t: T.CenterCrop) -> Image:
    window: dict[str, Any] = {"crop": list(t.size), "rounding": "even", "out_of_bounds_policy": "pad"}
    if image.followers is not None:
        image.followers.center_crop(t.size, **window)
    return image.moved(fn.crop(image.node, **window), t.size)


def _random_crop(image: Image, t: T.RandomCrop) -> Image:
    left, top, right, bottom = t.padding
    if image.extent is not None:
        room = (image.extent[0] + top + bottom, image.extent[1] + left + right)
        if not t.pad_if_needed and (t.size[0] > room[0] or t.size[1] > room[1]):
            raise InvalidArgumentError(f"RandomCrop: {t.size} does not fit into images of {image.extent} with padding {t.padding}")
    if image.followers is not None or t.pad_if_needed or t.padding_mode != "constant":
        return image.moved((image.followers or Followers(image.size())).random_crop(image.node, t), t.size)
    crop = fn.random_crop(image.node, size=list(t.size), padding=list(t.padding), fill_values=t.fill_of("Image"), smaller="error")
    return image.moved(crop, t.size)


def _flip(image: Image, horizontal: Any, vertical: Any) -> Image:
    if image.followers is not None:
        image.followers.flip(horizontal, vertical)
    return image.moved(fn.flip(image.node, horizontal=horizontal, vertical=vertical), image.extent)


def _coin(p: float, gate: DataNode | None) -> Any:
    """Returns a node that is 1 with probability p, else 0. gate: None, or a node of 0 or 1 for each sample, by which the result is multiplied."""
    coin = fn.random.coin_flip(probability=p)
    return coin if gate is None else coin * gate


def _random_choice(image: Image, t: T.RandomChoice, gate: DataNode | None) -> Image:
    chosen = fn.random.choice(len(t.transforms), p=t.p)
    for number, option in enumerate(t.transforms):
        taken = fn.cast(chosen == number, dtype=types.INT32)
        image = _apply(image, option, taken if gate is None else taken * gate)
    return image


def _random_order(image: Image, t: T.RandomOrder, gate: DataNode | None) -> Image:
    """First applies the transforms whose place in the order does not matter. Then compiles all others once for each place; the permutation that a sample draws
    decides which of them takes effect at a place."""
    shuffled = t.in_random_order()
    for part in t.transforms:
        if not any(part is s for s in shuffled):
            image = _apply(image, part, gate)
    if not shuffled:
        return image
    orders = list(itertools.permutations(range(len(shuffled))))
    drawn = fn.random.choice(len(orders))
    for place in range(len(shuffled)):
        which = fn.constant(idata=[order[place] for order in orders], shape=[len(orders)], dtype=types.INT32)[drawn]
        for number, part in enumerate(shuffled):
            taken = fn.cast(which == number, dtype=types.INT32)
            image = _apply(image, part, taken if gate is None else taken * gate)
    return image


def _pad(image: Image, t: T.Pad) -> Image:
    left, top, right, bottom = t.padding
    followers = image.followers or Followers(image.size())
    extent = None if image.extent is None else (image.extent[0] + top + bottom, image.extent[1] + left + right)
    return image.moved(followers.pad(image.node, t, (top, left), (bottom, right)), extent)


def _zoom_out(image: Image, t: T.RandomZoomOut, gate: DataNode | None) -> Image:
    followers = image.followers or Followers(image.size())
    before, after = _lower_geometry.zoomed_out(t, followers.extent, gate)
    return image.moved(followers.pad(image.node, t, before, after), None)


def _random_extent(image: Image, t: Any) -> Image:
    followers = image.followers or Followers(image.size())
    filters: dict[str, Any] = {"interp_type": t.interpolation, "antialias": t.antialias, "border": "drop", "subpixel_scale": False}
    followers.resize_to(_lower_geometry.EXTENTS[type(t)](t, followers.extent), filters)
    return image.moved(fn.resize(image.node, size=as_size(followers.extent), **filters), None)


def _perspective(image: Image, t: T.RandomPerspective, gate: DataNode | None) -> Image:
    gate = gate if t.p == 1 else _coin(t.p, gate)
    matrix = _lower_geometry.corners(t, image.size() if image.followers is None else image.followers.extent, gate)

    def see(node: DataNode, interpolation: Any, kind: str, floats: bool) -> DataNode:
        return where(gate, node, lambda n: _lower_geometry.perspective(n, matrix, interpolation, t.fill_of(kind)[0], floats))

    if image.followers is not None:
        image.followers.perspective(repr(t), matrix, lambda field: see(field.node, _interpolation(field, t), field.kind, _in_floats(field)))
    return image.moved(see(image.node, t.interpolation, IMAGE, image.floats), image.extent)


def _interpolation(field: Field, t: Any) -> Any:
    return types.INTERP_NN if field.kind == MASK else t.interpolation if field.kind == IMAGE else types.INTERP_LINEAR


def _in_floats(field: Field) -> bool:
    return field.kind not in (IMAGE, MASK) or field.floats


def _elastic(image: Image, t: T.ElasticTransform, gate: DataNode | None) -> Image:
    extent = image.size() if image.followers is None else image.followers.extent

    def displacements() -> tuple[DataNode, DataNode]:
        return _lower_geometry.displacements(t, extent, image.node.device == "gpu")

    if image.followers is None:  # only the image needs the draws, so they are made in its branch
        made = where(
            gate, image.node, lambda n: _lower_geometry.elastic(n, displacements(), t.interpolation, t.fill_of(IMAGE), image.floats)
        )
        return image.moved(made, image.extent)
    moved = displacements()

    def change(node: DataNode, interpolation: Any, kind: str, floats: bool) -> DataNode:
        return where(gate, node, lambda n: _lower_geometry.elastic(n, moved, interpolation, t.fill_of(kind), floats))

    image.followers.displace(repr(t), lambda field: change(field.node, _interpolation(field, t), field.kind, _in_floats(field)))
    return image.moved(change(image.node, t.interpolation, IMAGE, image.floats), image.extent)


def _fixed_size_crop(image: Image, t: T.FixedSizeCrop) -> Image:
    followers = image.followers or Followers(image.size())
    return image.moved(followers.crop_and_pad(image.node, t, *_lower_boxes.fixed_window(t, followers)), t.size)


def _iou_crop(image: Image, t: T.RandomIoUCrop, gate: DataNode | None) -> Image:
    window = _lower_boxes.iou_window(t, image.followers, gate)
    if window is None or image.followers is None:
        return image
    return image.moved(image.followers.crop_of_boxes(image.node, window), None)


def _sanitized(image: Image, t: T.SanitizeBoundingBoxes, gate: DataNode | None) -> Image:
    if gate is not None:
        raise _in_group(t)
    if image.followers is not None and image.followers.boxes is not None:
        image.followers.sanitize(t)
    return image


def _of_values(image: Image, t: T.Transform, gate: DataNode | None) -> DataNode | None:
    """Returns the image's node after a transform that changes only values; None for others. Raises UnsupportedError for an erasing with noise."""
    node, always = image.node, 1 if gate is None else gate
    if isinstance(t, T.GaussianBlur):
        return _lower_values.blur(node, t, gate)
    if image.floats and isinstance(t, (T.RandomInvert, T.RandomSolarize)):
        return _lower_values.invert_floats(node, _coin(t.p, gate), t.threshold if isinstance(t, T.RandomSolarize) else None)
    if image.floats and isinstance(t, (T.Grayscale, T.RandomGrayscale)):
        return gray_floats(node, t, gate)
    if isinstance(t, T.Grayscale) and (t.num_output_channels == 3 or gate is None):
        return _lower_values.grayscale(node, t.num_output_channels, always)
    if isinstance(t, T.RandomErasing):
        if t.noise:
            raise UnsupportedError(
                f"{t!r} stands inside RandomApply, RandomChoice or RandomOrder, where images are bytes: put it at the list's end"
            )
        if image.floats:  # `value` is on the same scale as the image's floats
            t = copy.copy(t)
            t.unit = 1.0
        return _lower_values.erase(node, t, image.size(), _coin(t.p, gate))
    if isinstance(t, T.RandomGrayscale):
        return _lower_values.grayscale(node, 3, _coin(t.p, gate))
    if isinstance(t, T.RandomInvert):
        return _lower_values.invert(node, _coin(t.p, gate))
    if isinstance(t, T.RandomSolarize):
        return _lower_values.solarize(node, t.threshold, _coin(t.p, gate))
    if isinstance(t, T.RandomPosterize):
        return _lower_values.posterize(node, t.bits, _coin(t.p, gate))
    return None


_CROPS: dict[type[T.Transform], Any] = {
    T.Pad: _pad,
    T.RandomResizedCrop: _random_resized_crop,
    T.Resize: _resize,
    T.CenterCrop: _center_crop,
    T.FixedSizeCrop: _fixed_size_crop,
    T.RandomCrop: _random_crop,
    **dict.fromkeys(_lower_geometry.EXTENTS, _random_extent),
}


def _crops(image: Image, t: T.Crops) -> list[Image]:
    def five(node: DataNode) -> list[Image]:
        corners = [
            fn.crop(node, crop=list(t.size), crop_pos_x=x, crop_pos_y=y, out_of_bounds_policy="error")
            for y in (0.0, 1.0)
            for x in (0.0, 1.0)
        ]
        return [*(image.moved(corner, t.size) for corner in corners), _center_crop(image.moved(node, image.extent), T.CenterCrop(t.size))]

    crops = five(image.node)
    if isinstance(t, T.TenCrop):
        crops += five(fn.flip(image.node, horizontal=int(not t.vertical_flip), vertical=int(t.vertical_flip)))
    return crops


# Transforms that change the geometry or the boxes. All but SanitizeBoundingBoxes are also allowed inside RandomApply, RandomChoice and RandomOrder.
_FREE: dict[type[T.Transform], Callable[[Image, Any, DataNode | None], Image]] = {
    T.ElasticTransform: _elastic,
    T.RandomIoUCrop: _iou_crop,
    T.RandomPerspective: _perspective,
    T.SanitizeBoundingBoxes: _sanitized,
    T.RandomZoomOut: _zoom_out,
}


def _in_group(t: T.Transform) -> UnsupportedError:
    return UnsupportedError(
        f"{t!r} stands inside RandomApply, RandomChoice or RandomOrder, which take what keeps the image's extent: put it outside, or into the Dataset"
    )


def _known(extent: tuple[Any, Any]) -> tuple[int, int] | None:
    return None if any(isinstance(n, DataNode) for n in extent) else extent


def _apply(image: Image, t: T.Transform, gate: DataNode | None = None) -> Image:
    """Applies a transform to an image and its followers. gate: a node with 1 for samples to transform and 0 for others; None: all are transformed."""
    followers = image.followers
    if followers is None or not followers.images or not isinstance(t, (*_IN_PLACE, T.RGB)):
        return _apply_one(image, t, gate)
    return _on_each(image, lambda one: _apply_one(one, t, gate))


def _on_each(image: Image, change: Callable[[Image], Image]) -> Image:
    """Applies `change` to an image and, with the same random draws, to the further images among its followers. Returns the changed image."""
    assert image.followers is not None
    with image.followers.same_draws() as again:
        made = change(image)
        for field in image.followers.images:
            again()
            one = change(Image(field.node, image.extent, None, field.floats, field.gray, field.channels))
            field.node, field.floats, field.gray, field.channels = one.node, one.floats, one.gray, one.channels
    return made


def _apply_one(image: Image, t: T.Transform, gate: DataNode | None) -> Image:
    """Applies a transform to an image. Followers are changed too if the transform moves pixels. Raises an error for images that the transform does not take.
    gate: as in _apply."""
    kind = type(t)
    if image.floats and not _takes_floats(t):
        raise InvalidArgumentError(
            f"{t!r} is of images of uint8, and these are of floats: give uint8 or the files' bytes, or do it in the Dataset"
        )
    if image.gray and isinstance(t, (T.RGB, T.Grayscale, T.RandomGrayscale)):
        wanted = 3 if isinstance(t, T.RGB) else t.num_output_channels if isinstance(t, T.Grayscale) else 1
        return image.colored() if wanted == 3 and gate is None else image
    if image.channels is not None and image.channels not in (few := _channels_of(t) or (image.channels,)):
        raise InvalidArgumentError(
            f"{t!r} is of images of {' or '.join(map(str, few))} channels, and the dataset's have {image.channels}: leave it out, or do it in the Dataset"
        )
    if kind in _CROPS or isinstance(t, T.Crops):
        if gate is not None or isinstance(t, T.Crops):
            raise _in_group(t)
        image = _CROPS[kind](image, t)
    elif kind in POLICIES or kind is LevelledAugment:
        image = _augmented(image, t, gate)
    elif kind in COLORS:
        colored = OF_FLOATS[kind](image.node, t, gate, image.channels) if image.floats else COLORS[kind](image.node, t, gate)
        image = image.moved(colored, image.extent)
    elif kind in _FREE:
        image = _FREE[kind](image, t, gate)
    elif isinstance(t, (T.RandomAffine, T.Lambda)):
        image = _freely(image, t, gate)
    elif (node := _of_values(image, t, gate)) is not None:
        image = image.moved(node, image.extent)
        if isinstance(t, T.Grayscale):
            image.gray, image.channels = image.gray or t.num_output_channels == 1, t.num_output_channels
    elif isinstance(t, T.RandomHorizontalFlip):
        image = _flip(image, _coin(t.p, gate), 0)
    elif isinstance(t, T.RandomVerticalFlip):
        image = _flip(image, 0, _coin(t.p, gate))
    elif isinstance(t, T.RandomChoice):
        image = _random_choice(image, t, gate)
    elif isinstance(t, T.RandomOrder):
        image = _random_order(image, t, gate)
    elif isinstance(t, T.Group):
        inner = _coin(t.p, gate) if isinstance(t, T.RandomApply) else gate
        for part in t.transforms:
            image = _apply(image, part, inner)
    elif not isinstance(t, T.Identity):
        raise UnsupportedError(f"{t!r} cannot be compiled")
    return image


def _takes_floats(t: T.Transform) -> bool:
    """Returns whether a transform accepts float images of any scale, with the results of torchvision on float tensors."""
    if isinstance(t, T.RandomErasing):
        return t.noise is None
    of_values = (T.GaussianBlur, T.Grayscale, T.Identity, T.RandomGrayscale, T.RandomInvert, T.RandomSolarize)
    moves = (T.Crops, T.RandomAffine, T.RandomHorizontalFlip, T.RandomVerticalFlip)
    return isinstance(t, (T.Group, *of_values, *moves)) or type(t) in _CROPS or type(t) in _FREE or type(t) in OF_FLOATS


_OF_RGB = (T.Grayscale, T.JPEG, T.RandomChannelPermutation, T.RandomGrayscale, T.RandomPhotometricDistort)


def _channels_of(t: T.Transform) -> tuple[int, ...]:
    """Returns the numbers of channels that a transform accepts; empty if it accepts any number."""
    if isinstance(t, _OF_RGB):
        return (3,)
    colors = isinstance(t, T.ColorJitter) and any(pair is not None for pair in (t.contrast, t.saturation, t.hue))
    return (1, 3) if colors or type(t) in POLICIES or type(t) is LevelledAugment else ()


def _augmented(image: Image, t: T.Transform, gate: DataNode | None) -> Image:
    if image.followers is not None:
        raise UnsupportedError(
            f"{t!r}: masks, boxes, points and further images cannot follow an automatic augmentation; leave it out, or do it in the Dataset"
        )
    make: Any = augment if isinstance(t, LevelledAugment) else POLICIES[type(t)]
    return image.moved(make(image.node, t, image.size(), gate), image.extent)


def _freely(image: Image, t: T.RandomAffine | T.Lambda, gate: DataNode | None) -> Image:
    """Applies an affine transform to an image and its followers, or the user's function to an image. Raises UnsupportedError if a function meets followers."""
    if isinstance(t, T.RandomAffine):
        if t.expand and gate is not None:
            raise _in_group(t)
        matrix, extent = _lower_affine.matrix_of(t, image.size() if image.followers is None else image.followers.extent, gate)
        size = {"size": as_size(extent)} if t.expand else {}

        def change(field: Field) -> DataNode:
            fill = t.fill_of(field.kind)[0]
            return _lower_affine.warp(field.node, matrix, _interpolation(field, t), fill, _in_floats(field), size)

        if image.followers is not None:
            image.followers.warp(matrix, change, extent if t.expand else None)
        warped = _lower_affine.warp(image.node, matrix, t.interpolation, t.fill_of(IMAGE)[0], image.floats, size)
        return image.moved(warped, _known(extent) if t.expand else image.extent)
    if image.followers is not None:
        raise UnsupportedError(
            f"{t!r}: masks, boxes, points and further images cannot follow a function: do it in the Dataset, for all of them"
        )
    made = image.moved(_lower_values.call(image.node, t, gate), None)
    made.channels = None
    return made


_IN_PLACE = (
    *COLORS,
    T.GaussianBlur,
    T.Grayscale,
    T.Identity,
    T.RandomEqualize,
    T.RandomErasing,
    T.RandomGrayscale,
    T.RandomInvert,
    T.RandomPosterize,
    T.RandomSolarize,
)

# Transforms that accept the frames of a clip. All frames share one draw, and each is changed as an image would be.
_OF_CLIPS = (
    T.AugMix,
    T.AutoAugment,
    T.CenterCrop,
    T.ColorJitter,
    T.ElasticTransform,
    T.GaussianBlur,
    T.Grayscale,
    T.Identity,
    T.RandAugment,
    T.RandomAdjustSharpness,
    T.RandomAffine,
    T.RandomAutocontrast,
    T.RandomCrop,
    T.RandomEqualize,
    T.RandomErasing,
    T.RandomGrayscale,
    T.RandomHorizontalFlip,
    T.RandomInvert,
    T.RandomPerspective,
    T.RandomPosterize,
    T.RandomResizedCrop,
    T.RandomRotation,
    T.RandomSolarize,
    T.RandomVerticalFlip,
    T.Resize,
    T.RGB,
    T.TrivialAugmentWide,
)


def _takes_clips(t: T.Transform) -> bool:
    if isinstance(t, T.Group):
        return all(map(_takes_clips, t.transforms))
    by_followers = isinstance(t, T.RandomCrop) and (t.pad_if_needed or t.padding_mode != "constant")
    return type(t) in _OF_CLIPS and not by_followers


def _counts_channels(t: T.Transform) -> bool:
    return any(map(_counts_channels, t.transforms)) if isinstance(t, T.Group) else isinstance(t, (T.RGB, T.Grayscale, T.RandomGrayscale))


def calls_function(t: T.Transform) -> bool:
    return any(map(calls_function, t.transforms)) if isinstance(t, T.Group) else isinstance(t, T.Lambda)


def _keeps_places(t: T.Transform) -> bool:
    return all(map(_keeps_places, t.transforms)) if isinstance(t, T.Group) else isinstance(t, _IN_PLACE)


class _Values:
    """The type of the image's values after the transforms so far. unit: floats are on the scale 0..1; False: on 0..255. floats: images are maps of floats, of
    any scale."""

    def __init__(self, floats: bool) -> None:
        self.dtype: types.DALIDataType | None = None  # None: no transform has set it
        self.unit = True
        self.floats = floats

    def converted(self, t: T.ToDtype) -> None:
        from_float = self.dtype in FLOATS
        if t.dtype not in (*FLOATS, types.UINT8):
            raise InvalidArgumentError(f"{t!r}: images are float32, float16, bfloat16 or uint8")
        if t.dtype == types.UINT8 and from_float and t.scale != self.unit:
            raise InvalidArgumentError(f"{t!r} would cut values on the scale 0..1 to whole numbers: use scale=True")
        if not from_float:
            self.unit = t.scale or t.dtype == types.UINT8
        self.dtype = types.DALIDataType(t.dtype)

    def scaled(self, t: T.RandomErasing) -> T.RandomErasing:
        """Returns a copy of the erasing whose `unit` is the factor for its fill value: 255.0 if that is on the scale 0..1, since steps work on 0..255."""
        made = copy.copy(t)
        made.unit = 255.0 if self.unit and self.dtype != types.UINT8 else 1.0
        return made

    def normalized(self, t: T.Normalize, erasings: Sequence[T.RandomErasing]) -> None:
        if self.dtype == types.UINT8:
            raise InvalidArgumentError("Normalize comes while the images are uint8: put ToDtype(torch.float32, scale=True) before it")
        if any(t.noise for t in erasings):
            raise InvalidArgumentError(f"Normalize comes after {erasings[0]!r}: put it before that one, as torchvision's references do")
        if self.unit and not self.floats and any(abs(m) > 3 for m in t.mean):
            raise InvalidArgumentError(
                f"Normalize: mean {t.mean} is on the scale 0..255; here it is 0..1, as in torchvision: divide mean and std by 255. Images of floats of another "
                "scale are declared: fields={'image': 'FloatMap', ...}"
            )


def _begins_tail(t: T.Transform, values: _Values, normalize: T.Normalize | None, erasings: Sequence[T.RandomErasing]) -> bool:
    """Returns whether this transform and all later ones must run in Python, on tensors. This is so for a function after a transform that sets the type,
    normalizes or erases, and for Normalize after an erasing with noise."""
    if calls_function(t):
        return values.dtype is not None or normalize is not None or bool(erasings)
    return isinstance(t, T.Normalize) and normalize is None and values.dtype != types.UINT8 and any(e.noise for e in erasings)


def refuse_other_tensors(transforms: Sequence[T.Transform]) -> None:
    """Raises InvalidArgumentError for transforms of torchvision that give other pixels for tensors than for PIL images, which the Loader reproduces."""
    for t in transforms:
        if t._of_tensors:
            name = type(t).__name__
            raise InvalidArgumentError(
                f"Loader: torchvision's {name} gives other pixels for tensors than for PIL images, which Stoker does not reproduce: "
                f"{t._of_tensors.format(name)}"
            )


@dataclass
class Recipe:
    """A list of transforms, divided into parts that are compiled differently: steps on images, one normalization with the type of the result, erasings, and
    the user's functions at the end."""

    steps: list[T.Transform]
    mean: list[float] | None
    std: list[float] | None
    dtype: types.DALIDataType
    unit: bool  # whether floats are on the scale 0..1 before the normalization; else 0..255
    channels_last: bool
    erasings: list[T.RandomErasing]  # erasings of the finished image
    tail: list[_lower_tail.Tail]  # the last transforms, which run in Python on the finished image as a tensor
    after_tail: types.DALIDataType | None = None  # the type to which the tail's result is converted; None: it is not converted
    half: bool = False  # whether the tail gets bfloat16, for which NumPy has no type
    views: _lower_views.Views | None = None  # the user's function that makes several tensors of the image after `steps`

    @classmethod
    def of(cls, transforms: Sequence[T.Transform], dtype: types.DALIDataType | None, channels_last: bool, floats: bool = False) -> Recipe:
        """Makes the recipe of a list of transforms. dtype: the Loader's argument; None: the transforms set the type. floats: images are maps of floats. Raises
        InvalidArgumentError for transforms in an order that cannot be compiled, and for a dtype that does not fit."""
        steps: list[T.Transform] = []
        erasings: list[T.RandomErasing] = []
        normalize: T.Normalize | None = None
        values = _Values(floats)
        tail: list[T.Transform] = []
        tensors = False
        views: _lower_views.Views | None = None
        last = next((k for k in reversed(range(len(transforms))) if type(transforms[k]) is not T.Identity), -1)
        for k, t in enumerate(transforms):
            if k == last and not (tail or floats or erasings or normalize or values.dtype is not None):
                views = _lower_views.views_of(t, dtype)
                if views is not None:
                    break
            tensors |= isinstance(t, (T.ToTensor, T.ToImage, T.PILToTensor))
            if tail or _begins_tail(t, values, normalize, erasings):
                tail.append(t)
                continue
            if tensors:
                refuse_other_tensors([t])
            if isinstance(t, T.PILToTensor):
                values.dtype = types.UINT8
            elif isinstance(t, T.ToDtype):
                values.converted(t)
            elif isinstance(t, T.Normalize):
                if normalize is not None:
                    raise InvalidArgumentError("two Normalize in one list of transforms: put them into one")
                values.normalized(t, erasings)
                normalize = t
            elif isinstance(t, T.Identity) and not isinstance(t, T.RGB):
                continue
            elif isinstance(t, T.Mixing):
                raise InvalidArgumentError(f"{t!r} is of a batch, and not of one image: batch_transforms=[{type(t).__name__}(...)]")
            elif isinstance(t, T.RandomErasing):
                erasings.append(t) if normalize is not None or t.noise else steps.append(values.scaled(t))
            elif isinstance(t, T.Lambda) and steps and isinstance(steps[-1], T.Crops):
                raise InvalidArgumentError(f"{t!r} comes after {steps[-1]!r}: leave it out, the crops come as a list: batch.image")
            elif (normalize is not None or erasings) and not isinstance(t, T.RGB):
                what = "Normalize" if normalize is not None else repr(erasings[0])
                raise InvalidArgumentError(f"{type(t).__name__} comes after {what}: transforms of images go before it")
            else:
                steps.append(t)
        wanted = dtype if dtype is not None else values.dtype if values.dtype is not None else types.FLOAT
        name = types.dtype_name(wanted)
        if wanted in WIDE and not floats:
            raise InvalidArgumentError(
                f"dtype=torch.{name} is for images whose numbers are kept: name their kind, as fields={{'image': 'FloatMap', ...}}. Other images have 8 "
                "bits, and dtype is torch.float32, float16, bfloat16 or uint8"
            )
        if wanted not in (*FLOATS, *WIDE, types.UINT8):
            raise InvalidArgumentError(f"dtype is torch.float32, float16, bfloat16 or uint8, or of a FloatMap uint16 or int16, not {name}")
        if wanted not in FLOATS and normalize is not None:
            raise InvalidArgumentError(f"Normalize makes numbers around zero: they cannot be {name}")
        if wanted not in FLOATS and erasings:
            raise InvalidArgumentError(f"{erasings[0]!r} draws numbers around zero: they cannot be {name}")
        mean, std = (normalize.mean, normalize.std) if normalize is not None else (None, None)
        recipe = cls(steps, mean, std, types.DALIDataType(wanted), values.unit, channels_last, erasings, [])
        if views is not None:
            recipe.views, recipe.dtype, recipe.after_tail = views, types.UINT8, dtype
            return recipe
        return recipe._with_tail([_lower_tail.function_of(t) for t in tail if type(t) is not T.Identity], values.dtype, dtype)

    def _with_tail(self, tail: list[_lower_tail.Tail], declared: types.DALIDataType | None, asked: types.DALIDataType | None) -> Recipe:
        """Sets the tail of this recipe, and returns the recipe. declared: the type that the transforms before the tail set, or None for float32; the tail gets
        images of this type. asked: the Loader's argument dtype, to which the tail's results are converted. Raises InvalidArgumentError if `asked` is a type of
        whole numbers and the tail gets floats."""
        if not tail:
            return self
        declared = types.FLOAT if declared is None else declared
        if asked is not None and asked not in FLOATS and declared != types.UINT8:
            raise InvalidArgumentError(
                f"{tail[0].name} gets floats and gives numbers of its own: leave out dtype=torch.{types.dtype_name(asked)}"
            )
        self.tail, self.half = tail, declared == types.BFLOAT16
        self.after_tail = types.BFLOAT16 if self.half and asked is None else asked
        self.dtype = types.FLOAT if self.half else declared
        return self

    @property
    def images(self) -> int:
        """Returns the number of images that the recipe makes of one image."""
        crops = numbers.prod(10 if isinstance(t, T.TenCrop) else 5 for t in self.steps if isinstance(t, T.Crops))
        return crops * (1 if self.views is None else self.views.count)

    @property
    def moves(self) -> bool:
        """Returns whether a step, or the function of `views`, may move pixels."""
        return self.views is not None or any(not _keeps_places(t) for t in self.steps)

    @property
    def in_python(self) -> bool:
        """Returns whether a part of the recipe runs in Python."""
        return bool(self.tail) or self.views is not None or any(map(calls_function, self.steps))

    @property
    def counts_channels(self) -> bool:
        """Returns whether a step depends on the first image's number of channels. Then all images must have this number."""
        return any(map(_counts_channels, self.steps))

    def apply(self, image: Image) -> list[DataNode]:
        """Returns the finished images (CHW or HWC), or the finished clip. Several if a step is FiveCrop or TenCrop, or if `views` is set. Raises
        UnsupportedError if a transform does not take clips, or if the image's followers cannot follow a function."""
        images = [image]
        if image.clip:
            self._refuse_for_clips()
        for t in self.steps:
            images = [made for image in images for made in (_crops(image, t) if isinstance(t, T.Crops) else [_apply(image, t)])]
        if self.views is not None:
            if image.followers is not None:
                raise UnsupportedError(
                    f"{self.views.name}: masks, boxes, points and further images cannot follow a function: do it in the Dataset, for all of them"
                )
            return [view for one in images for view in self.views.apply(one.node, self.channels_last, self.after_tail)]
        finished = [self._finished_all(image) for image in images]
        if not self.tail:
            return finished
        if image.followers is not None:
            raise UnsupportedError(
                f"{self.tail[0].name}: masks, boxes, points and further images cannot follow a function: do it in the Dataset, for all of them"
            )
        return [_lower_tail.call(node, self.tail, self.channels_last, self.half, self.after_tail) for node in finished]

    def _refuse_for_clips(self) -> None:
        others = [repr(t) for t in self.steps if not _takes_clips(t)] + [t.name for t in self.tail]
        others += [] if self.views is None else [self.views.name]
        if others:
            raise UnsupportedError(f"{others[0]} does not take clips of videos yet: leave it out, or do it on the finished batch")
        if self.channels_last:
            raise UnsupportedError("memory_format: clips lie as (batch, frames, channels, height, width)")

    def _finished_all(self, image: Image) -> DataNode:
        """Returns the finished image, and finishes the further images of its followers with the same draws. Does not change the numbers of float maps."""
        if image.followers is None:
            return self._finished(image)
        for field in image.followers.fields:
            if field.kind not in (IMAGE, MASK):
                field.node = fn.crop_mirror_normalize(field.node, dtype=types.FLOAT, mean=[0.0], std=[1.0], output_layout="CHW")
        if not image.followers.images:
            return self._finished(image)
        return _on_each(image, lambda one: one.moved(self._finished(one), None)).node

    def _finished(self, image: Image) -> DataNode:
        if image.floats and self.dtype not in (*FLOATS, *WIDE):
            raise InvalidArgumentError(
                "the dataset gives images of floats, which would be cut to whole numbers: leave out dtype=torch.uint8"
            )
        if not image.floats and self.dtype in WIDE:
            raise InvalidArgumentError(
                f"dtype=torch.{types.dtype_name(self.dtype)} is of images whose numbers are kept, and a further image is of 8 bits: its kind is 'FloatMap', too"
            )
        if self.dtype in WIDE:
            layout = "HWC" if self.channels_last else "CHW"
            kept = fn.crop_mirror_normalize(image.node, dtype=types.FLOAT, mean=[0.0], std=[1.0], output_layout=layout)
            whole: DataNode = fn.cast(kept, dtype=self.dtype)
            return whole
        args: dict[str, Any] = {"dtype": self.dtype, "output_layout": "F" * image.clip + ("HWC" if self.channels_last else "CHW")}
        if self.dtype in FLOATS:
            # Multiplies the mean and the deviation by the factor, so that they are on the scale of the input: 0..255, or that of the data set's floats.
            factor = 255.0 if self.unit and not image.floats else 1.0
            args["mean"] = [factor * m for m in self.mean or [0.0]]
            args["std"] = [factor * s for s in self.std or [1.0]]

        def normalized() -> DataNode:
            node: DataNode = fn.crop_mirror_normalize(image.node, **args)
            return node

        if not self.erasings or self.erasings[0].noise != "values" or image.node.device != "gpu":
            node = normalized()
            for t in self.erasings:
                node = _lower_values.erase(node, t, image.size(), _coin(t.p, None))
            return node
        # Noise cannot be part of a compiled pass. Both branches normalize, so that images without an erasing are written directly to the output's memory.
        first, *others = self.erasings
        node = either(_coin(first.p, None), lambda: _lower_values.erase(normalized(), first, image.size(), 1), normalized)
        for t in others:
            node = _lower_values.erase(node, t, image.size(), _coin(t.p, None))
        return node
