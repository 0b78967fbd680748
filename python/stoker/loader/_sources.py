# SPDX-License-Identifier: Apache-2.0
"""What a Loader can read from: folders, lists of files, CIFAR's binary files, ImageFolder."""

from __future__ import annotations

import os
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker import _core, fn
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError
from stoker.loader import _fields, _targets
from stoker.loader._finish import Finishing, by_value
from stoker.loader._lower import Image
from stoker.loader._spec import Spec

# Endings that torchvision's ImageFolder takes, of images that this build decodes.
IMAGE_ENDINGS = tuple(
    ending for ending in ("jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp") if _core.image_named(f".{ending}")
)


class Source:
    """Builds the nodes of a graph: the finished images first, then a label and what else a sample has."""

    targets = 1  # nodes behind the image
    finishing = Finishing()  # once `nodes` was called
    one_epoch = False  # `nodes` reads one epoch; those that follow take other nodes, and its number of samples is known when it ends

    def fields(self, names: tuple[str, ...] | None) -> dict[str, int | None]:
        """The batch's fields and the output of each; before the first batch, but not before `nodes`."""
        return _fields.of_folder(names)

    def nodes(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[DataNode]:
        raise NotImplementedError

    def settle(self, spec: Spec, own_order: bool) -> None:
        """What is to be read is known: before the first `nodes`."""

    def index(self) -> None:
        """Of one epoch: what is read from here on is as in all other epochs."""
        raise NotImplementedError

    def count(self, spec: Spec) -> int:
        """Samples of the data, of a source of one epoch."""
        raise NotImplementedError

    def close(self) -> None:
        """No more batches are wanted."""


class FileSource(Source):
    """Files in a folder of class folders, or listed with their targets; targets that have names stand in a table of their own each."""

    def __init__(self, root: str | None, paths: Sequence[Any] | None, targets: Sequence[Any] | Mapping[str, Sequence[Any]] | None) -> None:
        self.root, self.paths = root, paths
        self.labels: Sequence[int] | None = None
        self.columns: tuple[str, ...] | None = None
        if isinstance(targets, Mapping):
            self.columns = tuple(targets)
            self.labels = range(len(paths or ()))
            self.finishing = Finishing({name: by_value(_targets.table(values)) for name, values in targets.items()})
        elif targets is not None:
            self.labels, finish = _targets.of_list(targets)
            self.finishing = Finishing({"label": by_value(finish)} if finish else {})

    def fields(self, names: tuple[str, ...] | None) -> dict[str, int | None]:
        return _fields.of_folder(names) if self.columns is None else _fields.of_table(names, self.columns)

    def nodes(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[DataNode]:
        where: dict[str, Any] = {"file_root": self.root, "file_filters": [f"*.{ending}" for ending in IMAGE_ENDINGS], "nested": True}
        if self.paths is not None:
            where = {"files": self.paths}
            if self.labels is not None:
                where["labels"] = self.labels
        data, label = fn.readers.file(**where, **spec.reader_arguments(indices, per_rank))
        first, *others = spec.finished(Image(spec.decode(data), None))
        return [first, spec.label(label), *others]

    def __repr__(self) -> str:
        return self.root if self.root is not None else f"{len(self.paths or ())} files"


class CifarSource(Source):
    """CIFAR-10 or CIFAR-100, the binary version."""

    def __init__(self, root: str, split: str) -> None:
        self.root, self.split = root, split

    def nodes(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[DataNode]:
        image, label, *_ = fn.readers.cifar(root=self.root, split=self.split, **spec.reader_arguments(indices, per_rank))
        first, *others = spec.finished(Image(spec.upload(image), (32, 32)))
        return [first, spec.label(label), *others]

    def __repr__(self) -> str:
        return f"{self.root} ({self.split})"


def is_cifar(folder: Path) -> bool:
    """Whether a folder, or one that the archive unpacks to, holds CIFAR's binary files."""
    names = ("data_batch_1.bin", "test_batch.bin", "train.bin", "test.bin")
    places = [folder, folder / "cifar-10-batches-bin", folder / "cifar-100-binary"]
    return any((p / n).is_file() for p in places for n in names)


def from_folder(folder: str, split: str) -> Source:
    if is_cifar(Path(folder)):
        return CifarSource(folder, split)
    if split != "train":
        raise InvalidArgumentError(
            f"Loader: split={split!r} is of CIFAR's binary files; {folder} has none: give the folder of the split itself"
        )
    return FileSource(folder, None, None)


def from_list(source: Sequence[Any]) -> Source:
    """[(path, target), ...], [path, ...] or ([path, ...], [target, ...])."""
    if not source:
        raise InvalidArgumentError("the list of samples is empty")
    if (
        isinstance(source, tuple)
        and len(source) == 2
        and all(hasattr(part, "__len__") and not isinstance(part, (str, bytes)) for part in source)
    ):
        paths, targets = source
        if len(paths) != len(targets):
            raise InvalidArgumentError(f"there are {len(paths)} paths and {len(targets)} targets")
        return FileSource(None, _paths(paths), list(targets))
    if all(isinstance(s, (str, bytes, os.PathLike)) for s in source):
        return FileSource(None, _paths(source), None)
    if all(isinstance(s, (list, tuple)) and len(s) == 2 for s in source):
        return FileSource(None, _paths([s[0] for s in source]), [s[1] for s in source])
    raise InvalidArgumentError("a list of samples holds paths, or pairs of a path and a target")


def _paths(paths: Sequence[Any]) -> list[Any]:
    for p in paths:
        if hasattr(p, "ndim"):
            raise InvalidArgumentError(
                "a list of samples holds paths: images in memory are one array, as (np.stack(images), targets), or a Dataset's"
            )
        if not isinstance(p, (str, bytes, os.PathLike)):
            raise InvalidArgumentError(f"a path is a string, not {p!r}")
    return [os.fspath(p) for p in paths]
