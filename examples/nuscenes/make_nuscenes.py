#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes small data sets in NuScenes' format, for tests, demonstrations and benchmarks.

usage: make_nuscenes.py FOLDER [--scenes N] [--samples N] [--seed N] [--images DIR] [--size 1600x900] [--version v1.0-mini]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import nuscenes_frames as frames
import nuscenes_world as world

if TYPE_CHECKING:
    from PIL.Image import Image

TABLES = (
    "attribute",
    "calibrated_sensor",
    "category",
    "ego_pose",
    "instance",
    "log",
    "map",
    "sample",
    "sample_annotation",
    "sample_data",
    "scene",
    "sensor",
    "visibility",
)
# Names of the scenes of NuScenes' mini set, so that the devkit's splits find them. Further scenes are numbered.
MINI = ("0061", "0103", "0553", "0655", "0757", "0796", "0916", "1077", "1094", "1100")
PERIOD = 0.5  # seconds between samples
VISIBILITY = ("v0-40", "v40-60", "v60-80", "v80-100")
LOCATIONS = ("boston-seaport", "singapore-onenorth", "singapore-queenstown", "singapore-hollandvillage")


class _Maker:
    """Collects the rows of the tables. A row's token is a hash of the seed, the table and the row's number."""

    def __init__(self, root: Path, seed: int, size: tuple[int, int], quality: int, points: int, sweeps: int) -> None:
        self.root, self.seed, self.size, self.quality, self.points, self.sweeps = root, seed, size, quality, points, sweeps
        self.tables: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        self.frames: list[tuple[Any, ...]] = []  # arguments for the calls of write_frame that _draw_frames makes later
        self.copies: list[tuple[Path, Path]] = []

    def rng(self, *what: int) -> np.random.Generator:
        return np.random.default_rng((self.seed, *what))

    def add(self, table: str, **fields: Any) -> dict[str, Any]:
        rows = self.tables[table]
        text = f"{self.seed}/{table}/{len(rows)}"
        row = {"token": hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), **fields}
        rows.append(row)
        return row

    def constants(self) -> None:
        for name in world.CATEGORIES:
            self.add("category", name=name, description="", index=len(self.tables["category"]) + 1)
        for name in world.ATTRIBUTES:
            self.add("attribute", name=name, description="")
        for k, level in enumerate(VISIBILITY):
            share = level[1:].replace("-", " and ")
            self.tables["visibility"].append(
                {"token": str(k + 1), "level": level, "description": f"visibility of whole object is between {share}%"}
            )

    def token_of(self, table: str, name: str, key: str = "name") -> str:
        return next(str(row["token"]) for row in self.tables[table] if row[key] == name)

    def write(self, version: str) -> None:
        folder = self.root / version
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in self.tables.items():
            (folder / f"{name}.json").write_text(json.dumps(rows, indent=0))


def _link(rows: list[dict[str, Any]]) -> None:
    for k, row in enumerate(rows):
        row["prev"] = rows[k - 1]["token"] if k else ""
        row["next"] = rows[k + 1]["token"] if k + 1 < len(rows) else ""


def _plain(values: world.Array) -> Any:
    """Converts an array to lists of numbers for a JSON table, rounded to 15 significant digits."""
    return [_plain(v) for v in values] if values.ndim > 1 else [float(f"{v:.15g}") for v in values]


class _Scene:
    """Makes the table rows and the sensor data of one scene. Rows of the same kind are linked to the previous and the next one in time."""

    def __init__(self, maker: _Maker, number: int, samples: int, cameras: tuple[str, ...], objects: int) -> None:
        self.maker, self.number, self.samples = maker, number, samples
        rng = maker.rng(number)
        start = np.append(rng.uniform(300, 2000, 2), 0)
        speed = 0.0 if rng.random() < 0.1 else rng.uniform(2, 12)
        self.drive = world.Drive(start, rng.uniform(-np.pi, np.pi), speed, rng.normal(0, 0.03), rng.normal(0, 0.006, 2))
        self.things = world.make_things(rng, self.drive, objects, samples, PERIOD)
        self.sensors = world.make_sensors(rng, cameras, maker.size)
        self.begin = 1_532_402_927_647_951 + number * 60_000_000 + int(rng.integers(1_000_000))
        self.lag = {s.channel: int(rng.integers(-40_000, 1)) if s.intrinsic is not None else 0 for s in self.sensors}

    def rows(self) -> None:
        m = self.maker
        day = f"2018-07-{24 + self.number % 7:02d}"
        place = LOCATIONS[self.number % len(LOCATIONS)]
        log = m.add("log", logfile=f"n008-{day}-{self.number:04d}", vehicle="n008", date_captured=day, location=place)
        name = MINI[self.number] if self.number < len(MINI) else f"{2000 + self.number}"
        scene = m.add("scene", log_token=log["token"], nbr_samples=self.samples)
        samples = [
            m.add("sample", timestamp=self.begin + int(k * PERIOD * 1e6), prev="", next="", scene_token=scene["token"])
            for k in range(self.samples)
        ]
        _link(samples)
        moving = sum(thing.speed > 0 for thing in self.things)
        scene.update(first_sample_token=samples[0]["token"], last_sample_token=samples[-1]["token"], name=f"scene-{name}")
        scene["description"] = f"Made up: {len(self.things)} objects, {moving} of which move"
        counts: list[dict[int, int]] = []
        for sensor in self.sensors:
            counts = self.sensor_rows(sensor, samples)
        self.annotations(samples, counts)  # the loop ends with the lidar, so `counts` are the lidar's

    def sensor_rows(self, sensor: world.Sensor, samples: list[dict[str, Any]]) -> list[dict[int, int]]:
        """Makes a sensor's key frames and the sweeps between them. For the lidar, returns for each sample the number of points in each object."""
        m = self.maker
        calibrated = m.add(
            "calibrated_sensor",
            sensor_token=m.token_of("sensor", sensor.channel, "channel"),
            translation=_plain(sensor.pose.translation),
            rotation=_plain(sensor.pose.quaternion),
            camera_intrinsic=[] if sensor.intrinsic is None else _plain(sensor.intrinsic),
        )
        counts: list[dict[int, int]] = []
        chain = []
        steps = m.sweeps + 1
        for k, sample in enumerate(samples):
            for sweep in range(steps if k + 1 < self.samples else 1):
                stamp = sample["timestamp"] + self.lag[sensor.channel] + int(sweep * PERIOD * 1e6 / steps)
                t = (stamp - self.begin) / 1e6
                ego = self.drive.pose(t)
                data = m.add("sample_data", sample_token=sample["token"])
                pose = {"translation": _plain(ego.translation), "rotation": _plain(ego.quaternion), "timestamp": stamp}
                m.tables["ego_pose"].append({"token": data["token"], **pose})
                camera = sensor.intrinsic is not None
                ending = "jpg" if camera else "pcd.bin"
                folder = "sweeps" if sweep else "samples"
                file = f"{folder}/{sensor.channel}/n008-{self.number:04d}__{sensor.channel}__{stamp}.{ending}"
                data.update(
                    ego_pose_token=data["token"],
                    calibrated_sensor_token=calibrated["token"],
                    timestamp=stamp,
                    fileformat="jpg" if camera else "pcd",
                    is_key_frame=sweep == 0,
                    height=m.size[1] if camera else 0,
                    width=m.size[0] if camera else 0,
                    filename=file,
                )
                chain.append(data)
                self.capture(sensor, ego, k, sweep, t, m.root / file, counts)
        _link(chain)
        return counts

    def alive(self, k: int) -> list[world.Thing]:
        return [thing for thing in self.things if thing.first <= k < thing.last]

    def capture(
        self, sensor: world.Sensor, ego: world.Pose, k: int, sweep: int, t: float, path: Path, counts: list[dict[int, int]]
    ) -> None:
        m = self.maker
        things = self.alive(k)
        path.parent.mkdir(parents=True, exist_ok=True)
        number = self.sensors.index(sensor)
        if sensor.intrinsic is None:
            cloud, inside = frames.scan(m.rng(self.number, number, k, sweep), sensor, ego, things, t, m.points)
            cloud.astype("<f4").tofile(path)
            if not sweep:
                counts.append({id(thing): n for thing, n in zip(things, inside, strict=True)})
        elif sweep:  # a camera's sweep gets a copy of the key frame, because programs that read sweeps only need their rows and some file
            m.copies.append((m.frames[-1][0], path))
        else:
            part = k / max(1, self.samples - 1)
            m.frames.append((path, self.number, number, k, part, (sensor, ego, things, t)))

    def annotations(self, samples: list[dict[str, Any]], counts: list[dict[int, int]]) -> None:
        m = self.maker
        rng = m.rng(self.number, 1 << 20)
        chains: dict[int, list[dict[str, Any]]] = {}
        for thing in self.things:
            thing.instance = m.add("instance", category_token=m.token_of("category", thing.category))["token"]
        for k, sample in enumerate(samples):
            t = k * PERIOD
            for thing in self.alive(k):
                pose = thing.pose(t)
                distance = np.linalg.norm(pose.translation - self.drive.pose(t).translation)
                row = m.add(
                    "sample_annotation",
                    sample_token=sample["token"],
                    instance_token=thing.instance,
                    visibility_token=str(int(rng.choice(4, p=[0.4, 0.2, 0.2, 0.2] if distance > 35 else [0.1, 0.1, 0.2, 0.6])) + 1),
                    attribute_tokens=[m.token_of("attribute", thing.attribute)] if thing.attribute else [],
                    translation=[round(float(v), 3) for v in pose.translation],
                    size=_plain(thing.size),
                    rotation=_plain(pose.quaternion),
                    prev="",
                    next="",
                    num_lidar_pts=counts[k][id(thing)],
                    num_radar_pts=int(rng.poisson(0.7)) if thing.category.startswith("vehicle") else 0,
                )
                chains.setdefault(id(thing), []).append(row)
        by_token = {row["token"]: row for row in m.tables["instance"]}
        for thing in self.things:
            chain = chains[id(thing)]
            _link(chain)
            by_token[thing.instance].update(
                nbr_annotations=len(chain), first_annotation_token=chain[0]["token"], last_annotation_token=chain[-1]["token"]
            )


def _draw_frames(maker: _Maker, photos: list[Path]) -> None:
    """Draws the frames of each scene camera by camera, because the frames of one camera share a background."""
    groups: dict[tuple[int, int], list[tuple[Any, ...]]] = {}
    for frame in maker.frames:
        groups.setdefault(frame[1:3], []).append(frame)

    def draw(frame: tuple[Any, ...], behind: Image) -> None:
        path, scene, number, k, part, seen = frame
        frames.write_frame(path, behind, maker.rng(scene, number, k), maker.size, part, seen, maker.quality)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:  # encoding and resizing run without the GIL
        for (scene, number), group in groups.items():
            behind = frames.backdrop(maker.rng(scene, number, 1 << 20), photos, maker.size)
            list(threads.map(draw, group, [behind] * len(group)))


def _write_map(maker: _Maker) -> None:
    """Writes one map for each location, because NuScenes' devkit requires maps."""
    from PIL import Image

    (maker.root / "maps").mkdir(parents=True, exist_ok=True)
    for place in sorted({row["location"] for row in maker.tables["log"]}):
        logs = [row["token"] for row in maker.tables["log"] if row["location"] == place]
        row = maker.add("map", category="semantic_prior", filename="", log_tokens=logs)
        row["filename"] = f"maps/{row['token']}.png"
        Image.new("L", (64, 64), 255).save(maker.root / row["filename"])


def make_nuscenes(
    root: str | os.PathLike[str],
    scenes: int = 4,
    samples: int = 10,
    seed: int = 0,
    images: str | os.PathLike[str] | None = None,
    version: str = "v1.0-mini",
    size: tuple[int, int] = (1600, 900),
    *,
    objects: int = 40,
    sweeps: int = 1,
    points: int = 4000,
    quality: int = 82,
    cameras: Sequence[str] = tuple(world.CAMERAS),
) -> Path:
    """Makes a small data set in NuScenes' format, with files that its devkit, and everything that reads NuScenes, can use.

    A car with six cameras and a lidar drives through each scene among objects that stand or move. An object's box projects to the pixels at which the object
    is painted into the images, and the lidar's points on it are counted. The same arguments and versions of NumPy and Pillow give the same files.

    Args:
        root: path of the folder to fill. It is made if it is missing; files in it are overwritten.
        scenes: number of scenes. The first ten have the names of NuScenes' mini set.
        samples: number of key frames of each scene. They are half a second apart.
        seed: seed of all random numbers.
        images: path of a folder of photographs from which camera frames are cut; None: the frames show textures.
        version: name of the folder of the tables.
        size: width and height of camera frames, in pixels. The cameras' intrinsic matrices fit this size.
        objects: number of objects in each scene. Some objects exist only during a part of the scene.
        sweeps: number of frames between two key frames, for each sensor. Camera images of sweeps are copies of the key frame before.
        points: number of the lidar's points in one turn.
        quality: quality of the JPEG files, from 1 to 95.
        cameras: names of the cameras, as NuScenes has them.

    Returns:
        The path `root`.
    """
    unknown = [c for c in cameras if c not in world.CAMERAS]
    if unknown:
        raise ValueError(f"{unknown[0]} is not a camera of NuScenes; there are {', '.join(world.CAMERAS)}")
    for name, value, least in (
        ("scenes", scenes, 1),
        ("samples", samples, 1),
        ("objects", objects, 0),
        ("sweeps", sweeps, 0),
        ("points", points, 4),
    ):
        if value < least:
            raise ValueError(f"{name} is {value}: it must be at least {least}")
    try:
        import PIL.Image  # noqa: F401
    except ImportError as e:
        raise ImportError("make_nuscenes writes JPEGs with Pillow: pip install pillow") from e
    photos = [] if images is None else frames.find_photos(images)
    maker = _Maker(Path(root), seed, size, quality, points, sweeps)
    maker.constants()
    for channel in (*cameras, world.LIDAR):
        maker.add("sensor", channel=channel, modality="lidar" if channel == world.LIDAR else "camera")
    for number in range(scenes):
        _Scene(maker, number, samples, tuple(cameras), objects).rows()
    _write_map(maker)
    _draw_frames(maker, photos)
    for key, sweep in maker.copies:
        sweep.unlink(missing_ok=True)
        try:
            os.link(key, sweep)
        except OSError:
            shutil.copyfile(key, sweep)
    maker.write(version)
    return Path(root)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scenes", type=int, default=4)
    parser.add_argument("--samples", type=int, default=10, help="key frames of each scene")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--images", type=Path, help="a folder of photographs out of which camera frames are cut; default: textures")
    parser.add_argument("--size", default="1600x900", help="width and height of camera frames")
    parser.add_argument("--version", default="v1.0-mini")
    args = parser.parse_args()
    width, height = (int(n) for n in args.size.split("x"))
    make_nuscenes(args.folder, args.scenes, args.samples, args.seed, args.images, args.version, (width, height))


if __name__ == "__main__":
    main()
