# SPDX-License-Identifier: Apache-2.0
"""Converts the image of a Dataset's sample to a form that the pipeline accepts: the bytes of a file, or a uint8 or float32 array of three dimensions."""

from __future__ import annotations

import os
import sys
from typing import Any

from stoker import _files
from stoker._arrays import narrowed, refuse_masked
from stoker._where import notice
from stoker.errors import safe_text
from stoker.loader._layout import Layout


def is_array(image: Any) -> bool:
    return not isinstance(image, (bytes, bytearray, memoryview)) and image.ndim == 3


def kind_of_image(value: Any) -> str:
    """Returns what an image is: "Image" for one of torchvision's tv_tensors, "Tensor" for another tensor, "array", or "PIL" for a PIL image or a file."""
    if not hasattr(value, "dtype") or not hasattr(value, "ndim"):
        return "PIL"
    if not hasattr(value, "permute"):
        return "array"
    tv_tensors = sys.modules.get("torchvision.tv_tensors")
    return "Image" if tv_tensors is not None and isinstance(value, tv_tensors.Image) else "Tensor"


def pixels(value: Any, layout: Layout, declared: bool = False) -> Any:
    """Converts an image. A path is read; bytes, also as an array of one dimension, are returned unchanged; other arrays, tensors and PIL images become
    arrays (three dimensions) in the layout `layout.common`. Floats keep their scale.

    declared: the user has declared the field as a map of floats, so no notice about floats is printed. Raises TypeError or ValueError for other values.
    """
    if hasattr(value, "dtype") and hasattr(value, "ndim"):
        tensor = hasattr(value, "permute")
        array = _of_array(on_cores(value) if tensor else value, declared)
        if array.ndim == 3:
            return layout.to_common(array, tensor)
        if array.ndim == 2:
            return layout.to_common_from(array[..., None], "HWC")
        layout.refuse("the bytes of a file")
        return array
    if isinstance(value, (str, os.PathLike)):
        layout.refuse("a path")
        if _files.is_uri(value):
            raise ValueError(
                f"the image is a URI, {safe_text(os.fsdecode(value))}, where a path on this machine or the bytes of a file are read; Loader reads URIs "
                "itself from a list of files, [(URI, target), ...]"
            )
        return _files.read_bytes(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        layout.refuse("the bytes of a file")
        return value
    if type(value).__module__.startswith("PIL."):
        layout.refuse("a PIL image")
        return layout.to_common_from(_of_pil(value), "HWC")
    if isinstance(value, (list, tuple)):
        raise TypeError(
            "the dataset gave an empty list of views, or a list inside of one: views are images in one list, as ([view, view], target)"
        )
    raise TypeError(
        f"the dataset gave {type(value).__name__} as an image: it is a path, bytes, an array or tensor of uint8 or of floats, or a PIL image"
    )


def numbers_of(value: Any) -> Any:
    """Converts a PIL image, or an array or tensor of at least two dimensions, to float32 without scaling. Other values, such as paths, are returned unchanged.
    Raises TypeError for an array of numbers that are not real, and ValueError for a number beyond float32."""
    import numpy as np

    if type(value).__module__.startswith("PIL."):
        value = np.asarray(value)
    if not hasattr(value, "dtype") or not hasattr(value, "ndim") or value.ndim < 2:
        return value
    refuse_masked(value)
    if hasattr(value, "permute"):
        made = value.float()
        if str(value.dtype) == "torch.float64":
            _in_float32(on_cores(value))  # raises an error for a number that float32 does not hold
        return made
    if value.dtype.kind not in "biuf":
        raise TypeError(f"a map of {value.dtype}: it holds real numbers, which become float32")
    return _in_float32(value)


def _in_float32(value: Any) -> Any:
    try:
        return narrowed(value, "float32")
    except OverflowError as e:
        raise ValueError(f"the dataset gave an image or a map with a number that is too large: {e}: scale its values") from None


def on_cores(value: Any) -> Any:
    """Converts a torch tensor to an array. Floats of fewer than 32 bits become float32, because NumPy lacks some of their types, such as bfloat16."""
    value = value.detach().resolve_neg().cpu()
    return (value.float() if value.is_floating_point() and value.element_size() < 4 else value).numpy()


def _instead(dtype: Any) -> str:
    """Returns advice for an image whose numbers are neither uint8 nor floats."""
    kind, bits = dtype.kind, dtype.itemsize * 8
    if kind == "b":
        return "give 0 and 255 as uint8; a mask is a field of its own, as in fields={'image': 'Image', 'mask': 'Mask'}"
    if kind == "c":
        return "give real numbers of float32, as np.abs(image).astype(np.float32), or both parts as channels"
    if kind not in "iu":
        return "give numbers of uint8 or float32"
    scale = f"(image / {2**bits - 1}).astype(np.float32) of {bits} bits" if kind == "u" else "(image / maximum).astype(np.float32)"
    kept = "" if bits != 16 else f". With fields={{'image': 'FloatMap', ...}} and dtype=torch.{dtype} the numbers stay as they are"
    return f"their value range is unknown: convert to uint8 if it is 0 to 255, by image.astype(np.uint8), else to float32 (0 to 1), as by {scale}{kept}"


def _of_array(value: Any, declared: bool = False) -> Any:
    """Returns an array as uint8 or float32. Raises TypeError or ValueError unless it holds pixels of uint8 or floats, in three dimensions or, for a gray image,
    in two; or the bytes of a file, in one dimension of uint8. declared: as in `pixels`."""
    refuse_masked(value)
    kind = value.dtype.kind
    if kind != "f" and (kind != "u" or value.dtype.itemsize != 1):
        raise TypeError(f"the dataset gave an image of type {value.dtype}: {_instead(value.dtype)}")
    if value.ndim not in (2, 3) and not (value.ndim == 1 and kind == "u"):
        raise TypeError(
            f"the dataset gave an image of the shape {tuple(value.shape)}: it has three dims, HWC or CHW, or two where it is gray, HW (one: the bytes "
            "of a file)"
        )
    if value.ndim > 1 and 0 in value.shape:
        raise ValueError(f"the dataset gave an image of the shape {tuple(value.shape)}, which has no pixels")
    if kind == "f" and not declared:
        notice(
            "the dataset gives images of floats, on which crops, resizes and flips work, and which are not scaled again: return the path or the file's "
            "bytes, and all is done in C"
        )
    return _in_float32(value) if kind == "f" else value


def _of_pil(value: Any) -> Any:
    """Returns a PIL image as an RGB array (H, W, 3). 16 bits are rounded to 8, as for files; mode F becomes one channel of floats; mode I is refused."""
    import numpy as np

    if value.mode == "F":
        return _of_array(np.asarray(value))[..., None]
    if value.mode == "I":
        raise TypeError(
            "the dataset gave a PIL image of the mode I, whole numbers of 32 bits, whose value range is unknown: give "
            "np.asarray(image, np.float32) / maximum"
        )
    notice(
        "the dataset gives PIL images, which Python decodes one by one, and which are made RGB: return the path or the file's bytes, and it is done in C"
    )
    if value.mode.startswith("I;16"):
        notice("the dataset gives PIL images of 16 bits, which are rounded to 8: np.asarray(image, np.float32) / 65535 keeps them")
        gray = np.rint(np.asarray(value, np.float32) / 257).astype(np.uint8)
        return np.repeat(gray[..., None], 3, axis=2)
    return _of_array(np.asarray(value.convert("RGB")))
