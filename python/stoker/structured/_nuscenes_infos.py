# SPDX-License-Identifier: Apache-2.0
"""Reads info files of StreamPETR's converter (tools/create_data_nusc.py): pickles of dicts, lists and NumPy arrays, with one entry for each sample."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stoker import _files

# The converter stores the class of a 2-D box as an index into this list.
CONVERTER_CLASSES = (
    "car",
    "truck",
    "trailer",
    "bus",
    "construction_vehicle",
    "bicycle",
    "motorcycle",
    "pedestrian",
    "traffic_cone",
    "barrier",
)
# Fields of NuScenes that info files do not contain.
MISSING = ("num_lidar_points2d", "num_radar_points2d", "visibility", "instances", "scene")


def _reconstruct(kind: type, shape: tuple[int, ...], dtype: bytes) -> Any:
    """Replaces NumPy's function of this name: returns an array whose contents the unpickler sets afterwards."""
    if kind is not np.ndarray:
        raise pickle.UnpicklingError(f"an info file holds arrays, not {kind}")
    return np.ndarray.__new__(np.ndarray, shape, np.dtype(dtype.decode() if isinstance(dtype, bytes) else dtype))


def _scalar(dtype: np.dtype[Any], data: bytes) -> Any:
    if dtype.hasobject:
        raise pickle.UnpicklingError("an info file holds numbers, not objects")
    return np.frombuffer(data, dtype)[0]


def _encode(text: str, encoding: str) -> bytes:
    """Replaces codecs.encode, with which pickles of protocol 2 store bytes."""
    return text.encode("latin1" if encoding in ("latin1", "latin-1") else "utf-8")


def _no_bytes() -> bytes:
    """Replaces bytes(), with which pickles of protocol 2 store empty bytes."""
    return b""


class _Unpickler(pickle.Unpickler):
    """Loads only pickles of NumPy arrays, NumPy numbers, bytes and plain containers. Any other class or function raises an error, so no other code runs."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = {
            ("multiarray", "_reconstruct"): _reconstruct,
            ("multiarray", "scalar"): _scalar,
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            ("collections", "OrderedDict"): OrderedDict,
            ("_codecs", "encode"): _encode,
            ("__builtin__", "bytes"): _no_bytes,
        }
        key = "multiarray" if module in ("numpy.core.multiarray", "numpy._core.multiarray") else module
        if (key, name) not in allowed:
            raise pickle.UnpicklingError(f"it holds {module}.{name}, which an info file does not need, and which is not made")
        return allowed[key, name]


def load(path: Path) -> list[dict[str, Any]]:
    """Returns the entries of an info file, one for each sample. Raises ValueError if the file is not such a pickle."""
    try:
        found = _Unpickler(io.BytesIO(_files.read_bytes(path))).load()
    except (pickle.UnpicklingError, EOFError, ValueError, TypeError, AttributeError, IndexError, KeyError, ImportError, MemoryError) as e:
        raise ValueError(f"{path}: this is no info file of StreamPETR's converter: {e}") from e
    entries = found.get("infos") if isinstance(found, dict) else None
    if not isinstance(entries, list) or not entries or not all(isinstance(e, dict) for e in entries):
        raise ValueError(f"{path}: an info file of StreamPETR's converter is a dict whose 'infos' is a list of samples")
    return entries


def _matrix(rotation: Any, translation: Any) -> Any:
    m = np.eye(4)
    m[:3, :3], m[:3, 3] = rotation, translation
    return m


def _rotation(quaternion: Sequence[float]) -> Any:
    w, x, y, z = np.asarray(quaternion, float) / np.linalg.norm(quaternion)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


class Infos:
    """The samples of info files, sorted by timestamp as in mmdetection3d. The first sample and each sample without earlier sweeps begin a sequence. Each
    sequence is then cut into at most `split` parts of equal length; the last part may be shorter."""

    def __init__(
        self, paths: list[Path], root: Path, cameras: tuple[str, ...], classes: tuple[str, ...], split: int, fields: tuple[str, ...]
    ) -> None:
        if missing := [name for name in MISSING if name in fields]:
            raise ValueError(f"info files do not have {missing[0]}: leave it out of fields, or read NuScenes' tables")
        self._root, self._cameras = root, cameras
        self._entries = sorted((e for path in paths for e in load(path)), key=lambda e: e["timestamp"])
        self._label = {name: k for k, name in enumerate(classes)}
        first = self._entries[0]
        if unknown := [c for c in cameras if c not in first["cams"]]:
            raise ValueError(f"{unknown[0]} is not a camera of {paths[0]}; there are {', '.join(first['cams'])}")
        begins = [i for i, e in enumerate(self._entries) if i == 0 or len(e["sweeps"]) == 0] + [len(self._entries)]
        self.sequence_lengths: list[int] = []
        for count in np.diff(begins).tolist():
            length = -(-count // max(1, split))
            self.sequence_lengths += [length] * (count // length) + [count % length] * (count % length > 0)
        starts = np.cumsum([0, *self.sequence_lengths])
        self._starts = {int(i) for i in starts[:-1]}

    def scene(self, i: int) -> str:
        return str(self._entries[i]["scene_token"])

    def _file(self, path: str) -> Path:
        """Returns the file below root for a path in an info file. Such a path begins with a folder of the machine that ran the converter, so only the part from
        the last folder samples or sweeps on is used. A path without these folders is used as a whole."""
        parts = Path(path).parts
        at = max((k for k, part in enumerate(parts) if part in ("samples", "sweeps")), default=0)
        return self._root.joinpath(*parts[at:])

    def _number(self, name: str) -> int:
        return self._label.get(name, -1)

    def value(self, i: int, name: str, camera: int) -> Any:
        entry = self._entries[i]
        value = self._of_camera(entry, name, camera) if camera >= 0 else self._of_sample(entry, i, name)
        return value if isinstance(value, str) else np.asarray(value)

    def _of_camera(self, entry: dict[str, Any], name: str, camera: int) -> Any:
        channel = self._cameras[camera]
        cam = entry["cams"][channel]
        if name == "image":
            return _files.read_values(self._file(cam["data_path"]), "u1")
        if name == "img_timestamp":
            return cam["timestamp"] / 1e6
        if name in ("intrinsics", "extrinsics", "lidar2img"):
            k = np.eye(4)
            k[:3, :3] = np.asarray(cam["cam_intrinsic"])[:3, :3]
            extrinsics = np.linalg.inv(_matrix(cam["sensor2lidar_rotation"], cam["sensor2lidar_translation"]))
            return {"intrinsics": k, "extrinsics": extrinsics, "lidar2img": k @ extrinsics}[name].astype(np.float32)
        at = list(entry["cams"]).index(channel)
        labels = [self._number(CONVERTER_CLASSES[int(k)]) for k in entry["labels2d"][at]]
        kept = [k for k, label in enumerate(labels) if label >= 0]
        if name == "labels2d":
            return np.array(labels, np.int32)[kept]
        if name == "visibility2d":
            return np.array([int(v or 0) for v in entry["visibilities"][at]], np.int32)[kept]
        key, columns = {"bboxes2d": ("bboxes2d", (4,)), "centers2d": ("centers2d", (2,)), "depths2d": ("depths", ())}[name]
        return np.asarray(entry[key][at], np.float32).reshape(-1, *columns)[kept]

    def _of_sample(self, entry: dict[str, Any], i: int, name: str) -> Any:
        if name in ("ego_pose", "ego_pose_inv"):
            ego = _matrix(_rotation(entry["ego2global_rotation"]), entry["ego2global_translation"])
            pose = ego @ _matrix(_rotation(entry["lidar2ego_rotation"]), entry["lidar2ego_translation"])
            return (pose if name == "ego_pose" else np.linalg.inv(pose)).astype(np.float32)
        if name == "points":
            return _files.read_values(self._file(entry["lidar_path"]), "<f4", 5).reshape(-1, 5)
        if name in ("timestamp", "frame", "sample_token", "prev_exists"):
            plain: dict[str, Any] = {
                "timestamp": entry["timestamp"] / 1e6,
                "frame": np.int32(entry["frame_idx"]),
                "sample_token": str(entry["token"]),
                "prev_exists": np.float32(i not in self._starts),
            }
            return plain[name]
        if name == "gt_labels_3d":
            return np.array([self._number(str(n)) for n in entry["gt_names"]], np.int32)
        if name in ("num_lidar_points", "num_radar_points"):
            return np.asarray(entry[name.replace("points", "pts")], np.int32)
        boxes = np.asarray(entry["gt_boxes"], np.float32).reshape(-1, 7)
        velocities = np.nan_to_num(np.asarray(entry["gt_velocity"], np.float32).reshape(-1, 2))
        both = np.concatenate([boxes, velocities, np.zeros_like(velocities[:, :1])], axis=1)
        parts: dict[str, Any] = {
            "gt_bboxes_3d": slice(0, 9),
            "translations": slice(0, 3),
            "sizes": slice(3, 6),
            "orientations": 6,
            "velocities": slice(7, 10),
        }
        return both[:, parts[name]]
