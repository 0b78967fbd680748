# SPDX-License-Identifier: Apache-2.0
"""The memory of a table's row groups: they are counted with the bytes that they take in memory, which may be a thousand times those of their pages."""

import numpy as np
import pytest
from stoker import Loader
from stoker.loader.sources import _table
from tables import IMAGES, jpeg, pa, rows_of, write

ROWS = 500  # of a group
LONG = 64  # numbers of a list

rng = np.random.default_rng(3)


def lists(values, length=LONG):
    return pa.ListArray.from_arrays(np.arange(0, len(values) + 1, length).astype(np.int32), pa.array(values))


def texts(distinct, length):
    made = ["".join(chr(97 + k) for k in rng.integers(0, 26, length)) for _ in range(distinct)]
    return [made[k] for k in rng.integers(0, distinct, ROWS)]


# Columns of a group, and the bytes that its values take in the types that batches have: 8 for a whole number, 4 for a float, 1 for a bool. For texts and bytes,
# these are the bytes of the values, or of the different ones and 4 for an index of each row, whichever is less.
COLUMNS = {
    "attention_mask": (lists(np.ones(ROWS * LONG, np.int64)), 8 * ROWS * LONG),
    "int8_mask": (lists(np.ones(ROWS * LONG, np.int8)), 8 * ROWS * LONG),
    "tokens": (lists(rng.integers(0, 60000, ROWS * LONG).astype(np.uint16)), 8 * ROWS * LONG),
    "bytes_of_numbers": (lists(rng.integers(0, 256, ROWS * LONG).astype(np.uint8)), 8 * ROWS * LONG),
    "floats": (lists(np.zeros(ROWS * LONG, np.float32)), 4 * ROWS * LONG),
    "doubles": (lists(rng.random(ROWS * LONG)), 4 * ROWS * LONG),
    "bools": (lists(np.ones(ROWS * LONG, bool)), ROWS * LONG),
    "nested": (lists(lists(np.ones(ROWS * LONG, np.int32), 8), LONG // 8), 8 * ROWS * LONG),
    "fixed": (pa.FixedSizeListArray.from_arrays(pa.array(np.ones(ROWS * LONG, np.int64)), LONG), 8 * ROWS * LONG),
    "label": (pa.array(np.full(ROWS, 7)), 8 * ROWS),
    "uint64": (pa.array(np.full(ROWS, 2**63, np.uint64)), 8 * ROWS),
    "flag": (pa.array([True] * ROWS), ROWS),
    "time": (pa.array(np.zeros(ROWS, np.int64), pa.timestamp("us")), 8 * ROWS),
    "nulls": (pa.array([None, 3] * (ROWS // 2), pa.int16()), 8 * ROWS),
    "prompt": (pa.array(["x" * 1000] * ROWS), 1000 + 4 * ROWS),
    "classes": (pa.array(texts(9, 40)), 9 * 40 + 4 * ROWS),
    "categories": (pa.array(texts(9, 40)).dictionary_encode(), 9 * 40 + 4 * ROWS),
    "captions": (pa.array(texts(ROWS, 40)), 300 * 40 + 4 * ROWS),
    "raw": (pa.array([bytes(1000)] * ROWS), 1000 + 4 * ROWS),
    "keys": (pa.array([bytes(16)] * ROWS, pa.binary(16)), 16 * ROWS),
    "objects": (pa.array([{"a": 1, "b": 2.0}] * ROWS), 16 * ROWS),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_groups_are_counted_with_the_bytes_of_their_values(tmp_path, name):
    column, least = COLUMNS[name]
    table = _table.Table([str(write(tmp_path / "t.parquet", {"v": column}, ROWS))], names=("v",))
    table.want([0])
    group = table._kept[0].result()
    assert least <= group.bytes <= 4 * least
    assert least / 4 <= table.group_bytes(0) <= 4 * least
    assert table._kept_bytes == group.bytes
    table.close()


def test_a_number_that_a_batch_cannot_hold_is_counted_with_its_own_type(tmp_path):
    path = write(tmp_path / "t.parquet", {"v": pa.array([1e300, *np.zeros(ROWS - 1)])}, ROWS)
    table = _table.Table([str(path)])
    table.want([0])
    assert table._kept[0].result().bytes >= (4 + 8 + 1) * ROWS
    table.close()


@pytest.mark.parametrize("shuffle", [False, "groups"])
@pytest.mark.parametrize("type", [np.int64, np.uint8])
def test_memory_bounds_masks(tmp_path, monkeypatch, type, shuffle):
    """The pages of a mask that is 1 everywhere take nearly nothing, so that all groups seemed to fit."""
    groups = 40
    write(tmp_path / "t.parquet", {"mask": lists(np.ones(groups * ROWS * LONG, type)), "k": np.arange(groups * ROWS)}, ROWS)
    size = 8 * ROWS * (LONG + 1)
    most, real = [0], _table.Table._end_read

    def spy(self, *arguments):
        real(self, *arguments)
        most[0] = max(most[0], len(self._kept))

    monkeypatch.setattr(_table.Table, "_end_read", spy)
    with Loader.from_parquet(tmp_path / "t.parquet", 100, fields=("mask", "k"), shuffle=shuffle, memory=9 * size) as loader:
        rows = [(k, tuple(mask)) for batch in loader for k, mask in zip(batch.k.tolist(), batch.mask.tolist(), strict=True)]
        assert loader._run.source.table.window() == 2
    assert sorted(rows) == [(k, (1,) * LONG) for k in range(groups * ROWS)]
    assert most[0] <= 9


@pytest.mark.parametrize("repeated", [False, True])
def test_the_window_of_images_follows_from_their_pages(tmp_path, repeated):
    images = pa.array([{"bytes": jpeg(rng, 40), "path": "same.jpg"} for _ in range(1 if repeated else 60)], IMAGES)
    images = images.take(pa.array([0] * 60)) if repeated else images
    path = write(tmp_path / "t.parquet", {**rows_of(rng, 60), "image": images}, 10)
    table = _table.Table([str(path)], names=("image",), kinds={}, memory=20000)
    footer = table.files[0].footer
    pages = [sum(footer.row_group(g).column(c).total_uncompressed_size for c in (0, 1)) for g in range(6)]
    assert [table.group_bytes(g) for g in range(6)] == pages
    assert table.window() == max(2, 20000 // 3 // (sum(pages) // 6))


@pytest.mark.parametrize("form", ["path", "struct"])
@pytest.mark.parametrize("categories", [False, True])
def test_paths_that_repeat_are_texts(tmp_path, form, categories):
    """Paths stay indices into a dictionary, and are still paths and not bytes of images."""
    files = [tmp_path / f"{k}.jpg" for k in range(2)]
    for file in files:
        file.write_bytes(jpeg(rng))
    paths = pa.array([str(files[k % 2]) for k in range(300)])
    paths = paths.dictionary_encode() if categories else paths
    column = paths
    if form == "struct":
        column = pa.StructArray.from_arrays([pa.nulls(300, pa.binary()), paths], fields=[IMAGES.field(0), pa.field("path", paths.type)])
    write(tmp_path / "t.parquet", {"image": column, "k": range(300)}, 300)
    batches = list(Loader.from_parquet(tmp_path / "t.parquet", 100, image="image", fields=("image", "k"), transforms=[]))
    table = _table.Table([str(tmp_path / "t.parquet")], names=("image", "k"), image="image")
    assert [table[k]["image"] for k in (0, 1, 299)] == [str(files[k % 2]) for k in (0, 1, 299)]
    assert len(batches) == 3
