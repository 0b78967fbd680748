# SPDX-License-Identifier: Apache-2.0
"""Each operator gives the same output on the GPU as on the CPU: in the calls that test/python/parity compares with DALI, and in random chains of operators."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stoker
from both_sides import MEAN, STD, assert_sides_agree, batches, usable
from stoker import Pipeline, fn, types
from stoker.errors import StokerError
from support import SEED

TABLES = (
    "cases_decoders",
    "cases_geometry",
    "cases_transforms",
    "cases_warps",
    "cases_pixels",
    "cases_audio",
    "cases_filters",
    "cases_frames",
    "cases_generic",
    "cases_tensors",
    "cases_reductions",
    "cases_boxes",
    "cases_resize",
)

# Operators without a version for GPUs, in Stoker and in DALI: they read only headers, or numbers in host memory.
ON_THE_CORES = {"peek_image_shape", "bbox_rotate", "box_encoder", "random_bbox_crop", "roi_random_crop"}
# Operators whose inputs after the first are parameters, which the cores read.
PARAMETERS_ON_CORES = {"experimental.warp_perspective", "reshape", "reinterpret", "warp_affine", "slice", "crop", "resize", "slicing"}

# Operators whose outputs are in host memory, because the cores make them from shapes, properties or numbers in host memory.
HOST_OUTPUTS = {"shapes", "get_property", "full"}


def table() -> list[Any]:
    if usable(0):
        return []
    return [c for t in TABLES for c in importlib.import_module(t).all_cases()]


def definition(case: Any) -> Any:
    """Returns the case as a graph with its data on the GPU, or on the CPU in a pipeline without a GPU."""
    from harness import Library

    library = Library("stoker")
    decodes = case.op.startswith("decoders.")
    cores = case.op in ON_THE_CORES or case.op.startswith(("transforms.", "segmentation."))

    def define() -> Any:
        inputs = [library.resolve(i) for i in case.inputs]
        if not decodes and not cores:
            inputs = [n.gpu() if k == 0 or case.op not in PARAMETERS_ON_CORES else n for k, n in enumerate(inputs)]
        if case.build:
            made = case.build(library, *inputs)
            return made.gpu() if case.op.startswith("transforms.") else made
        kwargs = {k: library.resolve(v) for k, v in case.kwargs.items()}
        if decodes:
            kwargs["device"] = "mixed"
        result = library.operator(case.op)(*inputs, **kwargs)
        if not cores and case.inputs:
            return result
        return [r.gpu() for r in result] if isinstance(result, (list, tuple)) else result.gpu()

    return define


CASES = table()


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{c.name}" for i, c in enumerate(CASES)])
def test_as_on_the_cores(case: Any) -> None:
    from harness import Batch

    size = next((len(b) for b in [*case.inputs, *case.kwargs.values()] if isinstance(b, Batch)), 3)
    settings: dict[str, Any] = {"batch_size": size, "num_threads": 1, "prefetch_queue_depth": 1}
    if not case.error:
        counters: dict[str, int] = {}
        found = assert_sides_agree(definition(case), 2, case.name, counters, **settings)
        assert counters["on_cores"] == 0 or case.op.startswith("decoders.")
        place = "cpu" if case.name.startswith("slicing(x.shape") or case.op in HOST_OUTPUTS else "gpu"
        assert all(o.kind == place for batch in found for o in batch), f"an output did not come from the {place}"
        return
    kinds = []
    for device in (None, 0):
        with pytest.raises((StokerError, TypeError, ValueError)) as raised:
            list(batches(definition(case), device, 1, **settings))
        kinds.append(raised.type)
    assert kinds[0] is kinds[1]


def random_chain(rng: np.random.Generator, root: Path) -> Any:
    """Returns a function that builds a graph of random operators with random arguments over the files of a folder, and a description. Everything is drawn in
    advance, because the graph is built twice."""
    size = [int(v) for v in rng.integers(8, 90, 2)]
    filters = [
        types.INTERP_LINEAR,
        types.INTERP_CUBIC,
        types.INTERP_TRIANGULAR,
        types.INTERP_LANCZOS3,
        types.INTERP_NN,
        types.INTERP_GAUSSIAN,
    ]
    chosen = filters[int(rng.integers(len(filters)))]
    first = ["resize", "crop", "random_resized_crop", "warp", "whole then resize"][int(rng.integers(5))]
    colours = [c for c in ("brightness_contrast", "hsv", "saturation", "color_twist") if rng.random() < 0.3]
    out_type = [types.FLOAT, types.FLOAT16, types.BFLOAT16, types.UINT8, types.INT8][int(rng.integers(5))]
    layout = ["CHW", "HWC"][int(rng.integers(2))]
    angle, antialias = float(rng.uniform(-1, 1)), bool(rng.integers(2))
    flips, crop = bool(rng.integers(2)), [min(s, int(v)) for s, v in zip(size, rng.integers(4, 60, 2), strict=True)]
    said = f"{first} {size} {chosen!r} antialias={antialias} {colours} {out_type!r} {layout} flips={flips} crop={crop}"

    def geometry(data: Any) -> Any:
        decode = fn.decoders.image_random_crop if first == "resize" else fn.decoders.image
        image = decode(data, device="mixed")
        if first == "random_resized_crop":
            return fn.random_resized_crop(image, size=size, interp_type=chosen, antialias=antialias)
        if first == "crop":
            return fn.crop(
                image, crop=size, crop_pos_x=fn.random.uniform(range=[0.0, 1.0]), out_of_bounds_policy="pad", fill_values=[3.0, 2.0, 1.0]
            )
        if first == "warp":
            c, s = float(np.cos(angle)), float(np.sin(angle))
            return fn.warp_affine(image, matrix=[c, -s, 5.0, s, c, -3.0], size=size, fill_value=7.0, interp_type=types.INTERP_LINEAR)
        return fn.resize(image, size=size, interp_type=chosen, antialias=antialias)

    def define() -> Any:
        data, label = fn.readers.file(file_root=str(root), random_shuffle=True, shuffle_seed=3)
        image = geometry(data)
        for colour in colours:
            draw = fn.random.uniform(range=[0.5, 1.5])
            if colour == "hsv":
                image = fn.hsv(image, hue=fn.random.uniform(range=[-40.0, 40.0]), saturation=draw, value=draw)
            elif colour == "brightness_contrast":
                image = fn.brightness_contrast(image, brightness=draw, contrast=fn.random.uniform(range=[0.5, 1.5]))
            elif colour == "saturation":
                image = fn.saturation(image, saturation=draw)
            else:
                image = fn.color_twist(image, brightness=draw, hue=fn.random.uniform(range=[-90.0, 90.0]), saturation=draw)
        if flips:
            image = fn.flip(image, horizontal=fn.random.coin_flip(), vertical=fn.random.coin_flip())
        image = fn.crop_mirror_normalize(
            image, crop=crop, mirror=fn.random.coin_flip(), mean=MEAN, std=STD, dtype=out_type, output_layout=layout
        )
        return image, label.gpu()

    return define, said


@pytest.mark.parametrize("number", range(60))
def test_random_chains(tree: Path, number: int) -> None:
    define, said = random_chain(np.random.default_rng([SEED, number]), tree)
    for fuse in (True, False):
        assert_sides_agree(define, 3, f"chain {number} (fuse={fuse}): {said};", fuse=fuse, batch_size=5)


@pytest.mark.parametrize("name", ["uniform", "normal", "coin_flip", "choice"])
def test_draws_are_the_same(name: str) -> None:
    def define() -> Any:
        arguments: dict[str, Any] = {"choice": {"shape": [5]}}.get(name, {"shape": [3, 4]})
        return getattr(fn.random, name)(*([4] if name == "choice" else []), **arguments).gpu()

    assert_sides_agree(define, 3)


@pytest.mark.parametrize("name", ["gaussian", "shot", "salt_and_pepper"])
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.float32])
def test_noise_is_the_same(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(SEED)
    images = [rng.uniform(0, 255, (11, 13 + i, 3)).astype(dtype) for i in range(3)]

    def define() -> Any:
        image = fn.external_source(source=[images], cycle=True, layout="HWC").gpu()
        return getattr(fn.noise, name)(image), getattr(fn.noise, name)(image, **({"factor": 0.5} if name == "shot" else {}))

    assert_sides_agree(define, 2)


@pytest.mark.parametrize("layout", ["ft", "tf"])
@pytest.mark.parametrize(
    ("window", "step", "reflect"), [(400, 160, True), (400, 161, True), (401, 160, True), (512, 128, False), (1, 37, True)]
)
def test_frames_of_512_samples(layout: str, window: int, step: int, reflect: bool) -> None:
    """Spectra and mel bands of frames of 512 samples, for which the GPU has a separate kernel, equal those of the cores. Sounds have from one frame to many,
    and some frames reach beyond their ends."""
    rng = np.random.default_rng(SEED)
    sounds = [rng.standard_normal(n).astype(np.float32) for n in (1, 160, 2399, 2400, 2561, 7777)]

    def define() -> Any:
        sound = fn.external_source(source=[sounds], cycle=True).gpu()
        frames = {"nfft": 512, "window_length": window, "window_step": step, "layout": layout, "reflect_padding": reflect}
        return fn.spectrogram(sound, **frames), fn.mel_filter_bank(
            fn.spectrogram(sound, power=1, **frames), sample_rate=16000.0, nfilter=80
        )

    assert_sides_agree(define, 1, batch_size=6)


def test_arithmetic_of_both_sides() -> None:
    """If an operator has an input in host memory and one on the GPU, the former is copied to the GPU."""
    values = [np.arange(6, dtype=np.int32).reshape(2, 3) + i for i in range(3)]

    def define() -> Any:
        host = fn.external_source(source=[values], cycle=True)
        return host.gpu() * 3 + host, (host.gpu() - 2) / 7, host + 1

    kinds = [o.kind for o in assert_sides_agree(define)[0]]
    assert kinds == ["gpu", "gpu", "cpu"]


def test_shapes_are_known_on_the_cores(tree: Path) -> None:
    def define() -> Any:
        data, _ = fn.readers.file(file_root=str(tree))
        image = fn.decoders.image(data, device="mixed")
        half = fn.cast(image.shape()[0:2] / 2, dtype=types.INT64)
        return image.shape(), fn.crop(image, crop_h=half[0], crop_w=half[1])

    assert [o.kind for o in assert_sides_agree(define, 3)[0]] == ["cpu", "gpu"]


@pytest.mark.parametrize("op", ["remap", "jitter"])
def test_what_dali_has_on_gpus_alone(op: str) -> None:
    rng = np.random.default_rng(SEED)
    images = [rng.integers(0, 255, (20 + i, 30, 3)).astype(np.uint8) for i in range(3)]
    maps = [[rng.uniform(-3, 33, (17 + i, 25)).astype(np.float32) for i in range(3)] for _ in range(2)]

    def define() -> Any:
        image = fn.external_source(source=[images], cycle=True, layout="HWC").gpu()
        if op == "jitter":
            return [fn.jitter(image, nDegree=5, interp_type=i) for i in (types.INTERP_NN, types.INTERP_LINEAR)]
        x, y = (fn.external_source(source=[m], cycle=True).gpu() for m in maps)
        return [fn.experimental.remap(image, x, y, interp=i) for i in (types.INTERP_NN, types.INTERP_LINEAR, types.INTERP_CUBIC)]

    assert_sides_agree(define, 2)


def test_outputs_made_on_the_cores_are_copied_to_the_gpu(tmp_path):
    """If an operator with device="gpu" runs on the cores, its outputs are copied to the GPU. The added copies change neither the inputs nor the random draws of
    other operators, also after serialize()."""
    array = np.asfortranarray(np.arange(24, dtype="f4").reshape(2, 3, 4))
    np.save(tmp_path / "a.npy", array)

    @stoker.pipeline_def(batch_size=2, num_threads=2, device_id=0, seed=3)
    def define():
        drawn = fn.random.uniform(device="gpu")
        seven = types.Constant(7.0, shape=[1])
        read = fn.readers.numpy(files=[str(tmp_path / "a.npy")], device="gpu")
        return drawn, seven, read, seven + drawn, read * 2

    made = define()
    for pipe in (made, stoker.Pipeline.deserialize(made.serialize())):
        drawn, seven, read, both, twice = pipe.run()
        assert [isinstance(o, stoker.tensors.TensorListGPU) for o in (drawn, seven, read, both, twice)] == [True, False, True, True, True]
        for i in range(2):
            x = np.asarray(drawn.as_cpu().at(i))
            assert np.asarray(seven.at(i)) == 7 and np.asarray(both.as_cpu().at(i)) == 7 + x
            assert np.array_equal(np.asarray(read.as_cpu().at(i)), array)
            assert np.array_equal(np.asarray(twice.as_cpu().at(i)), array * 2)
    alone = fn.random.uniform(range=[0.0, 1.0], device="gpu") + 1  # made outside of any pipeline
    pipe = stoker.Pipeline(batch_size=2, num_threads=1, device_id=0)
    with pipe:
        pipe.set_outputs(fn.random.coin_flip(), alone)
    assert np.asarray(pipe.run()[1].as_cpu().at(0)) >= 1


def test_numbers_that_are_not_finite_are_refused_for_the_gpu_too() -> None:
    image, values = np.zeros((4, 5, 3), np.uint8), [np.float32(1), np.float32(np.nan)]
    for define, message in (
        (lambda x, v: fn.brightness(x, brightness=v), r'"brightness" is nan; it must be a finite float32 .*; sample 1 of epoch 0'),
        (
            lambda x, v: fn.pad(x, axes=[0], shape=[9], fill_value=v),
            r'"fill_value" is nan, which an output of uint8 .*; sample 1 of epoch 0',
        ),
    ):
        pipe = Pipeline(batch_size=2, num_threads=1, device_id=0)
        with pipe:
            pipe.set_outputs(define(fn.external_source(lambda: [image, image], layout="HWC").gpu(), fn.external_source(lambda: values)))  # noqa: B023
        with pytest.raises(StokerError, match=message):
            pipe.run()
