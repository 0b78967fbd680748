# SPDX-License-Identifier: Apache-2.0
"""Computes the records that StreamPETR's converter writes from NuScenes' tables, as a reference for the tests: with Python's json and NumPy in float64,
without regard to speed."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np

CLASSES = ["car", "truck", "construction_vehicle", "bus", "trailer", "barrier", "motorcycle", "bicycle", "pedestrian", "traffic_cone"]
CAMERAS = ["CAM_FRONT", "CAM_FRONT_RIGHT", "CAM_FRONT_LEFT", "CAM_BACK", "CAM_BACK_LEFT", "CAM_BACK_RIGHT"]


def label_of(category):
    kind = category.split(".")
    if kind[:2] == ["human", "pedestrian"]:
        return CLASSES.index("pedestrian") if kind[2] in ("adult", "child", "construction_worker", "police_officer") else -1
    names = {"movable_object.trafficcone": "traffic_cone", "vehicle.construction": "construction_vehicle"}
    name = names.get(category, kind[1] if len(kind) > 1 else "")
    return CLASSES.index(name) if name in CLASSES else -1


def motion(row):
    """Returns the 4x4 matrix of a row with a rotation and a translation. The matrix maps points from the row's coordinate frame to its parent frame."""
    w, x, y, z = np.array(row["rotation"]) / np.linalg.norm(row["rotation"])
    m = np.eye(4)
    m[:3, :3] = [
        [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
    ]
    m[:3, 3] = row["translation"]
    return m


def bounds_in_image(points, size):
    """Returns the bounds of the part of the points' convex hull inside the image, or None if there is no such part. Its corners are among the points inside
    the image, the image's corners inside the hull, and the crossings of the image's border with lines between two points."""
    width, height = size
    found = [p for p in points if 0 <= p[0] <= width and 0 <= p[1] <= height]
    for a, b in combinations(points, 2):
        for axis, limit in ((0, 0), (0, width), (1, 0), (1, height)):
            if (a[axis] - limit) * (b[axis] - limit) < 0:
                p = a + (b - a) * (limit - a[axis]) / (b[axis] - a[axis])
                if -1e-9 <= p[1 - axis] <= size[1 - axis] + 1e-9:
                    found.append(p)
    for corner in np.array([[0, 0], [width, 0], [0, height], [width, height]], float):
        for a, b, c in combinations(points, 3):
            sides = [(q[0] - p[0]) * (corner[1] - p[1]) - (q[1] - p[1]) * (corner[0] - p[0]) for p, q in ((a, b), (b, c), (c, a))]
            if all(s > 0 for s in sides) or all(s < 0 for s in sides):
                found.append(corner)
                break
    if not found:
        return None
    return np.concatenate([np.min(found, axis=0), np.max(found, axis=0)])


class Reference:
    def __init__(self, root, version="v1.0-mini"):
        self.root = Path(root)
        rows = {p.stem: json.loads(p.read_text()) for p in (self.root / version).glob("*.json")}
        self.rows = rows
        self.by = {name: {row["token"]: row for row in rows[name]} for name in rows}
        self.samples = []
        self.starts = []
        for scene in sorted(rows["scene"], key=lambda s: self.by["sample"][s["first_sample_token"]]["timestamp"]):
            token, self.starts = scene["first_sample_token"], [*self.starts, len(self.samples)]
            while token:
                self.samples.append(self.by["sample"][token])
                token = self.samples[-1]["next"]
        self.key = {}
        for row in rows["sample_data"]:
            if row["is_key_frame"]:
                calibrated = self.by["calibrated_sensor"][row["calibrated_sensor_token"]]
                self.key[row["sample_token"], self.by["sensor"][calibrated["sensor_token"]]["channel"]] = row, calibrated
        self.objects = {s["token"]: [] for s in self.samples}
        for row in rows["sample_annotation"]:
            self.objects[row["sample_token"]].append(row)

    def velocity(self, row):
        chain = [self.by["sample_annotation"].get(row[k]) or row for k in ("prev", "next")]
        first, last = (self.by["sample"][r["sample_token"]]["timestamp"] / 1e6 for r in chain)
        if chain[0] is chain[1] or last - first > (3 if row["prev"] and row["next"] else 1.5):
            return np.zeros(3)
        moved = np.subtract(chain[1]["translation"], chain[0]["translation"]) / (last - first)
        return np.array([*moved[:2], 0])

    def camera(self, sample, channel, to_world, objects):
        frame, calibrated = self.key[sample["token"], channel]
        to_camera = np.linalg.inv(motion(self.by["ego_pose"][frame["ego_pose_token"]]) @ motion(calibrated))
        k = np.eye(4)
        k[:3, :3] = calibrated["camera_intrinsic"]
        out = {"img_timestamp": frame["timestamp"] / 1e6, "intrinsics": k, "extrinsics": to_camera @ to_world}
        out["lidar2img"] = k @ out["extrinsics"]
        out["image"] = np.frombuffer((self.root / frame["filename"]).read_bytes(), np.uint8)
        seen = []
        for row in objects:
            here = to_camera @ motion(row)
            w, l, h = row["size"]
            corners = np.array([[x * l / 2, y * w / 2, z * h / 2, 1] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) @ here.T
            ahead = corners[corners[:, 2] > 0] @ k.T
            box = bounds_in_image(ahead[:, :2] / ahead[:, 2:3], (frame["width"], frame["height"]))
            middle = k @ here[:, 3]
            if box is None or label_of(self.category(row)) < 0 or (box[2:] - box[:2]).min() < 1 or middle[2] <= 0:
                continue
            seen.append((row, box, middle[:2] / middle[2], middle[2]))
        out["bboxes2d"] = np.array([s[1] for s in seen]).reshape(-1, 4)
        out["centers2d"] = np.array([s[2] for s in seen]).reshape(-1, 2)
        out["depths2d"] = np.array([s[3] for s in seen])
        for name, value in self.numbers([s[0] for s in seen]).items():
            out[f"{name}2d"] = value
        return out

    def category(self, row):
        return self.by["category"][self.by["instance"][row["instance_token"]]["category_token"]]["name"]

    def numbers(self, objects):
        return {
            "labels": np.array([label_of(self.category(row)) for row in objects], int),
            "num_lidar_points": np.array([row["num_lidar_pts"] for row in objects], int),
            "num_radar_points": np.array([row["num_radar_pts"] for row in objects], int),
            "visibility": np.array([int(row["visibility_token"] or 0) for row in objects], int),
        }

    def __getitem__(self, i):
        """Returns a dict of the fields of sample i. Fields of cameras are lists."""
        sample = self.samples[i]
        lidar, calibrated = self.key[sample["token"], "LIDAR_TOP"]
        world = motion(self.by["ego_pose"][lidar["ego_pose_token"]]) @ motion(calibrated)
        objects = self.objects[sample["token"]]
        poses = [np.linalg.inv(world) @ motion(row) for row in objects]
        velocities = [(np.linalg.inv(world[:3, :3]) @ self.velocity(row))[:2] for row in objects]
        boxes = [
            [*p[:3, 3], row["size"][1], row["size"][0], row["size"][2], np.arctan2(-p[0, 1], p[0, 0]), *v]
            for p, row, v in zip(poses, objects, velocities, strict=True)
        ]
        out = {
            "ego_pose": world,
            "ego_pose_inv": np.linalg.inv(world),
            "timestamp": sample["timestamp"] / 1e6,
            "prev_exists": float(i not in self.starts),
            "frame": i - max(s for s in self.starts if s <= i),
            "scene": sum(s <= i for s in self.starts) - 1,
            "sample_token": np.frombuffer(sample["token"].encode(), np.uint8),
            "gt_bboxes_3d": np.array(boxes).reshape(-1, 9),
            "points": np.fromfile(self.root / lidar["filename"], "<f4").reshape(-1, 5),
            **self.numbers(objects),
        }
        out["gt_labels_3d"] = out.pop("labels")
        parts = {"translations": slice(0, 3), "sizes": slice(3, 6), "orientations": 6, "velocities": slice(7, 9)}
        out |= {name: out["gt_bboxes_3d"][:, part] for name, part in parts.items()}
        out["velocities"] = np.pad(out["velocities"], ((0, 0), (0, 1)))
        cameras = [self.camera(sample, channel, world, objects) for channel in CAMERAS]
        return out | {name: [camera[name] for camera in cameras] for name in cameras[0]}
