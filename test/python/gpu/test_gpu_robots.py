# SPDX-License-Identifier: Apache-2.0
"""Batches of robot data on a GPU: the frames of cameras are decoded by NVIDIA's decoder, and have the same bytes as on the cores."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

import robots
import videos
from stoker import Loader

pytestmark = videos.needs_video
DELTAS = {"observation.images.cam0": [-0.08, 0.0, 0.04], "action": [0.0, 0.04]}


LENGTHS = {"h264.mp4": (20, 30), "av1.mp4": (10, 15)}  # the frames of two episodes


@pytest.fixture(scope="module", params=LENGTHS)
def folder(request, tmp_path_factory):
    """A data set of two cameras, whose videos are H.264, which every GPU decodes, or AV1, which the cores decode for a Hopper GPU."""
    root = tmp_path_factory.mktemp("robots") / request.param
    video = videos.make(videos.READY or tmp_path_factory.mktemp("videos"), request.param)
    robots.make(root, LENGTHS[request.param], cameras=2, images=1, fps=25, video=video)
    return root


def batches(folder, device, **more):
    given = {"delta_timestamps": DELTAS, "shuffle": True, "seed": 7, **more}
    return Loader.from_lerobot(folder, 8, device=device, **given)


def check(torch, made, wanted):
    assert made.keys() == wanted.keys()
    for key, value in wanted.items():
        if isinstance(value, torch.Tensor):
            assert made[key].is_cuda and made[key].dtype == value.dtype and torch.equal(made[key].cpu(), value), key
        else:
            assert made[key] == value


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_batches_are_those_of_the_cores(torch_cuda, folder, threads):
    loader = batches(folder, "cuda", num_threads=threads)
    for _ in range(2):
        for made, wanted in zip(loader, batches(folder, "cpu"), strict=True):
            check(torch_cuda, made, wanted)
        loader.set_epoch(0)
    counted = [o.decoder.counters for o in loader.dataset._videos._open]
    assert folder.name != "h264.mp4" or sum(c["frames_on_gpu"] for c in counted) == sum(c["frames_wanted"] for c in counted) > 300


def test_transforms_get_frames_on_the_gpu(torch_cuda, folder):
    devices = set()

    def turned(frames):
        devices.add(frames.device)
        return 1 - frames

    made = batches(folder, "cuda", image_transforms=turned, num_threads=4)
    for one, other in zip(made, batches(folder, "cpu", image_transforms=lambda f: 1 - f), strict=True):
        check(torch_cuda, one, other)
    assert devices == {torch_cuda.device("cuda", torch_cuda.cuda.current_device())}


def test_batches_do_not_wait_for_the_work_of_the_loop(torch_cuda, folder):
    """Threads make batches while the loop's stream is busy, and the loop's stream waits for them by itself."""
    if folder.name != "h264.mp4":
        pytest.skip("the driver waits for the whole GPU when it says that it has no engine for a codec")
    torch = torch_cuda
    wanted = [b["observation.images.cam0"] for b in batches(folder, "cpu")]
    loader = batches(folder, "cuda", num_threads=3)
    steps, made = iter(loader), []
    made.append(next(steps)["observation.images.cam0"].clone())
    busy = torch.cuda.Event()
    torch.cuda._sleep(int(4e9))  # about two seconds
    busy.record()
    while len(made) < 3:
        made.append(next(steps)["observation.images.cam0"].clone())
    assert not busy.query(), "the batches came only after the work that the loop had queued"
    assert all(torch.equal(m.cpu(), w) for m, w in zip(made, wanted[:3], strict=True))


def test_the_device_is_that_of_the_thread_that_made_the_loader(torch_cuda, folder):
    loaders = []

    def make_in_thread():
        torch_cuda.cuda.set_device(torch_cuda.cuda.device_count() - 1)
        loaders.append(batches(folder, "cuda", num_threads=2))

    thread = threading.Thread(target=make_in_thread)
    thread.start()
    thread.join()
    batch = next(iter(loaders[0]))
    assert all(v.device.index == torch_cuda.cuda.device_count() - 1 for v in batch.values() if isinstance(v, torch_cuda.Tensor))
