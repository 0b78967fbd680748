# SPDX-License-Identifier: Apache-2.0
"""Loader and the PyTorch iterators on a GPU: the same bytes as on the CPU, as torch's tensors on the given `device`."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from both_sides import Output, difference, emulated, make
from driver_consumer import Driver
from support import SEED

torch = pytest.importorskip("torch")

from stoker import Loader, types  # noqa: E402
from stoker import transforms as T  # noqa: E402
from stoker.errors import InvalidArgumentError, StokerError  # noqa: E402
from stoker.plugin.pytorch import (  # noqa: E402
    DALIClassificationIterator,
    DALIGenericIterator,
    DALIRaggedIterator,
    LastBatchPolicy,
    feed_ndarray,
)

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
RECIPES = {
    "training": [T.RandomResizedCrop(64), T.RandomHorizontalFlip(), T.Normalize(MEAN, STD)],
    "validation": [T.Resize(80), T.CenterCrop(64), T.Normalize(MEAN, STD)],
    "jitter": [T.Resize((50, 60)), T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.RandomVerticalFlip()],
    "crops": [T.RandomCrop(40, padding=10), T.Normalize(MEAN, STD)],
}
OTHERS = {
    "colours": [
        T.Resize((50, 60)),
        T.RandomApply([T.RandomEqualize(1), T.RandomAdjustSharpness(2, 0.7)], 0.5),
        T.RandomChoice([T.RandomPhotometricDistort(), T.RandomAutocontrast(), T.JPEG((20, 60))]),
        T.GaussianNoise(),
    ],
    "places": [
        T.RandomShortestSize([60, 70]),
        T.RandomPerspective(),
        T.RandomZoomOut(9, (1, 1.5)),
        T.RandomApply([T.ElasticTransform(20.0, 2.0, fill=5)], 0.5),
        T.RandomCrop(64, padding=9, pad_if_needed=True, padding_mode="reflect"),
        T.Normalize(MEAN, STD),
    ],
}


def loader(tree: Any, device: Any, recipe: str = "training", **kwargs: Any) -> Loader:
    return Loader(
        tree,
        **{"batch_size": 5, "shuffle": True, "seed": SEED, "num_threads": 2, **kwargs},
        transforms={**RECIPES, **OTHERS}[recipe],
        device=device,
    )


@pytest.mark.parametrize("recipe", [*RECIPES, *OTHERS])
def test_pipelines_make_the_same(tree: Path, recipe: str) -> None:
    """The pipelines that a Loader makes for the CPU and for a GPU give the same images. They run without the Loader, so torch needs no CUDA."""
    cores, gpu = loader(tree, "cpu", recipe).pipeline, loader(tree, "cuda:0", recipe).pipeline
    for _ in range(8):
        (a, _), (b, label) = cores.run(), gpu.run()
        assert not difference(Output.of(a), Output.of(b)), f"seed {SEED}"
        assert label.dtype is types.INT64 and Output.of(label).kind == Output.of(b).kind == "gpu"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("recipe", RECIPES)
def test_loader_gives_the_batches_of_the_cores_on_the_gpu(torch_cuda, tree: Path, recipe: str, memory_format: Any, dtype: Any) -> None:
    if dtype == torch.uint8 and any(isinstance(t, T.Normalize) for t in RECIPES[recipe]):
        pytest.skip("normalised numbers are no uint8")
    sides = [loader(tree, d, recipe, dtype=dtype, memory_format=memory_format) for d in ("cpu", "cuda")]
    for _ in range(2):
        for (a, x), (b, y) in zip(*sides, strict=True):
            assert b.device == y.device == torch.device("cuda", 0) and b.dtype == dtype and y.dtype == torch.int64
            assert b.is_contiguous(memory_format=memory_format) and a.shape == b.shape
            assert torch.equal(a, b.cpu()) and torch.equal(x, y.cpu()), f"seed {SEED}"


@pytest.mark.parametrize("device", ["cuda", "cuda:0", "gpu", 0])
def test_names_of_the_device(torch_cuda, tree: Path, device: Any) -> None:
    assert next(iter(loader(tree, device)))[0].device == torch.device("cuda", 0)
    assert next(iter(loader(tree, torch.device("cuda"))))[0].is_cuda
    with torch.cuda.device(0):
        assert next(iter(loader(tree, torch.device("cuda", 0))))[0].is_cuda


def test_no_such_device(tree: Path) -> None:
    for wrong in ("cuda:x", "tpu", "cuda:-1"):
        with pytest.raises(InvalidArgumentError, match="device"):
            loader(tree, wrong)
    with pytest.raises(StokerError, match="77"):
        loader(tree, "cuda:77")


def test_second_gpu(torch_cuda, two_gpus, tree: Path) -> None:
    sides = [loader(tree, d) for d in ("cpu", "cuda:0", "cuda:1")]
    for (a, _), (b, _), (c, y) in zip(*sides, strict=True):
        assert b.device.index == 0 and c.device.index == y.device.index == 1
        assert torch.equal(a, b.cpu()) and torch.equal(a, c.cpu())
    with torch.cuda.device(1):
        assert next(iter(loader(tree, "cuda")))[0].device.index == 1


def test_padding_is_marked(torch_cuda, tree: Path) -> None:
    for device in ("cpu", "cuda"):
        made = list(loader(tree, device, shuffle=False, last_batch="pad", batch_size=8, fields=("image", "label", "path", "index")))
        assert [b.valid.sum().item() for b in made] == [8, 8, 5] and all(b.valid.device.type == device for b in made)
        assert made[0].path[0].endswith(".jpg") and made[0].index.tolist() == list(range(8))


def test_resume_on_the_other_device(torch_cuda, tree: Path) -> None:
    whole = [b.image for b in loader(tree, "cpu")]
    for here, there in (("cpu", "cuda"), ("cuda", "cpu")):
        first = loader(tree, here)
        begun = [b.image.cpu() for _, b in zip(range(2), first, strict=False)]
        second = loader(tree, there)
        second.load_state_dict(first.state_dict())
        got = begun + [b.image.cpu() for b in second]
        assert len(got) == len(whole) and all(torch.equal(a, b) for a, b in zip(whole, got, strict=True))


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cifar")
    folder = root / "cifar-10-batches-bin"
    folder.mkdir()
    records = np.random.default_rng(SEED).integers(0, 255, (10000, 3073), dtype=np.uint8)
    records[:, 0] %= 10
    (folder / "test_batch.bin").write_bytes(records.tobytes())
    for k in range(1, 6):
        os.link(folder / "test_batch.bin", folder / f"data_batch_{k}.bin")
    return root


AUGMENTED = [T.RandomCrop(32, padding=4), T.RandomHorizontalFlip(), T.Normalize(MEAN, STD)]


def labels_of(tensors: Any) -> list[int]:
    """Returns the labels as integers. On the GPU they are int64, as torch needs them."""
    return [int(t) for t in np.asarray(tensors.as_cpu().as_array()).ravel()]


def cifar_sides(cifar: Path, **kwargs: Any) -> list[Any]:
    settings = {"batch_size": 100, "seed": SEED, "num_threads": 2, "transforms": AUGMENTED, **kwargs}
    return [Loader(cifar, device=d, **settings) for d in ("cpu", "cuda:0")]


def assert_same_batches(sides: list[Any], batches: int) -> None:
    for _ in range(batches):
        (a, x), (b, y) = (p.run() for p in sides)
        assert not difference(Output.of(a), Output.of(b)), f"seed {SEED}"
        assert labels_of(x) == labels_of(y) and y.dtype is types.INT64 and Output.of(b).kind == Output.of(y).kind == "gpu"


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.uint8])
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_cifar_gives_the_batches_of_the_cores(cifar: Path, memory_format: Any, dtype: Any, split: str) -> None:
    """The data set is stored on the GPU, and its batches equal those of the cores byte for byte."""
    steps = AUGMENTED if split == "train" else AUGMENTED[2:]
    steps = steps[:-1] if dtype == torch.uint8 else steps
    wanted: dict[str, Any] = {"dtype": dtype, "memory_format": memory_format, "shuffle": split == "train", "split": split}
    sides = [s.pipeline for s in cifar_sides(cifar, transforms=steps, **wanted)]
    assert_same_batches(sides, 3)
    assert "lies on the GPU" in sides[1].explain() and "lies on the GPU" not in sides[0].explain()


def test_cifar_leaves_no_memory_on_the_gpu(cifar: Path) -> None:
    """Closing a pipeline frees the memory that its consumer kept and dropped while the pipeline ran."""
    if not emulated():
        pytest.skip("other processes may use a real GPU's memory")
    driver, left = Driver(), []
    settings: dict[str, Any] = {"device": "cuda:0", "seed": SEED, "num_threads": 2, "transforms": AUGMENTED}
    with Loader(cifar, 10, **settings) as other:
        other.pipeline.run()  # keeps the GPU open, and what is loaded there
        for batches in 0, 60:
            with Loader(cifar, 1000, **settings) as loader:
                kept = [loader.pipeline.run() for _ in range(batches)]
                del kept
            free, memory = ctypes.c_size_t(), ctypes.c_size_t()
            driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(memory))
            left.append(free.value)
    assert left[0] == left[1] < memory.value


@pytest.mark.parametrize("shard", [(0, 3), (2, 3)])
@pytest.mark.parametrize("last_batch", ["keep", "drop", "pad"])
def test_cifar_shards_and_ends_of_epochs(cifar: Path, last_batch: str, shard: tuple[int, int]) -> None:
    """Both devices give the same batches, also at the ends of epochs: neither 10 000 images nor a third of them are a multiple of the batch size 1 234."""
    sides = [s.pipeline for s in cifar_sides(cifar, split="test", shuffle=True, batch_size=1234, last_batch=last_batch, shard=shard)]
    seen: list[list[Any]] = [[], []]
    for side, into in zip(sides, seen, strict=True):
        for _ in range(5):
            try:
                images, labels = side.run()
            except StopIteration:
                side.reset()
                continue
            into.append((Output.of(images), labels_of(labels)))
    assert len(seen[0]) == len(seen[1]) > 3
    for a, b in zip(*seen, strict=True):
        assert not difference(a[0], b[0]) and a[1] == b[1]


def test_cifar_by_operators(cifar: Path) -> None:
    """A graph as a DALI user would write it, over a data set that is stored on the GPU, gives the batches of the cores."""
    from stoker import fn, pipeline_def

    def sides(steps: Any) -> list[Any]:
        made = []
        for device in (None, 0):
            pipe = pipeline_def(batch_size=64, num_threads=2, device_id=device, seed=SEED)(steps)()
            pipe.build()
            made.append(pipe)
        return made

    def steps() -> Any:
        images, labels = fn.readers.cifar(root=str(cifar), random_shuffle=True, name="Reader")[:2]
        images = fn.crop_mirror_normalize(
            images.gpu(), crop=(28, 24), mirror=fn.random.coin_flip(probability=0.25), mean=[125.0], std=[60.0], dtype=types.FLOAT16
        )
        return images, labels.gpu()

    pipes = sides(steps)
    for _ in range(3):
        (a, x), (b, y) = (p.run() for p in pipes)
        assert not difference(Output.of(a), Output.of(b)) and not difference(Output.of(x), Output.of(y))
    assert "lies on the GPU" in pipes[1].explain()


class Items:
    """A map-style Dataset of paths or arrays, with two targets."""

    def __init__(self, files: list[Path], arrays: bool) -> None:
        self.files, self.arrays = files, arrays

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> Any:
        image = np.random.default_rng(i).integers(0, 255, (40 + i, 50, 3), dtype=np.uint8) if self.arrays else str(self.files[i])
        return image, i, np.float32([i, 0.5])


@pytest.mark.parametrize("arrays", [False, True])
def test_datasets_give_the_batches_of_the_cores(files: list[Path], arrays: bool) -> None:
    sides = [loader(Items(files, arrays), d, "validation").pipeline for d in ("cpu", "cuda:0")]
    for _ in range(4):
        for a, b in zip(*(p.run() for p in sides), strict=True):
            assert not difference(Output.of(a), Output.of(b)) and Output.of(b).kind == "gpu"


@pytest.mark.parametrize(("whole", "dtype"), [(True, "uint8"), (False, "uint8"), (False, "float32")])
def test_planes_give_the_batches_of_the_cores(whole: bool, dtype: str) -> None:
    """Images whose channels are the first dimension, in one array or as a Dataset's tensors, give the same batches on both sides for any number of channels."""
    rng = np.random.default_rng(SEED)
    for channels in (1, 3, int(rng.integers(5, 40))):
        height, width = (int(n) for n in rng.integers(20, 60, 2))
        x = rng.integers(0, 256, (11, channels, height, width)).astype(dtype)
        source = (x, np.arange(11)) if whole else torch.utils.data.TensorDataset(torch.from_numpy(x), torch.arange(11))
        steps = [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.ToTensor(), T.Normalize([0.5] * channels, [0.25] * channels)]
        sides = [
            Loader(source, 4, transforms=steps, layout="CHW", shuffle=True, seed=SEED, num_threads=2, device=d).pipeline
            for d in ("cpu", "cuda:0")
        ]
        for _ in range(2):
            for a, b in zip(*(p.run() for p in sides), strict=True):
                assert not difference(Output.of(a), Output.of(b)) and Output.of(b).kind == "gpu"


def test_loader_of_a_dataset(torch_cuda, files: list[Path]) -> None:
    made = [list(loader(Items(files, False), d, "training", fields=("image", "label", "box"))) for d in ("cpu", "cuda")]
    for a, b in zip(*made, strict=True):
        for x, y in zip(a, b, strict=True):
            assert y.is_cuda and x.dtype == y.dtype and torch.equal(x, y.cpu())


def test_as_dataloader(torch_cuda, tree: Path) -> None:
    plain = [(a.cpu(), b.cpu()) for a, b in loader(tree, "cuda")]
    wrapped = [(a.cpu(), b.cpu()) for a, b in loader(tree, "cuda").as_dataloader()]
    assert all(torch.equal(x, y) for a, b in zip(plain, wrapped, strict=True) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("policy", LastBatchPolicy)
def test_iterators_give_the_batches_of_the_cores(torch_cuda, tree: Path, policy: LastBatchPolicy) -> None:
    sides = []
    for device in (None, 0):
        pipe = make(tree, device, graph={"pad_last_batch": True}, batch_size=4)
        iterator = DALIClassificationIterator(pipe, reader_name="Reader", last_batch_policy=policy, auto_reset=True)
        sides.append([(d[0]["data"].cpu(), d[0]["label"].cpu(), d[0]["data"].is_cuda) for _ in range(2) for d in iterator])
    assert len(sides[0]) == len(sides[1]) and all(s[2] for s in sides[1])
    assert all(torch.equal(x, y) for a, b in zip(*sides, strict=True) for x, y in zip(a[:2], b[:2], strict=True))


def test_iterator_with_channels_last(torch_cuda, tree: Path) -> None:
    def images(device: int | None) -> Any:
        pipe = make(tree, device, graph={"layout": "HWC", "dtype": types.FLOAT16})
        return next(DALIGenericIterator(pipe, ["image", "label"], channels_last=True))[0]["image"]

    a, b = images(None), images(0)
    assert b.is_cuda and b.is_contiguous(memory_format=torch.channels_last) and torch.equal(a, b.cpu())


def test_outputs_on_both_sides(torch_cuda, tree: Path) -> None:
    from both_sides import training
    from stoker import fn

    def define(root: Path) -> Any:
        image, label = training(root)
        return image, label, fn.random.uniform(range=[0.0, 1.0])

    for step in range(3):
        batch = next(DALIGenericIterator(make(tree, define=define), ["image", "label", "draw"]))[0]
        assert batch["image"].is_cuda and batch["label"].is_cuda and not batch["draw"].is_cuda, step


def test_ragged_iterator(torch_cuda, tree: Path) -> None:
    from stoker import fn

    def define(root: Path) -> Any:
        data, _ = fn.readers.file(file_root=str(root), name="Reader")
        image = fn.decoders.image(data, device="mixed")
        return image, image, fn.resize(image, size=20)

    kinds = [DALIRaggedIterator.SPARSE_LIST_TAG, DALIRaggedIterator.SPARSE_COO_TAG, DALIRaggedIterator.DENSE_TAG]
    sides = [
        next(DALIRaggedIterator(make(tree, d, define=define), ["a", "b", "c"], reader_name="Reader", output_types=kinds))[0]
        for d in (None, 0)
    ]
    assert all(torch.equal(x, y.cpu()) and y.is_cuda for x, y in zip(sides[0]["a"], sides[1]["a"], strict=True))
    assert sides[1]["b"].is_cuda and torch.equal(sides[0]["b"].to_dense(), sides[1]["b"].cpu().to_dense())
    assert torch.equal(sides[0]["c"], sides[1]["c"].cpu())


def test_feed_ndarray(torch_cuda, tree: Path) -> None:
    images, _ = make(tree).run()
    want = torch.from_dlpack(images).cpu()
    stream = torch.cuda.Stream()
    for given in (None, stream, stream.cuda_stream):
        target = torch.empty((4, 3, 64, 64), device="cuda")
        torch.cuda.synchronize()
        feed_ndarray(images, target, cuda_stream=given)
        torch.cuda.synchronize()
        assert torch.equal(target.cpu(), want)


def test_cupy_reads_it(tree: Path) -> None:
    cupy = pytest.importorskip("cupy")
    images, _ = make(tree).run()
    try:
        array = cupy.asarray(images)
    except Exception as e:
        pytest.skip(f"CuPy does not run here: {e}")
    np.testing.assert_array_equal(cupy.asnumpy(array), images.as_cpu().as_array())
    np.testing.assert_array_equal(cupy.asnumpy(cupy.from_dlpack(images[1])), images.as_cpu().at(1))


def test_host_memory_for_decoding_may_be_small(torch_cuda, tree: Path) -> None:
    small = [b[0].cpu() for b in loader(tree, "cuda", gpu_memory_limit=1 << 20)]
    assert all(torch.equal(a[0], b) for a, b in zip(loader(tree, "cpu"), small, strict=True))


def test_masks_follow_on_the_gpu() -> None:
    """The images, masks and labels are the same as on the CPU."""
    rng = np.random.default_rng(SEED)
    scenes = [(rng.integers(0, 256, (h, w, 3), dtype=np.uint8), rng.integers(0, 9, (h, w))) for h, w in rng.integers(30, 60, (5, 2))]

    class Scenes:
        def __len__(self) -> int:
            return len(scenes)

        def __getitem__(self, i: int) -> Any:
            return (*scenes[i], i)

    steps = [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.RandomCrop(20, padding=3)]
    sides = [
        Loader(Scenes(), 5, transforms=steps, fields={"image": "Image", "mask": "Mask", "label": None}, device=d, num_threads=2)
        for d in ("cpu", "cuda:0")
    ]
    (a, mask_a, _, numbers_a), (b, mask_b, _, numbers_b) = (side.pipeline.run() for side in sides)
    assert not difference(Output.of(a), Output.of(b)), f"seed {SEED}"
    assert not difference(Output.of(mask_a), Output.of(mask_b)) and Output.of(mask_b).kind == "gpu"
    assert not difference(Output.of(numbers_a), Output.of(numbers_b))


MORE = {
    "blur, gray": [T.RandomResizedCrop(24), T.RandomApply([T.GaussianBlur(5)], 0.5), T.RandomGrayscale(0.5)],
    "warp, erased": [T.RandomAffine(30, (0.1, 0.1), (0.8, 1.2), 10), T.RandomErasing(1)],
    "bilinear, values": [T.RandomRotation(20, "bilinear", fill=9), T.RandomSolarize(100), T.RandomPosterize(3), T.RandomInvert()],
    "extents": [T.Pad(3), T.Resize(20, max_size=25), T.RandomCrop(30, pad_if_needed=True)],
    "function": [T.Lambda(lambda a: a[::-1]), T.RandomHorizontalFlip(), T.Normalize([0.5] * 3, [0.5] * 3), T.RandomErasing(1)],
    "noise": [T.RandomRotation(40, expand=True), T.Resize((40, 50)), T.Normalize([0.5] * 3, [0.5] * 3), T.RandomErasing(1, value="random")],
    "one channel": [T.Grayscale(), T.Normalize([0.5], [0.5])],
}


@pytest.mark.parametrize("names", [*((name,) for name in MORE), ("blur, gray", "extents")], ids=str)
def test_transforms_and_views_make_the_same(names: tuple[str, ...]) -> None:
    rng = np.random.default_rng(SEED)
    source = rng.integers(0, 256, (8, 40, 50, 3), dtype=np.uint8), list(range(8))
    given: dict[str, Any] = {"views": [(2, MORE[n]) for n in names]} if len(names) > 1 else {"transforms": MORE[names[0]]}
    cores, gpu = (Loader(source, 4, device=d, num_threads=2, **given).pipeline for d in ("cpu", "cuda:0"))
    for _ in range(2):
        a, b = cores.run(), gpu.run()
        assert len(a) == len(b) == (5 if len(names) > 1 else 2)
        assert not [d for d in (difference(Output.of(x), Output.of(y)) for x, y in zip(a, b, strict=True)) if d], f"seed {SEED}"
