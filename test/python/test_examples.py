# SPDX-License-Identifier: Apache-2.0
"""The examples, at tiny size: they run, resume where they stopped, and count each validation image once on any number of ranks."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
import videos
from ranks import TORCHRUN

pytestmark = pytest.mark.timeout(300)
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# Absolute paths, since examples may run in other folders.
PLACES = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
ENV = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(PLACES)}


def run(name, *args, ranks=1, ok=True):
    """Runs an example, and returns its stdout. With ok=False the example may fail, and its stderr is returned too."""
    with tempfile.TemporaryDirectory() as logs:
        launcher = [*TORCHRUN, f"--log-dir={logs}", f"--nproc-per-node={ranks}"] if ranks > 1 else []
        done = subprocess.run(
            [sys.executable, *launcher, str(EXAMPLES / name), *map(str, args)], capture_output=True, text=True, timeout=110, env=ENV
        )
    assert not ok or done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout + ("" if ok else done.stderr)


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    run("imagenet/make_images.py", folder, "--classes", 3, "--train", 16, "--val", 7, "--pixels", "60x80")
    return folder


def imagenet(images, checkpoint, *more, ranks=1):
    fixed = ("--model", "tiny", "--epochs", 2, "--size", 32, "--batch-size", 8, "--device", "cpu")
    return run("imagenet/train.py", images, *fixed, "--checkpoint", checkpoint, *more, ranks=ranks)


def test_imagenet_resumes_to_the_same_weights(images, tmp_path):
    """A run that is interrupted in the second epoch and started again ends with the weights of an uninterrupted run."""
    whole, parts = tmp_path / "whole.pt", tmp_path / "parts.pt"
    output = imagenet(images, whole)
    assert len(re.findall(r"\d+\.\d+% of 21 validation images", output)) == 2, output
    imagenet(images, parts, "--max-steps", 8)
    saved = torch.load(parts, weights_only=True)["loader"]
    assert saved["epoch"] == 1 and saved["pipeline"]["consumed"] == 16
    output = imagenet(images, parts)
    assert "epoch 0" not in output.split("\n", 1)[1], output
    one, two = (torch.load(p, weights_only=True) for p in (whole, parts))
    assert one["loader"] == two["loader"]
    for name, weights in one["model"].items():
        assert torch.equal(weights, two["model"][name]), name


def test_imagenet_with_another_number_of_ranks(images, tmp_path):
    """A run on two ranks saves the same state of the Loader as on one rank, and continues on one. Each validation image is counted once."""
    checkpoint = tmp_path / "run.pt"
    output = imagenet(images, checkpoint, "--max-steps", 8, ranks=2)
    assert "rank 0 of 2" in output and "of 21 validation images" in output, output
    assert torch.load(checkpoint, weights_only=True)["loader"]["pipeline"]["consumed"] == 16
    output = imagenet(images, checkpoint)
    assert "rank" not in output and "epoch 1: " in output and "of 21 validation images" in output, output


def test_imagenet_with_advice(images):
    output = run(
        "imagenet/train.py", images, "--model", "tiny", "--epochs", 1, "--size", 32, "--batch-size", 8, "--device", "cpu", "--advise"
    )
    assert "of 21 validation images" in output


def test_own_networks_are_torchvisions():
    """The networks have the numbers of weights that torchvision documents."""
    sys.path.insert(0, str(EXAMPLES / "imagenet"))
    try:
        import models
    finally:
        sys.path.pop(0)
    for name, count in (("resnet18", 11_689_512), ("resnet50", 25_557_032), ("mobilenet_v3_small", 2_542_856)):
        with torch.device("meta"):
            assert sum(p.numel() for p in models.OWN[name]().parameters()) == count, name


def test_cifar_reaches_the_same_accuracy(tmp_path):
    run("cifar/make_cifar.py", tmp_path, "--distinct", 600)  # makes only as many different images as the training below reads
    tiny = ("--images", 600, "--batch-size", 50, "--width", 8, "--device", "cpu")
    output = run("cifar/train.py", tmp_path, "--epochs", 1, *tiny)
    assert re.search(r"\d+\.\d+% of the test images after 1 epochs", output), output
    output = run("cifar/compare.py", tmp_path, "--epochs", 3, *tiny)
    assert output.count("seed ") == 6 and output.rstrip().endswith(": equal"), output


def test_cifar_reports_a_lower_accuracy(tmp_path):
    """The comparison fails if the accuracies differ."""
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); import compare, train; results = iter([.9, .5, .91, .52, .92, .51])\n"
    program += "train.train = lambda *a, **k: (next(results), 0.0); sys.exit(compare.main())"
    done = subprocess.run([sys.executable, "-c", program, str(EXAMPLES / "cifar"), str(tmp_path)], capture_output=True, text=True, env=ENV)
    assert done.returncode == 1 and "NOT EQUAL" in done.stdout, done.stdout + done.stderr


def test_lightning_counts_each_validation_image(images, tmp_path, monkeypatch):
    pytest.importorskip("lightning")
    monkeypatch.chdir(tmp_path)
    for devices in (1, 2):
        output = run(
            "lightning/train.py", images, "--epochs", 1, "--size", 32, "--batch-size", 4, "--accelerator", "cpu", "--devices", devices
        )
        assert "of 21 validation images" in output, output


def test_ray_trains_on_two_ranks(images, tmp_path):
    pytest.importorskip("ray")
    output = run("ray/train.py", images, "--epochs", 1, "--size", 32, "--batch-size", 8, "--storage", tmp_path)
    assert "rank 0 of 2" in output and "of 21 validation images" in output, output


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")
def test_the_network_learns_words(tmp_path):
    assert "30 recordings of 2 words" in run("audio/make_speech.py", tmp_path, "--words", "yes,stop", "--each", 12)
    output = run("audio/train.py", tmp_path, "--epochs", 3, "--batch", 8)
    right = [float(x) for x in re.findall(r"([0-9.]+)% of the test's words are right", output)]
    assert len(right) == 3 and max(right) > 60, output


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed")
def test_audio_ctc(tmp_path):
    assert "8 sentences in" in run("audio/make_speech.py", tmp_path, "--words", "yes,stop", "--sentences", 32)
    output = run("audio/train_ctc.py", tmp_path, "--epochs", 3, "--batch", 8)
    losses = [float(line.split("loss ")[1].split(",")[0]) for line in output.splitlines() if "loss" in line]
    assert len(losses) == 3 and losses[-1] < losses[0] / 2


@videos.needs_video
def test_nuscenes_from_videos(tmp_path, monkeypatch):
    monkeypatch.setitem(
        ENV, "PATH", os.pathsep.join([str(Path(os.environ.get("STOKER_BUILD", "build")).resolve() / "cli"), os.environ["PATH"]])
    )
    run("nuscenes/make_nuscenes.py", tmp_path / "set", "--scenes", 2, "--samples", 3, "--size", "160x90")
    lines = run("nuscenes/from_videos.py", tmp_path / "set", tmp_path / "videos").splitlines()
    assert len(lines) == 4 and all("(2, 90, 160, 3)" in line for line in lines[1:])


@videos.needs_video
def test_the_network_trains_on_clips(tmp_path):
    said = run("video/train.py", tmp_path, "--epochs", 1, "--videos", 2)
    assert re.search(r"epoch 0: loss \d\.\d+, \d of 8 clips right", said), said


@videos.needs_video
@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the ffmpeg program is not installed")
def test_the_policy_learns(tmp_path):
    pytest.importorskip("pyarrow")
    assert re.search(r"20 episodes, \d+ frames of 2 cameras", run("lerobot/make_dataset.py", tmp_path, "--episodes", 20))
    said = run("lerobot/train.py", tmp_path, "--epochs", 3, "--batch", 16)
    losses = [float(x) for x in re.findall(r"loss (\d\.\d+), the hand arrives in \d+%", said)]
    assert len(losses) == 3 and losses[2] < losses[0], said
