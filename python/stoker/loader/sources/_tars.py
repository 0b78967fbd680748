# SPDX-License-Identifier: Apache-2.0
"""Reads tars in WebDataset's format. Successive files whose names are equal up to the first dot form a sample."""

from __future__ import annotations

import json
import os
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker import _core, _files, fn
from stoker._at_exit import check_leaving, library_call
from stoker._catalog import find
from stoker._operator import call
from stoker._progress import ProgressLine
from stoker._storage import Storage
from stoker._values import ValueKind
from stoker._where import log, notice
from stoker.data_node import DataNode
from stoker.errors import InvalidArgumentError
from stoker.loader import _fields
from stoker.loader._saved import Saved
from stoker.loader._spec import Spec
from stoker.loader.batches._finish import Finish, Finishing, by_value
from stoker.loader.sources._files import IMAGE_ENDINGS
from stoker.loader.sources._image_sizes import WHOLE, Size, sizes_read, spread
from stoker.loader.sources._source import Source
from stoker.pipeline import Pipeline

_PACKED = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz")  # opening a compressed tar raises an error with advice
# Files that lie next to tars: indexes (.idx is wds2idx's), and what `stoker pack` writes.
_NEXT_TO_TARS = (".stoker", ".idx", "classes.txt", "packing.txt")
_MAGIC = b"STKPARTS"  # the first bytes of an index, which `stoker index` writes
_LABELS = ("cls", "txt", "json")
_KINDS = {"cls": "int", "id": "int", "index": "int", "txt": "text", "text": "text", "caption": "text", "json": "json", "npy": "array"}


def _is_index(path: str) -> bool:
    try:
        with _files.open_binary(path) as f:
            return f.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):
        return False


def _names_tar(path: Any) -> bool:
    name = os.fsdecode(path) if isinstance(path, (str, bytes, os.PathLike)) else ""
    name = name.lower()
    return name.endswith(_PACKED) or (
        "://" in name and name.partition("?")[0].endswith(_PACKED)
    )  # a ? begins a query, or is part of a glob


def _folder_of_tars(folder: str) -> list[str]:
    """Returns the sorted paths of a folder's tars, compressed ones too. Prints a notice about other files next to them. Returns [] if the folder contains a
    folder or cannot be read, and if compressed tars lie next to other files only: archives may lie next to the files that were unpacked from them."""
    tars, others = [], []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir():
                    return []
                if _names_tar(entry.name):
                    tars.append(entry.path)
                elif not entry.name.endswith(_NEXT_TO_TARS) and not entry.name.startswith("."):
                    others.append(entry.name)
    except OSError:
        return []
    if others and not any(tar.lower().endswith(".tar") for tar in tars):
        return []
    if others:
        endings = Counter(os.path.splitext(name)[1] or "without an ending" for name in others)
        named = ", ".join(f"{ending} ({count})" for ending, count in sorted(endings.items()))
        notice(f"{folder}: skipped {len(others)} {'file that is no tar' if len(others) == 1 else 'files that are no tars'}: {named}")
    return sorted(tars)


def tars_of(source: Any) -> list[str] | None:
    """Returns the paths of a source's tars; None for other sources. A source of tars is one tar, a list of tars, a folder of tars, or an index."""
    if isinstance(source, (str, bytes, os.PathLike)):
        path = os.fsdecode(source)
        if _names_tar(path) and not Path(path).is_dir():
            return [path]
        if "://" in path:
            return None
        return [path] if os.path.isfile(path) and _is_index(path) else _folder_of_tars(path) or None
    if isinstance(source, (list, tuple)) and source and all(_names_tar(s) for s in source):
        return [os.fsdecode(s) for s in source]
    return None


def make_indexes(tars: Sequence[str], storage: Any) -> dict[str, int]:
    """Makes the index of the tars, unless it exists. Returns a dict from file endings to the number of files in the tars with this ending."""
    core = storage.core() if isinstance(storage, Storage) else None  # the pipeline raises the error for an argument of another type
    with ProgressLine() as line, library_call():

        def progress(done: int, count: int, files: int) -> None:
            check_leaving()
            line.show(f"indexing {done} of {count} tars, {files} files", done, count)

        found = _core.tar_index([os.fsencode(t) for t in tars], None, progress, core)
    for text in found["notices"]:
        log(text)
    components: dict[str, int] = found["components"]
    return components


def peek(tars: Sequence[str], storage: Any) -> tuple[int, dict[str, int]]:
    """Returns the number of tars, and for each ending the number of such files in the first sample, if all tars are remote and an index is missing; else
    (0, {})."""
    core = storage.core() if isinstance(storage, Storage) else None
    with library_call():
        return _core.tar_unindexed([os.fsencode(t) for t in tars], lambda *_: check_leaving(), core)


def _default(endings: Mapping[str, int], tars: Sequence[str], images: Sequence[str]) -> dict[str, Any]:
    """Returns the default components: the image (or the sound or video in its place), and the label if the tars have one. endings: number of files with each
    ending. images: endings of the first component. Raises InvalidArgumentError if no file has one of these endings."""
    if not any(ending.lower() in images for ending in endings):
        what = "image" if tuple(images) == IMAGE_ENDINGS else "sound" if "wav" in images else "video"
        raise InvalidArgumentError(
            f"Loader: the samples of {_short(tars)} have no {what} ({', '.join(images)}); they have {', '.join(endings) or 'nothing'}: say which "
            'component it is: Loader.from_tars(tars, ..., components={"image": "..."})'
        )
    lower = {ending.lower() for ending in endings}  # the reader ignores the case
    label = next((ending for ending in _LABELS if ending in lower), None)
    return {"image": ";".join(images), **({"label": label} if label else {})}


def _short(tars: Sequence[str]) -> str:
    return tars[0] if len(tars) == 1 else f"{tars[0]} and {len(tars) - 1} more"


class TarSource(Source):
    """Reads samples of tars. components: the endings for each field, as {"image": "jpg;png", "label": "cls", "caption": ("txt", "text")}; None: the image, and
    the label if there is one. endings: the endings of the image, or of the sound or video in its place, if components is None. index_paths: the indexes of the
    tars; None: the source finds or makes them. missing_component_behavior: what to do with a sample without a component: "error", "skip" or "empty".

    If tars in a store have no index, the first epoch reads them from front to back and makes the index meanwhile (one_epoch). If that is not possible, as
    with several ranks, the index is made first.
    """

    shuffles = "shards"

    def __init__(
        self,
        tars: Sequence[str],
        components: Mapping[str, Any] | None = None,
        index_paths: Sequence[str] | None = None,
        missing_component_behavior: str | None = None,
        storage: Any = None,
        endings: Sequence[str] = IMAGE_ENDINGS,
    ) -> None:
        self.images = tuple(endings)  # the endings of images, videos or sounds, if no components are given
        self.tars, self.index_paths, self.missing = list(tars), index_paths, missing_component_behavior or "error"
        if components is None and index_paths is not None:
            raise InvalidArgumentError(
                'Loader: with index_paths say which components there are, as components={"image": "jpg", "label": "cls"}'
            )
        self._given, self._storage = components, storage
        self._unindexed, first = peek(self.tars, storage) if index_paths is None else (0, {})
        self.one_epoch = self._unindexed > 0 and self._are_there(first)
        self._set_components(first if self.one_epoch else {} if index_paths is not None else make_indexes(self.tars, storage))

    def _are_there(self, first: Mapping[str, int]) -> bool:
        """Returns whether the first sample has all components that the user wants. first: the endings of its files."""
        endings = {e.lower() for e in first}
        wanted = (
            [_parsed_component(n, c)[0] for n, c in self._given.items()] if isinstance(self._given, Mapping) else [";".join(self.images)]
        )
        return all(endings & {e.lower() for e in ending.split(";")} for ending in wanted)

    def _set_components(self, endings: Mapping[str, int]) -> None:
        """Sets the components with their endings and kinds. endings: number of files with each ending; {} if it is not known. Raises InvalidArgumentError for
        wrong components, and if the tars lack one."""
        given = _default(endings, self.tars, self.images) if self._given is None else self._given
        if not isinstance(given, Mapping) or "image" not in given:
            raise InvalidArgumentError(
                f'Loader: components is a dict with an image, as {{"image": "jpg;png", "label": "cls"}}, not {given!r}'
            )
        self.components = {"image": given["image"], **given}
        _fields.names_of(tuple(self.components))
        self.endings, self.kinds = zip(*(_parsed_component(name, c) for name, c in self.components.items()), strict=True)
        finish = {name: _FINISH[kind] for name, kind in zip(self.components, self.kinds, strict=True) if kind in _FINISH}
        self.finishing = Finishing(
            finish,
            uneven=False,
            vectors=False,
            as_list="components={{..., {0!r}: (its ending, 'list')}} gives a list of tensors in each batch",
        )
        for name, ending in zip(self.components, self.endings, strict=True) if endings else ():
            if not {e.lower() for e in ending.split(";")} & {e.lower() for e in endings}:
                called = "the sound" if name == "image" and "wav" in self.images else name
                raise InvalidArgumentError(
                    f"Loader: no sample of {_short(self.tars)} has a component {ending!r} ({called}); there are {', '.join(endings) or 'none'}"
                )

    def settle(self, spec: Spec, own_order: bool, may_list: bool) -> None:
        if not self.one_epoch:
            return
        if spec.shard.world > 1:
            notice(
                f"{_short(self.tars)}: there is no index yet. It is made first, since several ranks share the epoch; `stoker index` makes it beforehand"
            )
        if spec.shard.world > 1 or own_order or spec.last_batch == "pad" or (spec.shuffle and self._unindexed == 1):
            self.index()
        elif spec.shuffle:
            log(
                f"{_short(self.tars)}: there is no index yet. While it is made, in this first epoch, tars are shuffled, and not the samples in them;"
                " `stoker index` makes it beforehand"
            )

    def index(self) -> None:
        self.one_epoch = False
        self._set_components(make_indexes(self.tars, self._storage))

    def count(self, spec: Spec) -> int:
        make_indexes(self.tars, self._storage)
        pipe = Pipeline(1, num_threads=1, storage=self._storage)
        with pipe:
            pipe.set_outputs(*self.parts(False, {"name": "Reader"}))
        pipe.build()
        samples = int(pipe._started().meta()["samples"])
        pipe.close()
        return samples

    def check_bucket_by(self) -> None:
        if self.images[0] == "wav":
            raise InvalidArgumentError(
                "bucket_by: the lengths of sounds in tars are not known: give it a list with one key for each sample"
            )

    def some_sizes(self, spec: Spec, samples: Callable[[], int | None], classes: Callable[[], list[str]]) -> Iterable[Size]:
        total = None if self.one_epoch else samples()
        return sizes_read(lambda more: self.parts(False, more)[0], {"indices": spread(total, WHOLE)}, spec) if total else []

    def restore(self, state: Saved, spec: Spec) -> None:
        super().restore(state, spec)
        if state.epoch or state.pipeline is not None:
            self.one_epoch = bool((state.pipeline or {}).get("streamed"))

    @property
    def classes(self) -> list[str]:
        """Returns the class names from the file classes.txt of `stoker pack`; [] without it, for tars in several folders, or if the label is not from
        `.cls`."""
        folders = {Path(tar).parent for tar in self.tars if "://" not in tar}
        components = dict(zip(self.components, zip(self.endings, self.kinds, strict=True), strict=True))
        ending, kind = components.get("label", ("", ""))
        if len(folders) != 1 or ending.lower() != "cls" or kind != "int":
            return []
        folder = folders.pop()
        try:
            text = _files.read_text(folder / "classes.txt") if (folder / "packing.txt").is_file() else ""
        except (OSError, UnicodeDecodeError):
            return []
        return text.removesuffix("\n").split("\n") if text else []  # str.splitlines would end lines at other characters too

    def column_names(self) -> Collection[str]:
        return self.components

    def fields(self, names: tuple[str, ...] | None) -> dict[str, int | None]:
        known = {name: k for k, name in enumerate(self.components)}
        return _fields.of_known(names, known)

    def nodes(self, spec: Spec, indices: array[int] | None, per_rank: bool) -> list[DataNode]:
        parts = self.parts(self.one_epoch, {"shuffle_shards": spec.by_shards, **spec.reader_arguments(indices, per_rank)})
        first, *others = spec.finished(spec.image(parts[0]))
        return [first, *(node_of(part, kind, spec) for part, kind in zip(parts[1:], self.kinds[1:], strict=True)), *others]

    def parts(self, as_they_lie: bool, more: dict[str, Any]) -> Sequence[DataNode]:
        if self.index_paths is not None:
            more["index_paths"] = list(self.index_paths)
        op = find("readers.webdataset_unindexed" if as_they_lie else "readers.webdataset")
        assert op is not None
        arguments = {
            "paths": self.tars,
            "ext": list(self.endings),
            "missing_component_behavior": self.missing,
            "case_sensitive_extensions": False,
        }
        parts = call(op, (), {**arguments, **more})
        return parts if isinstance(parts, (list, tuple)) else [parts]

    def __repr__(self) -> str:
        return _short(self.tars)


def _parsed_component(name: str, given: Any) -> tuple[str, str]:
    """Returns the endings of a component and the kind of its bytes: "image", "int", "text", "json", "array" (.npy), "list" (arrays of different shapes) or
    "bytes". Raises InvalidArgumentError for other values. name: the component's field."""
    endings, kind = given if isinstance(given, (tuple, list)) and len(given) == 2 else (given, None)
    if not isinstance(endings, str) or not endings or kind not in (None, "int", "text", "json", "array", "list", "bytes"):
        raise InvalidArgumentError(
            f"Loader: components[{name!r}] is an ending, as 'cls' or 'jpg;png', or a pair of it and 'int', 'text', 'json', 'array', 'list' or 'bytes', "
            f"not {given!r}"
        )
    return endings, "image" if name == "image" else kind or _KINDS.get(endings.lower().rpartition(".")[2].partition(";")[0], "bytes")


def node_of(part: DataNode, kind: str, spec: Spec) -> DataNode:
    if kind == "int":
        number: DataNode = DataNode._call("_whole_number", [part], [])
        return spec.label(number)
    if kind in ("text", "json"):
        return checked_text(part, kind)
    return spec.upload(fn.decoders.numpy(part)) if kind in ("array", "list") else part


def checked_text(text: DataNode, kind: str = "text") -> DataNode:
    """Returns the text. A sample whose text is not UTF-8, or not JSON if kind is "json", is bad."""
    checked: DataNode = DataNode._call("_checked_text", [text], [("kind", int(ValueKind.STRING), kind)])
    return checked


def _raw(value: Any) -> bytes:
    value = value.reshape(-1)
    return bytes(value.tolist()) if value.numel() < 64 else value.numpy().astype("uint8").tobytes()


def _each(function: Callable[[bytes], Any]) -> Finish:
    return by_value(lambda values: [function(_raw(value)) for value in values])


_FINISH: dict[str, Finish] = {
    "text": _each(bytes.decode),
    "json": _each(lambda b: json.loads(b) if b else None),
    "bytes": _each(bytes),
    "list": by_value(list),
}
