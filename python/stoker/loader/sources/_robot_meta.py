# SPDX-License-Identifier: Apache-2.0
"""Reads the metadata of robot data sets. Raises errors, with the file and the row, for metadata that is missing or contradicts itself."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker import _files
from stoker._arrays import infinite_in
from stoker.errors import CorruptError, MissingFileError, UnsupportedError
from stoker.loader._saved import is_whole
from stoker.loader.sources._table_files import Listed, read_footers, read_group

STANDARD = ("timestamp", "frame_index", "episode_index", "index", "task_index")  # columns that all data sets have


def storage() -> Any:
    from stoker._storage import common

    return common()


def read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(_files.read_text(path))
    except FileNotFoundError:
        raise MissingFileError(f"{path}: it does not exist: give the folder of a LeRobot data set, which holds meta/info.json") from None
    except ValueError as e:
        raise CorruptError(f"{path}: it is not JSON ({e})") from None
    if not isinstance(found, dict):
        raise CorruptError(f"{path}: it holds {type(found).__name__}, and not a JSON object")
    return found


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Returns the objects of a JSON-lines file. Raises MissingFileError if the file does not exist, and CorruptError if it is damaged."""
    try:
        lines = _files.read_text(path).split("\n")  # texts may contain other ends of lines, such as U+2028
    except FileNotFoundError:
        raise MissingFileError(f"{path}: it does not exist") from None
    except ValueError as e:
        raise CorruptError(f"{path}: it is not text ({e})") from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows += [json.loads(line)] if line.strip() else []
        except ValueError as e:
            raise CorruptError(f"{path}:{number}: it is not JSON ({e})") from None
        if rows and not isinstance(rows[-1], dict):
            raise CorruptError(f"{path}:{number}: it holds {type(rows[-1]).__name__}, and not a JSON object")
    return rows


def read_table(path: Path) -> Any:
    """Reads a Parquet file of the metadata as a pyarrow.Table. Leaves out the columns "stats/...", which hold statistics of each episode and are not used."""
    import pyarrow as pa

    file = read_footers([Listed(str(path))], storage())[0]
    names = [n for n in file.schema.names if not n.startswith("stats/")]
    groups = [read_group(file, g, names, storage()) for g in range(file.footer.num_row_groups)]
    return pa.concat_tables(groups) if groups else file.schema.empty_table().select(names)


def texts_of(path: Path, name: str) -> dict[int, str]:
    """Returns the texts of meta/tasks.parquet (name="task") or meta/subtasks.parquet (name="subtask"), by their numbers. Raises CorruptError for a table
    without numbers and texts."""
    table, number = read_table(path), f"{name}_index"
    texts = next((n for n in table.column_names if n in (name, "__index_level_0__") or n != number), None)
    if texts is None or number not in table.column_names:
        raise CorruptError(f"{path}: it has the columns {', '.join(table.column_names)}, and not a {name} and a {number}")
    numbers, found = rows_of(table.select([number]), str(path)), rows_of(table.select([texts]), str(path))
    return numbered_texts([{number: n[number], name: t[texts]} for n, t in zip(numbers, found, strict=True)], name, path)


def numbered_texts(rows: Iterable[Mapping[str, Any]], name: str, path: Path) -> dict[int, str]:
    """Returns row[name] by row[f"{name}_index"]. Raises CorruptError unless these are texts and numbers, and for a number with two texts."""
    found: dict[int, str] = {}
    for row in rows:
        number = whole(row, f"{name}_index", str(path))
        text, where = row.get(name), f"{path}: {name}_index {number}"
        if not isinstance(text, str) or not _is_unicode(text):
            raise CorruptError(f"{where}: its {name!r} is {text!r:.200}, and has to be a text")
        if found.setdefault(number, text) != text:
            raise CorruptError(f"{where} is listed twice: as {found[number]!r:.200} and as {text!r:.200}")
    return found


def _is_unicode(text: str) -> bool:
    """Returns whether the text can be written as UTF-8. JSON can state halves of characters, such as "\\ud800", which cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def rows_of(arrow: Any, where: str) -> list[Any]:
    """Returns the rows of a table, or the values of a column. Raises CorruptError for texts that are not UTF-8, which Arrow reads without an error."""
    try:
        return list(arrow.to_pylist())
    except UnicodeDecodeError as e:
        raise CorruptError(f"{where}: it holds a text that is not UTF-8 ({e})") from None


def whole(row: Mapping[str, Any], name: str, where: str) -> int:
    """Returns row[name]. Raises CorruptError unless it is a whole number of at least 0. where: the row's file and number, for the message."""
    value = row.get(name)
    if not is_whole(value) or value < 0:  # type: ignore[operator]
        raise CorruptError(f"{where}: its {name!r} is {value!r}, and has to be a whole number from 0 on")
    return int(value)  # type: ignore[arg-type]


def seconds(row: Mapping[str, Any], name: str, where: str) -> float:
    """Returns row[name], a time in seconds. Raises CorruptError unless it is a number of at least 0. where: the row's file and number, for the message."""
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise CorruptError(f"{where}: its {name!r} is {value!r}, and has to be a time in seconds from 0 on")
    return float(value)


def path_of(template: Any, values: Mapping[str, Any], where: str) -> str:
    """Replaces the fields of a path's template, as "data/chunk-{chunk_index:03d}/file.parquet". Supports only fields of this form: with str.format, a template
    could make a text of any length and read attributes of objects. Raises CorruptError for other templates."""

    def value(found: re.Match[str]) -> str:
        given = values[found[1]]
        return str(given) if found[2] is None else f"{int(given):0{int(found[2])}d}"

    try:
        name = re.sub(r"\{(\w+)(?::0?(\d{1,2})d)?\}", value, template)
    except (KeyError, TypeError, ValueError) as e:
        raise CorruptError(
            f"{where} is {template!r}, which cannot be filled in with {', '.join(values)}: {type(e).__name__} ({e})"
        ) from None
    if "{" in name or "}" in name or os.path.isabs(name) or ".." in Path(name).parts:
        raise CorruptError(f"{where} is {template!r:.200}, which is no template for names of files below this folder")
    return name


def check_info(path: Path, info: Mapping[str, Any]) -> None:
    """Raises CorruptError if meta/info.json has no valid rate (fps) or features, lacks a feature that all data sets have, or has a wrong chunks_size."""
    fps, features = info.get("fps"), info.get("features")
    if isinstance(fps, bool) or not isinstance(fps, (int, float)) or not 0 < fps < math.inf or not features:
        raise CorruptError(f"{path}: it has no frames a second (fps) or no features")
    if not isinstance(features, dict):
        raise CorruptError(f"{path}: its features are {type(features).__name__}, and not a JSON object")
    for name, feature in features.items():
        _check_feature(f"{path}: the feature {name!r}", feature)
    missing = [n for n in STANDARD if n not in features]
    if missing:
        raise CorruptError(f"{path}: its features have no {missing[0]!r}, which each LeRobot data set has")
    for name in STANDARD:
        if features[name]["dtype"] in ("video", "image", "string") or features[name]["shape"] not in ([1], []):
            raise CorruptError(
                f"{path}: the feature {name!r} has the dtype {features[name]['dtype']!r} and the shape {features[name].get('shape')!r}, and each frame has one "
                "number there: the shape is [1]"
            )
    if not is_whole(info.get("chunks_size", 1)) or info.get("chunks_size", 1) < 1:
        raise CorruptError(f"{path}: its chunks_size is {info['chunks_size']!r}, and has to be a whole number from 1 on")


def _check_feature(what: str, feature: Any) -> None:
    import numpy as np

    dtype = feature.get("dtype") if isinstance(feature, dict) else None
    try:
        good = isinstance(dtype, str) and (dtype in ("video", "image", "string") or np.dtype(dtype).kind in "biuf")
    except (SyntaxError, TypeError, ValueError):  # SyntaxError: np.dtype reads texts with brackets and commas as Python
        good = False
    if not good:
        raise CorruptError(f"{what} has the dtype {dtype!r}: video, image, string and types of numbers are read")
    shape = feature.get("shape")
    if dtype not in ("video", "image", "string") and not (isinstance(shape, list) and all(is_whole(n) and n >= 1 for n in shape)):
        raise CorruptError(f"{what} has the shape {shape!r}, and a list of whole numbers is expected")


def check_totals(root: Path, info: Mapping[str, Any], numbers: Sequence[int], frames: int) -> None:
    """Raises CorruptError if an episode is listed twice or missing, or if the totals in meta/info.json differ. numbers: the numbers of the listed episodes.
    frames: how many frames they have."""
    twice = next((n for n, m in zip(sorted(numbers), sorted(numbers)[1:], strict=False) if n == m), None)
    if twice is not None:
        raise CorruptError(f"{root}/meta: episode {twice} is listed twice")
    missing = next((n for n, m in enumerate(sorted(numbers)) if n != m), None)
    if missing is not None:
        raise CorruptError(f"{root}/meta: episode {missing} is not listed, and episode {max(numbers)} is")
    for name, found in (("total_episodes", len(numbers)), ("total_frames", frames)):
        if name in info and info[name] != found:
            raise CorruptError(
                f"{root}/meta/info.json: its {name} is {info[name]!r}, and the episodes that are listed are {found}: copy the data set again, or correct its "
                "metadata"
            )


def read_stats(root: Path) -> dict[str, dict[str, Any]]:
    """Returns mean, std, min, max and count of each feature, as arrays; {} if there are no statistics. Raises CorruptError if they are damaged."""
    import numpy as np

    path, lines = root / "meta" / "stats.json", root / "meta" / "episodes_stats.jsonl"
    key = ""
    try:
        if path.exists():
            made = {}
            for key, found in read_json(path).items():
                made[key] = {n: np.array(v) for n, v in found.items()}
            return made
        if not lines.exists():
            return {}
        path, made = lines, {}
        every = [row["stats"] for row in read_lines(lines)]
        for key in dict.fromkeys(key for stats in every for key in stats):  # a feature may be missing in some episodes
            made[key] = _joined([s[key] for s in every if key in s])
        return made
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as e:
        raise CorruptError(f"{path}: the statistics of {key!r} are damaged: {type(e).__name__} ({e})") from None


def _joined(stats: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Combines the statistics of single episodes into those of all episodes."""
    import numpy as np

    count = np.array([np.asarray(s["count"]).reshape(-1)[0] for s in stats], np.float64)
    means = np.stack([np.asarray(s["mean"], np.float64) for s in stats])
    variances = np.stack([np.asarray(s["std"], np.float64) for s in stats]) ** 2
    weights = count.reshape(-1, *[1] * (means.ndim - 1)) / count.sum()
    mean = (means * weights).sum(0)
    return {
        "min": np.min([np.asarray(s["min"]) for s in stats], axis=0),
        "max": np.max([np.asarray(s["max"]) for s in stats], axis=0),
        "mean": mean,
        "std": np.sqrt(((variances + (means - mean) ** 2) * weights).sum(0)),
        "count": np.array([int(count.sum())]),
    }


def column_of(chunked: Any, feature: Mapping[str, Any], where: str) -> Any:
    """Returns a column of a row group as an array of the feature's type, of shape (rows, *the feature's shape), or (rows) if the feature's shape is (1).
    Returns strings and images as a list. Raises CorruptError for nulls, and if shape or type do not fit the feature; UnsupportedError for numbers that samples
    cannot hold."""
    import numpy as np
    import pyarrow as pa

    if feature["dtype"] in ("image", "string"):
        return rows_of(chunked, where)
    shape, dtype = tuple(feature["shape"]), np.dtype(feature["dtype"])
    size, arrays = math.prod(shape), []
    for piece in chunked.chunks:
        rows = len(piece)
        piece = getattr(piece, "storage", piece)
        while isinstance(piece, (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)):
            if piece.null_count:
                raise CorruptError(f"{where}: a value is null")
            piece = piece.flatten()
        if piece.null_count:
            raise CorruptError(f"{where}: a value is null")
        flat = piece.to_numpy(zero_copy_only=False)
        if len(flat) != rows * size:
            raise CorruptError(f"{where}: {rows} rows hold {len(flat)} numbers, and meta/info.json says that each has the shape {shape}")
        flat = _as_type(flat, dtype, where)
        _check_fits(flat, where)
        arrays.append(flat.reshape((rows, *shape) if shape != (1,) else (rows,)))
    return np.concatenate(arrays) if arrays else np.zeros((0, *shape) if shape != (1,) else (0,), dtype)


def in_samples(values: Any) -> Any:
    """Converts an array to the type of numbers in samples, which is what torch.tensor makes of Python's numbers, as LeRobotDataset does: float32, int64 or
    bool."""
    return values.astype({"f": "float32", "b": "bool"}.get(values.dtype.kind, "int64"), copy=False)


def _check_fits(values: Any, where: str) -> None:
    """Raises UnsupportedError if in_samples would change a number, other than by rounding a float."""
    import numpy as np

    if values.dtype not in (np.float64, np.uint64):
        return
    with np.errstate(over="ignore"):
        made = in_samples(values)
    wrong = infinite_in(values, made) if made.dtype.kind == "f" else made < 0
    if wrong is not None and np.any(wrong):
        raise UnsupportedError(
            f"{where}: it holds {values[wrong][0].item()!r}, and samples hold {made.dtype}, as those of LeRobotDataset: leave the key out of columns=[...]"
        )


def _as_type(values: Any, dtype: Any, where: str) -> Any:
    """Converts numbers to the type in the metadata. Raises CorruptError if that type cannot represent one of them."""
    import numpy as np

    if values.dtype == dtype:
        return values
    if values.dtype.kind not in "biuf":
        raise CorruptError(f"{where}: it holds {values.dtype}, and meta/info.json says {dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        made = values.astype(dtype)
        same = np.isfinite(made) | ~np.isfinite(values) if dtype.kind == "f" else made == values
    if not np.all(same):
        raise CorruptError(f"{where}: it holds {values[~same][0]!r}, which is no {dtype}, the type that meta/info.json names")
    return made
