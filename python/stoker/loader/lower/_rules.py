# SPDX-License-Identifier: Apache-2.0
"""How one transform is compiled. Each class of transforms has one rule, a subclass of Rule, which answers all questions that the Loader asks about its
transforms. `lowers` makes a rule of a function and answers, and rule_of() finds the rule of a transform."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from stoker import _branches, fn, types
from stoker import transforms as T
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError, UnsupportedError
from stoker.loader._kinds import IMAGE
from stoker.loader.lower._follow import Field, Followers, in_bytes
from stoker.loader.lower._tail import Tail, own_function
from stoker.loader.lower._views import Views

FLOATS = (types.FLOAT, types.FLOAT16, types.BFLOAT16)

Gate = DataNode | None  # a node that is 1 for samples to transform, else 0; None: all samples are transformed
Size = tuple[int, int]  # height and width


def coin(p: float, gate: Gate) -> Any:
    """Returns a node that is 1 with probability p, otherwise 0. If there is a gate, the node is 0 for all samples whose gate is 0."""
    drawn = fn.random.coin_flip(probability=p)
    return drawn if gate is None else drawn * gate


def where(gate: Gate, node: DataNode, change: Callable[[DataNode], DataNode]) -> DataNode:
    """Returns `change(node)` for samples whose gate is 1, and the node itself for others. Without a gate, returns `change(node)`."""
    if gate is None:
        return change(node)
    changed: DataNode = _branches.either(gate, lambda: change(node), lambda: node)
    return changed


def one_of(interpolations: Sequence[types.DALIInterpType]) -> Any:
    """Returns the interpolation if there is only one, else a node with an interpolation that is drawn for each sample."""
    if len(interpolations) == 1:
        return interpolations[0]
    numbers = [int(i) for i in interpolations]
    return fn.constant(idata=numbers, shape=[len(numbers)], dtype=types.INT32)[fn.random.choice(len(numbers))]


@dataclass
class Image:
    """An image (HWC) in the graph, between two transforms."""

    node: DataNode
    extent: Size | None  # None: not known before the pipeline runs
    followers: Followers | None = None
    floats: bool = False  # whether values are float32, on a scale that the user chose; otherwise they are uint8
    gray: bool = False  # whether the source's image has one channel
    channels: int | None = None  # number of channels; None if it is not known
    clip: bool = False  # frames of one video (FHWC), which share their random draws
    sound: Any = None  # the sound of the clip, or of a sample that has a sound instead of an image (_sounds.Sound)
    byte_of_one: float | None = None  # Rule.byte_of_one of the transform that is being applied

    def moved(self, node: DataNode, extent: Size | None) -> Image:
        """Returns the image with another node and extent, as the result of a transform. Drops the sound."""
        return Image(node, extent, self.followers, self.floats, self.gray, self.channels, self.clip)

    def changed(self, node: DataNode) -> Image:
        """Returns the image with another node of the same extent, as the result of a transform. Drops the sound."""
        return self.moved(node, self.extent)

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

    def in_bytes(self, t: T.Transform, name: str, values: Sequence[float]) -> list[float]:
        """Converts numbers of the transform t, its argument `name`, to the scale of the node. Raises InvalidArgumentError as in_bytes of _follow.py does."""
        return list(values) if self.floats else in_bytes(t, name, values, self.byte_of_one)

    def as_field(self) -> Field:
        """Returns the image in the form of a field that moves with an image."""
        return Field(self.node, IMAGE, floats=self.floats)

    def moving(self) -> Followers:
        """Returns the followers. An image without followers gets new ones without fields, whose methods compute extents and move the image."""
        return self.followers or Followers(self.size())

    def moving_size(self) -> tuple[Any, Any]:
        """Returns height and width, as numbers or nodes: from the followers if there are followers, else from `size`."""
        return self.size() if self.followers is None else self.followers.extent

    def on_each(self, change: Callable[[Image], Image]) -> Image:
        """Applies `change` to the image and, with the same random draws, to the further images among its followers. Returns the changed image."""
        if self.followers is None or not self.followers.images:
            return change(self)
        with self.followers.same_draws() as again:
            made = change(self)
            for field in self.followers.images:
                again()
                one = change(Image(field.node, self.extent, None, field.floats, field.gray, field.channels))
                field.node, field.floats, field.gray, field.channels = one.node, one.floats, one.gray, one.channels
        return made


class Parts:
    """A list of transforms that is being divided into the parts of a Recipe. Rule.add_to adds the transforms one after the other. floats: images are maps of
    floats, of any scale."""

    def __init__(self, floats: bool) -> None:
        self.floats = floats
        self.steps: list[Rule] = []
        self.normalize: T.Normalize | None = None
        self.erasings: list[T.RandomErasing] = []
        self.tail: list[Rule] = []
        self.dtype: types.DALIDataType | None = None  # the type that the transforms so far have set; None: no transform has set a type
        # The type of images in torchvision: "Image" is that of tv_tensors, "Tensor" a plain tensor. "PIL" stands for the type that the data set gives, which is
        # a PIL image for files. For each type that data sets give, other_for has the first transform that torchvision then applies otherwise.
        self.image_kind = "PIL"
        self.other_for: dict[str, T.Transform] = {}  # keys: "PIL", "Image" and "Tensor"
        self.pure = False  # whether masks, boxes and points are plain tensors in torchvision, which transforms do not change
        self.dtypes: dict[str, types.DALIDataType] = {}  # the type that the transforms so far have set for a kind of field, such as "Mask"
        self.unit = True  # whether floats are on the scale 0..1; else 0..255
        self.leaves: T.Transform | None = None  # a transform that sets types, and leaves that of images as it is
        self.images_only: T.Transform | None = None  # a transform that torchvision applies otherwise to clips of videos

    @property
    def finished(self) -> bool:
        """Returns whether a transform has normalized the image, or filled a window of the finished image."""
        return self.normalize is not None or bool(self.erasings)

    @property
    def byte_of_one(self) -> float | None:
        """Returns Rule.byte_of_one of a transform that comes next."""
        return None if self.dtype not in FLOATS else 255.0 if self.unit else 1.0

    @property
    def unchanged(self) -> bool:
        """Returns whether images are still the bytes that the steps make: no transform has set a type or finished them, and none runs in the tail."""
        return not (self.tail or self.floats or self.finished or self.dtype is not None)

    def note_other_for_tensors(self, t: T.Transform) -> None:
        """Notes a transform that torchvision applies otherwise to plain tensors, which ToPureTensor also makes of images of tv_tensors."""
        for kind in ("Tensor", "Image") if self.pure else ("Tensor",):
            self.other_for.setdefault(kind, t)

    def add_step(self, rule: Rule) -> None:
        if self.finished:
            what = "Normalize" if self.normalize is not None else repr(self.erasings[0])
            raise InvalidArgumentError(f"{type(rule.t).__name__} comes after {what}: transforms of images go before it")
        self.steps.append(rule)


Lowering = Callable[[Image, Any, Gate], Image]  # adds the operators of a transform; returns the changed image


class Rule:
    """What the Loader knows of the transform `t`. The class attributes are the answers for a transform that only takes images of bytes; `lowers` sets others.
    This base class is also the rule of transforms that cannot be compiled."""

    answers: ClassVar[dict[str, Any]] = {}  # names of attributes below, with their values or functions of the transform that return them

    of_subclasses = False  # is also the rule of subclasses, such as the user's own
    in_groups = True  # can be part of a group, such as RandomApply, that applies it to only some samples of a batch
    takes_floats = False  # accepts float images of any scale, with the results of torchvision on float tensors
    takes_clips = False  # accepts the frames of a clip: all share one draw, and each is changed as an image would be
    channels: tuple[int, ...] = ()  # the numbers of channels that images may have; (): any number
    counts_channels = False  # depends on the image's number of channels, and leaves gray images as they are
    colors_gray = False  # makes three channels of a gray image, if it counts channels
    keeps_places = False  # moves no pixels; is applied to further images too, with the same draws
    fixes_size = False  # gives all images one size, regardless of their sizes before
    draws_size = False  # draws the size of the result from several sizes
    needs_boxes = False  # only changes samples that have boxes
    knows_size = True  # size_after returns a size
    images = 1  # number of images that the transform makes of one image
    calls_function = False  # calls a function of the user
    gives_tensor = False  # in torchvision, the transforms after this one get tensors
    does_nothing = False  # can be left out of a list of transforms
    takes_units = False  # in torchvision, takes floats only on the scale 0..1

    def __init__(self, t: Any) -> None:
        self.t = t
        # In torchvision, a transform after ToTensor gets floats. Stoker still has bytes there, because it converts an image to floats last. `byte_of_one` is the
        # byte that stands for the float 1: 255, or 1 after ToDtype(scale=False). None: the transform gets bytes in torchvision, too.
        self.byte_of_one: float | None = None
        self.after_pure = False  # whether this one comes after ToPureTensor
        for name, answer in self.answers.items():
            setattr(self, name, answer(t) if callable(answer) else answer)

    def apply(self, image: Image, gate: Gate = None) -> Image:
        """Changes an image and its followers. Raises InvalidArgumentError for images that the transform does not take."""
        return image.on_each(lambda one: self._checked(one, gate)) if self.keeps_places else self._checked(image, gate)

    def stand_after(self, parts: Parts) -> None:
        """Notes what the transforms before this one do. Raises InvalidArgumentError if torchvision would not apply this one to the images that they make."""
        self.byte_of_one, self.after_pure = parts.byte_of_one, parts.pure
        own = getattr(self.t, "_own", None)
        if parts.image_kind == "PIL":
            for given in ("PIL", "Image", "Tensor"):
                if T.other_fill(own, "Tensor" if parts.pure and given == "Image" else given):
                    parts.other_for.setdefault(given, self.t)
            if T.other_fill(own, "Video"):
                parts.images_only = self.t
        elif not T.other_fill(own, parts.image_kind):
            return
        elif parts.image_kind == "Tensor":
            raise InvalidArgumentError(
                f"{self.t!r}: at this place, images are plain tensors, for which torchvision takes the fill of torch.Tensor or of others: give one fill for "
                "all, or put ToImage() in place of what makes plain tensors"
            )
        elif not parts.tail:  # in the tail, torchvision's own transform runs
            raise InvalidArgumentError(
                f"{self.t!r}: at this place, images are those of tv_tensors, for which torchvision takes the fill of tv_tensors.Image or of others: give the "
                "fill of tv_tensors.Image in place of that of PIL.Image.Image"
            )

    def _checked(self, image: Image, gate: Gate) -> Image:
        if image.floats and not self.takes_floats:
            raise InvalidArgumentError(
                f"{self.t!r} takes images of uint8, and these have floats: give uint8 or the files' bytes, or do it in the Dataset"
            )
        if self.takes_units and self.byte_of_one == 1.0 and not image.floats:
            raise InvalidArgumentError(
                f"{self.t!r} comes after ToDtype(scale=False), which leaves floats from 0 to 255, and torchvision's is for floats from 0 to 1: give scale=True, "
                "or put it before ToDtype"
            )
        followers = image.followers
        if self.after_pure and followers is not None and (not self.keeps_places or followers.images):
            raise InvalidArgumentError(
                f"{self.t!r} comes after ToPureTensor, which makes plain tensors of masks, boxes, points and further images: in torchvision, later transforms "
                "do not change them with the image. Put ToPureTensor() at the end of the list"
            )
        if gate is not None and not self.in_groups:
            raise self.error_in_group()
        if image.gray and self.counts_channels:
            return image.colored() if self.colors_gray and gate is None else image
        if image.channels is not None and self.channels and image.channels not in self.channels:
            raise InvalidArgumentError(
                f"{self.t!r} takes images of {' or '.join(map(str, self.channels))} channels, and the dataset's have {image.channels}: leave it out, "
                "or do it in the Dataset"
            )
        return self.lowered(replace(image, byte_of_one=self.byte_of_one), gate)

    def error_in_group(self) -> UnsupportedError:
        return UnsupportedError(
            f"{self.t!r} stands inside RandomApply, RandomChoice or RandomOrder, which take what keeps the image's extent: put it outside, or into the Dataset"
        )

    def check_for_bytes(self) -> None:
        """Raises InvalidArgumentError if `lowered` would raise it for images of bytes, because of a number that is not on their scale."""

    def lowered(self, image: Image, gate: Gate) -> Image:
        """Adds the transform's operators, which change the image and its followers. Returns the changed image."""
        raise UnsupportedError(f"{self.t!r} cannot be compiled")

    def each(self, image: Image) -> list[Image]:
        """Returns the images that the transform makes of one image."""
        return [self.apply(image)]

    def draws(self, boxes: bool) -> bool:
        """Returns whether the transform draws the size of its result. boxes: whether samples have boxes."""
        return self.draws_size and (boxes or not self.needs_boxes)

    def size_after(self, size: Size) -> Size | None:
        """Returns the size of the image that the transform makes of an image of this size, or None if it is not known."""
        return size if self.knows_size else None

    def add_to(self, parts: Parts) -> None:
        """Adds the transform to the parts of a recipe. Raises InvalidArgumentError if it cannot come after the transforms there."""
        parts.add_step(self)

    def begins_tail(self, parts: Parts) -> bool:
        """Returns whether this transform and all later ones must run in Python, on tensors."""
        return self.calls_function and (parts.dtype is not None or parts.finished)

    def tail(self) -> Tail:
        """Returns the function that does the transform's work in the tail. Raises InvalidArgumentError if there is none."""
        return own_function(self.t)

    def views(self, dtype: types.DALIDataType | None) -> Views | None:
        """Returns the views that the transform makes as the last one of its list; None if it makes one image. dtype: the Loader's dtype."""
        return None


_RULES: dict[type[T.Transform], type[Rule]] = {}


def rule_for(kind: type[T.Transform], **answers: Any) -> Callable[[type[Rule]], type[Rule]]:
    """Registers a class as the rule of a class of transforms. answers: values of Rule's attributes; a function is called with the transform and returns the
    value."""

    assert answers.keys() <= vars(Rule).keys(), f"{kind.__name__}: Rule does not have all of {', '.join(answers)}"

    def registered(rule: type[Rule]) -> type[Rule]:
        rule.answers = {**rule.answers, **answers}
        _RULES[kind] = rule
        return rule

    return registered


def lowers(kind: type[T.Transform], **answers: Any) -> Callable[[Any], Any]:
    """Registers a Lowering, a function that adds a transform's operators, for a class of transforms. answers: as in rule_for."""

    def registered(lowering: Lowering) -> Lowering:
        lowered = {"lowered": lambda self, image, gate: lowering(image, self.t, gate)}
        rule_for(kind, **answers)(type(lowering.__name__, (Rule,), lowered))
        return lowering

    return registered


def rule_of(t: T.Transform) -> Rule:
    rule = _RULES.get(type(t))
    if rule is None:
        inherited = (_RULES[kind] for kind in type(t).__mro__ if kind in _RULES)
        rule = next((one for one in inherited if one.answers.get("of_subclasses")), Rule)
    return rule(t)
