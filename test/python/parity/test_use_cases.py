# SPDX-License-Identifier: Apache-2.0
"""DALI's PyTorch use cases (classification with ResNet-50 and EfficientNet, detection with SSD), each written once and run by both libraries.
Random values are compared by shape, dtype, label and number of steps; all others must be equal.
"""

from __future__ import annotations

import importlib
import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import stoker
from support import SEED, photograph, write_tree

torch = pytest.importorskip("torch")
dali = pytest.importorskip("nvidia.dali")
from PIL import Image  # noqa: E402

MEAN, STD = [0.485 * 255, 0.456 * 255, 0.406 * 255], [0.229 * 255, 0.224 * 255, 0.225 * 255]


def library(module: Any) -> Any:
    part = {name: importlib.import_module(f"{module.__name__}.{name}") for name in ("fn", "types", "pipeline", "plugin.pytorch")}
    return SimpleNamespace(
        fn=part["fn"],
        types=part["types"],
        pipeline_def=part["pipeline"].pipeline_def,
        torch=part["plugin.pytorch"],
        auto_augment=importlib.import_module(f"{module.__name__}.auto_aug.auto_augment"),
        trivial_augment=importlib.import_module(f"{module.__name__}.auto_aug.trivial_augment"),
    )


LIBRARIES = [library(stoker), library(dali)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("classes")
    write_tree(root, np.random.default_rng(SEED), classes=3, per_class=5)
    return str(root)


@pytest.fixture(scope="module")
def coco(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root, rng = tmp_path_factory.mktemp("coco"), np.random.default_rng(SEED)
    images, annotations = [], []
    for i in range(9):
        width, height = (int(v) for v in rng.integers(80, 160, 2))
        Image.fromarray(photograph(rng, height, width)).save(root / f"{i}.jpg")
        images.append({"id": i, "file_name": f"{i}.jpg", "width": width, "height": height})
        for _ in range(int(rng.integers(0 if i else 1, 4))):
            w, h = rng.uniform(20, 60, 2)
            box = [float(rng.uniform(0, width - w)), float(rng.uniform(0, height - h)), float(w), float(h)]
            category = int(rng.integers(1, 4))
            annotations.append({"id": len(annotations), "image_id": i, "category_id": category, "bbox": box, "iscrowd": 0, "area": w * h})
    categories = [{"id": c, "name": f"c{c}"} for c in (1, 2, 3)]
    (root / "a.json").write_text(json.dumps({"images": images, "annotations": annotations, "categories": categories}))
    return root


# ---- ResNet-50 ----


def resnet_pipeline(lib: Any, folder: str, training: bool, crop: int, size: int) -> Any:
    fn, types = lib.fn, lib.types

    @lib.pipeline_def(batch_size=4, num_threads=2, device_id=None, seed=12, exec_dynamic=True)
    def create() -> Any:
        images, labels = fn.readers.file(
            file_root=folder, shard_id=0, num_shards=1, random_shuffle=training, pad_last_batch=True, name="Reader"
        )
        if training:
            images = fn.decoders.image_random_crop(
                images,
                device="cpu",
                output_type=types.RGB,
                preallocate_width_hint=0,
                preallocate_height_hint=0,
                random_aspect_ratio=[0.8, 1.25],
                random_area=[0.1, 1.0],
                num_attempts=100,
            )
            images = fn.resize(images, device="cpu", resize_x=crop, resize_y=crop, interp_type=types.INTERP_TRIANGULAR)
            mirror = fn.random.coin_flip(probability=0.5)
        else:
            images = fn.decoders.image(images, device="cpu", output_type=types.RGB)
            images = fn.resize(images, device="cpu", size=size, mode="not_smaller", interp_type=types.INTERP_TRIANGULAR)
            mirror = False
        images = fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW", crop=(crop, crop), mean=MEAN, std=STD, mirror=mirror
        )
        return images, labels

    pipe = create()
    pipe.build()
    return pipe


@pytest.mark.parametrize("training", [True, False])
def test_resnet(folder: str, training: bool) -> None:
    epochs = []
    for lib in LIBRARIES:
        pipe = resnet_pipeline(lib, folder, training, crop=56, size=64)
        loader = lib.torch.DALIClassificationIterator(
            pipe, reader_name="Reader", last_batch_policy=lib.torch.LastBatchPolicy.PARTIAL, auto_reset=True
        )
        steps = math.ceil(loader._size / 4)
        for _ in range(2):
            made = [(step[0]["data"], step[0]["label"].squeeze(-1).long()) for step in loader]
            assert len(made) == steps == 4 and [len(x) for x, _ in made] == [4, 4, 4, 3]
            assert all(x.dtype == torch.float32 and x.shape[1:] == (3, 56, 56) for x, _ in made)
            assert torch.cat([y for _, y in made]).bincount().tolist() == [5, 5, 5]
        epochs.append(made)
    if not training:
        for (x, y), (x2, y2) in zip(*epochs, strict=True):
            assert torch.equal(y, y2) and float((x - x2).abs().max()) < 2.5 / min(STD)


# ---- EfficientNet ----


def efficientnet_pipeline(lib: Any, folder: str, augmentation: str) -> Any:
    fn, types, auto_augment, trivial_augment = lib.fn, lib.types, lib.auto_augment, lib.trivial_augment

    @lib.pipeline_def(batch_size=5, num_threads=2, device_id=None, seed=12, enable_conditionals=True)
    def training_pipe() -> Any:
        jpegs, labels = fn.readers.file(name="Reader", file_root=folder, shard_id=0, num_shards=1, random_shuffle=True, pad_last_batch=True)
        images = fn.decoders.image_random_crop(
            jpegs, device="cpu", output_type=types.RGB, random_aspect_ratio=[0.75, 4.0 / 3.0], random_area=[0.08, 1.0]
        )
        images = fn.resize(images, size=[48, 48], interp_type=types.INTERP_LINEAR, antialias=False)
        images = fn.flip(images, horizontal=fn.random.coin_flip(probability=0.5))
        if augmentation == "disabled":
            output = images
        elif augmentation == "autoaugment":
            output = auto_augment.auto_augment_image_net(images, shape=[48, 48])
        else:
            output = trivial_augment.trivial_augment_wide(images, shape=[48, 48])
        output = fn.crop_mirror_normalize(output, dtype=types.FLOAT, output_layout="CHW", crop=(48, 48), mean=MEAN, std=STD)
        return output, labels

    pipe = training_pipe()
    pipe.build()
    return pipe


@pytest.mark.parametrize("augmentation", ["disabled", "autoaugment", "trivialaugment"])
def test_efficientnet(folder: str, augmentation: str) -> None:
    for lib in LIBRARIES:
        pipe = efficientnet_pipeline(lib, folder, augmentation)
        policy = lib.torch.LastBatchPolicy.PARTIAL
        loader = lib.torch.DALIClassificationIterator(pipe, reader_name="Reader", auto_reset=True, last_batch_policy=policy)
        made = [step[0] for step in loader]
        assert len(made) == 3 and all(step["data"].shape == (5, 3, 48, 48) for step in made)
        assert torch.cat([step["label"] for step in made]).flatten().bincount().tolist() == [5, 5, 5]


# ---- SSD ----


def anchors(cells: int = 4) -> list[float]:
    at = [(i + 0.5) / cells for i in range(cells)]
    boxes = [(x - s / 2, y - s / 2, x + s / 2, y + s / 2) for s in (0.3, 0.6) for y in at for x in at]
    return [float(v) for v in np.clip(boxes, 0, 1).ravel()]


def detection_pipeline(lib: Any, root: Any, drawn: bool) -> Any:
    fn, types = lib.fn, lib.types

    @lib.pipeline_def(batch_size=3, num_threads=2, device_id=None, seed=7)
    def create() -> Any:
        inputs, boxes, labels = fn.readers.coco(
            file_root=str(root),
            annotations_file=str(root / "a.json"),
            skip_empty=True,
            shard_id=0,
            num_shards=1,
            ratio=True,
            ltrb=True,
            shuffle_after_epoch=drawn,
            name="Reader",
        )
        if drawn:
            begin, size, boxes, labels = fn.random_bbox_crop(
                boxes,
                labels,
                device="cpu",
                aspect_ratio=[0.5, 2.0],
                thresholds=[0, 0.1, 0.3, 0.5, 0.7, 0.9],
                scaling=[0.3, 1.0],
                bbox_layout="xyXY",
                allow_no_crop=True,
                num_attempts=50,
            )
            images = fn.decoders.image_slice(inputs, begin, size, device="cpu", output_type=types.RGB)
        else:
            images = fn.decoders.image(inputs, device="cpu", output_type=types.RGB)
        flip = fn.random.coin_flip(probability=0.5 if drawn else 1.0)
        images = fn.resize(images, resize_x=60, resize_y=60, min_filter=types.DALIInterpType.INTERP_TRIANGULAR)
        if drawn:
            images = fn.hsv(
                images, dtype=types.FLOAT, hue=fn.random.uniform(range=[-18, 18]), saturation=fn.random.uniform(range=[0.5, 1.5])
            )
            contrast, brightness = fn.random.uniform(range=[0.5, 1.5]), fn.random.uniform(range=[0.875, 1.125])
            images = fn.brightness_contrast(images, contrast_center=128, dtype=types.UINT8, brightness=brightness, contrast=contrast)
        boxes = fn.bb_flip(boxes, ltrb=True, horizontal=flip)
        images = fn.crop_mirror_normalize(
            images, crop=(60, 60), mean=MEAN, std=STD, mirror=flip, dtype=types.FLOAT16, output_layout="CHW", pad_output=False
        )
        boxes, labels = fn.box_encoder(boxes, labels, criteria=0.5, anchors=anchors())
        return images, boxes, labels

    pipe = create()
    pipe.build()
    return pipe


@pytest.mark.parametrize("drawn", [True, False])
def test_ssd(coco: Any, drawn: bool) -> None:
    epochs = []
    for lib in LIBRARIES:
        pipe = detection_pipeline(lib, coco, drawn)
        loader = lib.torch.DALIGenericIterator(
            pipe, ["images", "boxes", "labels"], reader_name="Reader", last_batch_policy=lib.torch.LastBatchPolicy.FILL, auto_reset=True
        )
        made = [step[0] for step in loader]
        assert all(step["images"].dtype == torch.float16 and step["images"].shape == (3, 3, 60, 60) for step in made)
        assert all(step["boxes"].shape == (3, 32, 4) and step["labels"].shape == (3, 32) for step in made)
        assert all(((step["labels"] >= 0) & (step["labels"] <= 3)).all() for step in made)
        epochs.append(made)
    assert len(epochs[0]) == len(epochs[1])
    if not drawn:
        for ours, theirs in zip(*epochs, strict=True):
            assert torch.equal(ours["labels"], theirs["labels"]) and torch.allclose(ours["boxes"], theirs["boxes"], atol=1e-5)
            assert float((ours["images"].float() - theirs["images"].float()).abs().max()) < 2.5 / min(STD)
