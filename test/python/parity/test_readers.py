# SPDX-License-Identifier: Apache-2.0
"""readers.file and readers.nemo_asr without shuffling: the order of samples and their values, over shards and epochs."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from harness import RECORDS, Record, T, libraries, library, rng_of
from sound_files import pcm16


def _note(op: str, case: str) -> None:
    RECORDS.append(Record(op, case, 0, 1, 1, True, "equal", ""))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes 11 images in folders of unequal size, one of them hidden; also files with other endings, a folder without images, and an empty one."""
    root = tmp_path_factory.mktemp("files")
    names = [
        "b/2.jpg",
        "b/10.jpg",
        "b/1.JPEG",
        "a/x.png",
        "a/y.bmp",
        "d/.hidden.jpg",
        "d/z.webp",
        "e/0.jpg",
        "e/1.jpg",
        "e/2.jpg",
        "e/3.tiff",
    ]
    for name in [*names, "c/readme.txt", "e/notes.md"]:
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(name.encode())
    (root / "empty").mkdir()
    return root


def _batches(package: str, batch: int, count: int, **kwargs: Any) -> list[list[tuple[bytes, int]]]:
    lib = library(package)
    pipe = lib.Pipeline(batch_size=batch, num_threads=1, device_id=None, prefetch_queue_depth=1)
    with pipe:
        pipe.set_outputs(*lib.fn.readers.file(**kwargs))
    made = []
    for _ in range(count):
        data, label = pipe.run()
        made.append([(np.array(data.at(i)).tobytes(), int(np.array(label.at(i))[0])) for i in range(batch)])
    return made


def _same(batch: int = 3, count: int = 12, **kwargs: Any) -> None:
    dali, ours = (_batches(lib.package, batch, count, **kwargs) for lib in libraries())
    assert ours == dali
    _note("readers.file", str({k: v for k, v in kwargs.items() if "file" not in k}))


def _shards() -> Iterator[tuple[int, int, bool, bool]]:
    for shards in (1, 2, 3, 4, 5):
        for shard, pad, stick in itertools.product(range(shards), (False, True), (False, True)):
            yield shards, shard, pad, stick


@pytest.mark.parametrize(("shards", "shard", "pad", "stick"), list(_shards()))
def test_shards_and_epochs_have_the_order_of_dali(folder: Path, shards: int, shard: int, pad: bool, stick: bool) -> None:
    _same(file_root=str(folder), num_shards=shards, shard_id=shard, pad_last_batch=pad, stick_to_shard=stick)


@pytest.mark.parametrize("batch", (1, 2, 5, 11, 16))
def test_batches_of_any_size_are_those_of_dali(folder: Path, batch: int) -> None:
    for pad in (False, True):
        _same(batch, 9, file_root=str(folder), pad_last_batch=pad)


@pytest.mark.parametrize(
    "kwargs",
    (
        {"file_filters": ["*.jpg"]},
        {"file_filters": ["*.jpg"], "case_sensitive_filter": True},
        {"file_filters": ["*.JPEG", "1*"]},
        {"dir_filters": ["[be]"]},
        {"dir_filters": ["b", "e*"], "file_filters": ["?.jpg"]},
    ),
)
def test_filters_choose_the_files_of_dali(folder: Path, kwargs: dict[str, Any]) -> None:
    _same(file_root=str(folder), **kwargs)


def test_lists_of_files_are_read_as_by_dali(folder: Path, tmp_path: Path) -> None:
    names = ["b/2.jpg", "a/x.png", "e/3.tiff", "b/1.JPEG"]
    paths = [str(folder / n) for n in names]
    _same(files=paths)
    _same(files=paths, labels=[7, -3, 0, 7])
    _same(files=names, file_root=str(folder))
    listing = tmp_path / "list.txt"
    listing.write_text("b/2.jpg 5\n\na/x.png 0\ne/3.tiff 12\n")
    _same(file_list=str(listing), file_root=str(folder))


@pytest.mark.parametrize(
    "kwargs", ({}, {"files": ["a.jpg"], "labels": [1, 2]}, {"file_root": "/nonexistent"}, {"num_shards": 2, "shard_id": 2}, {"files": []})
)
def test_both_libraries_refuse_the_same_readers(folder: Path, kwargs: dict[str, Any]) -> None:
    if "num_shards" in kwargs:
        kwargs = {**kwargs, "file_root": str(folder)}
    for lib in libraries():
        with pytest.raises(Exception):  # noqa: B017 - each library has its own exception types
            _batches(lib.package, 1, 1, **kwargs)
    _note("readers.file", f"error: {kwargs}")


@pytest.mark.parametrize("shards", (1, 3))
def test_metadata_are_those_of_dali(folder: Path, shards: int) -> None:
    found = []
    for lib in libraries():
        pipe = lib.Pipeline(batch_size=4, num_threads=1, device_id=None)
        with pipe:
            pipe.set_outputs(*lib.fn.readers.file(file_root=str(folder), num_shards=shards, shard_id=0, pad_last_batch=True, name="Reader"))
        pipe.build()
        found.append((pipe.reader_meta("Reader"), pipe.epoch_size("Reader")))
    (theirs, size), (ours, our_size) = found
    assert {k: ours.get(k) for k in theirs} == theirs
    assert our_size == size
    _note("readers.file", f"reader_meta, {shards} shards")


# ---- readers.nemo_asr ----


def _utterances(package: str, batch: int, count: int, **kwargs: Any) -> list[list[Any]]:
    lib = library(package)
    kwargs = {k: lib.resolve(v) for k, v in kwargs.items()}
    pipe = lib.Pipeline(batch_size=batch, num_threads=1, device_id=None, prefetch_queue_depth=1)
    with pipe:
        outputs = lib.fn.readers.nemo_asr(**kwargs)
        pipe.set_outputs(*(outputs if isinstance(outputs, (list, tuple)) else [outputs]))
    made = []
    for _ in range(count):
        found = pipe.run()
        for i in range(batch):
            arrays = [np.array(o.at(i)) for o in found]
            made.append([(a.tobytes(), a.shape, a.dtype, o.layout()) for a, o in zip(arrays, found, strict=True)])
    return made


@pytest.fixture(scope="module")
def manifests(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Writes two manifests over files of 1 and 2 channels. Each optional key is missing in some entries."""
    root, rng, lines = tmp_path_factory.mktemp("nemo"), rng_of("nemo"), []
    for i in range(7):
        (root / f"{i}.wav").write_bytes(pcm16(rng, 300 + 40 * i, 1 + i % 2, 16000 if i < 5 else 8000))
        entry: dict[str, Any] = {"audio_filepath": str(root / f"{i}.wav")}
        entry |= {"text": f'\u00e9 "{i}" \\'} if i != 3 else {}
        entry |= {"duration": (300 + 40 * i) / 16000} if i not in (2, 4) else {}
        entry |= {"offset": 0.01} if i in (1, 4) else {}
        entry |= {"other": [1, {"a": "b"}]} if i == 5 else {}
        lines.append(json.dumps(entry, ensure_ascii=i % 2 == 0) + "\n")
    (root / "a.json").write_text("".join(lines[:5]), encoding="utf-8")
    (root / "b.json").write_text("".join(lines[5:]), encoding="utf-8")
    return [str(root / "a.json"), str(root / "b.json")]


def test_one_nemo_manifest(manifests: list[str]) -> None:
    dali, ours = (_utterances(lib.package, 2, 3, manifest_filepaths=manifests[1], read_idxs=True) for lib in libraries())
    assert ours == dali
    _note("readers.nemo_asr", "one manifest")


@pytest.mark.parametrize(
    "kwargs",
    (
        {},
        {"read_idxs": True},
        {"read_text": False},
        {"read_sample_rate": False, "read_text": False},
        {"downmix": False},
        {"dtype": T.INT16},
        {"dtype": T.INT32, "downmix": False},
        {"min_duration": 0.02, "read_idxs": True},
        {"max_duration": 0.02, "read_idxs": True},
        {"num_shards": 3, "shard_id": 1, "read_idxs": True},
        {"num_shards": 3, "shard_id": 2, "pad_last_batch": True, "read_idxs": True},
        {"num_shards": 2, "shard_id": 1, "stick_to_shard": True},
        {"normalize_text": True},
    ),
)
def test_nemo_asr(manifests: list[str], kwargs: dict[str, Any]) -> None:
    dali, ours = (_utterances(lib.package, 3, 5, manifest_filepaths=manifests, **kwargs) for lib in libraries())
    assert ours == dali
    _note("readers.nemo_asr", str(kwargs))
