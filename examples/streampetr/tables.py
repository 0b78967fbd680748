# SPDX-License-Identifier: Apache-2.0
"""Reads the data that StreamPETR's converter reads from NuScenes' tables, with json and NumPy.

Coordinate frames: `global`, `ego` (the car at a time), and one for each sensor. Boxes and matrices are in the frame of LIDAR_TOP at the time of the sample.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

CAMERAS = ("CAM_FRONT", "CAM_FRONT_RIGHT", "CAM_FRONT_LEFT", "CAM_BACK", "CAM_BACK_LEFT", "CAM_BACK_RIGHT")
CLASSES = ("car", "truck", "construction_vehicle", "bus", "trailer", "barrier", "motorcycle", "bicycle", "pedestrian", "traffic_cone")
# A category belongs to the class of the first entry that its name begins with. Categories that match no entry are left out.
CATEGORIES = {
    "vehicle.car": "car",
    "vehicle.truck": "truck",
    "vehicle.construction": "construction_vehicle",
    "vehicle.bus.bendy": "bus",
    "vehicle.bus.rigid": "bus",
    "vehicle.trailer": "trailer",
    "movable_object.barrier": "barrier",
    "vehicle.motorcycle": "motorcycle",
    "vehicle.bicycle": "bicycle",
    "human.pedestrian.adult": "pedestrian",
    "human.pedestrian.child": "pedestrian",
    "human.pedestrian.construction_worker": "pedestrian",
    "human.pedestrian.police_officer": "pedestrian",
    "movable_object.trafficcone": "traffic_cone",
}
LONGEST = 1.5  # in seconds: the longest time from one annotation to the next for which a velocity is computed
Row = dict[str, Any]


@dataclass
class Boxes2d:
    """The n boxes that a camera sees."""

    boxes: np.ndarray  # (n, 4): x0, y0, x1, y1 in pixels of the file
    centers: np.ndarray  # (n, 2): the projected centre of the box in space
    depths: np.ndarray  # (n,) in metres from the camera
    labels: np.ndarray  # (n,) int32
    lidar_points: np.ndarray  # (n,) int32: number of lidar points in the box
    radar_points: np.ndarray  # (n,) int32: number of radar points in the box


@dataclass
class Camera:
    file: Path
    size: tuple[int, int]  # width and height in pixels
    timestamp: float
    intrinsics: np.ndarray  # (4, 4)
    extrinsics: np.ndarray  # (4, 4): maps the frame of LIDAR_TOP to the camera's
    lidar2img: np.ndarray  # (4, 4): maps the frame of LIDAR_TOP to the image
    seen: Boxes2d


@dataclass
class Sample:
    """The data of a key frame: its cameras, and its n boxes in the coordinate frame of LIDAR_TOP."""

    token: str
    scene: str
    timestamp: float
    prev_exists: bool
    ego_pose: np.ndarray  # (4, 4) float64: maps the frame of LIDAR_TOP to the global frame
    centers: np.ndarray  # (n, 3)
    sizes: np.ndarray  # (n, 3): length, width, height
    yaws: np.ndarray  # (n,) in radians
    velocities: np.ndarray  # (n, 3) in metres per second; z is 0
    labels: np.ndarray  # (n,) int32
    lidar_points: np.ndarray  # (n,) int32: number of lidar points in the box
    radar_points: np.ndarray  # (n,) int32: number of radar points in the box
    cameras: list[Camera]


def rotation(quaternion: list[float]) -> np.ndarray:
    """Returns the rotation matrix (3, 3) of a quaternion (w, x, y, z)."""
    w, x, y, z = np.asarray(quaternion) / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
        ]
    )


def pose(row: Row) -> np.ndarray:
    """Returns the (4, 4) matrix of a row's rotation and translation: maps ego to global for `ego_pose`, and sensor to ego for `calibrated_sensor`."""
    made = np.eye(4)
    made[:3, :3], made[:3, 3] = rotation(row["rotation"]), row["translation"]
    return made


def corners(center: np.ndarray, size: np.ndarray, turned: np.ndarray) -> np.ndarray:
    """Returns the corners (8, 3) of a box. size: length, width and height; turned: rotation matrix (3, 3)."""
    signs = np.array([[x, y, z] for x in (1, -1) for y in (1, -1) for z in (1, -1)]) / 2
    return center + (signs * size) @ turned.T


def hull(points: np.ndarray) -> list[np.ndarray]:
    """Returns the corners of the points' convex hull, counter-clockwise (Andrew's monotone chain)."""

    def half(sequence: np.ndarray) -> list[np.ndarray]:
        chain: list[np.ndarray] = []
        for p in sequence:
            while len(chain) > 1:
                (ax, ay), (bx, by) = chain[-1] - chain[-2], p - chain[-2]
                if ax * by - ay * bx > 0:
                    break
                chain.pop()
            chain.append(p)
        return chain[:-1]

    ordered = points[np.lexsort((points[:, 1], points[:, 0]))]
    return half(ordered) + half(ordered[::-1])


def clipped(polygon: list[np.ndarray], width: float, height: float) -> list[np.ndarray]:
    """Returns the part of a convex polygon inside an image, as a list of corners (Sutherland and Hodgman's algorithm)."""
    for axis, limit, sign in ((0, 0.0, 1), (0, width, -1), (1, 0.0, 1), (1, height, -1)):
        before, polygon = polygon, []
        for i, p in enumerate(before):
            last = before[i - 1]
            a, b = sign * (last[axis] - limit), sign * (p[axis] - limit)
            if (a < 0) != (b < 0):
                polygon.append(last + (p - last) * (a / (a - b)))
            if b >= 0:
                polygon.append(p)
    return polygon


class Tables:
    """The tables of a folder, with dictionaries from the rows of one table to those of another."""

    def __init__(self, root: Path, version: str = "v1.0-mini", cameras: tuple[str, ...] = CAMERAS) -> None:
        self.root, self.cameras = Path(root), cameras

        def table(name: str) -> list[Row]:
            rows: list[Row] = json.loads((self.root / version / f"{name}.json").read_text())
            return rows

        def by_token(name: str) -> dict[str, Row]:
            return {row["token"]: row for row in table(name)}

        self.calibrated, self.poses, self.annotations = map(by_token, ("calibrated_sensor", "ego_pose", "sample_annotation"))
        self.samples, sensors = by_token("sample"), by_token("sensor")
        categories, instances = by_token("category"), by_token("instance")
        self.category = {token: categories[row["category_token"]]["name"] for token, row in instances.items()}
        self.data: dict[str, dict[str, Row]] = defaultdict(dict)  # data[sample][channel]: row of the key frame
        for row in table("sample_data"):
            if row["is_key_frame"]:
                channel = sensors[self.calibrated[row["calibrated_sensor_token"]]["sensor_token"]]["channel"]
                self.data[row["sample_token"]][channel] = row
        self.boxes: dict[str, list[Row]] = defaultdict(list)
        for row in self.annotations.values():
            self.boxes[row["sample_token"]].append(row)
        self.order, self.lengths, self.scenes = [], [], {}
        for scene in table("scene"):
            tokens, token = [], scene["first_sample_token"]
            while token:
                tokens.append(token)
                token = self.samples[token]["next"]
            self.order += tokens
            self.lengths.append(len(tokens))
            self.scenes[scene["token"]] = scene["name"]

    def __len__(self) -> int:
        return len(self.order)

    def label(self, row: Row) -> int:
        """Returns the index of an annotation's class in CLASSES, or -1 if its category belongs to no class."""
        name = self.category[row["instance_token"]]
        found = next((known for start, known in CATEGORIES.items() if name.startswith(start)), None)
        return CLASSES.index(found) if found else -1

    def velocity(self, row: Row) -> np.ndarray:
        """Returns the velocity (3,) of an annotated object in m/s in the global frame. It is computed from the object's previous and next annotation; `row`
        takes the place of a missing one. Returns 0 if both are missing, or if the time between them is too long (see LONGEST)."""
        first = self.annotations[row["prev"]] if row["prev"] else row
        last = self.annotations[row["next"]] if row["next"] else row
        seconds = 1e-6 * (self.samples[last["sample_token"]]["timestamp"] - self.samples[first["sample_token"]]["timestamp"])
        both = bool(row["prev"]) and bool(row["next"])
        if first is last or seconds > LONGEST * (2 if both else 1):
            return np.zeros(3)
        return (np.array(last["translation"]) - np.array(first["translation"])) / seconds

    def sample(self, index: int) -> Sample:
        token = self.order[index]
        row, data = self.samples[token], self.data[token]
        top = data["LIDAR_TOP"]
        lidar2global = pose(self.poses[top["ego_pose_token"]]) @ pose(self.calibrated[top["calibrated_sensor_token"]])
        global2lidar = np.linalg.inv(lidar2global)
        known = [(box, label) for box in self.boxes[token] if (label := self.label(box)) >= 0]
        turned = [global2lidar[:3, :3] @ rotation(box["rotation"]) for box, _ in known]
        velocities = [global2lidar[:3, :3] @ self.velocity(box) for box, _ in known]
        centers = np.array([box["translation"] for box, _ in known]).reshape(-1, 3)
        return Sample(
            token=token,
            scene=self.scenes[row["scene_token"]],
            timestamp=1e-6 * row["timestamp"],
            prev_exists=bool(row["prev"]),
            ego_pose=lidar2global,
            centers=centers @ global2lidar[:3, :3].T + global2lidar[:3, 3],
            sizes=np.array([box["size"] for box, _ in known]).reshape(-1, 3)[:, [1, 0, 2]],
            yaws=np.array([np.arctan2(r[1, 0], r[0, 0]) for r in turned]),
            velocities=np.array([[v[0], v[1], 0.0] for v in velocities]).reshape(-1, 3),
            labels=np.array([label for _, label in known], np.int32),
            lidar_points=np.array([box["num_lidar_pts"] for box, _ in known], np.int32),
            radar_points=np.array([box["num_radar_pts"] for box, _ in known], np.int32),
            cameras=[self._camera(data[name], lidar2global, known) for name in self.cameras],
        )

    def _camera(self, row: Row, lidar2global: np.ndarray, known: list[tuple[Row, int]]) -> Camera:
        calibrated = self.calibrated[row["calibrated_sensor_token"]]
        global2camera = np.linalg.inv(pose(self.poses[row["ego_pose_token"]]) @ pose(calibrated))
        intrinsics = np.eye(4)
        intrinsics[:3, :3] = calibrated["camera_intrinsic"]
        extrinsics = global2camera @ lidar2global
        size = (row["width"], row["height"])
        seen = self._seen(global2camera, intrinsics[:3, :3], size, known)
        return Camera(self.root / row["filename"], size, 1e-6 * row["timestamp"], intrinsics, extrinsics, intrinsics @ extrinsics, seen)

    def _seen(self, global2camera: np.ndarray, intrinsics: np.ndarray, size: tuple[int, int], known: list[tuple[Row, int]]) -> Boxes2d:
        """Returns the boxes that the camera sees, as rectangles in its image: each bounds the hull of the box's corners in front of the camera, cut off at
        the image's borders. Leaves out boxes whose centre is not in front of the camera, and boxes outside of the image."""
        found = []
        for box, label in known:
            dims = np.array(box["size"])[[1, 0, 2]]
            space = corners(np.array(box["translation"]), dims, rotation(box["rotation"])) @ global2camera[:3, :3].T + global2camera[:3, 3]
            ahead = space[space[:, 2] > 0] @ intrinsics.T
            center = intrinsics @ (global2camera[:3, :3] @ np.array(box["translation"]) + global2camera[:3, 3])
            if len(ahead) == 0 or center[2] <= 0:
                continue
            inside = clipped(hull(ahead[:, :2] / ahead[:, 2:]), *size)
            if inside:
                low, high = np.min(inside, 0), np.max(inside, 0)
                found.append(((*low, *high), center[:2] / center[2], center[2], label, box["num_lidar_pts"], box["num_radar_pts"]))
        columns = list(zip(*found, strict=True)) or [()] * 6
        return Boxes2d(
            np.array(columns[0], np.float64).reshape(-1, 4),
            np.array(columns[1], np.float64).reshape(-1, 2),
            np.array(columns[2], np.float64),
            *(np.array(column, np.int32) for column in columns[3:]),
        )
