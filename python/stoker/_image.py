# SPDX-License-Identifier: Apache-2.0
"""imread and imdecode: one image as an array, for the code of a data set."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from stoker import _core
from stoker._types import DALIImageType
from stoker.errors import ArgumentError, ShapeError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class _Decoders(threading.local):
    """One for each thread: its tables and memory serve the next image."""

    def __init__(self) -> None:
        self.decoder = _core.ImageDecoder()


_decoders = _Decoders()
_TYPES = {member.name.upper(): int(member) for member in DALIImageType}


def _memory(out: Any, shape: tuple[int, ...]) -> Any:
    """The caller's array or tensor as memory for an image of this shape."""
    array = out.numpy() if type(out).__module__.partition(".")[0] == "torch" else out
    if str(getattr(array, "dtype", None)) != "uint8" or not hasattr(array, "flags"):
        raise ArgumentError(
            f"out is an array or a tensor of uint8 in host memory, not {type(out).__name__} of {getattr(out, 'dtype', 'another type')}"
        )
    if tuple(array.shape) != shape or not array.flags.c_contiguous:
        raise ShapeError(f"out has the shape {tuple(array.shape)}; it must be C-contiguous with shape {shape}")
    return array


def _decode(path: Any, data: Any, out: Any, output_type: Any, adjust_orientation: bool, strict: bool) -> Any:
    kind = _TYPES.get(output_type.upper()) if isinstance(output_type, str) else int(output_type)
    if kind is None:
        raise ArgumentError(f"output_type is one of {', '.join(m.name for m in DALIImageType)}, not {output_type!r}")
    decoder = _decoders.decoder
    shape = decoder.open(path, data, kind, not adjust_orientation, strict)
    if out is None:
        import numpy as np

        made = np.empty(shape, np.uint8)
        decoder.read(made)
        return made
    decoder.read(_memory(out, shape))
    return out


def imread(
    path: str | os.PathLike[str],
    out: Any = None,
    *,
    output_type: DALIImageType | str = "RGB",
    adjust_orientation: bool = True,
    strict: bool = True,
) -> npt.NDArray[np.uint8]:
    """The image in a file, as an array of uint8 with the axes height, width, channels.

    out: an array, or a tensor of torch's, of that shape and type to decode into; it is returned then.
    output_type: types.RGB, BGR, GRAY, YCbCr, or ANY_DATA for the file's own channels; or such a name.
    adjust_orientation: turns the image as its EXIF data says.
    strict: a file that was cut off, and damage that libjpeg-turbo only warns about, is an error. With strict=False such a file is decoded as far
    as possible: missing rows of a JPEG are gray.

    Decoded by Stoker, whatever the file's name says, without the GIL: threads decode side by side.
    """
    return _decode(os.fsencode(path), None, out, output_type, adjust_orientation, strict)


def imdecode(
    data: Any,
    out: Any = None,
    *,
    output_type: DALIImageType | str = "RGB",
    adjust_orientation: bool = True,
    strict: bool = True,
) -> npt.NDArray[np.uint8]:
    """The image in a file's bytes (bytes, an array or a tensor of uint8), as imread gives it."""
    if type(data).__module__.partition(".")[0] == "torch":
        data = data.numpy()
    return _decode(None, data, out, output_type, adjust_orientation, strict)
