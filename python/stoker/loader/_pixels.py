# SPDX-License-Identifier: Apache-2.0
"""The image of a Dataset's sample, as the pipeline takes it: the bytes of a file, or an array HWC of uint8, or of float32."""

from __future__ import annotations

import os
from typing import Any

from stoker._where import notice

_WAY_OUT = "Give the path or the file's bytes, or image.permute(1, 2, 0) of a tensor, image.transpose(1, 2, 0) of an array"

_CHANNELS = 4  # at most, of an image that is known by its extents


def looks_like_planes(shape: tuple[int, ...]) -> bool:
    """CHW, by its extents."""
    return shape[0] <= _CHANNELS < shape[2]


def is_array(image: Any) -> bool:
    return not isinstance(image, (bytes, bytearray, memoryview)) and image.ndim == 3


def pixels(value: Any) -> Any:
    """A path as the file's bytes; bytes as they are; arrays, tensors and PIL's images as arrays HWC. Floats stay floats, on the scale that they have."""
    if isinstance(value, (str, os.PathLike)):
        with open(value, "rb") as f:
            return f.read()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return value
    if hasattr(value, "ndim") and hasattr(value, "dtype"):
        return _of_tensor(value) if hasattr(value, "permute") else _of_array(value)
    if type(value).__module__.startswith("PIL."):
        return _of_pil(value)
    raise TypeError(
        f"the dataset gave {type(value).__name__} as an image: it is a path, bytes, an array or tensor of uint8 or of floats, or a PIL image"
    )


def _of_tensor(value: Any) -> Any:
    """One of torch's: planes (CHW) unless its extents say that it is HWC. Which of the outer dims are the channels has to be plain."""
    if value.ndim == 1:
        return value
    value = value.detach().cpu()
    value = value.float() if value.is_floating_point() else value
    if value.ndim == 3:
        few = [value.shape[d] <= _CHANNELS for d in (0, 2)]
        if few == [False, False] or (few == [True, True] and not value.is_floating_point()):
            raise TypeError(
                f"the dataset gave a tensor of the shape {tuple(value.shape)} as an image, which may be CHW as well as HWC: give an array, which is "
                "HWC: image.permute(1, 2, 0).numpy() of planes, image.numpy() of pixels"
            )
        value = value.permute(1, 2, 0) if few[0] else value
    return _of_array(value.numpy())


def _of_array(value: Any) -> Any:
    """uint8 or floats, HWC or, of gray ones, HW."""
    kind, bits = value.dtype.kind, value.dtype.itemsize * 8
    if kind != "f" and (kind, bits) != ("u", 8):
        raise TypeError(
            f"the dataset gave an image of type {value.dtype}, of which nobody knows the range: give uint8 (0 to 255), or float32 (0 to 1), "
            "as by (image / 65535).astype(np.float32) of 16 bits"
        )
    if value.ndim not in (2, 3) and not (value.ndim == 1 and kind == "u"):
        raise TypeError(f"the dataset gave an image of {value.ndim} dimensions: it is HWC, or HW where it is gray (or the bytes of a file)")
    if value.ndim == 3 and looks_like_planes(value.shape):
        raise TypeError(f"the dataset gave an image of the shape {tuple(value.shape)}, which looks like CHW: it is HWC. {_WAY_OUT}")
    if kind == "f":
        notice(
            "the dataset gives images of floats, on which crops, resizes and flips work, and which are not scaled again: return the path or the file's "
            "bytes, and all is done in C"
        )
        value = value.astype("float32", copy=False)
    return value[..., None] if value.ndim == 2 else value


def _of_pil(value: Any) -> Any:
    """RGB, as torchvision's loaders make it; of 16 bits rounded to 8, as those of files; of floats as they are."""
    import numpy as np

    if value.mode == "F":
        return _of_array(np.asarray(value))
    if value.mode == "I":
        raise TypeError(
            "the dataset gave a PIL image of the mode I, whole numbers of 32 bits, of which nobody knows the range: give "
            "np.asarray(image, np.float32) / maximum"
        )
    notice(
        "the dataset gives PIL images, which Python decodes one by one, and which are made RGB: return the path or the file's bytes, and it is done in C"
    )
    if value.mode.startswith("I;16"):
        notice("the dataset gives PIL images of 16 bits, which are rounded to 8: np.asarray(image, np.float32) / 65535 keeps them")
        gray = np.rint(np.asarray(value, np.float32) / 257).astype(np.uint8)
        return np.repeat(gray[..., None], 3, axis=2)
    return np.asarray(value.convert("RGB"))
