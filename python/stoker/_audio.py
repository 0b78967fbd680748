# SPDX-License-Identifier: Apache-2.0
"""audioread and audiodecode: the samples of one sound file as an array, for the code of a data set."""

from __future__ import annotations

import math
import os
from typing import TYPE_CHECKING, Any

from stoker import _core
from stoker._types import DALIDataType
from stoker.errors import ArgumentError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_TYPES = {"float32": DALIDataType.FLOAT, "int16": DALIDataType.INT16, "int32": DALIDataType.INT32}


def _frames(name: str, seconds: float, rate: int) -> int:
    if not isinstance(seconds, (int, float)) or not math.isfinite(seconds) or seconds < 0:
        raise ArgumentError(f"{name} is a number of seconds from 0 on, not {seconds!r}")
    return round(seconds * rate)


def _decode(
    path: bytes | None, data: Any, start: float, duration: float | None, mono: bool, dtype: str, strict: bool
) -> tuple[npt.NDArray[Any], int]:
    if dtype not in _TYPES:
        raise ArgumentError(f"dtype is one of {', '.join(_TYPES)}, not {dtype!r}")
    file = _core.AudioFile(path, data, strict)
    _, _, rate, channels, _, frames, _ = file.info()
    first = _frames("start", start, rate)
    if first > frames:
        raise ArgumentError(f"start is {start:g} s; the file ends at {frames / rate:g} s")
    count = frames - first if duration is None else min(_frames("duration", duration, rate), frames - first)
    import numpy as np

    made = np.empty((count,) if mono else (count, channels), dtype)
    file.read(first, count, int(_TYPES[dtype]), mono, made)
    return made, rate


def audioread(
    path: str | os.PathLike[str],
    *,
    start: float = 0.0,
    duration: float | None = None,
    mono: bool = False,
    dtype: str = "float32",
    strict: bool = True,
) -> tuple[npt.NDArray[np.float32 | np.int16 | np.int32], int]:
    """Returns the samples in a sound file, and its rate in Hz: an array with the axes frames, channels; or with the axis frames if mono is True.

    start, duration: the window to decode, in seconds; it ends with the file at the latest. Of a local file only this window is read.
    mono: the mean of the channels.
    dtype: "float32" (-1 <= x < 1), "int16" or "int32".
    strict: a file that was cut off is an error; with strict=False its samples are decoded as far as they go.

    Decodes WAV without the GIL: threads decode side by side.
    """
    return _decode(os.fsencode(path), None, start, duration, mono, dtype, strict)


def audiodecode(
    data: Any,
    *,
    start: float = 0.0,
    duration: float | None = None,
    mono: bool = False,
    dtype: str = "float32",
    strict: bool = True,
) -> tuple[npt.NDArray[np.float32 | np.int16 | np.int32], int]:
    """Returns the samples in a sound file's bytes (bytes, an array or a tensor of uint8), as audioread gives them."""
    if type(data).__module__.partition(".")[0] == "torch":
        data = data.numpy()
    return _decode(None, data, start, duration, mono, dtype, strict)
