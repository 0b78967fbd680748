# SPDX-License-Identifier: Apache-2.0
"""Compiles a torchvision transform to a Recipe that makes tensors of the type and the values that torchvision makes. Raises InPython if no Recipe does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from stoker import transforms as T
from stoker import types
from stoker._transforms_base import Transform
from stoker.dataloader._reasons import InPython
from stoker.loader.lower import Recipe


class _Form(Enum):
    """The type of an image between two transforms."""

    PIL = "a PIL image"
    BYTES = "a tensor of uint8"
    FLOATS = "a tensor of floats"


@dataclass
class Compiled:
    """The result of compiling a Dataset's transform."""

    recipe: Recipe
    tv_image: bool  # whether torchvision would give an image of tv_tensors, which matters to the user's collate_fn
    draws: bool  # whether torchvision would draw random numbers


# _MOVES: transforms that are compiled for images of all forms, also for tensors of floats; _check refuses some of their arguments for tensors. _ON_BYTES:
# transforms that are not compiled for tensors of floats, since torchvision has separate code for these, whose results differ.
_MOVES = {
    "CenterCrop",
    "Identity",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
}
_RESAMPLES = {"RandomResizedCrop", "Resize"}
_ON_BYTES = {
    "AugMix",
    "AutoAugment",
    "ColorJitter",
    "GaussianBlur",
    "Grayscale",
    "Pad",
    "RandAugment",
    "RandomAdjustSharpness",
    "RandomAffine",
    "RandomAutocontrast",
    "RandomEqualize",
    "RandomGrayscale",
    "RandomInvert",
    "RandomPerspective",
    "RandomPhotometricDistort",
    "RandomPosterize",
    "RandomRotation",
    "RandomSolarize",
    "TrivialAugmentWide",
}
_GROUPS = {"RandomApply", "RandomChoice"}
_DRAW_NOTHING = {"CenterCrop", "Grayscale", "Identity", "ImageClassification", "Normalize", "Pad", "Resize"}
_TYPES = {"ConvertImageDtype", "ToDtype", "ToTensor", "PILToTensor", "ToImage", "ToPureTensor"}
_DRAW_NOTHING |= _TYPES
# Transforms whose results do not depend on torch.set_default_dtype(), and on torch.set_default_device().
_ANY_DTYPE = (_MOVES | _TYPES | {"ImageClassification", "Normalize"}) - {"ToTensor"}
_ANY_DEVICE = _MOVES | {"ConvertImageDtype", "Normalize", "ToDtype", "ToPureTensor", "ToTensor"}


class Parts:
    """Remembers a transform and all its parts, to find out whether the program has changed one of them since."""

    def __init__(self, transform: Any) -> None:
        self._now: list[Any] = []  # each list and dict in the transform, also the dicts that hold attributes
        self._before: list[Any] = []  # copies of them
        seen, left = set(), [transform]
        while left:
            value = left.pop()
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, (list, tuple)):
                left += value
            elif isinstance(value, dict):
                left += value.values()
            elif hasattr(value, "__dict__") and (type(value).__module__.startswith(("torchvision.", "torch.nn.")) or T._is_preset(value)):
                left.append(vars(value))
            if isinstance(value, (list, dict)):
                self._now.append(value)
                self._before.append(list(value) if isinstance(value, list) else dict(value))

    def unchanged(self) -> bool:
        """Returns whether all lists and attributes have the same objects as before, or equal ones. Tensors that were changed in place are not noticed."""
        try:
            return (
                self._now == self._before
            )  # in C, because this is asked for each batch, of a hundred dicts; compares objects by identity first
        except Exception:  # a tensor or an array was replaced, whose comparison has no single result
            return False


def compiled(transform: Any) -> Compiled:
    """Compiles the transform of a Dataset that gives it PIL images, RGB or gray. Raises InPython, which says why, if it cannot be compiled."""
    parts = _flat(transform)
    _check_defaults(parts)
    form, tv_image = _follow(parts, _Form.PIL, False)
    if form is _Form.PIL:
        raise InPython("no transform makes a tensor of the image")
    try:
        recipe = Recipe.of(T.flatten([_translated(part) for part in parts]), None, False)
        for step in recipe.steps:
            step.check_for_bytes()
    except Exception as e:
        raise InPython(str(e)) from e
    if recipe.in_python:
        raise InPython("a part of the transform is not compiled")
    wanted = types.UINT8 if form is _Form.BYTES else types.FLOAT
    if recipe.dtype != wanted:
        raise InPython(f"the transform gives images of {recipe.dtype}")
    return Compiled(recipe, tv_image, any(_name(part) not in _DRAW_NOTHING for part in parts))


def _name(part: Any) -> str:
    """Returns the class name of a transform of torchvision, or of torch.nn.Identity. Raises InPython for others, also subclasses, which may do something
    else."""
    kind = type(part)
    if kind.__module__.startswith("torch.nn.") and kind.__name__ == "Identity":
        return "Identity"
    if not kind.__module__.startswith("torchvision.transforms."):
        name = getattr(part, "__qualname__", None) or kind.__name__
        raise InPython(f"the transform {name} is Python")
    return kind.__name__


def _flat(transform: Any) -> list[Any]:
    """Returns the transforms of a Compose, of a Sequential, or of a preset like those of torchvision's reference scripts (T._is_preset), in order. Those among
    them that hold transforms are opened in the same way. Any other transform, ImageClassification included, gives a list with only this transform. Raises
    InPython for None and for transforms that _name refuses."""
    if transform is None:
        raise InPython("the dataset has no transform that makes a tensor of the image")
    kind = type(transform)
    if added := T._added_to(transform) or _global_hook(transform):
        raise InPython(f"the transform {kind.__name__} has {added}")
    if kind.__module__.startswith("torch.nn.") and kind.__name__ == "Sequential":
        return [part for item in transform for part in _flat(item)]
    if T._is_preset(transform):
        return _flat(transform.transforms)
    name = _name(transform)
    if name == "Compose":
        return [part for item in transform.transforms for part in _flat(item)]
    return [transform]


def _global_hook(transform: Any) -> str:
    """Returns a description of a hook that torch calls for every module, if there is one and the transform is a module; "" otherwise."""
    from torch.nn.modules import module

    found = isinstance(transform, module.Module) and (module._global_forward_hooks or module._global_forward_pre_hooks)
    return "a hook of all modules (register_module_forward_hook)" if found else ""


def _check_defaults(parts: list[Any]) -> None:
    """Raises InPython if torch's default dtype or default device is another one than at torch's start, and the results of torchvision's code depend on it."""
    import torch

    for what, default, usual, independent in (
        ("dtype", torch.get_default_dtype(), torch.float32, _ANY_DTYPE),
        ("device", torch.get_default_device().type, "cpu", _ANY_DEVICE),
    ):
        other = next((name for name in map(_name, parts) if name not in independent), None)
        if default != usual and other is not None:
            raise InPython(f"torch's default {what} is {default}, on which the result of {other} may depend")


def _translated(part: Any) -> Transform | list[Transform]:
    if _name(part) == "ImageClassification":
        return [
            T.Resize(list(part.resize_size), part.interpolation),
            T.CenterCrop(list(part.crop_size)),
            T.ToTensor(),
            T.Normalize(part.mean, part.std),
        ]
    return T.translate(part)


def _follow(parts: list[Any], form: _Form, tv_image: bool) -> tuple[_Form, bool]:
    """Returns the type of the image after these transforms, and whether it is an image of tv_tensors. form, tv_image: the same before them. Raises InPython if
    one of them does not take such an image, or gives other values for it."""
    for part in parts:
        name = _name(part)
        if name == "ImageClassification":
            if form is not _Form.PIL:
                raise InPython(f"{name} gets {form.value}")
            form = _Form.FLOATS
        elif name in _TYPES:
            form, tv_image = _retyped(part, name, form, tv_image)
        elif name == "Normalize":
            if form is not _Form.FLOATS:
                raise InPython(f"Normalize gets {form.value}")
        elif name == "RandomErasing":
            if form is _Form.PIL or (form is _Form.BYTES and part.value is None):
                raise InPython(f"RandomErasing gets {form.value}")
        elif name in _GROUPS:
            _check_group(part, form, tv_image)
        else:
            _check(part, name, form, tv_image)
    return form, tv_image


def _retyped(part: Any, name: str, form: _Form, tv_image: bool) -> tuple[_Form, bool]:
    if name == "ToPureTensor":
        return form, False
    if name in ("ToImage", "PILToTensor", "ToTensor"):
        if form is not _Form.PIL:
            raise InPython(f"{name} gets {form.value}")
        return (_Form.FLOATS if name == "ToTensor" else _Form.BYTES), name == "ToImage"
    if form is _Form.PIL:
        raise InPython(f"{name} gets a PIL image")
    import torch

    dtype = T.dtype_for(part.dtype, "Image" if tv_image else "Tensor")
    if dtype is None:
        return form, tv_image
    if dtype is torch.float32:
        return _Form.FLOATS, tv_image
    if dtype is torch.uint8 and form is _Form.BYTES:
        return form, tv_image
    raise InPython(f"{name} makes {dtype} of {form.value}")


def _check_group(part: Any, form: _Form, tv_image: bool) -> None:
    """Raises InPython unless each member of a group can get and return the type of image that the group gets."""
    members = [item for member in part.transforms for item in _flat(member)]
    for item in members:
        name = _name(item)
        if name in _GROUPS:
            _check_group(item, form, tv_image)
        else:
            _check(item, name, form, tv_image)


def _check(part: Any, name: str, form: _Form, tv_image: bool) -> None:
    if name not in _MOVES and (name not in _ON_BYTES or form is _Form.FLOATS):
        raise InPython(f"{name} of {form.value} is Python" if name in _ON_BYTES else f"{name} is Python")
    if name in _RESAMPLES and form is not _Form.PIL:
        mode = getattr(part.interpolation, "value", part.interpolation)
        if not getattr(part, "antialias", True) or mode != "bilinear":
            raise InPython(f"{name} of {form.value} with {mode} or without antialias differs from that of PIL images")
    if T.other_fill(part, "PIL" if form is _Form.PIL else "Image" if tv_image else "Tensor"):
        raise InPython(f"{name} has another fill for {form.value} than for images of tv_tensors")
    if form is _Form.BYTES and (why := T._other_for_tensors(part)):
        raise InPython(f"{name} of {form.value} {why} differs from that of PIL images")
    if (
        name == "RandomCrop"
        and form is _Form.FLOATS
        and part.padding is not None
        and T._name(part.padding_mode) == "constant"
        and _filled(part.fill)
    ):
        raise InPython("RandomCrop pads floats with a fill")


def _filled(fill: Any) -> bool:
    """Returns whether pixels outside the image get a value other than 0."""
    values = fill.values() if isinstance(fill, dict) else [fill]
    return any(v is not None and (any(v) if isinstance(v, (list, tuple)) else v) for v in values)
