# SPDX-License-Identifier: Apache-2.0
"""Columns of tables: the shapes that lists of numbers get in batches, also if they are empty, and extension types of Arrow."""

import json

import numpy as np
import pytest
from stoker import Loader
from stoker import transforms as T
from stoker.errors import InvalidArgumentError
from stoker.loader.sources._table import inspect
from tables import IMAGES, jpeg, pa, write

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


def tensors(values, outer, permutation=None):
    """Returns an Arrow array of tensors, or of lists of tensors. values: an array of the tensors. outer: the offsets of the lists, the innermost ones first."""
    type = pa.fixed_shape_tensor(pa.from_numpy_dtype(values.dtype), values.shape[1:], permutation=permutation)
    flat = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), values[0].size)
    made = pa.ExtensionArray.from_storage(type, flat)
    for offsets in outer:
        made = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), made)
    return made


def test_lists_of_tensors_keep_the_tensors_shape(tmp_path, rng):
    values = rng.normal(size=(6, 2, 3)).astype(np.float32)
    one = tensors(values, [[0, 2, 2, 6]])
    two = tensors(values, [[0, 1, 2, 3, 4, 5, 6], [0, 2, 2, 6]])
    path = write(tmp_path / "t.parquet", {"one": one, "two": two}, 2)
    (batch,) = Loader(path, 3, fields={"one": list, "two": list})
    wanted = [values[:2], values[:0], values[2:]]
    assert all(np.array_equal(a.numpy(), b) for a, b in zip(batch.one, wanted, strict=True))
    assert [tuple(v.shape) for v in batch.two] == [(2, 1, 2, 3), (0, 0, 2, 3), (4, 1, 2, 3)]
    assert np.array_equal(batch.two[2].numpy()[:, 0], values[2:])
    fill = np.ones((1, 2, 3), np.float32)
    rows = pa.ListArray.from_arrays(pa.array([0, None, 6], pa.int32()), tensors(values, []))
    filled = Loader.from_parquet(write(tmp_path / "n.parquet", {"x": rows}), 2, fields={"x": list}, nulls={"x": fill})
    assert [tuple(v.shape) for b in filled for v in b.x] == [(6, 2, 3), (1, 2, 3)]
    with pytest.raises(InvalidArgumentError, match=r"nulls\['x'\]"):
        Loader.from_parquet(tmp_path / "n.parquet", 2, fields={"x": list}, nulls={"x": fill.reshape(1, 6)})


@pytest.mark.parametrize("outer", [[], [[0, 2, 6]]], ids=["tensors", "lists of tensors"])
def test_permuted_tensors_are_refused(tmp_path, rng, outer):
    values = rng.integers(0, 9, (6, 2, 3))
    path = write(tmp_path / "t.parquet", {"grid": tensors(values, outer, [1, 0]), "x": [1] * len(outer[0][1:] if outer else values)})
    with pytest.raises(InvalidArgumentError, match=r"the column 'grid' holds .* no form in a batch"):
        Loader(path, 2, fields=("grid",))
    same = write(tmp_path / "s.parquet", {"grid": tensors(values, outer, [0, 1])})
    assert np.array_equal(np.concatenate([v for b in Loader(same, 1, fields={"grid": list}) for v in b.grid]).ravel(), values.ravel())


@pytest.mark.parametrize(
    "values, said", [([[1.0, None], [1.0, 2.0]], "a number in its list is null"), ([[[1.0], None], [[2.0]]], "a list in it is null")]
)
def test_no_value_is_advised_for_nulls_in_lists(tmp_path, values, said):
    """nulls= replaces whole rows. It changes nothing about a null in a list."""
    path = write(tmp_path / "t.parquet", {"x": values, "y": pa.array([None, 1])})
    for nulls in ({}, {"x": [7.0]} if isinstance(values[1][0], float) else {"x": [[7.0]]}):
        with pytest.raises(ValueError, match=said) as e:
            next(iter(Loader.from_parquet(path, 2, fields=("x",), nulls=nulls)))
        assert "on_error='skip' leaves such rows out" in str(e.value) and "nulls" not in str(e.value)
    with pytest.raises(ValueError, match=r"'y': it is null \(on_error='skip' leaves such rows out, nulls=\{'y': VALUE\}"):
        next(iter(Loader.from_parquet(path, 2, fields=("y",))))


# Columns whose rows are no lists of numbers, and the start of their types.
OTHERS = {
    "struct": ([{"bbox": [[1.0, 2, 3, 4]], "category": [1]}] * 2, "struct<bbox"),
    "structs": ([[{"bbox": [1.0, 2, 3, 4]}]] * 2, "list<"),
    "words": ([["1", "2"]] * 2, "list<"),
    "text": (["1,2,3,4", "[1, 2]"], "string"),
    "number": ([1, 2], "int64"),
    "bytes": ([b"1234"] * 2, "binary"),
}


@pytest.mark.parametrize("make", [Loader, Loader.from_parquet])
@pytest.mark.parametrize("column", OTHERS)
def test_columns_that_cannot_follow_the_image_are_refused(tmp_path, rng, column, make):
    values, type = OTHERS[column]
    path = write(tmp_path / "t.parquet", {"photo": [jpeg(rng)] * 2, column: values})
    kinds = ["BoundingBoxes", "KeyPoints", ("BoundingBoxes", "XYWH")]
    kinds += [] if column in ("text", "bytes") else ["Mask", "Image", "FloatMap"]  # which may be files, or their paths
    for kind in kinds:
        with pytest.raises(InvalidArgumentError, match=f"the column '{column}' holds {type}.*: write these as a column of their own"):
            make(path, 2, fields={"photo": "Image", column: kind}, transforms=[T.Resize((5, 6))])
    for kind in (None, list):
        assert len(getattr(next(iter(make(path, 2, fields={"photo": "Image", column: kind}))), column)) == 2


@pytest.mark.parametrize("column", ["struct", "structs", "words", "number"])
def test_images_are_no_python_objects(tmp_path, column):
    path = write(tmp_path / "t.parquet", {column: OTHERS[column][0]})
    with pytest.raises(InvalidArgumentError, match=f"the column '{column}' holds .*Image is the bytes or the path of a file"):
        Loader.from_parquet(path, 2, image=column)


@pytest.mark.parametrize("image", [True, False], ids=["with images", "without images"])
@pytest.mark.parametrize("column", ["struct", "structs", "words", "text"])
def test_texts_and_objects_cannot_be_ragged(tmp_path, rng, column, image):
    path = write(tmp_path / "t.parquet", {column: OTHERS[column][0], **({"image": [jpeg(rng, 8)] * 2} if image else {})})
    fields = ("image", column) if image else (column,)
    with pytest.raises(InvalidArgumentError, match=rf"ragged: .*'{column}' holds .*a RaggedBatch holds numbers: leave it out of ragged"):
        next(iter(Loader(path, 2, fields=fields, ragged=(column,))))


@pytest.mark.parametrize("labels", [["a", "b"], [{"name": "a"}, {"name": "b"}], "scene"], ids=["words", "structs", "text"])
@pytest.mark.parametrize("getter", ["default", "labels", None])
def test_rows_of_removed_boxes_are_removed_from_numbers_only(tmp_path, rng, labels, getter):
    """torchvision refuses labels that are no tensor, too."""
    boxes = [[[1.0, 2, 10, 12], [3.0, 3, 3, 3]]] * 2  # the second box is empty
    path = write(tmp_path / "t.parquet", {"image": [jpeg(rng, 24)] * 2, "boxes": boxes, "labels": [labels] * 2})
    fields = {"image": "Image", "boxes": "BoundingBoxes", "labels": None}
    made = Loader(path, 2, fields=fields, transforms=[T.SanitizeBoundingBoxes(labels_getter=getter)])
    if getter is None:
        (batch,) = made
        assert batch.labels == [labels] * 2 and [len(b) for b in batch.boxes] == [1, 1]
    else:
        with pytest.raises(InvalidArgumentError, match="their rows of 'labels', which holds strings or Python objects: give numbers"):
            next(iter(made))


FILES = {
    "the document's": (["bytes image", "text caption"], {"image": "image", "caption": "text"}),
    "one of any name": (["bytes photo", "number x"], {"photo": "image", "x": "number"}),
    "of a sound's name": (["bytes audio", "text text"], {"audio": "image", "text": "text"}),
    "image and others": (["bytes image", "bytes mask", "fixed id"], {"image": "image", "mask": "named bytes", "id": "bytes"}),
    "several": (["bytes a", "bytes b"], {"a": "named bytes", "b": "named bytes"}),
    "typed": (["Image a", "bytes image"], {"a": "image", "image": "named bytes"}),
    "without a feature": (["struct a", "text b"], {"a": "image", "b": "text"}),
    "two typed": (["Image image", "Image mask"], {"image": "named image", "mask": "named image"}),
    "a sound": (["Audio audio", "text text"], {"audio": "named sound", "text": "text"}),
    "an image and a sound": (["Image image", "Audio audio"], {"image": "named image", "audio": "named sound"}),
    "bytes and a sound": (["bytes image", "Audio audio"], {"image": "named bytes", "audio": "named sound"}),
    "paths": (["text image", "number x"], {"image": "text", "x": "number"}),
}


@pytest.mark.parametrize("case", list(FILES))
def test_inspect_says_what_a_loader_decodes(tmp_path, rng, case):
    columns, features = {}, {}
    file = jpeg(rng)
    for kind, name in map(str.split, FILES[case][0]):
        values = {"bytes": pa.array([file] * 2, pa.binary()), "fixed": pa.array([bytes(16)] * 2, pa.binary(16)), "number": [1, 2]}
        struct = pa.array([{"bytes": file, "path": None}] * 2, IMAGES)
        columns[name] = ["a", "b"] if kind == "text" else values.get(kind, struct)
        if kind in ("Image", "Audio"):
            features[name] = {"_type": kind}
    path = write(tmp_path / "t.parquet", columns, features=features)
    found = {c["name"]: ("named " if c["decoded_if_named"] else "") + c["becomes"] for c in inspect([str(path)])["columns"]}
    assert found == FILES[case][1]
    decoded = [name for name, form in found.items() if form == "image"]
    try:
        batch = next(iter(Loader(path, 2)))
    except InvalidArgumentError:
        assert not decoded and any(form.startswith("named") for form in found.values())
        return
    assert [name for name in batch._fields if getattr(getattr(batch, name), "ndim", 0) == 4] == ["image"] * len(decoded)


# ---- extension types ----

TEXTS = ['{"a": [1, 2.5, {"b": null}]}', "[1, 2]", '"word"', "17", "null", "true", '{"a": 1e3, "\u00e9": "\u4e16"}', "[]"]


@pytest.fixture
def as_json():
    if not hasattr(pa, "json_"):
        pytest.skip("this pyarrow has no type for JSON")
    return lambda texts: pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))


def _column(loader, name):
    with loader:
        return [value for batch in loader for value in getattr(batch, name)]


@pytest.mark.parametrize("images", [True, False])
def test_json_becomes_python_objects(tmp_path, rng, as_json, images):
    values, count = as_json(TEXTS), len(TEXTS)
    columns = {
        "whole": values,
        "inside": pa.StructArray.from_arrays([values, pa.array(range(count))], ["json", "number"]),
        "listed": pa.ListArray.from_arrays(pa.array([0, 1, 1, *range(3, count - 1), count], pa.int32()), values),
        **({"image": [jpeg(rng)] * count} if images else {"k": range(count)}),
    }
    columns["listed"] = pa.concat_arrays([columns["listed"], pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), values[:0])])[:count]
    path = write(tmp_path / "t.parquet", columns, 3)
    fields = {name: ("Image" if name == "image" else None) for name in columns}
    wanted = [json.loads(text) for text in TEXTS]

    def loader():
        return Loader(path, 3, fields=fields, last_batch="keep")

    assert _column(loader(), "whole") == wanted
    assert _column(loader(), "inside") == [{"json": value, "number": i} for i, value in enumerate(wanted)]
    assert _column(loader(), "listed") == [[json.loads(text) for text in texts] for texts in columns["listed"].to_pylist()]
    assert {c["name"]: c["becomes"] for c in inspect([str(path)])["columns"]}["whole"] == "object"


@pytest.mark.parametrize("text", ["", "{'a': 1}", '{"a": 1', "[1] 2", "[" * 100_000])
def test_a_text_that_is_not_json_is_a_bad_row(tmp_path, as_json, text):
    path = write(tmp_path / "t.parquet", {"k": range(4), "j": as_json(["1", "[2]", text, None])}, 2)
    with pytest.raises(ValueError, match=r"t\.parquet\[row group 1, row 0\], column 'j': it is not JSON: "):
        list(Loader(path, 2))
    with Loader.from_parquet(path, 2, nulls={"j": {"a": 3}}, on_error="skip", max_errors=1, last_batch="keep") as loader:
        assert [(b.k.tolist(), b.j) for b in loader] == [([0, 1], [1, [2]]), ([3], [{"a": 3}])]


def test_a_text_may_replace_nulls_of_json(tmp_path, as_json):
    path = write(tmp_path / "t.parquet", {"k": [0, 1], "j": as_json(["[1]", None])})
    assert _column(Loader.from_parquet(path, 2, nulls={"j": "none"}), "j") == [[1], "none"]


def test_json_is_no_image(tmp_path, as_json):
    path = write(tmp_path / "t.parquet", {"j": as_json(["1"]), "k": [1]})
    with pytest.raises(InvalidArgumentError, match=r"the column 'j' holds .*json.*Image is the bytes or the path of a file"):
        Loader.from_parquet(path, 1, image="j")


@pytest.mark.parametrize("storage", [[1, 2], ["a", "b"], [b"a", b"b"], [[1.0], [2.0]], [{"a": 1}, {"a": 2}]], ids=str)
@pytest.mark.parametrize("nested", ["", "list", "struct"])
def test_unknown_extension_types_are_refused(tmp_path, capfd, monkeypatch, storage, nested):
    """Only the package that defines such a type knows what its values mean."""
    monkeypatch.setattr("stoker._where._shown", set())
    if not hasattr(pa, "opaque"):
        pytest.skip("this pyarrow has no opaque types")
    storage = pa.array(storage)
    column = pa.ExtensionArray.from_storage(pa.opaque(storage.type, "thing", "vendor"), storage)
    if nested == "list":
        column = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), column)
    elif nested == "struct":
        column = pa.StructArray.from_arrays([column], ["x"])
    path = write(tmp_path / "t.parquet", {"k": [1, 2], "c": column})
    assert _column(Loader(path, 1), "k") == [1, 2]
    assert "columns without a form in batches are left out: c;" in capfd.readouterr().err
    with pytest.raises(
        InvalidArgumentError, match=r"the column 'c' holds .*arrow\.opaque.*, which has no form in a batch: convert it when"
    ):
        Loader(path, 1, fields=("k", "c"))


class Array2DExtensionType(pa.ExtensionType):
    """A type with the name of the one that `datasets` registers for its feature Array2D."""

    def __init__(self):
        super().__init__(pa.list_(pa.list_(pa.int32())), f"datasets.features.features.{type(self).__name__}")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type, serialized):
        return cls()


@pytest.mark.parametrize("known", ["uuid", "bool8", "datasets"])
def test_the_values_of_known_extension_types_are_their_storage(tmp_path, known):
    if known == "datasets":
        type, storage = Array2DExtensionType(), pa.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], pa.list_(pa.list_(pa.int32())))
        pa.register_extension_type(type)
    elif not hasattr(pa, known):
        pytest.skip(f"this pyarrow has no {known}")
    else:
        type = getattr(pa, known)()
        storage = pa.array([1, 0], pa.int8()) if known == "bool8" else pa.array([bytes(range(16)), bytes(16)], pa.binary(16))
    try:
        path = write(tmp_path / "t.parquet", {"c": pa.ExtensionArray.from_storage(type, storage)})
        got = [np.asarray(value).tolist() for value in _column(Loader(path, 2), "c")]
    finally:
        if known == "datasets":
            pa.unregister_extension_type(type.extension_name)
    assert got == [list(value) if isinstance(value, bytes) else value for value in storage.to_pylist()]
