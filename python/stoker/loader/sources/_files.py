# SPDX-License-Identifier: Apache-2.0
"""The sources for folders, lists of files, and CIFAR's binary files."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from pathlib import Path
from typing import Any

from stoker import _core, _files, _same_data, fn
from stoker._where import notice
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError, StateError
from stoker.loader import _fields, _targets
from stoker.loader._spec import DatasetArguments, Spec
from stoker.loader.batches._finish import Finishing, by_value
from stoker.loader.lower import Image
from stoker.loader.sources._dataset import DatasetSource
from stoker.loader.sources._image_sizes import WHOLE, Size, size_of_file, sizes_of_files, sizes_read, spread
from stoker.loader.sources._source import Source
from stoker.pipeline import Pipeline

_LOOKED_AT = 32  # the most files whose sizes are compared
_FOLDERS = 8  # the most class folders from which files are compared

# Endings of the files that this build of the library can decode as images.
IMAGE_ENDINGS = tuple(glob.removeprefix("*.") for glob in _core.image_globs())
# _SPLITS: usual names of splits. _FEW: the most entries of a folder that are examined to find out whether it has a subfolder.
_SPLITS, _FEW = frozenset(("train", "training", "val", "valid", "validation", "test", "testing")), 100


class FileSource(Source):
    """Reads files from a folder of class folders (root), or from a list (paths). targets: a list with one target for each path, or a dict from fields to such
    lists; None: there are no targets."""

    holds = "image"  # the name of the files' contents in messages
    endings = IMAGE_ENDINGS  # of a folder, only files with these endings are read
    targets_of: Any = None
    _digested: dict[str, str] | None = None  # the result of _digests, from its first call on

    def __init__(self, root: str | None, paths: Sequence[Any] | None, targets: Sequence[Any] | Mapping[str, Sequence[Any]] | None) -> None:
        self.root, self.paths, self.targets_of = root, paths, targets
        self.labels: Sequence[int] | None = None
        self.columns: tuple[str, ...] | None = None
        self._arguments = DatasetArguments()
        tables: dict[str, Callable[[Any], Any]] = {}
        if isinstance(targets, Mapping):
            self.columns = tuple(targets)
            self.labels = range(len(paths or ()))
            tables = {name: _targets.table(values) for name, values in targets.items()}
        elif targets is not None:
            self.labels, finish = _targets.of_list(targets)
            tables = {"label": finish} if finish else {}
        self.finishing = Finishing({name: by_value(table) for name, table in tables.items()})
        self._shapes = {name: _targets.shape_of(table) for name, table in tables.items()}

    def check_kinds(self, arguments: DatasetArguments) -> None:
        super().check_kinds(arguments)
        self._arguments = arguments

    def column_names(self) -> Collection[str]:
        return self.columns or ()

    def fields(self, names: tuple[str, ...] | None) -> dict[str, int | None]:
        return _fields.of_folder(names) if self.columns is None else _fields.of_table(names, self.columns)

    def nodes(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[DataNode]:
        if spec.moves:
            self._check_targets()
        data, label = fn.readers.file(**self._where(), **spec.reader_arguments(indices, per_rank))
        first, *others = spec.finished(spec.image(data))
        return [first, spec.label(label), *others]

    def _check_targets(self) -> None:
        """Raises InvalidArgumentError for a target with the shape of a mask or of boxes whose kind the user did not give: it may have to follow its image,
        which transforms move."""
        names, kinds = self._arguments.names, self._arguments.kinds or {}
        for name, shape in self._shapes.items():
            if len(shape) >= 2 and name not in kinds and (names is None or name in names):
                raise InvalidArgumentError(
                    f"the target {name!r} of a file has the shape {shape}: a mask, boxes or points would have to follow the crops and flips of the image. Say "
                    f"what it is, as in fields={{'image': 'Image', {name!r}: 'Mask'}} (or 'BoundingBoxes', 'KeyPoints'; None: it is taken as it is)"
                )

    def split_of(self, classes: Sequence[str]) -> str | None:
        """Returns the path of the split that the user probably meant, if all classes have names of splits, such as train and val, and hold folders. Returns
        None otherwise."""
        if self.root is None or _files.is_uri(self.root) or len(classes) < 2 or not _SPLITS.issuperset(classes):
            return None
        try:
            for name in classes:
                with os.scandir(os.path.join(self.root, name)) as entries:
                    if not any(entry.is_dir() for entry in islice(entries, _FEW)):
                        return None
        except OSError:  # the root is not a folder of class folders; it may be an index that lists the files
            return None
        return os.path.join(self.root, next((name for name in classes if name.startswith("train")), classes[0]))

    def _where(self) -> dict[str, Any]:
        """Returns the arguments with which a reader finds the files."""
        if self.paths is None:
            return {"file_root": self.root, "file_filters": [f"*.{ending}" for ending in self.endings], "nested": True}
        return {"files": self.paths} if self.labels is None else {"files": self.paths, "labels": self.labels}

    def by_batches(self, arguments: DatasetArguments) -> Source:
        return super().by_batches(arguments) if self.paths is None else _FilesByIndexSource(FilesByIndex(self), arguments)

    def saved(self, spec: Spec) -> dict[str, Any]:
        return {"targets": self._digests()} if self._digests() else {}

    def check_targets(self, digests: Mapping[str, str]) -> None:
        now = self._digests()
        for name, digest in digests.items():
            if now.get(name, digest) != digest:
                raise StateError(f"the state is of the same files with other values of {name!r}: {_same_data.WAY_OUT}")

    def _digests(self) -> dict[str, str]:
        """Returns digests of the targets that the library does not know, because its labels are numbers of rows."""
        if self._digested is None:
            given = self.targets_of
            columns = (
                given if isinstance(given, Mapping) else {} if given is None or _targets.of_list(given)[1] is None else {"label": given}
            )
            self._digested = {name: _same_data.digest_of_targets(values) for name, values in columns.items()}
        return self._digested

    def image_sizes(self, oriented: bool, bad_may_pass: bool) -> list[Size]:
        if self.paths is None:
            raise InvalidArgumentError(
                "bucket_by: of a folder give torchvision's ImageFolder(folder), or a list of (path, target), whose files are known"
            )
        return sizes_of_files(self.paths, oriented, bad_may_pass)

    def some_sizes(self, spec: Spec, samples: Callable[[], int | None], classes: Callable[[], list[str]]) -> Iterable[Size]:
        paths = None if self.paths is None else [self.paths[k] for k in spread(len(self.paths), _LOOKED_AT)]
        if paths is not None and any(b"://" in os.fsencode(path) for path in paths):
            return sizes_read(lambda more: fn.readers.file(**more)[0], {"files": paths[:: max(1, len(paths) // WHOLE)]}, spec)
        found = []
        for path in paths if paths is not None else self._some_files(classes()):
            try:
                found.append(size_of_file(path, spec.orientation))
            except Exception:  # the file is bad; the pipeline reports that if it reads the file
                continue
        return found

    def _some_files(self, classes: Sequence[str]) -> Iterator[str]:
        """Yields the paths of the first files of some class folders. First means first by name, because the order in which the system lists files may differ
        between copies of a folder, and so between ranks. Yields nothing if the folder is remote."""
        if self.root is None or "://" in self.root:
            return
        chosen = spread(len(classes), _FOLDERS)
        for k in chosen:
            yield from islice(self._by_name(os.path.join(self.root, classes[k])), _LOOKED_AT // len(chosen))

    def _by_name(self, folder: str) -> Iterator[str]:
        """Yields the paths of the files in a folder and its subfolders, at most the first _LOOKED_AT of each."""
        for at, folders, names in os.walk(folder):
            folders.sort()
            yield from (os.path.join(at, name) for name in nsmallest(_LOOKED_AT, filter(self._reads, names)))

    def _reads(self, name: str) -> bool:
        return "." in name and name.rpartition(".")[2].lower() in self.endings

    def notice_left_out(self, pipe: Pipeline, classes: Callable[[], list[str]]) -> None:
        """Prints notices about files of the folder that are not read, and about splits or a hidden folder that count as classes, probably by accident."""
        if self.root is None:
            return
        count, text = pipe._running().skipped(None)
        if count:
            notice(f"{self.root}: skipped {text}")
        if (split := self.split_of(names := classes())) is not None:
            notice(
                f"{self.root}: its classes are {', '.join(names)}, as with ImageFolder: did you mean {split}, whose folders would be the classes?"
            )
        if names != sorted(names):  # Python sorts bytes that are not UTF-8 before U+E000
            odd = next(name for name in names if any("\udc80" <= c <= "\udcff" for c in name))
            notice(
                f"{self.root}: the class {os.fsencode(odd)!r} has a name that is not UTF-8; classes are in the order of their bytes, and ImageFolder numbers "
                "these otherwise: Loader(ImageFolder(folder), ...) has its labels"
            )
        hidden = [name for name in names if name.startswith(".")]
        if hidden:
            notice(
                f"{self.root}: the hidden folder {hidden[0]} holds {self.holds}s and counts as a class, as with ImageFolder: remove it if it is none"
            )

    def __repr__(self) -> str:
        return self.root if self.root is not None else f"{len(self.paths or ())} files"


class FilesByIndex:
    """The files of a FileSource as a map-style Dataset, for orders that readers do not support."""

    def __init__(self, files: FileSource) -> None:
        self.paths, self.targets = files.paths or (), files.targets_of

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> Any:
        if isinstance(self.targets, Mapping):
            return {"image": self.paths[i], **{name: values[i] for name, values in self.targets.items()}}
        return (self.paths[i],) if self.targets is None else (self.paths[i], self.targets[i])


class _FilesByIndexSource(DatasetSource):
    unchanging = True

    def _make_digest(self) -> str:
        targets = self.dataset.targets
        columns = [] if targets is None else list(targets.values()) if isinstance(targets, Mapping) else [targets]
        return _same_data.digest_of_pairs(self.dataset.paths, [value for column in columns for value in _same_data.some_of(column)])


# For each split and data set, CIFAR-10 and CIFAR-100: the first file of images, the file with the names of the classes, and their number.
_FIRST_AND_NAMES = {
    "train": (("data_batch_1.bin", "batches.meta.txt", 10), ("train.bin", "fine_label_names.txt", 100)),
    "test": (("test_batch.bin", "batches.meta.txt", 10), ("test.bin", "fine_label_names.txt", 100)),
}


class CifarSource(Source):
    """Reads CIFAR-10 or CIFAR-100 in the binary version."""

    def __init__(self, root: str, split: str) -> None:
        self.root, self.split = root, split

    def nodes(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[DataNode]:
        image, label, *_ = fn.readers.cifar(root=self.root, split=self.split, **spec.reader_arguments(indices, per_rank))
        first, *others = spec.finished(Image(spec.upload(image), (32, 32)))
        return [first, spec.label(label), *others]

    def class_names(self, ready: Callable[[], Pipeline]) -> list[str]:
        """Returns the lines of the text of names that lies next to the binary files; [] without one, or with another number of names."""
        for folder in _places_of_cifar(Path(self.root)):
            for first, text, count in _FIRST_AND_NAMES[self.split]:
                if os.path.isfile(folder / first):
                    try:
                        names = _files.read_text(folder / text).split()
                    except (OSError, ValueError):
                        return []
                    return names if len(names) == count else []
        return []

    def __repr__(self) -> str:
        return f"{self.root} ({self.split})"


def _places_of_cifar(folder: Path) -> list[Path]:
    """Returns the folders in which CIFAR's binary files may lie: the folder, and the subfolders that CIFAR's archives create."""
    return [folder, folder / "cifar-10-batches-bin", folder / "cifar-100-binary"]


_RECORDS = "TFRecord files are read by fn.readers.tfrecord in a Pipeline, which Loader takes as its source"
_HDF5 = "give a Dataset whose __getitem__ takes the samples out of it, as with h5py"
_JSON = "a manifest of sounds is read with fields={'audio': stoker.Audio()}, annotations of COCO by fn.readers.coco; for others give a list of (path, target)"
_INDEX = b"STKINDEX"  # the first bytes of an index (src/format/index_format.h)
# For endings of files that hold samples, but are no source of a Loader: what reads them.
_OTHER_FILES = {
    ".h5": _HDF5,
    ".hdf5": _HDF5,
    ".json": _JSON,
    ".jsonl": _JSON,
    ".npy": "give the array itself: Loader((numpy.load(path), targets), ...)",
    ".npz": "give its arrays themselves: Loader((arrays['x'], arrays['y']), ...) with arrays = numpy.load(path)",
    ".tfrecord": _RECORDS,
    ".tfrecords": _RECORDS,
    ".zip": "unpack it, and give the folder",
}


def is_cifar(folder: Path) -> bool:
    """Returns whether a folder, or a subfolder that CIFAR's archive creates, contains CIFAR's binary files."""
    names = ("data_batch_1.bin", "test_batch.bin", "train.bin", "test.bin")
    return any(os.path.isfile(p / n) for p in _places_of_cifar(folder) for n in names)


def _is_index(path: str) -> bool:
    """Returns whether a file may be an index of a folder: `stoker index` writes it under any name. The reader reports a file that cannot be read."""
    try:
        with _files.open_binary(path) as file:
            return file.read(len(_INDEX)) == _INDEX
    except OSError:
        return True


def from_folder(folder: str, split: str) -> Source:
    """Opens a folder of images, or of CIFAR's binary files, which have splits."""
    if is_cifar(Path(folder)):
        return CifarSource(folder, split)
    ending = os.path.splitext(folder)[1].lower()
    if ending in _OTHER_FILES and os.path.isfile(folder) and not _is_index(folder):
        raise InvalidArgumentError(f"Loader: {folder}: a file, not a folder of class folders; {_OTHER_FILES[ending]}")
    return FileSource(folder, None, None)


def table_error(source: Any) -> InvalidArgumentError:
    """Returns the error for a CSV file or a DataFrame as the source of a Loader."""
    what, table = (repr(os.fspath(source)), repr(os.fspath(source))) if isinstance(source, (str, os.PathLike)) else ("the source", "table")
    return InvalidArgumentError(
        f"Loader: {what} is a table: Loader.from_csv({table}, batch_size, path=COLUMN, targets=COLUMNS) reads it, with COLUMN the name of its column of paths"
    )


def listed(source: Any) -> Any:
    """Returns the paths of an array of strings, or of a column of a DataFrame, as a list; other sources unchanged. Raises InvalidArgumentError for arrays of
    strings with several dimensions, and for sets: Python orders the strings in a set differently in each process."""
    if isinstance(source, (set, frozenset)):
        raise InvalidArgumentError("Loader: a set has another order in each process: give sorted(paths)")
    if getattr(getattr(source, "dtype", None), "kind", "") in ("U", "S", "T") and hasattr(source, "ndim"):  # NumPy's types of strings
        if source.ndim != 1:
            raise InvalidArgumentError(
                f"Loader: an array of strings with {source.ndim} dimensions is no list of paths, and labels in it are strings: give (paths, labels)"
            )
        return source.tolist()
    is_column = hasattr(source, "iloc") and hasattr(source, "tolist") and not hasattr(source, "columns") and len(source) > 0
    return source.tolist() if is_column and isinstance(source.iloc[0], (str, os.PathLike)) else source


def from_list(source: Sequence[Any]) -> FileSource:
    """Makes a source from [(path, target), ...], [path, ...] or ([path, ...], [target, ...]). Raises InvalidArgumentError for sources of another form."""
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
    for at, sample in enumerate(source):
        if not isinstance(sample, (str, bytes, os.PathLike)) and not (isinstance(sample, (list, tuple)) and len(sample) == 2):
            more = isinstance(sample, (list, tuple)) and len(sample) > 2
            hint = "; several targets are one vector, as (path, [0, 1])" if more else ""
            raise InvalidArgumentError(
                f"a list of samples holds paths, or pairs of a path and a target, and not {sample!r:.60}, its entry {at}{hint}"
            )
    raise InvalidArgumentError("a list of samples holds paths, or pairs of a path and a target, and this one holds both")


def _paths(paths: Sequence[Any]) -> list[Any]:
    for p in paths:
        if hasattr(p, "ndim") and not isinstance(p, (str, bytes)):  # NumPy's strings have `ndim` too
            raise InvalidArgumentError(
                "a list of samples holds paths: images in memory are one array, as (np.stack(images), targets), or a Dataset's"
            )
        if not isinstance(p, (str, bytes, os.PathLike)):
            raise InvalidArgumentError(f"a path is a string, not {p!r}")
    return [os.fspath(p) for p in paths]
