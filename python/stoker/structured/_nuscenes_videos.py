# SPDX-License-Identifier: Apache-2.0
"""Finds frames in the videos that `stoker pack-video` makes of a NuScenes data set: a video for each camera and scene, and index.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker import _files, fn, types
from stoker.data_node import constant_node

if TYPE_CHECKING:
    from stoker.data_node import DataNode


class Videos:
    """Finds the video and the frame of an image. tables: the data set's _core.NuScenes. The constructor raises ValueError unless index.json is complete,
    has all cameras, and has each sample at the frame number that the tables give."""

    def __init__(self, root: str, cameras: Sequence[str], tables: Any, samples: int) -> None:
        self.root, self.cameras = root, tuple(cameras)
        name = f"{root}/index.json"
        index = _read_index(name)
        if not index["complete"]:
            raise ValueError(f"{name}: not all videos are there yet: start stoker pack-video again, which makes the missing ones")
        if missing := [camera for camera in cameras if camera not in index["cameras"]]:
            raise ValueError(f"{name}: there are no videos of the camera {missing[0]}, but of {', '.join(index['cameras'])}")
        known = {scene["name"]: scene["samples"] for scene in index["scenes"]}
        self._scenes: dict[int, str] = {}  # number of a scene in the tables -> its name
        for i in range(samples):
            scene, frame, token = tables.scene(i), _number(tables, i, "frame"), tables.field(i, 0, "sample_token")[0].decode()
            tokens = known.get(scene)
            if tokens is None or frame >= len(tokens) or tokens[frame] != token:
                what = "is not in the index" if tokens is None else f"does not have the sample {token} as frame {frame}"
                raise ValueError(f"{name}: the videos are of another data set: {scene} {what}")
            self._scenes[_number(tables, i, "scene")] = scene

    def path(self, scene: str, camera: int) -> str:
        return f"{self.root}/{scene}/{self.cameras[camera]}.mp4"

    def frame(self, tables: Any, sample: int, camera: int) -> tuple[str, int]:
        """Returns the path of the video with a sample's image, and the image's frame number in it."""
        return self.path(tables.scene(sample), camera), _number(tables, sample, "frame")

    def paths(self, camera: int, scene: DataNode) -> DataNode:
        """Returns a node with the path of the video of one camera and scene, as uint8. scene: a node with the number of the scene. The paths are the rows of a
        constant table, so shorter paths end in zeros."""
        texts = {k: self.path(name, camera).encode() for k, name in self._scenes.items()}
        table = np.zeros((max(texts) + 1, max(map(len, texts.values()))), np.uint8)
        for k, text in texts.items():
            table[k, : len(text)] = np.frombuffer(text, np.uint8)
        rows: DataNode = constant_node(table, types.UINT8)[scene]
        return rows


def _number(tables: Any, sample: int, name: str) -> int:
    data, kind, _ = tables.field(sample, 0, name)
    return int(np.frombuffer(data, kind)[0])


def _read_index(name: str) -> dict[str, Any]:
    if "://" in name:
        text = bytes(fn.eager.io.file.read([np.frombuffer(name.encode(), np.uint8)])[0])
    else:
        try:
            text = _files.read_bytes(name)
        except FileNotFoundError:
            raise FileNotFoundError(f"{name} does not exist: make the videos by stoker pack-video") from None
    try:
        index: dict[str, Any] = json.loads(text)
        if not isinstance(index, dict):
            raise TypeError("it is not a JSON object")
        if index["format"] != 1:
            raise ValueError(f"its format is {index['format']}, and this version of Stoker reads format 1")
        for key, kind in (("complete", bool), ("cameras", list), ("scenes", list)):
            if not isinstance(index[key], kind):
                raise TypeError(f"{key} is not a {kind.__name__}")
        if not all(isinstance(camera, str) for camera in index["cameras"]):
            raise TypeError("a camera is not a text")
        for scene in index["scenes"]:
            if not isinstance(scene, dict) or not isinstance(scene.get("name"), str) or not isinstance(scene.get("samples"), list):
                raise TypeError("a scene is not an object with a name and a list of samples")
    except KeyError as e:
        raise ValueError(f"{name} is not an index of stoker pack-video: it has no {e}") from None
    except (ValueError, TypeError, RecursionError) as e:
        raise ValueError(f"{name} is not an index of stoker pack-video: {e}") from None
    return index
