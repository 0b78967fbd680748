# SPDX-License-Identifier: Apache-2.0
"""Finds the Parquet files of a table: in a source that the user gives, in folders, and in folders of partitions."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import unquote

from stoker._files import open_binary, read_text, without_query
from stoker.errors import InvalidArgumentError, ReadError, StokerError, UnsupportedError

PARTITION = re.compile("([^=/]+)=([^/]*)")  # a folder named COLUMN=VALUE, as Hive and Spark write it
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
# `datasets` writes STATE into the folder of a data set, and SPLITS into a folder that holds the folders of several splits.
STATE, SPLITS = "state.json", "dataset_dict.json"
_OTHER_ENDING = re.compile(r"\.(?!parq$)[a-z]\w*$", re.IGNORECASE)  # the ending of a file that is taken for no Parquet file
MAGIC = b"PAR1"  # the first and the last bytes of a Parquet file
# The splits that `datasets` sees in names of files and folders, by the words for them. The rule stands in datasets/data_files.py; capitals count here, too.
_SPLIT_OF_WORD = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "eval", "evaluation"), "test"),
}
_SPLIT_WORD = re.compile(rf"(?:^|(?<=[-._ 0-9]))({'|'.join(_SPLIT_OF_WORD)})(?=[-._ 0-9]|$)", re.IGNORECASE)
# A file of a split with any name, as `datasets` writes it: en-00000-of-00002.parquet. That library reads such names in a folder called data.
_SHARD = re.compile(r"(\w+(?:\.\w+)*)-\d{5}-of-\d{5}")
_TRAIN = frozenset({"train"})


def names_tables(source: Any) -> bool:
    """Returns whether `source` is a path, URL or pattern that ends in .parquet or .pq, in capitals or not."""
    if not isinstance(source, (str, bytes, os.PathLike)):
        return False
    return without_query(os.fsdecode(source)).lower().endswith((".parquet", ".pq"))


def tables_of(source: Any) -> list[str] | None:
    """Returns the names and patterns of a source's Parquet files; None for other sources. Such a source is one name, a list of names, a folder with Parquet
    files and no folders, or a folder of partitions. Files and folders whose names begin with a dot or "_" do not count: writers keep unfinished and private
    files there, and pyarrow and Spark leave them out, too. Raises UnsupportedError if the folder has a log that says which of its files count, and
    InvalidArgumentError or ReadError if some files or partitions of a table would be left out, if the folder holds several splits, or if it is a data set that
    something else reads."""
    if names_tables(source) and not os.path.isdir(os.fsdecode(source)):
        return [os.fsdecode(source)]
    if isinstance(source, (list, tuple)) and source and all(map(names_tables, source)):
        return [os.fsdecode(s) for s in source]
    if isinstance(source, (str, os.PathLike)) and os.path.isdir(source):
        folder = os.fspath(source)
        _refuse_data_sets(folder)
        found = _tables_of_folder(folder)
        _refuse_splits(folder, found)
        return found or None
    return None


def _refuse_data_sets(folder: str) -> None:
    """Raises InvalidArgumentError for a data set of LeRobot, and for a folder that `datasets` saved. Their folders are no classes, splits or partitions."""

    def has(word: str, *names: str) -> bool:
        try:
            return f'"{word}"' in read_text(os.path.join(folder, *names))
        except (OSError, ValueError):
            return False

    if has("codebase_version", "meta", "info.json"):
        raise InvalidArgumentError(
            f"{folder} holds a LeRobot data set (meta/info.json): Loader.from_lerobot({folder!r}, batch_size, ...) reads it"
        )
    saved = f"Loader(datasets.load_from_disk({folder!r})"
    if has("_data_files", STATE):
        raise InvalidArgumentError(
            f"{folder} holds a data set that `datasets` saved ({STATE}): {saved}, batch_size, ...) reads it; or make tars of it, as by `stoker pack`"
        )
    if has("splits", SPLITS):
        raise InvalidArgumentError(
            f"{folder} holds several data sets that `datasets` saved ({SPLITS}): {saved}[SPLIT], batch_size, ...) reads one; or make tars of one, as "
            "by `stoker pack`"
        )


def is_saved(folder: str) -> bool:
    """Returns whether `datasets` made the folder, by save_to_disk."""
    return any(os.path.isfile(os.path.join(folder, name)) for name in (STATE, SPLITS))


def _tables_of_folder(folder: str) -> list[str]:
    """Returns the Parquet files of a folder, as tables_of does, but also those of several splits; [] if the folder is no table."""
    try:
        names, folders = _inside(folder)
    except ReadError:
        return []
    return _tables_in(folder, names, folders) or []


def tables_in(folder: str) -> list[str]:
    """Returns the names and patterns of the Parquet files in a folder that the user calls a table. Unlike for tables_of, the folder may hold other folders,
    such as one of images whose paths are in a column. Raises InvalidArgumentError if these folders hold more Parquet files."""
    found = tables_of(folder)
    if found is not None:
        return found
    names, folders = _inside(folder)
    files = _paths(folder, [name for name in names if names_tables(name)])
    _refuse_splits(folder, files)
    more = next((f for f in folders if _holds_tables(os.path.join(folder, f))), None)
    if more is not None and files:
        raise InvalidArgumentError(
            f"{folder}: it holds Parquet files, and so does its folder {more}: give a list of the files that make the table, or a pattern, as "
            f"{os.path.join(folder, '*.parquet')}"
        )
    return [os.path.join(folder, "*.parquet")]


def _holds_tables(folder: str) -> bool:
    """Returns whether a folder next to a table's files holds Parquet files as a table does. This includes tables that would be refused."""
    try:
        return bool(_tables_of_folder(folder))
    except StokerError:
        return True


def is_table(source: Any) -> bool:
    """Returns whether a source is a table. This includes a table that tables_of refuses, so that the caller shows that error to the user."""
    try:
        return tables_of(source) is not None
    except StokerError:
        return True


def _inside(folder: str) -> tuple[list[str], list[str]]:
    """Returns the sorted names of a folder's files and of its folders, without names that begin with a dot or "_". Raises UnsupportedError for a folder with a
    log of its files."""
    try:
        with os.scandir(folder) as entries:
            found = sorted((e.name, e.is_dir()) for e in entries)
    except OSError as e:
        raise ReadError(f"{folder}: {e.strerror or e}") from e
    _refuse_logs(folder, [name for name, is_dir in found if is_dir])
    found = [(name, is_dir) for name, is_dir in found if not name.startswith((".", "_"))]
    return [name for name, is_dir in found if not is_dir], [name for name, is_dir in found if is_dir]


def _paths(folder: str, names: Sequence[str]) -> list[str]:
    return [os.path.join(folder, name) for name in names]


def _tables_in(folder: str, names: Sequence[str], folders: Sequence[str]) -> list[str] | None:
    """Returns the Parquet files of a folder: [] if it is empty, and None if it holds something else than Parquet files or partitions. names, folders: the
    result of _inside(folder). Raises an error if only some partitions can be read."""
    if not names and not folders:
        return []
    files = _paths(folder, [name for name in names if names_tables(name)])
    if files and not folders:
        _refuse_other_names(folder, names)
        return files
    if files or not folders:
        return None
    if not all(map(PARTITION.fullmatch, folders)):
        inside = _paths(folder, folders)
        if all(map(_tables_of_folder, inside)):
            raise _no_partitions(folder, inside)
        return None
    parts = {part: _tables_in(part, *_inside(part)) for part in _paths(folder, folders)}
    files = [file for found in parts.values() for file in found or ()]
    unclear = next((part for part, found in parts.items() if found is None), None)
    if not files:
        return None if unclear is not None else []
    if unclear is not None:
        raise InvalidArgumentError(
            f"{unclear}: other partitions of this table hold Parquet files, and this one holds other files, or files and folders, so that its rows would be "
            "left out: give Loader.from_parquet a pattern or a list of the files that make the table"
        )
    _refuse_other_names(folder, names)
    return files


def _no_partitions(folder: str, inside: Sequence[str]) -> InvalidArgumentError:
    """Returns the error for a folder of folders that are tables, and no partitions. Raises InvalidArgumentError if one of these tables has several splits.
    inside: the paths of the folders."""
    files = {path: _tables_of_folder(path) for path in inside}
    for path, found in files.items():
        _refuse_splits(path, found)
    first = next((path for path in inside if _split_of(path) == _TRAIN), inside[0])
    several = len(_different_splits([*inside, *(file for found in files.values() for file in found)])) > 1
    pattern = "" if several else f", or a pattern, as {os.path.join(folder, '*', '*.parquet')}"
    return InvalidArgumentError(
        f"{folder}: its folders hold Parquet files, and are not named COLUMN=VALUE, as partitions are: give one of them, as {first}{pattern}"
    )


def _shard(path: str) -> re.Match[str] | None:
    """Returns the match of _SHARD with the name of a file in a folder called data; None for other names and folders, in which `datasets` sees only words."""
    folder, name = os.path.split(path)
    found = _SHARD.match(name)
    return found if found and folder and os.path.basename(os.path.abspath(folder)) == "data" else None


def _split_words(path: str) -> list[str]:
    """Returns the words for splits in the name of a file or folder. For a shard, returns the whole name of its split: train_sft is another split than train."""
    shard = _shard(path)
    if shard is None:
        return [word.lower() for word in _SPLIT_WORD.findall(os.path.basename(path))]
    word = shard[1].lower()
    return [word if word in _SPLIT_OF_WORD else shard[1]]


def _split_of(path: str) -> frozenset[str]:
    """Returns the splits in the name of a file or folder; a name such as "test_train.parquet" has two."""
    return frozenset(_SPLIT_OF_WORD.get(word, word) for word in _split_words(path))


def _different_splits(paths: Sequence[str]) -> set[frozenset[str]]:
    """Returns the different results of _split_of for these paths, without that of names that have no split."""
    return {found for path in paths if (found := _split_of(path))}


def _refuse_splits(folder: str, files: Sequence[str]) -> None:
    """Raises InvalidArgumentError if the names of a table's files are of several splits, as train-0.parquet and test-0.parquet: test rows would be trained
    on. Files in partitions of different splits, as split=train and split=test, are not compared with each other: a column says which rows are of which split."""
    groups: dict[Any, list[str]] = {}
    for file in files:
        groups.setdefault(os.path.dirname(file), []).append(file)
        if _SPLIT_WORD.search(os.path.basename(file)):
            groups.setdefault(frozenset().union(*map(_split_of, partition_of(file).values())), []).append(file)
    mixed = next((inside for inside in groups.values() if len(_different_splits(inside)) > 1), None)
    if mixed is None:
        return
    splits = _different_splits(mixed)
    wanted = _TRAIN if _TRAIN in splits else min(splits, key=sorted)
    of_split = [file for file in mixed if _split_of(file) == wanted]
    name = os.path.basename(of_split[0])
    word = _shard(of_split[0]) or _SPLIT_WORD.search(name)
    end = 0 if word is None else word.end(1)
    pattern = os.path.join(folder, name[: end + (name[end] in "-_ ")] + "*" + os.path.splitext(name)[1])
    way = f"the files of the split, as {pattern!r}" if fnmatch.filter(files, pattern) == of_split else "a list of the files of one split"
    words = {word for file in mixed for word in _split_words(file)}
    own = not words.issubset(_SPLIT_OF_WORD)  # then the names may mean something else than splits
    more = ", or a list of all of these files if they are one table" if own else ""
    raise InvalidArgumentError(f"{folder}: its files are of several splits ({', '.join(sorted(words))}): give {way}{more}")


def _refuse_other_names(folder: str, names: Sequence[str]) -> None:
    """Raises InvalidArgumentError if a folder of a table also holds Parquet files whose names do not end in .parquet, as Hive's 000000_0. Opens only files
    whose names have no ending or an uncommon one: a table may lie next to many images."""
    for path in _paths(folder, [name for name in names if not names_tables(name) and not _OTHER_ENDING.search(name)]):
        try:
            with open_binary(path) as file:
                begin = file.read(len(MAGIC))
        except OSError:
            continue  # a broken link or a FIFO
        if begin == MAGIC:
            raise InvalidArgumentError(
                f"{path}: it is a Parquet file whose name does not end in .parquet, next to others whose names do, so that its rows would be left out: rename "
                "it, or give Loader.from_parquet a list of the files that make the table"
            )


def _refuse_logs(folder: str, inside: Collection[str]) -> None:
    """Raises UnsupportedError for the folder of a table whose log says which files count: rows of files that the log has removed would be read, too. inside:
    the names of the folder's folders."""
    if "_delta_log" in inside:
        raise UnsupportedError(
            f"{folder}: it is a Delta table, and only its log (_delta_log) says which of its files count: give these files, as "
            f"Loader(DeltaTable({folder!r}).file_uris(), ...) of the package deltalake"
        )
    if ".hoodie" in inside:
        raise UnsupportedError(
            f"{folder}: it is a Hudi table, and only its log (.hoodie) says which of its files count: give a list of these files"
        )


def partition_of(name: str) -> dict[str, str]:
    """Returns a dict from columns to values that the file's folders define, as in `year=2024/city=Bern/part-0.parquet`."""
    found = [PARTITION.fullmatch(folder) for folder in without_query(name).split("/")[:-1]]
    return {unquote(m[1]): unquote(m[2]) for m in found if m is not None}
