# SPDX-License-Identifier: Apache-2.0
"""The training scripts of examples/ported run on a few images. Only the scripts that are meant to call Python code for each sample do so."""

import copy
import importlib.util
import json
import random
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import DataLoader, Loader
from support import SEED, import_torchvision, photograph, write_tree
from test_augment import AugmentOp, timms
from test_loader_sources import hub_table
from torch.utils.data import DataLoader as TorchDataLoader

PORTED = Path(__file__).resolve().parents[2] / "examples/ported"
torchvision = import_torchvision()


def program(name):
    spec = importlib.util.spec_from_file_location(f"ported_{name}", PORTED / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tree, tmp_path):
    for part in ("train", "val"):
        (tmp_path / part).symlink_to(tree)
    return tmp_path


def run(name, *arguments):
    torch.manual_seed(SEED)
    return program(name).main([str(a) for a in arguments])


def user_calls(loader):
    return loader.pipeline.counters()["user_calls"]


def test_every_script_has_its_line():
    """The README.md of examples/ported lists all scripts of its folder, and Lightning's, which is in another folder."""
    listed = re.findall(r"^\| \[[\w./]+\]\((\.\./lightning/train|\w+)\.py\) \|", (PORTED / "README.md").read_text(), re.M)
    assert sorted(listed) == sorted(["../lightning/train", *(p.stem for p in PORTED.glob("*.py"))]) and len(listed) == 11


def test_dali_resnet50(folder):
    assert run("dali_resnet50", folder, "--dali_cpu", "--batch-size", 8, "--crop", 32) == (21, 21)


def test_torchvision_references(folder):
    more = "--auto-augment", "ta_wide", "--random-erase", 0.5, "--mixup-alpha", 0.2, "--cutmix-alpha", 1.0
    loader, accuracy = run("torchvision_references", folder, "--train-crop-size", 32, "--val-resize-size", 40, "--batch-size", 5, *more)
    assert user_calls(loader) == 0 and loader.classes == ["class0", "class1", "class2"] and 0 <= accuracy <= 1
    for policy in ("ra", "augmix", "imagenet", "cifar10", "svhn"):
        program("torchvision_references").ClassificationPresetTrain(32, policy, 0)


def test_timm_train(folder, monkeypatch):
    """timm_train.py trains without calling Python code for each sample. timm 1.0's create_transform is replaced by a function that makes the same
    transforms."""

    def create_transform(size, is_training, auto_augment=None, interpolation="bilinear", re_prob=0.0, re_mode="const"):
        tv = torchvision.transforms
        tail = [timms("MaybeToTensor"), tv.Normalize(torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225]))]
        if not is_training:
            return tv.Compose([tv.Resize(size * 8 // 7, tv.InterpolationMode.BICUBIC), tv.CenterCrop(size), *tail])
        assert (auto_augment, interpolation, re_mode) == ("rand-m9-mstd0.5-inc1", "random", "pixel")
        modes = (tv.InterpolationMode.BILINEAR, tv.InterpolationMode.BICUBIC)
        crop = timms("RandomResizedCropAndInterpolation", size=(size, size), scale=(0.08, 1.0), ratio=(0.75, 4 / 3), interpolation=modes)
        ops = [AugmentOp(name, 0.5, 9, 0.5) for name in ("Invert", "Rotate", "ShearX", "SolarizeAdd")]
        erasing = timms(
            "RandomErasing",
            probability=re_prob,
            rand_color=False,
            per_pixel=True,
            max_count=1,
            min_area=0.02,
            max_area=1 / 3,
            log_aspect_ratio=(-1.2, 1.2),
        )
        flip = tv.RandomHorizontalFlip()
        return tv.Compose([crop, flip, timms("RandAugment", ops=ops, num_layers=2, choice_weights=None), *tail, erasing])

    data = types.ModuleType("timm.data")
    data.create_transform = create_transform
    monkeypatch.setitem(sys.modules, "timm", types.ModuleType("timm"))
    monkeypatch.setitem(sys.modules, "timm.data", data)
    loader, accuracy = run("timm_train", folder, "--img-size", 32, "--batch-size", 5)
    assert user_calls(loader) == 0 and next(iter(loader))[1].shape == (5, 3) and 0 <= accuracy <= 1


def test_simclr_dino(tree):
    losses, extents = run("simclr_dino", tree, "--size", 56, "--batch-size", 5)
    assert len(losses) == 4 and all(0 < loss < 40 for loss in losses) and extents == [56] * 2 + [24] * 6


def test_unet_masks(tree, tmp_path):
    for name in ("images", "masks"):
        (tmp_path / name).mkdir()
    for k, path in enumerate(sorted(tree.glob("*/*.jpg"))[:12]):
        (tmp_path / "images" / f"{k}.jpg").write_bytes(path.read_bytes())
        width, height = Image.open(path).size
        Image.fromarray(np.arange(height * width).reshape(height, width).astype(np.uint8) % 2).save(tmp_path / "masks" / f"{k}.png")
    losses = run("unet_masks", tmp_path / "images", tmp_path / "masks", "--size", 32)
    assert len(losses) == 3 and all(0.3 < loss < 2 for loss in losses)


@pytest.mark.parametrize("augmentation", ["hflip", "lsj", "multiscale", "ssd", "ssdlite"])
def test_detection_references(tree, tmp_path, augmentation):
    (tmp_path / "images").mkdir()
    rng = np.random.default_rng(SEED)
    given = {"images": [], "annotations": []}
    for k, path in enumerate(sorted(tree.glob("*/*.jpg"))[:12]):
        (tmp_path / "images" / f"{k}.jpg").write_bytes(path.read_bytes())
        width, height = Image.open(path).size
        given["images"].append({"id": k, "file_name": f"{k}.jpg", "width": width, "height": height})
        for _ in range(int(rng.integers(0, 4)) + (k > 0)):  # only the first image may have no boxes
            x, y = rng.random(2) * 0.6
            box = [x * width, y * height, (0.1 + rng.random() * 0.3) * width, (0.1 + rng.random() * 0.3) * height]
            given["annotations"].append({"image_id": k, "bbox": box, "category_id": int(rng.integers(1, 4))})
    (tmp_path / "boxes.json").write_text(json.dumps(given))
    arguments = ["--data-augmentation", augmentation, "--size", 96, "--epochs", 2, "--classes", 3]
    losses = run("detection_references", tmp_path / "images", tmp_path / "boxes.json", *arguments)
    assert len(losses) in (11, 12) and all(0 < loss < 20 for loss in losses)


def test_airbench():
    """airbench.py learns to distinguish bright from dark images. It gets 200 images instead of files with 60 000."""
    rng = np.random.default_rng(SEED)
    labels = np.arange(200) % 2
    images = np.clip(rng.normal(100 + 60 * labels[:, None, None, None], 30, (200, 32, 32, 3)), 0, 255).astype(np.uint8)
    module = program("airbench")
    module.Loader = lambda folder, size, split="train", **given: Loader((images, labels), size, **given)
    torch.manual_seed(SEED)
    assert module.main(["cifar", "--batch-size", "50", "--epochs", "2", "--widths", "8", "8", "8", "--device", "cpu"]) > 0.4


@pytest.mark.parametrize("separator", "\t,")
def test_open_clip_csv(tree, tmp_path, separator):
    table = tmp_path / "pairs.csv"
    lines = [f"{path}{separator}number {k}" for k, path in enumerate(sorted(tree.glob("*/*.jpg")))]
    table.write_text("\n".join([f"filepath{separator}title", *lines]))
    losses = run("open_clip_csv", table, "--batch-size", 7, "--size", 32)
    assert len(losses) == 3 and all(0 < loss < 10 for loss in losses)


def test_hf_trainer(files, monkeypatch):
    """hf_trainer.py trains with each batch of the table. `transformers` and `load_dataset` are replaced by objects with the attributes that it uses."""
    pytest.importorskip("datasets") if importlib.util.find_spec("datasets") else None
    table = hub_table(files)
    datasets, transformers = types.ModuleType("datasets"), types.ModuleType("transformers")
    datasets.load_dataset = lambda kind, data_dir, split: table

    class Trainer:
        def __init__(self, model, args, train_dataset):
            self.model, self.args, self.train_dataset = model, args, train_dataset

        def train(self):
            return [self.model(**batch)["loss"].item() for batch in self.get_train_dataloader()]

    transformers.Trainer, transformers.TrainingArguments = Trainer, types.SimpleNamespace
    monkeypatch.setitem(sys.modules, "datasets", datasets)
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    losses = run("hf_trainer", "folder")
    assert len(losses) == -(-len(table) // 8) and all(0 < loss < 3 for loss in losses)


def test_cutmix(tree):
    labels = torch.cat(run("cutmix", tree, "--size", 32))
    assert labels.shape == (21, 3) and torch.allclose(labels.sum(1), torch.ones(21)) and (labels.max(1).values < 1).any()


# ---- one_import: the same program with torch's DataLoader and with stoker.DataLoader ----


@pytest.fixture(scope="module")
def data_root(tmp_path_factory):
    """Writes a folder with train and val in classes, images with masks, captions.csv, and MNIST's files."""
    root, rng = tmp_path_factory.mktemp("one_import"), np.random.default_rng(SEED)
    for part in ("train", "val"):
        write_tree(root / part, rng, 3, 5)
    rows = [f"{path.relative_to(root)},caption {k} of a picture,{k % 2}" for k, path in enumerate(sorted(root.glob("train/*/*.jpg")))]
    (root / "captions.csv").write_text("\n".join(["filepath,title,label", *rows, ""]))
    for name in ("images", "masks", "MNIST/raw"):
        (root / name).mkdir(parents=True)
    for k in range(10):
        height, width = (int(v) for v in rng.integers(50, 90, 2))
        Image.fromarray(photograph(rng, height, width)).save(root / f"images/{k}.jpg")
        Image.fromarray((photograph(rng, height, width)[..., 0] > 128).astype(np.uint8)).save(root / f"masks/{k}.png")
    for name, count in (("train", 40), ("t10k", 20)):
        images, labels = rng.integers(0, 256, (count, 28, 28), np.uint8), np.arange(count, dtype=np.uint8) % 10
        for array, kind in ((images, "images-idx3"), (labels, "labels-idx1")):
            extents = np.array([0x800 + array.ndim, *array.shape], ">i4")
            (root / "MNIST/raw" / f"{name}-{kind}-ubyte").write_bytes(extents.tobytes() + array.tobytes())
    return root


def what_it_saw(name, root, workers, base):
    """Runs a program. Returns a list of (index of the loader, copy of the batch), with "end" instead of a batch after each epoch, and for each loader
    whether it runs in C."""
    batches, in_c = [], []

    class Recording(base):
        def __init__(self, *arguments, **named):
            super().__init__(*arguments, **named)
            self.number = len(in_c)
            in_c.append(base is DataLoader and " in C" in self.explain())

        def __iter__(self):
            for batch in super().__iter__():
                batches.append((self.number, copy.deepcopy(batch)))
                yield batch
            batches.append((self.number, "end"))

    module = program(f"one_import/{name}")
    assert module.DataLoader is DataLoader
    module.DataLoader = Recording
    torch.manual_seed(SEED)
    random.seed(SEED)
    np.random.seed(SEED)
    module.main(str(root), workers)
    return batches, in_c


def compare(ours, theirs, drawn, where):
    """Compares two batches. drawn: whether the values depend on random draws. If so, compares only shapes and types of images, and only sums of soft labels."""
    assert type(ours) is type(theirs), where
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs), where
        for key in theirs:
            compare(ours[key], theirs[key], drawn, f"{where}[{key!r}]")
    elif isinstance(theirs, (list, tuple)):
        assert len(ours) == len(theirs), where
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            compare(a, b, drawn, f"{where}[{k}]")
    elif isinstance(theirs, torch.Tensor):
        assert (ours.shape, ours.dtype, ours.device, ours.stride()) == (theirs.shape, theirs.dtype, theirs.device, theirs.stride()), where
        if theirs.dim() >= 3 and theirs.is_floating_point():
            most = 1.01 / 255 / 0.225  # one step of a byte, divided by the smallest standard deviation
            assert drawn or (ours - theirs).abs().max() <= most, where
        elif theirs.is_floating_point() and drawn:
            assert torch.allclose(ours.sum(-1), theirs.sum(-1)), where  # MixUp's targets: only their sums must agree
        else:
            assert torch.equal(ours, theirs), where
    else:
        assert ours == theirs, where


ONE_IMPORT = {  # program: ([C makes the images, for each loader], [values depend on random draws, for each loader; []: none do])
    "classification": ([True, True], [True, False]),
    "detection": ([False], []),
    "dict_batches": ([True], []),
    "few_shot": ([True], []),
    "image_text": ([True], []),
    "k_fold": ([True] * 6, []),
    "lines": ([False], []),
    "mnist": ([True, True], []),
    "multi_task": ([True, True], []),
    "pairs": ([False], []),
    "prefetcher": ([False], []),
    "segmentation": ([False, False], []),
    "super_resolution": ([False], []),
    "two_views": ([False], []),
    "weighted": ([True], []),
}


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("name", ONE_IMPORT)
def test_one_import(data_root, name, workers):
    in_c, drawn = ONE_IMPORT[name]
    theirs, _ = what_it_saw(name, data_root, workers, TorchDataLoader)
    ours, found = what_it_saw(name, data_root, workers, DataLoader)
    assert found == in_c and [number for number, _ in ours] == [number for number, _ in theirs]
    for k, ((number, mine), (_, its)) in enumerate(zip(ours, theirs, strict=True)):
        compare(mine, its, bool(drawn) and drawn[number], f"{name}, loader {number}, step {k}")


def test_one_import_changes_one_line():
    listed = re.findall(r"^\| \[(\w+)\.py\]\(one_import/\1\.py\) \|.*\| 1 \|", (PORTED / "README.md").read_text(), re.M)
    assert sorted(listed) == sorted(ONE_IMPORT) == sorted(p.stem for p in PORTED.glob("one_import/*.py"))
    for path in PORTED.glob("one_import/*.py"):
        lines = [line for line in path.read_text().splitlines() if "stoker" in line]
        assert lines == ["from stoker import DataLoader  # was: from torch.utils.data import DataLoader"]
