# SPDX-License-Identifier: Apache-2.0
"""Reads robot data sets in LeRobot's format, versions 3.0 and 2.1: their metadata, their tables and videos. Samples are those of LeRobotDataset."""

from __future__ import annotations

import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stoker.errors import CorruptError, InvalidArgumentError, NotFoundError, UnsupportedError
from stoker.loader._table_files import Listed, TableFile, is_remote, parquet, read_footers, read_group

_MOST_OPEN = 32  # the largest number of videos that are open at once
_STANDARD = ("timestamp", "frame_index", "episode_index", "index", "task_index")


class Episode:
    """A recorded episode. Its frames are begin .. end - 1 of the whole data set. columns: its row in the table of episodes, which says where its data and
    videos are."""

    __slots__ = ("begin", "columns", "end", "number")

    def __init__(self, number: int, begin: int, end: int, columns: Mapping[str, Any]) -> None:
        self.number, self.begin, self.end, self.columns = number, begin, end, columns


class Robots:
    """A data set of episodes. Sample i is frame i of the chosen episodes, in their order, a dict of tensors with LeRobot's keys.

    delta_timestamps: from a key to times in seconds, relative to the frame. A sample then has the key's value at each of these times. A time before or after
    the episode gets its first or last value, and is true in KEY_is_pad. episodes: the numbers of the episodes to read; None: all. tolerance_s: the largest
    difference in seconds between a time and that of the nearest frame. image_transforms: a function that is applied to each camera's frames, float32 on the
    scale 0..1, of shape (C, H, W), or (times, C, H, W) for a key of delta_timestamps. columns: the keys to read; None: all.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        delta_timestamps: Mapping[str, Sequence[float]] | None = None,
        episodes: Sequence[int] | None = None,
        image_transforms: Callable[[Any], Any] | None = None,
        tolerance_s: float = 1e-4,
        columns: Sequence[str] | None = None,
    ) -> None:
        name = os.fspath(root)
        if is_remote(name):
            raise UnsupportedError(
                f"{name}: robot data sets are read from local folders: copy it, as by `aws s3 sync`, or huggingface_hub.snapshot_download"
            )
        self.root = Path(name)
        self.info = _read_json(self.root / "meta" / "info.json")
        version = str(self.info.get("codebase_version", "")).lstrip("v")
        self.version = {"3": 3, "2": 2}.get(version.partition(".")[0], 0)
        if self.version not in (2, 3) or version == "2.0":
            raise UnsupportedError(
                f"{self.root}: it has the version {self.info.get('codebase_version')!r} of LeRobot's format; 3.0 and 2.1 are read: LeRobot converts others"
            )
        self.fps = self.info.get("fps")
        self.features: dict[str, dict[str, Any]] = self.info.get("features", {})
        if not isinstance(self.fps, (int, float)) or self.fps <= 0 or not self.features:
            raise CorruptError(f"{self.root}/meta/info.json: it has no frames a second (fps) or no features")
        self.tolerance = tolerance_s
        self.tasks = self._read_tasks()
        self.stats = self._read_stats()
        self.all_episodes = self._read_episodes()
        self.episodes = self._choose(episodes)
        self._wanted = self._columns(columns)
        self.cameras = [k for k in self._wanted if self.features[k]["dtype"] in ("video", "image")]
        self.videos = [k for k in self.cameras if self.features[k]["dtype"] == "video"]
        self._transforms = image_transforms
        self.deltas = self._indices_of(delta_timestamps or {})
        self._read_frames()
        self._open: OrderedDict[Path, Any] = OrderedDict()
        self._lock = threading.Lock()

    # ---- metadata ----

    def _read_tasks(self) -> dict[int, str]:
        if self.version == 2:
            return {int(row["task_index"]): row["task"] for row in _read_lines(self.root / "meta" / "tasks.jsonl")}
        path = self.root / "meta" / "tasks.parquet"
        if not path.exists():
            raise NotFoundError(f"{path}: it does not exist, and holds the texts of the tasks")
        table = parquet().read_table(path)
        texts = next((n for n in table.column_names if n in ("task", "__index_level_0__") or n != "task_index"), None)
        if texts is None or "task_index" not in table.column_names:
            raise CorruptError(f"{path}: it has the columns {', '.join(table.column_names)}, and not a task and a task_index")
        return dict(zip(table["task_index"].to_pylist(), table[texts].to_pylist(), strict=True))

    def _read_episodes(self) -> list[Episode]:
        if self.version == 2:
            rows = sorted(_read_lines(self.root / "meta" / "episodes.jsonl"), key=lambda row: int(row["episode_index"]))
            found, begin = [], 0
            for row in rows:
                found.append(Episode(int(row["episode_index"]), begin, begin + int(row["length"]), {}))
                begin = found[-1].end
            return found
        paths = sorted((self.root / "meta" / "episodes").glob("*/*.parquet"))
        if not paths:
            raise NotFoundError(f"{self.root}/meta/episodes: it holds no tables of episodes (chunk-000/file-000.parquet)")
        found = []
        for path in paths:
            names = [n for n in parquet().read_schema(path).names if not n.startswith("stats/")]
            for row in parquet().read_table(path, columns=names).to_pylist():
                found.append(Episode(row["episode_index"], row["dataset_from_index"], row["dataset_to_index"], row))
        return found

    def _read_stats(self) -> dict[str, dict[str, Any]]:
        """Returns mean, std, min, max and count of each feature, as arrays."""
        import numpy as np

        path = self.root / "meta" / "stats.json"
        if path.exists():
            return {k: {n: np.array(v) for n, v in found.items()} for k, found in _read_json(path).items()}
        lines = self.root / "meta" / "episodes_stats.jsonl"
        if not lines.exists():
            return {}
        all_stats = [row["stats"] for row in _read_lines(lines)]
        return {k: _joined([s[k] for s in all_stats if k in s]) for k in all_stats[0]} if all_stats else {}

    def _choose(self, episodes: Sequence[int] | None) -> list[Episode]:
        if episodes is None:
            chosen = self.all_episodes
        else:
            known = {e.number: e for e in self.all_episodes}
            missing = [n for n in episodes if n not in known]
            if missing or len(set(episodes)) < len(list(episodes)):
                raise InvalidArgumentError(
                    f"episodes: {f'there is no episode {missing[0]}' if missing else 'one is named twice'}; the data set has {len(known)}, from 0"
                )
            chosen = [known[n] for n in sorted(episodes)]  # LeRobot keeps the order of the data set
        if not sum(e.end - e.begin for e in chosen):
            raise InvalidArgumentError(f"{self.root}: the chosen episodes have no frames")
        return chosen

    def _columns(self, columns: Sequence[str] | None) -> list[str]:
        for name in columns or ():
            if name not in self.features:
                raise InvalidArgumentError(f"columns: the data set has no {name!r}; it has {', '.join(self.features)}")
        return [k for k in self.features if columns is None or k in columns or k in _STANDARD]

    def _indices_of(self, deltas: Mapping[str, Sequence[float]]) -> dict[str, list[int]]:
        """Converts times to numbers of frames, relative to the current one, for each key. Raises an error for a time that is not a multiple of the frames'
        distance."""
        found = {}
        for key, times in deltas.items():
            if key not in self._wanted:
                raise InvalidArgumentError(f"delta_timestamps: the data set has no {key!r}; it has {', '.join(self._wanted)}")
            for t in times:
                if abs(t * self.fps - round(t * self.fps)) / self.fps > self.tolerance:
                    raise InvalidArgumentError(
                        f"delta_timestamps[{key!r}]: {t} s is not a multiple of the {1 / self.fps:.6g} s between frames, within tolerance_s={self.tolerance}"
                    )
            found[key] = [round(t * self.fps) for t in times]
        return found

    # ---- tables ----

    def _read_frames(self) -> None:
        """Reads the columns of all chosen episodes into memory. Images are kept encoded."""
        import numpy as np

        paths = self._data_files()
        files = {f.name: f for f in read_footers([Listed(str(p)) for p in paths], _storage())}
        stored = [k for k in self._wanted if self.features[k]["dtype"] != "video"]
        first, parts = 0, []
        for path in paths:
            file = files[str(path)]
            missing = [k for k in stored if k not in file.schema.names]
            if missing:
                raise CorruptError(f"{path}: it has no column {missing[0]!r}, which meta/info.json names")
            for g in range(file.footer.num_row_groups):
                parts += self._chosen(file, g, stored)
                first += file.footer.row_group(g).num_rows
        self._frames = {k: _joined_column([p[k] for p in parts], self.features[k], k) for k in stored}
        index = self._frames["index"].astype(np.int64)
        wanted = np.concatenate([np.arange(e.begin, e.end) for e in self.episodes])
        if len(index) != len(wanted) or (index != wanted).any():
            raise CorruptError(
                f"{self.root}: the tables hold {len(index)} frames of the chosen episodes, and meta says {len(wanted)} in another order"
            )
        lengths = [e.end - e.begin for e in self.episodes]
        self._ends = np.cumsum(lengths)
        self._begins = self._ends - lengths

    def _data_files(self) -> list[Path]:
        template = self.info.get("data_path") or (
            "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
            if self.version == 3
            else "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
        )
        names = [self._named(template, e, "data", "") for e in self.episodes]
        return [self.root / n for n in dict.fromkeys(names)]

    def _named(self, template: str, e: Episode, what: str, key: str) -> str:
        if self.version == 2:
            chunk = e.number // int(self.info.get("chunks_size", 1000))
            return template.format(episode_chunk=chunk, episode_index=e.number, video_key=key)
        at = f"{what}/{key}" if key else what
        return template.format(chunk_index=e.columns[f"{at}/chunk_index"], file_index=e.columns[f"{at}/file_index"], video_key=key)

    def _chosen(self, file: TableFile, group: int, names: Sequence[str]) -> list[dict[str, Any]]:
        """Returns the columns of a row group, with only the rows of chosen episodes, in a list: one dict of Arrow arrays, or none if there are no such rows."""
        import pyarrow as pa

        table = read_group(file, group, list(dict.fromkeys([*names, "episode_index"])), _storage())
        if len(self.episodes) < len(self.all_episodes):
            import pyarrow.compute as pc

            table = table.filter(
                pc.is_in(table["episode_index"], pa.array([e.number for e in self.episodes], table.schema.field("episode_index").type))
            )
        return [{n: table[n] for n in names}] if table.num_rows else []

    # ---- samples ----

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def num_frames(self) -> int:
        return len(self)

    @property
    def num_episodes(self) -> int:
        return len(self.episodes)

    def __getitem__(self, i: int) -> dict[str, Any]:
        """Returns the sample that LeRobotDataset returns for this index."""
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"the data set has {n} frames, and no frame {i}")
        batch = self.batch([i % n])
        return {k: v[0] for k, v in batch.items()}

    def batch(self, ids: Sequence[int]) -> dict[str, Any]:
        """Returns a batch of several samples, joined as torch's default_collate does."""
        import numpy as np
        import torch

        at = np.asarray(ids, np.int64)
        episode = np.searchsorted(self._ends, at, "right")
        low, high = self._begins[episode], self._ends[episode] - 1
        made: dict[str, Any] = {}
        for key in self._wanted:
            if key in self.videos:
                continue
            places, pads = self._places(key, at, low, high)
            if pads is not None:
                made[f"{key}_is_pad"] = torch.from_numpy(pads)
            column = self._frames[key]
            if key in self.cameras:
                made[key] = self._shown([self._decoded(key, column, p) for p in places.reshape(-1)], places.shape)
            elif isinstance(column, list):
                made[key] = [column[p] for p in places] if places.ndim == 1 else [[column[p] for p in row] for row in places]
            else:
                made[key] = torch.from_numpy(column[places])
        for key in self.videos:
            places, pads = self._places(key, at, low, high)
            if pads is not None:
                made[f"{key}_is_pad"] = torch.from_numpy(pads)
            made[key] = self._video_frames(key, places, episode)
        made["task"] = [self.tasks.get(int(t), "") for t in self._frames["task_index"][at]]
        return made

    def _places(self, key: str, at: Any, low: Any, high: Any) -> tuple[Any, Any]:
        """Returns the frames whose values a key has in a batch, and a bool for each: whether the time lies outside of the episode. The bools are None for a
        key without delta_timestamps. at: the frames of the samples. low, high: the first and the last frames of their episodes."""
        import numpy as np

        if key not in self.deltas:
            return at, None
        wanted = at[:, None] + np.asarray(self.deltas[key], np.int64)[None]
        pads = (wanted < low[:, None]) | (wanted > high[:, None])
        return np.clip(wanted, low[:, None], high[:, None]), pads

    def _decoded(self, key: str, column: Any, place: int) -> Any:
        """Decodes an image from a table, and returns it as float32 on the scale 0..1, (C, H, W)."""
        import torch

        from stoker._image import imdecode, imread

        value = column[int(place)]
        data = value["bytes"] if isinstance(value, Mapping) else value
        if data is None:
            path = value["path"] if isinstance(value, Mapping) else None
            if not path:
                raise ValueError(f"{self.root}: frame {int(place)} has no image in {key!r}")
            image = imread(path if os.path.isabs(path) else self.root / path, adjust_orientation=False)
        else:
            image = imdecode(data, adjust_orientation=False)
        return torch.from_numpy(image).permute(2, 0, 1).to(torch.float32).div_(255)

    def _video_frames(self, key: str, places: Any, episode: Any) -> Any:
        import torch

        flat, times = places.reshape(len(episode), -1), self._frames["timestamp"]
        frames = []
        for row, e in zip(flat, episode, strict=True):
            found = self._at_times(key, self.episodes[int(e)], [float(times[p]) for p in row])
            frames.append(found.to(torch.float32).div_(255))
        shown = [f for rows in frames for f in rows]
        return self._shown(shown, places.shape)

    def _shown(self, frames: list[Any], shape: tuple[int, ...]) -> Any:
        """Applies the user's transform to the frames of each sample, and stacks the samples."""
        import torch

        if len(shape) == 1:
            made = frames if self._transforms is None else [self._transforms(f) for f in frames]
            return torch.stack(made)
        rows = [torch.stack(frames[i : i + shape[1]]) for i in range(0, len(frames), shape[1])]
        return torch.stack(rows if self._transforms is None else [self._transforms(r) for r in rows])

    def _at_times(self, key: str, episode: Episode, times: list[float]) -> Any:
        """Returns the frames of a video at times of the episode."""
        template = self.info.get("video_path") or (
            "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
            if self.version == 3
            else "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
        )
        path = self.root / self._named(template, episode, "videos", key)
        begin = float(episode.columns.get(f"videos/{key}/from_timestamp", 0.0))
        decoder = self._decoder(path)
        rate = decoder.metadata.average_fps or float(self.fps)
        found = decoder.get_frames_at([min(round((begin + t) * rate), len(decoder) - 1) for t in times])
        for t, shown in zip(times, found.pts_seconds.tolist(), strict=True):
            if abs(begin + t - shown) > self.tolerance:
                raise CorruptError(
                    f"{path}: at {begin + t:.6f} s (episode {episode.number}, {t:.6f} s) the nearest frame begins at {shown:.6f} s, which is farther away than "
                    f"tolerance_s={self.tolerance}: the video and the table do not belong together"
                )
        return found.data

    def _decoder(self, path: Path) -> Any:
        from stoker._video import VideoDecoder

        with self._lock:
            found = self._open.get(path)
            if found is None:
                found = self._open[path] = VideoDecoder(path)
                if len(self._open) > _MOST_OPEN:
                    self._open.popitem(False)
            self._open.move_to_end(path)
            return found

    def __repr__(self) -> str:
        return f"{self.root}: {self.num_episodes} episodes, {len(self)} frames, {self.fps} a second"


def _storage() -> Any:
    from stoker._storage import common

    return common()


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise NotFoundError(f"{path}: it does not exist: give the folder of a LeRobot data set, which holds meta/info.json") from None
    except ValueError as e:
        raise CorruptError(f"{path}: it is not JSON ({e})") from None


def _read_lines(path: Path) -> list[Any]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise NotFoundError(f"{path}: it does not exist") from None
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows += [json.loads(line)] if line.strip() else []
        except ValueError as e:
            raise CorruptError(f"{path}:{number}: it is not JSON ({e})") from None
    return rows


def _joined(stats: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Joins the statistics of episodes into those of all of them."""
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


def _joined_column(parts: Sequence[Any], feature: Mapping[str, Any], name: str) -> Any:
    """Joins the parts of a column. Returns an array of the feature's type and shape; for strings and images, a list."""
    import numpy as np
    import pyarrow as pa

    if feature["dtype"] in ("image", "string"):
        return [value for part in parts for value in part.to_pylist()]
    shape = tuple(feature["shape"])
    arrays = []
    for part in parts:
        for piece in part.chunks:
            rows = len(piece)
            if piece.null_count:
                raise CorruptError(f"column {name!r}: a value is null")
            piece = getattr(piece, "storage", piece)
            while isinstance(piece, (pa.ListArray, pa.LargeListArray, pa.FixedSizeListArray)):
                piece = piece.flatten()
            flat = piece.to_numpy(zero_copy_only=False)
            size = int(np.prod(shape))
            if len(flat) != rows * size:
                raise CorruptError(
                    f"column {name!r}: {rows} rows hold {len(flat)} numbers, and meta/info.json says that each has the shape {shape}"
                )
            arrays.append(flat.astype(feature["dtype"], copy=False).reshape((rows, *shape) if shape != (1,) else (rows,)))
    return np.concatenate(arrays)
