# SPDX-License-Identifier: Apache-2.0
"""Small robot data sets in LeRobot's formats 3.0 and 2.1, made from a seed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FPS = 10
TASKS = ["pick the cube", "place the cube", "pour water \u00e9"]


def make(
    root: Path,
    lengths: tuple[int, ...] = (7, 12, 5),
    version: int = 3,
    cameras: int = 0,
    images: int = 0,
    seed: int = 3,
    more: dict[str, Any] | None = None,
    fps: int = FPS,
    video: Path | None = None,
    gop: int = 2,
) -> dict[str, np.ndarray]:
    """Writes a data set, and returns its columns by name; an image is the bytes of a PNG. lengths: frames of each episode. version: 3 for format 3.0, otherwise
    2.1. cameras: number of features that are videos, which the ffmpeg program makes with a key frame every `gop` frames; or a copy of `video`, of 176 x 144
    pixels, if it is given (3.0 only). images: number of features that are images in the tables. more: further columns, as arrays of numbers or lists of the
    bytes of images."""
    rng = np.random.default_rng(seed)
    total = sum(lengths)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    frame = np.concatenate([np.arange(n) for n in lengths])
    data = {
        "observation.state": rng.normal(size=(total, 4)).astype(np.float32),
        "action": rng.normal(size=(total, 2)).astype(np.float32),
        "next.reward": rng.normal(size=total).astype(np.float32),
        "next.done": frame == np.repeat(lengths, lengths) - 1,
        "grid": rng.integers(0, 9, (total, 2, 3)),
        "timestamp": (frame / fps).astype(np.float32),
        "frame_index": frame,
        "episode_index": episode,
        "index": np.arange(total),
        "task_index": episode % len(TASKS),
    }
    data |= {k: v for k, v in (more or {}).items() if not isinstance(v, list)}
    features = {k: {"dtype": str(v.dtype), "shape": list(v.shape[1:]) or [1], "names": None} for k, v in data.items()}
    for c in range(cameras):
        features[f"observation.images.cam{c}"] = {
            "dtype": "video",
            "shape": [3, 144, 176] if video else [3, 32, 48],
            "names": ["c", "h", "w"],
        }
    stills = {f"observation.images.still{c}": [_png(rng) for _ in range(total)] for c in range(images)}
    stills |= {k: v for k, v in (more or {}).items() if isinstance(v, list)}
    for name in stills:
        features[name] = {"dtype": "image", "shape": [3, 8, 8], "names": ["c", "h", "w"]}
    info = {
        "codebase_version": f"v{'3.0' if version == 3 else '2.1'}",
        "fps": fps,
        "features": features,
        "total_episodes": len(lengths),
        "total_frames": total,
        "chunks_size": 1000,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
        if version == 3
        else "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
        if version == 3
        else "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
    }
    _write(root / "meta" / "info.json", json.dumps(info))
    ends = np.cumsum(lengths)
    if version == 3:
        _write_v3(root, data, stills, lengths, ends, cameras, fps)
    else:
        _write_v21(root, data, stills, lengths, ends)
    for c in range(cameras):
        if video:
            path = root / "videos" / f"observation.images.cam{c}" / "chunk-000" / "file-000.mp4"
            path.parent.mkdir(parents=True)
            shutil.copy(video, path)
        else:
            _write_videos(root, f"observation.images.cam{c}", lengths, version, gop)
    return {**data, **stills}


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _png(rng: np.random.Generator) -> bytes:
    import io

    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(out, "PNG")
    return out.getvalue()


def _column(values: np.ndarray) -> Any:
    made = pa.array(values.ravel())
    for size in values.shape[:0:-1]:
        offsets = pa.array(np.arange(0, len(made) + 1, size), pa.int32())
        made = pa.ListArray.from_arrays(offsets, made)
    return made


def _table(data: dict[str, np.ndarray], stills: dict[str, list[bytes]], rows: slice) -> Any:
    columns = {k: _column(v[rows]) for k, v in data.items()}
    columns["observation.state"] = pa.array(data["observation.state"][rows].tolist(), pa.list_(pa.float32(), 4))
    columns["action"] = pa.array(data["action"][rows].tolist(), pa.list_(pa.float32()))
    struct = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    return pa.table(columns | {k: pa.array([{"bytes": b, "path": None} for b in v[rows]], struct) for k, v in stills.items()})


def _write_v3(root: Path, data: Any, stills: Any, lengths: Any, ends: Any, cameras: int, fps: int) -> None:
    """Writes the tables and statistics of format 3.0: two episodes in each file of data, and a list of the episodes. All episodes share one video per
    camera."""
    files = [list(range(i, min(i + 2, len(lengths)))) for i in range(0, len(lengths), 2)]
    rows = []
    for number, episodes in enumerate(files):
        path = root / "data" / "chunk-000" / f"file-{number:03d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        begin = int(ends[episodes[0]] - lengths[episodes[0]])
        pq.write_table(_table(data, stills, slice(begin, int(ends[episodes[-1]]))), path, row_group_size=5)
        for e in episodes:
            end = int(ends[e])
            row = {"episode_index": e, "length": lengths[e], "tasks": [TASKS[e % 3]], "data/chunk_index": 0, "data/file_index": number}
            row |= {"dataset_from_index": end - lengths[e], "dataset_to_index": end}
            for c in range(cameras):
                key = f"videos/observation.images.cam{c}"
                row |= {f"{key}/chunk_index": 0, f"{key}/file_index": 0}
                row |= {f"{key}/from_timestamp": (end - lengths[e]) / fps, f"{key}/to_timestamp": end / fps}
            rows.append(row)
    path = root / "meta" / "episodes" / "chunk-000" / "file-000.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    pq.write_table(pa.table({"task_index": list(range(3)), "task": TASKS}), root / "meta" / "tasks.parquet")
    stats = {
        k: {"mean": v.mean(0).tolist(), "std": v.std(0).tolist(), "min": v.min(0).tolist(), "max": v.max(0).tolist(), "count": [len(v)]}
        for k, v in data.items()
        if k != "next.done"
    }
    _write(root / "meta" / "stats.json", json.dumps(stats))


def _write_v21(root: Path, data: Any, stills: Any, lengths: Any, ends: Any) -> None:
    """Writes the tables and statistics of format 2.1: one file of data for each episode."""
    lines, stats = [], []
    for e, n in enumerate(lengths):
        rows = slice(int(ends[e]) - n, int(ends[e]))
        path = root / "data" / "chunk-000" / f"episode_{e:06d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(_table(data, stills, rows), path)
        lines.append(json.dumps({"episode_index": e, "tasks": [TASKS[e % 3]], "length": n}))
        found = {}
        for k, v in data.items():
            part = v[rows]
            found[k] = {
                "mean": part.mean(0).tolist(),
                "std": part.std(0).tolist(),
                "min": part.min(0).tolist(),
                "max": part.max(0).tolist(),
                "count": [n],
            }
        del found["next.done"]
        stats.append(json.dumps({"episode_index": e, "stats": found}))
    _write(root / "meta" / "episodes.jsonl", "\n".join(lines) + "\n")
    _write(root / "meta" / "episodes_stats.jsonl", "\n".join(stats) + "\n")
    _write(root / "meta" / "tasks.jsonl", "\n".join(json.dumps({"task_index": i, "task": t}) for i, t in enumerate(TASKS)) + "\n")


def _write_videos(root: Path, key: str, lengths: Any, version: int, gop: int) -> None:
    """Writes a camera's videos, with a key frame every `gop` frames. The brightness of a frame is 20 + 8 * its number, modulo 256. Format 3.0 has one video for
    all episodes, 2.1 one for each."""
    if version == 3:
        videos = [(root / "videos" / key / "chunk-000" / "file-000.mp4", sum(lengths))]
    else:
        videos = [(root / "videos" / "chunk-000" / key / f"episode_{e:06d}.mp4", n) for e, n in enumerate(lengths)]
    for path, count in videos:
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.zeros((count, 32, 48, 3), np.uint8) + (np.arange(count) * 8 + 20).astype(np.uint8)[:, None, None, None]
        coded = f"-c:v libx264 -g {gop} -sc_threshold 0 -qp 5 -pix_fmt yuv420p"
        command = f"ffmpeg -y -nostdin -v error -f rawvideo -pix_fmt rgb24 -s 48x32 -r {FPS} -i - {coded} {path}"
        subprocess.run(command.split(), input=pixels.tobytes(), check=True, timeout=60)
