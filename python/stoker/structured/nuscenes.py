# SPDX-License-Identifier: Apache-2.0
"""A data provider for NuScenes, which reads the data set's own tables or the info files of StreamPETR's converter."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from stoker import _core, _files, _numbers, fn, types
from stoker._signatures import suggests
from stoker.structured._nuscenes_infos import MISSING, Infos
from stoker.structured._nuscenes_videos import Videos
from stoker.structured.inputs.data_provider import DataProvider
from stoker.structured.inputs.sampler_input_callable import SamplerInputCallable
from stoker.structured.inputs.sampler_input_iterable import SamplerInputIterable
from stoker.structured.inputs.sequence_sampler import SequenceSampler
from stoker.structured.inputs.shuffled_sharded_input_callable import ShuffledShardedInputCallable
from stoker.structured.pipeline.sample_data_group import SampleDataGroup

if TYPE_CHECKING:
    from stoker.data_node import DataNode

CAMERAS = ("CAM_FRONT", "CAM_FRONT_RIGHT", "CAM_FRONT_LEFT", "CAM_BACK", "CAM_BACK_LEFT", "CAM_BACK_RIGHT")
CLASSES = ("car", "truck", "construction_vehicle", "bus", "trailer", "barrier", "motorcycle", "bicycle", "pedestrian", "traffic_cone")

# The types of the fields of readers.nuscenes, in a dict for each group of a sample's tree: a camera, its "boxes_2d", "boxes_3d", and the sample itself.
_CAMERA = {
    "image": types.UINT8,
    "img_timestamp": types.FLOAT64,
    "intrinsics": types.FLOAT,
    "extrinsics": types.FLOAT,
    "lidar2img": types.FLOAT,
}
_BOXES_2D = {
    "bboxes2d": types.FLOAT,
    "centers2d": types.FLOAT,
    "depths2d": types.FLOAT,
    "labels2d": types.INT32,
    "num_lidar_points2d": types.INT32,
    "num_radar_points2d": types.INT32,
    "visibility2d": types.INT32,
}
_BOXES_3D = {
    "gt_bboxes_3d": types.FLOAT,
    "translations": types.FLOAT,
    "sizes": types.FLOAT,
    "orientations": types.FLOAT,
    "velocities": types.FLOAT,
    "gt_labels_3d": types.INT32,
    "num_lidar_points": types.INT32,
    "num_radar_points": types.INT32,
    "visibility": types.INT32,
    "instances": types.INT32,
}
_SAMPLE = {
    "ego_pose": types.FLOAT,
    "ego_pose_inv": types.FLOAT,
    "timestamp": types.FLOAT64,
    "prev_exists": types.FLOAT,
    "scene": types.INT32,
    "frame": types.INT32,
    "sample_token": types.STRING,
    "points": types.FLOAT,
}
# The fields that StreamPETR trains on.
FIELDS = (
    *_CAMERA,
    *(name for name in _BOXES_2D if name != "visibility2d"),
    *(name for name in _BOXES_3D if name not in ("gt_bboxes_3d", "visibility", "instances")),
    *("ego_pose", "ego_pose_inv", "timestamp", "prev_exists"),
)
# The reader gets the order of a shuffling SequenceSampler as a list of whole cycles, which it repeats. The list has at most this many entries,
# unless two cycles have more.
_MOST_DRAWN = 1 << 16

Leaf = tuple[tuple[str | int, ...], str, int, Any]  # path in the tree, name of the field, index of the camera (or -1), type


@suggests
class NuScenes(DataProvider):
    """Reads samples of NuScenes: encoded images of the cameras, matrices, poses and boxes.

        data = NuScenes("/data/nuscenes", "v1.0-trainval", exclude_scenes=validation)
        order = SamplerInputIterable(data, SequenceSampler(16, data.sequence_lengths, seed=1), rank, ranks)
        definition = PipelineDefinition(order, steps)

    A sample is a tree. "cameras" is an array with a group for each camera, which holds the camera's fields and its group "boxes_2d". Next to "cameras" are the
    group "boxes_3d" and the fields of the sample itself. doc/operators.md describes the fields under `readers.nuscenes`.

    In a pipeline, that operator reads the samples in C, and no Python runs for a sample, if the input is one of these:
    - SamplerInputIterable with a SequenceSampler whose sequences are those of `sequence_lengths`. The order is the sampler's; a shuffled order repeats after at
      most 512 cycles, after fewer if there are more than 128 sequences.
    - SamplerInputCallable whose batches are all of one epoch.
    - ShuffledShardedInputCallable. If it shuffles, the reader shuffles with the same seed, but in another order.
    For other inputs, get_data is called for each sample. It is also called if a derived class of NuScenes, of the input or of the sampler overrides a
    method or property other than __init__ and get_data_nodes. A SequenceSampler has no end then: leave the loop after as many batches as you want.

    root, version: the tables are the files root/version/*.json. cameras, classes: names of the cameras and classes to read, in this order; a label is an index
    into classes. scenes: names of the scenes to read; exclude_scenes: names of scenes to leave out. These and `fields` are lists of names or one name.
    split_scenes: each scene is cut into this many sequences. fields: names of the fields to read; by default those that StreamPETR trains on (FIELDS), without
    those that info files lack if `infos` is given. index: a file that keeps the parsed tables; see `readers.nuscenes`.
    infos: one or several .pkl files of StreamPETR's converter (tools/create_data_nusc.py), which are read instead of the tables; images are still read below
    root. Only dicts, lists, numbers, texts and NumPy arrays are unpickled. Such a provider is always read by get_data.
    video_root: a folder that `stoker pack-video` has made from this data set. The field "image" is then a frame of a video
    (SampleDataGroup.add_video_frame_field), which ImageDecoder decodes; all other fields are read from the tables.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        version: str = "v1.0-trainval",
        *,
        cameras: Sequence[str] | str = CAMERAS,
        classes: Sequence[str] | str = CLASSES,
        scenes: Sequence[str] | str | None = None,
        exclude_scenes: Sequence[str] | str | None = None,
        split_scenes: int = 1,
        fields: Sequence[str] | str | None = None,
        index: str | os.PathLike[str] | None = None,
        infos: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
        video_root: str | os.PathLike[str] | None = None,
    ) -> None:
        cameras, classes = _several(cameras), _several(classes)
        scenes, exclude_scenes, fields = (None if names is None else _several(names) for names in (scenes, exclude_scenes, fields))
        if fields is None:
            fields = FIELDS if infos is None else [name for name in FIELDS if name not in MISSING]
        split_scenes = _numbers.whole("split_scenes", split_scenes, 0)
        known = {**_CAMERA, **_BOXES_2D, **_BOXES_3D, **_SAMPLE}
        if unknown := [name for name in fields if name not in known]:
            raise ValueError(f"there is no field {unknown[0]!r} of NuScenes; there are {', '.join(known)}")
        self.root, self.version = os.fspath(root), version
        self.cameras, self.classes = tuple(cameras), tuple(classes)
        self.fields = tuple(name for name in known if name in fields)
        self._arguments: dict[str, Any] = {
            "root": self.root,
            "version": version,
            "cameras": list(cameras),
            "classes": list(classes),
            "scenes": None if scenes is None else list(scenes),
            "exclude_scenes": None if exclude_scenes is None else list(exclude_scenes),
            "split_scenes": split_scenes,
            "index": None if index is None else os.fspath(index),
        }
        self._infos: Infos | None = None
        if infos is not None and video_root is not None:
            raise ValueError("video_root belongs to tables: info files do not name the scenes whose videos these are")
        if infos is not None:
            if scenes is not None or exclude_scenes is not None:
                raise ValueError(
                    "scenes and exclude_scenes are names, which info files do not have: give tables, or the info file of the scenes"
                )
            paths = [infos] if isinstance(infos, (str, os.PathLike)) else list(infos)
            self._infos = Infos([Path(p) for p in paths], Path(root), self.cameras, self.classes, split_scenes, self.fields)
        self._open: Any = None
        if self._infos is None:
            self._tables()
        self._videos = (
            None if video_root is None else Videos(os.fspath(video_root), self.cameras, self._tables(), self.get_number_of_samples())
        )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}  # the process that unpickles this provider opens the tables again

    def _tables(self) -> Any:
        if self._open is None:
            a = self._arguments

            def names(key: str) -> tuple[bytes, ...] | None:
                return None if a[key] is None else tuple(os.fsencode(name) for name in a[key])

            self._open = _core.NuScenes(
                os.fsencode(a["root"]),
                os.fsencode(a["version"]),
                a["index"],
                names("cameras"),
                names("classes"),
                names("scenes"),
                names("exclude_scenes"),
                a["split_scenes"],
            )
        return self._open

    # ---- sequences and fields ----

    @property
    def sequence_lengths(self) -> list[int]:
        """Returns the number of samples of each sequence, in the order of the samples. A sequence is a scene, or with split_scenes a part of one."""
        if self._infos is not None:
            return self._infos.sequence_lengths
        lengths: list[int] = self._tables().sequences()
        return lengths

    def get_number_of_samples(self) -> int:
        return sum(self.sequence_lengths)

    def scene_of(self, sample_index: int) -> str:
        """Returns the name of a sample's scene, or the scene's token if the samples come from info files."""
        name: str = self._infos.scene(sample_index) if self._infos is not None else self._tables().scene(sample_index)
        return name

    def _leaves(self) -> Iterator[Leaf]:
        for k in range(len(self.cameras)):
            for name, kind in _CAMERA.items():
                if name == "image" and self._videos is not None:
                    yield ("cameras", k, name, "video"), name, k, types.STRING
                    yield ("cameras", k, name, "frame"), name, k, types.INT32
                else:
                    yield ("cameras", k, name), name, k, kind
            for name, kind in _BOXES_2D.items():
                yield ("cameras", k, "boxes_2d", name), name, k, kind
        for name, kind in _BOXES_3D.items():
            yield ("boxes_3d", name), name, -1, kind
        for name, kind in _SAMPLE.items():
            yield (name,), name, -1, kind

    def _wanted_fields(self) -> list[Leaf]:
        return [leaf for leaf in self._leaves() if leaf[1] in self.fields]

    @property
    def sample_data_structure(self) -> SampleDataGroup:
        tree = SampleDataGroup()
        camera, boxes_2d, boxes_3d = SampleDataGroup(), SampleDataGroup(), SampleDataGroup()
        for group, kinds in ((camera, _CAMERA), (boxes_2d, _BOXES_2D), (boxes_3d, _BOXES_3D)):
            for name in (name for name in kinds if name in self.fields):
                if name == "image" and self._videos is not None:
                    group.add_video_frame_field(name)
                else:
                    group.add_data_field(name, kinds[name], ragged=group is not camera)
        if len(boxes_2d):
            camera.add_data_group_field("boxes_2d", boxes_2d)
        if len(camera):
            tree.add_data_group_field_array("cameras", camera, len(self.cameras))
        if len(boxes_3d):
            tree.add_data_group_field("boxes_3d", boxes_3d)
        for name in (name for name in _SAMPLE if name in self.fields):
            tree.add_data_field(name, _SAMPLE[name], ragged=name == "points")
        return tree

    # ---- one sample by its index ----

    def _value(self, sample: int, name: str, camera: int) -> Any:
        if self._infos is not None:
            return self._infos.value(sample, name, camera)
        tables = self._tables()
        if name == "image":
            return _files.read_values(tables.file(sample, camera), "u1")
        if name == "points":
            return _files.read_values(tables.file(sample, -1), "<f4", 5).reshape(-1, 5)
        data, kind, shape = tables.field(sample, max(camera, 0), name)
        if name == "sample_token":
            return data.decode()
        return np.frombuffer(data, kind).reshape(shape)

    def get_data(self, sample_index: int) -> SampleDataGroup:
        count = self.get_number_of_samples()
        if not 0 <= sample_index < count:
            raise IndexError(f"sample {sample_index}: there are the samples 0 to {count - 1}")
        sample = self.sample_data_structure
        for path, name, camera, _ in self._wanted_fields():
            if name == "image" and self._videos is not None:
                sample.set_item_in_path(path, self._videos.frame(self._tables(), sample_index, camera)[path[-1] == "frame"])
            else:
                sample.set_item_in_path(path, self._value(sample_index, name, camera))
        return sample

    # ---- samples in a pipeline ----

    def reader(self, **arguments: Any) -> dict[str, Any]:
        """Adds the operator readers.nuscenes to the graph that is being defined. Returns a dict from fields to nodes; for a field of cameras, to a list with a
        node for each camera. With a video_root, each element of "image" is a pair of nodes for fn.io.video.frame: the path of a video, and the index of a
        frame. arguments: further arguments of the operator (random_shuffle, num_shards, shard_id, streams, name, ...)."""
        if self._infos is not None:
            raise ValueError("info files are read only by get_data: readers.nuscenes takes NuScenes' tables")
        given = {key: value for key, value in self._arguments.items() if value is not None}
        videos = self._videos if "image" in self.fields else None
        fields = [name for name in self.fields if videos is None or name != "image"]
        fields += [name for name in ("scene", "frame") if videos is not None and name not in fields]
        found: Any = fn.readers.nuscenes(fields=fields, **given, **arguments)
        nodes = list(found) if isinstance(found, (list, tuple)) else [found]
        made: dict[str, Any] = {}
        for name in fields:
            count = len(self.cameras) if name in _CAMERA or name in _BOXES_2D else 1
            made[name], nodes = (nodes[:count] if name in _CAMERA or name in _BOXES_2D else nodes[0]), nodes[count:]
        if videos is not None:
            made["image"] = [(videos.paths(camera, made["scene"]), made["frame"]) for camera in range(len(self.cameras))]
        return {name: made[name] for name in self.fields}

    def get_data_nodes(self, order: Any) -> Sequence[DataNode] | None:
        derived = type(self).get_data_nodes is NuScenes.get_data_nodes and not _is_plain(self, NuScenes)
        arguments = None if self._infos is not None or derived else self._order(order)
        if arguments is None:
            return None
        nodes = self.reader(**arguments)
        given = [
            (nodes[name][camera] if camera >= 0 else nodes[name], path[-1] == "frame") for path, name, camera, _ in self._wanted_fields()
        ]
        return [node[is_frame] if isinstance(node, tuple) else node for node, is_frame in given]

    def _order(self, order: Any) -> dict[str, Any] | None:
        """Returns arguments with which readers.nuscenes reads samples in an input's order; None if the operator does not support that order."""
        shard = {"shard_id": getattr(order, "shard_id", 0), "num_shards": getattr(order, "num_shards", 1)}
        if not any(_is_plain(order, kind) for kind in (SamplerInputIterable, SamplerInputCallable, ShuffledShardedInputCallable)):
            return None
        if isinstance(order, SamplerInputIterable) and isinstance(order.sampler, SequenceSampler):
            sampler = order.sampler
            if sampler.sequence_lengths != self.sequence_lengths or sampler._slots or not _is_plain(sampler, SequenceSampler):
                return None
            drawn = {"sequence_order": _cycles(sampler)} if sampler.randomize else {}
            return {"streams": sampler.total_batch_size, **drawn, **shard}
        if isinstance(order, SamplerInputCallable):
            if len(order.batches) != 1:
                return None
            return {"indices": [i for batch in order.batches[0] for i in batch], "tail": "drop", **shard}
        if isinstance(order, ShuffledShardedInputCallable):
            if order.shuffle:
                return {"random_shuffle": True, "shuffle_seed": order.seed, "tail": "drop", **shard}
            size = order._shard_size
            return {"indices": list(range(order.shard_id * size, (order.shard_id + 1) * size)), "tail": "drop"}
        return None


def _is_plain(value: Any, kind: type) -> bool:
    """Returns whether a value is of a class, or of a derived class that overrides no method or property of it except __init__."""
    names = [name for name, member in vars(kind).items() if name != "__init__" and (callable(member) or isinstance(member, property))]
    return isinstance(value, kind) and all(getattr(type(value), name) is getattr(kind, name) for name in names)


def _several(names: Sequence[str] | str) -> Sequence[str]:
    return [names] if isinstance(names, str) else list(names)  # names may be a generator, which gives them once


def _cycles(sampler: SequenceSampler) -> list[int]:
    """Returns the sequences of a shuffling sampler's first cycles, in order: at most _MOST_DRAWN sequences, but at least 2 and at most 512 whole cycles."""
    count = len(sampler.sequence_lengths)
    rng = np.random.default_rng(seed=sampler.seed)
    return [int(i) for _ in range(max(2, min(512, _MOST_DRAWN // count))) for i in rng.permutation(count)]
