# SPDX-License-Identifier: Apache-2.0
"""stoker.DataLoader against torch's with arguments about workers, samplers that keep a generator, and Datasets that draw, or raise in some samples.

Each case is drawn from a seed. Both loaders get equal objects, and must give the same batches and the same errors in each epoch. A run that is stopped
and continued from its state must give the remaining batches.
"""

import random

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import DataLoader
from support import SEED, import_torchvision, photograph
from torch.utils import data

torchvision = import_torchvision()

CASES = 12
SAMPLES = 14


class Odd(Exception):
    """An exception whose text shows only one of its two arguments."""

    def __init__(self, index, reason):
        super().__init__(reason)
        self.index = index


class Drawing(data.Dataset):
    """Samples with numbers from the process's generators, from its worker, and from an attribute that a worker_init_fn may set. Some samples raise an error."""

    def __init__(self, raises=(), error=ValueError):
        self.raises, self.error, self.offset = raises, error, 0

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        if index in self.raises:
            raise self.error(index, f"sample {index} is bad") if self.error is Odd else self.error(f"sample {index} is bad")
        info = data.get_worker_info()
        drawn = {"numpy": np.random.randint(1 << 30), "python": random.random(), "torch": torch.rand(2)}
        return {"index": index + self.offset, "worker": -1 if info is None else info.id, **drawn}


class Plain(Drawing):
    """Samples that depend only on their index, or raise an error."""

    def __getitem__(self, index):
        if index in self.raises:
            return super().__getitem__(index)
        return np.full((2, 2), index, np.float32), f"s{index}", (index, None) if self.error is None else index


class AtOnce(Plain):
    def __getitems__(self, indices):
        return [self[i] for i in indices]


def seed_numpy(_):
    np.random.seed(torch.initial_seed() % 2**32)
    random.seed(torch.initial_seed())


def seed_by_number(worker):
    np.random.seed(42 + worker)


def set_offset(worker):
    data.get_worker_info().dataset.offset = 100 * (worker + 1)


def raise_in_worker(worker):
    if worker == 0:
        raise RuntimeError("this worker does not begin")


class Batches:
    """A batch_sampler with four batches of random lengths in each epoch. After four epochs they repeat."""

    def __init__(self, draw):
        self.epochs = [[[draw.randrange(SAMPLES) for _ in range(draw.randrange(1, 5))] for _ in range(4)] for _ in range(4)]
        self.turn = -1

    def __iter__(self):
        self.turn += 1
        return iter(self.epochs[self.turn % 4])

    def __len__(self):
        return 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("photographs"), np.random.default_rng(SEED)
    for k in range(SAMPLES):
        path = root / f"c{k % 3}" / f"{k:02d}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(photograph(rng, 40, 44)).save(path)
    return root


def photographs(folder, gone):
    """Returns an ImageFolder whose samples Stoker makes in C. gone: numbers of samples whose files do not exist."""
    make = torchvision.transforms
    found = torchvision.datasets.ImageFolder(folder, make.Compose([make.CenterCrop(24), make.PILToTensor()]))
    found.samples = [(f"{path}.gone" if k in gone else path, label) for k, (path, label) in enumerate(found.samples)]
    found.imgs = found.samples
    return found


def dataset(draw, folder, steady):
    """Returns a function that makes a data set. steady: its samples depend only on the index, and none raises an error; otherwise either may be untrue."""
    bad = [draw.randrange(SAMPLES) for _ in range(draw.choice([0, 0, 1, 2]))] if not steady else []
    error = draw.choice([ValueError, KeyError, OSError, Odd])
    kind = draw.choice(["plain", "at once", "images"] if steady else ["drawing", "drawing", "plain", "at once", "images"])
    if kind == "images":
        return lambda: photographs(folder, bad)
    made = {"drawing": Drawing, "plain": Plain, "at once": AtOnce}[kind]
    return lambda: made(bad, error)


def order(draw):
    """Returns a function that makes the arguments about the order of samples, and a description of them."""
    size, seed = draw.choice([1, 2, 3, 5]), draw.randrange(1 << 20)
    weights, ids, state = [draw.random() for _ in range(SAMPLES)], [draw.randrange(SAMPLES) for _ in range(9)], draw.getstate()

    def batches():
        again = random.Random()
        again.setstate(state)
        return Batches(again)

    def generator():
        return torch.Generator().manual_seed(seed)

    kinds = {
        "in order": lambda: {"batch_size": size, "drop_last": True},
        "shuffle": lambda: {"batch_size": size, "shuffle": True},
        "generator": lambda: {"batch_size": size, "shuffle": True, "generator": generator()},
        "weights": lambda: {"batch_size": size, "sampler": data.WeightedRandomSampler(weights, 11, True, generator())},
        "weights, once each": lambda: {"batch_size": size, "sampler": data.WeightedRandomSampler(weights, 11, False, generator())},
        "replacement": lambda: {"batch_size": size, "sampler": data.RandomSampler(range(SAMPLES), True, 12, generator())},
        "subset": lambda: {"batch_size": size, "sampler": data.SubsetRandomSampler(ids, generator())},
        "unequal batches": lambda: {"batch_sampler": batches()},
        "one generator for both": lambda: {
            "batch_size": size,
            "sampler": data.WeightedRandomSampler(weights, 11),
            "generator": generator(),
        },
    }
    kind = draw.choice(list(kinds))
    return kinds[kind], kind


def about_workers(draw, steady):
    if draw.random() < 0.25:
        return {"pin_memory": draw.random() < 0.5}
    begins = [None, None, seed_numpy, seed_by_number] + ([] if steady else [set_offset, raise_in_worker])
    return {
        "num_workers": draw.choice([1, 2, 3]),
        "prefetch_factor": draw.choice([None, 1, 3]),
        "persistent_workers": draw.random() < 0.5,
        "pin_memory": draw.random() < 0.3,
        "timeout": draw.choice([0, 300]),
        "worker_init_fn": draw.choice(begins),
    }


def made(kind, make, orders, workers):
    torch.manual_seed(SEED)
    np.random.seed(SEED % 2**32)
    random.seed(SEED)
    return kind(make(), **orders(), **workers)


def taken(loader, count):
    """Returns the batches of `count` epochs, with an error in place of each batch that failed, and "the end" after each epoch. The loop continues after
    an error if the iterator does."""
    found = []
    for _ in range(count):
        try:
            iterator = iter(loader)
        except Exception as e:
            return [*found, e]
        for _ in range(SAMPLES + 2):
            try:
                found.append(next(iterator))
            except StopIteration:
                found.append("the end")
                break
            except Exception as e:
                found.append(e)
    return found


def same(a, b, in_workers):
    assert type(a) is type(b), (a, b)
    if isinstance(a, Exception):
        first, second = (str(e).splitlines() for e in (a, b))
        assert (first[0], first[-1]) == (second[0], second[-1]) if in_workers else first == second, (a, b)
    elif isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and torch.equal(a, b)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            same(a[key], b[key], in_workers)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y, in_workers)
    else:
        assert a == b


def compare(case, folder, seed=SEED):
    draw = random.Random(f"{seed} arguments {case}")
    steady = draw.random() < 0.5
    make, (orders, kind), workers = dataset(draw, folder, steady), order(draw), about_workers(draw, steady)
    note = f"seed {seed}, case {case}: {type(make()).__name__}, {kind}, {workers}"
    expected = taken(made(data.DataLoader, make, orders, workers), 2)
    state = torch.get_rng_state()
    given = taken(made(DataLoader, make, orders, workers), 2)
    assert len(expected) == len(given), (note, expected[-1], given[-1])
    assert torch.equal(state, torch.get_rng_state()), note
    try:
        same(expected, given, "num_workers" in workers)
        if steady:
            continued(draw, given, make, orders, workers)
    except AssertionError as e:
        raise AssertionError(f"{note}: {e}") from e
    return given


def continued(draw, whole, make, orders, workers):
    """Stops a run after some batches, continues it in a new loader, and compares the remaining batches of both epochs."""
    end = whole.index("the end")
    after = draw.randrange(1, end) if end > 1 else 1
    first = made(DataLoader, make, orders, workers)
    iterator = iter(first)
    for _ in range(after):
        next(iterator)
    state = first.state_dict()
    del iterator, first
    second = made(DataLoader, make, orders, workers)
    second.load_state_dict(state)
    same(whole[after:], taken(second, 2), True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_loaders_agree_for_drawn_arguments(part, folder, monkeypatch):
    monkeypatch.setenv("STOKER_QUIET", "1")
    found = [item for case in range(part * CASES // 4, (part + 1) * CASES // 4) for item in compare(case, folder)]
    assert any(not isinstance(item, (Exception, str)) for item in found)
