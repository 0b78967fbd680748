# SPDX-License-Identifier: Apache-2.0
"""Loader over videos: clips of the right frames, at drawn or fixed places, with the pixels that the same transforms give for an image, one draw for a clip."""

from __future__ import annotations

import numpy as np
import pytest
import stoker
import torch
import videos
from PIL import Image
from stoker import fn
from stoker import transforms as T
from stoker.loader import Video, _spec
from support import SEED

pytestmark = videos.needs_video


@pytest.fixture(scope="module")
def moving(tmp_path_factory):
    """Four videos of 50 frames in two classes."""
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
    """Videos whose frames are all alike, and their first frames as PNGs."""
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
    assert numbers(first[0], moving / "a/0.mp4") == [18, 21, 24, 27, 30]  # 18 frames before it, 19 after it
    clip = next(iter(stoker.Loader(moving, 1, fields={"clip": Video(4, 2, "first"), "label": None}, dtype=torch.uint8)))
    assert clip._fields == ("clip", "label") and numbers(clip.clip[0], moving / "a/0.mp4") == [0, 2, 4, 6]


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
    """Each frame has the pixels that a Loader of images gives for it, under the same draws."""
    decode = _spec.Spec.decode

    def after_a_draw(spec, data, floats=False):
        fn.random.coin_flip()  # streams of draws are numbered: videos draw their place
        return decode(spec, data, floats)

    monkeypatch.setattr(_spec.Spec, "decode", after_a_draw)
    steps = [T.Resize((50, 60)), transform] if isinstance(transform, T.RandomErasing) else [transform, T.Resize((50, 60))]
    arguments = {"shuffle": True, "seed": SEED, "transforms": [*steps, T.Normalize([0.5] * 3, [0.2] * 3)]}
    images = list(stoker.Loader(still / "images", 3, **arguments))
    clips = list(stoker.Loader(still / "videos", 3, frames=3, stride=2, **arguments))
    for (image, label), (clip, same) in zip(images, clips, strict=True):
        assert torch.equal(label, same) and clip.shape == (3, 3, 3, 50, 60)
        assert torch.equal(clip, image[:, None].expand_as(clip))


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
    ],
)
def test_what_is_refused(moving, arguments, said):
    with pytest.raises((ValueError, stoker.StokerError), match=said):
        next(iter(stoker.Loader(moving, 2, **arguments)))


def test_sources_that_hold_no_videos(tmp_path):
    with pytest.raises(ValueError, match="position is one of"):
        Video(4, position="end")
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
