# SPDX-License-Identifier: Apache-2.0
"""`stoker pack-video` writes NuScenes' cameras as videos, and structured.NuScenes(video_root=) reads the same samples from them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
import stoker
import videos
from support import SEED, make_nuscenes

structured = pytest.importorskip("stoker.structured")
from stoker import types  # noqa: E402
from stoker.structured import NuScenes  # noqa: E402
from stoker.structured.inputs import (  # noqa: E402
    DataProvider,
    SamplerInputCallable,
    SamplerInputIterable,
    SequenceSampler,
    ShuffledShardedInputCallable,
)
from stoker.structured.pipeline import DALIStructuredOutputIterator, PipelineDefinition, SampleDataGroup  # noqa: E402
from stoker.structured.processing_steps import ImageDecoder  # noqa: E402

pytestmark = videos.needs_video
COMMAND = Path(os.environ.get("STOKER_BUILD", "build")).resolve() / "cli" / "stoker"


def pack(*arguments, code=0, **environment):
    env = {**os.environ, **environment}
    env.pop("LD_PRELOAD", None)
    done = subprocess.run([COMMAND, "pack-video", *map(str, arguments)], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nuscenes")
    return make_nuscenes(folder, scenes=3, samples=4, seed=SEED + 3, size=(96, 64), objects=8, points=50)


@pytest.fixture(scope="module")
def lossless(root, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed") / "videos"
    pack(root, "-o", folder, "--codec", "h264", "--lossless", "--gop", 3)
    return folder


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


# ---- the command ----


def test_folder_and_index(root, lossless):
    index = json.loads((lossless / "index.json").read_text())
    data = NuScenes(root, "v1.0-mini", fields=["sample_token"])
    assert index["complete"] and index["codec"] == "h264" and index["gop"] == 3 and index["quality"] is None
    assert [len(scene["samples"]) for scene in index["scenes"]] == data.sequence_lengths
    tokens = [token for scene in index["scenes"] for token in scene["samples"]]
    assert tokens == [data.get_data(i)["sample_token"] for i in range(data.get_number_of_samples())]
    assert files(lossless) == sorted(["index.json", *(f"{s['name']}/{c}.mp4" for s in index["scenes"] for c in index["cameras"])])
    video = stoker.VideoDecoder(lossless / index["scenes"][0]["name"] / "CAM_BACK.mp4")
    assert len(video) == 4 and video.metadata.average_fps == 2


@pytest.mark.parametrize("codec", ["hevc", "h264", "av1", "vp9"])
def test_codecs_keep_what_they_can(root, tmp_path, codec):
    done = json.loads(pack(root, "-o", tmp_path / "v", "--codec", codec, "--gop", 2, "--json").stdout)
    assert done["videos"] == 18 and done["frames"] == 72 and done["kept"] == 0
    path = tmp_path / "v" / "scene-0061" / "CAM_FRONT.mp4"
    assert videos.probe(path)["color_space"] == "bt709"
    image = next((root / "samples" / "CAM_FRONT").glob("*.jpg"))
    assert stoker.VideoDecoder(path)[0].shape[1:] == (64, 96) and image.exists()
    data, packed = NuScenes(root, "v1.0-mini", fields=["image"]), NuScenes(root, "v1.0-mini", fields=["image"], video_root=tmp_path / "v")
    want, got = batches(data, count=1)[0], batches(packed, count=1)[0]
    errors = [np.abs(np.asarray(a, float) - np.asarray(b, float)).mean() for a, b in zip(want, got, strict=True)]
    assert max(errors) < 6, errors


def test_a_link_in_place_of_a_scenes_folder_is_refused(root, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / ".CAM_FRONT.mp4.part").write_text("precious")
    folder = tmp_path / "v"
    pack(root, "-o", folder, "--codec", "h264", "--gop", 2)
    index = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps({**index, "complete": False}))
    shutil.rmtree(folder / "scene-0103")
    (folder / "scene-0103").symlink_to(tmp_path / "elsewhere")
    assert "scene-0103: it is not a folder, but a link" in pack(root, "-o", folder, "--codec", "h264", "--gop", 2, code=1).stderr
    assert os.listdir(tmp_path / "elsewhere") == [".CAM_FRONT.mp4.part"]


def test_packing_continues_where_it_stopped(root, tmp_path):
    folder = tmp_path / "v"
    arguments = ("-o", folder, "--codec", "h264", "--gop", 2)
    pack(root, *arguments)
    whole = {name: (folder / name).read_bytes() for name in files(folder)}
    index = json.loads((folder / "index.json").read_text())
    (folder / "index.json").write_text(json.dumps({**index, "complete": False}))
    gone = folder / "scene-0103" / "CAM_FRONT.mp4"
    gone.unlink()
    (gone.parent / ".CAM_FRONT.mp4.part").write_bytes(b"half")
    with pytest.raises(ValueError, match="not all videos are there yet"):
        NuScenes(root, "v1.0-mini", video_root=folder)
    again = json.loads(pack(root, *arguments, "--json").stdout)
    assert again["kept"] == 17 and {name: (folder / name).read_bytes() for name in files(folder)}.keys() == whole.keys()
    assert json.loads((folder / "index.json").read_text())["complete"]


def test_what_is_refused(root, lossless, tmp_path):
    said = pack(root, "-o", lossless, "--codec", "h264", "--lossless", code=1).stderr
    assert "holds videos of other settings: gop is 3 there, not 30" in said
    said = pack(root, "-o", lossless, "--codec", "h264", "--gop", 3, code=1).stderr
    assert "quality is null there, not 20" in said
    other = make_nuscenes(tmp_path / "other", scenes=3, samples=4, seed=SEED + 4, size=(96, 64), objects=2, points=50)
    assert "scenes differ" in pack(other, "-o", lossless, "--codec", "h264", "--gop", 3, "--lossless", code=1).stderr
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    assert "has files in it" in pack(root, "-o", tmp_path / "full", code=1).stderr and files(tmp_path / "full") == ["letter.txt"]
    assert "no folder with NuScenes' tables" in pack(tmp_path / "full", "-o", tmp_path / "v", code=1).stderr
    assert "say where the videos go" in pack(root, code=2).stderr
    assert '--codec is one of hevc h264 av1 vp9, not "theora"' in pack(root, "-o", tmp_path / "v", "--codec", "theora", code=2).stderr
    assert "--lossless is for h264 and hevc" in pack(root, "-o", tmp_path / "v", "--codec", "av1", "--lossless", code=2).stderr
    assert not (tmp_path / "v").exists()


def test_scenes_of_one_name_are_refused(root, tmp_path):
    (tmp_path / "set").mkdir()
    for part in root.iterdir():
        (tmp_path / "set" / part.name).symlink_to(part)
    (tmp_path / "set" / "v1.0-mini").unlink()
    shutil.copytree(root / "v1.0-mini", tmp_path / "set" / "v1.0-mini", ignore=shutil.ignore_patterns("*.index"))
    table = tmp_path / "set" / "v1.0-mini" / "scene.json"
    table.write_text(json.dumps([{**row, "name": "here"} for row in json.loads(table.read_text())]))
    said = pack(tmp_path / "set", "-o", tmp_path / "v", code=1).stderr
    assert 'scene.json have the name "here"' in said and "rename one" in said and not (tmp_path / "v").exists()


def test_images_of_odd_size(tmp_path):
    odd = make_nuscenes(tmp_path / "odd", scenes=1, samples=1, seed=SEED, size=(97, 65), objects=2, points=50)
    said = pack(odd, "-o", tmp_path / "a", "--codec", "h264", code=1).stderr
    assert "97 x 65 pixels, and many encoders need an even width and height: give --codec vp9" in said
    pack(odd, "-o", tmp_path / "b", "--codec", "vp9")
    pack(odd, "-o", tmp_path / "c", "--codec", "h264", "--lossless")


def test_without_the_ffmpeg_program(root, tmp_path):
    said = pack(root, "-o", tmp_path / "v", code=1, PATH=str(tmp_path)).stderr
    assert "the ffmpeg program encodes the videos, and is not on the PATH" in said and not (tmp_path / "v").exists()


def fake_ffmpeg(folder, text):
    folder.mkdir()
    (folder / "ffmpeg").write_text(f"#!/bin/sh\n{text}\n")
    (folder / "ffmpeg").chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("echo Unknown encoder >&2; exit 1", "ffmpeg failed: Unknown encoder\n"),
        (
            r"printf 'one\ntwo: No space left on device\n\nthree -- \n' >&2; exit 1",
            "ffmpeg failed: two: No space left on device; three -- \n",
        ),
        ('cat > /dev/null; for last; do :; done; echo no video > "$last"', "not a file that Stoker reads"),
        ("kill -9 $$", "ffmpeg was ended by signal 9"),
    ],
)
def test_a_failing_program_leaves_no_half_file(root, tmp_path, text, said):
    assert said in pack(root, "-o", tmp_path / "v", code=1, PATH=fake_ffmpeg(tmp_path / "bin", text)).stderr
    assert files(tmp_path / "v") == ["index.json"] and not json.loads((tmp_path / "v" / "index.json").read_text())["complete"]


def test_a_damaged_image_is_named(root, tmp_path):
    bad = make_nuscenes(tmp_path / "bad", scenes=1, samples=4, seed=SEED + 5, size=(96, 64), objects=2, points=50)
    image = sorted((bad / "samples" / "CAM_BACK").glob("*.jpg"))[2]
    image.write_bytes(image.read_bytes()[:200])
    assert image.name in pack(bad, "-o", tmp_path / "v", "--codec", "h264", code=1).stderr
    assert not any(name.endswith(".part") or "CAM_BACK.mp4" in name for name in files(tmp_path / "v"))


def test_a_signal_ends_the_child_and_removes_the_half_file(root, tmp_path):
    path = fake_ffmpeg(tmp_path / "bin", f'for last; do :; done; echo half > "$last"; echo $$ > {tmp_path}/child; exec sleep 100')
    env = {**os.environ, "PATH": path}
    env.pop("LD_PRELOAD", None)
    running = subprocess.Popen([COMMAND, "pack-video", str(root), "-o", str(tmp_path / "v")], env=env, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + 60
    while not (tmp_path / "child").exists() and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(0.2)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130 and "interrupted" in said
    assert files(tmp_path / "v") == ["index.json"]
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "child").read_text()), 0)


# ---- samples ----


def definition(order, decoders=None):
    return PipelineDefinition(
        order, [ImageDecoder("image", use_device_mixed=True, video_decoders=decoders)], use_parallel_external_source=False
    )


def iterate(order, batch, count, **arguments):
    made = definition(order)
    pipe = made.get_dali_pipeline(batch_size=batch, num_threads=2, device_id=None, seed=7, **arguments)
    return DALIStructuredOutputIterator(count, pipe, made.check_and_get_output_data_structure(), convert_sample_data_group_to_dict=False)


def arrays(group):
    return [np.asarray(v.tensor if hasattr(v, "tensor") else v) for v in group.get_data()]


def batches(data, count, order=None, batch=4, **arguments):
    order = order or ShuffledShardedInputCallable(data, batch, 0, 1, False)
    return [arrays(b) for b in iterate(order, batch, count, **arguments)]


def same(left, right):
    assert len(left) == len(right)
    for a, b in zip(left, right, strict=True):
        assert len(a) == len(b) and all(x.shape == y.shape and np.array_equal(x, y) for x, y in zip(a, b, strict=True))


FIELDS = ["image", "lidar2img", "bboxes2d", "labels2d", "timestamp", "prev_exists", "gt_labels_3d"]


@pytest.mark.parametrize(
    ("order", "batch"),
    [
        (lambda d: ShuffledShardedInputCallable(d, 4, 0, 1, False), 4),
        (lambda d: ShuffledShardedInputCallable(d, 3, 1, 2, True, 3), 3),
        (lambda d: SamplerInputIterable(d, SequenceSampler(3, d.sequence_lengths, seed=1, randomize=True), 0, 1), 3),
        (lambda d: SamplerInputIterable(d, SequenceSampler(2, d.sequence_lengths, seed=1), 1, 2), 1),
        (lambda d: SamplerInputCallable(d, SequenceSampler(2, d.sequence_lengths, seed=1), 3, 2), 2),
    ],
)
def test_the_same_samples_as_from_images(root, lossless, order, batch):
    data = NuScenes(root, "v1.0-mini", fields=FIELDS)
    packed = NuScenes(root, "v1.0-mini", fields=FIELDS, video_root=lossless)
    same(batches(packed, 3, order(packed), batch), batches(data, 3, order(data), batch))


def test_by_number(root, lossless):
    data = NuScenes(
        root, "v1.0-mini", fields=FIELDS, scenes=["scene-0103", "scene-0553"], cameras=["CAM_BACK", "CAM_FRONT"], video_root=lossless
    )
    sample = data.get_data(5)
    assert data.sample_data_structure.get_parent_of_path(("cameras", 0, "image")).is_video_frame_field("image")
    assert sample["cameras"][1]["image"]["video"] == f"{lossless}/scene-0553/CAM_FRONT.mp4" and sample["cameras"][1]["image"]["frame"] == 1
    plain = NuScenes(root, "v1.0-mini", fields=FIELDS, scenes=["scene-0103", "scene-0553"], cameras=["CAM_BACK", "CAM_FRONT"])
    same(batches(data, 2), batches(plain, 2))


def test_a_restart_continues(root, lossless):
    packed = NuScenes(root, "v1.0-mini", fields=["image", "timestamp"], video_root=lossless)
    made = definition(SamplerInputIterable(packed, SequenceSampler(3, packed.sequence_lengths, seed=1, randomize=True)))
    pipe = made.get_dali_pipeline(batch_size=3, num_threads=2, device_id=None, seed=7, enable_checkpointing=True)
    pipe.build()
    for _ in range(3):
        pipe.run()
    state = pipe.checkpoint()
    want = [[np.array(t) for o in pipe.run() for t in o] for _ in range(3)]
    again = made.get_dali_pipeline(batch_size=3, num_threads=1, device_id=None, seed=7, enable_checkpointing=True, checkpoint=state)
    again.build()
    same([[np.array(t) for o in again.run() for t in o] for _ in range(3)], want)


def test_a_damaged_video_follows_on_error(root, lossless, tmp_path):
    copy = tmp_path / "v"
    for name in files(lossless):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((lossless / name).read_bytes())
    bad = copy / "scene-0103" / "CAM_FRONT.mp4"
    data = bytearray(bad.read_bytes())
    data[-len(data) // 2 :] = bytes(len(data) - len(data) // 2)
    bad.write_bytes(data)
    packed = NuScenes(root, "v1.0-mini", fields=["image", "sample_token"], video_root=copy)
    with pytest.raises(stoker.StokerError, match=r"scene-0103/CAM_FRONT\.mp4: .*frame"):
        batches(packed, 3)
    got = batches(packed, 3, on_error="replace", max_errors=20)
    assert len(got) == 3 and all(len(np.asarray(b[0])) == 4 for b in got)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda i: i.update(complete=False), "not all videos are there yet"),
        (lambda i: i["cameras"].remove("CAM_BACK"), "no videos of the camera CAM_BACK"),
        (lambda i: i["scenes"].pop(), "scene-0553 is not in the index"),
        (lambda i: i["scenes"][1]["samples"].reverse(), "scene-0103 does not have the sample"),
        (lambda i: i.update(format=2), "reads format 1"),
        (lambda i: i.pop("scenes"), "not an index of stoker pack-video: it has no 'scenes'"),
        (lambda i: i["scenes"][0].pop("samples"), "not an index of stoker pack-video: a scene is not an object with a name"),
        (lambda i: i["cameras"].append(5), "not an index of stoker pack-video: a camera is not a text"),
    ],
)
def test_an_index_that_does_not_fit(root, lossless, tmp_path, change, said):
    index = json.loads((lossless / "index.json").read_text())
    change(index)
    (tmp_path / "index.json").write_text(json.dumps(index))
    with pytest.raises(ValueError, match=said):
        NuScenes(root, "v1.0-mini", video_root=tmp_path)


def test_other_arguments(root, tmp_path):
    with pytest.raises(FileNotFoundError, match="make the videos by stoker pack-video"):
        NuScenes(root, "v1.0-mini", video_root=tmp_path)
    with pytest.raises(ValueError, match="video_root belongs to tables"):
        NuScenes(root, infos=tmp_path / "a.pkl", video_root=tmp_path)


# ---- DataProviders of the user ----


class Clips(DataProvider):
    """Two cameras, whose frames are identified by number or by time."""

    def __init__(self, paths, by_time=False):
        self.paths, self.by_time = paths, by_time

    @property
    def sample_data_structure(self):
        sample, camera = SampleDataGroup(), SampleDataGroup()
        camera.add_video_frame_field("image", by_time=self.by_time)
        sample.add_data_group_field_array("cameras", camera, 2)
        sample.add_data_field("number", types.INT32)
        return sample

    def get_number_of_samples(self):
        return 40

    def get_data(self, sample_index):
        sample = self.sample_data_structure
        for k in range(2):
            frame = (sample_index * 7 + k) % 40
            sample["cameras"][k]["image"] = (self.paths[k], frame / 25 if self.by_time else frame)
        sample["number"] = sample_index
        return sample


@pytest.mark.parametrize("by_time", [False, True])
def test_frames_of_videos_are_fields(tmp_path, by_time):
    paths = [videos.make(tmp_path, "h264.mp4"), str(videos.make(tmp_path, "h264.avi"))]
    want = [videos.frames(Path(p)) for p in paths]
    data = Clips(paths, by_time)
    got = batches(data, 10)
    for first, second, numbers in got:
        for image, other, i in zip(first, second, numbers, strict=True):
            assert np.array_equal(image, want[0][int(i) * 7 % 40]) and np.array_equal(other, want[1][(int(i) * 7 + 1) % 40])


@pytest.mark.parametrize("value", [("a.mp4",), ("a.mp4", 1.5), (3, 1), ("a.mp4", True), ("a.mp4", "1")])
def test_values_that_are_no_frames(value):
    with pytest.raises(TypeError, match="takes"):
        Clips(["a", "b"]).sample_data_structure["cameras"][0]["image"] = value
