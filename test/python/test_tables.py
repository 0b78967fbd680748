# SPDX-License-Identifier: Apache-2.0
"""Parquet files as a Loader's source: values equal pyarrow's, each order delivers every row once, runs resume and ranks divide rows, bad files are refused."""

import contextlib
import datetime
import gc
import importlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import stoker
from PIL import Image
from stoker import Loader, Pipeline, Storage, fn
from stoker import transforms as T
from stoker.errors import (
    CorruptError,
    InvalidArgumentError,
    LimitError,
    NotFoundError,
    ReadError,
    StateError,
    StokerError,
    UnsupportedError,
)
from storage import KEYS, Store
from support import SEED
from tables import IMAGES, all_labels, jpeg, labels_of, pa, pq, rows_of, write, write_table

SMALL = [T.Resize((16, 16)), T.Normalize([0.5] * 3, [0.5] * 3)]
WANTED = {"image": "Image", "label": None}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Writes 64 rows to three files, with the rows' numbers as labels, and returns the folder."""
    return write_table(tmp_path_factory.mktemp("table"), np.random.default_rng(5))


@pytest.fixture
def groups_read(monkeypatch, request, tmp_path):
    """Returns a list to which each read of a row group of this test's files is appended, as (file, group). Reads of other files are left out, since a thread of
    an earlier test's Loader may still end its last read."""
    from stoker.loader.sources import _table

    read, real = [], _table.read_group
    folders = [tmp_path, *(request.getfixturevalue(name) for name in request.fixturenames if name == "table")]

    def spy(file, group, *more):
        if any(Path(file.name).is_relative_to(folder) for folder in folders):
            read.append((file.short, group))
        return real(file, group, *more)

    monkeypatch.setattr(_table, "read_group", spy)
    return read


def loader_of(table, batch=8, **more):
    return Loader(f"{table}/*.parquet", batch, **{"transforms": SMALL, "fields": WANTED, **more})


# ---- values ----


@pytest.mark.essential
def test_rows_are_samples_in_order(table):
    whole = pq.read_table(table)
    loader = Loader(
        f"{table}/*.parquet", 10, transforms=SMALL, fields={"image": "Image", "caption": None, "label": None}, last_batch="keep"
    )
    assert len(loader) == 7 and len(loader.dataset) == 64
    images, captions, labels = [], [], []
    for batch in loader:
        images += list(batch.image)
        captions += batch.caption
        labels += batch.label.tolist()
    assert labels == whole["label"].to_pylist() and captions == whole["caption"].to_pylist()
    files = Loader([(io_path(table, i, v["bytes"]), i) for i, v in enumerate(whole["image"].to_pylist())], 64, transforms=SMALL)
    assert all((a == b).all() for a, b in zip(images, next(iter(files)).image, strict=True))


def io_path(table, number, data):
    path = table.parent / f"{table.name}-files" / f"{number}.jpg"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("form", ["pattern", "list", "folder", "braces"])
def test_names_of_tables(table, form):
    source = {
        "pattern": f"{table}/part-*.parquet",
        "list": sorted(table.glob("*.parquet")),
        "folder": table,
        "braces": f"{table}/part-{{000..002}}.parquet",
    }[form]
    loader = Loader(source, 64, transforms=SMALL, fields=WANTED)
    assert next(iter(loader)).label.tolist() == list(range(64))


OPTIONS = [
    {"compression": "zstd"},
    {"compression": "snappy", "use_dictionary": True},
    {"compression": "none", "data_page_version": "2.0"},
    {"compression": "gzip", "use_dictionary": False, "data_page_size": 256},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: o["compression"])
def test_columns_of_all_types(tmp_path, rng, options):
    count = 23
    lists = [list(map(int, rng.integers(-5, 5, int(rng.integers(0, 5))))) for _ in range(count)]
    words = pa.array([f"w{i % 3}" for i in range(count)]).dictionary_encode()
    stamps = [datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=i) for i in range(count)]
    objects = [{"boxes": [[i, 0.5]] * (i % 3), "name": None if i % 4 == 0 else f"o{i}"} for i in range(count)]
    columns = {
        "image": pa.array([jpeg(rng) for _ in range(count)], pa.large_binary()),
        "whole": pa.array(range(count), pa.int16()),
        "real": pa.array(rng.normal(size=count), pa.float64()),
        "flag": pa.array([i % 2 == 0 for i in range(count)]),
        "stamp": pa.array(stamps, pa.timestamp("ms")),
        "word": words,
        "ids": pa.array(lists, pa.list_(pa.int32())),
        "fixed": pa.array(rng.normal(size=(count, 3)).tolist(), pa.list_(pa.float32(), 3)),
        "grid": pa.array(rng.normal(size=(count, 2, 3)).tolist(), pa.list_(pa.list_(pa.float64()))),
        "raw": pa.array([bytes([i, i + 1]) for i in range(count)], pa.binary(2)),
        "many": pa.array([[f"a{i}"] * (i % 3) for i in range(count)], pa.list_(pa.string())),
        "thing": pa.array(objects),
    }
    write(tmp_path / "t.parquet", columns, 7, **options)
    fields = {"image": "Image", **{name: None for name in columns if name not in ("image", "ids")}, "ids": list}
    batch = next(iter(Loader.from_parquet(tmp_path / "t.parquet", count, image="image", transforms=SMALL, fields=fields)))
    assert batch.whole.tolist() == list(range(count)) and str(batch.whole.dtype) == "torch.int64"
    assert np.array_equal(batch.real.numpy(), columns["real"].to_numpy().astype(np.float32))
    assert batch.flag.tolist() == [i % 2 == 0 for i in range(count)]
    assert batch.stamp.tolist() == columns["stamp"].cast(pa.int64()).to_pylist()
    assert batch.word == words.to_pylist() and [x.tolist() for x in batch.ids] == lists
    assert np.array_equal(batch.fixed.numpy(), np.asarray(columns["fixed"].to_pylist(), np.float32))
    assert np.array_equal(batch.grid.numpy(), np.asarray(columns["grid"].to_pylist(), np.float32))
    assert batch.raw.tolist() == [[i, i + 1] for i in range(count)]
    assert batch.many == columns["many"].to_pylist() and batch.thing == objects


def test_columns_of_datasets_features(tmp_path, rng):
    features = {"image": {"_type": "Image"}, "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}
    columns = {**rows_of(rng, 6), "label": pa.array([0, 1] * 3)}
    write(tmp_path / "t.parquet", columns, features=features)
    loader = Loader(tmp_path / "t.parquet", 6, transforms=SMALL)
    assert loader.classes == ["cat", "dog"] and next(iter(loader))._fields == ("image", "label", "caption")


def test_wanted_columns_alone_are_read(table, monkeypatch):
    asked, real = [], pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile,
        "read_row_group",
        lambda self, i, columns=None, **more: asked.append(tuple(columns)) or real(self, i, columns=columns, **more),
    )
    next(iter(loader_of(table)))
    assert set(asked) == {("image", "label")}


# ---- tables without images ----


def tokens_table(path, rng, count=41, group=7, **more):
    columns = {
        "tokens": pa.array([list(map(int, rng.integers(0, 99, int(rng.integers(0, 9))))) for _ in range(count)], pa.list_(pa.int32())),
        "weight": pa.array(rng.normal(size=count)),
        "text": pa.array([f"row {i} \u00e9" for i in range(count)]),
        "label": pa.array(range(count), pa.int16()),
        "facts": pa.array([{"name": None if i % 3 else f"n{i}"} for i in range(count)]),
        **more,
    }
    write(path, columns, group)
    return {name: column.to_pylist() for name, column in columns.items()}


@pytest.mark.essential
@pytest.mark.parametrize("first", ["tokens", "weight", "text", "label", "facts"])
def test_columns_without_an_image(tmp_path, rng, first):
    """Any kind of column may be the first field of a batch. In tables with images, that field is the image."""
    rows = tokens_table(tmp_path / "t.parquet", rng)
    names = [first, *(name for name in rows if name != first)]
    fields = {name: list if name == "tokens" else None for name in names}
    taken = {name: [] for name in names}
    for batch in Loader(tmp_path / "t.parquet", 8, fields=fields, last_batch="keep"):
        assert batch._fields == tuple(names)
        for name in names:
            taken[name] += [v if isinstance(v, (str, dict)) else v.tolist() for v in getattr(batch, name)]
    assert [len(v) for v in taken["tokens"]] == [len(v) for v in rows["tokens"]] and taken["tokens"] == rows["tokens"]
    assert taken["weight"] == np.float32(rows["weight"]).tolist()
    assert all(taken[name] == rows[name] for name in ("text", "label", "facts"))


@pytest.mark.parametrize("shuffle", [False, True, "groups"])
def test_tables_without_images_are_shuffled_and_resumed(tmp_path, rng, shuffle):
    tokens_table(tmp_path / "t.parquet", rng)

    def made():
        return Loader.from_parquet(tmp_path / "t.parquet", 4, memory=1, fields=("label",), shuffle=shuffle, seed=4, last_batch="keep")

    whole = list(labels_of(made()))
    assert sorted(label for labels in whole for label in labels) == list(range(41))
    first = made()
    batches = iter(first)
    for _ in range(5):
        next(batches)
    second = made()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    first.close()
    assert list(labels_of(second)) == whole[5:]


def test_token_lists_become_a_tensor_a_list_or_a_ragged_batch(tmp_path, rng):
    wanted = tokens_table(tmp_path / "t.parquet", rng)["tokens"][:16]
    longest = max(map(len, wanted))
    for fields in (("tokens", "label"), ("label", "tokens")):
        padded = next(iter(Loader(tmp_path / "t.parquet", 16, fields=fields, pad=-100)))
        assert padded.tokens.tolist() == [t + [-100] * (longest - len(t)) for t in wanted] and str(padded.tokens.dtype) == "torch.int64"
        ragged = next(iter(Loader(tmp_path / "t.parquet", 16, fields=fields, ragged="tokens"))).tokens
        assert ragged.sample_sizes.tolist() == [len(t) for t in wanted]
        assert [ragged.tensor[i, : len(t)].tolist() for i, t in enumerate(wanted)] == wanted
        with pytest.raises(InvalidArgumentError, match=r"the shape of 'tokens'.*'tokens': list.*ragged=\('tokens',\)"):
            next(iter(Loader(tmp_path / "t.parquet", 16, fields=fields)))


def test_images_are_not_read_where_fields_names_none(table, tmp_path, monkeypatch):
    from stoker.loader.sources import _table

    # This test needs its own copy, since loaders of other tests may still read ahead in the shared one.
    shutil.copytree(table, tmp_path / "own")
    asked, real = set(), _table.read_group
    monkeypatch.setattr(
        _table, "read_group", lambda f, g, columns, *more: (str(tmp_path) in f.name and asked.update(columns)) or real(f, g, columns, *more)
    )
    loader = Loader(f"{tmp_path}/own/*.parquet", 64, fields=("caption", "label", "index"))
    batch = next(iter(loader))
    assert batch.caption[63] == "row 63 \u00e9" and batch.index.tolist() == batch.label.tolist() and asked == {"caption", "label"}


def test_nulls_of_tables_without_images(tmp_path):
    write(tmp_path / "t.parquet", {"text": pa.array(["a", None, "c"]), "n": pa.array([1, 2, None])}, 2)
    with pytest.raises(Exception, match=r"t.parquet\[row group 0, row 1\], column 'text': it is null"):
        list(Loader(tmp_path / "t.parquet", 1))
    kept = [b.text[0] for b in Loader(tmp_path / "t.parquet", 1, on_error="skip", max_errors=2)]
    assert kept == ["a"]
    filled = [(b.text[0], int(b.n)) for b in Loader.from_parquet(tmp_path / "t.parquet", 1, nulls={"text": "", "n": -1})]
    assert filled == [("a", 1), ("", 2), ("c", -1)]


@pytest.mark.parametrize("value", [2, -1, 0.5, "no", None])
def test_a_null_of_a_column_of_bools_is_a_bool(tmp_path, value):
    pq.write_table(pa.table({"flag": [True, None, False]}), tmp_path / "t.parquet")
    with pytest.raises(InvalidArgumentError, match="the column holds bool"):
        Loader.from_parquet(tmp_path / "t.parquet", 3, nulls={"flag": value})
    assert next(iter(Loader.from_parquet(tmp_path / "t.parquet", 3, nulls={"flag": True}))).flag.tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    "arguments, said",
    [
        ({"transforms": SMALL}, "transforms is about images"),
        ({"bucket_by": "size"}, "bucket_by is about images"),
        ({"pad": {"Image": 0}}, "padded with one number"),
        ({"fields": ("nothing",)}, "no column 'nothing'; it has tokens"),
        ({"fields": ("tokens", "path")}, "no column 'path'; it has tokens"),
        ({"fields": {"tokens": "BoundingBoxes"}}, "no column of images"),
        ({"fields": ("grid",), "pad": 0}, "lists of lists"),
        ({"fields": ()}, r"fields is empty: it names what batches hold"),
        ({"fields": {}}, r"fields is empty: it names what batches hold"),
        ({"fields": ("size",), "pad": "zeros"}, "they name no column of the table; it has tokens"),
        ({"fields": ("grid", "s.x")}, r"fields: 's.x' cannot be a field's name.*: rename .* a part of a struct as a column of its own"),
        (
            {"fields": {"tokens": None, "class": None}},
            "fields: 'class' cannot be a field's name, .* does not begin with _$",
        ),
        ({"fields": (None, "class")}, "fields: None cannot be a field's name"),
        ({"fields": {"tokens": None, None: None}}, "fields: None cannot be a field's name"),
    ],
)
def test_what_tables_without_images_refuse(tmp_path, rng, arguments, said):
    tokens_table(tmp_path / "t.parquet", rng, grid=pa.array([[[1, 2]]] * 41))
    with pytest.raises(InvalidArgumentError, match=said):
        next(iter(Loader(tmp_path / "t.parquet", 4, **{"fields": ("tokens",), **arguments})))


def test_ranks_that_repeat_a_row_name_no_field_that_the_table_lacks(tmp_path, rng, capfd):
    tokens_table(tmp_path / "t.parquet", rng)
    list(Loader(tmp_path / "t.parquet", 4, fields=("label",), shard=(1, 8), last_batch="keep"))
    said = capfd.readouterr().err
    assert "they repeat one sample, which the field `valid` marks if fields= names it" in said and "image" not in said


# ---- tables of other writers ----


def test_files_and_groups_without_rows(tmp_path):
    """A table without rows is refused. Next to others, files and row groups without rows are skipped; writers store 0 as the offset of such a group."""
    write(tmp_path / "a.parquet", {"x": pa.array([], pa.int64())})
    with pytest.raises(InvalidArgumentError, match="the table has no rows"):
        Loader(tmp_path / "a.parquet", 2)
    with pq.ParquetWriter(tmp_path / "b.parquet", pa.schema([("x", pa.int64())])) as writer:
        for rows in ([1], [], [2, 3], []):
            writer.write_table(pa.table({"x": pa.array(rows, pa.int64())}))
    for shuffle in (False, True, "groups"):
        batch = next(iter(Loader(f"{tmp_path}/*.parquet", 3, shuffle=shuffle)))
        assert sorted(batch.x.tolist()) == [1, 2, 3]


def test_partitions_below_a_folder_with_a_question_mark(tmp_path):
    for year in (2023, 2024):
        write(tmp_path / "which?" / f"year={year}" / "part-0.parquet", {"x": pa.array([year])})
    batch = next(iter(Loader(sorted(tmp_path.glob("*/*/*.parquet")), 2, fields=("x", "year"))))
    assert batch.year.tolist() == batch.x.tolist() == [2023, 2024]


@pytest.mark.parametrize("form", ["folder", "from_parquet", "pattern", "list"])
def test_partitioned_folders(tmp_path, form):
    for year, city in ((2023, "Bern"), (2023, "a%20b"), (2024, "__HIVE_DEFAULT_PARTITION__")):
        write(tmp_path / f"year={year}" / f"city={city}" / "part-0.parquet", {"x": pa.array([year, year + 1])})
    (tmp_path / "_SUCCESS").touch()
    files = sorted(tmp_path.glob("*/*/*.parquet"))
    source = {"pattern": f"{tmp_path}/*/*/*.parquet", "list": files}.get(form, tmp_path)
    made = Loader.from_parquet if form == "from_parquet" else Loader
    batch = next(iter(made(source, 6, fields=("x", "year"))))
    assert batch.year.tolist() == [2023] * 4 + [2024] * 2 and batch.x.tolist() == [2023, 2024] * 2 + [2024, 2025]
    places = Loader.from_parquet(source if form != "folder" else files, 6, nulls={"city": "?"})
    assert dict(zip(next(iter(places)).city, batch.year.tolist(), strict=True)) == {"Bern": 2023, "a b": 2023, "?": 2024}
    assert next(iter(made(source, 6, fields=("year",)))).year.tolist() == batch.year.tolist()
    # A value in the folders' names that is equal for all files becomes a column only if `fields` names it.
    assert next(iter(Loader(files[-1], 2)))._fields == ("x",)
    assert next(iter(Loader(files[-1], 2, fields=("year", "x")))).year.tolist() == [2024, 2024]


@pytest.mark.parametrize(
    "values", [("007", "010", "1"), ("-01", "0", "12"), ("007", "x", "1"), ("a%20b", "c", "d"), ("1.5", "2", "3"), ("+1", "2", "3")]
)
def test_values_of_folders_are_pyarrows(tmp_path, values):
    import pyarrow.dataset

    for value in values:
        write(tmp_path / f"part={value}" / "a.parquet", {"x": [1]})
    table = pyarrow.dataset.dataset(str(tmp_path), partitioning="hive", format="parquet").to_table().to_pydict()
    (batch,) = Loader(tmp_path, 3, fields=("x", "part"))
    assert list(batch.part) == table["part"]


@pytest.mark.parametrize("values", [(1, 2), ("a", "b"), ("7", "b")])
def test_folders_that_contradict_a_column(tmp_path, values):
    for folder, value in zip(("fine", "bad", "range"), (values, (values[0], values[0]), (values[0], values)), strict=True):
        for name, own in zip(values, value, strict=True):
            rows = list(own) if isinstance(own, tuple) else [own] * 2
            write(tmp_path / folder / f"label={name}" / "a.parquet", {"x": [1, 2], "label": rows})
    (batch,) = Loader(tmp_path / "fine", 4)
    assert list(batch.label) == [values[0]] * 2 + [values[1]] * 2
    for folder in ("bad", "range") if isinstance(values[0], int) else ("bad",):
        with pytest.raises(
            InvalidArgumentError, match=rf"its folder says label={values[1]}, and its own column 'label' holds {values[0]!r}: rename"
        ):
            Loader(tmp_path / folder, 4)
        assert list(next(iter(Loader(tmp_path / folder, 4, fields=("x",)))).x) == [1, 2, 1, 2]
    # A folder that all files share may have nothing to do with the table.
    write(tmp_path / "label=9" / "a.parquet", {"x": [1], "label": [5]})
    assert next(iter(Loader(tmp_path / "label=9", 1))).label.tolist() == [5]


@pytest.mark.parametrize("folder", ["", "y=1"])
def test_files_that_writers_hide_are_no_part_of_a_table(tmp_path, folder):
    for name, value in (
        ("a.parquet", 1),
        ("B.PARQUET", 2),
        ("_c.parquet", 3),
        (".d.parquet", 4),
        ("_temporary/e.parquet", 5),
        (".ipynb/f.parquet", 6),
    ):
        write(tmp_path / folder / name, {"x": [value]})
    write(tmp_path / "_metadata.parquet", {"x": [7]})
    (tmp_path / "_SUCCESS").write_bytes(b"")
    assert sorted(x for b in Loader(tmp_path, 1) for x in b.x.tolist()) == [1, 2]


@pytest.mark.parametrize("log, said", [("_delta_log", r"Delta table, .* Loader\(DeltaTable\("), (".hoodie", "Hudi table")])
@pytest.mark.parametrize("make", [Loader, Loader.from_parquet])
@pytest.mark.parametrize("folder", ["", "y=1"])
def test_tables_with_a_log_of_their_files_are_refused(tmp_path, folder, make, log, said):
    write(tmp_path / folder / "a.parquet", {"x": [1]})
    (tmp_path / log).mkdir()
    with pytest.raises(UnsupportedError, match=said):
        make(tmp_path, 1)


def test_folders_of_tables_that_are_no_partitions_are_named(tmp_path):
    for part in ("a", "b"):
        write(tmp_path / part / "a.parquet", {"x": [1]})
    with pytest.raises(InvalidArgumentError, match=r"its folders hold Parquet files, .* give one of them, as .*/a, or a pattern"):
        Loader(tmp_path, 1)
    assert [b.x.tolist() for b in Loader(tmp_path / "*" / "*.parquet", 2)] == [[1, 1]]


def test_tensors_of_arrow_keep_their_shape(tmp_path, rng):
    wanted = rng.normal(size=(5, 2, 3)).astype(np.float32)
    column = pa.FixedShapeTensorArray.from_numpy_ndarray(wanted)
    write(tmp_path / "t.parquet", {"grid": column, "label": pa.array(range(5))}, 2)
    assert np.array_equal(next(iter(Loader(tmp_path / "t.parquet", 5))).grid.numpy(), wanted)
    turned = pa.fixed_shape_tensor(pa.float32(), (2, 3), permutation=[1, 0])
    write(tmp_path / "u.parquet", {"grid": pa.ExtensionArray.from_storage(turned, column.storage)})
    with pytest.raises(InvalidArgumentError, match=r"the column 'grid' holds .* no form in a batch"):
        Loader(tmp_path / "u.parquet", 5, fields=("grid",))


def test_columns_of_one_name_and_too_many_columns(tmp_path):
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"]), tmp_path / "a.parquet")
    with pytest.raises(InvalidArgumentError, match=r"a.parquet: several columns are called 'x'"):
        Loader(tmp_path / "a.parquet", 1)
    write(tmp_path / "b.parquet", {f"c{i}": pa.array([i]) for i in range(1200)})
    with pytest.raises(InvalidArgumentError, match=r"has 1200 columns .* fields= names those"):
        Loader(tmp_path / "b.parquet", 1)
    assert next(iter(Loader(tmp_path / "b.parquet", 1, fields=("c7", "c1199")))).c1199.tolist() == [1199]


@pytest.mark.parametrize("name", ["img.bytes", "a/b", "\U0001f600", "class", "picture"])
def test_names_of_columns_that_python_does_not_have(tmp_path, rng, name):
    write(tmp_path / "t.parquet", {name: pa.array([jpeg(rng)] * 5), "img": pa.array(["x"] * 5), "label": pa.array(range(5))}, 2)
    batch = next(iter(Loader.from_parquet(tmp_path / "t.parquet", 5, image=name, fields=("image", "label"), transforms=SMALL)))
    assert batch.label.tolist() == list(range(5)) and tuple(batch.image.shape) == (5, 3, 16, 16)


def test_columns_that_are_left_out_are_named(tmp_path, rng, capfd):
    columns = {**rows_of(rng, 3), "my label": [1, 2, 3], "class": [1, 2, 3], "price": pa.array([1, 2, 3], pa.decimal128(5, 2))}
    loader = Loader(write(tmp_path / "t.parquet", columns), 3, transforms=SMALL)
    assert next(iter(loader))._fields == ("image", "label", "caption")
    said = capfd.readouterr().err
    assert "columns without a form in batches are left out: price;" in said
    assert "whose names cannot be attributes of a batch: my label, class: rename those that you want" in said


@pytest.mark.parametrize("images", ["bytes", "structs", "numbers"])
def test_a_column_that_has_the_name_of_the_images_is_named(tmp_path, rng, capfd, images):
    """The field `image` holds another column, since image= chose it. What the notice advises works."""
    photo = jpeg(rng)
    structs = pa.array([{"bytes": photo, "path": None}] * 3, IMAGES)
    column = {"bytes": [photo] * 3, "structs": structs, "numbers": [1, 2, 3]}[images]
    columns = {"photo": structs if images == "structs" else [photo] * 3, "image": column, "label": [1, 2, 3]}
    table = write(tmp_path / f"{images}.parquet", columns)  # a notice is printed once for each name
    assert next(iter(Loader.from_parquet(table, 3, image="photo", transforms=SMALL)))._fields == ("image", "label")
    said = capfd.readouterr().err
    assert "the column 'image' is left out, because batches have the column 'photo' under this name: " in said
    assert "cannot be attributes" not in said
    if images == "numbers":
        assert "rename it when the table is written" in said
        return
    assert "fields={'photo': 'Image', 'image': 'Image'} without image= gives both" in said
    batch = next(iter(Loader.from_parquet(table, 3, fields={"photo": "Image", "image": "Image"}, transforms=SMALL)))
    assert batch._fields == ("photo", "image") and batch.photo.tolist() == batch.image.tolist()


@pytest.mark.parametrize("type", [pa.float64(), pa.list_(pa.float64())])
def test_floats_that_float32_cannot_hold_are_refused(tmp_path, type):
    """Refuses numbers that are too large for float32. Accepts infinity, NaN, and numbers that are rounded to 0."""
    values = [float("inf"), 1e-300, 3e38, float("nan")]
    nested = type != pa.float64()
    fine = write(tmp_path / "fine.parquet", {"x": pa.array([[v] if nested else v for v in values], type)})
    found = next(iter(Loader(fine, 4))).x.flatten().tolist()
    assert found[:2] == [float("inf"), 0.0] and found[2] == np.float32(3e38) and np.isnan(found[3])
    bad = write(tmp_path / "bad.parquet", {"x": pa.array([[1e300] if nested else 1e300], type)})
    with pytest.raises(ValueError, match=r"bad.parquet\[row group 0, row 0\], column 'x': floats are float32, and 1e\+300 does not fit"):
        next(iter(Loader(bad, 1)))


@pytest.mark.parametrize(
    ("type", "fine", "large", "said"),
    [
        (pa.uint64(), 2**63 - 1, 2**63, "whole numbers are int64, and 9223372036854775808 does not fit"),
        (pa.uint64(), 5, 2**64 - 1, "whole numbers are int64, and 18446744073709551615 does not fit"),
        (pa.float64(), 3e38, -1e39, "floats are float32, and -1e.39 does not fit"),
    ],
)
@pytest.mark.parametrize("form", ["number", "list", "lists"])
def test_a_number_that_does_not_fit_is_a_fault_of_its_row_alone(tmp_path, type, fine, large, said, form):
    """A number that does not fit fails only its own row, and not all rows of its group."""
    wrap = {"number": lambda v: v, "list": lambda v: [v], "lists": lambda v: [[v], [v]]}[form]
    whole = {"number": type, "list": pa.list_(type), "lists": pa.list_(pa.list_(type))}[form]
    values = [wrap(large if k in (3, 11) else fine) for k in range(20)]
    name = write(tmp_path / "t.parquet", {"id": range(20), "x": pa.array([*values, None], whole)[:20]})
    loader = Loader(name, 4, on_error="skip", max_errors=5)
    got = [(int(i), x.flatten()[0].item()) for batch in loader for i, x in zip(batch.id, batch.x, strict=True)]
    assert [i for i, _ in got] == [i for i in range(20) if i not in (3, 11)]
    assert {x for _, x in got} == {fine if type == pa.uint64() else float(np.float32(fine))}
    with pytest.raises(ValueError, match=rf"t.parquet\[row group 0, row 3\], column 'x': {said} \(on_error='skip'"):
        list(Loader(name, 4))
    assert [i for batch in Loader(name, 4, fields=("id",)) for i in batch.id.tolist()] == list(range(20))


def test_bytes_of_one_length_are_no_images(tmp_path, rng):
    ids = pa.array([bytes(range(16))] * 3, pa.binary(16))
    assert next(iter(Loader(write(tmp_path / "a.parquet", {"id": ids}), 3))).id.tolist() == [list(range(16))] * 3
    both = write(tmp_path / "b.parquet", {"id": ids, "picture": pa.array([jpeg(rng)] * 3)})
    assert next(iter(Loader(both, 3, transforms=SMALL))).image.shape == (3, 3, 16, 16)


@pytest.mark.parametrize("value", [0, "x", None, [[1, 2]], ["a", "b"]])
def test_nulls_of_lists_are_filled_by_lists(tmp_path, value):
    table = write(tmp_path / "t.parquet", {"x": pa.array([[1, 2], None], pa.list_(pa.int8()))})
    for fill in ([7, 8], (7, 8), np.array([7, 8])):
        assert next(iter(Loader.from_parquet(table, 2, nulls={"x": fill}))).x.tolist() == [[1, 2], [7, 8]]
    with pytest.raises(InvalidArgumentError, match=r"nulls\['x'\] is .* and the column holds list<.*int8>: give such a list of numbers"):
        Loader.from_parquet(table, 2, nulls={"x": value})


@pytest.mark.parametrize(
    "type, value",
    [
        (pa.int64(), 1.5),
        (pa.int64(), 2**63),
        (pa.int8(), float("nan")),
        (pa.int64(), [1]),
        (pa.timestamp("us"), b"x"),
        (pa.float64(), 1e300),
        (pa.float32(), "1"),
        (pa.list_(pa.int64()), [1.5, 2]),
        (pa.list_(pa.int64()), np.array([2**63], np.uint64)),
        (pa.list_(pa.bool_()), [2, 0]),
        (pa.list_(pa.float64()), [1e300]),
        (pa.list_(pa.int64(), 2), [1, 2, 3]),
        (pa.binary(2), b"xyz"),
        (pa.binary(2), 5),
        (pa.list_(pa.string()), {1}),
    ],
)
def test_values_for_nulls_are_never_changed(tmp_path, type, value):
    pq.write_table(pa.table({"x": pa.nulls(3, type), "n": [1, 2, 3]}), tmp_path / "t.parquet")
    with pytest.raises(InvalidArgumentError, match=r"nulls\['x'\] is .*, and the column holds .*: give "):
        Loader.from_parquet(tmp_path / "t.parquet", 3, nulls={"x": value})


@pytest.mark.parametrize(
    "type, value, filled",
    [
        (pa.int64(), np.int8(-1), -1),
        (pa.uint8(), 2.0, 2),
        (pa.int32(), True, 1),
        (pa.float64(), np.array(2.5), 2.5),
        (pa.float16(), 3, 3.0),
        (pa.float32(), float("inf"), float("inf")),
        (pa.list_(pa.float64(), 2), [1, 0.5], [1.0, 0.5]),
        (pa.list_(pa.int64(), 2), np.array([1.0, 2.0]), [1, 2]),
        (pa.binary(2), np.array([7, 8], np.uint8), [7, 8]),
    ],
)
def test_values_for_nulls_get_the_type_of_their_column(tmp_path, type, value, filled):
    pq.write_table(pa.table({"x": pa.nulls(2, type), "n": [1, 2]}), tmp_path / "t.parquet")
    assert next(iter(Loader.from_parquet(tmp_path / "t.parquet", 2, nulls={"x": value}))).x.tolist() == [filled] * 2


@pytest.mark.parametrize("make", [Loader, lambda table, n, **a: Loader.from_parquet(table, n, image="jpg", **a)])
def test_a_name_of_the_image_among_the_fields_says_how_to_write_it(tmp_path, rng, make):
    table = write(tmp_path / "t.parquet", {"jpg": pa.array([jpeg(rng)] * 3), "n": [1, 2, 3]})
    with pytest.raises(InvalidArgumentError, match=r"column 'jpg' is read as the image, .* fields=\{'jpg': 'Image', \.\.\.\}"):
        make(table, 3, fields=("jpg", "n"))
    assert next(iter(make(table, 3, fields=("image", "n"), transforms=SMALL))).image.shape == (3, 3, 16, 16)
    assert next(iter(make(table, 3, fields={"jpg": "Image", "n": None}, transforms=SMALL))).jpg.shape == (3, 3, 16, 16)


@pytest.mark.parametrize(
    "type, pad, fits",
    [
        (pa.int64(), 0.5, False),
        (pa.int64(), 2**63, False),
        (pa.int64(), -100, True),
        (pa.uint8(), 300, True),
        (pa.int64(), 2**53 + 1, True),
        (pa.int64(), np.int64(-(2**53) - 1), True),
        (pa.int64(), 2**63 - 1, True),
        (pa.int64(), -(2**63), True),
        (pa.int64(), 2**63, False),
        (pa.int64(), "zeros", True),
        (pa.float32(), 2**53 + 1, True),
        (pa.bool_(), -1, False),
        (pa.bool_(), 1, True),
        (pa.float32(), 1e300, False),
        (pa.float32(), 0.1, True),
    ],
)
def test_lists_are_padded_by_the_number_that_was_given(tmp_path, type, pad, fits):
    table = write(tmp_path / "t.parquet", {"x": pa.array([[1], [0, 1]], pa.list_(pa.int8())).cast(pa.list_(type))})
    if not fits:
        with pytest.raises(
            InvalidArgumentError, match=r"pad is .*, and the column 'x' holds lists of .*, which cannot hold it: give another"
        ):
            next(iter(Loader(table, 2, pad=pad)))
        return
    padded = next(iter(Loader(table, 2, pad=pad))).x
    number = 0 if pad == "zeros" else pad
    assert padded.numpy()[0, 1] == padded.numpy().dtype.type(number)
    assert padded.shape == (2, 2) and padded[0, 0] == 1 and padded[1].tolist() == [0, 1]


@pytest.mark.parametrize("first", [0, 3])
def test_a_path_that_leads_nowhere_names_its_row(tmp_path, rng, first):
    images = [{"bytes": jpeg(rng), "path": None}] * first + [{"bytes": None, "path": "gone.jpg"}]
    table = write(tmp_path / "t.parquet", {"image": pa.array(images, IMAGES)})
    with pytest.raises(FileNotFoundError, match=rf"in .*t.parquet\[row group 0, row {first}\]\): 'gone.jpg'"):
        list(Loader(table, 1, transforms=SMALL))


def test_lists_that_are_no_tensor_say_what_to_do(tmp_path):
    table = write(tmp_path / "t.parquet", {"polygons": pa.array([[[1.0, 2.0], [3.0]]])})
    with pytest.raises(ValueError, match=r"column 'polygons': its lists have different lengths, 2, 1, .* write each one as a struct"):
        next(iter(Loader(table, 1)))
    other = write(tmp_path / "u.parquet", {"polygons": pa.array([{"points": [[1.0, 2.0], [3.0]]}])})
    assert next(iter(Loader(other, 1))).polygons == [{"points": [[1.0, 2.0], [3.0]]}]


def test_the_column_of_a_damaged_image_is_named(tmp_path):
    table = write(tmp_path / "t.parquet", {"photo": pa.array([b"words"])})
    with pytest.raises(CorruptError, match=r"t.parquet\[row group 0, row 0, column 'photo'\]: not a JPEG"):
        next(iter(Loader(table, 1, transforms=SMALL)))


@pytest.mark.parametrize("name", ["az://b/x.parquet", "az://b/x-*.parquet", "abfss://b/x.parquet"])
def test_azure_says_what_to_use_instead(name):
    with pytest.raises(StokerError, match=r"Azure.*AzureBlobFileSystem.*azcopy"):
        Loader(name, 2)


# ---- order ----


@pytest.mark.essential
@pytest.mark.parametrize("shuffle", [False, True, "groups"])
def test_every_row_once(table, shuffle):
    loader = loader_of(table, shuffle=shuffle, last_batch="keep", seed=3)
    epochs = [all_labels(loader) for _ in range(2)]
    assert all(sorted(e) == list(range(64)) for e in epochs)
    assert (epochs[0] == epochs[1]) == (shuffle is False)
    again = loader_of(table, shuffle=shuffle, last_batch="keep", seed=3)
    assert all_labels(again) == epochs[0]


def small_windows(table, **more):
    """Returns a Loader that mixes the rows of two groups, a window, at a time; of more groups if `memory` is raised."""
    arguments = {"memory": 1, "shuffle": "groups", "seed": 9, "transforms": SMALL, "fields": WANTED, **more}
    return Loader.from_parquet(f"{table}/*.parquet", 4, **arguments)


def test_groups_are_mixed_some_at_a_time(table):
    rows = all_labels(small_windows(table, last_batch="keep"))
    starts = [0, 10, 20, 25, 35, 45, 55, 56, 64]
    group = [next(g for g in range(8) if starts[g] <= r < starts[g + 1]) for r in rows]
    seen = []
    while group:  # each window has all rows of two groups
        window = list(dict.fromkeys(group))[:2]
        size = sum(starts[g + 1] - starts[g] for g in window)
        assert set(group[:size]) == set(window)
        seen += window
        group = group[size:]
    assert sorted(seen) == list(range(8)) and seen != sorted(seen)


def group_order(loader):
    """Returns the windows of a Loader's first epoch, each as a set of (file, group), and the positions at which they begin and the last one ends."""
    source = loader._run.source
    order, _ = source._sequence(0, loader._spec, None)
    return [{(source.table.groups[g][0].short, source.table.groups[g][1]) for g in window} for window in order.windows], order.starts


@pytest.mark.essential
@pytest.mark.parametrize("steps", [1, 7, 12])
def test_resuming_reads_no_earlier_group(table, groups_read, steps):
    parts = list(labels_of(small_windows(table)))
    first = small_windows(table)
    batches = iter(first)
    for _ in range(steps):
        next(batches)
    state = json.loads(json.dumps(first.state_dict()))
    first.close()
    groups_read.clear()
    second = small_windows(table, seed=1)
    second.load_state_dict(state)
    assert next(labels_of(second)) == parts[steps]
    windows, starts = group_order(second)
    ended = set().union(*(w for w, end in zip(windows, starts[1:], strict=True) if end <= 4 * steps))
    assert groups_read and not ended & set(groups_read) and (steps == 1 or ended)
    second.close()
    third = small_windows(table, seed=1)
    third.load_state_dict(state)
    assert list(labels_of(third)) == parts[steps:]


@pytest.mark.parametrize("saved_again", [False, True])
@pytest.mark.parametrize("before, after", [(1, 2), (2, 1), (2, 3), (3, 2)])
def test_other_numbers_of_ranks_continue(table, before, after, saved_again):
    def run(world, state, steps):
        taken, states = [], []
        for rank in range(world):
            loader = small_windows(table, shard=(rank, world), last_batch="drop")
            if state:
                loader.load_state_dict(state)
            batches = labels_of(loader)
            taken.append([next(batches) for _ in range(steps)] if steps else list(batches))
            states.append(loader.state_dict())
            loader.close()
        assert all(s == states[0] for s in states) or not steps
        return [label for steps in taken for labels in steps for label in labels], states[0]

    first, state = run(before, None, 2)
    if saved_again:  # by a job that has not taken a batch yet
        with small_windows(table, shard=(0, after), last_batch="drop", memory=2**20) as loader:
            loader.load_state_dict(state)
            state = loader.state_dict()
    second, _ = run(after, state, 0)
    left = 64 - len(first) - len(second)
    assert len({*first, *second}) == len(first) + len(second) and 0 <= left < 4 * after


def test_ranks_read_their_own_groups(tmp_path, rng, groups_read):
    write_table(tmp_path, rng, (80, 80), 10)
    read = []
    for rank in range(2):
        groups_read.clear()
        loader = small_windows(tmp_path, shard=(rank, 2))
        batches = iter(loader)
        for _ in range(16):  # less than the 20 batches of a rank's epoch
            next(batches)
        loader.close()
        # A rank's epoch has 8 groups; the reads after the seventh may belong to the next epoch.
        read.append(set(list(dict.fromkeys(groups_read))[:7]))
    assert len(read[0]) == len(read[1]) == 7 and not read[0] & read[1]


def test_groups_are_read_in_the_order_of_their_rows(rng):
    """The groups whose rows are mixed with each other may be thousands of small ones. The first batch must not wait until all of them are read."""
    from types import SimpleNamespace

    from stoker.loader.sources._table_source import Deal, GroupOrder

    for _ in range(40):
        rows = [int(n) for n in rng.integers(1, 9, rng.integers(1, 60))]
        table = SimpleNamespace(rows=rows, starts=[0, *np.cumsum(rows).tolist()])
        deal = Deal(int(rng.integers(1, 4)), int(rng.integers(1, 7)))
        order = GroupOrder(table, int(rng.integers(1, 20)), deal, int(rng.integers(99)), 0)
        wanted = [int(np.searchsorted(table.starts, order(p), side="right")) - 1 for p in range(order.size)]
        for lane in range(deal.lanes):
            begin = int(rng.integers(0, order.steps + 1))
            positions = [
                p
                for s in range(begin, order.steps)
                for p in range((s * deal.lanes + lane) * deal.block, (s * deal.lanes + lane + 1) * deal.block)
            ]
            positions += range(order.steps * deal.lanes * deal.block, order.size) if lane == deal.lanes - 1 else []
            asked: list[int] = []
            for at in range(0, len(positions), deal.block):
                # a source requests groups in this order
                asked += [g for g in (wanted[p] for p in positions[at : at + deal.block]) if g not in asked]
                asked += order.ahead(positions[at])
            first = list(dict.fromkeys(asked))
            needed = list(dict.fromkeys(wanted[p] for p in positions))
            assert first[: len(needed)] == needed
            assert len(asked) <= 3 * len(set(asked))  # a batch does not request its whole window again


def test_memory_is_bounded(tmp_path, rng, monkeypatch):
    from stoker.loader.sources import _table

    write_table(tmp_path, rng, (120,), 10)
    one = _table.Table([f"{tmp_path}/*.parquet"]).group_bytes(0)
    most, real = [0], _table.Table._end_read

    def spy(self, group, opening, size):
        real(self, group, opening, size)
        held = [f.result().bytes for f in list(self._kept.values()) if f.done() and f.exception() is None]
        most[0] = max(most[0], sum(held) + size)
        assert self._kept_bytes == sum(self._sizes.values())

    monkeypatch.setattr(_table.Table, "_end_read", spy)
    loader = small_windows(tmp_path, memory=6 * one)
    assert sorted(all_labels(loader)) == list(range(120)) and most[0] <= 8 * one


ARROW_AT_MOST = """
import sys
import pyarrow
from stoker import Loader
path, memory, shuffle = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with Loader.from_parquet(path, 1, fields={"data": list, "label": None}, memory=memory, shuffle=shuffle == "groups" and "groups", prefetch=1) as loader:
    rows = sorted(label for batch in loader for label in batch.label.tolist())
assert rows == list(range(len(rows)))
print(len(rows), pyarrow.default_memory_pool().max_memory())
"""


def arrow_at_most(path, memory, shuffle):
    """Reads a table in another process, and returns the maximum number of bytes that Arrow held at a time, which does not depend on the allocator."""
    done = subprocess.run(
        [sys.executable, "-c", ARROW_AT_MOST, str(path), str(memory), shuffle], capture_output=True, text=True, timeout=300, check=True
    )
    return int(done.stdout.split()[-1])


@pytest.mark.parametrize("shuffle", ["groups", "no"])
def test_memory_of_large_groups(tmp_path, shuffle):
    """Arrow holds the rows of a group as stored and as decoded while it reads the group. In all, it holds at most 24 MiB more than `memory`."""
    rng, mib = np.random.default_rng(1), 1 << 20
    rows = {"data": pa.array([rng.bytes(mib // 4) for _ in range(480)]), "label": pa.array(range(480))}
    path = write(tmp_path / "table.parquet", rows, 32, use_dictionary=False)  # 15 groups of 8 MiB
    assert arrow_at_most(path, 40 * mib, shuffle) <= 64 * mib


def test_memory_of_one_large_column(tmp_path):
    """A column that is larger than `memory` is neither copied nor joined: one group of 96 MiB, with 12 MiB in each page."""
    rng, mib = np.random.default_rng(1), 1 << 20
    rows = {"data": pa.array([rng.bytes(12 * mib) for _ in range(8)]), "label": pa.array(range(8))}
    path = write(tmp_path / "table.parquet", rows, 8, use_dictionary=False, write_batch_size=1)
    assert arrow_at_most(path, 8 * mib, "no") <= 144 * mib


def test_closing_frees_groups_at_once(tmp_path):
    """close() in the middle of an epoch frees the groups, although the garbage collector does not run."""
    out, mib = io.BytesIO(), 1 << 20
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (256, 256, 3), np.uint8)).save(out, "PNG")  # 192 KiB
    rows = {"image": pa.array([out.getvalue()] * 96), "label": pa.array(range(96))}
    write(tmp_path / "table.parquet", rows, 16, use_dictionary=False)  # 6 groups of 3 MiB
    gc.collect()
    before = pa.total_allocated_bytes()
    gc.disable()
    try:
        with loader_of(tmp_path, 4, shuffle="groups", seed=1) as loader:
            for _ in range(3):
                next(iter(loader))
            # A view of the example would keep its whole group as long as the Loader.
            assert not any(isinstance(part, memoryview) for part in loader._run.source._example)
            assert pa.total_allocated_bytes() > before + mib
        end = time.monotonic() + 60  # close() does not wait for a thread that reads a group
        while pa.total_allocated_bytes() > before + mib and time.monotonic() < end:
            time.sleep(0.01)
        assert pa.total_allocated_bytes() <= before + mib
    finally:
        gc.enable()


def test_closing_frees_groups_of_bytes_at_once(tmp_path):
    """Bytes that are not decoded are views of a group. The Loader keeps none of the first samples, whose views would keep their group."""
    rng, mib = np.random.default_rng(1), 1 << 20
    rows = {"data": pa.array([rng.bytes(mib // 4) for _ in range(48)]), "label": pa.array(range(48))}
    write(tmp_path / "table.parquet", rows, 16, use_dictionary=False)  # 3 groups of 4 MiB
    gc.collect()
    before = pa.total_allocated_bytes()
    gc.disable()
    try:
        with Loader.from_parquet(tmp_path, 4, fields={"data": list, "label": None}, shuffle="groups", seed=1) as loader:
            next(iter(loader))
            assert pa.total_allocated_bytes() > before + mib
        end = time.monotonic() + 20  # close() does not wait for a thread that reads a group
        while pa.total_allocated_bytes() > before + mib and time.monotonic() < end:
            time.sleep(0.01)
        assert pa.total_allocated_bytes() <= before + mib
    finally:
        gc.enable()


@pytest.mark.parametrize("shuffle", ["groups", False])
@pytest.mark.parametrize("memory", [1, 10_000, 1 << 30])
def test_each_group_is_read_once_however_small_the_memory_is(tmp_path, rng, groups_read, shuffle, memory):
    """A group that is mixed with others, or read ahead, stays in memory until its last row is used."""
    write_table(tmp_path, rng, (80, 70), 10)
    loader = Loader.from_parquet(tmp_path, 4, transforms=SMALL, fields=WANTED, shuffle=shuffle, seed=5, memory=memory, last_batch="keep")
    assert sorted(all_labels(loader)) == list(range(150))
    assert len(set(groups_read[:15])) == 15  # there are 15 groups; later reads fetch groups of the next epoch
    assert memory > 1 << 20 or len(loader._run.source.table._sizes) < 15


def test_a_state_of_another_table_is_refused(table, tmp_path, rng):
    first = small_windows(table)
    next(iter(first))
    state = first.state_dict()
    write_table(tmp_path, rng, (25, 31, 8), 11)
    with pytest.raises(StateError, match="of another data set"):
        small_windows(tmp_path).load_state_dict(state)
    with pytest.raises(StateError, match="give the shuffle"):
        small_windows(table, shuffle=True).load_state_dict(state)
    for bad in ({"now": [0, 1, 1]}, {"kept": [1]}, {"table": 3}):
        broken = {**state, "dataset": {**state["dataset"], "groups": {**state["dataset"]["groups"], **bad}}}
        with pytest.raises(StateError, match="damaged"):
            small_windows(table).load_state_dict(broken)


def test_groups_are_of_tables(tree):
    with pytest.raises(InvalidArgumentError, match="is for tables"):
        Loader(tree, 2, shuffle="groups")


# ---- remote ----


@pytest.fixture
def store(table, tmp_path, monkeypatch):
    shutil.copytree(table, tmp_path / "store" / "bucket" / "table")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    server = Store(tmp_path / "store")
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {**server.environment, **KEYS}.items():
        monkeypatch.setenv(name, value)
    yield server
    server.close()


@pytest.mark.timeout(120)
def test_row_groups_of_a_store_are_not_waited_for_once_they_are_read(store, monkeypatch):
    """Stoker waits after each row group until pyarrow has released its file. Another reference to the file would make each group take the whole time limit."""
    from stoker.loader.sources import _table_files

    monkeypatch.setattr(_table_files, "_PATIENCE", 1000)
    loader = Loader("s3://bucket/table/part-*.parquet", 8, transforms=SMALL, fields=WANTED, shuffle="groups", last_batch="keep")
    assert len(all_labels(loader)) > 0


@pytest.mark.parametrize("faults", ["", "p503=0.05&reset=0.05&truncate=0.05&seed=3"])
def test_tables_in_a_store(store, table, faults):
    local = all_labels(loader_of(table, shuffle="groups", last_batch="keep"))
    store.set(faults)
    remote = Loader("s3://bucket/table/part-*.parquet", 8, transforms=SMALL, fields=WANTED, shuffle="groups", last_batch="keep")
    assert all_labels(remote) == local


@pytest.mark.parametrize("end", ["", "/"])
@pytest.mark.parametrize("kind", ["s3", "fetch"])
def test_a_folder_of_a_store_is_answered_with_a_pattern(store, table, kind, end):
    if kind == "s3":
        folder, storage = "s3://bucket/table", None
    else:
        data = {f"my://b/t/{p.name}": p.read_bytes() for p in table.glob("*.parquet")}
        folder = "my://b/t"
        storage = Storage(
            fetch=lambda name, at, n: data[name][at : None if n is None else at + n],
            list=lambda begin: [(name, len(d)) for name, d in data.items() if name.startswith(begin)],
        )
    said = f"give a pattern for the files of one split, as {folder}/train-*.parquet, or {folder}/*.parquet for all"
    for make in (Loader, Loader.from_parquet):
        with pytest.raises((InvalidArgumentError, ReadError, NotFoundError), match=re.escape(said)):
            make(folder + end, 8, storage=storage)
    assert len(Loader(f"{folder}/*.parquet", 8, storage=storage, fields=WANTED, transforms=SMALL)) > 0


NOTHING = pa.list_(pa.null())  # pyarrow's type for a column of empty lists


@pytest.mark.parametrize("typed", [pa.list_(pa.list_(pa.float32())), pa.list_(pa.list_(pa.float64(), 4))])
@pytest.mark.parametrize("empty", [(0,), (1,), (0, 1), (0, 1, 2)])
def test_files_in_which_no_image_has_boxes(tmp_path, rng, empty, typed):
    """They are read as if their columns were written with the type of the other files."""
    kinds = {"image": "Image", "boxes": "BoundingBoxes", "points": "KeyPoints", "labels": list, "names": None}
    found = []
    for kind in ("untyped", "typed"):
        for k in range(3):
            count = 0 if k in empty else 2
            values = {
                "boxes": ([[[1.0, 2, 8, 9 + k]] * count] * 2, typed),
                "points": ([[[3.0, 4]] * count] * 2, pa.list_(pa.list_(pa.float32(), 2))),
                "labels": ([[k] * count] * 2, pa.list_(pa.int64())),
                "names": ([["a"] * count] * 2, pa.list_(pa.string())),
            }
            columns = {n: pa.array(v, NOTHING if kind == "untyped" and not count else t) for n, (v, t) in values.items()}
            write(tmp_path / kind / f"{k}.parquet", {"image": [jpeg(np.random.default_rng(5))] * 2, **columns})
        loader = Loader(tmp_path / kind, 6, fields=kinds, transforms=[T.Resize((8, 8)), T.RandomHorizontalFlip(1.0)])
        found.append(next(iter(loader)))
    for untyped, known in zip(found[0].boxes + found[0].points, found[1].boxes + found[1].points, strict=True):
        assert untyped.dtype == known.dtype and untyped.shape == known.shape and untyped.tolist() == known.tolist()
    assert found[0].names == found[1].names
    if len(empty) < 3:  # without other files, nothing says that labels are numbers
        assert [x.tolist() for x in found[0].labels] == [x.tolist() for x in found[1].labels]


def test_empty_lists_of_unknown_type_cannot_be_ragged(tmp_path, rng):
    table = write(tmp_path / "t.parquet", {"image": [jpeg(rng)], "labels": pa.array([[]], NOTHING)})
    with pytest.raises(InvalidArgumentError, match=r"leave it out of ragged, or write it with its type, as pa\.list_\(pa\.int64\(\)\)"):
        Loader(table, 1, fields=("image", "labels"), ragged="labels")


@pytest.mark.parametrize("other", [pa.int64(), pa.list_(pa.float32(), 0), pa.string()])
def test_empty_lists_are_no_values_of_other_types(tmp_path, rng, other):
    write(tmp_path / "a.parquet", {"image": [jpeg(rng)], "x": pa.array([[]], NOTHING)})
    write(tmp_path / "b.parquet", {"image": [jpeg(rng)], "x": pa.nulls(1, other)})
    with pytest.raises(InvalidArgumentError, match=r"the column 'x' holds .*, and in .*a.parquet list<.*null>: write the file again"):
        Loader(tmp_path, 1)


def test_columns_whose_names_have_dots(request, tmp_path, rng, requests):
    """A column whose name contains a dot is read together with the other columns, and is not confused with a field of a struct."""
    rows = rows_of(rng, 20)
    columns = {"photo": pa.array([{"jpg": b"no image"}] * 20), "photo.jpg": rows["image"], "label": rows["label"]}
    path = write(tmp_path / "store" / "bucket" / "dotted" / "part.parquet", columns, 10)
    request.getfixturevalue("store")  # the store serves only files that exist when it starts
    for name in (str(path), "s3://bucket/dotted/part.parquet"):
        requests.clear()
        arguments = {"image": "photo.jpg", "transforms": SMALL, "fields": ("image", "label"), "last_batch": "keep"}
        with Loader.from_parquet(name, 5, **arguments) as loader:
            assert all_labels(loader) == list(range(20))
            source = loader._run.source.table
            assert source.files[0].roots == ["photo", "photo.jpg", "photo.jpg", "label"]
            chunks = [source.files[0].footer.row_group(0).column(k) for k in (1, 2, 3)]
            assert source.group_bytes(0) == sum(c.total_uncompressed_size for c in chunks)
        together = sum(c.total_compressed_size for c in chunks)
        assert not requests or any(length == together for _, _, length in requests)  # one request fetches the three columns


@pytest.fixture
def requests(monkeypatch):
    """Returns a list to which each read from a store is added, as (name, offset, length)."""
    from stoker.loader.sources import _table_files

    read, asked = _table_files._Ranges._fetch, []

    def watched(self, offset, length):
        asked.append((self.name.rpartition("/")[2], offset, length))
        return read(self, offset, length)

    begin = _table_files._Ranges.begin.__func__
    monkeypatch.setattr(
        _table_files._Ranges,
        "begin",
        classmethod(lambda c, name, storage: asked.append((name.rpartition("/")[2], 0, 4)) or begin(c, name, storage)),
    )
    monkeypatch.setattr(_table_files._Ranges, "_fetch", watched)
    return asked


GLOB, NAMES = "s3://bucket/table/part-*.parquet", [f"s3://bucket/table/part-{k:03d}.parquet" for k in range(3)]


@pytest.mark.parametrize("source, cold, warm", [(GLOB, 3, 0), (NAMES, 6, 3)], ids=["listed", "named"])
def test_footers_of_a_store_are_kept(store, table, tmp_path, requests, source, cold, warm):
    """The first start requests a listed file once, and a named one twice. The next start requests nothing or, for a named file, only its version."""
    counts = []
    for _ in range(2):
        requests.clear()
        with Loader(source, 8, transforms=SMALL, fields=WANTED, last_batch="keep") as loader:
            counts.append(len(requests))
            assert all_labels(loader) == list(range(64))
    assert counts == [cold, warm]
    kept = list((tmp_path / "caches/stoker/indexes").iterdir())
    assert len(kept) == 3 and {p.suffix for p in kept} == {".footer"}


@pytest.mark.parametrize(
    "caches, home, folder",
    [
        ("/caches", "/home/ada", "/caches/stoker/indexes"),
        ("caches", "/home/ada", "/home/ada/.cache/stoker/indexes"),
        ("", "/home/ada", "/home/ada/.cache/stoker/indexes"),
        (None, "/home/ada", "/home/ada/.cache/stoker/indexes"),
        (None, "ada", None),
        (None, None, None),
        ("/" + "c" * 5000, "/home/ada", None),
    ],
)
def test_footers_are_kept_in_the_folder_that_the_library_names(monkeypatch, caches, home, folder):
    """XDG_CACHE_HOME and HOME count only if they are absolute paths, and are ignored if they are too long, as for the library's own indexes."""
    from stoker import _core
    from stoker.loader.sources import _table_kept

    for name, value in {"XDG_CACHE_HOME": caches, "HOME": home}.items():
        monkeypatch.delenv(name, raising=False) if value is None else monkeypatch.setenv(name, value)
    assert _core.index_folder() == folder
    path = _table_kept._path_of("s3://bucket/part-0.parquet")
    assert path is None if folder is None else path is not None and path.rpartition("/")[0] == folder
    if folder is None:
        assert not _table_kept.keep("s3://bucket/part-0.parquet", _table_kept.Kept(1, "v", b"x"))
        assert _table_kept.load("s3://bucket/part-0.parquet") is None


@pytest.mark.parametrize("source", [GLOB, NAMES], ids=["listed", "named"])
def test_a_kept_footer_of_an_older_object_is_not_used(table, tmp_path, rng, monkeypatch, source):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    shutil.copytree(table, tmp_path / "store" / "bucket" / "table")
    for labels in (list(range(64)), [*range(25), *range(100, 140), *range(56, 64)]):
        with contextlib.closing(Store(tmp_path / "store")) as server:  # the store reads its objects when it starts
            for name, value in server.environment.items():
                monkeypatch.setenv(name, value)
            for _ in range(2):
                assert all_labels(Loader(source, 8, transforms=SMALL, fields=WANTED, last_batch="keep")) == labels
        write(tmp_path / "store/bucket/table/part-001.parquet", rows_of(rng, 40, 100))


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "fifo", "folder", "no_folder"])
def test_a_damaged_kept_footer_is_read_again(store, table, tmp_path, damage):
    assert len(all_labels(Loader(GLOB, 8, transforms=SMALL, fields=WANTED, last_batch="keep"))) == 64
    folder = tmp_path / "caches/stoker/indexes"
    for path in list(folder.iterdir()):
        data = path.read_bytes()
        path.unlink()
        if damage == "fifo":
            os.mkfifo(path)
        elif damage == "folder":
            path.mkdir()
        elif damage != "no_folder":
            path.write_bytes({"cut": data[:-20], "flipped": data[:50] + bytes([data[50] ^ 1]) + data[51:], "empty": b""}[damage])
    if damage == "no_folder":
        folder.rmdir()
        folder.write_text("a file where the folder should be")
    assert all_labels(Loader(GLOB, 8, transforms=SMALL, fields=WANTED, last_batch="keep")) == list(range(64))


@pytest.mark.parametrize("more", [-1000, -5, 5, 100_000])
def test_a_listing_with_other_sizes_than_the_objects(store, table, monkeypatch, more):
    """All rows are delivered, even if the listing has wrong sizes and versions, as after the objects were replaced."""
    from stoker.loader.sources import _table

    find = _table.find
    monkeypatch.setattr(_table, "find", lambda *given: [f._replace(size=f.size + more, tag=f.tag + 1) for f in find(*given)])
    for _ in range(2):
        assert all_labels(Loader(GLOB, 8, transforms=SMALL, fields=WANTED, last_batch="keep")) == list(range(64))


def test_resuming_reads_no_earlier_group_of_a_store(store, requests, monkeypatch):
    """A resumed run requests no byte of a window, which is a set of groups that are mixed with each other, if the saved run has delivered all rows of the
    window."""
    from stoker.loader.sources import _table

    monkeypatch.setattr(_table.Table, "window", lambda self: 2)

    def made():
        return Loader(GLOB, 4, transforms=SMALL, fields=WANTED, shuffle="groups", seed=11, last_batch="keep")

    whole = list(labels_of(made()))
    with made() as first:
        batches = iter(first)
        for _ in range(8):
            next(batches)
        state = json.loads(json.dumps(first.state_dict()))
    with made() as second:
        second.load_state_dict(state)
        windows, starts = group_order(second)
        ended = set().union(*(w for w, end in zip(windows, starts[1:], strict=True) if end <= 32))
        requests.clear()
        assert next(labels_of(second)) == whole[8] and ended
        files = {f.short: f.footer for f in second._run.source.table.files}
    for name, group in ended:
        columns = [files[name].row_group(group).column(i) for i in range(files[name].num_columns)]
        begin = min(c.dictionary_page_offset or c.data_page_offset for c in columns)
        end = begin + sum(c.total_compressed_size for c in columns)
        assert not [r for r in requests if r[0] == name and r[1] < end and begin < r[1] + r[2]], (name, group)
    assert requests


def test_tables_by_a_users_function(table):
    def fetch(uri, offset, length):
        with open(table / uri.rpartition("/")[2], "rb") as f:
            f.seek(offset)
            return f.read() if length is None else f.read(length)

    def listing(uri):
        return [(f"{uri}{p.name}", p.stat().st_size) for p in sorted(table.glob("*.parquet"))]

    storage = Storage(fetch=fetch, list=listing, fetch_schemes="hf")
    loader = Loader("hf://data/table/*.parquet", 64, transforms=SMALL, fields=WANTED, storage=storage)
    assert next(iter(loader)).label.tolist() == list(range(64))
    with pytest.raises(StokerError, match="needs a list"):
        Loader("hf://data/table/part-000.parquet", 4, fields=WANTED, storage=Storage(fetch=fetch, fetch_schemes="hf"))


class Counted:
    """A fetch function for Storage that changes one of its attributes in each call."""

    def __init__(self, table):
        self.table, self.read = table, 0

    def __call__(self, uri, offset, length):
        data = (self.table / uri.rpartition("/")[2]).read_bytes()[offset:]
        self.read += len(data)
        return data if length is None else data[:length]


def test_calls_of_a_table_are_not_compared(table, capfd, monkeypatch):
    """No notice about changed attributes appears for Stoker's own table, even if the user's function that reads its files changes its own attributes."""
    monkeypatch.setattr("stoker._where._shown", set())
    fetch = Counted(table)
    storage = Storage(
        fetch=fetch, list=lambda uri: [(f"{uri}{p.name}", p.stat().st_size) for p in sorted(table.glob("*.parquet"))], fetch_schemes="hf"
    )
    loader = Loader("hf://data/table/*.parquet", 8, transforms=SMALL, fields=WANTED, storage=storage, shuffle="groups", last_batch="keep")
    assert len(all_labels(loader)) > 0
    assert fetch.read > 0 and "one at a time" not in capfd.readouterr().err


# ---- bad input ----


def broken(tmp_path, change):
    """Writes a table, and applies `change` to one of its files."""
    write_table(tmp_path, np.random.default_rng(1), (20, 20))
    path = tmp_path / "part-001.parquet"
    path.write_bytes(change(path.read_bytes()))
    return tmp_path


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda b: b"", "0 bytes"),
        (lambda b: b[: len(b) // 2], "cut short"),
        (lambda b: b[:-8] + (2**31).to_bytes(4, "little") + b"PAR1", "footer of 2147483648 bytes"),
        (lambda b: b[:-8] + (9).to_bytes(4, "little") + b"PAR1", "part-001"),
        (lambda b: b[:-4] + b"PARE", "encrypted"),
        (lambda b: b[:4] + b[len(b) // 2 :], "damaged or cut short"),
    ],
    ids=["empty", "cut", "length", "footer", "encrypted", "front"],
)
def test_damaged_footers_are_refused(tmp_path, change, said):
    with pytest.raises(StokerError, match=said) as e:
        loader_of(broken(tmp_path, change))
    assert "part-001.parquet" in str(e.value)


def test_a_damaged_group_is_named(tmp_path):
    def change(b):
        at = pq.ParquetFile(io.BytesIO(b)).metadata.row_group(1).column(0).data_page_offset
        return b[: at + 2] + b"\xff" * 40 + b[at + 42 :]

    loader = loader_of(broken(tmp_path, change), last_batch="keep")
    with pytest.raises(Exception, match=r"part-001.parquet.*row group 1") as e:
        list(loader)
    assert "part-001.parquet" in str(e.value)


def test_damaged_bytes_of_an_image_name_the_row(tmp_path, rng):
    columns = rows_of(rng, 12)
    images = columns["image"].to_pylist()
    images[7]["bytes"] = b"no image"
    write(tmp_path / "t.parquet", {**columns, "image": pa.array(images, IMAGES)}, 5)
    with pytest.raises(StokerError, match=r"t.parquet\[row group 1, row 2\]"):
        list(Loader(tmp_path / "t.parquet", 4, transforms=SMALL, fields=WANTED))
    skipping = Loader(tmp_path / "t.parquet", 4, transforms=SMALL, fields=WANTED, on_error="skip", max_errors=2)
    assert all_labels(skipping) == [i for i in range(12) if i != 7]


REPEATED = 1 << 19  # bytes of a value that many rows repeat


@pytest.mark.parametrize("form", ["text", "bytes", "image", "struct", "categories"])
def test_long_values_that_rows_repeat_are_kept_once(tmp_path, rng, form):
    """A value that many rows repeat is held once, as in the file's dictionary. With a copy for each row, the group would take 140 to 210 MB."""
    picture = jpeg(rng) + bytes(REPEATED)
    value = {"text": "\u00e9" * (REPEATED // 2), "categories": "x" * REPEATED}.get(form, picture)
    values = [None if i == 7 else value if i % 3 else value[:5] if form in ("text", "categories") else picture[:-5] for i in range(400)]
    if form == "struct":
        column = pa.array([{"bytes": v, "path": None} for v in values], IMAGES)
    else:
        column = pa.array(values, pa.string() if isinstance(value, str) else pa.binary()).dictionary_encode()
        column = column if form == "categories" else column.dictionary_decode()
    write(tmp_path / "t.parquet", {"v": column, "label": range(400)}, 400, dictionary_pagesize_limit=64 << 20, write_statistics=False)
    del column
    image = "v" if form in ("image", "struct") else None
    fields = {"v": "Image" if image else None, "label": None}
    table = importlib.import_module("stoker.loader.sources._table").Table(
        [str(tmp_path / "t.parquet")], names=("v", "label"), kinds={}, image=image
    )
    group = table._made(0)
    assert group.bytes < 8 * REPEATED
    for row in (0, 1, 2, 399):
        found = group.values["v"](row)
        assert (found if isinstance(found, str) else bytes(found)) == values[row]
    assert group.values["v"](7) is None
    del group
    table.close()
    if form in ("text", "categories"):
        loader = Loader(tmp_path / "t.parquet", 2, fields=fields, on_error="skip", prefetch=1)
        batches = iter(loader)
        assert [text for _ in range(5) for text in next(batches).v] == [v for v in values[:10] if v is not None]
        loader.close()


def test_headers_of_dictionaries():
    parse = importlib.import_module("stoker.loader.sources._table_files")._dictionary_page
    # Headers of dictionary pages as pyarrow writes them, without and with a checksum.
    whole = bytes.fromhex("150415984e15e8034c150215001200008c271088")
    checked = bytes.fromhex("150415984e15e80315e2d4c38b0a3c15021500120000")
    assert parse(whole) == parse(checked) == (5004, 1)
    for head in (whole, checked):
        for n in range(len(head)):
            assert parse(head[:n]) in ((0, 1), (5004, 1))
    for head in (b"", b"\x15", b"\xff" * 64, b"\x15\x04" + b"\xff" * 62, bytes(64), b"\x15\x00" + whole[2:]):
        assert parse(head) == (0, 1)


def test_rows_over_the_memory_limit(tmp_path, groups_read):
    """A group is refused without being read if its mean row is over the limit. In other groups, only rows over the limit are refused."""
    sizes = [10, 20_000, 30, 3_000_000, 40, 50]
    columns = {"text": ["x" * n for n in sizes], "label": range(len(sizes))}
    path = write(tmp_path / "t.parquet", columns, 3, use_dictionary=False)
    with pytest.raises(LimitError, match=r"t\.parquet\[row group 0, row 1\]: it takes 20000 bytes, over memory_limit, 10000 bytes a row"):
        list(Loader(path, 1, memory_limit=10_000))
    loader = Loader(path, 1, memory_limit="10kB", on_error="skip", max_errors=4)
    assert [batch.label.tolist() for batch in loader] == [[0], [2]]
    assert set(groups_read) == {("t.parquet", 0)}
    with pytest.raises(LimitError, match="its row group has 3 rows that take 3000"):
        list(Loader(path, 1, memory_limit="10kB", on_error="skip", max_errors=3))
    assert [batch.label.tolist() for batch in Loader(path, 1, memory_limit="2MB", on_error="skip", max_errors=1)] == [
        [0],
        [1],
        [2],
        [4],
        [5],
    ]
    assert len(list(Loader(path, 1))) == 6


def test_a_long_text_is_decoded_in_one_piece(tmp_path):
    import tracemalloc

    targets = importlib.import_module("stoker.loader._targets")
    text = "a\u00e9\udc80" * (1 << 18)
    torch = pytest.importorskip("torch")
    encoded = torch.from_numpy(targets.text(text).copy())
    tracemalloc.start()
    try:
        assert targets.texts([encoded, encoded[-1:]]) == [text, ""]
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_another_type_in_one_file(tmp_path, rng):
    write_table(tmp_path, rng, (5, 5))
    write(tmp_path / "part-002.parquet", {**rows_of(rng, 5), "label": pa.array(["x"] * 5)})
    with pytest.raises(InvalidArgumentError, match=r"part-002.parquet: the column 'label' holds string, and in .*part-000.parquet int64"):
        loader_of(tmp_path)
    assert len(Loader(f"{tmp_path}/*.parquet", 5, transforms=SMALL, fields={"image": "Image", "caption": None})) == 3


def test_a_missing_column_in_one_file(tmp_path, rng):
    write_table(tmp_path, rng, (5,))
    columns = rows_of(rng, 5)
    del columns["label"]
    write(tmp_path / "part-001.parquet", columns)
    with pytest.raises(InvalidArgumentError, match=r"part-001.parquet: it has no column 'label'"):
        loader_of(tmp_path)


def test_nulls_by_policy(tmp_path, rng):
    columns = rows_of(rng, 9)
    images, captions = columns["image"].to_pylist(), columns["caption"].to_pylist()
    images[2], captions[5] = None, None
    columns |= {"image": pa.array(images, IMAGES), "caption": pa.array(captions, pa.string())}
    path = write(tmp_path / "t.parquet", columns, 4)
    fields = {**WANTED, "caption": None}
    with pytest.raises(Exception, match=r"t.parquet\[row group 0, row 2\], column 'image': it is null"):
        list(Loader(path, 3, transforms=SMALL, fields=fields))
    skipping = Loader(path, 3, transforms=SMALL, fields=fields, on_error="skip", max_errors=3)
    assert all_labels(skipping) == [0, 1, 3, 4, 6, 7, 8]
    filled = Loader.from_parquet(path, 3, nulls={"caption": "none"}, transforms=SMALL, fields=fields, on_error="skip", max_errors=3)
    rows = {label: caption for batch in filled for label, caption in zip(batch.label.tolist(), batch.caption, strict=True)}
    assert len(rows) == 8 and rows[5] == "none" and rows[4] == captions[4]
    with pytest.raises(InvalidArgumentError, match="give a value of that type"):
        Loader.from_parquet(path, 3, nulls={"caption": 3}, fields=fields)


@pytest.mark.parametrize("change", ["replaced", "deleted"])
def test_a_file_that_changes_while_it_is_read(tmp_path, rng, change):
    write_table(tmp_path, rng, (20, 20))
    loader = loader_of(tmp_path)
    if change == "deleted":
        (tmp_path / "part-001.parquet").unlink()
    else:
        write(tmp_path / "part-001.parquet", rows_of(rng, 21))
    taken = []
    with pytest.raises(Exception, match="part-001") as caught:
        for labels in labels_of(loader):
            taken += labels
    assert str(caught.value).count("part-001.parquet: ") == 1
    assert taken == list(range(len(taken))) and len(taken) <= 20


def test_a_file_that_is_cut_while_it_is_read(tmp_path):
    path = write(tmp_path / "a.parquet", {"label": pa.array(range(200_000))}, 20_000, compression="none", use_dictionary=False)
    batches, taken = iter(Loader(path, 1000)), []
    taken += next(batches).label.tolist()
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(StokerError, match=r"a\.parquet: row group \d: .*replaced while it was read"):
        for batch in batches:
            taken += batch.label.tolist()
    assert taken == list(range(len(taken)))


@pytest.mark.parametrize("change", ["a new file", "the same file", "touched"])
def test_a_file_that_is_replaced_by_one_of_its_size_and_time(tmp_path, change):
    path, other, picture = tmp_path / "a.parquet", tmp_path / "b", jpeg(np.random.default_rng(SEED))
    for name, first in ((path, 0), (other, 500)):
        rows = {"image": [picture] * 100, "label": np.arange(first, first + 100)}
        write(name, rows, compression="none", use_dictionary=False)
    assert path.stat().st_size == other.stat().st_size
    loader = Loader(str(path), 10, last_batch="keep", transforms=SMALL, fields=WANTED)
    it = iter(loader)
    taken = [next(it).label.tolist()]
    times = path.stat()
    if change == "touched":
        os.link(path, tmp_path / "link")  # a new link changes the inode's time, but not the file
    elif change == "a new file":
        os.replace(other, path)
    else:
        path.write_bytes(other.read_bytes())
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    if change == "touched":
        taken += [b.label.tolist() for b in it]
        assert [x for batch in taken for x in batch] == list(range(100))
    else:
        with pytest.raises(StokerError, match="was replaced while it was read"):
            for _ in range(20):
                for batch in it:
                    assert batch.label.max() < 100
                it = iter(loader)


@pytest.mark.parametrize("kind", ["fifo", "device", "loop", "missing"])
def test_what_lies_in_a_tables_place_is_no_file(tmp_path, kind):
    path = tmp_path / "a.parquet"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind != "missing":
        path.symlink_to("/dev/zero" if kind == "device" else path)
    with pytest.raises(StokerError, match=r"a\.parquet"):
        Loader(str(path), 4)
    write(tmp_path / "b.parquet", {"image": [jpeg(np.random.default_rng(SEED))] * 40}, group=4)
    loader = Loader(str(tmp_path / "b.parquet"), 4, transforms=SMALL, fields={"image": "Image"})
    (tmp_path / "b.parquet").unlink()
    if kind == "fifo":
        os.mkfifo(tmp_path / "b.parquet")
    with pytest.raises(StokerError, match=r"b\.parquet"):
        list(loader)


def test_errors_of_a_server_keep_their_class_and_name_the_file_once(tmp_path):
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "x").write_bytes(b"x")
    server, query = Store(tmp_path, key=""), "?X-Amz-Signature=SECRETMARK"

    def frames(url):
        pipe = Pipeline(1, 1, None)
        with pipe:
            pipe.set_outputs(fn.readers.video(filenames=[url], sequence_length=2))
        pipe.build()

    try:
        for name, read in (
            ("a.parquet", lambda url: Loader(url, 4)),
            ("a.mp4", lambda url: stoker.VideoDecoder(url)),
            ("b.mp4", frames),
        ):
            with pytest.raises(NotFoundError) as caught:
                read(f"{server.url}/none/{name}{query}")
            assert str(caught.value).count(f"/none/{name}") == 1 and "SECRETMARK" not in str(caught.value), name
    finally:
        server.close()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("source", [GLOB, NAMES, "http"])
def test_a_cache_on_disk_serves_later_runs_of_a_table(store, tmp_path, rng, source):
    """Later runs read the table from the cache. The cache's entries do not store an object's version as text, but a later run must not mix versions of a
    table."""
    files = tmp_path / "store" / "bucket" / "table"

    def run(epochs):
        kept = stoker.Storage(cache=tmp_path / "cache", retries=0)
        with Loader.from_parquet(source, 4, fields=("label",), memory=1, storage=kept) as loader:
            return [all_labels(loader) for _ in range(epochs)], kept.counters()["cache_hits"]

    want = [x for f in sorted(files.glob("*.parquet")) for x in pq.read_table(f).column("label").to_pylist()]
    with contextlib.closing(Store(tmp_path / "store", key="")) as admits_all:
        if source == "http":
            source = [f"{admits_all.url}/bucket/table/part-{k:03d}.parquet" for k in range(3)]
        for _ in range(2):
            rows, hits = run(2)
            assert rows == [want] * 2 and hits >= 4


def test_a_cache_on_disk_joins_no_versions_that_nobody_names(tmp_path):
    """A fetch function reports no version. So a file that was replaced between two runs is read again, and not joined with parts of the old file."""
    path = tmp_path / "t.parquet"

    def fetch(uri, offset, length):
        data = path.read_bytes()
        return data[offset:] if length < 0 else data[offset : offset + length]

    for first in (0, 100):
        pq.write_table(pa.table({"label": pa.array(range(first, first + 40), pa.int64())}), path, row_group_size=10, compression="none")
        kept = tmp_path / "cache"
        storage = stoker.Storage(
            cache=kept, fetch=fetch, list=lambda _: [("mine://d/t.parquet", path.stat().st_size)], fetch_schemes=["mine"], fetch_name="mine"
        )
        with Loader.from_parquet("mine://d/*.parquet", 4, fields=("label",), memory=1, storage=storage) as loader:
            assert all_labels(loader) == list(range(first, first + 40))


def test_a_footer_that_promises_other_rows(tmp_path, monkeypatch, rng):
    from stoker.loader.sources import _table_files

    write_table(tmp_path, rng, (20,))
    real = pq.ParquetFile.read_row_group
    monkeypatch.setattr(pq.ParquetFile, "read_row_group", lambda self, i, **more: real(self, i, **more).slice(1))
    with pytest.raises(CorruptError, match="holds 9 rows, and its footer says 10"):
        file = _table_files.read_footers([_table_files.Listed(str(tmp_path / "part-000.parquet"))], Storage())[0]
        _table_files.read_group(file, 0, ["label"], Storage())


def test_binary_columns_in_several_chunks():
    """Reads bytes and nulls from a column in several chunks; Arrow divides columns of more than 2 GiB like this."""
    from stoker.loader.sources._table_columns import column_of, values_of

    parts = [[b"a", None], [b"bc"]]
    chunked = pa.chunked_array([pa.array(p, pa.binary()) for p in parts])
    value = values_of(column_of("raw", pa.binary(), False), chunked).at
    assert [None if (v := value(i)) is None else bytes(v) for i in range(3)] == [b"a", None, b"bc"]


def test_columns_that_are_not_there(table, tmp_path, rng):
    with pytest.raises(InvalidArgumentError, match="no column 'text'; it has image, label, caption"):
        Loader(f"{table}/*.parquet", 4, fields={"image": "Image", "text": None})
    write(tmp_path / "t.parquet", {"a": pa.array([1, 2])})
    with pytest.raises(
        InvalidArgumentError, match=r"no column of images \(a\): .*image=COLUMN\) says which one; if it holds strings, they are paths"
    ):
        Loader(tmp_path / "t.parquet", 4, fields={"image": "Image", "a": None})
    write(tmp_path / "u.parquet", {"a": pa.array([jpeg(rng)]), "b": pa.array([jpeg(rng)])})
    with pytest.raises(InvalidArgumentError, match=r"several columns of images \(a, b\)"):
        Loader(tmp_path / "u.parquet", 4)
    assert next(iter(Loader.from_parquet(tmp_path / "u.parquet", 1, image="b", fields=("image",), transforms=SMALL))).image.shape[0] == 1
    with pytest.raises(FileNotFoundError, match="no file matches"):
        Loader(f"{tmp_path}/*x.parquet", 4)


def test_closing_ends_the_threads(table):
    """After close(), all threads that run the Loader's Dataset end, also those that another of them has started in the meantime."""
    before = set(threading.enumerate())
    for _ in range(20):
        loader = loader_of(table)
        next(iter(loader))
        loader.close()
    left = [t for t in threading.enumerate() if t.name == "stoker-dataset" and t not in before]
    for thread in left:
        thread.join(20)
    assert not any(t.is_alive() for t in left)


def test_what_a_table_does_not_take(table):
    with pytest.raises(InvalidArgumentError, match="python_workers"):
        loader_of(table, python_workers=2)
    with pytest.raises(InvalidArgumentError, match="exclude each other"):
        loader_of(table, shuffle="groups", sampler=lambda epoch: range(4))


def test_the_command_inspects_tables(table, tmp_path):
    def inspect(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "stoker", "inspect", *map(str, arguments)], capture_output=True, text=True, timeout=300
        )

    files = sorted(table.glob("*.parquet"))
    said = inspect(*files)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("64 rows in 3 files") and "8 row groups of 1 to 10 rows" in said.stdout
    assert "an image" in said.stdout and "a list of str" in said.stdout
    assert inspect(table).stdout == said.stdout  # a folder that a Loader reads as a table
    assert inspect("-j", table).stdout == inspect(*files, "--json").stdout
    write(tmp_path / "one.parquet", {"n": [1]})
    assert inspect(tmp_path / "one.parquet").stdout.startswith("1 row in 1 file (")
    facts = json.loads(inspect(*files, "--json").stdout)
    assert [c["name"] for c in facts["columns"]] == ["image", "label", "caption"] and facts["alike"]
    (tmp_path / "no.parquet").write_bytes(b"nothing")
    failed = inspect(tmp_path / "no.parquet")
    assert failed.returncode == 1 and "no.parquet" in failed.stderr


def test_the_command_inspects_odd_tables(tmp_path):
    """Names of columns cannot control a terminal or end a line, and a table may have no column. Options that the C program has are accepted."""

    def inspect(*arguments, code=0, **more):
        command = [sys.executable, "-m", "stoker", "inspect", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, **more)
        assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
        return done.stdout, done.stderr

    pq.write_table(pa.table({}), tmp_path / "none.parquet")
    assert inspect(tmp_path / "none.parquet")[0].splitlines() == ["0 rows in 1 file (176 B), 1 row group of 0 rows"]
    pq.write_table(pa.table({"a\x1b[31mb": [1], "c\nd": [2], "é": [3]}), tmp_path / "odd.parquet")
    names = [line.split()[0] for line in inspect(tmp_path / "odd.parquet")[0].splitlines()[1:]]
    assert names == ["a\\x1b[31mb", "c\\nd", "é"]
    ascii_only = os.environ | {"PYTHONIOENCODING": "ascii"}
    assert "\\xe9" in inspect(tmp_path / "odd.parquet", env=ascii_only)[0]
    said = inspect(tmp_path / "odd.parquet")[0]
    assert inspect(tmp_path / "odd.parquet", "-t", "2", "--quiet", "--region", "eu-west-1")[0] == said
    assert "the endpoint" in inspect(tmp_path / "odd.parquet", "--endpoint", "nowhere", code=2)[1]


@pytest.mark.parametrize("to", ["full", "closed", "pipe"])
def test_output_that_is_lost_is_a_failure(table, to):
    """If the output is lost, the exit code is 1, and a message says so unless only the reader of a pipe has ended, as in the C program."""
    command = f"{shlex.quote(sys.executable)} -m stoker inspect {shlex.quote(str(table))}"
    full = {"full": "> /dev/full", "closed": ">&-", "pipe": "| true; exit ${PIPESTATUS[0]}"}[to]
    done = subprocess.run(["bash", "-c", f"{command} {full}"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    assert not done.stdout and ("the output could not be written" in done.stderr) == (to != "pipe") and "Traceback" not in done.stderr


def test_the_first_program_of_the_documentation_runs(tmp_path):
    text = (Path(__file__).resolve().parents[2] / "doc" / "tables.md").read_text()
    program = text.partition("```python\n")[2].partition("```")[0]
    path = os.pathsep.join(os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=300, env=environment)
    said = f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert done.returncode == 0, said
    assert len(done.stdout.splitlines()) == 8 and "torch.Size([8, 3, 16, 16]) gray" in done.stdout, said


# ---- files that pyarrow's threads still hold after a table was returned ----


def test_pyarrow_reads_local_files_without_python(table, monkeypatch):
    """pyarrow's threads drop a file after the table was returned. If the file were a Python object, an interpreter that ends at that moment would abort."""
    given = []
    whole = pq.ParquetFile
    monkeypatch.setattr(pq, "ParquetFile", lambda source, **more: given.append(source) or whole(source, **more))
    assert sorted(all_labels(Loader(str(table / "*.parquet"), 8, fields=WANTED, transforms=SMALL))) == list(range(64))
    assert given and all(isinstance(source, pa.NativeFile) for source in given)


def test_reading_waits_until_no_thread_holds_its_bytes():
    released = importlib.import_module("stoker.loader.sources._table_files")._released
    held = []
    thread = threading.Timer(0.2, held.clear)

    def read(file):
        held.append(file.read(3))
        assert bytes(held[0]) == b"abc" and file.tell() == 3
        thread.start()

    released(io.BytesIO(b"abcdef"), read)
    assert held == []
    thread.join()
