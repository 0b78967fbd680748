# SPDX-License-Identifier: Apache-2.0
"""stoker.structured.NuScenes reads samples by number and in pipelines, from tables and from info files; also `stoker inspect nuscenes`."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from nuscenes_reference import CAMERAS, CLASSES, Reference
from support import SEED, make_nuscenes

structured = pytest.importorskip("stoker.structured")
from stoker.structured import NuScenes  # noqa: E402
from stoker.structured._nuscenes_infos import CONVERTER_CLASSES, MISSING  # noqa: E402
from stoker.structured.inputs import (  # noqa: E402
    SamplerInputCallable,
    SamplerInputIterable,
    SequenceSampler,
    ShuffledShardedInputCallable,
)
from stoker.structured.nuscenes import FIELDS  # noqa: E402
from stoker.structured.pipeline import DALIStructuredOutputIterator, PipelineDefinition  # noqa: E402

ALL = [*FIELDS, "visibility2d", "gt_bboxes_3d", "visibility", "instances", "scene", "frame", "sample_token", "points"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nuscenes")
    return make_nuscenes(folder, scenes=4, samples=3, seed=SEED + 1, size=(160, 90), objects=12, points=400)


def flat(sample):
    return dict(zip(sample.field_names_flat, sample.get_data(), strict=True))


def close(value, right):
    value, right = np.asarray(value), np.asarray(right)
    return value.shape == right.shape and np.allclose(value, right, rtol=3e-7, atol=3e-4)


def test_tree_and_samples(root):
    data, reference = NuScenes(root, "v1.0-mini", fields=ALL), Reference(root)
    assert data.sequence_lengths == [3] * 4 and data.get_number_of_samples() == 12 and data.scene_of(4) == "scene-0103"
    tree = data.sample_data_structure
    assert tree.path_exists(("cameras", 5, "boxes_2d", "depths2d")) and tree.path_exists(("boxes_3d", "translations"))
    for i in (0, 7, 11):
        found, wanted = flat(data.get_data(i)), reference[i]
        assert found.keys() == set(tree.field_names_flat)
        for name, value in found.items():
            field = name.rsplit(".", 1)[-1]
            right = wanted.get(field)
            if field in ("instances", "orientations", "gt_bboxes_3d"):
                continue
            if name.startswith("cameras"):
                right = right[int(name.split("[")[1].split("]")[0])]
            assert close(value, right), name
    with pytest.raises(IndexError, match="sample 12: there are the samples 0 to 11"):
        data.get_data(12)
    with pytest.raises(ValueError, match="there is no field 'boxes' of NuScenes; there are image"):
        NuScenes(root, "v1.0-mini", fields=["boxes"])
    with pytest.raises(Exception, match="cannot find this table of NuScenes"):
        NuScenes(root, "v2")
    again = pickle.loads(pickle.dumps(data))
    assert close(again.get_data(3)["ego_pose"], reference[3]["ego_pose"])


def test_names_may_come_from_a_generator(root):
    def given(*names):
        return (name for name in names)

    data = NuScenes(
        root, "v1.0-mini", fields=given("timestamp", "image"), cameras=given("CAM_BACK"), classes=given("car"), scenes=given("scene-0103")
    )
    assert data.fields == ("image", "timestamp") and data.sequence_lengths == [3]
    sample = flat(data.get_data(0))
    right = NuScenes(root, "v1.0-mini", fields=["image", "timestamp"], cameras="CAM_BACK", scenes="scene-0103").get_data(0)
    assert len(sample) == 2 and all(np.array_equal(value, flat(right)[name]) for name, value in sample.items())
    for wrong, said in ((-1, "split_scenes is at least 0"), (1.5, "split_scenes is a whole number")):
        with pytest.raises(ValueError, match=said):
            NuScenes(root, "v1.0-mini", split_scenes=wrong)


ORDERS = {
    "sequences": lambda data: SamplerInputIterable(data, SequenceSampler(2, data.sequence_lengths, 3)),
    "sequences in order": lambda data: SamplerInputIterable(data, SequenceSampler(4, data.sequence_lengths, 3, randomize=False), 1, 2),
    "written down": lambda data: SamplerInputCallable(data, SequenceSampler(4, data.sequence_lengths, 5), 9, 2, 1, 2),
    "shards": lambda data: ShuffledShardedInputCallable(data, 2, 1, 2),
}


@pytest.mark.parametrize("order", ORDERS)
def test_the_operator_gives_what_get_data_gives(root, order):
    """The operator gives the same samples in the same order without a call into Python."""
    fields = ["image", "lidar2img", "bboxes2d", "translations", "timestamp", "prev_exists", "frame", "sample_token"]
    data = NuScenes(root, "v1.0-mini", fields=fields, split_scenes=2)

    class Slow(NuScenes):
        def get_data_nodes(self, order):
            return None

    found = []
    for provider in (data, Slow(root, "v1.0-mini", fields=fields, split_scenes=2)):
        definition = PipelineDefinition(ORDERS[order](provider), use_parallel_external_source=False)
        pipe = definition.get_pipeline(batch_size=2, num_threads=2)
        batches = []
        for _ in range(3):
            batch = pipe.run()
            batches += [[np.asarray(o[i]) for o in batch] for i in range(2)]
        found.append(batches)
        assert (pipe.counters()["user_calls"] == 0) == (provider is data)
    names = data.sample_data_structure.field_names_flat
    assert len(found[0]) == len(found[1]) == 6
    for ours, slow in zip(*found, strict=True):
        for name, a, b in zip(names, ours, slow, strict=False):
            assert a.dtype == b.dtype and np.array_equal(a, b), name


class Numbered(NuScenes):
    def get_data(self, sample_index):
        sample = super().get_data(sample_index)
        sample["timestamp"] = np.float64(sample_index)
        return sample


class Backwards(SequenceSampler):
    def get_next_batch_indices(self):
        return super().get_next_batch_indices()[::-1]


class EverySecond(SamplerInputIterable):
    def __next__(self):
        super().__next__()
        return super().__next__()


class Always(ShuffledShardedInputCallable):
    def __call__(self, sample_info):
        return self.data_provider.get_data(5).get_data()


class Renamed(SequenceSampler):
    def __init__(self, lengths):
        super().__init__(2, lengths, 0, randomize=False)


OVERRIDES = {
    "a provider": (lambda data: SamplerInputIterable(data, Renamed(data.sequence_lengths)), Numbered, [0, 3, 1, 4]),
    "a sampler": (lambda data: SamplerInputIterable(data, Backwards(2, data.sequence_lengths, 0, randomize=False)), NuScenes, [3, 0, 4, 1]),
    "an iterable": (lambda data: EverySecond(data, Renamed(data.sequence_lengths)), NuScenes, [1, 4, 6, 9]),
    "a callable": (lambda data: Always(data, 2), NuScenes, [5, 5, 5, 5]),
    "only __init__": (lambda data: SamplerInputIterable(data, Renamed(data.sequence_lengths)), NuScenes, [0, 3, 1, 4]),
}


@pytest.mark.parametrize("overridden", OVERRIDES)
def test_methods_of_derived_classes_are_called(root, overridden):
    """The operator does not take the place of a method that a derived class overrides."""
    make, kind, wanted = OVERRIDES[overridden]
    data = kind(root, "v1.0-mini", fields=["timestamp"])
    pipe = PipelineDefinition(make(data), use_parallel_external_source=False).get_pipeline(batch_size=2, num_threads=1)
    found = [float(np.asarray(batch[0][i])) for batch in (pipe.run(), pipe.run()) for i in range(2)]
    plain = NuScenes(root, "v1.0-mini", fields=["timestamp"])
    assert found == (wanted if kind is Numbered else [plain.get_data(i)["timestamp"] for i in wanted])
    assert (pipe.counters()["user_calls"] == 0) == (overridden == "only __init__")


def test_shuffled_epochs(root):
    data = NuScenes(root, "v1.0-mini", fields=["scene", "frame"])
    seen = []
    for shard in range(2):
        order = ShuffledShardedInputCallable(data, 3, shard, 2, shuffle=True, seed=8)
        pipe = PipelineDefinition(order).get_pipeline(batch_size=3, num_threads=2)
        for _ in range(2):
            batch = pipe.run()
            seen += [(int(np.asarray(batch[0][i])), int(np.asarray(batch[1][i]))) for i in range(3)]
    assert sorted(seen) == [(scene, frame) for scene in range(4) for frame in range(3)] and seen != sorted(seen)


# ---- info files ----


def write_infos(root, path, protocol=4):
    """Writes an info file like those of StreamPETR's converter, from the values of Reference, with the samples in reverse order."""
    reference = Reference(root)
    entries = []
    for i, sample in enumerate(reference.samples):
        wanted = reference[i]
        lidar, calibrated = reference.key[sample["token"], "LIDAR_TOP"]
        pose = reference.by["ego_pose"][lidar["ego_pose_token"]]
        cams = {}
        for k, channel in enumerate(CAMERAS):
            frame, _ = reference.key[sample["token"], channel]
            inverse = np.linalg.inv(wanted["extrinsics"][k])
            cams[channel] = {
                "data_path": f"./data/nuscenes/{frame['filename']}",
                "timestamp": frame["timestamp"],
                "sensor2lidar_rotation": inverse[:3, :3],
                "sensor2lidar_translation": inverse[:3, 3],
                "cam_intrinsic": wanted["intrinsics"][k][:3, :3],
            }
        renumbered = [np.array([CONVERTER_CLASSES.index(CLASSES[n]) for n in row], np.int64) for row in wanted["labels2d"]]
        entries.append(
            {
                "token": sample["token"],
                "timestamp": sample["timestamp"],
                "scene_token": sample["scene_token"],
                "frame_idx": wanted["frame"],
                "sweeps": [] if i in reference.starts else [{}],
                "lidar_path": f"./data/nuscenes/{lidar['filename']}",
                "lidar2ego_translation": calibrated["translation"],
                "lidar2ego_rotation": calibrated["rotation"],
                "ego2global_translation": pose["translation"],
                "ego2global_rotation": pose["rotation"],
                "cams": cams,
                "gt_boxes": wanted["gt_bboxes_3d"][:, :7],
                "gt_velocity": np.where(wanted["gt_bboxes_3d"][:, 7:] == 0, np.nan, wanted["gt_bboxes_3d"][:, 7:]),
                "gt_names": np.array([CLASSES[n] if n >= 0 else "animal" for n in wanted["gt_labels_3d"]]),
                "num_lidar_pts": wanted["num_lidar_points"],
                "num_radar_pts": wanted["num_radar_points"],
                "bboxes2d": [b.astype(np.float32) for b in wanted["bboxes2d"]],
                "labels2d": renumbered,
                "centers2d": [b.astype(np.float32) for b in wanted["centers2d"]],
                "depths": [np.array(b, np.float32) for b in wanted["depths2d"]],
                "visibilities": [[str(n) for n in row] for row in wanted["visibility2d"]],
                "extra": np.float64(1.5),
            }
        )
    path.write_bytes(pickle.dumps({"infos": entries[::-1], "metadata": {"version": "v1.0-mini"}}, protocol))


@pytest.mark.parametrize("protocol", [2, 4])
def test_info_files(root, tmp_path, protocol):
    write_infos(root, tmp_path / "infos.pkl", protocol)
    fields = [name for name in ALL if name not in MISSING]
    assert set(NuScenes(root, infos=tmp_path / "infos.pkl").fields) == set(FIELDS) - set(MISSING)
    tables, infos = NuScenes(root, "v1.0-mini", fields=fields), NuScenes(root, fields=fields, infos=tmp_path / "infos.pkl")
    assert infos.sequence_lengths == tables.sequence_lengths
    assert infos.sample_data_structure.type_matches(tables.sample_data_structure)
    for i in range(tables.get_number_of_samples()):
        right = flat(tables.get_data(i))
        for name, value in flat(infos.get_data(i)).items():
            assert close(value, right[name]), name
    with pytest.raises(ValueError, match="info files do not have instances"):
        NuScenes(root, fields=["instances"], infos=tmp_path / "infos.pkl")


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/owned",)


@pytest.mark.parametrize("bad", [Evil(), np.array([Evil()], object), {"infos": [Path("x")]}, {"infos": []}, [1]])
def test_info_files_make_nothing_else(root, tmp_path, bad):
    (tmp_path / "bad.pkl").write_bytes(pickle.dumps(bad if isinstance(bad, (dict, list)) else {"infos": [bad]}))
    with pytest.raises(ValueError, match=r"bad.pkl: (this is no info file|an info file)"):
        NuScenes(root, infos=tmp_path / "bad.pkl")
    (tmp_path / "bad.pkl").write_bytes(b"\x80\x04nonsense")
    with pytest.raises(ValueError, match=r"bad.pkl: this is no info file"):
        NuScenes(root, infos=tmp_path / "bad.pkl")


def test_inspect_counts_samples_and_objects(root, tmp_path):
    shutil.copytree(root, tmp_path / "set")
    command = str(Path(os.environ.get("STOKER_BUILD", "build")) / "cli/stoker")

    def run(*arguments):
        return subprocess.run([command, "inspect", "nuscenes", *arguments], capture_output=True, text=True)

    reference = Reference(root)
    right = [n for i in range(12) for n in reference[i]["gt_labels_3d"]]
    done = run(tmp_path / "set", "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == 0 and facts["missing_files"] == 0
    assert [facts[k] for k in ("version", "scenes", "samples", "objects")] == ["v1.0-mini", 4, 12, len(right)]
    assert facts["by_class"] == {name: right.count(k) for k, name in enumerate(CLASSES)} | {"other": right.count(-1)}
    shutil.copytree(tmp_path / "set" / "v1.0-mini", tmp_path / "set" / "v1.0-copy")
    several = json.loads(run(tmp_path / "set", "--json").stdout)["versions"]
    assert [v["version"] for v in several] == ["v1.0-copy", "v1.0-mini"] and several[1] == facts
    shutil.rmtree(tmp_path / "set" / "v1.0-copy")
    row, _ = reference.key[reference.samples[2]["token"], "CAM_BACK_LEFT"]
    (tmp_path / "set" / row["filename"]).unlink()
    done = run(tmp_path / "set")
    assert done.returncode == 1
    assert (
        f"scene-0061, sample {reference.samples[2]['token']}, CAM_BACK_LEFT: {tmp_path / 'set' / row['filename']} is not there"
        in done.stdout
    )
    assert "CAM_BACK_LEFT: 12 files, 1 of which is not there" in done.stdout and "4 scenes, 12 samples" in done.stdout
    done = run(tmp_path)
    assert done.returncode == 1 and "holds no folder with NuScenes' tables" in done.stderr


def test_an_epoch_of_sequences_has_the_batches_that_were_asked_for(root):
    """Scenes follow each other endlessly, so the iterator takes the number of steps of an epoch. A resumed run has the same epochs."""
    data = NuScenes(root, "v1.0-mini", fields="frame")

    def epochs(steps, state=None):
        definition = PipelineDefinition(SamplerInputIterable(data, SequenceSampler(2, data.sequence_lengths, 1)), [])
        pipe = definition.get_dali_pipeline(batch_size=2, num_threads=1, checkpoint=state)
        return DALIStructuredOutputIterator(steps, pipe, definition.check_and_get_output_data_structure()), pipe

    train, pipe = epochs(4)
    found = [[step["frame"].tolist() for step in train] for _ in range(3)]
    assert [len(epoch) for epoch in found] == [4, 4, 4] and found[0] != found[1]
    state = None
    for _, step in zip(range(3), train, strict=False):
        found.append(step["frame"].tolist())
        state = pipe.checkpoint()
    again, _ = epochs(4, state)
    assert [len(list(again)) for _ in range(2)] == [1, 4]
