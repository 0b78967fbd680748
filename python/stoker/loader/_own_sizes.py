# SPDX-License-Identifier: Apache-2.0
"""Decides when the first batch is made whether batches hold lists of images, because the data set's images differ in size.

Batches hold lists if the transforms draw sizes, or if the transforms do not set the size and images of the data set differ. Which images are compared does not
depend on the order, the seed or the rank, so that all ranks and runs decide alike. Without other ranks, different sizes in the first batch also lead to lists.
With other ranks they raise an error, because each rank has another first batch. The decision holds for all batches and is part of states, so that a program
never gets a tensor from one batch and a list from the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from stoker import fn
from stoker.errors import StokerError
from stoker.loader._buckets import Size, size_of_file
from stoker.loader._dataset import DatasetSource, spread
from stoker.loader._kinds import LIST, MASK, Kind, lists_of
from stoker.loader._sources import FileSource
from stoker.loader._spec import Spec
from stoker.loader._tars import TarSource
from stoker.pipeline import Pipeline

_LOOKED_AT = 32  # the most files whose sizes are compared
_WHOLE = 16  # the most files whose sizes are compared if each must be read as a whole
_FOLDERS = 8  # the most class folders from which files are compared


def waveforms(shapes: Iterable[Sequence[int]], channels_last: bool) -> bool:
    """Returns whether an image has one row or one column. It is then probably a sound, for which lists are of no use. shapes: those of finished images."""
    first = 0 if channels_last else 1
    return any(1 in shape[first : first + 2] for shape in shapes)


def sizes_of(source: Any, classes: Sequence[str], spec: Spec, samples: int | None) -> list[Size]:
    """Returns the sizes of some images of a source, the same images on all ranks and in all runs. Returns [] if reading them would take too long: for remote
    folders, tables, streams, and tars without an index. samples: the number of samples of the data set."""
    if isinstance(source, DatasetSource):
        return source.sizes or []
    if isinstance(source, TarSource):
        if source.one_epoch or not samples:
            return []
        return _read(lambda more: source.parts(False, more)[0], {"indices": spread(samples, _WHOLE)}, spec)
    if not isinstance(source, FileSource):
        return []
    paths = None if source.paths is None else [source.paths[k] for k in spread(len(source.paths), _LOOKED_AT)]
    if paths is not None and any(b"://" in os.fsencode(path) for path in paths):
        return _read(lambda more: fn.readers.file(**more)[0], {"files": paths[:: max(1, len(paths) // _WHOLE)]}, spec)
    found = []
    for path in paths if paths is not None else _of_folder(source, classes):
        try:
            found.append(size_of_file(path, spec.orientation))
        except Exception:  # the file is bad; the pipeline reports that if it reads the file
            continue
    return found


def _read(reader: Callable[[dict[str, Any]], Any], arguments: dict[str, Any], spec: Spec) -> list[Size]:
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


def _of_folder(source: FileSource, classes: Sequence[str]) -> Iterator[str]:
    root = source.root
    if root is None or "://" in root or not classes:
        return
    chosen = spread(len(classes), _FOLDERS)
    for k in chosen:
        yield from islice(_files_under(os.path.join(root, classes[k]), source.endings), _LOOKED_AT // len(chosen))


def _files_under(folder: str, endings: Sequence[str]) -> Iterator[str]:
    for at, _, names in os.walk(folder):
        yield from (os.path.join(at, name) for name in names if name.rpartition(".")[2].lower() in endings)


def lists_for(source: Any, kinds: dict[str, Kind] | None) -> set[str]:
    """Returns the names of fields that become lists when the images do. For a DatasetSource, also calls its list_masks()."""
    found: dict[str, Kind] = dict(kinds or {})
    if isinstance(source, DatasetSource):
        found.update(zip(source.samples_of.names_of_parts(), source.samples_of.kinds or (), strict=False))
        source.list_masks()
    return lists_of({**found, "image": Kind(format=LIST)}) | {name for name, kind in found.items() if kind.name == MASK}
