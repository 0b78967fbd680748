# SPDX-License-Identifier: Apache-2.0
"""stoker.DataLoader against torch's: Datasets, transforms, samplers, collate functions and arguments that are drawn at random, epoch by epoch.

Both get the same seed, the same arguments and objects made alike. Their batches have to agree in structure, types, dtypes, shapes, order and errors;
values are equal, except for resized images, which differ by at most 1 of 255, and for random transforms, which draw other numbers.
"""

import collections
import dataclasses
import itertools
import random

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import DataLoader
from support import SEED, import_torchvision, photograph
from torch.utils import data

torchvision = import_torchvision()
from torchvision import datasets  # noqa: E402
from torchvision import transforms as v1  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

CASES = 240
Pair = collections.namedtuple("Pair", "image label")


@dataclasses.dataclass
class Record:
    image: torch.Tensor
    label: int


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Writes folders of classes: photographs of many sizes, photographs of one size, and PNGs of seven of Pillow's modes."""
    rng = np.random.default_rng(SEED)
    root = tmp_path_factory.mktemp("images")
    for name, fixed in (("sizes", False), ("one_size", True)):
        for k in range(14):
            path = root / name / f"class{k % 3}" / f"{k:02d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            height, width = (48, 56) if fixed else (int(n) for n in rng.integers(40, 90, 2))
            Image.fromarray(photograph(rng, height, width)).save(path, quality=92)
    for k, mode in enumerate(["RGB", "L", "P", "RGBA", "LA", "1", "I;16", "RGB", "L", "P"]):
        path = root / "modes" / f"class{k % 2}" / f"{k:02d}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        image = Image.fromarray(photograph(rng, 40, 52))
        if mode == "I;16":
            Image.fromarray(rng.integers(0, 65536, (40, 52)).astype(np.uint16)).save(path)
        else:
            image.convert(mode).save(path)
    return root


class Plain(data.Dataset):
    """A Dataset as users write it, whose samples are give(index)."""

    def __init__(self, give, length, several=False):
        self.give, self.length = give, length
        if several:
            self.__getitems__ = lambda indices: [give(i) for i in indices]

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if not -self.length <= index < self.length:
            raise IndexError(f"there is no sample {index}")
        return self.give(index)


class Stream(data.IterableDataset):
    def __init__(self, length, has_length):
        self.length = length
        if has_length:
            self.__class__ = StreamOfLength

    def __iter__(self):
        info = data.get_worker_info()
        step, first = (1, 0) if info is None else (info.num_workers, info.id)
        return iter([(torch.full((3,), k), k) for k in range(first, self.length, step)])


class StreamOfLength(Stream):
    def __len__(self):
        return self.length


def in_memory(kind, transform, target_transform):
    """Returns a CIFAR10, MNIST or SVHN object of torchvision with images in memory, made without files."""
    rng = np.random.default_rng(3)
    made = object.__new__({"cifar": datasets.CIFAR10, "mnist": datasets.MNIST, "svhn": datasets.SVHN}[kind])
    made.transform, made.target_transform, made.root, made.train = transform, target_transform, "", True
    if kind == "mnist":
        made.data, made.targets = torch.from_numpy(rng.integers(0, 256, (23, 28, 28), np.uint8)), torch.arange(23) % 10
    elif kind == "svhn":
        made.data, made.labels = rng.integers(0, 256, (23, 3, 32, 32), np.uint8), np.arange(23) % 10
    else:
        made.data, made.targets = rng.integers(0, 256, (23, 32, 32, 3), np.uint8), [k % 10 for k in range(23)]
    return made


def undrawn(draw, gray):
    """Returns transforms that draw no random numbers, and the largest allowed difference from torchvision's values."""
    size = draw.choice([24, (20, 30), 33])
    mean, std = ([0.5], [0.25]) if gray or draw.random() < 0.3 else ([0.4, 0.5, 0.6], [0.2, 0.25, 0.3])
    geometry = draw.choice(["none", "resize", "crop", "resize_crop", "pad"])
    make = draw.choice([v1, v2])
    steps = {
        "none": [],
        "resize": [make.Resize(size if isinstance(size, tuple) else (size, size))],
        "crop": [make.CenterCrop(size)],
        "resize_crop": [make.Resize(36), make.CenterCrop(draw.choice([28, 32]))],
        "pad": [make.Pad(draw.choice([2, (1, 3)]))],
    }[geometry]
    if make is v2 and draw.random() < 0.4:
        steps = [v2.ToImage(), *steps]
        tail = draw.choice(
            [
                [],
                [v2.ToDtype(torch.float32, scale=True)],
                [v2.ToDtype(torch.float32, scale=True), v2.Normalize(mean, std)],
                [v2.ToPureTensor()],
            ]
        )
    else:
        tail = draw.choice(
            [
                [v1.ToTensor()],
                [v1.ToTensor(), v1.Normalize(mean, std)],
                [v1.PILToTensor()],
                [v1.PILToTensor(), v1.ConvertImageDtype(torch.float)],
            ]
        )
    tolerance = 1.0 if "resize" in geometry else 0.0
    scale = 1 / (min(std) * 255) if any("Normalize" in type(t).__name__ for t in tail) else 1 / 255
    if any(t.__class__.__name__ in ("ToTensor", "ConvertImageDtype", "ToDtype") for t in tail):
        tolerance *= scale
    return v1.Compose([*steps, *tail]) if draw.random() < 0.7 else v2.Compose([*steps, *tail]), tolerance


def drawn(draw):
    """Returns transforms that draw random numbers, and None instead of an allowed difference, because their values are not compared."""
    options = [
        v1.RandomResizedCrop(24),
        v1.Compose([v1.RandomCrop(30, padding=2), v1.RandomHorizontalFlip()]),
        v1.Compose([v1.Resize((26, 26)), v1.TrivialAugmentWide()]),
        v1.Compose([v1.Resize((26, 26)), v1.RandAugment()]),
        v1.Compose([v1.Resize((26, 26)), v1.ColorJitter(0.3, 0.3, 0.3, 0.1)]),
    ]
    return v1.Compose([draw.choice(options), v1.ToTensor(), v1.RandomErasing(0.5)]), None


def images(draw, folders):
    """Returns a function that makes an image data set of one of torchvision's classes, and the allowed difference as in drawn() and undrawn()."""
    kind = draw.choice(["sizes", "sizes", "one_size", "modes", "cifar", "mnist", "svhn"])
    transform, tolerance = undrawn(draw, kind == "mnist") if draw.random() < 0.75 else drawn(draw)
    target = draw.choice([None, None, lambda y: -y, lambda y: torch.eye(10)[y], str])
    if kind in ("cifar", "mnist", "svhn"):
        return lambda: in_memory(kind, transform, target), tolerance
    return lambda: datasets.ImageFolder(folders / kind, transform, target), tolerance


GIVES = [
    lambda i: np.full((2, 3), i, np.uint8),
    lambda i: (np.arange(i % 3 + 1), i),
    lambda i: {"a": torch.tensor([i, i + 1]), "b": f"s{i}", "c": {"d": i * 0.5}},
    lambda i: Pair(torch.full((4,), i, dtype=torch.float16), i),
    lambda i: (torch.tensor(i % 2 == 0), bool(i % 2), None) if i % 5 == 9 else (torch.tensor(i % 2 == 0), bool(i % 2)),
    lambda i: [i, (i, float(i)), b"x"],
    lambda i: (i, None),
    lambda i: Record(torch.tensor(i), i),
    lambda i: np.float32(i),
    lambda i: torch.tensor(i, dtype=torch.bfloat16),
]


def dataset(draw, folders):
    """Returns a function that makes a data set, and the allowed difference of values, or None if they are not compared."""
    kind = draw.choice(["images"] * 6 + ["tensors", "tensors", "tensor", "plain", "plain", "list", "stream"])
    if kind == "images":
        make, tolerance = images(draw, folders)
    elif kind == "tensors":
        dtype = draw.choice([torch.uint8, torch.bool, torch.float32, torch.float16, torch.int32])
        make, tolerance = lambda: data.TensorDataset(torch.arange(40).view(20, 2).to(dtype), torch.arange(20)), 0.0
    elif kind == "tensor":
        make, tolerance = lambda: torch.arange(18.0).view(*((18,) if draw_shape else (9, 2))), 0.0
        draw_shape = draw.random() < 0.5
    elif kind == "plain":
        give, several = draw.choice(GIVES), draw.random() < 0.3
        make, tolerance = lambda: Plain(give, 17, several), 0.0
    elif kind == "list":
        make, tolerance = lambda: [(k, str(k)) for k in range(11)], 0.0
    else:
        length, has_length = draw.randrange(0, 20), draw.random() < 0.5
        return lambda: Stream(length, has_length), 0.0
    around = draw.choice(["", "", "", "subset", "sum", "split"])
    if around == "subset":
        chosen = [draw.randrange(-6, 6) for _ in range(draw.randrange(1, 14))]
        return lambda: data.Subset(make(), chosen), tolerance
    if around == "sum" and kind != "tensor":
        return lambda: data.ConcatDataset([make(), make()]), tolerance
    if around == "split":
        return lambda: data.random_split(make(), [0.5, 0.5], torch.Generator().manual_seed(5))[0], tolerance
    return make, tolerance


def samplers(draw, made):
    """Returns (arguments, size). arguments(data set): returns the DataLoader's arguments about order and batches. size: the batch size."""
    length = len(made) if hasattr(made, "__len__") else 0
    if isinstance(made, data.IterableDataset) or length == 0:
        return lambda _: {"batch_size": draw_size}, (draw_size := draw.choice([1, 3, 4]))
    size, last = draw.choice([1, 2, 3, 5, 8, 40]), draw.random() < 0.4
    kind = draw.choice(
        ["order", "shuffle", "shuffle", "generator", "random", "weights", "subset", "list", "batches", "batch_sampler", "none", "own"]
    )
    ids = [draw.randrange(length) for _ in range(draw.randrange(1, 15))]
    batches = [[draw.randrange(length) for _ in range(draw.randrange(1, 6))] for _ in range(4)]
    common = {"batch_size": size, "drop_last": last}

    class Own(data.Sampler):
        def __init__(self):
            self.turn = 0

        def __iter__(self):
            self.turn += 1
            return iter([(i + self.turn) % length for i in ids])

        def __len__(self):
            return len(ids)

    def seeded():
        return torch.Generator().manual_seed(11)

    choices = {
        "order": lambda d: common,
        "shuffle": lambda d: {**common, "shuffle": True},
        "generator": lambda d: {**common, "shuffle": True, "generator": seeded()},
        "random": lambda d: {**common, "sampler": data.RandomSampler(d, replacement=True, num_samples=13, generator=seeded())},
        "weights": lambda d: {**common, "sampler": data.WeightedRandomSampler([1.0] * length, 9)},
        "subset": lambda d: {**common, "sampler": data.SubsetRandomSampler(ids, generator=seeded())},
        "list": lambda d: {**common, "sampler": ids},
        "batches": lambda d: {"batch_sampler": batches},
        "batch_sampler": lambda d: {"batch_sampler": data.BatchSampler(data.RandomSampler(d), size, last)},
        "none": lambda d: {"batch_size": None, "sampler": ids},
        "own": lambda d: {**common, "sampler": Own()},
    }
    return choices[kind], size


def collates(draw):
    return draw.choice([None] * 5 + [list, lambda samples: samples[0], lambda samples: data.default_collate(samples)])


def epochs(kind, make, arguments, count):
    """Returns three values: a list of the loader's length, its batches in `count` epochs, and the error that ended an epoch; the state of torch's generator;
    and the generator that was passed to the loader."""
    torch.manual_seed(SEED)
    made = make()
    given = arguments(made)
    found = []
    try:
        loader = kind(made, **given)
        try:
            found.append(len(loader))
        except TypeError as e:
            found.append(repr(e))
        for _ in range(count):
            iterator = iter(loader)
            while True:
                try:
                    found.append(next(iterator))
                except StopIteration:
                    break
                except Exception as e:
                    found.append(e)
                    break
    except Exception as e:
        found.append(e)
    return found, torch.get_rng_state(), given.get("generator")


def same(a, b, tolerance):
    if isinstance(a, Exception):
        assert type(a) is type(b), (a, b)
        assert str(a) == str(b)
        return
    assert type(a) is type(b), (type(a), type(b), b)
    if isinstance(a, torch.Tensor):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.is_contiguous() == b.is_contiguous() or a.ndim == 3  # a single image may keep Pillow's memory layout
        if tolerance is not None or a.ndim < 3:
            of_images = a.ndim >= 3
            furthest = (a.double() - b.double()).abs().max().item() if a.numel() else 0.0
            allowed = (tolerance or 0.0) * 1.001 + (2e-6 if a.is_floating_point() else 0) if of_images else 0.0
            assert furthest <= allowed
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key], tolerance)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y, tolerance)
    elif dataclasses.is_dataclass(a):
        same(vars(a), vars(b), tolerance)
    elif isinstance(a, np.ndarray):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    elif not isinstance(a, Image.Image):
        assert a == b


@pytest.mark.parametrize("part", range(8))
def test_gives_what_torch_gives(folders, part, monkeypatch):
    monkeypatch.setenv("STOKER_QUIET", "1")
    in_c = 0
    for case in range(part * CASES // 8, (part + 1) * CASES // 8):
        draw = random.Random(f"{SEED} {case}")
        make, tolerance = dataset(draw, folders)
        order, _ = samplers(draw, make())
        more = {"collate_fn": collates(draw)}
        workers = draw.random() < 0.04
        if workers:
            more.update(num_workers=2, persistent_workers=draw.random() < 0.5)

        def arguments(made, order=order, more=more):
            return {**order(made), **more}

        note = f"seed {SEED}, case {case}"
        count = 1 if tolerance is None else 2  # only one epoch, because torch's random transforms change the next epoch's order
        expected, state, generator = epochs(data.DataLoader, make, arguments, count)
        given, own_state, own_generator = epochs(DataLoader, make, arguments, count)
        lengths = len(expected), len(given)
        assert lengths[0] == lengths[1], note
        for a, b in zip(expected, given, strict=True):
            try:
                if isinstance(a, Exception) and workers:
                    assert type(a) is type(b)
                else:
                    same(a, b, tolerance)
            except AssertionError as e:
                raise AssertionError(f"{note}: {e}") from e
        if tolerance is not None:
            assert torch.equal(state, own_state), note
        if generator is not None:
            assert torch.equal(generator.get_state(), own_generator.get_state()), note
        made = make()
        in_c += "in C" in DataLoader(made, **arguments(made)).explain().splitlines()[0]
    assert in_c > 0  # at least one case runs in C, so not all are passed to torch


def test_epochs_of_images_come_again(folders):
    """Compiled transforms draw the same numbers with the same seed, and other numbers with another seed."""

    def first(seed):
        torch.manual_seed(seed)
        transform = v1.Compose([v1.RandomResizedCrop(20), v1.ToTensor()])
        return list(itertools.chain(*(DataLoader(datasets.ImageFolder(folders / "sizes", transform), 4) for _ in range(1))))

    a, b, c = first(1), first(1), first(2)
    assert all(torch.equal(x, y) for p, q in zip(a, b, strict=True) for x, y in zip(p, q, strict=True))
    assert not torch.equal(a[0][0], c[0][0])
