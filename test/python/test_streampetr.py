# SPDX-License-Identifier: Apache-2.0
"""examples/streampetr: a slot enters a scene at its first sample, matrices fit augmented images and boxes, and training resumes inside scenes."""

import itertools
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from support import SEED, make_nuscenes
from test_examples import run

pytest.importorskip("cv2")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "streampetr"
MODULES = ("model", "models", "picture", "pipeline", "reference", "streaming", "tables", "train")
HW = (32, 96)
TINY = ("--network", "tiny", "--size", "32x96", "--batch-size", "2", "--epochs", "1", "--device", "cpu", "--workers", "0")


@pytest.fixture(scope="module")
def example():
    """Yields a function that imports a module of the example by its name; removes the imported modules afterwards."""
    sys.path.insert(0, str(EXAMPLE))
    before = {name: sys.modules.pop(name, None) for name in MODULES}
    yield __import__
    sys.path[:] = [p for p in sys.path if not p.startswith(str(EXAMPLE.parent))]
    for name, module in before.items():
        sys.modules.pop(name, None)
        if module is not None:
            sys.modules[name] = module


@pytest.fixture(scope="module")
def nuscenes(tmp_path_factory):
    """Writes three short scenes with frames of 200x112."""
    return make_nuscenes(tmp_path_factory.mktemp("nuscenes"), scenes=3, samples=3, seed=SEED, size=(200, 112), sweeps=0, points=400)


def walked(streaming, lengths, batch, steps, world=1, start=0):
    """Returns the items that the ranks' samplers yield: for each of `steps` steps, a list with an item for each slot of the whole batch."""
    ranks = [streaming.StreamingSampler(lengths, batch, SEED, start=start, rank=r, world=world) for r in range(world)]
    return [list(itertools.chain(*rows)) for rows in itertools.islice(zip(*ranks, strict=True), steps)]


def test_slots_stay_in_their_scenes(example):
    """Each slot of a batch stays in its scene until the scene ends, for any number of ranks and after a restart. Positions are counted without gaps."""
    streaming = example("streaming")
    rng = np.random.default_rng(SEED)
    lengths = rng.integers(1, 9, 11).tolist()
    scene_of = np.repeat(np.arange(11), lengths)
    whole = walked(streaming, lengths, 4, 60)
    for slot in range(4):
        for before, item in itertools.pairwise(row[slot] for row in whole):
            follows = item.sample == before.sample + 1 and scene_of[item.sample] == scene_of[before.sample]
            assert item.prev_exists == follows, (slot, before, item)
            assert follows or item.sample in np.cumsum([0, *lengths]), (slot, before, item)
    assert [item.position for row in whole for item in row] == list(range(240))
    assert {item.sample for row in whole for item in row} == set(range(sum(lengths)))  # together the slots visit all samples
    for world, start in ((1, 1), (2, 0), (2, 23), (4, 41)):
        assert walked(streaming, lengths, 4, 15, world, start) == whole[start : start + 15], (world, start)
    with pytest.raises(ValueError, match="11 scenes cannot fill a batch of 12"):
        streaming.StreamingSampler(lengths, 12)


def test_boxes_follow_the_images(example, nuscenes):
    """lidar2img projects the centers of the transformed 3D boxes onto the centers of the transformed 2D boxes."""
    reference, tables = example("reference"), example("tables")
    data = tables.Tables(nuscenes)
    found = 0
    for index in range(len(data)):
        config = reference.Config(hw=HW)
        made = reference.make_sample(data.sample(index), reference.Draws.make(config, (SEED, index)), config)
        space, labels = made["gt_bboxes_3d"], made["gt_labels_3d"]
        for camera, matrix in enumerate(made["lidar2img"]):
            points = np.c_[space[:, :3], np.ones(len(space))] @ matrix[:3].T
            pixels = points[:, :2] / points[:, 2:]
            boxes = made["gt_bboxes"][camera]
            assert (boxes[:, :2] < boxes[:, 2:]).all() and (boxes >= 0).all() and (boxes <= [HW[1], HW[0]] * 2).all()
            for center, label in zip(made["centers2d"][camera], made["gt_labels"][camera], strict=True):
                if not (0 < center[0] < HW[1] and 0 < center[1] < HW[0]):
                    continue  # the image's border cuts the box, so its centre has moved
                near = np.abs(pixels - center).max(1, initial=0) < 1e-2
                reach = (points[:, 2] > 0) & near
                assert not reach.any() or label in labels[reach]
                found += int(reach.any())
        np.testing.assert_allclose(made["ego_pose"] @ made["ego_pose_inv"], np.eye(4), atol=1e-9)
        np.testing.assert_allclose(made["intrinsics"] @ made["extrinsics"], made["lidar2img"], rtol=1e-4, atol=1e-3)
    assert found > 20


def drawn(reference, config, sample, made):
    """Returns the draws of a sample, computed from its matrices."""
    (width, height), fill = sample.cameras[0].size, max(config.hw[0] / sample.cameras[0].size[1], config.hw[1] / sample.cameras[0].size[0])
    image = made["intrinsics"][0].astype(float) @ np.linalg.inv(sample.cameras[0].intrinsics)
    bev = np.linalg.inv(made["extrinsics"][0].astype(float)) @ sample.cameras[0].extrinsics
    draws = reference.Draws(flip=image[0, 0] < 0, scale=abs(image[0, 0]) / fill, shift=0.0, rotation=np.arctan2(bev[1, 0], bev[0, 0]))
    draws.bev_scale, draws.translation = np.linalg.norm(bev[:3, 2]), bev[:3, 3]
    wider = max(0, draws.scale - 1) * width * fill
    if wider:
        draws.shift = (image[0, 2] - reference.image_transform(draws, config, width, height)[0, 2]) / wider
    return draws


def check_sample(reference, config, sample, made):
    """Compares a sample with that of a handwritten pipeline for the same draws: images within 1 of 255, all other values within 1e-4 of the
    largest in their array, or of 1 if that is more; timestamps within 1e-6. Returns the draws."""
    draws = drawn(reference, config, sample, made)
    wanted = reference.make_sample(sample, draws, config)
    steps = np.abs(made["img"] - wanted["img"]) * np.array(reference.STD)[:, None, None]
    assert steps.max() < 1.01, (sample.token, draws, steps.max())
    for name, value in wanted.items():
        if name == "img":
            continue
        for ours, theirs in zip(made[name], value, strict=True) if isinstance(value, list) else ((made[name], value),):
            assert np.shape(ours) == np.shape(theirs), (name, sample.token, draws)
            near = 1e-6 if "timestamp" in name else 1e-4 * max(1.0, np.abs(theirs).max(initial=0))
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=near, err_msg=f"{name} of {sample.token}, {draws}")
    return draws


def samples_of(batch):
    """Yields the samples of a batch as dicts of arrays, without padding."""
    for i in range(len(batch["img"])):

        def at(value, i=i):
            if isinstance(value, list):
                return [at(v) for v in value]
            if hasattr(value, "sample_sizes"):
                return value.tensor[i, : int(value.sample_sizes[i])].numpy()
            return value[i].numpy()

        yield {name: at(value) for name, value in batch.items()}


def test_both_pipelines_give_the_same(example, nuscenes):
    """stoker.structured gives the same samples as NumPy and OpenCV for the same draws. Slots stay in their scenes, and no Python code runs for a sample."""
    reference, tables, pipeline = example("reference"), example("tables"), example("pipeline")
    data = tables.Tables(nuscenes)
    rows = {round(1e6 * sample.timestamp): (i, sample) for i, sample in enumerate(map(data.sample, range(len(data))))}
    config = reference.Config(hw=(40, 88))  # the pipelines pad these crops to 64x96
    made = pipeline.Loader(nuscenes, "v1.0-mini", config, 2, SEED)
    draws = []
    # the batches continue into the second round of the scenes
    for batch, items in zip(made, walked(example("streaming"), data.lengths, 2, 8), strict=False):
        for sample, item in zip(samples_of(batch), items, strict=True):
            index, row = rows[round(1e6 * float(sample["timestamp"]))]
            assert (index, bool(sample["prev_exists"])) == (item.sample, item.prev_exists)
            draws.append(check_sample(reference, config, row, sample))
    assert len(draws) == 16 and made.user_calls == 0
    assert {d.flip for d in draws} == {False, True} and len({round(d.rotation, 6) for d in draws}) == len(draws)
    for name, (low, high) in {"scale": config.scale, "shift": (0, 1), "rotation": config.rotation, "bev_scale": config.bev_scale}.items():
        values = np.array([getattr(d, name) for d in draws])
        assert (values > low - 1e-3).all() and (values < high + 1e-3).all() and np.ptp(values) > 0.4 * (high - low), (name, values)


def weights(path):
    return torch.load(path, weights_only=True)


@pytest.mark.parametrize("loader", ["stoker", "torch"])
def test_training_continues_in_the_middle_of_scenes(example, nuscenes, tmp_path, capsys, loader):
    """A run that is interrupted within a scene and restarted ends with the same weights and memory as an uninterrupted one."""
    train = example("train")
    whole, parts = tmp_path / "whole.pt", tmp_path / "parts.pt"
    for checkpoint, more in ((whole, ()), (parts, ("--max-steps", "2")), (parts, ())):
        train.main([str(nuscenes), *TINY, "--loader", loader, "--checkpoint", str(checkpoint), *more])
    one, two = weights(whole), weights(parts)
    assert one["step"] == two["step"] == 4 and "step 2 of 4" in capsys.readouterr().out
    for part in ("model", "memory"):
        for name, value in one[part].items():
            assert torch.equal(value, two[part][name]), name


@pytest.mark.skipif(
    not os.environ.get("STOKER_TEST_FULL"), reason="STOKER_TEST_FULL=1 runs it: processes of torchrun take seconds to start"
)
def test_training_with_two_ranks_and_then_one(nuscenes, tmp_path):
    checkpoint = tmp_path / "run.pt"
    run("streampetr/train.py", nuscenes, *TINY, "--checkpoint", checkpoint, "--max-steps", 2, ranks=2)
    assert len(weights(checkpoint)["memory"]["time"]) == 2
    output = run("streampetr/train.py", nuscenes, *TINY, "--checkpoint", checkpoint)
    assert "step 4 of 4" in output, output


def test_memory_follows_the_car(example):
    """A fixed point keeps its position in the world. Slots without an earlier sample have an empty memory."""
    model = example("model")
    print(f"seed {SEED}")
    torch.manual_seed(SEED)
    sizes = model.Sizes(dim=8, memory=5)
    angle, poses = torch.rand(2, 2, dtype=torch.float64), torch.eye(4, dtype=torch.float64).repeat(2, 2, 1, 1)
    poses[..., 0, 0], poses[..., 0, 1], poses[..., 1, 0], poses[..., 1, 1] = angle.cos(), -angle.sin(), angle.sin(), angle.cos()
    poses[..., :3, 3] = 1000 * torch.rand(2, 2, 3, dtype=torch.float64)
    memory = model.Memory.empty(2, sizes, torch.device("cpu"))
    memory.points, memory.features = torch.rand(2, 5, 3), torch.rand(2, 5, 8)
    memory.motion[:], memory.pose, memory.age[:] = torch.eye(3, 4), poses[0], 0.5
    moved = memory.moved_to(torch.linalg.inv(poses[1]), torch.tensor([0.5, 7.0]).double(), torch.tensor([1.0, 0.0]))

    def world(points, pose):
        return points.double() @ pose[:3, :3].T + pose[:3, 3]

    torch.testing.assert_close(world(moved.points[0], poses[1, 0]), world(memory.points[0], poses[0, 0]), rtol=0, atol=1e-3)
    turned = memory.points[0] @ moved.motion[0, 0, :, :3].T + moved.motion[0, 0, :, 3]
    torch.testing.assert_close(turned, moved.points[0], rtol=0, atol=1e-3)
    assert moved.age[0].eq(1).all() and torch.equal(moved.features[0], memory.features[0])
    assert not any(getattr(moved, name)[1].any() for name in ("features", "points", "velocities", "motion", "age"))


def test_the_picture_shows_six_cameras(example, nuscenes, tmp_path):
    train = example("train")
    train.main([str(nuscenes), *TINY, "--picture", str(tmp_path / "six.png")])
    from PIL import Image

    with Image.open(tmp_path / "six.png") as image:
        assert image.size == (3 * HW[1], 2 * HW[0])
