# SPDX-License-Identifier: Apache-2.0
"""The fields that padding adds, `size` and `padding_mask`, are the same from all sources of the same images."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tables
from PIL import Image
from stoker import Loader
from stoker.errors import InvalidArgumentError
from support import tar_of

torch = pytest.importorskip("torch")


def _padded(folder: Path, source: str, fields: Any) -> Any:
    """Returns a batch of the same four images from a source. folder: where files are written."""
    made, files = [], []
    for k in range(4):
        out = io.BytesIO()
        Image.fromarray(np.full((8 + k, 12 - k, 3), 9 * k + 1, np.uint8)).save(out, "PNG")
        made.append(out.getvalue())
        files.append(folder / "images" / "ab"[k // 2] / f"{k}.png")
        files[-1].parent.mkdir(parents=True, exist_ok=True)
        files[-1].write_bytes(made[-1])
    arguments: dict[str, Any] = {"fields": fields, "pad": "zeros", "dtype": torch.uint8}
    if source.startswith("table"):
        table = folder / "t.parquet"
        tables.write(table, {"picture" if source == "table, image=" else "image": made, "label": [0, 0, 1, 1]})
        if source == "table by Loader":
            return next(iter(Loader(table, 4, **arguments)))
        return next(iter(Loader.from_parquet(table, 4, image="picture" if source == "table, image=" else None, **arguments)))
    if source == "tar":
        members = [(f"{k}.{e}", d) for k in range(4) for e, d in (("png", made[k]), ("cls", b"%d" % (k // 2)))]
        (folder / "t.tar").write_bytes(tar_of(members))
        return next(iter(Loader(folder / "t.tar", 4, **arguments)))
    pairs = [(str(file), k // 2) for k, file in enumerate(files)]
    of_dataset = [(np.asarray(Image.open(file)), label) for file, label in pairs]
    return next(iter(Loader({"folder": folder / "images", "list": pairs, "Dataset": Rows(of_dataset)}[source], 4, **arguments)))


class Rows(torch.utils.data.Dataset):
    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Any:
        return self.rows[i]


@pytest.mark.parametrize("source", ["folder", "list", "tar", "Dataset", "table", "table, image=", "table by Loader"])
@pytest.mark.parametrize(
    "fields",
    [
        ("image", "size"),
        ("size",),
        ("padding_mask",),
        ("label", "padding_mask", "size"),
        ("size", "index"),
        {"image": "Image", "size": None},
        {"size": None},
    ],
)
def test_sizes_before_padding_come_from_each_source(tmp_path: Path, source: str, fields: Any) -> None:
    """A batch has the fields that are named, and no others."""
    batch = _padded(tmp_path, source, fields)
    size = np.array([[8 + k, 12 - k] for k in range(4)])
    mask = np.array([[[y >= h or x >= w for x in range(12)] for y in range(11)] for h, w in size])
    image = np.where(mask[:, None], 0, np.arange(1, 37, 9)[:, None, None, None]) + np.zeros((4, 3, 11, 12), np.int64)
    expected = {"image": image, "size": size, "padding_mask": mask, "label": np.array([0, 0, 1, 1]), "index": np.arange(4)}
    assert batch._fields == tuple(fields)
    for name in fields:
        assert np.array_equal(np.asarray(getattr(batch, name)), expected[name]), name


def test_tables_without_images_have_no_sizes_before_padding(tmp_path: Path) -> None:
    tables.write(tmp_path / "t.parquet", {"tokens": [[1, 2], [3]], "size": [2, 1]})
    for make in (Loader, Loader.from_parquet):
        assert next(iter(make(tmp_path / "t.parquet", 2, pad=0))).size.tolist() == [2, 1]
        for fields in (("tokens", "size"), ("size",)):
            with pytest.raises(InvalidArgumentError, match=r"pad adds .*size and padding_mask to images only"):
                make(tmp_path / "t.parquet", 2, fields=fields, pad=0)
    with pytest.raises(InvalidArgumentError, match="fields is empty"):
        Loader.from_parquet(tmp_path / "t.parquet", 2, fields=(), pad=0)
    image = _png()
    tables.write(tmp_path / "i.parquet", {"img": [image, image], "size": [2, 1]})
    for make in (Loader, Loader.from_parquet):
        with pytest.raises(InvalidArgumentError, match="pad adds the fields size and padding_mask to images only"):
            make(tmp_path / "i.parquet", 2, fields={"img": None, "size": None}, pad=0)


def _png() -> bytes:
    out = io.BytesIO()
    Image.fromarray(np.full((8, 12, 3), 9, np.uint8)).save(out, "PNG")
    return out.getvalue()


def _with_a_size(folder: Path, source: str, **arguments: Any) -> Any:
    """Returns the first batch of a Loader over two samples that have a `size` of their own. folder: where files are written."""
    image = _png()
    if source == "tar":
        (folder / "t.tar").write_bytes(
            tar_of([(f"{k}.{e}", d) for k in range(2) for e, d in (("png", image), ("cls", b"1"), ("size", b"7"))])
        )
        components = {"image": "png", "label": "cls", "size": ("size", "int")}
        return next(iter(Loader.from_tars(folder / "t.tar", 2, components=components, **arguments)))
    if source == "Dataset":
        pixels = np.asarray(Image.open(io.BytesIO(image)))
        return next(iter(Loader(Rows([{"image": pixels, "label": k, "size": 7} for k in range(2)]), 2, **arguments)))
    tables.write(folder / "t.parquet", {"image": [image, image], "label": [0, 1], "size": [7, 7]})
    return next(iter((Loader if source == "table" else Loader.from_parquet)(folder / "t.parquet", 2, **arguments)))


@pytest.mark.parametrize("source", ["table", "from_parquet", "tar", "Dataset"])
def test_a_field_of_the_data_is_not_replaced_by_one_of_padding(tmp_path: Path, source: str) -> None:
    for fields in (("image", "size"), ("label", "size"), ("size",), {"image": "Image", "size": None}):
        with pytest.raises(
            InvalidArgumentError, match=r"pad adds a field 'size', and the dataset has one .* rename that one, or leave pad out"
        ):
            _with_a_size(tmp_path, source, fields=fields, pad=0)
    without = _with_a_size(tmp_path, source, fields=("image", "size"))
    assert [int(value) for value in without.size] == [7, 7]
    for fields in (("image", "label"), ("image", "padding_mask")):
        batch = _with_a_size(tmp_path, source, fields=fields, pad=0)
        assert batch._fields == (*fields, *(("size",) if fields[1] == "label" else ()))
        assert fields[1] != "label" or batch.size.tolist() == [[8, 12]] * 2
