# SPDX-License-Identifier: Apache-2.0
"""Folders of Parquet files: a Loader reads the rows that pyarrow.dataset reads, or names the part that it would leave out."""

import json
import re
import shutil
import subprocess
import sys

import pytest
from stoker import Audio, Loader
from stoker.errors import InvalidArgumentError, ReadError
from stoker.loader.sources._table import inspect
from tables import pa, write

# Files of a table besides y=1/a.parquet, and what the error names; None: as pyarrow, the Loader reads all rows, or leaves the files out.
BESIDES = {
    "files and a folder": (["y=2/a.parquet", "y=2/z=5/a.parquet"], "y=2"),
    "another ending": (["y=2/a.parq"], "y=2"),
    "no ending": (["y=2/000000_0"], "y=2"),
    "deeper": (["y=2/z=1/a.parquet", "y=2/z=2/000000_0"], "y=2/z=2"),
    "all unclear below": (["y=2/z=1/000000_0", "y=2/z=2/000000_0"], "y=2"),
    "an empty folder in it": (["y=2/z/"], "y=2"),
    "tables in it": (["y=2/z/a.parquet", "y=3/a.parquet"], "y=2"),
    "no ending, next to a table": (["y=1/000000_0"], "y=1/000000_0"),
    "another ending, next to partitions": (["b.PARQ"], "b.PARQ"),
    "empty": (["y=2/"], None),
    "empty partitions": (["y=2/z=1/", "y=3/a.parquet"], None),
    "hidden": (["y=2/_temporary/a.parquet", "y=2/.a.parquet", "y=2/_SUCCESS"], None),
    "complete": (["y=2/z=1/a.parquet", "y=2/z=2/a.parquet", "y=3/a.parquet", "README.md", "LICENSE"], None),
}


@pytest.mark.parametrize("besides", list(BESIDES))
@pytest.mark.parametrize("make", [Loader, Loader.from_parquet])
def test_no_partition_is_left_out_silently(tmp_path, make, besides):
    import pyarrow.dataset

    files, named = BESIDES[besides]
    write(tmp_path / "y=1/a.parquet", {"x": [0]})
    for number, file in enumerate(files, 1):
        if file.endswith("/"):
            (tmp_path / file).mkdir(parents=True)
        elif file in ("README.md", "LICENSE"):
            (tmp_path / file).write_text("a text")
        else:
            write(tmp_path / file, {"x": [number]})
    found = pyarrow.dataset.dataset(str(tmp_path), exclude_invalid_files=True, format="parquet").to_table().column("x").to_pylist()
    if named is None:
        assert [x for b in make(tmp_path, 1, fields=("x",)) for x in b.x.tolist()] == sorted(found)
        return
    with pytest.raises(InvalidArgumentError, match=re.escape(f"{tmp_path / named}: ") + ".*(give Loader.from_parquet a|give one of them)"):
        make(tmp_path, 1)
    every = [file for file in tmp_path.rglob("*") if file.is_file()]  # the list that the error asks for
    assert sorted(x for b in Loader.from_parquet(every, 1, fields=("x",)) for x in b.x.tolist()) == sorted(found)


def test_partitions_that_cannot_be_listed_are_named(tmp_path):
    write(tmp_path / "y=1/a.parquet", {"x": [0]})
    (tmp_path / "y=2").symlink_to(".")  # a loop
    with pytest.raises(ReadError, match="y=2/y=2: Too many levels of symbolic links"):
        Loader(tmp_path, 1)


def test_a_table_and_folders_of_more_tables_are_not_mixed(tmp_path):
    write(tmp_path / "a.parquet", {"x": [1]})
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "x.jpg").touch()
    assert [b.x.tolist() for b in Loader.from_parquet(tmp_path, 1)] == [[1]]
    write(tmp_path / "more/y=1/a.parquet", {"x": [2]})
    with pytest.raises(InvalidArgumentError, match="it holds Parquet files, and so does its folder more: give a list"):
        Loader.from_parquet(tmp_path, 1)


# Names of files in a folder, and the pattern that the error advises; "": a list is advised; None: the rows are of one split.
SPLITS = {
    "shards": (["train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001", "validation-00000-of-00001"], "train-*.parquet"),
    "plain": (["train", "test"], "train*.parquet"),
    "in words": (["my_valid.1", "my_test.1"], "my_test*.parquet"),
    "capitals": (["Training 1", "Eval 1"], "Training *.parquet"),
    "digits": (["dev0", "dev1", "train0", "train1"], "train*.parquet"),
    "words of one split": (["test-0", "eval-0", "testing-0"], None),
    "next to others": (["train-0", "part-1", "0"], None),
    "in front": (["a-train", "b-train", "a-test"], ""),
    "partitions": (["y=1/train", "y=1/test"], ""),
    "one partition each": (["y=1/train", "y=2/test"], ""),
    "as a value": (["split=train/a", "split=test/a"], None),  # a column says which rows are of which split
    "as a value and in names": (["split=train/train-0", "split=test/test-0", "split=test/test-1"], None),
    "as a value that names contradict": (["split=train/train-0", "split=train/test-0", "split=test/test-0"], ""),
    "values of other words": (["y=1/split=dev/dev-0", "y=1/split=prod/train-0", "y=1/split=prod/0"], None),
    "two words": (["test_train", "test_val"], ""),
    "two words of all": (["train-test-0", "train-test-1"], None),
    "own names": (["en-00000-of-00002", "en-00001-of-00002", "fr.ca-00000-of-00001"], "en-*.parquet"),
    "an own name and a word": (["train-00000-of-00001", "extra_1-00000-of-00001-0a1b"], "train-*.parquet"),
    "own names that begin alike": (["en-00000-of-00001", "en_us-00000-of-00001", "en_gb-00000-of-00001"], "en-*.parquet"),
    "own names in partitions": (["y=1/en-00000-of-00001", "y=1/de-00000-of-00001"], None),
    "own names as values": (["split=en/en-00000-of-00001", "split=de/de-00000-of-00001"], None),
    "one own name": (["en-00000-of-00002", "en-00001-of-00002", "rest", "0"], None),
    "words in own names": (["train_clean-00000-of-00001", "train_other-00000-of-00001"], "train_clean-*.parquet"),
    "a word in an own name": (["train_1M-00000-of-00001", "train-00000-of-00002", "train-00001-of-00002"], "train-*.parquet"),
    "own names of several words": (
        ["train_sft-00000-of-00001", "test_sft-00000-of-00001", "test_gen-00000-of-00001"],
        "test_gen-*.parquet",
    ),
    "a dot in own names": (["train.100-00000-of-00001", "train.360-00000-of-00001"], "train.100-*.parquet"),
    "one own name with a word": (["train_sft-00000-of-00002", "train_sft-00001-of-00002"], None),
    "one word": (["train-00000-of-00002", "train-00001-of-00002"], None),
    "capitals of a word": (["Train-00000-of-00002", "train-00001-of-00002"], None),
    "own names without shards": (["en-0", "de-0", "en-of-2", "de-000-of-001", "a-b-00000-of-00001", "a-c-00000-of-00001"], None),
    "parts of words": (["trains-0", "contest-0", "latest", "devices-0", "values.1"], None),
}


def write_splits(folder, names):
    """Writes files of two rows, and returns a dict from their paths to their rows."""
    rows = {name: [2 * k, 2 * k + 1] for k, name in enumerate(names)}
    return {write(folder / f"{name}.parquet", {"x": x}): x for name, x in rows.items()}


@pytest.mark.parametrize("case", list(SPLITS))
@pytest.mark.parametrize("make", [Loader, Loader.from_parquet])
def test_splits_in_a_folder_are_not_mixed(tmp_path, make, case):
    names, pattern = SPLITS[case]
    folder = tmp_path / "data"
    files = write_splits(folder, names)
    every = sorted(x for rows in files.values() for x in rows)
    if pattern is None:
        assert sorted(x for b in make(folder, 1, fields=("x",)) for x in b.x.tolist()) == every
        return
    way = re.escape(f"the files of the split, as '{folder / pattern}'") if pattern else "a list of the files of one split"
    more = ", or a list of all of these files if they are one table" if "own name" in case else ""
    with pytest.raises(InvalidArgumentError, match=f"{re.escape(str(folder))}: its files are of several splits .*: give {way}{more}$"):
        make(folder, 1)
    assert sorted(x for b in Loader(list(files), 1, fields=("x",)) for x in b.x.tolist()) == every  # if the user asks for all


@pytest.mark.parametrize("case", [case for case, (_, pattern) in SPLITS.items() if pattern and case != "capitals"])
def test_the_pattern_of_a_split_gives_the_rows_that_datasets_gives(tmp_path, case):
    datasets = pytest.importorskip("datasets")
    names, pattern = SPLITS[case]
    write_splits(tmp_path / "data", names)
    splits = datasets.load_dataset(str(tmp_path), cache_dir=str(tmp_path / "cache"))
    assert len(splits) > 1
    assert sorted(x for b in Loader(tmp_path / "data" / pattern, 1) for x in b.x.tolist()) in [
        sorted(split["x"]) for split in splits.values()
    ]


# Names of files that `datasets` reads as one split in a folder that is not called data.
ONE_SPLIT = {
    "own names": ["wiki-00000-of-00002", "wiki-00001-of-00002", "books-00000-of-00001"],
    "years": ["y2023-00000-of-00001", "y2024-00000-of-00001"],
    "words in own names": ["train_1M-00000-of-00001", "train-00000-of-00001"],
    "below data": ["data/y=1/en-00000-of-00001", "data/y=1/de-00000-of-00001"],
}


@pytest.mark.parametrize("case", list(ONE_SPLIT))
@pytest.mark.parametrize("make", [Loader, Loader.from_parquet])
def test_own_names_of_splits_count_only_in_a_folder_called_data(tmp_path, make, case):
    files = write_splits(tmp_path / "tables", ONE_SPLIT[case])
    every = sorted(x for rows in files.values() for x in rows)
    folder = tmp_path / "tables" / ("data" if case == "below data" else "")
    assert sorted(x for b in make(folder, 1, fields=("x",)) for x in b.x.tolist()) == every
    datasets = pytest.importorskip("datasets")
    splits = datasets.load_dataset(str(tmp_path / "tables"), cache_dir=str(tmp_path / "cache"))
    assert {name: sorted(split["x"]) for name, split in splits.items()} == {"train": every}


def test_a_folder_called_data_may_be_the_current_one(tmp_path, monkeypatch):
    write_splits(tmp_path / "data", ["en-00000-of-00001", "de-00000-of-00001"])
    monkeypatch.chdir(tmp_path / "data")
    with pytest.raises(InvalidArgumentError, match=r"its files are of several splits \(de, en\)"):
        Loader(".", 1)


def test_advice_about_folders_of_splits_does_not_mix_them(tmp_path):
    for name in ("test/a.parquet", "train/a.parquet"):
        write(tmp_path / "folders" / name, {"x": [1]})
    with pytest.raises(InvalidArgumentError, match=r"give one of them, as .*/folders/train$"):
        Loader(tmp_path / "folders", 1)
    write_splits(tmp_path / "repo/data", ["train-0", "test-0"])
    with pytest.raises(
        InvalidArgumentError, match=r"/repo/data: its files are of several splits \(test, train\): .*/repo/data/train-\*.parquet'$"
    ):
        Loader(tmp_path / "repo", 1)
    write(tmp_path / "two/a/train.parquet", {"x": [1]})
    write(tmp_path / "two/b/test.parquet", {"x": [1]})
    with pytest.raises(InvalidArgumentError, match=r"give one of them, as .*/two/a$"):
        Loader(tmp_path / "two", 1)


def test_a_folder_of_splits_is_no_table_next_to_other_folders(tmp_path):
    write_splits(tmp_path / "a", ["train-0", "test-0"])
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.jpg").touch()
    with pytest.raises(InvalidArgumentError, match="/a: a class folder without images"):
        Loader(tmp_path, 1)


def test_splits_next_to_folders_are_not_mixed(tmp_path):
    write_splits(tmp_path, ["train-0", "test-0"])
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "x.jpg").touch()
    with pytest.raises(InvalidArgumentError, match="its files are of several splits"):
        Loader.from_parquet(tmp_path, 1)


def test_splits_next_to_folders_of_tables_are_not_mixed(tmp_path):
    """The advice is not a pattern that has both splits."""
    write_splits(tmp_path, ["train-0", "test-0", "more/x"])
    with pytest.raises(InvalidArgumentError, match=r"its files are of several splits \(test, train\): give .*/train-\*\.parquet'$"):
        Loader.from_parquet(tmp_path, 1)


@pytest.mark.parametrize("other", ["saved", "robots"])
def test_a_table_next_to_a_data_set_without_tables_is_read(tmp_path, other):
    write(tmp_path / "a.parquet", {"x": [1]})
    if other == "saved":
        (tmp_path / "b").mkdir()
        (tmp_path / "b/state.json").write_text('{"_data_files": [{"filename": "a.arrow"}]}')
        (tmp_path / "b/a.arrow").touch()
    else:
        (tmp_path / "b/meta").mkdir(parents=True)
        (tmp_path / "b/meta/info.json").write_text('{"codebase_version": "v2.1"}')
    assert [b.x.tolist() for b in Loader.from_parquet(tmp_path, 1)] == [[1]]


SAVED = {"state.json": {"_data_files": [{"filename": "a.arrow"}]}, "dataset_dict.json": {"splits": ["test", "train"]}}


@pytest.mark.parametrize("name", list(SAVED))
@pytest.mark.parametrize("arguments", [{}, {"fields": {"audio": Audio()}}, {"frames": 2}], ids=["images", "sounds", "clips"])
@pytest.mark.parametrize("make", [Loader, Loader.from_parquet])
def test_a_folder_that_datasets_saved_is_recognised(tmp_path, make, arguments, name):
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "a.arrow").touch()
    (tmp_path / name).write_text(json.dumps(SAVED[name]))
    one = "" if name == "state.json" else "[SPLIT]"
    with pytest.raises(
        InvalidArgumentError, match=re.escape(f"Loader(datasets.load_from_disk('{tmp_path}'){one}, batch_size, ...) reads ")
    ):
        make(str(tmp_path), 1, **arguments)


def test_a_folder_of_images_may_hold_a_state(tmp_path, tree):
    shutil.copytree(tree, tmp_path / "tree")
    (tmp_path / "tree" / "state.json").write_text('{"epoch": 3}')
    assert len(Loader(tmp_path / "tree", 1)) == len(Loader(tree, 1))


@pytest.mark.parametrize("command", ["inspect", "pack"])
def test_commands_do_not_mix_splits(tmp_path, command):
    write_splits(tmp_path / "in", ["train-0", "test-0"])
    more = ["-o", str(tmp_path / "out")] if command == "pack" else []
    done = subprocess.run(
        [sys.executable, "-m", "stoker", command, str(tmp_path / "in"), *more], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1 and f"{tmp_path}/in: its files are of several splits (test, train)" in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["inspect", "pack"])
def test_commands_name_the_partition_that_is_unclear(tmp_path, command):
    write(tmp_path / "in/y=1/a.parquet", {"x": [0]})
    write(tmp_path / "in/y=2/000000_0", {"x": [0]})
    more = ["-o", str(tmp_path / "out")] if command == "pack" else []
    done = subprocess.run(
        [sys.executable, "-m", "stoker", command, str(tmp_path / "in"), *more], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout) == (1, "") and done.stderr.startswith(f"stoker {command}: {tmp_path}/in/y=2: other partitions")


# Columns of two files, and the column that the error names; None: the Loader reads both.
COLUMNS = {
    "order": ({"i": [1], "t": ["x"]}, {"t": ["y"], "i": [2]}, None),
    "one more": ({"i": [1]}, {"i": [2], "t": ["y"]}, "t"),
    "an image more": ({"i": [1]}, {"i": [2], "image": [b"x"]}, "image"),
    "one less": ({"i": [1], "t": ["x"]}, {"i": [2]}, "t"),
    "no form": ({"i": [1]}, {"i": [2], "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}, None),
    "no name": ({"i": [1]}, {"i": [2], "a b": [5]}, None),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_no_column_is_left_out_silently(tmp_path, case):
    first, second, named = COLUMNS[case]
    write(tmp_path / "a.parquet", first)
    write(tmp_path / "b.parquet", second)
    assert inspect([f"{tmp_path}/*.parquet"])["alike"] == (case == "order")
    assert next(iter(Loader(tmp_path, 2, fields=("i",)))).i.tolist() == [1, 2]
    if named is None:
        assert next(iter(Loader(tmp_path, 2))).i.tolist() == [1, 2]
        return
    with pytest.raises(InvalidArgumentError, match=rf"b.parquet: it has (a|no) column '{named}', which .*a.parquet (lacks|has): .*fields"):
        Loader(tmp_path, 2)
    if named == "t":
        with pytest.raises(InvalidArgumentError, match=r"(a|b).parquet: it has no column 't', which .*(a|b).parquet has"):
            Loader(tmp_path, 2, fields=("i", "t"))


def test_inspect_shows_partitions(tmp_path):
    for y in (1, 2):
        write(tmp_path / f"z=5/y={y}/a.parquet", {"i": [y]})
    facts = inspect([f"{tmp_path}/*/*/*.parquet"])
    assert facts["alike"] and [(c["name"], c["type"], c["becomes"]) for c in facts["columns"]] == [
        ("i", "int64", "number"),
        ("y", "int64", "number"),
    ]
    assert next(iter(Loader(tmp_path, 2)))._fields == ("i", "y")


@pytest.mark.parametrize("own", [0, 1])
def test_a_column_of_any_file_is_no_partition(tmp_path, own):
    """The folder's value must not replace the values in the file, whichever file has the column."""
    for y in (0, 1):
        write(tmp_path / f"y={y}/a.parquet", {"i": [y]} | ({"y": [7]} if y == own else {}))
    for fields in (None, ("i", "y")):
        with pytest.raises(InvalidArgumentError, match=r"a.parquet: it has (a|no) column 'y', which .*a.parquet (lacks|has)"):
            Loader(tmp_path, 2, fields=fields)
    assert next(iter(Loader(tmp_path, 2, fields=("i",)))).i.tolist() == [0, 1]
