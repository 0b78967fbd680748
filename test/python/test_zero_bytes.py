# SPDX-License-Identifier: Apache-2.0
"""A path or a name with a zero byte is refused: in C the text would end there, and name another file."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stoker
from PIL import Image
from stoker import Loader, Storage, fn, pipeline_def
from stoker import transforms as T

ZERO = "\0x"
RESIZE = [T.Resize((8, 8))]


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Makes files that would be opened if a name ended at its zero byte. Returns their folder."""
    (tmp_path / "tree" / "one").mkdir(parents=True)
    for name in ("a.jpg", "tree/one/a.jpg"):
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    (tmp_path / "list.txt").write_text("a.jpg 0\n")
    (tmp_path / "zero.txt").write_text(f"a.jpg{ZERO} 0\n")
    (tmp_path / "table.csv").write_text("path,label\na.jpg,1\n")
    (tmp_path / "coco.json").write_text(
        '{"images": [{"id": 1, "file_name": "a.jpg", "height": 8, "width": 8}], "annotations": [], "categories": []}'
    )
    np.save(tmp_path / "a.npy", np.zeros(3))
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(tmp_path / "a.jpg", "a.jpg")
    return str(tmp_path)


def _run(reader: Any, **arguments: Any) -> Any:
    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipe() -> Any:
        out = reader(**arguments)
        return tuple(out) if isinstance(out, list | tuple) else out

    made = pipe()
    made.build()
    return made.run()


class _Paths:
    def __init__(self, path: str) -> None:
        self.path = path

    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: int) -> tuple[str, int]:
        return self.path, i


OPENERS: dict[str, Callable[[str, str], Any]] = {
    "imread": lambda d, z: stoker.imread(f"{d}/a.jpg{z}"),
    "imread of bytes": lambda d, z: stoker.imread(f"{d}/a.jpg{z}".encode()),
    "readers.file, root": lambda d, z: _run(fn.readers.file, file_root=f"{d}/tree{z}"),
    "readers.file, files": lambda d, z: _run(fn.readers.file, files=[f"{d}/a.jpg{z}"]),
    "readers.file, bytes": lambda d, z: _run(fn.readers.file, files=[f"{d}/a.jpg{z}".encode()]),
    "readers.file, surrogates": lambda d, z: _run(fn.readers.file, files=[f"{d}/a.jpg{z}" + (z and "\udce4")]),
    "readers.file, list": lambda d, z: _run(fn.readers.file, file_root=d, file_list=f"{d}/list.txt{z}"),
    "readers.file, line": lambda d, z: _run(fn.readers.file, file_root=d, file_list=f"{d}/{'zero' if z else 'list'}.txt"),
    "readers.file, filter": lambda d, z: _run(fn.readers.file, file_root=f"{d}/tree", file_filters=[f"*.jpg{z}"]),
    "readers.numpy": lambda d, z: _run(fn.readers.numpy, files=[f"{d}/a.npy{z}"]),
    "readers.webdataset": lambda d, z: _run(fn.readers.webdataset, paths=[f"{d}/a.tar{z}"], ext=["jpg"]),
    "readers.webdataset, ending": lambda d, z: _run(fn.readers.webdataset, paths=[f"{d}/a.tar"], ext=[f"jpg{z}"]),
    "readers.coco": lambda d, z: _run(fn.readers.coco, file_root=d, annotations_file=f"{d}/coco.json{z}"),
    "Loader of a tree": lambda d, z: Loader(f"{d}/tree{z}", 1, transforms=RESIZE),
    "Loader of a tar": lambda d, z: Loader(f"{d}/a.tar{z}", 1, transforms=RESIZE) if z else None,
    "Loader of a list": lambda d, z: list(Loader([(f"{d}/a.jpg{z}", 0)], 1, transforms=RESIZE, last_batch="keep")),
    "Loader of a data set": lambda d, z: list(Loader(_Paths(f"{d}/a.jpg{z}"), 1, transforms=RESIZE, last_batch="keep")),
    "Loader.from_csv": lambda d, z: Loader.from_csv(f"{d}/table.csv{z}", batch_size=1, path="path", targets="label", transforms=RESIZE),
    "Storage": lambda d, z: Storage(cache=f"{d}/cache{z}"),
}


@pytest.mark.essential
@pytest.mark.parametrize("opener", OPENERS)
def test_a_zero_byte_is_refused(opener: str, folder: str) -> None:
    OPENERS[opener](folder, "")  # the call succeeds without the zero byte
    with pytest.raises(ValueError, match=r"zero byte|embedded null"):
        OPENERS[opener](folder, ZERO)
