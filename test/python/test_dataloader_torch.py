# SPDX-License-Identifier: Apache-2.0
"""stoker.DataLoader has the properties that the tests of torch and torchdata check in a DataLoader, with images that C code makes and with other samples."""

import copy
import functools
import gc
import inspect
import itertools
import json
import logging
import os
import pickle
import random
import threading
import time
import types
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import DataLoader, Loader, StokerError
from stoker.errors import StateError
from support import SEED, import_torchvision, photograph, run_script
from torch.utils import data

torchvision = import_torchvision()
from torchvision import datasets, tv_tensors  # noqa: E402
from torchvision import transforms as v1  # noqa: E402
from torchvision.transforms import v2  # noqa: E402

TRANSFORM = v1.Compose([v1.Resize((20, 24)), v1.ToTensor()])
DRAWS = v1.Compose([v1.RandomResizedCrop(16), v1.RandomHorizontalFlip(), v1.ToTensor()])


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(SEED)
    for k in range(21):
        path = tmp_path / "images" / f"class{k % 3}" / f"{k:02d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photograph(rng, 40 + k, 50)).save(path)
    return tmp_path / "images"


class Numbers(data.Dataset):
    def __init__(self, length=20):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return index, torch.rand(2)


@pytest.fixture(params=["images", "numbers", "tensors"])
def make(request, folder):
    """Returns a function that makes a Dataset of 20 samples: images, which are made in C; tensors; or random numbers, which Python computes for each sample.
    The second part of a sample is its index."""

    if request.param == "images":

        def made():
            found = datasets.ImageFolder(folder, DRAWS)
            found.samples = [(path, k) for k, (path, _) in enumerate(found.samples)]
            return data.Subset(found, range(20))

        return made
    if request.param == "tensors":
        return lambda: data.TensorDataset(torch.arange(20.0).view(20, 1), torch.arange(20))
    return lambda: _Swapped()


class _Swapped(Numbers):
    def __getitem__(self, index):
        return torch.rand(2), index


def ids(loader):
    return [y.tolist() for _, y in loader]


# ---- the class ----


def test_signature_is_torchs():
    assert issubclass(DataLoader, data.DataLoader)
    own, theirs = (inspect.signature(kind.__init__).parameters for kind in (DataLoader, data.DataLoader))
    assert list(own) == [*theirs, "snapshot_every_n_steps"] and all(own[name] == theirs[name] for name in theirs)
    attributes = {k for k in vars(DataLoader(Numbers())) if not k.startswith("_")} - {"snapshot_every_n_steps"}
    assert attributes == {k for k in vars(data.DataLoader(Numbers())) if not k.startswith("_")}


def test_import_leaves_torch_out():
    script = """
        import sys, stoker
        assert "DataLoader" in dir(stoker) and "torch" not in sys.modules
    """
    assert run_script(script).returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"persistent_workers": True},
        {"batch_size": 0},
        {"batch_size": True},
        {"batch_size": 1.5},
        {"batch_size": None, "drop_last": True},
        {"batch_size": None, "shuffle": True, "drop_last": True},
        {"drop_last": 1},
        {"sampler": range(3), "shuffle": True},
        {"batch_sampler": [[1]], "batch_size": 3},
        {"batch_sampler": [[1]], "shuffle": True},
        {"batch_sampler": [[1]], "drop_last": True},
        {"batch_sampler": [[1]], "sampler": [1]},
        {"multiprocessing_context": "fork"},
        {"multiprocessing_context": "nonsense", "num_workers": 1},
        {"multiprocessing_context": 3, "num_workers": 1},
        {"num_workers": 1, "prefetch_factor": -2},
    ],
)
def test_arguments_that_contradict_are_refused_as_by_torch(arguments):
    errors = []
    for kind in (data.DataLoader, DataLoader):
        with pytest.raises((ValueError, TypeError)) as e:
            kind(Numbers(), **arguments)
        errors.append((e.type, str(e.value)))
    assert errors[0] == errors[1]


def test_settings_stay_as_they_were_given():
    loader = DataLoader(Numbers(), batch_size=3)
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match="should not be set after DataLoader is initialized"):
            setattr(loader, name, None)
    loader.num_workers = 0
    loader.collate_fn = list


@pytest.mark.parametrize("last, length", [(False, 7), (True, 6)])
def test_len_and_attributes(make, last, length):
    loader = DataLoader(make(), batch_size=3, drop_last=last)
    assert len(loader) == length == len(list(loader))
    assert (len(loader.dataset), loader.batch_size, loader.drop_last) == (20, 3, last)
    assert isinstance(loader.sampler, data.SequentialSampler) and isinstance(loader.batch_sampler, data.BatchSampler)


# ---- order ----


def test_order_and_last_batch(make):
    assert ids(DataLoader(make(), 8)) == [list(range(8)), list(range(8, 16)), list(range(16, 20))]
    assert ids(DataLoader(make(), 8, drop_last=True)) == [list(range(8)), list(range(8, 16))]


def test_seeds_of_torch_make_the_order(make):
    orders = []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        orders.append(ids(DataLoader(make(), 4, shuffle=True)))
    assert orders[0] == orders[2] != orders[1]


def test_a_generator_makes_the_order(make):
    def order(kind):
        loader = kind(make(), 4, shuffle=True, generator=torch.Generator().manual_seed(5))
        return ids(loader), ids(loader), loader.generator.get_state()

    expected, given = order(data.DataLoader), order(DataLoader)
    assert expected[:2] == given[:2] and torch.equal(expected[2], given[2])


@pytest.mark.parametrize("size", [4, 8])
def test_an_epoch_that_is_left_early_draws_what_torch_draws(make, size):
    """To build a partial last batch, torch runs its sampler to the end, and the sampler then draws from the generator once more."""

    def epochs(kind, taken):
        generator = torch.Generator().manual_seed(5)
        loader = kind(make(), size, shuffle=True, generator=generator)
        found = []
        for _ in range(3):
            found += [(batch[1].tolist(), generator.get_state().tolist()) for batch in itertools.islice(loader, taken)]
        return found

    for taken in range(1, 7):
        assert epochs(DataLoader, taken) == epochs(data.DataLoader, taken), taken


@pytest.mark.parametrize("workers", [0, 2])
def test_generators_are_asked_when_torch_asks_them(make, workers):
    """Random numbers that the loop draws between two batches are the same as with torch's DataLoader."""

    def draws(kind):
        torch.manual_seed(3)
        loader = kind(make(), 4, shuffle=True, num_workers=workers)
        found = [torch.rand(1).item()]
        iterator = iter(loader)
        found.append(torch.rand(1).item())
        for _ in iterator:
            found.append(torch.rand(1).item())
        return found

    if isinstance(make(), _Swapped):
        return  # this Dataset's samples are random numbers, which torch's DataLoader draws in this process
    assert draws(DataLoader) == draws(data.DataLoader)


@pytest.mark.parametrize("sampler", ["shuffle", "weights", "subset", "own"])
@pytest.mark.parametrize("workers", [0, 1])
def test_the_order_of_later_epochs_without_a_generator(folder, sampler, workers):
    """Without workers, torchvision's transforms draw from the generator that also shuffles the next epoch. Stoker must draw as much, to get torch's order
    in later epochs."""

    class Own(data.Sampler):
        def __iter__(self):
            return iter([int(torch.randint(21, (1,))) for _ in range(21)])

        def __len__(self):
            return 21

    def orders(kind, transform):
        torch.manual_seed(11)
        source = _Numbered(folder, transform)
        order = {
            "shuffle": {"shuffle": True},
            "weights": {"sampler": data.WeightedRandomSampler([1.0] * 21, 21)},
            "subset": {"sampler": data.SubsetRandomSampler(range(21))},
            "own": {"sampler": Own()},
        }[sampler]
        loader = kind(source, 4, num_workers=workers, **order)
        return [[i for _, batch in loader for i in batch.tolist()] for _ in range(3)], loader

    crops = v1.Compose([v1.RandomResizedCrop(16), v1.RandomHorizontalFlip(), v1.ToTensor()])
    theirs, _ = orders(data.DataLoader, crops)
    ours, loader = orders(DataLoader, crops)
    assert ours == theirs and len({tuple(order) for order in ours}) == 3
    assert ("num_workers=1 or more" in loader.explain()) == (workers == 0)
    fixed = v1.Compose([v1.Resize((16, 16)), v1.ToTensor()])
    theirs, _ = orders(data.DataLoader, fixed)
    ours, loader = orders(DataLoader, fixed)
    assert ours == theirs and "run in C" in loader.explain()
    torch.seed()  # if the program has not seeded torch, the order is arbitrary
    assert "run in C" in DataLoader(_Numbered(folder, crops), 4, shuffle=True).explain()
    torch.manual_seed(11)
    given = torch.Generator().manual_seed(1)
    assert "run in C" in DataLoader(_Numbered(folder, crops), 4, shuffle=True, generator=given).explain()


class _Numbered(datasets.ImageFolder):
    """A Dataset whose targets are the samples' numbers."""

    def __init__(self, folder, transform):
        super().__init__(folder, transform)
        self.samples = self.imgs = [(path, number) for number, (path, _) in enumerate(self.samples)]


def test_batches_of_unequal_size(make):
    batches = [[3, 1], [7], [0, 2, 4, 6, 8], [], [5]]
    loader = DataLoader(make(), batch_sampler=batches[:3])
    assert ids(loader) == batches[:3] == ids(loader) and len(loader) == 3
    assert loader.batch_size is None
    with pytest.raises(IndexError):
        ids(DataLoader(make(), batch_sampler=batches))


def test_a_sampler_that_looks_at_the_loop(make):
    """Without workers, a batch is requested from the sampler only when the loop requests it."""
    log = []

    class Curious(data.Sampler):
        def __iter__(self):
            for k in range(6):
                log.append(f"ask {k}")
                yield k

        def __len__(self):
            return 6

    for _, y in DataLoader(make(), 2, sampler=Curious()):
        log.append(f"got {y.tolist()}")
    assert log[:3] == ["ask 0", "ask 1", "got [0, 1]"] and log[3:5] == ["ask 2", "ask 3"]


def test_infinite_samplers(make):
    class Endless(data.Sampler):
        def __iter__(self):
            while True:
                yield 2

    loader = iter(DataLoader(make(), 3, sampler=Endless()))
    assert [next(loader)[1].tolist() for _ in range(5)] == [[2, 2, 2]] * 5
    batches = iter(DataLoader(make(), batch_sampler=iter([[1], [2]])))
    assert [y.tolist() for _, y in batches] == [[1], [2]]


def test_indices_of_other_types(make):
    for ids_ in (np.arange(4), torch.arange(4), [np.int64(2), 1]):
        loader = DataLoader(make(), 2, sampler=ids_)
        assert [*itertools.chain(*ids(loader))] == [int(i) for i in ids_]


def test_several_iterators_at_a_time(make):
    loader = DataLoader(make(), 4)
    assert [(a[1].tolist(), b[1].tolist()) for a, b in zip(loader, loader, strict=True)] == [(x, x) for x in ids(loader)]
    first = iter(loader)
    next(first)
    assert ids(loader) == ids(loader)
    assert next(first)[1].tolist() == [4, 5, 6, 7]


def test_an_iterator_that_has_ended_stays_so(make):
    iterator = iter(DataLoader(make(), 16))
    assert len(list(iterator)) == 2
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(iterator)


def test_a_dataset_of_no_samples(folder):
    empty = data.Subset(datasets.ImageFolder(folder, TRANSFORM), [])
    assert list(DataLoader(empty, 3)) == [] and len(DataLoader(empty, 3)) == 0
    for kind in (data.DataLoader, DataLoader):
        with pytest.raises(ValueError, match="num_samples"):
            kind(empty, 3, shuffle=True)


# ---- contents of batches ----


def test_batches_hold_their_own_memory(make):
    kept = [(x.clone(), x) for x, _ in DataLoader(make(), 4)]
    assert all(torch.equal(a, b) for a, b in kept)


def test_collate_fn_gets_samples(folder):
    seen = []

    def collate(samples):
        seen.append(samples)
        return len(samples)

    loader = DataLoader(datasets.ImageFolder(folder, TRANSFORM), 8, collate_fn=collate)
    assert list(loader) == [8, 8, 5]
    assert all(isinstance(s, tuple) and s[0].shape == (3, 20, 24) and isinstance(s[1], int) for batch in seen for s in batch)


def test_types_of_images(folder):
    def first(transform, **more):
        return next(iter(DataLoader(datasets.ImageFolder(folder, transform), 2, **more)))

    steps = [v2.ToImage(), v2.Resize((8, 8))]
    assert first(v2.Compose(steps))[0].dtype == torch.uint8 and type(first(v2.Compose(steps))[0]) is torch.Tensor
    assert isinstance(first(v2.Compose(steps), collate_fn=list)[0][0], tv_tensors.Image)
    assert type(first(v2.Compose([*steps, v2.ToPureTensor()]), collate_fn=list)[0][0]) is torch.Tensor


def test_images_of_own_sizes_fail_as_with_torch(folder):
    dataset = datasets.ImageFolder(folder, v1.ToTensor())
    messages = []
    for kind in (data.DataLoader, DataLoader):
        with pytest.raises(RuntimeError) as e:
            next(iter(kind(dataset, 4)))
        messages.append(str(e.value))
    assert messages[0] == messages[1] and "equal size" in messages[0]
    shapes = [tuple(x.shape) for x, _ in next(iter(DataLoader(dataset, 4, collate_fn=list)))]
    assert shapes == [tuple(dataset[i][0].shape) for i in range(4)]


def test_presets_of_weights(folder):
    preset = torchvision.models.ResNet18_Weights.DEFAULT.transforms()
    dataset = datasets.ImageFolder(folder, preset)
    loader = DataLoader(dataset, 4)
    assert "in C" in loader.explain()
    for a, b in zip(loader, data.DataLoader(dataset, 4), strict=True):
        assert (a[0] - b[0]).abs().max() <= 1.01 / 255 / 0.224 and torch.equal(a[1], b[1])


def test_transforms_are_those_that_the_dataset_has_now(folder):
    dataset = datasets.ImageFolder(folder, TRANSFORM)
    loader = DataLoader(dataset, 4)
    assert next(iter(loader))[0].shape == (4, 3, 20, 24)
    dataset.transform = v1.Compose([v1.Resize((8, 9)), v1.ToTensor()])
    assert next(iter(loader))[0].shape == (4, 3, 8, 9)
    dataset.transform = lambda image: torch.tensor(image.size)
    assert next(iter(loader))[0].shape == (4, 2)


def test_subclasses_that_make_samples_themselves_run_as_python(folder):
    class WithPath(datasets.ImageFolder):
        def __getitem__(self, index):
            return *super().__getitem__(index), self.samples[index][0]

    found = next(iter(DataLoader(WithPath(folder, TRANSFORM), 2)))
    assert len(found) == 3 and found[2][0].endswith(".jpg")


def test_streams_are_divided_into_batches(folder):
    class Stream(data.IterableDataset):
        def __iter__(self):
            return iter(range(10))

        def __len__(self):
            return 10

    for kind in (data.DataLoader, DataLoader):
        loader = kind(Stream(), 4)
        assert len(loader) == 3 and [b.tolist() for b in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        with pytest.raises(ValueError, match="sampler"):
            kind(Stream(), sampler=[1])
        with pytest.raises(ValueError, match="shuffle"):
            kind(Stream(), shuffle=True)


# ---- failures ----


def test_a_damaged_file_is_pillows_error_and_the_others_come(folder):
    dataset = datasets.ImageFolder(folder, DRAWS)
    bad = Path(dataset.samples[5][0])
    whole = bad.read_bytes()
    bad.write_bytes(whole[: len(whole) // 3])

    def epoch():
        torch.manual_seed(0)
        iterator, found = iter(DataLoader(dataset, 4)), []
        while True:
            try:
                found.append(next(iterator))
            except StopIteration:
                return found
            except OSError as e:
                found.append(str(e))

    broken = epoch()
    with pytest.raises(OSError) as e:
        dataset[5]
    assert broken[1] == str(e.value) and len(broken) == 6
    bad.write_bytes(whole)
    whole_epoch = epoch()
    for k in (0, 2, 3, 4, 5):
        assert torch.equal(broken[k][0], whole_epoch[k][0])  # the other samples keep their draws


def test_a_file_that_is_gone(folder):
    dataset = datasets.ImageFolder(folder, TRANSFORM)
    os.unlink(dataset.samples[3][0])
    with pytest.raises(FileNotFoundError):
        list(DataLoader(dataset, 4))


def test_a_file_that_only_pillow_reads(folder):
    dataset = datasets.ImageFolder(folder, TRANSFORM)
    Image.open(dataset.samples[2][0]).save(dataset.samples[2][0], format="GIF")
    expected = next(iter(data.DataLoader(dataset, 4)))
    given = next(iter(DataLoader(dataset, 4)))
    assert (expected[0] - given[0]).abs().max() <= 1.01 / 255


def test_errors_of_the_users_python(folder):
    def target(label):
        raise KeyError("no such label")

    dataset = datasets.ImageFolder(folder, TRANSFORM, target)
    with pytest.raises(KeyError, match="no such label"):
        next(iter(DataLoader(dataset, 4)))
    dataset = data.Subset(datasets.ImageFolder(folder, TRANSFORM), [0, 1, 99])
    iterator = iter(DataLoader(dataset, 2))
    next(iterator)
    with pytest.raises(IndexError):
        next(iterator)


def test_crops_that_do_not_fit_fail_as_with_torch(folder):
    dataset = datasets.ImageFolder(folder, v1.Compose([v1.RandomCrop(300), v1.ToTensor()]))
    for kind in (data.DataLoader, DataLoader):
        with pytest.raises(ValueError, match=r"Required crop size"):
            next(iter(kind(dataset, 2)))


# ---- workers ----


def seed_numpy_and_random(worker):
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


def seed_by_rank(worker, base=7, *, rank=0):
    info = torch.utils.data.get_worker_info()
    random.seed(info.id + int(base) + rank)
    torch.manual_seed(info.seed)


def seed_by_imports(worker):
    import random as r

    import numpy

    r.seed(worker)
    numpy.random.seed(worker)


def seeding_with(offset):
    from torch import cuda, manual_seed

    def init(worker):
        manual_seed(worker + offset)
        cuda.manual_seed_all(offset)

    return init


SEED_OF_RUN = 42


def seed_by_global(worker):
    np.random.seed(SEED_OF_RUN + worker)


class Seeder:
    def init(self, worker, more=0):
        np.random.seed(SEED_OF_RUN + worker + more)

    @classmethod
    def of_class(cls, worker):
        random.seed(worker)


SEEDS = [
    seed_by_global,
    Seeder().init,
    functools.partial(Seeder().init, more=2),
    Seeder.of_class,
    seed_numpy_and_random,
    seed_by_rank,
    functools.partial(seed_by_rank, base=3, rank=1),
    seed_by_imports,
    seeding_with(3),
    lambda w: np.random.seed(w),
]


@pytest.mark.parametrize("init", SEEDS)
def test_a_worker_init_fn_that_seeds_keeps_images_in_c(folder, init):
    loader = DataLoader(datasets.ImageFolder(folder, TRANSFORM), 4, num_workers=2, worker_init_fn=init)
    assert "in C" in loader.explain()


def _shrink(worker):
    dataset = data.get_worker_info().dataset
    dataset.transform = v1.Compose([v1.Resize((7, 7)), v1.ToTensor()])


seed = _shrink


def _calls_a_global_with_a_usual_name(worker):
    seed(worker)


def _calls_its_parameter(manual_seed, worker):
    manual_seed(worker)


def _calls_its_default(worker, seed=_shrink):
    seed(worker)


def _calls_a_variable(function):
    def init(worker):
        function(worker)

    return init


class _Owner:
    def __init__(self, seed):
        self.seed = seed

    def init(self, worker):
        self.seed(worker)

    def init_of_any(*arguments):
        arguments[0].seed(arguments[1])

    def __index__(self):
        _shrink(0)
        return 0

    def init_with_itself(self, worker):
        torch.set_num_threads(int(self) + 1)


@functools.wraps(torch.manual_seed)
def _named_like_one_of_torch(worker):
    _shrink(worker)


CHANGES = [
    _calls_a_global_with_a_usual_name,
    functools.partial(_calls_its_parameter, _shrink),
    functools.partial(_calls_its_default, seed=_shrink),
    _calls_its_default,
    _calls_a_variable(_shrink),
    _Owner(_shrink).init,
    _Owner(_shrink).init_of_any,
    _Owner(_shrink).init_with_itself,
    _calls_a_variable(_named_like_one_of_torch),
]


@pytest.mark.parametrize("init", CHANGES)
def test_a_worker_init_fn_that_calls_another_function_is_called(folder, init):
    loader = DataLoader(datasets.ImageFolder(folder, TRANSFORM), 4, num_workers=1, worker_init_fn=init)
    assert next(iter(loader))[0].shape == (4, 3, 7, 7)


def _seeds_with_an_unknown_name(worker):
    np.random.seed(no_such_seed + worker)  # noqa: F821


def test_a_worker_init_fn_with_an_unknown_name_raises_what_torch_raises(folder):
    for kind in (data.DataLoader, DataLoader):
        with pytest.raises(NameError, match="no_such_seed"):
            next(iter(kind(datasets.ImageFolder(folder, TRANSFORM), 4, num_workers=1, worker_init_fn=_seeds_with_an_unknown_name)))


def test_a_worker_init_fn_that_does_more_is_called(folder):
    def init(worker):
        data.get_worker_info().dataset.transform = v1.Compose([v1.Resize((7, 7)), v1.ToTensor()])

    loader = DataLoader(datasets.ImageFolder(folder, TRANSFORM), 4, num_workers=1, worker_init_fn=init)
    assert next(iter(loader))[0].shape == (4, 3, 7, 7)


@pytest.mark.parametrize("persistent", [False, True])
def test_samples_of_workers_are_those_of_torch(make, persistent):
    torch.manual_seed(4)
    loader = DataLoader(make(), 4, shuffle=True, num_workers=2, persistent_workers=persistent, prefetch_factor=3, timeout=60)
    given = [ids(loader) for _ in range(3)]
    torch.manual_seed(4)
    loader = data.DataLoader(make(), 4, shuffle=True, num_workers=2, persistent_workers=persistent, prefetch_factor=3, timeout=60)
    assert given == [ids(loader) for _ in range(3)]


def test_each_epoch_draws_new_numbers(folder):
    dataset = datasets.ImageFolder(folder, DRAWS)
    for more in ({}, {"num_workers": 1}, {"num_workers": 1, "persistent_workers": True}):
        loader = DataLoader(dataset, 21, **more)
        (a, _), (b, _) = next(iter(loader)), next(iter(loader))
        assert not torch.equal(a, b)


def test_iterators_are_shut_down_as_those_with_workers(folder):
    iterator = iter(DataLoader(datasets.ImageFolder(folder, DRAWS), 2, num_workers=2))
    next(iterator)
    assert isinstance(iterator, data.dataloader._BaseDataLoaderIter) and len(iterator._workers) == 0
    iterator._shutdown_workers()
    with pytest.raises(StopIteration):
        next(iterator)


def test_iterators_end_with_their_threads(folder):
    loader = DataLoader(datasets.ImageFolder(folder, DRAWS), 2)
    before = threading.active_count()
    for _ in range(5):
        iterator = iter(loader)
        next(iterator)
        gone = weakref.ref(iterator)
        del iterator
        gc.collect()
        assert gone() is None
    deadline = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_a_dataloader_in_a_forked_process(folder):
    """A DataLoader works in a forked process, even if the parent's DataLoader is running."""
    loader = DataLoader(datasets.ImageFolder(folder, TRANSFORM), 4)
    iterator = iter(loader)
    next(iterator)
    process = torch.multiprocessing.get_context("fork").Process(target=_count, args=(loader, 6))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert len(list(iterator)) == 5


def _count(loader, wanted):
    assert len(list(loader)) == wanted
    os._exit(0)


# ---- copies ----


def test_copies_are_loaders_of_the_same_samples(make):
    loader = DataLoader(make(), 4, num_workers=1, persistent_workers=True)
    next(iter(loader))
    for again in (copy.copy(loader), copy.deepcopy(loader)):
        assert type(again) is DataLoader and ids(again) == ids(loader)
    plain = DataLoader(Numbers(), 4)
    assert len(list(pickle.loads(pickle.dumps(plain)))) == 5


def test_made_again_from_its_attributes(make):
    """Lightning and others make a copy of a DataLoader, with another sampler, from its attributes. This also works with the user's derived class."""

    class Users(DataLoader):
        def __init__(self, dataset, *args, own=3, **kwargs):
            super().__init__(dataset, *args, **kwargs)
            self.own = own

    loader = Users(make(), 4, own=5)
    names = inspect.signature(DataLoader.__init__).parameters.keys() - {"self", "batch_size", "shuffle", "sampler", "drop_last"}
    arguments = {k: getattr(loader, k) for k in names}
    arguments["batch_sampler"] = data.BatchSampler(data.SubsetRandomSampler(range(6)), 2, False)
    again = Users(**arguments, own=loader.own)
    assert sorted(itertools.chain(*ids(again))) == list(range(6)) and again.own == 5


# ---- state ----


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("order", ["none", "shuffle", "generator", "sampler"])
@pytest.mark.parametrize("after", [0, 1, 3, 5])
def test_a_run_continues_from_a_state(make, order, after, workers):
    def loader():
        more = {
            "none": dict,
            "shuffle": lambda: {"shuffle": True},
            "generator": lambda: {"shuffle": True, "generator": torch.Generator().manual_seed(8)},
            "sampler": lambda: {"sampler": data.RandomSampler(range(20), generator=torch.Generator().manual_seed(9))},
        }[order]()
        return DataLoader(make(), 4, num_workers=workers, **more)

    torch.manual_seed(1)
    one = loader()
    list(one)
    iterator = iter(one)
    for _ in range(after):
        next(iterator)
    rng = torch.get_rng_state()
    state = pickle.loads(pickle.dumps(one.state_dict()))
    rest = list(iterator)
    following = list(one)

    torch.manual_seed(77)
    two = loader()
    two.load_state_dict(state)
    assert two.state_dict()["batches"] == after
    torch.set_rng_state(rng)
    again = list(two)
    assert [y.tolist() for _, y in again] == [y.tolist() for _, y in rest]
    # A Dataset's Python code draws from the generators of its workers, which a state does not restore. So its samples are only compared without workers.
    exact = workers == 0 or not isinstance(one.dataset, _Swapped)
    if exact:
        assert all(torch.equal(a, b) for (a, _), (b, _) in zip(again, rest, strict=True))
    assert [y.tolist() for _, y in two] == [y.tolist() for _, y in following]


def test_a_state_that_is_loaded_during_an_iteration(make):
    """In C and in this process, as in workers: the next iteration continues from the state, and the present one raises an error if it has another batch."""
    one = DataLoader(make(), 4)
    iterator = iter(one)
    next(iterator)
    state, rest = one.state_dict(), [y.tolist() for _, y in iterator]
    two = DataLoader(make(), 4)
    iterator = iter(two)
    next(iterator)
    two.load_state_dict(state)
    with pytest.raises(StateError, match="begin a new iteration"):
        next(iterator)
    assert [y.tolist() for _, y in two] == rest
    for k, _ in enumerate(two):
        if k == len(two) - 1:
            two.load_state_dict(state)
    assert [y.tolist() for _, y in two] == rest


def test_states_have_one_structure(make):
    loader = DataLoader(make(), 4, shuffle=True)

    def structure():
        return {k: (type(v), getattr(v, "shape", None), getattr(v, "dtype", None)) for k, v in loader.state_dict().items()}

    fresh = structure()
    iterator = iter(loader)
    assert structure() == fresh
    next(iterator)
    assert structure() == fresh
    list(iterator)
    assert structure() == fresh


def test_states_are_plain_data(make, tmp_path):
    """States can be saved as JSON, and with torch.distributed.checkpoint, which loads into a new loader's state."""
    from torch.distributed import checkpoint

    def loader(seed):
        return DataLoader(make(), 4, shuffle=True, generator=torch.Generator().manual_seed(seed))

    one = loader(1)
    iterator = iter(one)
    next(iterator)
    state = one.state_dict()
    assert json.loads(json.dumps(state)) == state
    checkpoint.save({"loader": state}, checkpoint_id=tmp_path / "saved")
    rest = [y.tolist() for _, y in iterator]
    two = loader(2)
    read = {"loader": two.state_dict()}
    checkpoint.load(read, checkpoint_id=tmp_path / "saved")
    two.load_state_dict(read["loader"])
    assert ids(two) == rest


def test_a_dataset_that_keeps_the_generator_in_its_state():
    class Drawing(Numbers):
        def __getitem__(self, index):
            return torch.rand(2), index

        def state_dict(self):
            return {"generator": torch.get_rng_state()}

        def load_state_dict(self, state):
            torch.set_rng_state(state["generator"])

    one = DataLoader(Drawing(), 4, shuffle=True)
    iterator = iter(one)
    next(iterator)
    state, rest = one.state_dict(), list(iterator)
    torch.manual_seed(5)
    two = DataLoader(Drawing(), 4, shuffle=True)
    two.load_state_dict(state)
    for (a, i), (b, j) in zip(two, rest, strict=True):
        assert torch.equal(a, b) and torch.equal(i, j)


def test_a_state_at_the_end_begins_the_next_epoch(make):
    def loader():
        return DataLoader(make(), 4, shuffle=True, generator=torch.Generator().manual_seed(8))

    one = loader()
    list(one)
    state = one.state_dict()
    two = loader()
    two.load_state_dict(state)
    assert ids(two) == ids(one)


def test_a_state_survives_its_iterator(make):
    loader = DataLoader(make(), 4)
    for _ in loader:
        break
    gc.collect()
    again = DataLoader(make(), 4)
    again.load_state_dict(loader.state_dict())
    assert ids(again)[0] == [4, 5, 6, 7]
    assert len(ids(again)) == 5  # the epoch after the resumed one is complete


def test_states_of_other_runs_are_refused(make):
    class Own(data.Sampler):
        def __iter__(self):
            return iter(random.sample(range(20), 20))

        def __len__(self):
            return 20

    loader = DataLoader(make(), 4, sampler=Own())
    next(iter(loader))
    state = loader.state_dict()
    loader.load_state_dict(state)
    with pytest.raises(StokerError, match="the sampler gives other samples"):
        list(loader)
    for broken in ({}, None, {**state, "batches": "two"}, {**state, "generator": 3}, {**state, "stoker_dataloader": 9}):
        with pytest.raises(StokerError):
            loader.load_state_dict(broken)


def divided(dataset, rank, ranks=2, epoch=0):
    sampler = data.DistributedSampler(dataset, ranks, rank, seed=3)
    sampler.set_epoch(epoch)
    return DataLoader(dataset, 4, sampler=sampler)


def test_the_state_of_rank_0_on_all_ranks(make):
    """Lightning saves the state of rank 0, loads it on each rank, and calls set_epoch() after it has made the iterator."""
    saved = divided(make(), 0, epoch=1)
    next(iter(saved))
    state = saved.state_dict()
    for rank in range(2):
        whole, later = (ids(divided(make(), rank, epoch=epoch)) for epoch in (1, 2))
        again = divided(make(), rank)
        again.load_state_dict(state)
        iterator = iter(again)
        again.sampler.set_epoch(1)
        first = next(iterator)[1].tolist()
        assert again.state_dict()["batches"] == 2
        assert [first] + [y.tolist() for _, y in iterator] == whole[1:]
        again.sampler.set_epoch(2)
        assert ids(again) == later
    other = divided(make(), 0, ranks=4, epoch=1)
    other.load_state_dict(state)
    with pytest.raises(StokerError, match="among 2 ranks; here they are divided among 4"):
        list(other)
    other = divided(make(), 0, epoch=1)
    other.sampler.seed = 4
    other.load_state_dict(state)
    with pytest.raises(StokerError, match="the sampler gives other samples"):
        list(other)
    with pytest.raises(StokerError, match="damaged: 'rank' is 'first'"):
        other.load_state_dict({**state, "rank": "first"})


def test_a_state_of_batches_that_accelerate_divides(make):
    shard = pytest.importorskip("accelerate.data_loader").BatchSamplerShard

    def loader(rank):
        batches = data.BatchSampler(data.RandomSampler(range(20), generator=torch.Generator().manual_seed(5)), 4, False)
        return DataLoader(make(), batch_sampler=shard(batches, 2, rank))

    saved = loader(0)
    next(iter(saved))
    for rank in range(2):
        again = loader(rank)
        again.load_state_dict(saved.state_dict())
        assert ids(again) == ids(loader(rank))[1:]


@pytest.mark.parametrize("taken", [1, 2])
def test_a_state_of_batches_that_accelerate_dispatches(make, taken):
    """Process 0 takes a batch for each process, and asks for a state before each of them. A run continues with the first one."""
    accelerate = pytest.importorskip("accelerate")
    settings = pytest.importorskip("accelerate.utils").DataLoaderConfiguration(dispatch_batches=True)

    def dispatched():
        made = accelerate.Accelerator(cpu=True, dataloader_config=settings).prepare(DataLoader(make(), 4))
        assert type(made).__name__ == "DataLoaderDispatcher" and isinstance(made.base_dataloader, DataLoader)
        made.state = types.SimpleNamespace(num_processes=2, process_index=0, device=torch.device("cpu"))
        return made

    whole, saved, again = ids(dispatched()), dispatched(), dispatched()
    assert len(whole) == 3
    steps = iter(saved)
    for _ in range(taken):
        next(steps)
    again.load_state_dict(saved.state_dict())
    assert ids(again) == whole[taken:]


def test_samplers_with_a_state(make):
    class Counting(data.Sampler):
        def __init__(self):
            self.turn = 0

        def __iter__(self):
            self.turn += 1
            return iter([(k * 3 + self.turn) % 20 for k in range(12)])

        def __len__(self):
            return 12

        def state_dict(self):
            return {"turn": self.turn}

        def load_state_dict(self, state):
            self.turn = state["turn"]

    one = DataLoader(make(), 4, sampler=Counting())
    list(one), list(one)
    iterator = iter(one)
    next(iterator)
    state, rest = one.state_dict(), [y.tolist() for _, y in iterator]
    two = DataLoader(make(), 4, sampler=Counting())
    two.load_state_dict(state)
    assert ids(two) == rest and ids(two) == ids(one)


class Counted(data.IterableDataset):
    def __init__(self):
        self.at = 0

    def __iter__(self):
        while self.at < 10:
            self.at += 1
            yield self.at
        self.at = 0


class Resumed(Counted):
    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, state):
        self.at = state["at"]


class OwnIterator(Resumed):
    """A stream that is its own iterator, and whose attributes do not exist before the first iteration."""

    def __init__(self):
        pass

    def __iter__(self):
        self.at = 0
        return self

    def __next__(self):
        if self.at == 10:
            raise StopIteration
        self.at += 1
        return self.at


class WithIterator(data.IterableDataset):
    """A stream that has no state; its iterator has one."""

    def __iter__(self):
        return iter(OwnIterator())


@pytest.mark.parametrize("kind", [Counted, Resumed, OwnIterator, WithIterator])
def test_streams_continue(kind):
    one = DataLoader(kind(), 2)
    iterator = iter(one)
    next(iterator), next(iterator)
    state, rest = pickle.loads(pickle.dumps(one.state_dict())), [b.tolist() for b in iterator]
    two = DataLoader(kind(), 2)
    two.load_state_dict(state)
    assert [b.tolist() for b in two] == rest == [[5, 6], [7, 8], [9, 10]]
    assert len(list(two)) == 5


# ---- settings of torch, and additions to transforms ----


def first_images(kind, folder, transform, **arguments):
    torch.manual_seed(5)
    return next(iter(kind(datasets.ImageFolder(folder, transform), 4, **arguments)))[0]


def same_images(folder, transform, **arguments):
    want, got = (first_images(kind, folder, transform, **arguments) for kind in (data.DataLoader, DataLoader))
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    assert (got.double() - want.double()).abs().max() <= 5.01 / 255  # one step of a pixel, divided by a standard deviation of 0.2


TO_FLOATS = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
OF_DEFAULT_DTYPES = {
    "v1": (v1.Compose([v1.Resize((9, 8)), v1.ToTensor()]), False),
    "v1 normalized": (v1.Compose([v1.Resize((9, 8)), v1.ToTensor(), v1.Normalize([0.3] * 3, [0.2] * 3)]), False),
    "v2": (v2.Compose([v2.Resize((9, 8)), *TO_FLOATS, v2.Normalize([0.3] * 3, [0.2] * 3)]), True),
    "gray bytes": (v2.Compose([v2.Resize((9, 8)), v2.ToImage(), v2.Grayscale(3), TO_FLOATS[1]]), False),
    "erased": (v2.Compose([v2.Resize((9, 8)), *TO_FLOATS, v2.RandomErasing(1.0, (0.99, 1.0), (0.8, 1.2), value=0.77)]), False),
    "preset": (torchvision.transforms._presets.ImageClassification(crop_size=9, resize_size=9), True),
}


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", OF_DEFAULT_DTYPES)
def test_another_default_dtype(folder, name, dtype, workers):
    transform, in_c = OF_DEFAULT_DTYPES[name]
    assert "run in C" in DataLoader(datasets.ImageFolder(folder, transform), 4).explain()
    try:
        torch.set_default_dtype(dtype)
        explained = DataLoader(datasets.ImageFolder(folder, transform), 4).explain()
        assert ("run in C" in explained) == in_c and (in_c or "default dtype" in explained)
        same_images(folder, transform, num_workers=workers)
    finally:
        torch.set_default_dtype(torch.float32)


OF_DEFAULT_DEVICES = {
    "v1": (v1.Compose([v1.Resize((9, 8)), v1.ToTensor(), v1.Normalize([0.3] * 3, [0.2] * 3)]), True),
    "v2": (v2.Compose([v2.Resize((9, 8)), *TO_FLOATS]), False),
    "preset": (torchvision.transforms._presets.ImageClassification(crop_size=9, resize_size=9), False),
}


@pytest.mark.parametrize("name", OF_DEFAULT_DEVICES)
def test_another_default_device(folder, name):
    """torchvision makes some tensors on the default device; such transforms run in Python. The device "meta" stands for a GPU. torch's iterator cannot be made
    under it."""
    transform, in_c = OF_DEFAULT_DEVICES[name]
    loader = DataLoader(datasets.ImageFolder(folder, transform), 4)
    try:
        torch.set_default_device("meta")
        explained = loader.explain()
        assert ("run in C" in explained) == in_c and (in_c or "default device is meta" in explained)
        if name != "preset":  # it reads a number of a tensor, which has none on "meta"
            assert (datasets.ImageFolder(folder, transform)[0][0].device.type == "cpu") == in_c
    finally:
        torch.set_default_device(None)


def test_tensors_are_indexed_under_another_default_device():
    dataset = data.TensorDataset(torch.arange(20), torch.rand(20, 3))
    iterator = iter(DataLoader(dataset, 4))
    try:
        torch.set_default_device("meta")
        found = list(iterator)
    finally:
        torch.set_default_device(None)
    assert torch.equal(torch.cat([numbers for numbers, _ in found]), dataset.tensors[0])
    assert torch.equal(torch.cat([rows for _, rows in found]), dataset.tensors[1])


def _hooked(module):
    module.register_forward_hook(lambda module, given, result: result * 0)
    return module


def _turned(module):
    module.register_forward_pre_hook(lambda module, given: (given[0].rotate(90, expand=True),))
    return module


def _with_forward(module):
    module.forward = lambda image: torch.full((3, 5, 5), 0.25)
    return module


ADDED = {
    "compose": lambda: _hooked(v2.Compose(TO_FLOATS)),
    "sequential": lambda: _turned(torch.nn.Sequential(*TO_FLOATS)),
    "one": lambda: v2.Compose([v2.ToImage(), _hooked(v2.ToDtype(torch.float32, scale=True))]),
    "v1": lambda: v1.Compose([v1.ToTensor(), _hooked(v1.Normalize([0.5] * 3, [0.5] * 3))]),
    "in a group": lambda: v2.Compose([v2.RandomApply([_turned(v2.Resize((30, 40)))], 1.0), *TO_FLOATS]),
    "identity": lambda: v1.Compose([v1.ToTensor(), _hooked(torch.nn.Identity())]),
    "forward": lambda: v2.Compose([v2.ToImage(), _with_forward(v2.ToDtype(torch.float32, scale=True))]),
}


@pytest.mark.parametrize("name", ADDED)
def test_hooks_and_methods_of_transforms_are_called(folder, name):
    explained = DataLoader(datasets.ImageFolder(folder, ADDED[name]()), 1).explain()
    assert "all of it runs in Python" in explained and ("a hook" in explained or "a method forward of its own" in explained)
    want, got = (next(iter(kind(datasets.ImageFolder(folder, ADDED[name]()), 1)))[0] for kind in (data.DataLoader, DataLoader))
    assert torch.equal(got, want)
    with pytest.raises(TypeError, match=r"has a (hook|method forward).* which Stoker would not call: remove it, or give a function"):
        Loader(folder, 4, transforms=ADDED[name]())


def test_hooks_of_all_modules_are_called(folder):
    seen = []
    handle = torch.nn.modules.module.register_module_forward_pre_hook(lambda module, given: seen.append(type(module).__name__))
    try:
        next(iter(DataLoader(datasets.ImageFolder(folder, TRANSFORM), 1)))
    finally:
        handle.remove()
    assert seen == ["Resize"]
    assert "run in C" in DataLoader(datasets.ImageFolder(folder, TRANSFORM), 4).explain()


# ---- messages ----


def test_one_line_says_what_runs_where(folder, caplog, monkeypatch):
    monkeypatch.delenv("STOKER_QUIET", raising=False)
    monkeypatch.setattr("stoker.dataloader._plan._announced", set())
    with caplog.at_level(logging.INFO, "stoker.dataloader"):
        for _ in range(2):
            next(iter(DataLoader(datasets.ImageFolder(folder, TRANSFORM), 4, collate_fn=_halves)))
        next(iter(DataLoader(_Swapped(), 4)))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2
    assert "21 files of ImageFolder: reading, decoding and transforms run in C" in lines[0] and "the collate_fn _halves" in lines[0]
    assert "runs in Python" in lines[1] and "_Swapped.__getitem__" in lines[1]
    caplog.clear()
    monkeypatch.setenv("STOKER_QUIET", "1")
    next(iter(DataLoader(data.TensorDataset(torch.arange(7)), 4)))
    assert not caplog.records


def _halves(samples):
    return samples[: len(samples) // 2]


@pytest.mark.parametrize(
    "transform, why",
    [
        (v1.Compose([v1.Resize(8), v1.Lambda(np.asarray)]), "Lambda is Python"),
        (v1.Resize(8), "no transform makes a tensor"),
        (None, "has no transform"),
        (lambda image: 0, "the transform .*<lambda> is Python"),
        (v1.Compose([v1.ToTensor(), v1.ColorJitter(0.5)]), "ColorJitter of a tensor of floats"),
        (v1.Compose([v1.ToTensor(), v1.Resize(8, v1.InterpolationMode.BICUBIC)]), "Resize of a tensor"),
        (v2.Compose([v2.ToDtype(torch.float32), v2.ToImage()]), "ToDtype gets a PIL image"),
        (v2.Compose([v2.ToImage(), v2.ToDtype(torch.float16, scale=True)]), "float16"),
        (v1.Compose([v1.FiveCrop(8), v1.ToTensor()]), "FiveCrop is Python"),
    ],
)
def test_a_dataset_that_is_not_compiled_says_why(folder, transform, why):
    import re

    assert re.search(why, DataLoader(datasets.ImageFolder(folder, transform), 4).explain())


_LINEAR = v2.InterpolationMode.BILINEAR
# Transforms of uint8 tensors, and whether they are compiled. Those that are not give other pixels than for PIL images in torchvision.
OF_BYTES = {
    "angles": (lambda v: v.RandomRotation(30), True),
    "no angle": (lambda v: v.RandomRotation((0, 0)), True),
    "shift": (lambda v: v.RandomAffine(0, translate=(0.1, 0.1)), True),
    "scales": (lambda v: v.RandomAffine(0, scale=(0.7, 1.3)), True),
    "nearest": (lambda v: v.RandomPerspective(interpolation=v2.InterpolationMode.NEAREST), True),
    "policy": (lambda v: v.RandAugment(), True),
    "colors": (lambda v: v.ColorJitter(0.2, 0.2, 0.2), True),
    "quarter": (lambda v: v.RandomRotation((90, 90)), False),
    "scale": (lambda v: v.RandomAffine(0, scale=(1.3, 1.3)), False),
    "shear": (lambda v: v.RandomAffine(0, shear=(0, 0, 5, 5)), False),
    "linear": (lambda v: v.RandomRotation((30, 30), _LINEAR), False),
    "affine": (lambda v: v.RandomAffine((30, 30), interpolation=_LINEAR, fill=9), False),
    "in a group": (lambda v: v.RandomApply([v.RandomAffine((30, 30), interpolation=_LINEAR)], 1.0), False),
    "perspective": (lambda v: v.RandomPerspective(0.0, 1.0), False),
    "linear policy": (lambda v: v.TrivialAugmentWide(interpolation=_LINEAR), False),
    "hue": (lambda v: v.ColorJitter(hue=(0.2, 0.2)), False),
    "distort": (lambda v: v2.RandomPhotometricDistort((1.1, 1.1), (1.2, 1.2), (1.2, 1.2), (0.0, 0.0), 0.0), False),
}


@pytest.mark.parametrize("name", OF_BYTES)
@pytest.mark.parametrize("version", [v1, v2])
def test_transforms_of_tensors_of_bytes(folder, version, name):
    make, in_c = OF_BYTES[name]
    for before, compiled in (([v2.ToImage() if version is v2 else v1.PILToTensor()], in_c), ([], True)):
        transform = version.Compose([version.Resize((60, 41)), *before, make(version), *([] if before else [v1.PILToTensor()])])
        assert ("run in C" in DataLoader(datasets.ImageFolder(folder, transform), 4).explain()) == compiled
        drawn = name in ("angles", "shift", "scales", "nearest", "policy", "colors", "linear policy")
        if before and not drawn:
            want, got = (first_images(kind, folder, transform) for kind in (data.DataLoader, DataLoader))
            assert got.dtype == want.dtype == torch.uint8 and (got.int() - want.int()).abs().max() <= 1


@pytest.mark.parametrize("shuffle", [False, True])
def test_accelerate_rebuilds_a_loader(folder, shuffle):
    """Accelerate makes a stoker.DataLoader from a stoker.DataLoader, and torch's from torch's. Both have the same order, but only Stoker's makes the images
    in C."""
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    found = []
    for kind in (DataLoader, data.DataLoader, DataLoader):
        accelerate.utils.set_seed(SEED)
        prepared = accelerator.prepare(kind(datasets.ImageFolder(folder, TRANSFORM), 4, shuffle=shuffle, num_workers=1))
        assert type(prepared.base_dataloader) is kind and len(prepared) == 6
        assert isinstance(prepared.base_dataloader, accelerate.data_loader.DataLoader)
        found.append([[y.tolist() for _, y in prepared] for _ in range(2)])
        if kind is DataLoader:
            assert "run in C" in prepared.base_dataloader.explain()
            rest = accelerate.skip_first_batches(prepared, 4)
            assert type(rest.base_dataloader) is DataLoader and len(list(rest)) == 2
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    "order", [lambda: {"shuffle": True}, lambda: {"sampler": data.WeightedRandomSampler([1.0, 2.0] * 10, 20)}], ids=["shuffle", "weights"]
)
@pytest.mark.parametrize("batches", [0, 2, 5])
def test_the_epochs_after_one_that_was_resumed_without_a_generator(make, order, workers, batches):
    """Later epochs have the order of the saved run, although that run's loop has drawn numbers, and the program that continues has another seed."""

    def rest(loader, iterator):
        torch.rand(3)  # takes numbers from torch's generator, as dropout does on the CPU
        return [[y.tolist() for _, y in iterator], ids(loader), ids(loader)]

    torch.manual_seed(31)
    one = DataLoader(make(), 4, num_workers=workers, **order())
    iterator = iter(one)
    for _ in range(batches):
        next(iterator)
        torch.rand(3)
    state = pickle.loads(pickle.dumps(one.state_dict()))
    expected = rest(one, iterator)
    torch.manual_seed(32)
    two = DataLoader(make(), 4, num_workers=workers, **order())
    two.load_state_dict(state)
    assert rest(two, iter(two)) == expected


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batches", [0, None])
def test_a_state_between_epochs_without_a_generator(make, workers, batches):
    """The next epoch has the order that it would have had in the saved run, whatever numbers the program has drawn since."""
    torch.manual_seed(21)
    one = DataLoader(make(), 4, shuffle=True, num_workers=workers)
    if batches is None:
        list(one)
    state = one.state_dict()
    following = ids(one)
    torch.manual_seed(22)
    two = DataLoader(make(), 4, shuffle=True, num_workers=workers)
    two.load_state_dict(pickle.loads(pickle.dumps(state)))
    assert ids(two) == following


def test_parts_of_a_transform_that_are_compared_for_each_batch():
    """A part that was replaced by an equal one is the same, until that one changes. Tensors and arrays are compared by identity, and their replacement is a
    change, unless it has a single equal number."""
    from stoker.dataloader._transforms import Parts

    def compose():
        made = v2.Compose([v2.Resize([8, 8]), v2.RandomApply([v2.ColorJitter(0.5)]), v2.Normalize([0.5] * 3, [0.2] * 3)])
        made.tensor, made.array, made.inside = torch.zeros(3), np.zeros(3), {"tensor": torch.zeros(3), "list": [np.zeros(3)]}
        return made

    changes = [
        lambda t: setattr(t.transforms[0], "size", [8, 9]),
        lambda t: t.transforms[2].mean.__setitem__(0, 0.4),
        lambda t: setattr(t.transforms[1].transforms[0], "brightness", (0.1, 0.2)),
        lambda t: t.transforms.pop(),
        lambda t: t.transforms.reverse(),
        lambda t: t.transforms.__setitem__(0, v2.Resize([8, 8])),
        lambda t: setattr(t, "tensor", torch.zeros(3)),
        lambda t: setattr(t, "array", np.zeros(3)),
        lambda t: setattr(t, "array", None),
        lambda t: setattr(t, "added", 1),
        lambda t: delattr(t, "tensor"),
        lambda t: t.inside.__setitem__("tensor", torch.zeros(3)),
        lambda t: t.inside["list"].__setitem__(0, np.zeros(3)),
    ]
    for k, change in enumerate(changes):
        transform = compose()
        parts = Parts(transform)
        assert parts.unchanged()
        change(transform)
        assert not parts.unchanged(), k
    transform = compose()
    parts = Parts(transform)
    transform.transforms[2].mean = [0.5] * 3
    assert parts.unchanged()
    transform.transforms[2].mean[0] = 0.4
    assert not parts.unchanged()
