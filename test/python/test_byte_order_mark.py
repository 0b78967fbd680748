# SPDX-License-Identifier: Apache-2.0
"""Readers skip a byte order mark at the beginning of a text, as Python's utf-8-sig does. test_nuscenes.py has the test for tables of NuScenes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from stoker import Loader, Pipeline, fn, pipeline_def, tfrecord
from stoker import transforms as T
from support import tar_of

MARK = b"\xef\xbb\xbf"


def _first(reader: Callable[..., Any], **arguments: Any) -> bytes:
    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipe() -> Any:
        out = reader(**arguments)
        return out["x"] if isinstance(out, dict) else out[0] if isinstance(out, list | tuple) else out

    made = pipe()
    made.build()
    return np.asarray(made.run()[0][0]).tobytes()


def _list(folder: Path, mark: bytes) -> bytes:
    (folder / "list.txt").write_bytes(mark + b"a.png 3\n")
    return _first(fn.readers.file, file_root=str(folder), file_list=str(folder / "list.txt"))


def _names(folder: Path, mark: bytes) -> bytes:
    np.save(folder / "a.npy", np.arange(5))
    (folder / "names.txt").write_bytes(mark + b"a.npy\n")
    return _first(fn.readers.numpy, file_root=str(folder), file_list=str(folder / "names.txt"))


def _coco(folder: Path, mark: bytes) -> bytes:
    text = b'{"images": [{"id": 1, "file_name": "a.png", "height": 8, "width": 8}], "annotations": [], "categories": []}'
    (folder / "coco.json").write_bytes(mark + text)
    return _first(fn.readers.coco, file_root=str(folder), annotations_file=str(folder / "coco.json"))


def _csv(folder: Path, mark: bytes) -> bytes:
    (folder / "table.csv").write_bytes(mark + b"path,label\na.png,3\n")
    (images, _) = next(
        iter(Loader.from_csv(folder / "table.csv", batch_size=1, path="path", transforms=[T.Resize((4, 4))], last_batch="keep"))
    )
    return np.asarray(images).tobytes()


def _tar_index(folder: Path, mark: bytes) -> bytes:
    data = (folder / "a.png").read_bytes()
    (folder / "a.tar").write_bytes(tar_of([("a.png", data)]))
    (folder / "a.idx").write_bytes(mark + b"v1.2 1\npng 512 %d a.png\n" % len(data))
    return _first(fn.readers.webdataset, paths=[str(folder / "a.tar")], index_paths=[str(folder / "a.idx")], ext=["png"])


def _record_index(folder: Path, mark: bytes) -> bytes:
    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    example = field(1, field(1, field(1, b"x") + field(2, field(1, field(1, b"bytes")))))
    record = struct.pack("<QI", len(example), 0) + example + bytes(4)
    (folder / "a.tfr").write_bytes(record)
    (folder / "r.idx").write_bytes(mark + b"0 %d\n" % len(record))
    features = {"x": tfrecord.FixedLenFeature([], tfrecord.string, "")}
    return _first(fn.readers.tfrecord, path=[str(folder / "a.tfr")], index_path=[str(folder / "r.idx")], features=features)


def _pipeline(folder: Path, mark: bytes) -> bytes:
    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipe() -> Any:
        return fn.readers.file(files=[str(folder / "a.png")], name="R")[0]

    (folder / "pipe.json").write_bytes(mark + pipe().serialize())
    made = Pipeline.deserialize(filename=folder / "pipe.json")
    made.build()
    return np.asarray(made.run()[0][0]).tobytes()


TEXTS: dict[str, Callable[[Path, bytes], bytes]] = {
    "a list": _list,
    "a list of names": _names,
    "COCO's annotations": _coco,
    "a CSV file": _csv,
    "an index of a tar": _tar_index,
    "an index of records": _record_index,
    "a pipeline": _pipeline,
}


@pytest.mark.essential
@pytest.mark.parametrize("text", TEXTS)
def test_a_byte_order_mark_is_read_past(text: str, tmp_path: Path) -> None:
    Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)).save(tmp_path / "a.png")
    want = TEXTS[text](tmp_path, b"")
    assert want and TEXTS[text](tmp_path, MARK) == want
