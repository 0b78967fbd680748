# SPDX-License-Identifier: Apache-2.0
"""Reads the heights and widths of images without decoding them, for bucket_by and to decide whether batches hold lists of images.

Batches hold lists if the transforms draw sizes, or if the transforms do not set the size and images of the data set differ. Which images are compared does not
depend on the order, the seed or the rank, so that all ranks and runs decide alike. Without other ranks, different sizes in the first batch also lead to lists.
With other ranks, different sizes raise an error, because each rank has another first batch. The decision holds for all batches and is part of states, so that
a program never gets a tensor from one batch and a list from the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any, BinaryIO

from stoker import _core, _files, fn
from stoker._progress import counted
from stoker.errors import InvalidArgumentError, StokerError
from stoker.loader._spec import Spec
from stoker.pipeline import Pipeline

_HEAD = 64 << 10  # number of bytes to read from the start of a file; nearly every image header fits in them
ADVICE = "give bucket_by a list with one key for each sample, as [height // 64 for height in heights]"
WHOLE = 16  # number of images whose sizes are compared if their whole files have to be read, as from a store

Size = tuple[int, int]  # height, width


def spread(total: int, most: int) -> list[int]:
    """Returns up to `most` of the numbers 0 .. total - 1, evenly spread, with the first and the last."""
    count = min(most, total)
    return [k * (total - 1) // max(1, count - 1) for k in range(count)]


def _may_be_turned(file: BinaryIO, header: dict[str, Any]) -> bool:
    """Returns whether bytes of the file after its first 64 KiB may change the size, since they may turn the image. Of a PNG, only the names of its chunks are
    read: its pixels are most of it."""
    if header["height"] == header["width"]:
        return False
    if header["format"] != "png":
        return True
    file.seek(8)
    while len(chunk := file.read(8)) == 8 and chunk[4:] not in (b"eXIf", b"IEND"):
        file.seek(int.from_bytes(chunk[:4], "big") + 4, os.SEEK_CUR)
    return chunk[4:] != b"IEND"


def size_of_file(path: Any, oriented: bool) -> Size:
    if _files.is_uri(path):
        raise InvalidArgumentError(f"bucket_by: the sizes of objects in a store are not read before the images: {ADVICE}")
    try:
        with _files.open_binary(path) as f:
            data = f.read(_HEAD)
            header = _core.image_header(data)
            whole = len(data) < _HEAD or not (oriented and header["partial"] and _may_be_turned(f, header))
    except (OSError, StokerError):  # the header may be longer; below, an error is raised if the file cannot be read or is not an image
        whole = False
    if not whole:
        header = _core.image_header(_files.read_bytes(path))
    height, width = int(header["height"]), int(header["width"])
    return (width, height) if oriented and header["orientation"] > 4 else (height, width)


def measured(measure: Callable[[Any], Size], items: Iterable[Any], total: int) -> list[Size]:
    """Returns measure(item) for each item, for bucket_by. total: number of items."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(16) as pool:
        return list(counted(pool.map(measure, items), "bucket_by: reading sizes", total))


def sizes_of_files(paths: Sequence[Any], oriented: bool, bad_may_pass: bool) -> list[Size]:
    """Returns the size of each image, for bucket_by. bad_may_pass: whether the Loader leaves out or replaces bad samples. A file that is missing or is no image
    then counts as an image of 1x1 pixel, since the pipeline reports the fault when it reads the file; otherwise this raises an error with the file's name."""

    def size_of(path: Any) -> Size:
        try:
            return size_of_file(path, oriented)
        except InvalidArgumentError:
            raise
        except (OSError, StokerError) as e:
            if bad_may_pass:
                return 1, 1
            if isinstance(e, StokerError):
                e.args = (f"{os.fsdecode(path)}: {e}",)
            raise

    return measured(size_of, paths, len(paths))


def sizes_read(reader: Callable[[dict[str, Any]], Any], arguments: dict[str, Any], spec: Spec) -> list[Size]:
    """Reads samples with a separate pipeline, and returns the sizes of their images; [] if that fails. arguments: the arguments with which the reader selects
    the samples."""
    count = len(next(iter(arguments.values())))
    pipe = Pipeline(count, num_threads=1, storage=spec.settings.get("storage"), on_error="skip", max_errors=count)
    try:
        with pipe:
            pipe.set_outputs(fn.peek_image_shape(reader({**arguments, "name": "Reader"}), adjust_orientation=spec.orientation))
        (shapes,) = pipe.run()
        return [(height, width) for height, width, _ in shapes.as_array().tolist()]
    except StokerError:  # bad samples, or a store that does not answer, which the Loader's own pipeline reports
        return []
    finally:
        pipe.close()


def waveforms(shapes: Iterable[Sequence[int]], channels_last: bool) -> bool:
    """Returns whether an image has one row or one column. It is then probably a sound, for which lists are of no use. shapes: the shapes of finished images."""
    first = 0 if channels_last else 1
    return any(1 in shape[first : first + 2] for shape in shapes)
