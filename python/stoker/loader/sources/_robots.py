# SPDX-License-Identifier: Apache-2.0
"""Reads robot data sets in LeRobot's format, versions 3.0 and 2.1: their metadata, their tables and videos. Returns the same samples as LeRobotDataset."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from stoker._same_data import digest_of_text
from stoker.errors import CorruptError, InvalidArgumentError, MissingFileError, StokerError, UnsupportedError
from stoker.loader._random import Place, random_numbers
from stoker.loader.sources._robot_cameras import Buffers, InTurn, Rows, Shown, Videos, decode, parts_of
from stoker.loader.sources._robot_meta import (
    STANDARD,
    check_info,
    check_totals,
    column_of,
    in_samples,
    numbered_texts,
    path_of,
    read_json,
    read_lines,
    read_stats,
    read_table,
    rows_of,
    seconds,
    storage,
    texts_of,
    whole,
)
from stoker.loader.sources._table_files import Listed, TableFile, is_remote, read_footers, read_group

_MOST_FRAMES_AWAY = 2**31  # limit for the distance in frames between a sample and a time of delta_timestamps
_MOST_DRIFT = 0.02  # the largest difference between fps and the mean rate of a long episode; fps is often 30 for videos of 29.97 Hz
_FEWEST_STEPS = 4  # fewer wrong steps of an episode may be dropped frames
_IN_TURN = InTurn()


class Episode:
    """A recorded episode: frames begin .. end - 1 of the data set. columns: its row in the table of episodes, which names the files with its data and
    videos; {} in version 2.1 of the format."""

    __slots__ = ("begin", "columns", "end", "number")

    def __init__(self, number: int, begin: int, end: int, columns: Mapping[str, Any]) -> None:
        self.number, self.begin, self.end, self.columns = number, begin, end, columns


class Robots:
    """A data set of episodes. Sample i is frame i of the chosen episodes in the data set's order. A sample is a dict from LeRobot's keys to tensors or texts.

    delta_timestamps: dict from a key to times in seconds relative to the frame. A sample then has the key's value at each of these times. For times before or
    after the episode, it has the episode's first or last value, and KEY_is_pad is True. episodes: the numbers of the episodes to read; None: all. tolerance_s:
    the largest difference in seconds between a time and the nearest frame. image_transforms: a function that is called with the frames of one camera at a time,
    as a float32 tensor on the scale 0..1 of shape (C, H, W), or (times, C, H, W) for a key of delta_timestamps; it may call sample_rng(). columns: the keys to
    read in addition to those in STANDARD; None: all keys.
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
        self.info = read_json(self.root / "meta" / "info.json")
        version = str(self.info.get("codebase_version", "")).lstrip("v")
        self.version = {"3": 3, "2": 2}.get(version.partition(".")[0], 0)
        if self.version not in (2, 3) or version == "2.0":
            raise UnsupportedError(
                f"{self.root}: it has the version {self.info.get('codebase_version')!r} of LeRobot's format; 3.0 and 2.1 are read: LeRobot converts others"
            )
        check_info(self.root / "meta" / "info.json", self.info)
        self.fps = self.info["fps"]
        self.features: dict[str, dict[str, Any]] = self.info["features"]
        if isinstance(tolerance_s, bool) or not isinstance(tolerance_s, (int, float)) or not 0 <= tolerance_s < math.inf:
            raise InvalidArgumentError(f"tolerance_s is a number of seconds, 0 or more, not {tolerance_s!r}")
        self.tolerance = tolerance_s
        self.tasks = self._read_tasks()
        self.stats = read_stats(self.root)
        self.all_episodes = self._read_episodes()
        check_totals(self.root, self.info, [e.number for e in self.all_episodes], sum(e.end - e.begin for e in self.all_episodes))
        self.episodes = self._choose(episodes)
        self._wanted = self._columns(columns)
        self.subtasks = self._read_subtasks()
        self.cameras = [k for k in self._wanted if self.features[k]["dtype"] in ("video", "image")]
        self.videos = [k for k in self.cameras if self.features[k]["dtype"] == "video"]
        if image_transforms is not None and not callable(image_transforms):
            raise InvalidArgumentError(
                f"image_transforms is a function of a sample's frames, not {image_transforms!r:.100}: join several as torchvision's Compose does"
            )
        self._transforms = image_transforms
        self.deltas = self._indices_of(delta_timestamps or {})
        self._read_frames()
        self._digest: str | None = None
        self._make_caches()

    def _make_caches(self) -> None:
        self._videos, self._buffers = Videos(), Buffers()

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the open videos, so that a worker process of a DataLoader gets the data set and opens its own."""
        return {name: value for name, value in vars(self).items() if name not in ("_videos", "_buffers")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._make_caches()

    @property
    def open_videos(self) -> Videos:
        """Returns the open videos, up to the next close_videos()."""
        return self._videos

    def close_videos(self) -> None:
        """Closes the videos; those that a thread is decoding when it is done. A batch that begins later opens them again."""
        old, self._videos = self._videos, Videos(self._videos)
        old.close()

    def digest(self) -> str:
        """Returns a digest of the rate, the chosen episodes, the features and the tasks, for saved states. The subtasks are left out, because
        `columns` decides whether they are read."""
        if self._digest is None:
            episodes = [(e.number, e.begin, e.end) for e in self.episodes]
            features = sorted((name, str(f.get("dtype")), str(f.get("shape"))) for name, f in self.features.items())
            self._digest = digest_of_text(self.fps, episodes, features, sorted(self.tasks.items()))
        return self._digest

    # ---- metadata ----

    def _read_tasks(self) -> dict[int, str]:
        if self.version == 2:
            lines = self.root / "meta" / "tasks.jsonl"
            return numbered_texts(read_lines(lines), "task", lines)
        path = self.root / "meta" / "tasks.parquet"
        if not path.exists():
            raise MissingFileError(f"{path}: it does not exist, and holds the texts of the tasks")
        return texts_of(path, "task")

    def _read_subtasks(self) -> dict[int, str] | None:
        """Returns the texts of subtasks, by their numbers; None if samples have no subtask."""
        path = self.root / "meta" / "subtasks.parquet"
        return texts_of(path, "subtask") if "subtask_index" in self._wanted and path.exists() else None

    def _read_episodes(self) -> list[Episode]:
        if self.version == 2:
            lines = self.root / "meta" / "episodes.jsonl"
            rows = sorted(read_lines(lines), key=lambda row: whole(row, "episode_index", str(lines)))
            found, begin = [], 0
            for row in rows:
                length = whole(row, "length", f"{lines}: episode {row['episode_index']}")
                found.append(Episode(row["episode_index"], begin, begin + length, {}))
                begin += length
            return found
        paths = sorted((self.root / "meta" / "episodes").glob("*/*.parquet"))
        if not paths:
            raise MissingFileError(f"{self.root}/meta/episodes: it holds no tables of episodes (chunk-000/file-000.parquet)")
        found = []
        for path in paths:
            for row in rows_of(read_table(path), str(path)):
                number = whole(row, "episode_index", str(path))
                where = f"{path}: episode {number}"
                begin, end = (whole(row, n, where) for n in ("dataset_from_index", "dataset_to_index"))
                if end < begin:
                    raise CorruptError(f"{where}: it begins at frame {begin} and ends at frame {end}")
                found.append(Episode(number, begin, end, row))
        return found

    def _choose(self, episodes: Sequence[int] | None) -> list[Episode]:
        if episodes is None:
            chosen = self.all_episodes
        else:
            if isinstance(episodes, str) or not isinstance(episodes, Iterable):
                raise InvalidArgumentError(f"episodes is a list of the numbers of episodes, as [0, 3], not {episodes!r:.100}")
            episodes = list(episodes)
            if any(isinstance(n, bool) or str(getattr(n, "dtype", "")) in ("bool", "torch.bool") for n in episodes):
                raise InvalidArgumentError("episodes is a list of numbers, not of booleans; for a mask give np.flatnonzero(mask)")
            known = {e.number: e for e in self.all_episodes}
            missing = [n for n in episodes if not isinstance(n, Hashable) or n not in known]
            if missing or len(set(episodes)) < len(episodes):
                raise InvalidArgumentError(
                    f"episodes: {f'there is no episode {missing[0]!r:.100}' if missing else 'one is named twice'}; the data set has {len(known)}, from 0"
                )
            chosen = [known[n] for n in sorted(episodes)]  # as in LeRobot, the argument does not set the order
        if not sum(e.end - e.begin for e in chosen):
            raise InvalidArgumentError(f"{self.root}: the chosen episodes have no frames")
        return chosen

    def _columns(self, columns: Sequence[str] | None) -> list[str]:
        if columns is not None and (isinstance(columns, str) or not isinstance(columns, Iterable)):
            raise InvalidArgumentError(f"columns is a list of keys, as ['action'], not {columns!r:.100}")
        for name in columns or ():
            if name not in self.features:
                raise InvalidArgumentError(f"columns: the data set has no {name!r}; it has {', '.join(self.features)}")
        return [k for k in self.features if columns is None or k in columns or k in STANDARD]

    def _indices_of(self, deltas: Mapping[str, Sequence[float]]) -> dict[str, list[int]]:
        """Converts the times of each key to offsets in frames from the sample's frame. Raises an error for a time more than tolerance_s from a frame."""
        found = {}
        if not isinstance(deltas, Mapping):
            raise InvalidArgumentError(
                f"delta_timestamps is a dict from keys to times in seconds, as {{'action': [0.0, {1 / self.fps:.6g}]}}, not {deltas!r:.100}"
            )
        for key, times in deltas.items():
            if key not in self._wanted:
                raise InvalidArgumentError(f"delta_timestamps: the data set has no {key!r}; it has {', '.join(self._wanted)}")
            if isinstance(times, str) or not isinstance(times, Iterable):
                raise InvalidArgumentError(
                    f"delta_timestamps[{key!r}] is a list of times in seconds, as [0.0, {1 / self.fps:.6g}], not {times!r:.100}"
                )
            times = [_number(t) for t in times]
            if not times:
                raise InvalidArgumentError(f"delta_timestamps[{key!r}] has no times: leave the key out, or give [0.0]")
            for t in times:
                if not isinstance(t, float) or not math.isfinite(t):
                    raise InvalidArgumentError(f"delta_timestamps[{key!r}]: {t!r:.100} is not a time in seconds")
                if abs(t * self.fps) > _MOST_FRAMES_AWAY:
                    raise InvalidArgumentError(
                        f"delta_timestamps[{key!r}]: {t} s is farther away than an episode can be long: times are in seconds, relative to the frame"
                    )
                if abs(t * self.fps - round(t * self.fps)) / self.fps > self.tolerance:
                    raise InvalidArgumentError(
                        f"delta_timestamps[{key!r}]: {t} s is not a multiple of the {1 / self.fps:.6g} s between frames, within tolerance_s={self.tolerance}"
                    )
            found[key] = [round(t * self.fps) for t in times]
        return found

    # ---- tables ----

    def _read_frames(self) -> None:
        """Reads the tables' columns for all chosen episodes. Images stay encoded; videos are not read. Raises CorruptError if the columns contradict the
        metadata."""
        import numpy as np

        paths = self._data_files()
        files = {f.name: f for f in read_footers([Listed(str(p)) for p in paths], storage())}
        stored = [k for k in self._wanted if self.features[k]["dtype"] != "video"]
        parts: list[dict[str, Any]] = []
        for path in paths:
            file = files[str(path)]
            missing = [k for k in stored if k not in file.schema.names]
            if missing:
                raise CorruptError(f"{path}: it has no column {missing[0]!r}, which meta/info.json names")
            for g in range(file.footer.num_row_groups):
                for part in self._chosen(file, g, stored):
                    parts.append({k: column_of(part[k], self.features[k], f"{path}: row group {g}, column {k!r}") for k in stored})
        self._frames = {k: _end_to_end([p[k] for p in parts]) for k in stored}
        lengths = [e.end - e.begin for e in self.episodes]
        self._ends = np.cumsum(lengths)
        self._begins = self._ends - lengths
        self._check_frames(lengths)
        if self.version == 3:
            for key in self.videos:
                self._check_spans(key)

    def _check_frames(self, lengths: Sequence[int]) -> None:
        """Raises CorruptError unless each row has the frame and episode numbers that follow from the metadata, a task that meta/tasks lists, a subtask that
        meta/subtasks lists, and a time of 0 or more that fits the rate of frames."""
        import numpy as np

        rows = {n: np.asarray(self._frames[n]) for n in STANDARD}
        if len(rows["index"]) != sum(lengths):  # checked before memory for all these frames is allocated
            raise CorruptError(
                f"{self.root}: the tables hold {len(rows['index'])} frames of the chosen episodes, and meta says {sum(lengths)}: files are missing, or are of "
                "another data set"
            )
        wanted = np.concatenate([np.arange(e.begin, e.end) for e in self.episodes])
        episode = np.repeat([e.number for e in self.episodes], lengths)
        frame = np.arange(len(wanted)) - np.repeat(self._begins, lengths)
        for name, want in (("index", wanted), ("episode_index", episode), ("frame_index", frame)):
            differs = np.flatnonzero(rows[name] != want)
            if len(differs):
                k = differs[0]
                raise CorruptError(
                    f"{self.root}: frame {frame[k]} of episode {episode[k]} has the {name} {rows[name][k]}, and meta says {want[k]}: the rows are in "
                    "another order, "
                    "or of another data set"
                )
        times = rows["timestamp"]
        wrong = np.flatnonzero(~(np.isfinite(times) & (times >= 0)))
        if len(wrong):
            k = wrong[0]
            raise CorruptError(
                f"{self.root}: frame {frame[k]} of episode {episode[k]} has the timestamp {times[k]}, which is no time from 0 on"
            )
        self._check_rate(times, frame, episode, np.asarray(lengths))
        for name, texts in (("task", self.tasks), ("subtask", self.subtasks)):
            if texts is None:
                continue
            numbers = np.asarray(self._frames[f"{name}_index"])
            unknown = np.flatnonzero(~np.isin(numbers, list(texts)))
            if len(unknown):
                k = unknown[0]
                raise CorruptError(
                    f"{self.root}: frame {frame[k]} of episode {episode[k]} has the {name}_index {numbers[k]}, and meta/{name}s has no such {name}"
                )

    def _check_rate(self, times: Any, frame: Any, episode: Any, lengths: Any) -> None:
        """Raises CorruptError if the rate of an episode's frames is not `fps`. Clocks of robots jitter, and recordings have gaps, so single times prove nothing.
        A rate is wrong if most of the steps from one frame to the next are too long, or most too short, by more than _MOST_DRIFT, and if their sum is off by more
        than _MOST_DRIFT plus half a frame or tolerance_s. A step counts in the sum as off by at most one frame, so that a long pause counts like a short one.
        One dropped frame can make most steps of a very short episode too long. So an episode with fewer than _FEWEST_STEPS wrong steps is refused only if such
        episodes have at least _FEWEST_STEPS wrong steps together, and these are most of the steps of all short episodes.
        frame, episode: the numbers of each row. lengths: frames of each episode."""
        import numpy as np

        inside = frame[1:] > 0  # the steps within an episode
        group = np.repeat(np.arange(len(lengths)), lengths)[1:][inside]
        off = np.diff(times.astype(np.float64))[inside] * self.fps - 1  # how much longer each step is than its nominal length, in frames
        most = _MOST_DRIFT + np.spacing(times[1:][inside].astype(np.float32)) * self.fps  # float32 rounds late times of long episodes
        total = np.bincount(group, np.clip(off, -1, 1), len(lengths))
        allowed = max(0.5, self.tolerance * self.fps) + _MOST_DRIFT * lengths
        counts = np.zeros(len(lengths), np.int64)  # the wrong steps of each episode whose rate seems wrong
        for sign in (1, -1):
            count = np.bincount(group[off * sign > most], minlength=len(lengths))
            counts += np.where((2 * count >= lengths) & (total * sign > allowed), count, 0)
        sure = counts >= _FEWEST_STEPS
        few, short = counts[~sure].sum(), lengths < 2 * _FEWEST_STEPS
        together = few >= _FEWEST_STEPS and 2 * few > np.maximum(lengths[short] - 1, 0).sum()
        wrong = np.flatnonzero((counts > 0) if together else sure)
        if len(wrong):
            of_episode = group == wrong[0]
            number, step = episode[1:][inside][of_episode][0], np.median(off[of_episode] + 1) / self.fps
            raise CorruptError(
                f"{self.root}: most frames of episode {number} are about {step:.3g} s apart by their timestamps, and {1 / self.fps:.3g} s by the fps of "
                f"meta/info.json, {self.fps}: correct the one that is wrong"
            )

    def _check_spans(self, key: str) -> None:
        """Raises CorruptError if two episodes share frames of a video, or if an episode's part of the video is too short for its number of rows."""
        ends: dict[tuple[int, int], tuple[float, int]] = {}  # video file -> (end in seconds, number) of the last episode so far in it
        at, frame = f"videos/{key}", 1 / self.fps
        spans = []
        for e in self.all_episodes:
            where = f"{self.root}/meta/episodes: episode {e.number}"
            begin, length = seconds(e.columns, f"{at}/from_timestamp", where), (e.end - e.begin) * frame
            video = whole(e.columns, f"{at}/chunk_index", where), whole(e.columns, f"{at}/file_index", where)
            if e.columns.get(f"{at}/to_timestamp") is not None:
                end = seconds(e.columns, f"{at}/to_timestamp", where)
                if end - begin < length - 1.5 * frame:
                    raise CorruptError(
                        f"{where}: its part of the video of {key!r} has {end - begin:.3f} s, and its {e.end - e.begin} rows {length:.3f} s"
                    )
            spans.append((video, begin, begin + length, e.number))
        for video, begin, end, number in sorted(spans):
            before, other = ends.get(video, (0.0, -1))
            if begin < before - frame / 2:
                raise CorruptError(
                    f"{self.root}/meta/episodes: the parts of episodes {other} and {number} in a video of {key!r} overlap: one begins at {begin:.3f} "
                    "s, and the "
                    f"other ends at {before:.3f} s"
                )
            ends[video] = end, number

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
            values: dict[str, Any] = {"episode_chunk": chunk, "episode_index": e.number, "video_key": key}
        else:
            at, row = f"{what}/{key}" if key else what, f"{self.root}/meta/episodes: episode {e.number}"
            values = {n: whole(e.columns, f"{at}/{n}", row) for n in ("chunk_index", "file_index")} | {"video_key": key}
        return path_of(template, values, f"{self.root}/meta/info.json: {'video_path' if key else 'data_path'}")

    def _chosen(self, file: TableFile, group: int, names: Sequence[str]) -> list[dict[str, Any]]:
        """Returns [{column: Arrow array}] with a row group's rows of chosen episodes; [] if there are no such rows."""
        import pyarrow as pa

        table = read_group(file, group, list(dict.fromkeys([*names, "episode_index"])), storage())
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
        """Returns the sample that LeRobotDataset returns for this index. Raises IndexError outside of the data set."""
        n = len(self)
        if not -n <= i < n:
            raise IndexError(f"the data set has {n} frames, and no frame {i}")
        batch = self.batch([i % n])
        return {k: v[0] for k, v in batch.items()}

    def batch(
        self,
        ids: Sequence[int],
        places: Sequence[Place] | None = None,
        each: Any = _IN_TURN,
        device: str = "cpu",
        videos: Videos | None = None,
    ) -> dict[str, Any]:
        """Returns a batch of these samples: a dict from keys to values that are joined as torch's default_collate joins them. places: for each sample, what
        sample_rng() is seeded from in image_transforms; None: sample_rng() cannot be called there. each: calls functions that decode, possibly several at once,
        as InTurn does. device: "cpu", or a GPU for the frames of cameras; other values are on the CPU. videos: the value of open_videos when the work began;
        None: its value now."""
        import numpy as np
        import torch

        videos = self._videos if videos is None else videos
        at = np.asarray(ids, np.int64)
        episode = np.searchsorted(self._ends, at, "right")
        low, high = self._begins[episode], self._ends[episode] - 1
        made: dict[str, Any] = {}
        for key in self._wanted:
            if key in self.videos:
                continue
            frames, pads = self._frames_at(key, at, low, high)
            if pads is not None:
                made[f"{key}_is_pad"] = torch.from_numpy(pads)
            column = self._frames[key]
            if key in self.cameras:
                made[key] = self._transformed(key, self._images(key, frames, each).to(device), places, each)
            elif isinstance(column, list):
                made[key] = [column[p] for p in frames] if frames.ndim == 1 else [[column[p] for p in row] for row in frames]
            else:
                made[key] = torch.from_numpy(in_samples(column[frames]))
        for key in self.videos:
            frames, pads = self._frames_at(key, at, low, high)
            if pads is not None:
                made[f"{key}_is_pad"] = torch.from_numpy(pads)
            if frames.shape[1:] == (1,):  # LeRobotDataset squeezes the dimension of a single time, but only for videos
                frames = frames[:, 0]
            made[key] = self._transformed(key, self._video_frames(key, frames, episode, each, device, videos), places, each)
        made["task"] = [self.tasks[int(t)] for t in self._frames["task_index"][at]]
        if self.subtasks is not None:
            made["subtask"] = [self.subtasks[int(t)] for t in self._frames["subtask_index"][at]]
        return made

    def _frames_at(self, key: str, at: Any, low: Any, high: Any) -> tuple[Any, Any]:
        """Returns (frames, pads) for a key. frames: numbers of the frames from which the batch takes its values. pads: for each of these, whether the requested
        time is outside of the episode; None for a key without delta_timestamps. at: the frame of each sample. low, high: first and last frame of each sample's
        episode."""
        import numpy as np

        if key not in self.deltas:
            return at, None
        wanted = at[:, None] + np.asarray(self.deltas[key], np.int64)[None]
        pads = (wanted < low[:, None]) | (wanted > high[:, None])
        return np.clip(wanted, low[:, None], high[:, None]), pads

    def _decoded(self, key: str, column: Any, frame: int) -> Any:
        """Decodes the image in row `frame` of a table's column, with the file's channels. Returns it as uint8 or float32, (C, H, W). Raises an error that names
        the row if it has no image, if the image is damaged, or if it has pixels of another type."""
        import numpy as np

        from stoker._image import imdecode, imread

        value = column[int(frame)]
        data = value["bytes"] if isinstance(value, Mapping) else value
        read: Any = imdecode
        if data is None:
            path = value["path"] if isinstance(value, Mapping) else None
            if not path:
                raise CorruptError(f"{self.root}: frame {int(frame)} has no image in {key!r}")
            data, read = path if os.path.isabs(path) else self.root / path, imread
        try:
            image = read(data, output_type="ANY_DATA", dtype="stored")
        except StokerError as e:
            raise type(e)(f"{self.root}: frame {int(frame)}, {key!r}: {e}") from None
        if image.dtype not in (np.uint8, np.float32):
            raise UnsupportedError(
                f"{self.root}: the image of {key!r} in frame {int(frame)} has pixels of {image.dtype}, and those of uint8 and float32 (TIFF) are read: write "
                "the images with one of these types, or leave the key out of columns=[...]"
            )
        return image.transpose(2, 0, 1)

    def _images(self, key: str, frames: Any, each: Any) -> Any:
        """Returns the images in these rows of a table's column as float32 from 0 to 1, on the CPU."""
        rows = Rows(f"{self.root}: frames of {key!r}", frames.shape, "cpu", self._buffers)
        numbers, column = frames.reshape(-1), self._frames[key]

        def decode_some(first: int) -> None:
            for k in range(first, len(numbers), each.count):
                rows.write(k, self._decoded(key, column, numbers[k]))

        each([partial(decode_some, k) for k in range(min(each.count, len(numbers)))])
        return rows.tensor()

    def _video_frames(self, key: str, wanted: Any, episode: Any, each: Any, device: str, videos: Videos) -> Any:
        """Returns frames of a camera's videos as float32 from 0 to 1, on the CPU or a GPU. wanted: numbers of frames in the data set, for each sample."""
        times = self._frames["timestamp"]
        shown: list[Shown] = []
        for numbers, e in zip(wanted.reshape(len(episode), -1), episode, strict=True):
            path, begin = self._video_of(key, self.episodes[int(e)])
            for p in numbers:
                t = float(times[p])
                shown.append(Shown(path, begin + t, len(shown), f"episode {self.episodes[int(e)].number}, {t:.6f} s"))
        rows = Rows(f"{self.root}: frames of {key!r}", wanted.shape, device, self._buffers)
        parts = parts_of(shown, videos, device, each.count)
        each([partial(decode, part, videos, device, float(self.fps), self.tolerance, rows) for part in parts])
        return rows.tensor()

    def _transformed(self, key: str, samples: Any, places: Sequence[Place] | None, each: Any) -> Any:
        """Applies the user's transform to each sample's frames. Each camera of a sample has random numbers of its own. Raises TypeError or ValueError unless
        the transform returns tensors of one shape and type."""
        import torch

        transform = self._transforms
        if transform is None:
            return samples
        camera = list(self.features).index(key)
        made: list[Any] = [None] * len(samples)

        def transform_one(k: int) -> None:
            given = tuple(samples[k].shape)  # the transform may change the tensor in place
            with nullcontext() if places is None else random_numbers((*places[k], camera)):
                made[k] = transform(samples[k])
            if not isinstance(made[k], torch.Tensor):
                raise TypeError(
                    f"image_transforms returned {'None' if made[k] is None else f'a {type(made[k]).__name__}'} for the frames of {key!r}, of shape {given}: "
                    "it takes a tensor and returns one"
                )

        def transform_some(first: int, end: int) -> None:
            for k in range(first, end):
                transform_one(k)

        some = -(-len(samples) // each.count)
        each([partial(transform_some, k, min(k + some, len(samples))) for k in range(0, len(samples), some)])
        for result in made[1:]:
            if result.shape != made[0].shape or result.dtype != made[0].dtype:
                raise ValueError(
                    f"image_transforms returned frames of {key!r} of shape {tuple(result.shape)} and type {result.dtype} for one sample of a batch, "
                    "and of shape "
                    f"{tuple(made[0].shape)} and type {made[0].dtype} for another: let it make all of one shape and type"
                )
        return torch.stack(made)

    def _video_of(self, key: str, episode: Episode) -> tuple[Path, float]:
        """Returns the file of a camera's video of an episode, and the time in seconds at which the episode begins in it."""
        template = self.info.get("video_path") or (
            "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
            if self.version == 3
            else "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4"
        )
        begin = float(episode.columns[f"videos/{key}/from_timestamp"]) if self.version == 3 else 0.0
        return self.root / self._named(template, episode, "videos", key), begin

    def __repr__(self) -> str:
        return f"{self.root}: {self.num_episodes} episodes, {len(self)} frames, {self.fps} a second"


def _number(given: Any) -> Any:
    """Returns a number of Python, NumPy or torch as a float. Returns bools and everything else unchanged."""
    if isinstance(given, (bool, str, bytes)):
        return given
    try:
        return float(given)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        return given


def _end_to_end(parts: Sequence[Any]) -> Any:
    import numpy as np

    return np.concatenate(parts) if parts and not isinstance(parts[0], list) else [value for part in parts for value in part]
