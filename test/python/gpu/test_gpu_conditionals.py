# SPDX-License-Identifier: Apache-2.0
"""Branches on the GPU give the values of the cores, and no job runs for a sample that does not take the branch. Automatic augmentations may differ by 1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both_sides import MEAN, STD, Output, difference
from stoker import fn, pipeline_def, types
from stoker.errors import StokerError


def on(device_id: int | None, define: Any, batches: int, **kwargs: Any) -> tuple[list[list[Output]], dict[str, float]]:
    settings = {"batch_size": 5, "num_threads": 2, "seed": 4, "enable_conditionals": True, **kwargs}
    pipe = pipeline_def(define)(device_id=device_id, **settings)
    made = [[Output.of(o) for o in pipe.run()] for _ in range(batches)]
    return made, pipe.counters()


def test_a_predicate_that_the_gpu_reads_too() -> None:
    """The predicate is also an input of an operator on the GPU, and is copied there. The cores still read it in host memory to merge the branches."""
    flags = [np.array(i % 3 == 0) for i in range(5)]

    def define() -> Any:
        flag = fn.external_source(source=[flags], cycle=True, dtype=types.BOOL, ndim=0)
        if flag:
            out = fn.stack(flag, flag, device="gpu")
        else:
            out = fn.stack(flag, False, device="gpu")
        return out

    (cores,), _ = on(None, define, 1)
    (gpu,), _ = on(0, define, 1)
    assert cores[0].data == gpu[0].data == [bytes([i % 3 == 0] * 2) for i in range(5)]


def test_the_same_as_on_the_cores(tree: Path) -> None:
    def define() -> Any:
        data, label = fn.readers.file(file_root=str(tree), random_shuffle=True, name="Reader")
        image = fn.resize(fn.decoders.image(data, device="mixed"), size=(40, 48))
        kept, which = image, label[0]
        if fn.random.coin_flip():
            image = fn.flip(image)
            if which == 1:
                image = fn.brightness_contrast(image, brightness=1.25)
        elif which == 2:
            image = fn.crop(image, crop=(40, 48), out_of_bounds_policy="pad")
            image = fn.color_twist(image, saturation=fn.random.uniform(range=(0.5, 1.5)))
        if which == 0:
            corner = image[0:4, 0:4].cpu()  # waits for the GPU; this branch has only some of the samples
        else:
            corner = kept[2:6, 2:6].cpu()
        return image, fn.crop_mirror_normalize(image, crop=(30, 30), mean=MEAN, std=STD), corner, which

    for fuse in (True, False):
        cores, _ = on(None, define, 4, fuse=fuse)
        gpu, counters = on(0, define, 4, fuse=fuse)
        assert counters["branch_skips"] > 0
        for a, b in zip(cores, gpu, strict=True):
            assert [o.kind for o in b] == ["gpu", "gpu", "cpu", "cpu"]
            for i, (x, y) in enumerate(zip(a, b, strict=True)):
                worst = difference(x, y)
                if worst and x.dtype == types.FLOAT:  # a real GPU fuses multiplications and additions, so floats may differ slightly
                    for p, q in zip(x.data, y.data, strict=True):
                        np.testing.assert_allclose(np.frombuffer(p, np.float32), np.frombuffer(q, np.float32), atol=1e-5)
                else:
                    assert not worst, f"output {i}: {worst}"


def test_files_are_decoded_for_who_takes_the_branch(tree: Path) -> None:
    def define() -> Any:
        data, label = fn.readers.file(file_root=str(tree))
        if label[0] == 1:
            image = fn.resize(fn.decoders.image(data, device="mixed"), size=(8, 8))
        else:
            image = fn.constant(idata=[7] * 192, shape=(8, 8, 3), dtype=types.UINT8, layout="HWC").gpu()
        return image, label

    (batch,), counters = on(0, define, 1, batch_size=21, max_batches=1, prefetch_queue_depth=1)
    for image, label in zip(batch[0].data, batch[1].data, strict=True):
        assert (image == bytes([7]) * 192) == (np.frombuffer(label, np.int32)[0] != 1)
    assert counters["decodes"] == 7 * counters["batches_opened"]


def test_places_that_cannot_be() -> None:
    def condition() -> Any:
        if fn.random.coin_flip().gpu():
            return 1
        return 2

    def sides() -> Any:
        x = fn.random.uniform(range=(0, 1))
        if fn.random.coin_flip():
            x = x.gpu()
        return x

    def constant() -> Any:
        x = fn.random.uniform(range=(0, 1)).gpu()
        if fn.random.coin_flip():
            x = np.float32(5)
        return x

    with pytest.raises(StokerError, match=r"`if` at test_gpu_conditionals.py:\d+: its condition lies on the GPU.*\.cpu\(\)"):
        on(0, condition, 1)
    with pytest.raises(
        StokerError, match=r"leaves its value on the GPU, random.uniform at test_gpu_conditionals.py:\d+ on the cores; add \.gpu\(\)"
    ):
        on(0, sides, 1)
    ((output,),), _ = on(0, constant, 1, seed=5)
    assert output.kind == "gpu" and any(np.frombuffer(x, np.float32)[0] == 5 for x in output.data)


def test_automatic_augmentations() -> None:
    """Policies and suites give the cores' images on the GPU, except that fewer than 1% of the bytes differ, by 1. Some operators read their
    parameters in host memory, others on the GPU."""
    from stoker.auto_aug import auto_augment, rand_augment, trivial_augment

    images = [np.random.default_rng(i).integers(0, 256, (30 + i, 41 - i, 3), np.uint8) for i in range(12)]

    def define() -> Any:
        image = fn.external_source(lambda: images, batch=True, layout="HWC")
        shape = image.shape(dtype=types.INT32)
        image = image.gpu()
        made = [auto_augment.auto_augment(image, name, shape=shape, seed=3) for name in ("image_net", "svhn", "reduced_cifar10")]
        made.append(rand_augment.rand_augment(image, 2, 17))
        made.append(trivial_augment.trivial_augment_wide(image, interp_type=types.INTERP_NN, fill_value=None))
        return tuple(made)

    cores, _ = on(None, define, 2, batch_size=len(images))
    gpu, counters = on(0, define, 2, batch_size=len(images))
    assert counters["branch_skips"] > 0
    for a, b in zip(cores, gpu, strict=True):
        assert [o.kind for o in b] == ["gpu"] * 5
        for x, y in zip(a, b, strict=True):
            gaps = [
                np.abs(np.frombuffer(p, np.uint8).astype(int) - np.frombuffer(q, np.uint8)) for p, q in zip(x.data, y.data, strict=True)
            ]
            assert max(int(g.max()) for g in gaps) <= 1 and np.mean([np.mean(g > 0) for g in gaps]) < 0.01


def test_automatic_augmentations_of_the_loader() -> None:
    """The cores and the GPU give equal bytes, whether or not the images' sizes are known in advance."""
    from stoker import transforms as T
    from stoker._transforms_timm import Levelled, LevelledAugment
    from stoker.loader.lower._rules import Image, rule_of

    images = [np.random.default_rng(i).integers(0, 256, (40, 50, 3), np.uint8) for i in range(12)]
    steps = [[Levelled("Rotate", 0.5, 9, 0.5, 10, slope=3.0)], [Levelled("TranslateX", 0.5, 9, 0.5, 10, slope=0.03, of="width")]]
    timms = LevelledAugment(2, steps, [types.INTERP_LINEAR, types.INTERP_CUBIC], [1.0, 2.0, 3.0])
    transforms = [T.RandAugment(3, interpolation="bilinear"), T.TrivialAugmentWide(), T.AutoAugment(), T.AugMix(), timms]

    def define() -> Any:
        image = fn.external_source(lambda: images, batch=True, layout="HWC").gpu()
        return tuple(
            rule_of(t).apply(Image(image, extent)).node
            for extent in (None, (40, 50))
            for t in [*transforms, T.RandomApply([T.RandAugment()])]
        )

    cores, _ = on(None, define, 1, batch_size=len(images))
    gpu, _ = on(0, define, 1, batch_size=len(images))
    for x, y in zip(cores[0], gpu[0], strict=True):
        assert y.kind == "gpu" and not difference(x, y)
