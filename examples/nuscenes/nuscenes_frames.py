# SPDX-License-Identifier: Apache-2.0
"""Makes the sensor data for make_nuscenes: camera frames cut from photographs with the objects painted into them, and the lidar's points."""

from __future__ import annotations

import colorsys
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from nuscenes_world import Array, Pose, Sensor, Thing

if TYPE_CHECKING:
    from PIL.Image import Image

ENDINGS = {".jpg", ".jpeg", ".png", ".webp"}
# The six sides of a box, each as the numbers of its corners (see Thing.corners) in order around the side.
SIDES = ((0, 2, 6, 4), (1, 3, 7, 5), (0, 1, 5, 4), (2, 3, 7, 6), (0, 1, 3, 2), (4, 5, 7, 6))
NEAR = 0.1  # metres: parts of objects that are nearer to a camera are not drawn


def find_photos(folder: str | os.PathLike[str]) -> list[Path]:
    found = sorted(p for p in Path(folder).rglob("*") if p.suffix.lower() in ENDINGS)
    if not found:
        raise ValueError(f"{folder} holds no photographs ({', '.join(sorted(ENDINGS))}): images=None makes textures instead")
    return found


def _texture(rng: np.random.Generator, size: tuple[int, int]) -> Image:
    """Draws sky and ground with clouds of several scales. Decoding such a frame takes about as long as decoding a photograph."""
    from PIL import Image

    width, height = size
    total = np.zeros((height, width, 3), np.float32)
    for octave in range(2, 7):
        small = rng.standard_normal((3 << octave, 4 << octave, 3), dtype=np.float32) * 40 / octave
        for c in range(3):
            layer = Image.fromarray(np.ascontiguousarray(small[..., c])).resize(size, Image.Resampling.BILINEAR)
            total[..., c] += np.asarray(layer) * (0.6 if c else 0.8)
    rows = np.linspace(0, 1, height, dtype=np.float32)[:, None, None]
    shade = np.where(rows < 0.5, np.array([150, 170, 200], np.float32), np.array([105, 100, 95], np.float32))
    return Image.fromarray(np.clip(total + shade, 0, 255).astype(np.uint8))


def backdrop(rng: np.random.Generator, photos: list[Path], size: tuple[int, int]) -> Image:
    """Makes the background of one camera of a scene. It is wider than a frame, so that frames of consecutive samples can show different parts."""
    from PIL import Image

    wide = (size[0] * 5 // 4, size[1] * 9 // 8)
    if not photos:
        return _texture(rng, wide)
    photo = Image.open(photos[int(rng.integers(len(photos)))]).convert("RGB")
    fit = min(photo.width / wide[0], photo.height / wide[1]) * rng.uniform(0.75, 1)
    w, h = wide[0] * fit, wide[1] * fit
    x, y = rng.uniform(0, photo.width - w), rng.uniform(0, photo.height - h)
    return photo.resize(wide, Image.Resampling.BICUBIC, box=(x, y, x + w, y + h))


def _clip_near(corners: Array) -> Array:
    """Returns the corners of that part of a box's side which is at least NEAR metres in front of the camera. Corners are in the camera's coordinates."""
    kept = []
    for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        if a[2] >= NEAR:
            kept.append(a)
        if (a[2] >= NEAR) != (b[2] >= NEAR):
            kept.append(a + (b - a) * (NEAR - a[2]) / (b[2] - a[2]))
    return np.array(kept).reshape(-1, 3)


def _paint(image: Image, sensor: Sensor, ego: Pose, things: list[Thing], t: float) -> None:
    """Draws the objects up to 90 m from the camera as solid boxes, the farthest first."""
    from PIL import ImageDraw

    assert sensor.intrinsic is not None
    draw = ImageDraw.Draw(image)
    reach = 4 * max(image.size)
    sides: list[tuple[float, list[Any], tuple[int, int, int]]] = []
    for thing in things:
        corners = sensor.pose.into(ego.into(thing.corners(t)))
        if corners[:, 2].max() <= NEAR or np.linalg.norm(corners.mean(axis=0)) > 90:
            continue
        hue = zlib.crc32(thing.category.encode()) % 360 / 360
        middle = corners.mean(axis=0)
        for number, side in enumerate(SIDES):
            border = corners[list(side)]
            outward = border.mean(axis=0) - middle
            border = _clip_near(border)
            if len(border) < 3 or outward @ border.mean(axis=0) > 0:  # skips sides that face away from the camera
                continue
            flat = border @ sensor.intrinsic.T
            flat = np.clip(flat[:, :2] / flat[:, 2:], -reach, reach)
            red, green, blue = colorsys.hsv_to_rgb(hue, 0.45, 0.45 + 0.09 * number)
            colour = (int(red * 255), int(green * 255), int(blue * 255))
            sides.append((float(np.linalg.norm(middle)), [tuple(p) for p in flat.tolist()], colour))
    for _, points, colour in sorted(sides, key=lambda side: -side[0]):
        draw.polygon(points, fill=colour, outline=(20, 20, 20))


def write_frame(
    path: Path,
    behind: Image,
    rng: np.random.Generator,
    size: tuple[int, int],
    part: float,
    scene: tuple[Sensor, Pose, list[Thing], float],
    quality: int,
) -> None:
    """Writes one camera frame. part: time in the scene from 0 to 1, which determines the part of the background that the frame shows."""
    from PIL import Image

    room_x, room_y = behind.width - size[0], behind.height - size[1]
    x, y = int(part * room_x), int((0.5 + 0.3 * np.sin(7 * part)) * room_y)
    image = behind.crop((x, y, x + size[0], y + size[1]))
    _paint(image, *scene)
    grain = rng.integers(-2, 3, (size[1], size[0], 1), dtype=np.int8)
    pixels = np.clip(np.asarray(image, dtype=np.int16) + grain, 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(path, quality=quality, subsampling=2)


def inside(points: Array, thing: Thing, t: float) -> npt.NDArray[np.bool_]:
    """Returns a mask of the points that are in the object's box at time t. points: in the global frame."""
    w, l, h = thing.size
    return np.asarray((np.abs(thing.pose(t).into(points)) <= np.array([l, w, h]) / 2).all(axis=1))


def scan(
    rng: np.random.Generator, sensor: Sensor, ego: Pose, things: list[Thing], t: float, count: int
) -> tuple[npt.NDArray[np.float32], list[int]]:
    """Returns one turn of the lidar: points (n, 5) of x, y, z, intensity and ring in the lidar's coordinates, and the number of points in each object. Three
    quarters of the points are in rings on the ground, the others on objects: more on near objects than on far ones, and none on some."""
    ground = count * 3 // 4
    ring = rng.integers(0, 24, ground)
    distance = 1.84 / np.tan(np.deg2rad(1.5 + 1.2 * (23 - ring)))
    angle = rng.uniform(-np.pi, np.pi, ground)
    flat = np.stack([np.cos(angle) * distance, np.sin(angle) * distance, rng.normal(0, 0.02, ground)], axis=1)
    cloud = [ego.out(flat)]
    far = np.array([max(3.0, float(np.linalg.norm(thing.pose(t).translation - ego.translation))) for thing in things])
    share = (1 / far**2) / (1 / far**2).sum() if len(things) else far
    for thing, n in zip(things, rng.multinomial(count - ground, share) if len(things) else [], strict=True):
        at = rng.uniform(-0.5, 0.5, (n, 3))
        at[np.arange(n), rng.integers(0, 3, n)] = rng.choice([-0.5, 0.5], n)  # moves each point to a random side of its box
        w, l, h = thing.size
        cloud.append(thing.pose(t).out(at * np.array([l, w, h]) * 0.98))
    points = np.concatenate(cloud)
    counts = [int(inside(points, thing, t).sum()) for thing in things]
    local = sensor.pose.into(ego.into(points))
    rings = np.concatenate([ring, rng.integers(0, 32, len(points) - ground)])
    intensity = rng.integers(0, 100, len(points))
    return np.concatenate([local, intensity[:, None], rings[:, None]], axis=1).astype(np.float32), counts
