# SPDX-License-Identifier: Apache-2.0
"""The artificial world of make_nuscenes: the route of the car, the poses of its sensors, and the objects around it."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

# NuScenes' cameras: (yaw in degrees; x, y and z in the car's frame in metres; focal length in pixels for an image of 1600 pixels width).
CAMERAS = {
    "CAM_FRONT": (0.0, 1.70, 0.02, 1.51, 1266.0),
    "CAM_FRONT_RIGHT": (-56.0, 1.55, -0.49, 1.50, 1260.0),
    "CAM_FRONT_LEFT": (55.0, 1.52, 0.49, 1.51, 1272.0),
    "CAM_BACK": (180.0, 0.03, 0.00, 1.58, 809.0),
    "CAM_BACK_LEFT": (108.0, 1.04, 0.48, 1.56, 1257.0),
    "CAM_BACK_RIGHT": (-110.0, 1.01, -0.48, 1.56, 1259.0),
}
LIDAR = "LIDAR_TOP"

# NuScenes' categories: width, length and height in metres, speed in metres per second if an object moves, kind of attributes, and relative frequency.
CATEGORIES: dict[str, tuple[float, float, float, float, str, int]] = {
    "human.pedestrian.adult": (0.67, 0.73, 1.77, 1.4, "pedestrian", 16),
    "human.pedestrian.child": (0.52, 0.54, 1.38, 1.1, "pedestrian", 1),
    "human.pedestrian.wheelchair": (0.77, 1.09, 1.37, 0.8, "", 0),
    "human.pedestrian.stroller": (0.60, 0.95, 1.18, 1.0, "", 0),
    "human.pedestrian.personal_mobility": (0.63, 1.18, 1.79, 3.0, "", 1),
    "human.pedestrian.police_officer": (0.73, 0.76, 1.81, 1.0, "pedestrian", 1),
    "human.pedestrian.construction_worker": (0.70, 0.77, 1.75, 0.6, "pedestrian", 1),
    "animal": (0.36, 0.73, 0.51, 1.0, "", 1),
    "vehicle.car": (1.95, 4.62, 1.73, 9.0, "vehicle", 30),
    "vehicle.motorcycle": (0.77, 2.11, 1.46, 7.0, "cycle", 3),
    "vehicle.bicycle": (0.61, 1.70, 1.30, 4.0, "cycle", 3),
    "vehicle.bus.bendy": (2.96, 12.29, 3.44, 6.0, "vehicle", 1),
    "vehicle.bus.rigid": (2.93, 11.23, 3.46, 6.0, "vehicle", 2),
    "vehicle.truck": (2.52, 6.94, 2.85, 7.0, "vehicle", 6),
    "vehicle.construction": (2.82, 6.56, 3.20, 1.0, "vehicle", 2),
    "vehicle.emergency.ambulance": (2.20, 6.00, 2.60, 9.0, "vehicle", 0),
    "vehicle.emergency.police": (1.97, 4.90, 1.80, 9.0, "vehicle", 0),
    "vehicle.trailer": (2.90, 12.28, 3.87, 5.0, "vehicle", 2),
    "movable_object.barrier": (2.50, 0.50, 0.98, 0.0, "", 12),
    "movable_object.trafficcone": (0.41, 0.41, 1.07, 0.0, "", 8),
    "movable_object.pushable_pullable": (0.61, 0.67, 1.06, 0.0, "", 1),
    "movable_object.debris": (1.05, 1.34, 0.61, 0.0, "", 1),
    "static_object.bicycle_rack": (2.74, 6.00, 1.30, 0.0, "", 1),
}
ATTRIBUTES = (
    "vehicle.moving",
    "vehicle.stopped",
    "vehicle.parked",
    "cycle.with_rider",
    "cycle.without_rider",
    "pedestrian.sitting_lying_down",
    "pedestrian.standing",
    "pedestrian.moving",
)


def quaternion(yaw: float, pitch: float = 0.0, roll: float = 0.0) -> Array:
    """Returns the quaternion (w, x, y, z) of a rotation by yaw about z, then pitch about the new y, then roll about the new x. Angles are in radians."""
    cy, sy, cp, sp, cr, sr = (f(a / 2) for a in (yaw, pitch, roll) for f in (np.cos, np.sin))
    return np.array([cy * cp * cr + sy * sp * sr, cy * cp * sr - sy * sp * cr, cy * sp * cr + sy * cp * sr, sy * cp * cr - cy * sp * sr])


def multiply(a: Array, b: Array) -> Array:
    """Returns the Hamilton product of two quaternions."""
    w, v = a[0], a[1:]
    return np.concatenate([[w * b[0] - v @ b[1:]], w * b[1:] + b[0] * v + np.cross(v, b[1:])])


def rotation(q: Array) -> Array:
    """Returns the rotation matrix (3, 3) of a quaternion (w, x, y, z)."""
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


@dataclass
class Pose:
    """The pose of a coordinate frame in its parent frame: a point p of the frame lies at rotation @ p + translation in the parent."""

    translation: Array
    quaternion: Array

    def out(self, points: Array) -> Array:
        return points @ rotation(self.quaternion).T + self.translation

    def into(self, points: Array) -> Array:
        return (points - self.translation) @ rotation(self.quaternion)


@dataclass
class Sensor:
    channel: str
    pose: Pose  # position and rotation of the sensor in the car's frame
    intrinsic: Array | None = None  # 3x3; only cameras have one


def make_sensors(rng: np.random.Generator, cameras: tuple[str, ...], size: tuple[int, int]) -> list[Sensor]:
    """Returns NuScenes' cameras and its lidar. Poses deviate a little from the nominal ones, as in a real car. The lidar's x points to the right, its y
    ahead."""
    found = []
    for channel in cameras:
        yaw, x, y, z, focal = CAMERAS[channel]
        # A camera's z points ahead and its x to the right; the quaternion rotates the car's frame (x ahead, y left, z up) to that.
        base = multiply(quaternion(np.deg2rad(yaw)), np.array([0.5, -0.5, 0.5, -0.5]))
        q = multiply(base, quaternion(*rng.normal(0, 0.006, 3)))
        at = np.array([x, y, z]) + rng.normal(0, 0.01, 3)
        f = focal * size[0] / 1600 * rng.normal(1, 0.003)
        cx, cy = size[0] * 0.5 + rng.normal(0, size[0] * 0.006), size[1] * 0.53 + rng.normal(0, size[1] * 0.008)
        found.append(Sensor(channel, Pose(at, q), np.array([[f, 0, cx], [0, f, cy], [0, 0, 1]])))
    lidar = multiply(quaternion(np.deg2rad(-90)), quaternion(*rng.normal(0, 0.006, 3)))
    return [*found, Sensor(LIDAR, Pose(np.array([0.94, 0.0, 1.84]), lidar))]


@dataclass
class Drive:
    """The car's route through a scene: an arc of a circle, over ground that is almost flat. t: time in seconds since the scene's start."""

    start: Array
    yaw: float
    speed: float
    turn: float  # in radians per second
    tilt: Array  # amplitudes of pitch and roll in radians

    def pose(self, t: float) -> Pose:
        angle = self.yaw + self.turn * t
        ahead = np.sinc(self.turn * t / (2 * np.pi)) * self.speed * t  # length of the chord of the arc driven so far
        middle = self.yaw + self.turn * t / 2
        at = self.start + np.array([np.cos(middle) * ahead, np.sin(middle) * ahead, 0.0])
        pitch, roll = self.tilt * np.sin(np.array([1.3, 0.9]) * t + self.yaw)
        return Pose(at, quaternion(angle, float(pitch), float(roll)))


@dataclass
class Thing:
    """An object that is annotated in the samples from `first` to `last` - 1 of a scene."""

    category: str
    size: Array  # width, length and height in metres
    start: Array
    yaw: float
    speed: float
    turn: float
    first: int
    last: int
    attribute: str
    instance: str = ""
    tokens: list[str] = field(default_factory=list)  # tokens of the object's annotations

    def pose(self, t: float) -> Pose:
        angle = self.yaw + self.turn * t
        ahead = np.sinc(self.turn * t / (2 * np.pi)) * self.speed * t
        middle = self.yaw + self.turn * t / 2
        return Pose(self.start + np.array([np.cos(middle) * ahead, np.sin(middle) * ahead, 0.0]), quaternion(angle))

    def corners(self, t: float) -> Array:
        """Returns the corners (8, 3) in the global frame. Bits 1, 2 and 4 of a corner's number select its side in x, y and z of the box."""
        w, l, h = self.size
        bits = (np.arange(8)[:, None] >> np.arange(3)) & 1
        return self.pose(t).out((bits - 0.5) * np.array([l, w, h]))


def _attribute(kind: str, moves: bool, rng: np.random.Generator) -> str:
    if kind == "vehicle":
        return "vehicle.moving" if moves else str(rng.choice(["vehicle.parked", "vehicle.stopped"]))
    if kind == "cycle":
        return "cycle.with_rider" if moves else "cycle.without_rider"
    return {"pedestrian": "pedestrian.moving" if moves else "pedestrian.standing"}.get(kind, "")


def make_things(rng: np.random.Generator, drive: Drive, count: int, samples: int, period: float) -> list[Thing]:
    """Returns `count` objects next to the car's route. Half of the movable ones move, vehicles nearly along the route. period: seconds between samples."""
    names = list(CATEGORIES)
    often = np.array([CATEGORIES[n][5] for n in names], dtype=float)
    things = []
    for name in rng.choice(names, count, p=often / often.sum()):
        w, l, h, speed, kind, _ = CATEGORIES[name]
        size = np.round(np.array([w, l, h]) * rng.normal(1, 0.08, 3).clip(0.7, 1.3), 3)
        first = 0 if rng.random() < 0.6 else int(rng.integers(samples))
        last = samples if rng.random() < 0.6 else int(rng.integers(first + 1, samples + 1))
        # At a random time between its first and last sample, the object is at a random position near the car, but not inside it.
        t = rng.uniform(first, last) * period
        side = rng.choice([-1, 1]) * (4.0 + w / 2 + rng.exponential(9.0))
        here = drive.pose(t)
        at = here.out(np.array([rng.uniform(-50, 50), side, 0.0]))
        moves = speed > 0 and bool(rng.random() < 0.5)
        pace = speed * rng.uniform(0.5, 1.3) if moves else 0.0
        turn = rng.normal(0, 0.03) if moves else 0.0
        angle = drive.yaw + drive.turn * t + (np.pi if side > 0 else 0) + rng.normal(0, 0.1 if kind == "vehicle" else 1.5)
        thing = Thing(str(name), size, np.zeros(3), angle - turn * t, pace, turn, first, last, _attribute(kind, moves, rng))
        at[2] = h / 2 + rng.normal(0, 0.05)
        thing.start = at - thing.pose(t).translation
        things.append(thing)
    return things
