# SPDX-License-Identifier: Apache-2.0
"""What the papers show runs: the Python of README.md and of doc/, on a small folder, and the commands of README.md."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch
from support import import_torchvision

ROOT = Path(__file__).resolve().parents[2]


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S)


def small(code, tree):
    """The same program with this folder, small batches and few epochs."""
    code = re.sub(r"\"(/?data/train|train)\"", repr(str(tree)), code)
    return re.sub(r"batch_size=\d+", "batch_size=4", code).replace("train.epoch, 90", "train.epoch, 2")


def run(page, tree, folder, monkeypatch, given=None):
    """The page's blocks one after the other, as a reader would type them."""
    steps = []
    names = {"step": lambda *batch: steps.append(batch), **(given or {})}
    monkeypatch.chdir(folder)
    for i, block in enumerate(blocks(page, "python")):
        exec(compile(small(block, tree), f"{page}, block {i}", "exec"), names)
    return steps, names


def test_readme(tree, tmp_path, monkeypatch):
    steps, names = run("README.md", tree, tmp_path, monkeypatch)
    sizes = [len(images) for images, _labels in steps]
    assert sizes[:10] == [4] * 10 and sum(sizes[10:]) == 21  # two epochs of 21 images without their last one, and one of DALI's iterator
    images, labels = steps[0]
    assert images.shape == (4, 3, 224, 224) and images.dtype is torch.float32 and labels.dtype is torch.int64
    assert (tmp_path / "checkpoint.pt").stat().st_size < 8192 and names["train"]


def test_from_dali(tree, tmp_path, monkeypatch):
    _steps, names = run("doc/from-dali.md", tree, tmp_path, monkeypatch)
    batches = list(names["train"])
    assert sum(len(b[0]["label"]) for b in batches) == 21 and batches[0][0]["data"].shape == (4, 3, 224, 224)


def test_from_torchvision(tree, tmp_path, monkeypatch):
    torchvision = import_torchvision()
    monkeypatch.setattr(torch.utils.data.DataLoader, "__init__", _without_workers(torch.utils.data.DataLoader.__init__))
    given = {"MEAN": [0.5] * 3, "STD": [0.5] * 3, "T": torchvision.transforms}
    given |= {"DataLoader": torch.utils.data.DataLoader, "ImageFolder": torchvision.datasets.ImageFolder}
    _steps, names = run("doc/from-torchvision.md", tree, tmp_path, monkeypatch, given)
    images, labels = next(iter(names["train"]))
    assert images.shape == (4, 3, 224, 224) and labels.shape == (4,) and names["train"].__class__.__name__ == "Loader"


def _without_workers(init):
    return lambda self, *args, num_workers=0, **kwargs: init(self, *args, **kwargs)


def test_losses(tmp_path, monkeypatch):
    """The block that is a program; those beside it show what it replaces, or a package that is not here."""
    code = next(b for b in blocks("doc/batching.md", "python") if "detection_cost(" in b)
    layers, samples, queries, classes = 2, 3, 5, 4
    names = {
        "logits": torch.randn(layers, samples, queries, classes, requires_grad=True),
        "boxes": torch.rand(layers, samples, queries, 4, requires_grad=True),
        "list_of_boxes": [torch.rand(n, 4) for n in (2, 0, 3)],
        "list_of_labels": [torch.randint(classes, (n,)) for n in (2, 0, 3)],
    }
    exec(compile(code.replace('device="cuda"', 'device="cpu"'), "doc/batching.md", "exec"), names)
    names["loss"].backward()
    assert names["loss"].isfinite() and names["logits"].grad.abs().sum() > 0


def test_commands(tree, tmp_path):
    command = Path(os.environ.get("STOKER_BUILD", "build")).resolve() / "cli" / "stoker"
    lines = [x.split("#")[0].split() for block in blocks("README.md", "sh") for x in block.splitlines() if x.startswith("stoker ")]
    lines = [x for x in lines if not any("://" in a for a in x)]  # what lies in a store is not to be had here
    assert {x[1] for x in lines} >= {"inspect", "bench", "view", "explain", "doctor"}
    pipeline = tmp_path / "pipeline.json"
    pipeline.write_text(_pipeline(tree))
    for line in lines:
        arguments = [{"/data/train": str(tree), "pipeline.json": str(pipeline)}.get(a, a) for a in line[1:]]
        done = subprocess.run([command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 or line[1] == "doctor", f"{line}: {done.stderr}"
        assert done.stdout, line


def _pipeline(tree):
    from stoker import fn, pipeline_def

    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def define():
        data, label = fn.readers.file(file_root=str(tree))
        return fn.resize(fn.decoders.image(data), size=(8, 8)), label

    return define().serialize().decode()


@pytest.mark.parametrize("page", sorted(p.name for p in (ROOT / "doc").glob("*.md")) + ["../README.md"])
def test_names_of_files_in_the_papers_exist(page):
    text = (ROOT / "doc" / page).read_text()
    for name in re.findall(r"`((?:doc|examples|bench|tools|test|src|include)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), f"{page}: {name}"
