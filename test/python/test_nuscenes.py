# SPDX-License-Identifier: Apache-2.0
"""readers.nuscenes, compared with an independent reading of the same tables; its order of samples; and its errors for damaged tables."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import stoker
from nuscenes_reference import CAMERAS, CLASSES, Reference
from stoker import fn, pipeline_def
from support import SEED, make_nuscenes

structured = pytest.importorskip("stoker.structured")

OF_CAMERAS = ["image", "img_timestamp", "intrinsics", "extrinsics", "lidar2img", "bboxes2d", "labels2d", "centers2d", "depths2d"]
OF_CAMERAS += ["num_lidar_points2d", "num_radar_points2d", "visibility2d"]
OF_SAMPLES = ["ego_pose", "ego_pose_inv", "timestamp", "prev_exists", "scene", "frame", "sample_token", "gt_bboxes_3d", "gt_labels_3d"]
OF_SAMPLES += ["translations", "sizes", "orientations", "velocities", "num_lidar_points", "num_radar_points", "visibility", "points"]
SIZE = (240, 135)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nuscenes")
    return make_nuscenes(folder, scenes=5, samples=3, seed=SEED, size=SIZE, objects=14, points=600)


def copy(root, tmp_path):
    """Copies the tables, so that a test can damage them."""
    shutil.copytree(root / "v1.0-mini", tmp_path / "v1.0-mini", ignore=shutil.ignore_patterns("*.index"))
    for name in ("samples", "sweeps"):
        (tmp_path / name).symlink_to(root / name)
    return tmp_path


def pipeline(root, fields, batch_size=1, define=None, **kwargs):  # define: takes the outputs of the reader
    settings = {k: kwargs.pop(k) for k in ("on_error", "checkpoint") if k in kwargs}

    @pipeline_def(batch_size=batch_size, num_threads=2, **settings)
    def graph():
        found = fn.readers.nuscenes(root=str(root), version="v1.0-mini", fields=fields, name="reader", **kwargs)
        found = found if isinstance(found, (list, tuple)) else [found]
        return define(*found) if define else tuple(found)

    return graph()


def rows(pipe, names, batches):
    """Returns the values of the named outputs of `batches` batches, as a dict for each sample."""
    found = []
    for _ in range(batches):
        out = pipe.run()
        found += [dict(zip(names, (np.asarray(o[i]) for o in out), strict=True)) for i in range(len(out[0]))]
    return found


def test_fields_as_the_reference_has_them(root):
    reference = Reference(root)
    names = [(name, k) for name in OF_CAMERAS for k in range(6)] + [(name, None) for name in OF_SAMPLES]
    seen = 0
    for i, found in enumerate(rows(pipeline(root, OF_CAMERAS + OF_SAMPLES, index=""), names, len(reference.samples))):
        wanted = reference[i]
        for (name, k), value in found.items():
            right = np.asarray(wanted[name] if k is None else wanted[name][k])
            assert value.shape == right.shape, (i, name, k)
            if value.dtype.kind in "iu":
                assert (value == right).all(), (i, name, k)
            elif name == "orientations":
                assert np.abs(np.angle(np.exp(1j * (value - right)))).max(initial=0) < 1e-5
            elif name == "gt_bboxes_3d":
                assert np.allclose(np.delete(value, 6, 1), np.delete(right, 6, 1), atol=1e-4), i
            else:
                assert np.allclose(value, right, rtol=3e-7, atol=2e-4), (i, name, k, np.abs(value - right).max())
        seen += sum(len(found["bboxes2d", k]) for k in range(6))
    assert seen > 50  # more than 50 boxes have been compared


def test_cameras_classes_and_scenes(root):
    reference = Reference(root)
    cameras = ["CAM_BACK", "CAM_FRONT"]
    fields = ["labels2d", "gt_labels_3d", "scene", "prev_exists"]
    pipe = pipeline(
        root, fields, cameras=cameras, classes=["pedestrian", "car"], exclude_scenes=["scene-0103", "scene-0655"], split_scenes=2
    )
    scenes = [0, 2, 4]
    renamed = {CLASSES.index("pedestrian"): 0, CLASSES.index("car"): 1}
    for i, (back, front, labels, scene, prev) in enumerate(r.values() for r in rows(pipe, range(5), 9)):
        sample = reference[scenes[i // 3] * 3 + i % 3]
        assert scene == scenes[i // 3] and prev == (i % 3 == 1)  # two sequences divide a scene's 3 samples into 2 and 1
        assert labels.tolist() == [renamed.get(int(x), -1) for x in sample["gt_labels_3d"]]
        for channel, found in zip(cameras, (back, front), strict=True):
            right = sample["labels2d"][CAMERAS.index(channel)]
            assert found.tolist() == [renamed[int(x)] for x in right if int(x) in renamed]


def slots(root, batch_size, ranks, batches, **kwargs):
    """Returns a list of (scene, frame, prev_exists) for each slot of the global batch."""
    found = [[] for _ in range(batch_size * ranks)]
    for rank in range(ranks):
        pipe = pipeline(
            root, ["scene", "frame", "prev_exists"], batch_size, streams=batch_size * ranks, num_shards=ranks, shard_id=rank, **kwargs
        )
        for k, row in enumerate(rows(pipe, "sfp", batches)):
            found[rank * batch_size + k % batch_size].append(tuple(int(v) for v in row.values()))
    return found


@pytest.mark.parametrize("shuffle", [False, True])
def test_streams_follow_scenes_on_all_ranks(root, shuffle):
    found = slots(root, 4, 1, 24, random_shuffle=shuffle, shuffle_seed=5)
    assert (
        slots(root, 2, 2, 24, random_shuffle=shuffle, shuffle_seed=5)
        == found
        == slots(root, 1, 4, 24, random_shuffle=shuffle, shuffle_seed=5)
    )
    for slot in found:
        for k, (scene, frame, prev) in enumerate(slot):
            assert frame == k % 3 and prev == (frame > 0)
            assert frame == 0 or scene == slot[k - 1][0]
    firsts = [[s for s, frame, _ in slot if frame == 0] for slot in found]
    if not shuffle:  # five scenes in four slots: scene 4 follows scene 0 in slot 0
        assert [f[:4] for f in firsts] == [[0, 4, 0, 4], [1, 1, 1, 1], [2, 2, 2, 2], [3, 3, 3, 3]]
    else:
        assert len({tuple(f) for f in firsts}) == 4 and all(len(set(f)) > 1 for f in firsts)


def test_streams_resume(root):
    names = ["scene", "frame", "sample_token"]
    whole = pipeline(root, names, 3, streams=3, random_shuffle=True)
    right = [[v.tolist() for v in r.values()] for r in rows(whole, names, 14)]
    for stop in (1, 5, 9):
        pipe = pipeline(root, names, 3, streams=3, random_shuffle=True)
        rows(pipe, names, stop)
        other = pipeline(root, names, 3, streams=3, random_shuffle=True, checkpoint=pipe.checkpoint())
        assert [[v.tolist() for v in r.values()] for r in rows(other, names, 14 - stop)] == right[3 * stop :]


def decode(*values):
    return tuple(fn.decoders.image(v, output_type=stoker.types.RGB) for v in values[:6]) + values[6:]


@pytest.mark.parametrize("bad", [b"no image", None])
def test_damaged_or_missing_image(root, tmp_path, bad):
    shutil.copytree(root, tmp_path / "set")
    reference = Reference(root)
    row, _ = reference.key[reference.samples[1]["token"], "CAM_BACK"]
    file = tmp_path / "set" / row["filename"]
    file.unlink()
    if bad is not None:
        file.write_bytes(bad)
    token = reference.samples[1]["token"]
    where = f"scene-0061, sample {token}, CAM_BACK (samples/CAM_BACK/"
    pipe = pipeline(tmp_path / "set", ["image", "frame"], 2, decode)
    with pytest.raises((stoker.errors.CorruptError, stoker.errors.NotFoundError)) as raised:
        pipe.run()
    assert where in str(raised.value) and ("no image" in str(raised.value)) == (bad is not None)
    pipe = pipeline(tmp_path / "set", ["image", "frame"], 2, decode, on_error="skip")
    assert [len(o) for o in pipe.run()] == [1] * 7  # on_error="skip" leaves out the whole sample
    names = [*range(6), "frame", "prev_exists", "sample_token"]
    pipe = pipeline(tmp_path / "set", ["image", *names[6:]], 3, decode, on_error="replace", streams=3)
    found = rows(pipe, names, 2)
    assert [int(r["prev_exists"]) for r in found] == [0, 0, 0, 0, 1, 1]  # another sample replaces sample 1 in its sequence
    assert bytes(found[3]["sample_token"]).decode() != token


def edit(root, table, change):
    path = root / "v1.0-mini" / f"{table}.json"
    data = json.loads(path.read_text())
    changed = change(data)
    path.write_text(changed if isinstance(changed, str) else json.dumps(data))


def unknown(table, row, key, value="f" * 32):
    return table, lambda rows: rows[row].__setitem__(key, value)


DAMAGE = {
    "sample.json has no row ffff": unknown("sample_data", 2, "sample_token"),
    "calibrated_sensor.json has no row ffff": unknown("sample_data", 2, "calibrated_sensor_token"),
    "CAM_FRONT: ego_pose.json has no row ffff": unknown("sample_data", 2, "ego_pose_token"),
    "sensor.json has no row ffff": unknown("calibrated_sensor", 0, "sensor_token"),
    "sample.json has no such row": unknown("sample", 1, "next"),
    "the chain of next comes to it twice": ("sample", lambda rows: rows[1].update(next=rows[0]["token"])),
    "its prev is not the sample before": ("sample", lambda rows: rows[2].update(prev=rows[0]["token"])),
    "last_sample_token names another": ("scene", lambda rows: rows[0].update(last_sample_token=rows[0]["first_sample_token"])),
    "its row names another scene|does not come to it": ("sample", lambda rows: rows[1].update(scene_token=rows[-1]["scene_token"])),
    "it is not later than the sample before it": ("sample", lambda rows: rows[1].update(timestamp=5)),
    "before as many samples as nbr_samples says": ("scene", lambda rows: rows[0].update(nbr_samples=4)),
    "its next leads on": ("scene", lambda rows: rows[0].update(nbr_samples=2)),
    "category.json has no row ffff": unknown("instance", 3, "category_token"),
    "instance.json has no row ffff": unknown("sample_annotation", 3, "instance_token"),
    "visibility.json has no row 9": unknown("sample_annotation", 3, "visibility_token", "9"),
    "level is not one of": unknown("visibility", 1, "level", "v1"),
    "another prev; it is|is not later|no row ffff": ("sample_annotation", lambda rows: rows[0].update(next=rows[0]["token"])),
    "another row has this token": ("sample_annotation", lambda rows: rows[1].update(token=rows[0]["token"])),
    "its size is not positive": ("sample_annotation", lambda rows: rows[1].update(size=[1, -1, 1])),
    "quaternion of length 0": ("ego_pose", lambda rows: rows[0].update(rotation=[0, 0, 0, 0])),
    "a list of too few numbers": ("ego_pose", lambda rows: rows[0].update(rotation=[1, 0, 0])),
    "a list of too many numbers": ("calibrated_sensor", lambda rows: rows[0].update(translation=[1, 0, 0, 0])),
    "has no camera_intrinsic": ("calibrated_sensor", lambda rows: rows[0].update(camera_intrinsic=[])),
    "it has no timestamp": ("sample_data", lambda rows: rows[0].pop("timestamp") and None),
    "a whole number is expected": ("sample", lambda rows: rows[0].update(timestamp=0.5)),
    "a string is expected": ("sample", lambda rows: rows[0].update(token=7)),
    "true or false is expected": ("sample_data", lambda rows: rows[0].update(is_key_frame="yes")),
    "a list is expected": ("scene", lambda rows: "{}"),
    "a string that is too long": ("scene", lambda rows: rows[0].update(name="x" * 3000)),
    "it is longer than": ("scene", lambda rows: rows[0].update(note="x" * 7_000_000)),
    "a comma or the end of an? (list|object) is expected|without end|is expected": ("ego_pose", lambda rows: json.dumps(rows)[:-100]),
    "something follows the table": ("log2", None),
    "CAM_BACK: sample_data.json has no key frame": (
        "sample_data",
        lambda rows: [r.update(is_key_frame=False) for r in rows if "/CAM_BACK/" in r["filename"]][:0],
    ),
    "another key frame of this sensor": ("sample_data", lambda rows: rows.append(dict(rows[0], token="e" * 32))),
    "not a path below the root": unknown("sample_data", 0, "filename", "/etc/passwd"),
    "filename is not a path below the root": unknown("sample_data", 0, "filename", "samples/../../secret.jpg"),
}


@pytest.mark.parametrize("message", DAMAGE)
def test_damaged_tables(root, tmp_path, message):
    table, change = DAMAGE[message]
    copy(root, tmp_path)
    if change is None:
        path = tmp_path / "v1.0-mini/scene.json"
        path.write_text(path.read_text() + "[]")
    else:
        edit(tmp_path, table, change)
    with pytest.raises(stoker.errors.StokerError, match=message) as raised:
        pipeline(tmp_path, ["scene"], index="").build()
    assert "v1.0-mini" in str(raised.value)


def test_mutations_are_refused_or_read(root, tmp_path):
    """Bytes of one table are changed, removed, doubled or cut off. The reader reads the data set, or raises an error that names the folder or a camera."""
    rng = np.random.default_rng(SEED)
    copy(root, tmp_path)
    tables = sorted((tmp_path / "v1.0-mini").glob("*.json"))
    refused = 0
    for k in range(80):
        path = tables[k % len(tables)]
        good = path.read_bytes()
        bad = bytearray(good)
        at = int(rng.integers(len(bad)))
        kind = rng.integers(4)
        if kind == 0:
            bad[at] = int(rng.integers(256))
        elif kind == 1:
            bad[at : at + int(rng.integers(1, 50))] = b""
        elif kind == 2:
            bad[at:at] = bad[at : at + int(rng.integers(1, 50))]
        else:
            bad[at:] = b""
        path.write_bytes(bad)
        try:
            rows(pipeline(tmp_path, OF_CAMERAS[1:] + OF_SAMPLES[:-1], 8, index=""), [*range(11 * 6 + 16)], 2)
        except stoker.errors.StokerError as e:
            refused += 1
            assert "v1.0-mini" in str(e) or "CAM_" in str(e)
        path.write_bytes(good)
    assert refused > 25


def test_a_byte_order_mark_before_tables(root, tmp_path):
    """Tables that begin with a byte order mark, which some editors write, give the same values."""
    want = [[v.tolist() for v in r.values()] for r in rows(pipeline(root, OF_SAMPLES[:4], 5), OF_SAMPLES[:4], 3)]
    copy(root, tmp_path)
    for table in (tmp_path / "v1.0-mini").glob("*.json"):
        table.write_bytes(b"\xef\xbb\xbf" + table.read_bytes())
    assert [[v.tolist() for v in r.values()] for r in rows(pipeline(tmp_path, OF_SAMPLES[:4], 5), OF_SAMPLES[:4], 3)] == want


def test_index_follows_the_tables(root, tmp_path):
    copy(root, tmp_path)
    names = ["sample_token", "gt_bboxes_3d"]
    index = tmp_path / "v1.0-mini/stoker.index"

    def read(**kwargs):
        return [[v.tolist() for v in r.values()] for r in rows(pipeline(tmp_path, names, 5, **kwargs), names, 3)]

    right = read(index="")
    assert not index.exists()
    assert read() == right and index.exists()
    kept = index.read_bytes()
    assert read() == right and index.read_bytes() == kept
    for bad in (kept[: len(kept) // 2], kept[:300] + bytes([kept[300] ^ 1]) + kept[301:], b"", b"STKNUSC1" + bytes(100), kept + b"x"):
        index.write_bytes(bad)
        assert read() == right and index.read_bytes() == kept
    edit(tmp_path, "sample_annotation", lambda rows: [row.update(size=[1.0, 2.0, 3.0]) for row in rows][:0])
    changed = read()
    assert changed != right and {tuple(box[3:6]) for _, boxes in changed for box in boxes} == {(2.0, 1.0, 3.0)}
    elsewhere = tmp_path / "elsewhere.index"
    index.unlink()
    assert read(index=str(elsewhere)) == changed and elsewhere.exists() and not index.exists()
    with pytest.raises(stoker.errors.StokerError, match="cannot write the index of NuScenes' tables"):
        read(index=str(tmp_path / "none/here.index"))


def test_wrong_arguments_are_refused(root):
    for message, arguments in {
        "CAM_TOP is not a camera of .*; there are CAM_FRONT, CAM_FRONT_RIGHT": {"cameras": ["CAM_TOP"]},
        "cameras has CAM_BACK twice": {"cameras": ["CAM_BACK", "CAM_BACK"]},
        "van is not a class of NuScenes' detection task": {"classes": ["van"]},
        "the set has no scene scene-1": {"scenes": ["scene-1"]},
        "exclude_scenes leave no scene": {"scenes": ["scene-0061"], "exclude_scenes": ["scene-0061"]},
        "NuScenes has no field boxes": {"fields": ["boxes"]},
        "streams=3 is not the batch size times the number of shards, 1 x 1": {"streams": 3},
        "9 slots of a batch, over all shards, cannot share 5 sequences": {"streams": 9},
        'a tail other than "wrap"': {"streams": 1, "tail": "drop"},
        "cannot find this table of NuScenes": {"root": "/nowhere"},
    }.items():
        given = {"root": str(root), "fields": ["scene"]} | arguments
        with pytest.raises(stoker.errors.StokerError, match=message):
            pipeline(given.pop("root"), given.pop("fields"), **given).run()


def test_damaged_points(root, tmp_path):
    shutil.copytree(root, tmp_path / "set")
    reference = Reference(root)
    row, _ = reference.key[reference.samples[0]["token"], "LIDAR_TOP"]
    with open(tmp_path / "set" / row["filename"], "ab") as f:
        f.write(b"12")
    with pytest.raises(
        stoker.errors.CorruptError, match=r"scene-0061, sample .*LIDAR_TOP: .* has 12002 bytes, which are not whole rows of five floats"
    ):
        pipeline(tmp_path / "set", ["points", "frame"]).run()
