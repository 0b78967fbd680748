# SPDX-License-Identifier: Apache-2.0
"""Loader over videos: clips have the right frames, at random or fixed positions, and the pixels that the same transforms give for an image, with one draw for
a clip."""

from __future__ import annotations

import contextlib
import io
import shutil
import tarfile
import time

import numpy as np
import pytest
import stoker
import torch
import videos
from PIL import Image
from stoker import fn
from stoker import transforms as T
from stoker.loader import Video, _spec
from storage import Store
from support import SEED

pytestmark = videos.needs_video


@pytest.fixture(scope="module")
def moving(tmp_path_factory):
    """Writes four copies of a video of 50 frames into two classes, and a text file next to two of them."""
    root = tmp_path_factory.mktemp("moving")
    first = videos.make(tmp_path_factory.mktemp("one"), "h264.mp4")
    for name in ("a", "b"):
        (root / name).mkdir()
        for i in range(2):
            (root / name / f"{i}.mp4").write_bytes(first.read_bytes())
    (root / "a" / "notes.txt").write_text("no video")
    return root


@pytest.fixture(scope="module")
def still(tmp_path_factory):
    """Makes videos whose frames are all equal, and PNGs of their first frames."""
    root = tmp_path_factory.mktemp("still")
    for name in ("a", "b"):
        for kind in ("videos", "images"):
            (root / kind / name).mkdir(parents=True)
        for i in range(3):
            path = root / "videos" / name / f"{i}.mp4"
            source = f"testsrc2=size={120 + 8 * i}x{100 + 4 * i}:rate=25:duration=0.04"
            videos.ffmpeg("-f lavfi -i", source, "-vf loop=29:1:0 -c:v libx264 -qp 0 -g 12", path)
            frame = stoker.VideoDecoder(path, dimension_order="NHWC")[0].numpy()
            Image.fromarray(frame).save(root / "images" / name / f"{i}.png")
    return root


def numbers(clip, path):
    whole = stoker.VideoDecoder(path)[:]
    return [next((i for i, w in enumerate(whole) if torch.equal(w, frame)), -1) for frame in clip]


def test_clips_of_a_folder(moving):
    loader = stoker.Loader(moving, 2, frames=5, stride=3, dtype=torch.uint8)
    assert loader.classes == ["a", "b"]
    (first, labels), (_, others) = loader
    assert first.shape == (2, 5, 3, 144, 176) and labels.tolist() == [0, 0] and others.tolist() == [1, 1]
    assert numbers(first[0], moving / "a/0.mp4") == [18, 21, 24, 27, 30]  # the clip is in the middle: 18 frames are before it, 19 after it
    clip = next(iter(stoker.Loader(moving, 1, fields={"clip": Video(4, 2, "first"), "label": None}, dtype=torch.uint8)))
    assert clip._fields == ("clip", "label") and numbers(clip.clip[0], moving / "a/0.mp4") == [0, 2, 4, 6]


@pytest.mark.parametrize("chosen", [{"Video": torch.float32, "others": None}, {"Image": torch.float32, "others": None}], ids=str)
def test_types_that_hold_for_some_kinds_are_refused_for_clips(moving, chosen):
    with pytest.raises(stoker.errors.InvalidArgumentError, match="for clips of videos, give one type or fill in place of a dict"):
        next(iter(stoker.Loader(moving, 2, frames=4, transforms=[T.ToImage(), T.ToDtype(chosen, scale=True)])))
    one = [T.ToImage(), T.ToDtype({"Video": torch.float32, "others": torch.float32}, scale=True)]
    assert next(iter(stoker.Loader(moving, 2, frames=4, transforms=one)))[0].dtype == torch.float32


def test_fills_that_hold_for_images_only_are_refused_for_clips(moving):
    pytest.importorskip("torchvision")
    from torchvision import tv_tensors
    from torchvision.transforms import v2

    chain = [v2.RandAugment(fill={tv_tensors.Image: 200, "others": 0}), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    with pytest.raises(stoker.errors.InvalidArgumentError, match="for clips of videos, give one type or fill in place of a dict"):
        next(iter(stoker.Loader(moving, 2, frames=4, transforms=chain)))


def test_random_places_follow_the_seed(moving):
    def places(epochs=1, threads=1, **arguments):
        loader = stoker.Loader(moving, 2, shuffle=True, seed=4, frames=4, stride=2, dtype=torch.uint8, num_threads=threads, **arguments)
        return [tuple(numbers(c, moving / "a/0.mp4")) for _ in range(epochs) for clips, _ in loader for c in clips]

    drawn = places(3)
    assert drawn == places(3, threads=2) and len(set(drawn)) > 6
    assert all(np.diff(p).tolist() == [2, 2, 2] for p in drawn)


def test_a_list_and_a_short_video(moving):
    paths = sorted(moving.glob("*/*.mp4"))
    loader = stoker.Loader([(p, 10 + i) for i, p in enumerate(paths)], 4, frames=60, dtype=torch.uint8)
    clips, targets = next(iter(loader))
    assert targets.tolist() == [10, 11, 12, 13] and numbers(clips[1], paths[0]) == [*range(50), *[49] * 10]


def test_a_restart(moving):
    def make():
        return stoker.Loader(moving, 1, shuffle=True, seed=2, frames=4, stride=2, transforms=[T.RandomResizedCrop(24)])

    begun = make()
    batches = iter(begun)
    next(batches)
    state = begun.state_dict()
    rest = list(batches)
    resumed = make()
    resumed.load_state_dict(state)
    again = list(resumed)
    assert len(again) == len(rest) == 3 and all(torch.equal(a[0], b[0]) and a[1] == b[1] for a, b in zip(again, rest, strict=True))


TRANSFORMS = [
    T.CenterCrop(64),
    T.Resize(40),
    T.RandomResizedCrop(48),
    T.RandomCrop(48, padding=4),
    T.RandomHorizontalFlip(),
    T.RandomVerticalFlip(),
    T.ColorJitter(0.4, 0.4, 0.4, 0.1),
    T.GaussianBlur(3),
    T.RandomRotation(30),
    T.RandomAffine(10, (0.1, 0.1), (0.8, 1.2), 5),
    T.RandAugment(),
    T.TrivialAugmentWide(),
    T.AutoAugment(),
    T.AugMix(),
    T.Grayscale(3),
    T.RandomGrayscale(0.5),
    T.RandomApply([T.ColorJitter(0.4)], 0.5),
    T.RandomInvert(0.5),
    T.RandomPosterize(4),
    T.RandomSolarize(100, 0.5),
    T.RandomAutocontrast(0.5),
    T.RandomEqualize(0.5),
    T.RandomAdjustSharpness(2, 0.5),
    T.RandomPerspective(),
    T.ElasticTransform(),
    T.RandomChoice([T.RandomHorizontalFlip(), T.ColorJitter(0.4)]),
    T.RandomErasing(1.0),
]


@pytest.mark.parametrize("transform", TRANSFORMS, ids=lambda t: type(t).__name__)
def test_clips_change_as_images_do(still, monkeypatch, transform):
    """Each frame has the pixels that a Loader of images gives for it with the same draws."""
    decode = _spec.Spec.decode

    def after_a_draw(spec, data, floats=False):
        fn.random.coin_flip()  # shifts later draws by one, since a Loader of videos first draws the position of a clip
        return decode(spec, data, floats)

    monkeypatch.setattr(_spec.Spec, "decode", after_a_draw)
    steps = [T.Resize((50, 60)), transform] if isinstance(transform, T.RandomErasing) else [transform, T.Resize((50, 60))]
    arguments = {"shuffle": True, "seed": SEED, "transforms": [*steps, T.Normalize([0.5] * 3, [0.2] * 3)]}
    images = list(stoker.Loader(still / "images", 3, **arguments))
    clips = list(stoker.Loader(still / "videos", 3, frames=3, stride=2, **arguments))
    for (image, label), (clip, same) in zip(images, clips, strict=True):
        assert torch.equal(label, same) and clip.shape == (3, 3, 3, 50, 60)
        assert torch.equal(clip, image[:, None].expand_as(clip))


# ---- rates, and several clips of a video ----


def test_clips_that_differ_in_size_say_what_makes_one_tensor(still):
    source = [str(still / "videos" / "a" / f"{i}.mp4") for i in range(3)]
    kinds = {"clip": Video(2)}
    with pytest.raises(
        stoker.ShapeError, match=r"transforms=\[T.Resize\(\(224, 224\)\)\] makes clips of one size, and pad='zeros' one tensor"
    ) as e:
        next(iter(stoker.Loader(source, 3, fields=kinds)))
    assert "bucket_by" not in str(e.value)  # which is refused for clips
    assert next(iter(stoker.Loader(source, 3, fields=kinds, transforms=[T.Resize((20, 24))]))).clip.shape == (3, 2, 3, 20, 24)
    assert next(iter(stoker.Loader(source, 3, fields=kinds, pad="zeros"))).clip.shape == (3, 2, 3, 108, 136)


def nearest(path, fps, numbers):
    """Returns the numbers of the frames that are nearest to k / fps seconds, for each k in `numbers`, by the rule of Video."""
    times = stoker.VideoDecoder(path).get_frames_at(range(len(stoker.VideoDecoder(path)))).pts_seconds.numpy()
    return [int(np.argmin(np.round(np.abs(times - times[0] - k / fps), 6))) for k in numbers]


@pytest.mark.parametrize("name", ["h264.mp4", "vfr.mp4", "late.mkv"])
@pytest.mark.parametrize("fps", [25, 12.5, 10, 7.3, 24, 30, 50])
def test_frames_at_a_rate_are_the_nearest_ones(tmp_path_factory, name, fps):
    path = videos.make(tmp_path_factory.mktemp("rates"), name)
    loader = stoker.Loader([path], 1, fields={"clip": Video(6, 2, "first", fps=fps)}, dtype=torch.uint8)
    assert numbers(next(iter(loader)).clip[0], path) == nearest(path, fps, range(0, 12, 2))


def test_a_rate_changes_the_middle_of_a_video(moving):
    """At 10 frames per second the video of 2 s has 20 frames, and the clip is in their middle."""
    (clip, _), *_ = stoker.Loader(moving, 1, fields={"clip": Video(4, 3, fps=10), "label": None}, dtype=torch.uint8)
    assert numbers(clip[0], moving / "a/0.mp4") == nearest(moving / "a/0.mp4", 10, [5, 8, 11, 14])


@pytest.mark.parametrize(("clips", "firsts"), [(1, [18]), (2, [0, 37]), (4, [0, 12, 25, 37]), (50, None)])
def test_several_clips(moving, clips, firsts):
    loader = stoker.Loader(moving, 2, fields={"clip": Video(5, 3, clips=clips), "label": None}, dtype=torch.uint8)
    got = next(iter(loader)).clip
    assert got.shape == (2, clips, 5, 3, 144, 176)
    found = [numbers(c, moving / "a/0.mp4") for c in got[0]]
    assert all(np.diff(f).tolist() == [3] * 4 for f in found)
    begins = [f[0] for f in found]
    assert begins == firsts or (firsts is None and begins[0] == 0 and begins[-1] == 37 and set(np.diff(begins)) <= {0, 1})


def test_several_random_clips(moving):
    def first():
        loader = stoker.Loader(
            moving, 4, shuffle=True, seed=3, fields={"clip": Video(4, clips=3), "label": None}, transforms=[T.RandomCrop(32)]
        )
        return next(iter(loader)).clip

    got = first()
    assert got.shape == (4, 3, 4, 3, 32, 32) and torch.equal(got, first())
    assert not torch.equal(got[0, 0], got[0, 1])


def test_several_clips_of_a_short_video(moving):
    got = next(iter(stoker.Loader(moving, 1, fields={"clip": Video(60, clips=2), "label": None}, dtype=torch.uint8))).clip[0]
    assert torch.equal(got[0], got[1]) and numbers(got[0], moving / "a/0.mp4")[-12:] == [48, *[49] * 11]


# ---- other sources ----


class Paths:
    """A Dataset of videos. give: makes a sample from a path; the sample may be the path itself, bytes or arrays."""

    def __init__(self, root, give):
        self.paths, self.give = sorted(root.glob("*/*.mp4")), give

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        return self.give(self.paths[i]), i


def write_tar(root, path):
    with tarfile.open(path, "w") as tar:
        for i, video in enumerate(sorted(root.glob("*/*.mp4"))):
            for ending, data in (("mp4", video.read_bytes()), ("cls", str(i).encode()), ("txt", b"said")):
                entry = tarfile.TarInfo(f"{i}.{ending}")
                entry.size = len(data)
                tar.addfile(entry, io.BytesIO(data))
    return path


def write_table(root, path):
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    files = sorted(root.glob("*/*.mp4"))
    pq.write_table(pa.table({"video": [f.read_bytes() for f in files], "label": list(range(len(files)))}), path)
    return path


FIELDS = {"clip": Video(4, 2), "label": None}
SOURCES = {
    "list": lambda root, folder: [(p, i) for i, p in enumerate(sorted(root.glob("*/*.mp4")))],
    "paths": lambda root, folder: Paths(root, str),
    "bytes": lambda root, folder: Paths(root, lambda p: p.read_bytes()),
    "tar": lambda root, folder: write_tar(root, folder / "some.tar"),
    "tars": lambda root, folder: write_tar(root, folder / "some.tar").parent,
    "table": lambda root, folder: write_table(root, folder / "some.parquet"),
}


@pytest.fixture(scope="module")
def several(tmp_path_factory):
    root = tmp_path_factory.mktemp("several")
    for i in range(4):
        (root / "ab"[i // 2]).mkdir(exist_ok=True)
        source = f"testsrc2=size=64x48:rate=25:duration=0.8,hue=h={60 * i}"
        videos.ffmpeg("-f lavfi -i", source, "-c:v libx264 -preset ultrafast -g 6", root / "ab"[i // 2] / f"{i}.mp4")
    return root


def batches(source, name="clip", **arguments):
    arguments = {"fields": {name: Video(4, 2), "label": None}, "transforms": [T.RandomResizedCrop(24)], "seed": 5, **arguments}
    return stoker.Loader(source, arguments.pop("batch_size", 2), **arguments)


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_source_gives_the_same_clips(several, tmp_path, kind, shuffle):
    name = "video" if kind == "table" else "clip"
    got = {
        int(label): clip
        for clips, labels in batches(SOURCES[kind](several, tmp_path), name)
        for clip, label in zip(clips, labels, strict=True)
    }
    want = {
        int(label): clip for clips, labels in batches(SOURCES["list"](several, tmp_path)) for clip, label in zip(clips, labels, strict=True)
    }
    # Draws depend on the operators before them, so values are compared between sources only without random transforms.
    assert got.keys() == want.keys() and all(got[k].shape == (4, 3, 24, 24) for k in got)
    plain = {"transforms": None, "dtype": torch.uint8, "shuffle": shuffle}
    if shuffle:
        plain["fields"] = {name: Video(4, 2, "center"), "label": None}
    got = {
        int(label): clip
        for clips, labels in batches(SOURCES[kind](several, tmp_path), name, **plain)
        for clip, label in zip(clips, labels, strict=True)
    }
    for i, path in enumerate(sorted(several.glob("*/*.mp4"))):
        assert numbers(got[i], path) == [6, 8, 10, 12]


@pytest.mark.parametrize("kind", SOURCES)
def test_a_restart_of_every_source(several, tmp_path, kind):
    def make():
        return batches(SOURCES[kind](several, tmp_path), "video" if kind == "table" else "clip", shuffle=True, batch_size=1)

    begun = make()
    iterator = iter(begun)
    next(iterator)
    state = begun.state_dict()
    rest = list(iterator)
    resumed = make()
    resumed.load_state_dict(state)
    again = list(resumed)
    assert len(again) == len(rest) == 3 and all(torch.equal(a[0], b[0]) and a[1] == b[1] for a, b in zip(again, rest, strict=True))


@pytest.mark.parametrize("kind", SOURCES)
def test_ranks_of_every_source(several, tmp_path, kind):
    source, name = SOURCES[kind](several, tmp_path), "video" if kind == "table" else "clip"
    whole = [int(x) for _, labels in batches(source, name, shuffle=True) for x in labels]
    parts = [[int(x) for _, labels in batches(source, name, shuffle=True, batch_size=1, shard=(r, 2)) for x in labels] for r in range(2)]
    assert sorted(whole) == [0, 1, 2, 3] == sorted(parts[0] + parts[1]) and [parts[0][0], parts[1][0]] == whole[:2]


@pytest.mark.parametrize("kind", ["list", "paths", "bytes", "tar", "table"])
def test_bad_videos_of_every_source(several, tmp_path, kind):
    root = tmp_path / "root"
    shutil.copytree(several, root)
    (root / "a" / "1.mp4").write_bytes((root / "a" / "1.mp4").read_bytes()[:1000])
    source, name = SOURCES[kind](root, tmp_path), "video" if kind == "table" else "clip"
    with pytest.raises(stoker.StokerError):
        list(batches(source, name))
    got = [int(x) for _, labels in batches(source, name, on_error="skip", max_errors=3) for x in labels]
    assert got == [0, 2, 3]


def test_clips_of_a_store_and_its_cache(several, tmp_path, monkeypatch):
    root = tmp_path / "root" / "bucket"
    shutil.copytree(several, root)
    write_tar(several, root / "some.tar")
    want = [(clips, labels) for clips, labels in batches(SOURCES["list"](several, tmp_path), dtype=torch.uint8, transforms=None)]
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    with contextlib.closing(Store(tmp_path / "root")) as store:
        for key, value in store.environment.items():
            monkeypatch.setenv(key, value)
        for source in ([f"s3://bucket/{p.relative_to(several)}" for p in sorted(several.glob("*/*.mp4"))], "s3://bucket/some.tar"):
            source = [(p, i) for i, p in enumerate(source)] if isinstance(source, list) else source
            counts = []
            for _ in range(2):
                before = store.counts()["requests"]
                storage = stoker.Storage(cache=tmp_path / "cache", hedging=False)
                got = list(batches(source, dtype=torch.uint8, transforms=None, storage=storage))
                while storage.counters()["cache_pending_bytes"]:
                    time.sleep(0.01)
                del storage
                counts.append(store.counts()["requests"] - before)
                assert all(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in zip(got, want, strict=True))
            assert counts[1] < counts[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"frames": 0}, "frames is at least 1, not 0"),
        ({"frames": 4, "stride": 0}, "stride is at least 1, not 0"),
        ({"stride": 2}, "give frames"),
        ({"frames": 4, "fields": {"clip": Video(4)}}, "choose one"),
        ({"fields": {"a": Video(4), "b": Video(4)}}, "a, b are clips"),
        ({"frames": 4, "transforms": [T.Pad(3)]}, "Pad.* does not take clips"),
        ({"frames": 4, "transforms": [T.RandomApply([T.RandomChannelPermutation()])]}, "does not take clips"),
        ({"frames": 4, "memory_format": torch.channels_last}, "memory_format"),
        ({"frames": 4, "exif_orientation": True}, "exif_orientation"),
        ({"frames": 4, "bucket_by": "size"}, "bucket_by"),
    ],
)
def test_what_is_refused(moving, arguments, said):
    with pytest.raises((ValueError, stoker.StokerError), match=said):
        next(iter(stoker.Loader(moving, 2, **arguments)))


class Arrays:
    def __len__(self):
        return 4

    def __getitem__(self, i):
        return np.zeros((8, 8, 3), np.uint8), i


def test_sources_that_hold_no_videos(tmp_path):
    with pytest.raises(ValueError, match="position is one of"):
        Video(4, position="end")
    for wrong in (0, -1, "10", True, float("nan")):
        with pytest.raises(ValueError, match="fps is a number"):
            Video(4, fps=wrong)
    with pytest.raises(ValueError, match="clips is at least 1"):
        Video(4, clips=0)
    with pytest.raises(ValueError, match='not "first"'):
        Video(4, clips=2, position="first")
    with pytest.raises(ValueError, match="gives arrays or images"):
        next(iter(stoker.Loader(Arrays(), 2, frames=4)))
    with pytest.raises(ValueError, match="a folder of videos for each class"):
        stoker.Loader(np.zeros((4, 8, 8, 3), np.uint8), 2, frames=4)
    with pytest.raises(stoker.StokerError):
        stoker.Loader(tmp_path, 2, frames=4)


def test_a_damaged_video_follows_on_error(moving, tmp_path):
    good = (moving / "a/0.mp4").read_bytes()
    for i, data in enumerate([good, good[: len(good) // 2], b"none", good]):
        (tmp_path / f"{i}.mp4").write_bytes(data)
    files = [(tmp_path / f"{i}.mp4", i) for i in range(4)]
    with pytest.raises(stoker.StokerError, match=r"1\.mp4"):
        list(stoker.Loader(files, 4, frames=4))
    loader = stoker.Loader(files, 4, frames=4, on_error="skip", max_errors=10)
    assert [labels.tolist() for _, labels in loader] == [[0, 3]]
