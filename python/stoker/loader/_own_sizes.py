# SPDX-License-Identifier: Apache-2.0
"""Decides, before the first batch is handed out, whether the images of all batches come as a list because the data set's images differ in size.

They do if the transforms leave it to the images, and if those of the first batch differ, or some of the files of the data set. The decision holds for all
batches, and a state saves it, so that a program never gets a tensor from one batch and a list from the next.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from stoker import transforms as T
from stoker.loader._buckets import Size, size_of_file
from stoker.loader._dataset import DatasetSource
from stoker.loader._follow import resized
from stoker.loader._kinds import LIST, MASK, Kind, lists_of
from stoker.loader._lower import Recipe, calls_function
from stoker.loader._sources import FileSource

_LOOKED_AT = 32  # files whose sizes are compared
_FOLDERS = 8  # class folders in which files are looked at

_FIXED = (T.RandomResizedCrop, T.CenterCrop, T.RandomCrop, T.FixedSizeCrop)
_DRAWN = (T.RandomIoUCrop, T.RandomZoomOut, T.RandomResize, T.RandomShortestSize, T.ScaleJitter)


def fixed(recipe: Recipe) -> bool:
    """Returns whether the transforms give all images one size, whatever sizes they come with."""
    return any(isinstance(t, _FIXED) or (isinstance(t, T.Resize) and isinstance(t.size, tuple)) for t in recipe.steps)


def waveforms(shapes: Iterable[Sequence[int]], channels_last: bool) -> bool:
    """Returns whether finished images have one row or one column, and so are probably sounds, of which a list would be of no use."""
    first = 0 if channels_last else 1
    return any(1 in shape[first : first + 2] for shape in shapes)


def differ(recipe: Recipe, sizes: Iterable[Size]) -> bool:
    """Returns whether images of these sizes surely have different sizes after the transforms."""
    if fixed(recipe) or recipe.tail or any(isinstance(t, _DRAWN) or calls_function(t) for t in recipe.steps):
        return False
    found = set(sizes)
    for t in recipe.steps:
        if isinstance(t, T.Resize) and isinstance(t.size, int):
            found = {resized(size, t.size, t.max_size) for size in found}
    return len(found) > 1


def sizes_of(source: Any, classes: Sequence[str], oriented: bool) -> list[Size]:
    """Returns the sizes of some images of a source of local files, from their headers; none for other sources, whose samples would have to be made."""
    if not isinstance(source, FileSource):
        return []
    found = []
    for path in _of_list(source.paths) if source.paths is not None else _of_folder(source, classes):
        try:
            found.append(size_of_file(path, oriented))
        except Exception:  # a bad file, which the pipeline reports if it comes to it
            continue
    return found


def _of_list(paths: Sequence[Any]) -> list[Any]:
    count = min(_LOOKED_AT, len(paths))
    chosen = [paths[k * (len(paths) - 1) // max(1, count - 1)] for k in range(count)]
    return [path for path in chosen if b"://" not in os.fsencode(path)]


def _of_folder(source: FileSource, classes: Sequence[str]) -> Iterator[str]:
    root = source.root
    if root is None or "://" in root or not classes:
        return
    count = min(_FOLDERS, len(classes))
    for k in range(count):
        folder = os.path.join(root, classes[k * (len(classes) - 1) // max(1, count - 1)])
        yield from islice(_files_under(folder, source.endings), _LOOKED_AT // count)


def _files_under(folder: str, endings: Sequence[str]) -> Iterator[str]:
    for at, _, names in os.walk(folder):
        yield from (os.path.join(at, name) for name in names if name.rpartition(".")[2].lower() in endings)


def lists_for(source: Any, kinds: dict[str, Kind] | None) -> set[str]:
    """Returns the names of the fields that become lists with the images."""
    found: dict[str, Kind] = dict(kinds or {})
    if isinstance(source, DatasetSource):
        found.update(zip(source.samples_of.names_of_parts(), source.samples_of.kinds or (), strict=False))
        source.list_masks()
    return lists_of({**found, "image": Kind(format=LIST)}) | {name for name, kind in found.items() if kind.name == MASK}
