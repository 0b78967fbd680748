# SPDX-License-Identifier: Apache-2.0
"""Robot data sets in LeRobot's format give the samples that LeRobot defines, even after a resume and on several ranks."""

import copy
import io
import itertools
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
import robots
import stoker
from PIL import Image, ImageOps
from robots import FPS, TASKS, make
from stoker import Loader, _core
from stoker.errors import CorruptError, InvalidArgumentError, NotFoundError, StateError, UnsupportedError
from support import SEED

torch = pytest.importorskip("torch")
DELTAS = {"observation.state": [-0.2, -0.1, 0.0], "action": [k / FPS for k in range(4)], "next.reward": [0.0, 0.1]}


def make_with_videos(folder, *arguments, **more):
    """Makes a data set with videos, and returns the path of its first one. Skips the test where no videos can be made."""
    import videos

    if not videos.can_decode() or not shutil.which("ffmpeg"):
        pytest.skip("there is no ffmpeg, or this build has no video")
    make(folder, *arguments, **more)
    return sorted((folder / "videos").rglob("*.mp4"))[0]


def expected(data, lengths, i, deltas):
    """Returns sample i as LeRobotDataset defines it: times outside of the sample's episode are clamped to it, and marked as padding."""
    ends = np.cumsum(lengths)
    episode = int(np.searchsorted(ends, i, "right"))
    low, high = ends[episode] - lengths[episode], ends[episode]
    item = {}
    for key, column in data.items():
        if key in deltas:
            wanted = [i + round(t * FPS) for t in deltas[key]]
            item[f"{key}_is_pad"] = torch.tensor([w < low or w >= high for w in wanted])
            item[key] = torch.stack([torch.as_tensor(column[min(max(w, low), high - 1)]) for w in wanted])
        elif not isinstance(column, list):
            item[key] = torch.as_tensor(column[i])
    return {**item, "task": TASKS[episode % 3]}


@pytest.mark.essential
@pytest.mark.parametrize("version", [3, 2])
@pytest.mark.parametrize("deltas", [{}, DELTAS], ids=["plain", "deltas"])
def test_samples_equal_the_definition(tmp_path, version, deltas):
    lengths = (7, 12, 5)
    data = make(tmp_path, lengths, version)
    loader = Loader.from_lerobot(tmp_path, 4, delta_timestamps=deltas)
    dataset = loader.dataset
    assert len(dataset) == 24 and dataset.num_episodes == 3 and dataset.fps == FPS
    for i in range(24):
        sample, wanted = dataset[i], expected(data, lengths, i, deltas)
        assert set(sample) == set(wanted)
        for key, value in wanted.items():
            if key == "task":
                assert sample[key] == value
            else:
                assert sample[key].dtype == value.dtype and sample[key].shape == value.shape and torch.equal(sample[key], value), key
    joined = torch.utils.data.default_collate([dataset[i] for i in range(4)])
    batch = next(iter(loader))
    assert set(batch) == set(joined)
    assert all(torch.equal(batch[k], v) if isinstance(v, torch.Tensor) else batch[k] == v for k, v in joined.items())


def numbers(total):
    """Returns columns of each type that Arrow has, of one number and of several dimensions."""
    rng = np.random.default_rng(SEED)
    made = {}
    for dtype in ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float16", "float32", "float64"):
        for shape in ((), (3,), (2, 3), (2, 1, 2)):
            made[f"{dtype}.{len(shape)}"] = (rng.random((total, *shape)) * 100).astype(dtype)
    return made


@pytest.mark.parametrize("version", [3, 2])
@pytest.mark.parametrize("times", [None, [0.0], [-0.1, 0.0]], ids=["plain", "one", "two"])
def test_numbers_have_the_types_of_lerobot(tmp_path, version, times):
    """LeRobotDataset calls torch.tensor with Python's numbers, as `datasets` returns them."""
    columns = numbers(9)
    make(tmp_path, (4, 5), version, more=columns)
    deltas = {} if times is None else dict.fromkeys(columns, times)
    loader = Loader.from_lerobot(tmp_path, 9, delta_timestamps=deltas)
    (batch,) = loader
    for name, column in columns.items():
        for i in (0, 5, 8):
            rows = [i] if times is None else [max(i + round(t * FPS), 0 if i < 4 else 4) for t in times]
            wanted = torch.stack([torch.tensor(column[k].tolist()) for k in rows])
            wanted = wanted[0] if times is None else wanted
            for given in (loader.dataset[i][name], batch[name][i]):
                assert given.dtype == wanted.dtype and given.shape == wanted.shape and torch.equal(given, wanted), name


@pytest.mark.parametrize("value, held", [(np.float64(1e100), "float32"), (np.uint64(2**63), "int64")])
def test_numbers_that_samples_cannot_hold_are_refused(tmp_path, value, held):
    column = np.ones(9, value.dtype)
    column[7] = value
    make(tmp_path, (4, 5), more={"x": column})
    with pytest.raises(UnsupportedError, match=re.escape(f"row group 1, column 'x': it holds {value.item()}, and samples hold {held}")):
        Loader.from_lerobot(tmp_path, 1)
    assert len(Loader.from_lerobot(tmp_path, 1, columns=["action"]).dataset) == 9


def stills():
    """Returns files of images with other channels, types and orientations than RGB of 8 bits."""
    rng = np.random.default_rng(SEED)
    four = Image.fromarray(rng.integers(0, 256, (6, 9, 4), dtype=np.uint8))
    turned = Image.Exif()
    turned[0x112] = 6
    made = {mode: (four.convert(mode), "PNG", {}) for mode in ("RGB", "RGBA", "L", "LA", "1")}
    made |= {
        "PNG turned": (four, "PNG", {"exif": turned}),
        "JPEG": (four.convert("RGB"), "JPEG", {}),
        "JPEG gray": (four.convert("L"), "JPEG", {}),
    }
    made |= {"JPEG turned": (four.convert("RGB"), "JPEG", {"exif": turned}), "CMYK": (four.convert("CMYK"), "JPEG", {})}
    made |= {"float": (Image.fromarray(rng.normal(size=(6, 9)).astype(np.float32)), "TIFF", {})}
    files = {}
    for name, (image, form, more) in made.items():
        out = io.BytesIO()
        image.save(out, form, **more)
        files[name] = out.getvalue()
    return files


def as_tensor(data):
    """Returns an image as `datasets` decodes it, with the orientation of EXIF, and as torchvision's ToTensor converts it: only pixels of 8 bits are scaled."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(data)))
    array = np.asarray(image.convert("L") if image.mode == "1" else image)
    array = (array if array.ndim == 3 else array[..., None]).transpose(2, 0, 1)
    return torch.from_numpy(array.copy()).float() / (255 if array.dtype == np.uint8 else 1)


@pytest.mark.parametrize("times", [None, [0.0], [-0.1, 0.0]], ids=["plain", "one", "two"])
def test_images_in_tables_are_those_of_lerobot(tmp_path, times):
    files = stills()
    make(tmp_path, (2,), more={name: [data] * 2 for name, data in files.items()})
    loader = Loader.from_lerobot(tmp_path, 2, delta_timestamps={} if times is None else dict.fromkeys(files, times))
    (batch,) = loader
    for name, data in files.items():
        wanted = as_tensor(data)
        wanted = wanted if times is None else torch.stack([wanted] * len(times))
        for given in (loader.dataset[1][name], batch[name][0]):
            assert given.dtype == torch.float32 and given.shape == wanted.shape, name
            assert torch.allclose(given, wanted, rtol=0, atol=1 / 255 if "JPEG" in name else 1e-7), name


def test_images_of_16_bits_are_refused(tmp_path):
    out = io.BytesIO()
    Image.fromarray(np.full((6, 9), 40_000, np.uint16)).save(out, "PNG")
    make(tmp_path, (2,), more={"depth": [out.getvalue()] * 2})
    with pytest.raises(UnsupportedError, match="the image of 'depth' in frame 0 has pixels of uint16, and those of uint8 and float32"):
        Loader.from_lerobot(tmp_path, 2).dataset[0]


def test_a_damaged_image_is_named(tmp_path):
    out = io.BytesIO()
    Image.fromarray(np.random.default_rng(SEED).integers(0, 256, (20, 30, 3), np.uint8)).save(out, "PNG")
    bad = bytearray(out.getvalue())
    bad[60] ^= 0x55
    make(tmp_path, (3,), more={"still": [out.getvalue(), out.getvalue(), bytes(bad)]})
    said = re.escape(f"{tmp_path}: frame 2, 'still': ")
    with pytest.raises(CorruptError, match=said):
        Loader.from_lerobot(tmp_path, 2).dataset[2]
    with pytest.raises(CorruptError, match=said):
        list(Loader.from_lerobot(tmp_path, 2))


@pytest.mark.parametrize("version", [3, 2])
def test_a_single_time_of_a_video_has_no_dimension(tmp_path, version):
    make(tmp_path, (4, 5), version, cameras=2)
    one, two = "observation.images.cam0", "observation.images.cam1"
    shapes = []

    def transform(frames):
        shapes.append(tuple(frames.shape))
        return frames

    deltas = {one: [-0.1], two: [-0.1, 0.0], "action": [0.0]}
    dataset = Loader.from_lerobot(tmp_path, 2, delta_timestamps=deltas, image_transforms=transform).dataset
    sample = dataset[2]
    assert sample[one].shape == (3, 32, 48) and sample[two].shape == (2, 3, 32, 48) and sample["action"].shape == (1, 2)
    assert sample[f"{one}_is_pad"].tolist() == [False] and dataset[0][f"{one}_is_pad"].tolist() == [True]
    assert torch.equal(sample[one], sample[two][0]) and shapes[:2] == [(3, 32, 48), (2, 3, 32, 48)]
    assert next(iter(Loader.from_lerobot(tmp_path, 3, delta_timestamps=deltas)))[one].shape == (3, 3, 32, 48)


@pytest.mark.parametrize("name", ["subtask", "__index_level_0__"])
def test_subtasks(tmp_path, name):
    make(tmp_path, (4, 5), more={"subtask_index": np.arange(9) % 3})
    assert "subtask" not in Loader.from_lerobot(tmp_path, 1).dataset[0]
    texts = ["reach", "grasp \u00e9", "lift"]
    path = tmp_path / "meta" / "subtasks.parquet"
    robots.pq.write_table(robots.pa.table({"subtask_index": [0, 1, 2], name: texts}), path)
    loader = Loader.from_lerobot(tmp_path, 9)
    (batch,) = loader
    assert batch["subtask"] == texts * 3 and batch["subtask_index"].tolist() == [0, 1, 2] * 3
    assert [loader.dataset[i]["subtask"] for i in (0, 4)] == texts[:2]
    assert "subtask" not in Loader.from_lerobot(tmp_path, 1, columns=["action"]).dataset[0]
    without = Loader.from_lerobot(tmp_path, 9, columns=["action"])
    without.load_state_dict(loader.state_dict())
    loader.load_state_dict(without.state_dict())
    robots.pq.write_table(robots.pa.table({"subtask_index": [0, 1], name: texts[:2]}), path)
    with pytest.raises(CorruptError, match="has the subtask_index 2, and meta/subtasks has no such subtask"):
        Loader.from_lerobot(tmp_path, 1)


@pytest.mark.parametrize("version", [3, 2])
def test_chosen_episodes(tmp_path, version):
    data = make(tmp_path, (7, 12, 5, 4), version)
    dataset = Loader.from_lerobot(tmp_path, 4, episodes=[3, 1], delta_timestamps={"action": [-0.1, 0.1]}).dataset
    rows = [*range(7, 19), *range(24, 28)]
    assert [int(dataset[i]["index"]) for i in range(len(dataset))] == rows
    first = dataset[12]
    assert first["action_is_pad"].tolist() == [True, False] and torch.equal(first["action"][0], torch.as_tensor(data["action"][24]))
    with pytest.raises(InvalidArgumentError, match="no episode 9"):
        Loader.from_lerobot(tmp_path, 4, episodes=[9])


@pytest.mark.parametrize("version", [3, 2])
def test_statistics_are_those_of_the_columns(tmp_path, version):
    data = make(tmp_path, version=version)
    stats = Loader.from_lerobot(tmp_path, 4).stats
    for key in ("action", "observation.state", "grid"):
        for name in ("mean", "std", "min", "max"):
            assert np.allclose(stats[key][name], getattr(data[key], name)(0), atol=1e-6), (key, name)
        assert stats[key]["count"].tolist() == [24]


@pytest.mark.parametrize("without", [0, 1])
def test_statistics_that_some_episodes_lack(tmp_path, without):
    """A feature's statistics are those of the episodes that have some, whichever these are."""
    data = make(tmp_path, version=2)
    path = tmp_path / "meta" / "episodes_stats.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    del rows[without]["stats"]["action"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    stats = Loader.from_lerobot(tmp_path, 4).stats
    kept = data["action"][data["episode_index"].ravel() != without]
    assert np.allclose(stats["action"]["mean"], kept.mean(0), atol=1e-6) and stats["action"]["count"].tolist() == [len(kept)]
    assert stats["grid"]["count"].tolist() == [24]


def test_images_in_tables(tmp_path):
    import io

    from PIL import Image

    data = make(tmp_path, images=1)
    key = "observation.images.still0"
    dataset = Loader.from_lerobot(tmp_path, 4, delta_timestamps={key: [0.0, 0.1]}, image_transforms=lambda x: 1 - x).dataset
    made = dataset[3][key]
    for k, row in enumerate([3, 4]):
        pixels = torch.from_numpy(np.asarray(Image.open(io.BytesIO(data[key][row])))).permute(2, 0, 1) / 255
        assert torch.equal(made[k], 1 - pixels)


@pytest.mark.parametrize("version", [3, 2])
def test_samples_hold_the_frames_of_videos(tmp_path, version):
    import videos

    if not videos.can_decode():
        pytest.skip("there is no ffmpeg, or this build has no video")
    lengths = (7, 12, 5)
    make(tmp_path, lengths, version, cameras=1)
    key = "observation.images.cam0"
    dataset = Loader.from_lerobot(tmp_path, 4, delta_timestamps={key: [-0.1, 0.0]}).dataset
    for i in range(24):
        sample = dataset[i]
        assert sample[key].shape == (2, 3, 32, 48) and sample[key].dtype == torch.float32
        begin = 0 if i < 7 else 7 if i < 19 else 19
        place = [max(i - 1, begin), i]
        for frame, at in zip(sample[key], place, strict=True):
            number = at if version == 3 else at - begin
            assert abs(float(frame.mean()) * 255 - (number * 8 + 20)) < 2
        assert sample[f"{key}_is_pad"].tolist() == [i == begin, False]


def indices(batches):
    return [batch["index"].tolist() for batch in batches]


@pytest.mark.essential
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_frame_once_and_states_continue(tmp_path, shuffle):
    make(tmp_path)
    whole = Loader.from_lerobot(tmp_path, 5, shuffle=shuffle, seed=2)
    epochs = [indices(whole), indices(whole)]
    assert all(sorted(i for batch in e for i in batch) == list(range(24)) for e in epochs)
    assert (epochs[0] == epochs[1]) == (not shuffle)
    for taken in range(6):
        first = Loader.from_lerobot(tmp_path, 5, shuffle=shuffle, seed=2)
        batches = iter(first)
        begun = [next(batches)["index"].tolist() for _ in range(taken)]
        second = Loader.from_lerobot(tmp_path, 5, shuffle=shuffle, seed=7)
        second.load_state_dict(json.loads(json.dumps(first.state_dict())))
        rest = indices(second)
        assert begun + rest == epochs[0] if taken < 5 else rest == epochs[1]


def test_the_epoch_that_a_loop_left_may_be_set_again(tmp_path):
    make(tmp_path)
    whole = Loader.from_lerobot(tmp_path, 5, shuffle=True, seed=2)
    epochs = [indices(whole) for _ in range(2)]
    loader = Loader.from_lerobot(tmp_path, 5, shuffle=True, seed=2)
    for epoch in (0, 0, 1, 1, 0):
        loader.set_epoch(epoch)
        assert indices(itertools.islice(loader, 2)) == epochs[epoch][:2]
    state = loader.state_dict()
    loader = Loader.from_lerobot(tmp_path, 5, shuffle=True, seed=2)
    loader.load_state_dict(state)
    loader.set_epoch(0)  # a trainer that continues a run calls this, and must not lose the position
    iterator = iter(loader)
    loader.set_epoch(0)  # Lightning calls it here
    assert indices(itertools.islice(iterator, 1)) == epochs[0][2:3]
    loader.set_epoch(0)
    assert indices(loader) == epochs[0]


def test_an_iteration_goes_on_if_its_epoch_is_set(tmp_path):
    make(tmp_path)
    whole = Loader.from_lerobot(tmp_path, 5, shuffle=True, seed=2)
    epochs = [indices(whole) for _ in range(3)]
    loader = Loader.from_lerobot(tmp_path, 5, shuffle=True, seed=2)
    for epoch in range(2):
        iterator = iter(loader)
        first = indices(itertools.islice(iterator, 1))
        loader.set_epoch(epoch)
        assert first + indices(iterator) == epochs[epoch]
    iterator = iter(loader)
    next(iterator)
    loader.set_epoch(2)
    next(iterator)
    assert indices(loader) == epochs[2]
    next(iter(loader))
    state = loader.state_dict()
    loader.set_epoch(3)
    loader.load_state_dict(state)
    assert len(indices(loader)) == 4


@pytest.mark.parametrize("begun", [False, True])
def test_set_epoch_does_not_drop_a_state(tmp_path, begun):
    make(tmp_path)
    new = lambda: Loader.from_lerobot(tmp_path, 5, shuffle=True, seed=2)  # noqa: E731
    whole = new()
    epochs = [indices(whole) for _ in range(3)]
    saved = new()
    indices(saved)
    next(iter(saved))
    loader = new()
    loader.load_state_dict(saved.state_dict())
    iterator = iter(loader) if begun else loader
    with pytest.raises(StateError, match=r"set_epoch\(0\): a state in the middle of epoch 1 was loaded"):
        loader.set_epoch(0)
    assert indices(iterator) == epochs[1][1:]
    loader.set_epoch(0)
    assert indices(loader) == epochs[0]
    loader.load_state_dict(saved.state_dict())
    loader.set_epoch(2)  # the saved run has left its epoch early
    assert indices(loader) == epochs[2]


def test_a_position_after_the_last_step_is_in_the_next_epoch(tmp_path):
    """Also if only the number of ranks leaves no step, and if the loader was closed before the iteration has ended."""
    make(tmp_path)
    new = lambda **more: Loader.from_lerobot(tmp_path, 5, shuffle=True, seed=2, **more)  # noqa: E731
    saved = new()
    list(itertools.islice(saved, 4))
    ranks = {"shard": (1, 2), "last_batch": "drop"}
    whole, loader = new(**ranks), new(**ranks)
    epochs = [indices(whole) for _ in range(3)]
    loader.load_state_dict(saved.state_dict())
    assert loader.epoch == 1
    for epoch in (1, 2):
        loader.set_epoch(epoch)
        assert indices(loader) == epochs[epoch]
    for epoch in (0, 1):
        loader.set_epoch(0)
        assert indices(itertools.islice(loader, 2)) == epochs[0]
        loader.close()
        assert loader.epoch == loader.state_dict()["epoch"] == 1
        loader.set_epoch(epoch)
        assert indices(loader) == epochs[epoch]


def test_an_iteration_without_a_batch_begins_no_epoch(tmp_path):
    make(tmp_path)
    loader = Loader.from_lerobot(tmp_path, 5, shuffle=True, seed=2)
    first = indices(Loader.from_lerobot(tmp_path, 5, shuffle=True, seed=2))
    iter(loader)
    loader.set_epoch(0)
    assert indices(itertools.islice(loader, 2)) == first[:2]
    state = loader.state_dict()
    loader.load_state_dict(state)
    iter(loader)
    loader.set_epoch(0)
    assert indices(loader) == first[2:]


def test_a_thread_in_an_earlier_epoch_does_not_change_the_order(tmp_path):
    """A thread that still makes a batch of an epoch that the loop has left replaces the loader's order while another thread uses it."""
    make(tmp_path)
    loader = Loader.from_lerobot(tmp_path, 5, shuffle=True, seed=2)
    want = [loader._ids(epoch, 0)[0].tolist() for epoch in (0, 1)]

    class Busy:
        def __len__(self):
            if not done:
                done.append(True)
                assert loader._ids(0, 0)[0].tolist() == want[0]
            return 24

    done = [True]
    loader.dataset = Busy()
    loader._ids(1, 0)
    done.clear()
    assert loader._ids(1, 0)[0].tolist() == want[1]


@pytest.mark.parametrize("before, after", [(2, 1), (1, 2), (2, 3)])
def test_other_numbers_of_ranks_continue(tmp_path, before, after):
    make(tmp_path)

    def run(world, state, steps):
        taken, states = [], []
        for rank in range(world):
            loader = Loader.from_lerobot(tmp_path, 2, shuffle=True, seed=2, shard=(rank, world), last_batch="drop")
            if state:
                loader.load_state_dict(state)
            batches = iter(loader)
            taken += (
                [i for _ in range(steps) for i in next(batches)["index"].tolist()] if steps else [i for b in indices(batches) for i in b]
            )
            states.append(loader.state_dict())
        return taken, states[0]

    first, state = run(before, None, 3)
    second, _ = run(after, state, 0)
    assert len({*first, *second}) == len(first) + len(second) and 24 - len(first) - len(second) < 2 * after


def test_random_transforms_can_be_repeated(tmp_path):
    """Draws depend on the sample, its epoch and its camera, and not on threads, ranks, cameras that are left out, or where a run was resumed."""
    make(tmp_path, (7, 12, 5), images=2)
    keys = ["observation.images.still0", "observation.images.still1"]

    def numbered(frames):
        return frames[:, :1, :1] * 0 + float(stoker.sample_rng().random())

    def loader(batch=4, **more):
        return Loader.from_lerobot(tmp_path, batch, image_transforms=numbered, shuffle=True, seed=5, **more)

    def draws(batches, keys=keys):
        return [(int(i), *(float(b[k][n, 0, 0, 0]) for k in keys)) for b in batches for n, i in enumerate(b["index"])]

    first = loader(num_threads=1)
    wanted, second = draws(first), draws(first)
    assert len({number for _, *both in wanted + second for number in both}) == 2 * 48
    assert draws(loader(num_threads=3)) == wanted
    assert draws(loader(columns=keys[1:]), keys[1:]) == [(i, b) for i, _, b in wanted]
    assert sorted(d for rank in range(2) for d in draws(loader(2, shard=(rank, 2)))) == sorted(wanted)
    begun, other = loader(), loader(8)
    steps = iter(begun)
    taken = draws([next(steps), next(steps)])
    other.load_state_dict(begun.state_dict())
    assert taken + draws(other) == wanted


@pytest.mark.parametrize("version", [3, 2])
@pytest.mark.parametrize("shuffle", [True, False])
def test_threads_do_not_change_frames(tmp_path, version, shuffle):
    """Batches are the same with any number of threads, which share the frames of each batch among them."""
    make_with_videos(tmp_path, (7, 12, 30), version, cameras=2, images=1)
    deltas = {"observation.images.cam0": [-0.2, 0.0, 0.1], "observation.images.still0": [0.0, 0.1]}

    def batches(threads, **more):
        return list(Loader.from_lerobot(tmp_path, 8, delta_timestamps=deltas, shuffle=shuffle, seed=3, num_threads=threads, **more))

    wanted = batches(1)
    assert len(wanted) == 7
    for got in (batches(2), batches(7), batches(16)):
        for one, other in zip(got, wanted, strict=True):
            assert one.keys() == other.keys()
            assert all(torch.equal(one[k], v) if isinstance(v, torch.Tensor) else one[k] == v for k, v in other.items())
    turned = batches(5, image_transforms=lambda frames: 1 - frames)
    assert all(torch.equal(a[k], 1 - b[k]) for a, b in zip(turned, wanted, strict=True) for k in b if "images" in k and "pad" not in k)


def test_one_batch_is_decoded_on_several_threads(tmp_path, monkeypatch):
    """Two threads decode frames of one video for the same batch at the same time."""
    from stoker._video import VideoDecoder

    make_with_videos(tmp_path, (40,), cameras=1)
    met, read = threading.Barrier(2, timeout=60), VideoDecoder.get_frames_at

    def read_together(self, numbers):
        met.wait()
        return read(self, numbers)

    monkeypatch.setattr(VideoDecoder, "get_frames_at", read_together)
    (batch,) = Loader.from_lerobot(tmp_path, 40, shuffle=True, seed=1, num_threads=2)
    monkeypatch.undo()
    (wanted,) = Loader.from_lerobot(tmp_path, 40, shuffle=True, seed=1, num_threads=1)
    assert torch.equal(batch["observation.images.cam0"], wanted["observation.images.cam0"])


def test_frames_in_order_are_decoded_once(tmp_path):
    """Frames after one key frame are decoded by one decoder, because each other decoder would begin at the key frame. A thread waits for it."""
    from stoker.loader.sources._robot_cameras import Rows, Shown, decode, parts_of

    path = make_with_videos(tmp_path, (60,), cameras=1, gop=60)
    loader = Loader.from_lerobot(tmp_path, 4, num_threads=1)
    assert [b["index"].tolist() for b in loader] == [[*range(4 * k, 4 * k + 4)] for k in range(15)]
    videos, got = loader.dataset._videos, []
    (used,) = videos._open
    assert used.decoder.counters["packets_decoded"] < 80, "each batch began at the key frame"
    assert videos.key_seconds(path, "cpu") == pytest.approx(6.0)
    with videos.decoder(path, "cpu", 0.0, 1.0) as first:

        def take():
            with videos.decoder(path, "cpu", 1.1, 1.2) as decoder:
                got.append(decoder)

        thread = threading.Thread(target=take)
        thread.start()
        with videos.decoder(path, "cpu", 0.5, 2.0) as other:
            assert other is not first and not got
    thread.join(60)
    assert got == [first]
    frames = [Shown(path, k / FPS, k, "") for k in range(60)]
    assert [len(part) for part in parts_of(frames, videos, "cpu", 4)] == [60]
    videos._key_seconds[path] = 2 / FPS
    assert [len(part) for part in parts_of(frames[::-1], videos, "cpu", 4)] == [15] * 4
    assert [[f.row for f in part] for part in parts_of(frames[::10], videos, "cpu", 3)] == [[0, 10], [20, 30], [40, 50]]
    rows = Rows("frames", (60,), "cpu", loader.dataset._buffers)
    for part in parts_of(frames, videos, "cpu", 4):
        decode(part, videos, "cpu", FPS, 1e-4, rows)
    assert torch.equal(rows.tensor(), torch.cat([b["observation.images.cam0"] for b in Loader.from_lerobot(tmp_path, 4, num_threads=1)]))


def test_decoders_of_a_fork_are_opened_again(tmp_path):
    """A decoder that a thread was using when the process was forked is never given back in the child, which opens its own, also on several threads."""
    from stoker.loader.sources._robot_cameras import Videos

    path, videos = make_with_videos(tmp_path, (20,), cameras=1), Videos()

    def read(lengths):
        with videos.decoder(path, "cpu", 1.0, 1.0) as decoder:
            lengths.append(len(decoder))

    with videos.decoder(path, "cpu", 0.0, 1.0):
        child = os.fork()
        if child == 0:
            lengths = []
            try:
                threads = [threading.Thread(target=read, args=(lengths,), daemon=True) for _ in range(4)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(30)
            finally:
                os._exit(0 if lengths == [20] * 4 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with videos.decoder(path, "cpu", 0.0, 0.0) as one, videos.decoder(path, "cpu", 1.0, 1.0) as other:
        assert one is not other and len(videos._open) == 2
    with videos.decoder(path, "cpu", 1.0, 1.1) as decoder:
        assert decoder is other and len(videos._open) == 2
    videos.close()
    assert not videos._open


def test_a_decoder_that_is_never_given_back_is_not_waited_for(tmp_path, monkeypatch):
    """An interrupt may end a thread's use of a decoder without a trace."""
    from stoker.loader.sources import _robot_cameras

    path, videos = make_with_videos(tmp_path, (20,), cameras=1), _robot_cameras.Videos()
    monkeypatch.setattr(_robot_cameras, "_LONGEST_WAIT", 0.05)
    lost = videos.decoder(path, "cpu", 0.0, 0.1)
    with lost as first, videos.decoder(path, "cpu", 0.1, 0.2) as second:
        assert second is not first and len(videos._open) == 1
    assert [o.decoder for o in videos._open] == [second]


def test_padded_batches(tmp_path):
    make(tmp_path)
    loaders = [Loader.from_lerobot(tmp_path, 5, shard=(r, 2), last_batch="pad") for r in range(2)]
    seen = [i for loader in loaders for b in loader for i, v in zip(b["index"].tolist(), b["valid"].tolist(), strict=True) if v]
    assert sorted(seen) == list(range(24)) and all(len(loader) == 3 for loader in loaders)


def test_threads_are_auto_or_a_number(tmp_path, monkeypatch):
    data = make(tmp_path, (7, 12))
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    alone = Loader.from_lerobot(tmp_path, 4, num_threads="auto")
    assert alone._count == _core.machine()["threads"]
    assert torch.equal(torch.cat([b["action"] for b in alone]), torch.as_tensor(data["action"]))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(10**6))
    assert Loader.from_lerobot(tmp_path, 4, num_threads="auto")._count == 1
    for given in ("all", 0, 257, True, None):
        with pytest.raises(InvalidArgumentError, match='num_threads is "auto" or from 1 to 256, not'):
            Loader.from_lerobot(tmp_path, 4, num_threads=given)


def test_mixtures_of_robots(tmp_path):
    make(tmp_path / "a")
    make(tmp_path / "b", seed=9)
    mixed = Loader.mix([(Loader.from_lerobot(tmp_path / n, 4), 0.5) for n in "ab"], steps=8)
    assert len(indices(mixed)) == 8


def test_what_frameworks_ask_for_is_answered_with_a_way_out(tmp_path):
    make(tmp_path)
    loader = Loader.from_lerobot(tmp_path, 4)
    mixed = Loader.mix([(loader, 1)])
    assert len(next(iter(loader))["index"]) == 4
    for of, name, message in (
        (loader, "sampler", r"'RobotLoader' object has no attribute 'sampler': .*loader.set_epoch\(epoch\) sets the epoch"),
        (loader, "as_dataloader", r"torch.utils.data.DataLoader\(loader.dataset, ...\)"),
        (loader, "samplr", "^'RobotLoader' object has no attribute 'samplr'$"),
        (mixed, "sampler", r"'Mixture' object has no attribute 'sampler': .*leave out sampler.set_epoch\(\)"),
        (mixed, "dataset", r"mixture.loaders\[0\].dataset"),
        (mixed, "num_workers", "mixture.loaders are its Loaders"),
        (mixed, "datasets", "^'Mixture' object has no attribute 'datasets'$"),
    ):
        assert not hasattr(of, name)
        with pytest.raises(AttributeError, match=message):
            getattr(of, name)
    for do in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match=r"a Loader of robot data cannot be pickled or copied: .*Make it in the process that uses it"):
            do(loader)


def test_processes_of_a_dataloader_take_the_data_set(tmp_path):
    import videos

    make(tmp_path, cameras=int(videos.can_decode()))
    dataset = Loader.from_lerobot(tmp_path, 4).dataset
    want = [dataset[i] for i in range(len(dataset))]
    workers = torch.utils.data.DataLoader(dataset, None, num_workers=1, multiprocessing_context="spawn")
    for samples in (workers, copy.deepcopy(dataset)):
        got = [samples[i] for i in range(len(want))] if samples is not workers else list(samples)
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            assert one.keys() == other.keys()
            assert all(torch.equal(one[k], v) if isinstance(v, torch.Tensor) else one[k] == v for k, v in other.items())


@pytest.mark.parametrize("version", [3, 2])
def test_the_command_inspects_robots(tmp_path, version):
    def inspect(*arguments):
        command = [sys.executable, "-m", "stoker", "inspect", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=300)

    make(tmp_path, version=version)
    dataset = Loader.from_lerobot(tmp_path, 4).dataset
    said = inspect(tmp_path)
    assert not said.stderr and said.returncode == 0
    first, *rest = said.stdout.splitlines()
    assert first.startswith(
        f"LeRobot {'v3.0' if version == 3 else 'v2.1'}: {dataset.num_episodes} episodes, {dataset.num_frames} frames at {FPS} Hz"
    )
    assert [line.split()[0] for line in rest] == list(dataset.features)
    facts = json.loads(inspect("--json", tmp_path).stdout)
    assert (facts["episodes"], facts["frames"], facts["tasks"]) == (dataset.num_episodes, dataset.num_frames, list(TASKS))
    (tmp_path / "meta" / "info.json").write_text("{}")
    failed = inspect(tmp_path)
    assert failed.returncode == 1 and failed.stderr.startswith("stoker inspect: ") and not failed.stdout


MASKS = [[True, False, True], np.array([True, False, True]), torch.tensor([True, False, True])]  # of episodes; true is no number here


@pytest.mark.parametrize("version", [3, 2])
@pytest.mark.parametrize("cameras", [0, 1])
def test_a_loader_of_files_names_from_lerobot(tmp_path, version, cameras):
    make(tmp_path, version=version, cameras=cameras)
    makes = [Loader, Loader.from_parquet]
    makes += [
        lambda folder, size, more=more: Loader(folder, size, **more) for more in ({"fields": {"audio": stoker.Audio()}}, {"frames": 2})
    ]
    for of_files in makes:
        with pytest.raises(InvalidArgumentError, match=rf"holds a LeRobot data set.*: Loader.from_lerobot\('{tmp_path}', batch_size, "):
            of_files(str(tmp_path), 4)


def test_what_is_refused(tmp_path):
    with pytest.raises(NotFoundError, match=r"info.json: it does not exist"):
        Loader.from_lerobot(tmp_path, 4)
    make(tmp_path)
    for more, said in [
        ({"delta_timestamps": {"action": [0.05]}}, "not a multiple of the 0.1 s"),
        ({"delta_timestamps": {"acton": [0.1]}}, "no 'acton'"),
        ({"delta_timestamps": {"action": []}}, "has no times"),
        ({"delta_timestamps": {"action": 0.1}}, r"a list of times in seconds, as \[0.0, 0.1\], not 0.1"),
        ({"delta_timestamps": {"action": "0.1"}}, "a list of times in seconds"),
        ({"delta_timestamps": {"action": ["0.1"]}}, "'0.1' is not a time"),
        ({"delta_timestamps": {"action": [True]}}, "True is not a time"),
        ({"delta_timestamps": {"action": [float("nan")]}}, "nan is not a time"),
        ({"delta_timestamps": {"action": [1e30]}}, "farther away than an episode"),
        ({"delta_timestamps": {"action": [-(10**400)]}}, "is not a time"),
        ({"delta_timestamps": [0.1]}, "a dict from keys to times"),
        ({"columns": ["acton"]}, "no 'acton'"),
        ({"columns": "action"}, r"columns is a list of keys, as \['action'\], not 'action'"),
        ({"columns": 3}, "columns is a list of keys"),
        ({"shuffle": "groups"}, "Loader.from_lerobot: shuffle is True or False, not 'groups'"),
        ({"drop_last": "no"}, "Loader.from_lerobot: drop_last is True or False, not 'no'"),
        ({"episodes": 1}, r"episodes is a list of the numbers of episodes, as \[0, 3\], not 1"),
        ({"episodes": "0"}, "episodes is a list"),
        ({"episodes": [[0]]}, r"no episode \[0\]"),
        *(({"episodes": mask}, r"not of booleans; for a mask give np.flatnonzero\(mask\)") for mask in MASKS),
        ({"image_transforms": [abs]}, "image_transforms is a function"),
        ({"batch_size": 100, "last_batch": "drop"}, "too few samples for one batch"),
    ]:
        with pytest.raises(InvalidArgumentError, match=said):
            Loader.from_lerobot(tmp_path, **{"batch_size": 4, **more})
    with pytest.raises(UnsupportedError, match="local folders"):
        Loader.from_lerobot("s3://bucket/set", 4)
    state = Loader.from_lerobot(tmp_path, 4).state_dict()
    with pytest.raises(StateError, match="give the episodes"):
        Loader.from_lerobot(tmp_path, 4, episodes=[0]).load_state_dict(state)
    with pytest.raises(StateError, match="damaged"):
        Loader.from_lerobot(tmp_path, 4).load_state_dict({**state, "consumed": "x"})
    info = json.loads((tmp_path / "meta" / "info.json").read_text())
    (tmp_path / "meta" / "info.json").write_text(json.dumps({**info, "codebase_version": "v1.6"}))
    with pytest.raises(UnsupportedError, match=r"v1\.6"):
        Loader.from_lerobot(tmp_path, 4)


def test_a_gpu_that_torch_does_not_find_is_refused_at_once(tmp_path, monkeypatch):
    make(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for device in ("cuda", "cuda:0", torch.device("cuda")):
        with pytest.raises(NotFoundError, match=r"Loader\.from_lerobot: device='cuda.*', and torch finds no CUDA: leave device out"):
            Loader.from_lerobot(tmp_path, 2, device=device)
    assert len(Loader.from_lerobot(tmp_path, 2, device="cpu")) > 0


def test_a_loader_that_is_closed_between_two_batches(tmp_path):
    make(tmp_path, (20, 20))
    loader = Loader.from_lerobot(tmp_path, 4)
    batches = iter(loader)
    next(batches)
    loader.close()
    with pytest.raises(StateError, match="it was closed"):
        next(batches)
    begun = iter(loader)
    loader.close()
    with pytest.raises(StateError, match="it was closed"):
        next(begun)
    assert loader._team is None, "an iteration that has ended started threads"
    assert len(list(loader)) == 9


@pytest.mark.parametrize("threads", [1, 3])
def test_close_also_closes_videos_that_are_being_decoded(tmp_path, monkeypatch, threads):
    """close() does not wait for the threads. Their videos are closed when they are done."""
    from stoker import _video

    make_with_videos(tmp_path, (60,), cameras=2)
    alive, begun, go_on = weakref.WeakSet(), threading.Event(), threading.Event()

    class Decoder(_video.VideoDecoder):
        def __init__(self, *arguments, **more):
            super().__init__(*arguments, **more)
            alive.add(self)

        def get_frames_at(self, frames):
            if max(frames) > 20:
                begun.set()
                assert go_on.wait(60)
            return super().get_frames_at(frames)

    monkeypatch.setattr(_video, "VideoDecoder", Decoder)
    loader, before = Loader.from_lerobot(tmp_path, 8, num_threads=threads), threading.enumerate()
    batches = iter(loader)
    got = indices(next(batches) for _ in range(2))
    assert begun.wait(60) and alive
    loader.close()
    assert alive, "close() waited"
    go_on.set()
    for thread in threading.enumerate():
        if thread.name == "stoker-dataset" and thread not in before:
            thread.join(60)
    assert not alive
    assert got + indices(loader) == [[*range(k, min(k + 8, 60))] for k in range(0, 60, 8)]
    loader.close()


def test_a_forked_child_is_refused(tmp_path):
    """The child has none of the threads, so a wait for a batch would not end."""
    make(tmp_path)
    loader = Loader.from_lerobot(tmp_path, 3)
    batches = iter(loader)
    begun = indices([next(batches)])
    child = os.fork()
    if child == 0:
        try:
            for take in (lambda: next(batches), lambda: next(iter(loader))):
                with pytest.raises(StateError, match="after a fork, make a new one in the child"):
                    take()
            loader.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert begun + indices(batches) == indices(Loader.from_lerobot(tmp_path, 3))


def test_an_interrupt_neither_loses_nor_repeats_a_batch(tmp_path):
    """Raises KeyboardInterrupt after each C function that next() calls, as the handler of Ctrl-C may do, and continues the loop."""
    make(tmp_path)
    whole = indices(Loader.from_lerobot(tmp_path, 3))
    calls = 0  # of C functions

    def interrupt(frame, event, _):
        nonlocal calls
        if event == "c_return" and frame.f_code.co_filename.endswith("_robot_loader.py"):
            calls += 1
            if calls == at:
                raise KeyboardInterrupt

    for at in range(1, 100):
        calls, before = 0, sys.getprofile()
        with Loader.from_lerobot(tmp_path, 3, num_threads=1) as loader:
            batches = iter(loader)
            taken = [next(batches), next(batches)]
            sys.setprofile(interrupt)
            try:
                taken.append(next(batches))
            except KeyboardInterrupt:
                assert loader.state_dict()["consumed"] == 6
            finally:
                sys.setprofile(before)
            assert indices(taken) + indices(batches) == whole, at
        if calls < at:
            break
    assert at > 5


def test_times_may_be_numbers_of_numpy_and_torch(tmp_path):
    make(tmp_path)
    want = Loader.from_lerobot(tmp_path, 4, delta_timestamps={"action": [0.0, 0.1]}).dataset[3]["action"]
    for times in (np.array([0, 0.1], np.float32), np.array([0.0, 0.1]), torch.tensor([0, 0.1]), (0, 0.1)):
        assert torch.equal(Loader.from_lerobot(tmp_path, 4, delta_timestamps={"action": times}).dataset[3]["action"], want)


@pytest.mark.parametrize(
    ("transform", "error", "said"),
    [
        (lambda frame: None, TypeError, r"returned None for the frames of 'observation.images.still0', of shape \(3, 8, 8\)"),
        (lambda frame: frame.numpy(), TypeError, "returned a ndarray"),
        (lambda frame: frame[:, : 4 + int(frame.sum()) % 2], ValueError, "for one sample of a batch"),
    ],
    ids=["none", "array", "shapes"],
)
def test_transforms_that_return_something_else(tmp_path, transform, error, said):
    make(tmp_path, (20, 20), images=1)
    with pytest.raises(error, match=said):
        list(Loader.from_lerobot(tmp_path, 8, image_transforms=transform))


@pytest.mark.parametrize("what", ["rows", "shape", "cut"])
def test_tables_that_contradict_the_metadata(tmp_path, what):
    make(tmp_path)
    path = tmp_path / "data" / "chunk-000" / "file-000.parquet"
    if what == "cut":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        table = robots.pq.read_table(path)
        if what == "rows":
            table = table.slice(1)
        else:
            short = robots.pa.array([[0.0]] * table.num_rows, robots.pa.list_(robots.pa.float32()))
            table = table.set_column(table.schema.get_field_index("action"), "action", short)
        robots.pq.write_table(table, path)
    with pytest.raises(CorruptError):
        Loader.from_lerobot(tmp_path, 4)


@pytest.mark.parametrize("transform", [None, lambda frame: frame])
def test_memory_of_frames_is_used_again_only_if_nothing_holds_it(tmp_path, transform):
    make(tmp_path, (20, 20), images=1)
    key = "observation.images.still0"
    loader = Loader.from_lerobot(tmp_path, 4, image_transforms=transform)
    batches, parts = [], []
    for k, batch in enumerate(loader):
        if k % 2:
            batches.append((k, batch[key]))
        else:
            parts.append((k, batch[key][1:2].numpy()))  # the NumPy array also keeps the batch's memory alive
    for k, frames in batches:
        assert torch.equal(frames, loader.dataset.batch(range(4 * k, 4 * k + 4))[key])
    for k, part in parts:
        assert torch.equal(torch.from_numpy(part), loader.dataset.batch([4 * k + 1])[key])
    del batches, parts, frames, part, batch
    places = {loader.dataset.batch(range(4))[key].data_ptr() for _ in range(6)}
    assert transform or len(places) < 6


# ---- damaged metadata ----

INFO, DATA, EPISODES = "meta/info.json", "data/chunk-000/file-000.parquet", "meta/episodes/chunk-000/file-000.parquet"
CAMERA = "observation.images.cam0"


def info(**changes):
    """Returns a function that changes meta/info.json of a data set; a value of None removes the key."""

    def change(root):
        found = {**json.loads((root / INFO).read_text()), **changes}
        (root / INFO).write_text(json.dumps({k: v for k, v in found.items() if v is not None}))

    return change


def feature(name, **changes):
    """Returns a function that changes a feature in meta/info.json; a value of None removes the key. Without changes the function removes the feature."""

    def change(root):
        found = json.loads((root / INFO).read_text())
        made = {k: v for k, v in {**found["features"].pop(name), **changes}.items() if v is not None}
        found["features"] |= {name: made} if changes else {}
        (root / INFO).write_text(json.dumps(found))

    return change


def rows(path, change):
    """Returns a function that replaces the rows of a table of a data set by change(rows). Each row is a dict."""

    def apply(root):
        table = robots.pq.read_table(root / path)
        robots.pq.write_table(robots.pa.Table.from_pylist(change(table.to_pylist()), table.schema), root / path)

    return apply


def every(name, value):
    return lambda found: [{**row, name: value(k, row) if callable(value) else value} for k, row in enumerate(found)]


def without(path, name):
    def change(root):
        robots.pq.write_table(robots.pq.read_table(root / path).drop_columns([name]), root / path)

    return change


def lines(name, change):
    def apply(root):
        path = root / "meta" / name
        path.write_text("\n".join(json.dumps(row) for row in change([json.loads(line) for line in path.read_text().splitlines()])))

    return apply


def data(path, content):
    return lambda root: (root / path).write_bytes(content)


def not_utf8(path, name):
    """Returns a function that replaces the last text of a column by bytes that are not UTF-8."""

    def change(root):
        table = robots.pq.read_table(root / path)
        column = robots.pa.array([*(t.encode() for t in table[name].to_pylist()[:-1]), b"\xff\xfe"]).view(robots.pa.string())
        robots.pq.write_table(table.set_column(table.column_names.index(name), name, column), root / path)

    return change


def cameras(root):
    """Adds a column of texts to the tables of episodes."""
    table = robots.pq.read_table(root / EPISODES)
    robots.pq.write_table(table.append_column("place", robots.pa.array(["here"] * len(table))), root / EPISODES)
    not_utf8(EPISODES, "place")(root)


DAMAGED_V3 = {
    "half_a_character_as_dtype": (feature("action", dtype="\ud800"), r"'action' has the dtype '\ud800'"),
    "code_as_dtype": (feature("action", dtype="(1,"), "'action' has the dtype '(1,'"),
    "two_dims_of_time": (feature("timestamp", shape=[1, 1]), "'timestamp' has the dtype 'float32' and the shape [1, 1]"),
    "a_text_as_index": (feature("index", dtype="string"), "'index' has the dtype 'string'"),
    "tasks_are_not_utf8": (not_utf8("meta/tasks.parquet", "task"), "tasks.parquet: it holds a text that is not UTF-8"),
    "episodes_are_not_utf8": (cameras, "file-000.parquet: it holds a text that is not UTF-8"),
    "a_task_is_null": (rows("meta/tasks.parquet", every("task", None)), "tasks.parquet: task_index 0: its 'task' is None"),
    "a_task_number_is_null": (rows("meta/tasks.parquet", every("task_index", None)), "tasks.parquet: its 'task_index' is None"),
    "a_task_twice": (rows("meta/tasks.parquet", every("task_index", 1)), "tasks.parquet: task_index 1 is listed twice: as "),
    "info_is_a_list": (data(INFO, b"[1]"), "not a JSON object"),
    "info_is_not_text": (data(INFO, b"\xff{"), "not JSON"),
    "fps_is_text": (info(fps="10"), "no frames a second"),
    "fps_is_no_number": (info(fps=float("nan")), "no frames a second"),
    "features_are_a_list": (info(features=[1]), "features are list"),
    "no_dtype": (feature("action", dtype=None), "'action' has the dtype None"),
    "unknown_dtype": (feature("action", dtype="floaty"), "'action' has the dtype 'floaty'"),
    "no_shape": (feature("action", shape=None), "'action' has the shape None"),
    "no_timestamp": (feature("timestamp"), "no 'timestamp'"),
    "paths": (info(data_path="data/{nope}.parquet"), "data_path is 'data/{nope}.parquet'"),
    "version_2.0": (info(codebase_version="v2.0"), "2.1 are read"),
    "fewer_frames": (info(total_frames=5), "total_frames is 5"),
    "more_episodes": (info(total_episodes=9), "total_episodes is 9"),
    "a_task_is_missing": (rows("meta/tasks.parquet", lambda r: r[:1]), "frame 0 of episode 1 has the task_index 1"),
    "tasks_are_no_table": (data("meta/tasks.parquet", b"junk" * 9), "tasks.parquet: it does not end in PAR1"),
    "episodes_are_no_table": (data(EPISODES, b"junk" * 9), "file-000.parquet: it does not end in PAR1"),
    "an_episode_is_missing": (rows(EPISODES, lambda r: [r[0], r[2]]), "episode 1 is not listed"),
    "an_episode_twice": (rows(EPISODES, lambda r: [*r, r[1]]), "episode 1 is listed twice"),
    "an_end_is_negative": (rows(EPISODES, every("dataset_to_index", -4)), "'dataset_to_index' is -4"),
    "an_end_is_null": (rows(EPISODES, every("dataset_to_index", None)), "'dataset_to_index' is None"),
    "an_end_before_its_begin": (rows(EPISODES, every("dataset_to_index", 0)), "begins at frame 7 and ends at frame 0"),
    "no_column_of_ends": (without(EPISODES, "dataset_to_index"), "'dataset_to_index' is None"),
    "no_column_of_files": (without(EPISODES, "data/file_index"), "episode 0: its 'data/file_index' is None"),
    "negative_times": (rows(DATA, every("timestamp", lambda k, row: -row["timestamp"])), "frame 1 of episode 0 has the timestamp -0.1"),
    "times_are_no_numbers": (rows(DATA, every("timestamp", float("nan"))), "frame 0 of episode 0 has the timestamp nan"),
    "a_larger_fps": (
        info(fps=30),
        "most frames of episode 0 are about 0.1 s apart by their timestamps, and 0.0333 s by the fps of meta/info.json, 30: correct",
    ),
    "a_smaller_fps": (info(fps=5), "are about 0.1 s apart by their timestamps, and 0.2 s by the fps of meta/info.json, 5: "),
    "an_fps_that_differs_little": (
        info(fps=12),
        "are about 0.1 s apart by their timestamps, and 0.0833 s by the fps of meta/info.json, 12: ",
    ),
    "the_rate_of_one_episode": (
        rows(DATA, every("timestamp", lambda k, row: row["frame_index"] / (20 if row["episode_index"] == 1 else 10))),
        "most frames of episode 1 are about 0.05 s apart by their timestamps, and 0.1 s by ",
    ),
    "times_of_another_order": (
        rows(DATA, every("timestamp", lambda k, row: (12 - row["frame_index"]) / 10)),
        "most frames of episode 0 are about -0.1 s apart ",
    ),
    "times_stand_still": (rows(DATA, every("timestamp", 0.0)), "most frames of episode 0 are about 0 s apart "),
    "frame_numbers": (rows(DATA, every("frame_index", 0)), "frame 1 of episode 0 has the frame_index 0"),
    "episode_numbers": (rows(DATA, every("episode_index", 0)), "frame 0 of episode 1 has the episode_index 0"),
    "an_unknown_task": (rows(DATA, every("task_index", 77)), "frame 0 of episode 0 has the task_index 77"),
    "a_null": (rows(DATA, every("action", None)), "row group 0, column 'action': a value is null"),
    "too_few_rows": (rows(DATA, lambda r: r[:-3]), "hold 21 frames of the chosen episodes, and meta says 24"),
    "statistics_are_a_list": (data("meta/stats.json", b"[1]"), "stats.json: it holds list"),
    "statistics_are_ragged": (data("meta/stats.json", b'{"action": {"mean": [1, [2]]}}'), "statistics of 'action' are damaged"),
}
DAMAGED_V2 = {
    "no_task": (lines("tasks.jsonl", lambda r: [{"task_index": 0, "x": "pick"}, *r[1:]]), "task_index 0: its 'task' is None"),
    "a_task_is_a_number": (lines("tasks.jsonl", lambda r: [{"task_index": 0, "task": 5}, *r[1:]]), "task_index 0: its 'task' is 5"),
    "a_task_is_a_list": (lines("tasks.jsonl", lambda r: [{"task_index": 0, "task": []}, *r[1:]]), "task_index 0: its 'task' is []"),
    "half_a_character": (lines("tasks.jsonl", lambda r: [{"task_index": 0, "task": "\ud800"}, *r[1:]]), r"its 'task' is '\ud800'"),
    "a_task_twice": (lines("tasks.jsonl", lambda r: [{"task_index": 1, "task": "a"}, *r]), "task_index 1 is listed twice: as 'a' and as "),
    "an_episode_is_missing": (lines("episodes.jsonl", lambda r: [r[0], r[2]]), "episode 1 is not listed"),
    "an_episode_twice": (lines("episodes.jsonl", lambda r: [*r, r[1]]), "episode 1 is listed twice"),
    "another_length": (lines("episodes.jsonl", lambda r: [{**r[0], "length": 3}, *r[1:]]), "total_frames is 24"),
    "a_negative_length": (lines("episodes.jsonl", lambda r: [{**r[0], "length": -3}, *r[1:]]), "episode 0: its 'length' is -3"),
    "no_length": (lines("episodes.jsonl", lambda r: [{"episode_index": 0}]), "episode 0: its 'length' is None"),
    "rows_are_lists": (lines("episodes.jsonl", lambda r: [[1]]), "episodes.jsonl:1: it holds list"),
    "tasks_have_no_number": (lines("tasks.jsonl", lambda r: [{"task": "x"}]), "'task_index' is None"),
    "statistics": (lines("episodes_stats.jsonl", lambda r: [{"stats": {"action": {"mean": [1]}}}]), "statistics of 'action' are damaged"),
    "folders_of_no_episodes": (info(chunks_size=0), "chunks_size is 0"),
}


@pytest.mark.parametrize("version, name", [(3, n) for n in DAMAGED_V3] + [(2, n) for n in DAMAGED_V2])
def test_damaged_metadata_is_refused(tmp_path, version, name):
    """The error is one of Stoker's classes, names the wrong file or frame, and is raised when the Loader is made."""
    make(tmp_path, version=version)
    damage, said = {3: DAMAGED_V3, 2: DAMAGED_V2}[version][name]
    damage(tmp_path)
    with pytest.raises((CorruptError, UnsupportedError), match=re.escape(said)):
        Loader.from_lerobot(tmp_path, 4)


@pytest.mark.parametrize("fps, tolerance_s, jitter", [(10, 1e-4, 0.04), (10, 0.2, 0.15), (1000, 1e-4, 0.0004)])
def test_times_that_differ_little_from_the_rate_are_read(tmp_path, rng, fps, tolerance_s, jitter):
    times = np.arange(24) / fps + np.repeat(rng.uniform(0, jitter, 12), 2) * (np.arange(24) % 2)
    make(tmp_path, (24,))
    info(fps=fps)(tmp_path)
    rows(DATA, every("timestamp", lambda k, row: times[k]))(tmp_path)
    found = [t for batch in Loader.from_lerobot(tmp_path, 4, tolerance_s=tolerance_s) for t in batch["timestamp"].tolist()]
    assert np.array_equal(np.array(found, np.float32), times.astype(np.float32))


# For each irregularity of clocks: how much later than nominal the frames of an episode are, in seconds at 30 Hz.
CLOCKS = {
    "jitter": lambda rng, n: rng.uniform(-0.01, 0.01, n),
    "a frame was dropped": lambda rng, n: (np.arange(n) >= n // 2) / 30,
    "a pause": lambda rng, n: (np.arange(n) >= n // 3) * 3.0,
    "many frames were dropped": lambda rng, n: np.cumsum(np.arange(n) % 5 == 4) / 30,
    "a frame was dropped, and jitter": lambda rng, n: (np.arange(n) >= n // 2) / 30 + rng.uniform(-0.01, 0.01, n),
}


@pytest.mark.parametrize("clock", list(CLOCKS))
def test_times_of_real_clocks_are_read(tmp_path, rng, clock):
    """A gap or jitter does not make the rate wrong, and offsets count frames, as in LeRobot 3.0."""
    lengths = (200, 7)
    times = np.concatenate([1 + np.arange(n) / 30 + CLOCKS[clock](rng, n) for n in lengths])
    make(tmp_path, lengths)
    info(fps=30)(tmp_path)
    rows(DATA, every("timestamp", lambda k, row: times[k]))(tmp_path)
    whole = Loader.from_lerobot(tmp_path, 207)
    assert np.array_equal(next(iter(whole))["timestamp"].numpy(), times.astype(np.float32))
    before = next(iter(Loader.from_lerobot(tmp_path, 207, delta_timestamps={"action": [-1 / 30, 0]})))
    action = next(iter(whole))["action"]
    assert torch.equal(before["action"][:, 1], action) and torch.equal(before["action"][1:200, 0], action[:199])
    for fps in (24, 40):  # no irregularity hides a wrong rate
        info(fps=fps)(tmp_path)
        with pytest.raises(CorruptError, match=f"by the fps of meta/info.json, {fps}: correct the one that is wrong"):
            Loader.from_lerobot(tmp_path, 4)


@pytest.mark.parametrize(
    "lengths, dropped",
    [
        ((2, 12), {0: [1]}),
        ((3, 12), {0: [1, 2]}),
        ((4, 12), {0: [1, 2]}),
        ((6, 12), {0: [1, 2, 3]}),
        ((4,), {0: [1, 3]}),
        ((2,) * 9, {2: [1], 4: [1], 5: [1], 7: [1]}),
    ],
)
def test_dropped_frames_of_a_short_episode_make_no_rate_wrong(tmp_path, lengths, dropped):
    """dropped: for some episodes, the frames before which one frame is missing."""
    make(tmp_path, lengths)
    late = lambda row: sum(row["frame_index"] >= k for k in dropped.get(row["episode_index"], ()))  # noqa: E731
    for path in (tmp_path / "data").rglob("*.parquet"):
        rows(path.relative_to(tmp_path), every("timestamp", lambda k, row: (row["frame_index"] + late(row)) / 10))(tmp_path)
    assert len(Loader.from_lerobot(tmp_path, 4).dataset) == sum(lengths)


@pytest.mark.parametrize("fps", [4, 30])
@pytest.mark.parametrize("lengths", [(5,), (3, 3), (2,) * 4])
def test_short_episodes_of_another_rate_are_refused(tmp_path, fps, lengths):
    make(tmp_path, lengths)
    info(fps=fps)(tmp_path)
    with pytest.raises(
        CorruptError, match=f"most frames of episode 0 are about 0.1 s apart .* by the fps of meta/info.json, {fps}: correct"
    ):
        Loader.from_lerobot(tmp_path, 4)


def test_an_episode_without_frames_is_passed_over(tmp_path):
    make(tmp_path)
    rows(EPISODES, lambda found: [*found, {**found[-1], "episode_index": 3, "dataset_from_index": 24}])(tmp_path)
    info(total_episodes=4)(tmp_path)
    assert len(Loader.from_lerobot(tmp_path, 4).dataset) == 24


def test_times_of_a_video_of_television_are_read(tmp_path):
    make(tmp_path, (2000,))
    info(fps=30)(tmp_path)
    rows(DATA, every("timestamp", lambda k, row: k * 1001 / 30_000))(tmp_path)
    assert len(Loader.from_lerobot(tmp_path, 4).dataset) == 2000


def test_times_late_in_a_long_episode_are_read(tmp_path):
    make(tmp_path, (24,))
    info(fps=1000)(tmp_path)
    rows(DATA, every("timestamp", lambda k, row: 40_000 + k / 1000))(tmp_path)  # float32 has steps of 4 ms there
    assert len(Loader.from_lerobot(tmp_path, 4).dataset) == 24


def test_tasks_with_other_ends_of_lines(tmp_path):
    make(tmp_path, version=2)
    tasks = ["pick\u2028the cube", "place\x85the cube", "pour\u2029water"]
    lines = [json.dumps({"task_index": k, "task": task}, ensure_ascii=False) + "\n" for k, task in enumerate(tasks)]
    (tmp_path / "meta" / "tasks.jsonl").write_text("".join(lines), encoding="utf-8")
    assert {task for batch in Loader.from_lerobot(tmp_path, 4) for task in batch["task"]} == set(tasks)


def test_numbers_that_the_named_type_does_not_have(tmp_path):
    make(tmp_path)
    table = robots.pq.read_table(tmp_path / DATA)
    wide = robots.pa.array([[1e300, 0.0]] * table.num_rows)
    robots.pq.write_table(table.set_column(table.schema.get_field_index("action"), "action", wide), tmp_path / DATA)
    with pytest.raises(CorruptError, match=r"column 'action': it holds .*1e\+300.*, which is no float32"):
        Loader.from_lerobot(tmp_path, 4)


@pytest.mark.parametrize(
    "change, said",
    [
        (every(f"videos/{CAMERA}/from_timestamp", 0.0), "overlap"),
        (every(f"videos/{CAMERA}/from_timestamp", None), "from_timestamp' is None"),
        (every(f"videos/{CAMERA}/from_timestamp", -1.0), "from_timestamp' is -1.0"),
        (
            every(f"videos/{CAMERA}/to_timestamp", lambda k, row: row[f"videos/{CAMERA}/from_timestamp"] + 0.1),
            "has 0.100 s, and its 7 rows 0.700 s",
        ),
        (every(f"videos/{CAMERA}/file_index", None), "file_index' is None"),
    ],
)
def test_episodes_that_do_not_fit_their_video(tmp_path, change, said):
    make(tmp_path, cameras=1)
    rows(EPISODES, change)(tmp_path)
    with pytest.raises(CorruptError, match=said):
        Loader.from_lerobot(tmp_path, 4)


@pytest.mark.parametrize("given", [float("nan"), float("inf"), "x", None])
def test_times_that_are_no_numbers(tmp_path, given):
    make(tmp_path)
    with pytest.raises(InvalidArgumentError, match="delta_timestamps"):
        Loader.from_lerobot(tmp_path, 4, delta_timestamps={"action": [given]})
    with pytest.raises(InvalidArgumentError, match="tolerance_s"):
        Loader.from_lerobot(tmp_path, 4, tolerance_s=given)


@pytest.mark.parametrize(
    "path", ["{chunk_index:9999999999d}", "{chunk_index.real}", "../{file_index:03d}.parquet", "/{file_index:03d}.parquet"]
)
def test_templates_that_lead_elsewhere(tmp_path, path):
    """Templates of file names are refused if they lead out of the folder, or have more than plain fields for numbers: str.format would make names of ten
    billion digits, or read attributes of objects."""
    make(tmp_path)
    info(data_path=path)(tmp_path)
    with pytest.raises(CorruptError, match="which is no template for names of files below this folder"):
        Loader.from_lerobot(tmp_path, 4)


def test_an_episode_of_more_frames_than_memory_holds(tmp_path):
    make(tmp_path)
    rows(EPISODES, lambda found: [*found[:-1], {**found[-1], "dataset_to_index": 10**12}])(tmp_path)
    info(total_frames=10**12)(tmp_path)
    with pytest.raises(CorruptError, match="files are missing"):
        Loader.from_lerobot(tmp_path, 4)


def test_an_error_does_not_end_the_epoch(tmp_path):
    """A batch whose image_transforms fail counts as a batch of the epoch: a loop that catches the error gets the batches after it, and none twice."""
    make(tmp_path, (6, 6), images=1)

    def transform(image):
        error = next(errors, None)
        if error is not None:
            raise error
        return image

    for error, caught in ((OSError("bad"), OSError), (StopIteration(), RuntimeError)):
        errors = iter([None, None, None, error])
        loader = Loader.from_lerobot(tmp_path, 3, num_threads=1, image_transforms=transform)
        iterator, got = iter(loader), []
        with pytest.raises(caught):
            for batch in iterator:
                got += batch["index"].tolist()
        assert loader.state_dict()["consumed"] == len(got) + 3
        got += [i for batch in iterator for i in batch["index"].tolist()]
        assert len(got) == 9 and loader.epoch == 1
