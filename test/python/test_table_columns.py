# SPDX-License-Identifier: Apache-2.0
"""Columns of tables: the shapes that lists of numbers get in batches, also if they are empty."""

import numpy as np
import pytest
from stoker import Loader
from stoker import transforms as T
from tables import jpeg, pa, write

FIXED, FREE = pa.list_(pa.list_(pa.float32(), 4)), pa.list_(pa.list_(pa.float32()))
BOXES = [[], [[1.0, 2, 3, 4]], [], [[1.0, 2, 3, 4], [2.0, 3, 4, 5]]]  # the first image has no objects


def shapes(loader, name):
    return [tuple(value.shape) for batch in loader for value in getattr(batch, name)]


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize("type", [FIXED, FREE], ids=["fixed", "free"])
@pytest.mark.parametrize("kind, width", [("BoundingBoxes", 4), ("KeyPoints", 2)])
def test_images_without_objects_have_boxes_of_4_numbers(tmp_path, rng, kind, width, type, batch):
    """A Dataset that gives [] for no boxes is the reference. Tables of `datasets` give (0, 0) if the lists in the list may have any length."""
    type = pa.list_(pa.list_(pa.float32(), width)) if type is FIXED else type
    objects = [[row[:width] for row in rows] for rows in BOXES]
    image = jpeg(rng)
    write(tmp_path / "t.parquet", {"image": [image] * 4, "boxes": pa.array(objects, type)})
    fields, steps = {"image": "Image", "boxes": kind}, [T.Resize((8, 8))]
    made = Loader(tmp_path / "t.parquet", batch, fields=fields, transforms=steps)
    wanted = [(len(rows), width) for rows in objects]
    assert shapes(made, "boxes") == wanted
    for none in ([], np.zeros((0, 0), np.float32)):
        same = Loader([{"image": image, "boxes": rows or none} for rows in objects], batch, fields=fields, transforms=steps)
        assert shapes(same, "boxes") == wanted


# Types of lists, two rows of each, and the shape of an empty row.
EMPTY = [
    (FIXED, [[], [[1.0, 2, 3, 4]]], (0, 4)),
    (FREE, [[], [[1.0, 2, 3, 4]]], (0, 0)),
    (pa.list_(pa.list_(pa.list_(pa.int64()))), [[[[1], [2]]], []], (0, 0, 0)),
    (pa.list_(pa.list_(pa.list_(pa.int64(), 3), 2)), [[], [[[1, 2, 3], [4, 5, 6]]]], (0, 2, 3)),
    (pa.list_(pa.list_(pa.list_(pa.int64(), 3))), [[[]], [[[1, 2, 3]]]], (1, 0, 3)),
    (pa.large_list(pa.list_(pa.bool_(), 2)), [[], [[True, False]]], (0, 2)),
]


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("more", [{}, {"on_error": "skip", "max_errors": 0}], ids=["raise", "skip"])
@pytest.mark.parametrize("type, rows, shape", EMPTY, ids=[str(type) for type, _, _ in EMPTY])
def test_empty_lists_have_the_extents_of_their_type(tmp_path, type, rows, shape, more, batch):
    path = write(tmp_path / "t.parquet", {"x": pa.array(rows, type)})
    wanted = [shape if 0 in np.shape(row) else np.shape(row) for row in rows]
    assert shapes(Loader(path, batch, fields={"x": list}, **more), "x") == wanted


def test_ragged_batches_take_empty_lists_of_lists(tmp_path):
    path = write(tmp_path / "t.parquet", {"x": pa.array(BOXES, FIXED)})
    (batch,) = Loader(path, 4, fields={"x": None}, ragged="x")
    assert batch.x.tensor.shape == (4, 2, 4) and batch.x.sample_sizes.tolist() == [0, 1, 0, 2]
