# SPDX-License-Identifier: Apache-2.0
"""Gives advice, for error messages, on a Dataset in whose samples the Loader did not find the image."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from stoker import _core
from stoker.loader import _fields

ELSEWHERE = "stoker.DataLoader takes Datasets of any other samples, with torch's arguments"
SOUNDS = (
    "a Dataset of sounds returns the path or the bytes of each file, for fields={'audio': Audio(...)}, as in doc/audio.md; waveforms that it decodes itself go "
    "through stoker.DataLoader, with the collate_fn that they have"
)
_CLIPS = (
    "a Loader makes clips itself, from the paths of videos, with fields={'clip': Video(frames=16)}; clips that a Dataset makes go through stoker.DataLoader, "
    "or follow an image as a target"
)
_ENDINGS = tuple(glob.removeprefix("*") for glob in _core.image_globs())


def _looks_like_image(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(_looks_like_image(one) for one in value)
    if hasattr(value, "dtype") and hasattr(value, "ndim"):
        return value.ndim == 3 and str(value.dtype).endswith(("uint8", "float16", "float32", "float64"))
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value).lower().endswith(_ENDINGS)
    return isinstance(value, (bytes, bytearray, memoryview)) or type(value).__module__.startswith("PIL.")


def _naming(kinds: Sequence[tuple[str, bool]]) -> str:
    return "fields={" + ", ".join(f"'{name}': {chr(39) + 'Image' + chr(39) if image else None}" for name, image in kinds) + "}"


def advice(parts: Sequence[Any]) -> str:
    """Returns advice to append to the error for a Dataset's first sample, if its first part was refused as an image; "" if there is no advice."""
    first = parts[0]
    index = next((k for k, part in enumerate(parts) if k and _looks_like_image(part)), 0)
    array = hasattr(first, "dtype") and hasattr(first, "ndim")
    if index and (not array or first.ndim < 2):
        named = _naming([("picture" if k == index else f"value{k}", k == index) for k in range(len(parts))])
        return (
            f"the first value of a sample is its image, unless fields names all values in order, and gives the kind 'Image' to one that is not called 'image'; "
            f"value {index} (counted from 0) looks like an image: {named}"
        )
    if array and first.ndim > 3:
        return _CLIPS
    if array and first.ndim == 1:
        return SOUNDS if "float" in str(first.dtype) else ELSEWHERE
    return "" if array or _looks_like_image(first) or isinstance(first, (list, tuple)) else ELSEWHERE


def advice_for_dict(sample: Mapping[Any, Any]) -> str:
    """Returns advice to append to the error for a sample that is a dict without an entry "image"."""
    names = [name for name in sample if _fields.is_name(name)]
    images = [name for name in names if _looks_like_image(sample[name])]
    if not images:
        return f"they hold no image; {ELSEWHERE}"
    return (
        f"fields says which one is the image: {_naming([(name, name == images[0]) for name in names])}. Crops and flips then apply to it, and to all others of "
        "the kind 'Image', which must have its size; collate_fn=lambda batch: batch._asdict() makes dicts of batches"
    )
