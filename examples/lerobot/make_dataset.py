# SPDX-License-Identifier: Apache-2.0
"""Records an expert at a simulated task as a data set in LeRobot's format 3.0: tables in Parquet, two cameras in H.264 with a key frame every second frame.

usage: make_dataset.py FOLDER [--episodes N]

Needs numpy, pyarrow, and the ffmpeg program.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from reach import CAMERAS, FPS, SIZE, Table

TASK = "move the hand to the square"
Episode = tuple[
    list[np.ndarray], list[np.ndarray], list[tuple[np.ndarray, np.ndarray]]
]  # states, actions, and pairs of the cameras' pictures


def record(seed: int) -> Episode:
    """Returns one episode in which the expert does the task. The seed determines where the hand and the square are at its start."""
    table, states, actions, pictures = Table(np.random.default_rng(seed)), [], [], []
    while not states or not table.reached:
        goal = table.expert()
        states.append(table.hand)
        actions.append(goal)
        pictures.append(table.pictures())
        table.step(goal)
    return states, actions, pictures


def write_video(path: Path, frames: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    command = f"ffmpeg -y -nostdin -v error -f rawvideo -pix_fmt rgb24 -s {SIZE}x{SIZE} -r {FPS} -i - -c:v libx264 -g 2 -bf 0 -crf 18 -pix_fmt yuv420p"
    subprocess.run([*command.split(), str(path)], input=frames.tobytes(), check=True)


def write_json(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


def write_table(path: Path, table: pa.Table) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def columns_of(episodes: list[Episode], lengths: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the columns of the table of frames, which holds all episodes one after another."""
    frame = np.concatenate([np.arange(n) for n in lengths])
    return {
        "observation.state": np.concatenate([states for states, _, _ in episodes]).astype(np.float32),
        "action": np.concatenate([actions for _, actions, _ in episodes]).astype(np.float32),
        "timestamp": (frame / FPS).astype(np.float32),
        "frame_index": frame,
        "episode_index": np.repeat(np.arange(len(lengths)), lengths),
        "index": np.arange(len(frame)),
        "task_index": np.zeros(len(frame), np.int64),
    }


def write_meta(root: Path, columns: dict[str, np.ndarray], lengths: np.ndarray) -> None:
    """Writes the description of the data set, statistics of its columns, and the list of tasks."""
    total = int(lengths.sum())
    features = {name: {"dtype": str(v.dtype), "shape": list(v.shape[1:]) or [1], "names": None} for name, v in columns.items()}
    features |= {name: {"dtype": "video", "shape": [SIZE, SIZE, 3], "names": ["height", "width", "channels"]} for name in CAMERAS}
    info = {
        "codebase_version": "v3.0",
        "robot_type": "hand",
        "fps": FPS,
        "features": features,
        "total_episodes": len(lengths),
        "total_frames": total,
        "total_tasks": 1,
        "chunks_size": 1000,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4",
    }
    write_json(root / "meta/info.json", info)
    stats = {
        name: {"mean": v.mean(0).tolist(), "std": v.std(0).tolist(), "min": v.min(0).tolist(), "max": v.max(0).tolist(), "count": [total]}
        for name, v in columns.items()
    }
    write_json(root / "meta/stats.json", stats)
    write_table(root / "meta/tasks.parquet", pa.table({"task_index": [0], "task": [TASK]}))


def episode_rows(lengths: np.ndarray) -> list[dict[str, object]]:
    """Returns the rows of the table of episodes. A row says which rows of the table of frames belong to the episode, and from when to when, in seconds, it lies
    in each camera's video."""
    rows: list[dict[str, object]] = []
    for e, (end, length) in enumerate(zip(np.cumsum(lengths).tolist(), lengths.tolist(), strict=True)):
        row = {"episode_index": e, "length": length, "tasks": [TASK], "data/chunk_index": 0, "data/file_index": 0}
        row |= {"dataset_from_index": end - length, "dataset_to_index": end}
        for camera in CAMERAS:
            row |= {f"videos/{camera}/chunk_index": 0, f"videos/{camera}/file_index": 0}
            row |= {f"videos/{camera}/from_timestamp": (end - length) / FPS, f"videos/{camera}/to_timestamp": end / FPS}
        rows.append(row)
    return rows


def write(root: Path, episodes: list[Episode]) -> int:
    """Writes the data set. Returns its number of frames."""
    lengths = np.array([len(states) for states, _, _ in episodes])
    columns = columns_of(episodes, lengths)
    write_meta(root, columns, lengths)
    write_table(root / "meta/episodes/chunk-000/file-000.parquet", pa.Table.from_pylist(episode_rows(lengths)))
    frames = {n: pa.array(v.tolist(), pa.list_(pa.float32())) if v.ndim > 1 else v for n, v in columns.items()}
    write_table(root / "data/chunk-000/file-000.parquet", pa.table(frames))
    for c, camera in enumerate(CAMERAS):
        video = np.stack([pictures[c] for _, _, episode in episodes for pictures in episode])
        write_video(root / f"videos/{camera}/chunk-000/file-000.mp4", video)
    return int(lengths.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--episodes", type=int, default=150)
    args = parser.parse_args()
    total = write(args.folder, [record(seed) for seed in range(args.episodes)])
    print(f"{args.folder}: {args.episodes} episodes, {total} frames of {len(CAMERAS)} cameras")


if __name__ == "__main__":
    main()
