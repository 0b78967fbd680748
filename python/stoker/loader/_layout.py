# SPDX-License-Identifier: Apache-2.0
"""Finds the layout of images that are arrays or tensors, HWC or CHW, from the user's argument or from their shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stoker.errors import InvalidArgumentError

_OTHER = {"HWC": "CHW", "CHW": "HWC"}
_FEW = 4  # largest number of channels for which the shape can reveal the layout


def checked(layout: Any) -> str | None:
    """Returns the Loader's argument `layout`. Raises InvalidArgumentError unless it is "HWC", "CHW" or None."""
    if layout is None or (isinstance(layout, str) and layout in _OTHER):
        return layout
    raise InvalidArgumentError(f"Loader: layout is 'HWC', 'CHW' or None, the layout of one image without the N of a batch, not {layout!r}")


def shown_layout(shape: Sequence[int], tensor: bool) -> str | None:
    """Returns the layout that an image's shape implies; None if both are possible. If either the first or the last extent is at most _FEW, and the other is
    not, it is the number of channels. But arrays, unlike tensors, are rarely CHW, so an array whose first extent is small gives None. An array of two or four
    rows of RGB pixels is HWC, because a CHW image is rarely three columns wide."""
    first, last = shape[0] <= _FEW, shape[2] <= _FEW
    if first != last:
        return "HWC" if last else "CHW" if tensor else None
    return "HWC" if last and not tensor and shape[2] == 3 and shape[0] not in (1, 3) else None


def advice(shape: Sequence[int]) -> str:
    """Explains, for an error message, how each value of layout= would read an image of this shape."""
    a, b, c = shape
    return f"Loader(..., layout='CHW') means {a} channels of {b} x {c} pixels, layout='HWC' {c} channels of {a} x {b}"


def looks_like_chw(shape: Sequence[int]) -> bool:
    """Returns whether an array whose layout is not certain is most probably CHW."""
    return shape[0] <= _FEW < shape[2]


def looks_like_one_image(shape: Sequence[int]) -> bool:
    """Returns whether an array of three dimensions is probably one color image (H, W, C): gray images (N, H, W) would be only three or four columns wide."""
    return shape[2] in (3, 4) and min(shape[0], shape[1]) > 2 * _FEW


def transposed(images: Any, layout: str) -> Any:
    """Returns a view of one image, or of an array of images, in the other layout. layout: the layout of `images`."""
    *outer, a, b, c = range(images.ndim)
    return images.transpose(*outer, c, a, b) if layout == "HWC" else images.transpose(*outer, b, c, a)


def in_memory_order(images: Any, layout: str) -> tuple[Any, str]:
    """Returns a view of one image, or of an array of images, whose axes are in the order of its memory, and the view's layout. This layout differs from the
    given one after permute() or transpose(), which do not move data."""
    channels, columns = (-1, -2) if layout == "HWC" else (-3, -1)
    if hasattr(images, "strides") and images.shape[channels] > 1 and images.shape[columns] > 1:
        pixels = abs(images.strides[channels]) < abs(images.strides[columns])
        if pixels != (layout == "HWC"):
            return transposed(images, layout), _OTHER[layout]
    return images, layout


class Layout:
    """The layout of a data set's images. Converts all images to one layout.

    given: the user's argument; None: the images' shapes decide. common: the layout to which images are converted, the memory order of the first image; None
    before the first image.
    """

    def __init__(self, given: str | None = None) -> None:
        self.given = given
        self.common: str | None = None
        self._found: dict[bool, tuple[str, int]] = {}  # for arrays (False) and tensors (True): the first certain layout, number of channels

    def refuse(self, what: str) -> None:
        """Raises TypeError if the user gave a layout. Call for files and PIL images, which need no layout. what: names the file or image in the message."""
        if self.given is not None:
            raise TypeError(
                f"layout={self.given!r} is for images that are arrays or tensors, and the dataset gave {what}: leave it out "
                "(memory_format sets the layout of batches)"
            )

    def to_common(self, image: Any, tensor: bool) -> Any:
        """Returns an image (three dimensions) in the common layout, which is the first image's layout in memory. tensor: whether the image is a torch tensor.
        Raises TypeError if the layout of the image is not certain."""
        return self.to_common_from(image, self.given or self._of(image.shape, tensor))

    def to_common_from(self, image: Any, layout: str) -> Any:
        """Does the same as to_common for an image whose layout is known to be `layout`."""
        if self.common is None:
            image, self.common = in_memory_order(image, layout)
            return image
        return image if layout == self.common else transposed(image, layout)

    def extent(self, image: Any) -> tuple[int, int]:
        """Returns height and width of an image that `to_common` returned."""
        rows, columns = image.shape[1:] if self.common == "CHW" else image.shape[:2]
        return int(rows), int(columns)

    def channels(self, image: Any) -> int:
        return int(image.shape[0 if self.common == "CHW" else 2])

    def _of(self, shape: tuple[int, ...], tensor: bool) -> str:
        seen, found = shown_layout(shape, tensor), self._found.get(tensor)
        if found is None and seen is not None:
            found = self._found.setdefault(tensor, (seen, shape[0 if seen == "CHW" else 2]))
        if found is not None and seen == found[0]:
            return seen
        if found is not None and seen is not None:
            order = "(2, 0, 1)" if found[0] == "CHW" else "(1, 2, 0)"
            raise _refusal(
                shape, tensor, f"looks like {seen}; those before were {found[0]}, and all need the same layout: give image.permute{order}"
            )
        if found is not None and max(shape[0], shape[2]) <= _FEW and shape[0 if found[0] == "CHW" else 2] == found[1]:
            return found[0]  # the shape of so small an image shows nothing, so it gets the layout of the earlier images
        raise _refusal(shape, tensor, f"{'looks like CHW' if looks_like_chw(shape) else 'may be CHW as well as HWC'}: {advice(shape)}")


def _refusal(shape: Sequence[int], tensor: bool, why: str) -> TypeError:
    return TypeError(f"the dataset gave {'a tensor' if tensor else 'an array'} of the shape {tuple(shape)} as an image, which {why}")
