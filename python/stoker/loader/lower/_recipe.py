# SPDX-License-Identifier: Apache-2.0
"""Compiles a list of transforms to operators of a graph."""

from __future__ import annotations

import math as numbers
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from stoker import fn, types
from stoker import transforms as T
from stoker._branches import either
from stoker._where import notice
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError, UnsupportedError
from stoker.loader._kinds import IMAGE, MASK
from stoker.loader.lower import _tail, _values, _views
from stoker.loader.lower._rules import FLOATS, Image, Parts, Rule, Size, coin, rule_of

WIDE = (types.UINT16, types.INT16)  # types that only the values of a FloatMap may have in a batch


def refuse_other_tensors(steps: Sequence[Rule]) -> None:
    """Raises InvalidArgumentError for a transform that in torchvision gives other pixels for tensors than for PIL images, because Stoker gives the pixels of
    PIL images."""
    for step in steps:
        if step.t._of_tensors:
            name = type(step.t).__name__
            raise InvalidArgumentError(
                f"Loader: torchvision's {name} gives other pixels for tensors than for PIL images, which Stoker does not reproduce: "
                f"{step.t._of_tensors.format(name)}"
            )


def refuse_other_kind(recipe: Recipe, kind: str) -> None:
    """Raises InvalidArgumentError if torchvision applies a transform of the recipe otherwise to images of the kind that the data set gives. kind: "PIL" for PIL
    images and files, "Image", "Tensor" or "array"."""
    if kind == "PIL" and kind in recipe.other_for:
        raise InvalidArgumentError(
            f"{recipe.other_for[kind]!r}: at this place, images are PIL images, for which torchvision takes the fill of PIL.Image.Image or of others, and not "
            "that of tv_tensors.Image: put ToImage() before it, or give one fill for all"
        )
    if kind in recipe.other_for:
        given = {"Image": "images of tv_tensors", "Tensor": "plain tensors"}[kind]
        raise InvalidArgumentError(
            f"Loader: the data set gives {given}, for which torchvision's {recipe.other_for[kind]!r} does something else than for PIL images, because its types "
            "leave them out: leave it out, or put ToImage() before it if it is for tv_tensors.Image"
        )


def _notice_other_tensors(t: T.Transform) -> None:
    """Prints a notice if torchvision computes a transform, or one inside of a group, for tensors in another way than for PIL images, whose pixels Stoker
    gives."""
    for part in T.with_parts([t]):
        if part._other_for_tensors:
            notice(
                f"{type(part).__name__} {part._other_for_tensors} gives the pixels of PIL images. After ToImage, PILToTensor or ToTensor, torchvision gives "
                "others: put it before them, and both give the same"
            )


@dataclass
class Recipe:
    """A list of transforms, divided into parts that are compiled differently: steps on images, one normalization with the type of the result, erasings, and
    the user's functions at the end."""

    steps: list[Rule]
    mean: list[float] | None
    std: list[float] | None
    dtype: types.DALIDataType
    unit: bool  # whether floats are on the scale 0..1 before the normalization; else 0..255
    channels_last: bool
    erasings: list[T.RandomErasing]  # erasings of the finished image
    tail: list[_tail.Tail]  # the last transforms, which run in Python on the finished image as a tensor
    after_tail: types.DALIDataType | None = None  # the type to which the tail's result is converted; None: it is not converted
    tv_image: bool = False  # whether the tail gets images of tv_tensors instead of plain tensors
    half: bool = False  # whether the tail gets bfloat16, for which NumPy has no type
    dtypes: dict[str, types.DALIDataType] = field(default_factory=dict)  # the type to which a kind of field is converted, such as "Mask"
    images_only: T.Transform | None = None  # a transform that torchvision applies otherwise to clips of videos
    other_for: dict[str, T.Transform] = field(default_factory=dict)  # see Parts.other_for
    views: _views.Views | None = None  # the user's function that makes several tensors of the image after `steps`

    @classmethod
    def of(cls, transforms: Sequence[T.Transform], dtype: types.DALIDataType | None, channels_last: bool, floats: bool = False) -> Recipe:
        """Makes the recipe of a list of transforms. dtype: the Loader's argument; None: the transforms set the type. floats: images are maps of floats. Raises
        InvalidArgumentError for transforms in an order that cannot be compiled, and for a dtype that does not fit."""
        parts = Parts(floats)
        tensors = False
        kind_in_tail = ""  # what images are in torchvision at the beginning of the tail
        views: _views.Views | None = None
        rules = [rule for rule in map(rule_of, transforms) if not rule.does_nothing or isinstance(rule.t, T.ToPureTensor)]
        while rules and rules[-1].does_nothing:
            rules.pop()
        for k, rule in enumerate(rules, 1):
            if rule.does_nothing:
                rule.add_to(parts)
                continue
            rule.stand_after(parts)
            if k == len(rules) and parts.unchanged and (views := rule.views(dtype)) is not None:
                break
            tensors |= rule.gives_tensor
            if parts.tail or rule.begins_tail(parts):
                kind_in_tail = kind_in_tail or parts.image_kind
                parts.tail.append(rule)
                continue
            if tensors:
                refuse_other_tensors([rule])
                if not floats:
                    _notice_other_tensors(rule.t)
            rule.add_to(parts)
        normalize, erasings = parts.normalize, parts.erasings
        if parts.leaves is not None and parts.dtype is None and dtype is None and not floats:
            raise InvalidArgumentError(
                f"{parts.leaves!r} leaves images as they are, and a Loader makes them floats by default: put ToImage() before it, or give dtype="
            )
        wanted = dtype if dtype is not None else parts.dtype if parts.dtype is not None else types.FLOAT
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
        recipe = cls(parts.steps, mean, std, types.DALIDataType(wanted), parts.unit, channels_last, erasings, [], dtypes=parts.dtypes)
        recipe.images_only, recipe.other_for = parts.images_only, parts.other_for
        if views is not None:
            recipe.views, recipe.dtype, recipe.after_tail = views, types.UINT8, dtype
            return recipe
        tail = [rule.tail() for rule in parts.tail]
        recipe.tv_image = kind_in_tail == "Image" and _tail.asks_kind(tail)
        return recipe._with_tail(tail, parts.dtype, dtype)

    def _with_tail(self, tail: list[_tail.Tail], declared: types.DALIDataType | None, dtype: types.DALIDataType | None) -> Recipe:
        """Sets the tail of this recipe, and returns the recipe. declared: the type that the transforms before the tail set, or None for float32; the tail gets
        images of this type. dtype: the Loader's argument dtype, to which the tail's results are converted. Raises InvalidArgumentError if `dtype` is a type of
        whole numbers and the tail gets floats."""
        if not tail:
            return self
        declared = types.FLOAT if declared is None else declared
        if dtype is not None and dtype not in FLOATS and declared != types.UINT8:
            raise InvalidArgumentError(
                f"{tail[0].name} gets floats and gives numbers of its own: leave out dtype=torch.{types.dtype_name(dtype)}"
            )
        self.tail, self.half = tail, declared == types.BFLOAT16
        self.after_tail = types.BFLOAT16 if self.half and dtype is None else dtype
        self.dtype = types.FLOAT if self.half else declared
        return self

    @property
    def images(self) -> int:
        """Returns the number of images that the recipe makes of one image."""
        return numbers.prod(step.images for step in self.steps) * (1 if self.views is None else self.views.count)

    @property
    def moves(self) -> bool:
        """Returns whether a step, or the function of `views`, may move pixels."""
        return self.views is not None or not all(step.keeps_places for step in self.steps)

    @property
    def in_python(self) -> bool:
        """Returns whether a part of the recipe runs in Python."""
        return bool(self.tail) or self.views is not None or any(step.calls_function for step in self.steps)

    @property
    def counts_channels(self) -> bool:
        """Returns whether a step depends on the first image's number of channels. Then all images must have this number."""
        return any(step.counts_channels for step in self.steps)

    def fixes_size(self, boxes: bool) -> bool:
        """Returns whether the transforms give all images one size, regardless of their sizes before. boxes: whether samples have boxes."""
        fixed = False
        for step in self.steps:
            fixed = step.fixes_size or (fixed and not step.draws(boxes))
        return fixed

    def draws_size(self, boxes: bool) -> bool:
        """Returns whether a transform draws the size of each image, and no later one gives all images one size. boxes: whether samples have boxes."""
        return not self.fixes_size(boxes) and any(step.draws(boxes) for step in self.steps)

    def sizes_differ(self, sizes: Iterable[Size]) -> bool:
        """Returns whether the transforms certainly give images of these sizes different sizes."""
        if self.fixes_size(True) or self.tail:
            return False
        found: set[Size | None] = set(sizes)
        for step in self.steps:
            found = {None if size is None else step.size_after(size) for size in found}
        return len(found) > 1 and None not in found

    def apply(self, image: Image) -> list[DataNode]:
        """Returns the finished images (CHW or HWC), or the finished clip: several if a step is FiveCrop or TenCrop, or if `views` is set. Raises
        UnsupportedError if a transform does not take clips, or if the image's followers cannot follow a function."""
        images = [image]
        if image.clip:
            self._refuse_for_clips()
        for step in self.steps:
            images = [made for image in images for made in step.each(image)]
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
        return [_tail.call(node, self.tail, self.channels_last, self.half, self.tv_image, self.after_tail) for node in finished]

    def _refuse_for_clips(self) -> None:
        others = [repr(step.t) for step in self.steps if not step.takes_clips] + [t.name for t in self.tail]
        others += [] if self.views is None else [self.views.name]
        if others:
            raise UnsupportedError(f"{others[0]} does not take clips of videos yet: leave it out, or do it on the finished batch")
        if self.channels_last:
            raise UnsupportedError("memory_format: clips lie as (batch, frames, channels, height, width)")

    def _finished_all(self, image: Image) -> DataNode:
        """Returns the finished image, and finishes further images with the same draws. Maps of floats become CHW, with unchanged numbers."""
        if image.followers is None:
            return self._finished(image)
        for follower in image.followers.fields:
            if follower.kind not in (IMAGE, MASK):
                follower.node = fn.crop_mirror_normalize(follower.node, dtype=types.FLOAT, mean=[0.0], std=[1.0], output_layout="CHW")
        return image.on_each(lambda one: one.moved(self._finished(one), None)).node

    def _finished(self, image: Image) -> DataNode:
        if image.floats and self.dtype not in (*FLOATS, *WIDE):
            raise InvalidArgumentError(
                "the dataset gives images of floats, which would be cut to whole numbers: leave out dtype=torch.uint8"
            )
        if not image.floats and self.dtype in WIDE:
            raise InvalidArgumentError(
                f"dtype=torch.{types.dtype_name(self.dtype)} is for images whose numbers are kept, and a further image has 8 bits: make its kind "
                "'FloatMap', too"
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
                node = _values.erase(node, t, t.value, image.size(), coin(t.p, None))
            return node
        # Noise cannot be fused with the normalization. Both branches normalize, so that images without an erasing are written directly to the output's memory.
        first, *others = self.erasings
        node = either(coin(first.p, None), lambda: _values.erase(normalized(), first, first.value, image.size(), 1), normalized)
        for t in others:
            node = _values.erase(node, t, t.value, image.size(), coin(t.p, None))
        return node
