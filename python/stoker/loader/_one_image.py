# SPDX-License-Identifier: Apache-2.0
"""Applies a transform to one image when the user calls the transform itself (Transform.__call__), without a Loader."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np

from stoker._transforms_base import Transform
from stoker._where import without_notices
from stoker.errors import InvalidArgumentError
from stoker.loader.loader import Loader
from stoker.transforms import Mixing


def _seed() -> int:
    """Returns a new seed, from torch's generator if torch is loaded, so that torch.manual_seed repeats the draws; else from the module random."""
    torch = sys.modules.get("torch")
    return int(torch.randint(1 << 62, (), device="cpu").item()) if torch is not None else random.getrandbits(62)


def _array_of(image: Any, name: str) -> np.ndarray:
    """Converts an array (H, W) or (H, W, C), a tensor (C, H, W), or a PIL image of mode L or RGB to an array (height, width, channels). Raises
    InvalidArgumentError for anything else, and for an empty image. name: the transform's name, for messages."""
    torch = sys.modules.get("torch")
    tensor = torch is not None and isinstance(image, torch.Tensor)
    pil = sys.modules.get("PIL.Image")
    if not (tensor or isinstance(image, np.ndarray) or (pil is not None and isinstance(image, pil.Image))):
        raise InvalidArgumentError(
            f"{name}: an image is an array (height, width, channels), a tensor (channels, height, width) or a PIL image, not {type(image).__name__}"
        )
    if pil is not None and isinstance(image, pil.Image) and image.mode not in ("L", "RGB"):
        raise InvalidArgumentError(f'{name}: a PIL image has the mode "L" or "RGB", not {image.mode!r}: image.convert("RGB")')
    array = image.detach().cpu().numpy() if tensor else np.asarray(image)
    if tensor and array.ndim == 3:
        array = array.transpose(1, 2, 0)
    if array.ndim == 2 and not tensor:
        array = array[:, :, None]
    if array.ndim != 3 or not array.size:
        kind = "a tensor (channels, height, width)" if tensor else "an array (height, width, channels)"
        raise InvalidArgumentError(f"{name}: one image is {kind}, not one of shape {tuple(image.shape)}; a Loader takes batches")
    return np.ascontiguousarray(array)


def apply(transform: Transform, image: Any) -> Any:
    """Returns the image that a Loader would make from this image: a PIL image for a PIL image, an array (H, W, C) for an array, a tensor (C, H, W) for a
    tensor. A uint8 image remains uint8, unless the transform makes floats; the result for a PIL image is then a tensor. FiveCrop and TenCrop give a tuple of
    images. Each call makes new draws. Raises InvalidArgumentError for MixUp and CutMix, and for an image of another type or shape."""
    name = type(transform).__name__
    if isinstance(transform, Mixing):
        raise InvalidArgumentError(f"{name} mixes the images of a batch: give it to Loader as batch_transforms=")
    array = _array_of(image, name)
    keeps_bytes = array.dtype == np.uint8 and not transform._makes_floats
    with (
        without_notices(),
        Loader(
            _source_of(array),
            1,
            transforms=[_compiled_form(transform)],
            num_threads=1,
            seed=_seed(),
            dtype="uint8" if keeps_bytes else None,
        ) as loader,
    ):
        made = next(iter(loader))[0]
        if isinstance(made, list):  # FiveCrop, TenCrop
            return tuple(_like(image, view[0].clone(), keeps_bytes) for view in made)
        return _like(image, made[0].clone(), keeps_bytes)


def _compiled_form(transform: Transform) -> Transform:
    """Returns the transform itself, or a copy without its __call__ if the user's subclass defines one, which a Loader refuses. Transform.__call__ then runs
    because the subclass's __call__ calls it."""
    kind = next(kind for kind in type(transform).__mro__ if kind.__call__ is Transform.__call__)
    if kind is type(transform):
        return transform
    made: Transform = object.__new__(kind)
    vars(made).update(vars(transform))
    return made


def _source_of(array: np.ndarray) -> Any:
    """Returns a source with this one image for a Loader: an array if it is uint8, a Dataset if it is float32, because a Loader refuses arrays of floats. Raises
    InvalidArgumentError for other types."""
    if array.dtype == np.uint8:
        return (array[None],)
    if array.dtype != np.float32:
        raise InvalidArgumentError(f"an image is uint8 or float32, not {array.dtype}")
    import torch

    return torch.utils.data.TensorDataset(torch.from_numpy(array).permute(2, 0, 1)[None])


def _like(image: Any, made: Any, keeps_bytes: bool) -> Any:
    """Returns the result of a transform as the kind of object that `image` is. made: the result, a tensor (C, H, W). For a PIL image, a tensor of floats
    (keeps_bytes is False) stays a tensor."""
    if isinstance(image, np.ndarray):
        return np.ascontiguousarray(made.permute(1, 2, 0).numpy())
    pil = sys.modules.get("PIL.Image")
    if pil is None or not isinstance(image, pil.Image) or not keeps_bytes:
        return made
    pixels = made.permute(1, 2, 0).numpy()
    return pil.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
