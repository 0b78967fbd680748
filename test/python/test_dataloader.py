# SPDX-License-Identifier: Apache-2.0
"""Loader.as_dataloader: the object for frameworks that expect a DataLoader. Also tests the largest numbers that stoker.DataLoader accepts."""

import contextlib
import copy
import gc
import importlib
import itertools
import pickle
import sys
import types

import pytest
import stoker
import torch
from stoker import Loader
from stoker import transforms as T
from stoker.errors import StateError


def make(tree, batch_size=4, **kwargs):
    return Loader(tree, batch_size, **{"transforms": [T.Resize((16, 16))], "fields": ("image", "label", "index"), **kwargs})


def ids(loader):
    return list(itertools.chain.from_iterable(b.index.tolist() for b in loader))


def test_as_dataloader(tree):
    loader = make(tree, shuffle=True)
    wrapped = loader.as_dataloader()
    assert isinstance(wrapped, torch.utils.data.DataLoader) and len(wrapped) == len(loader)
    epochs = [ids(wrapped) for _ in range(2)]
    fresh = make(tree, shuffle=True)
    assert epochs == [ids(fresh) for _ in range(2)]
    assert wrapped.state_dict() == fresh.state_dict()


def test_as_dataloader_shows_the_data_set(tree):
    loader = make(tree, batch_size=4, last_batch="keep")
    wrapped = loader.as_dataloader()
    assert isinstance(wrapped, stoker.DataLoader)
    assert (len(wrapped.dataset), wrapped.batch_size, wrapped.drop_last) == (21, 4, False)
    assert wrapped.dataset.classes == loader.classes and len(wrapped.sampler) == len(loader) * 4
    wrapped.sampler.set_epoch(3)
    assert loader.epoch == 3 and "21 samples" in wrapped.explain()
    assert not hasattr(wrapped.dataset, "nothing")


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("last", ["drop", "keep", "pad"])
def test_as_dataloader_for_accelerate(tree, monkeypatch, last, raw):
    """Accelerate reads from a loader whether the epoch ends, and how many samples of the last step are valid. A replacement of Accelerate records this."""
    inside = []

    class GradientState:
        _shared_state = ("in use",)

        def _add_dataloader(self, loader):
            inside.append(loader)

        def _remove_dataloader(self, loader):
            inside.remove(loader)

    module = types.ModuleType("accelerate.state")
    module.GradientState = GradientState
    monkeypatch.setitem(sys.modules, "accelerate.state", module)
    loader = make(tree, last_batch=last)
    wrapped = loader if raw else loader.as_dataloader()
    for _ in range(2):
        ends = []
        for _ in wrapped:
            assert inside == [wrapped]
            ends.append(wrapped.end_of_dataloader)
        assert ends == [False] * (len(ends) - 1) + [True] and not inside
        assert wrapped.remainder == (1 if last == "pad" else 0)
    for _ in wrapped:
        break
    gc.collect()
    assert not inside


def test_the_seed_of_torch_is_the_default(tree):
    def epoch(**kwargs):
        return ids(make(tree, shuffle=True, **kwargs))

    found = {}
    for seed in (1, 2, -5):
        torch.manual_seed(seed)
        found[seed] = epoch()
        assert epoch() == found[seed] and epoch(seed=7) == epoch(seed=7)
    assert found[1] != found[2] != found[-5]
    assert found[1] == epoch(seed=1)
    torch.manual_seed(2**40 + 5)  # if the program sets no seed, torch draws one of this size
    assert epoch() == epoch(seed=0)


@pytest.mark.parametrize("raw", [False, True])
def test_accelerate_trains_with_a_loader(tree, raw):
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=4)
    model = torch.nn.Linear(3 * 16 * 16, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = make(tree, last_batch="pad")
    model, optimizer, wrapped = accelerator.prepare(model, optimizer, loader if raw else loader.as_dataloader())
    assert raw or wrapped.loader is loader
    synced, seen = [], []
    for batch in wrapped:
        with accelerator.accumulate(model):
            accelerator.backward(model(batch.image.flatten(1)).sum())
            optimizer.step()
            optimizer.zero_grad()
            synced.append(accelerator.sync_gradients)
        seen += accelerator.gather_for_metrics(batch.index).tolist()
    assert synced == [False, False, False, True, False, True] and seen == list(range(21))


@pytest.fixture
def accelerates(monkeypatch):
    """Replaces the module in which Accelerate makes DataLoaders."""
    module = types.ModuleType("accelerate.data_loader")
    module.DataLoader = torch.utils.data.DataLoader
    monkeypatch.setitem(sys.modules, "accelerate.data_loader", module)
    return module


@pytest.mark.parametrize("late", [False, True])
def test_batches_that_accelerate_skips(tree, monkeypatch, late, accelerates):
    """transformers' Trainer continues a run with skip_first_batches(), which makes a DataLoader of the data set and the batch size, and drops its first
    batches. The data set of as_dataloader() gives batches, which that DataLoader must not batch again: a Trainer would have no batch left."""
    if late:
        monkeypatch.delitem(sys.modules, "accelerate.data_loader")
    loader = make(tree, shuffle=True)
    wrapped = loader.as_dataloader()
    monkeypatch.setitem(sys.modules, "accelerate.data_loader", accelerates)
    assert wrapped._is_accelerate_prepared
    wrapped._is_accelerate_prepared = True  # accelerate's prepare() sets this attribute
    whole = [batch.index.tolist() for batch in make(tree, shuffle=True)]
    again = accelerates.DataLoader(wrapped.dataset, batch_size=wrapped.batch_size, drop_last=wrapped.drop_last, num_workers=0)
    assert [batch.index.tolist() for batch in again] == whole and len(again) == len(whole)
    assert type(accelerates.DataLoader([1, 2], batch_size=2)) is torch.utils.data.DataLoader


def test_a_trainer_sets_the_epoch(tree):
    whole = make(tree, shuffle=True)
    epochs = [ids(whole) for _ in range(3)]
    wrapped = make(tree, shuffle=True).as_dataloader()
    wrapped.set_epoch(2)
    assert ids(wrapped) == epochs[2]


def test_the_epoch_may_be_set_between_iter_and_the_first_batch(tree):
    """When Lightning continues a run, it sets the epoch after iter(). The iterator gives that epoch, even if a state of the epoch before was loaded."""

    def made():
        return Loader(tree, 2, shuffle=True, seed=4, transforms=[T.Resize((16, 16))], fields=("image", "label", "index"))

    def ids(iterator):
        return [batch[2].tolist() for batch in iterator]

    loader = made()
    epochs = [ids(loader) for _ in range(3)]
    saved = made()
    half = iter(saved)
    next(half)
    state = saved.state_dict()
    for wrap in (lambda loader: loader, lambda loader: loader.as_dataloader()):
        other = wrap(made())
        other.load_state_dict(state)
        iterator = iter(other)
        other.set_epoch(1)
        assert ids(iterator) == epochs[1] and ids(other) == epochs[2]
        left = iter(other)
        next(left)
        other.set_epoch(0)
        with pytest.raises(StateError, match="its position was set"):
            next(left)
        assert ids(other) == epochs[0]


def test_accelerate_skips_batches_of_a_loader(tree):
    accelerate = pytest.importorskip("accelerate")
    wrapped = accelerate.Accelerator(cpu=True).prepare(make(tree).as_dataloader())
    rest = accelerate.skip_first_batches(wrapped, 2)
    assert [batch.index.tolist() for batch in rest] == [batch.index.tolist() for batch in wrapped][2:]


def test_batches_that_accelerate_cannot_skip(tree):
    """skip_first_batches() would make a DataLoader of a Loader's data set. Other readers of a missing attribute get Python's own error."""
    loader = make(tree)

    def skip_first_batches(dataloader, names=("num_workers", "prefetch_factor")):
        return [getattr(dataloader, name, 2) for name in names]

    skips = [skip_first_batches]
    with contextlib.suppress(ImportError):
        skips.append(importlib.import_module("accelerate").skip_first_batches)
    for skip in skips:
        with pytest.raises(TypeError, match=r"skip_first_batches makes a torch DataLoader of it: give loader.as_dataloader\(\)"):
            skip(loader)
    assert getattr(loader, "prefetch_factor", 2) == 2 and not hasattr(loader, "pin_memory")
    with pytest.raises(AttributeError, match="'Loader' object has no attribute 'clases'"):
        loader.clases  # noqa: B018


def test_a_state_that_was_loaded_before_accelerate_rebuilds_the_loader(accelerates):
    def made():
        return stoker.DataLoader(list(range(20)), 4, shuffle=True, generator=torch.Generator().manual_seed(5), snapshot_every_n_steps=3)

    loader = made()
    iterator = iter(loader)
    next(iterator), next(iterator)
    state = loader.state_dict()
    fresh = made()
    fresh.load_state_dict(state)
    assert not fresh._is_accelerate_prepared
    again = accelerates.DataLoader(fresh.dataset, batch_sampler=fresh.batch_sampler, generator=fresh.generator)
    assert type(again) is stoker.DataLoader and again.snapshot_every_n_steps == 3
    assert [batch.tolist() for batch in again] == [batch.tolist() for batch in iterator]


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda loader: pickle.loads(pickle.dumps(loader))], ids=["copy", "deepcopy", "pickle"]
)
def test_copies_keep_a_state_that_was_loaded(copied):
    def made():
        return stoker.DataLoader(list(range(20)), 4, shuffle=True, generator=torch.Generator().manual_seed(5))

    loader = made()
    iterator = iter(loader)
    next(iterator), next(iterator)
    state = loader.state_dict()
    rest = [batch.tolist() for batch in iterator]
    loader = made()
    loader.load_state_dict(state)
    again = copied(loader)
    assert again.state_dict() == state
    assert [batch.tolist() for batch in again] == rest
    if copied is not copy.copy:  # a shallow copy shares the generator
        assert [batch.tolist() for batch in loader] == rest


class Shard(torch.utils.data.BatchSampler):
    """A batch sampler around another one, like those of Accelerate."""

    def __init__(self, batch_sampler, skip=0):
        self.batch_sampler, self.skip = batch_sampler, skip

    def __iter__(self):
        return itertools.islice(self.batch_sampler, self.skip, None)

    def __len__(self):
        return len(self.batch_sampler) - self.skip


def prepared(module, loader, around=lambda sampler: sampler):
    """Makes another loader like Accelerate's prepare()."""
    assert not getattr(loader, "_is_accelerate_prepared", False)
    kept = {name: getattr(loader, name) for name in ("num_workers", "collate_fn", "generator")}
    if isinstance(loader.dataset, torch.utils.data.IterableDataset):
        return module.DataLoader(loader.dataset, batch_sampler=None, batch_size=loader.batch_size, drop_last=loader.drop_last, **kept)
    return module.DataLoader(loader.dataset, batch_sampler=around(loader.batch_sampler), **kept)


def resumed(dataset):
    """Returns a loader with the state that another one has after two batches of four."""
    loader, again = (stoker.DataLoader(dataset, 4, snapshot_every_n_steps=3) for _ in range(2))
    iterator = iter(loader)
    next(iterator), next(iterator)
    again.load_state_dict(loader.state_dict())
    return again


class Numbers(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter(range(20))


@pytest.mark.parametrize("around", [lambda sampler: sampler, Shard], ids=["one rank", "two ranks"])
@pytest.mark.parametrize("order", list(itertools.permutations(["train", "valid", "plain"])), ids="-".join)
@pytest.mark.parametrize("make", [lambda: list(range(20)), Numbers], ids=["list", "stream"])
def test_accelerate_rebuilds_each_of_several_loaders_over_one_data_set(accelerates, make, order, around):
    """Each new loader has the class, the arguments and the loaded state of the one from which it was made, and of no other one."""
    dataset = make()
    train = resumed(dataset)
    loaders = {"train": train, "valid": stoker.DataLoader(dataset, 4), "plain": torch.utils.data.DataLoader(dataset, 4)}
    made = {name: prepared(accelerates, loaders[name], around) for name in order}
    assert {name: type(loader) for name, loader in made.items()} == {name: type(loader) for name, loader in loaders.items()}
    assert (made["train"].snapshot_every_n_steps, made["valid"].snapshot_every_n_steps) == (3, 1)
    whole = [[*range(k, k + 4)] for k in range(0, 20, 4)]
    assert {name: [batch.tolist() for batch in made[name]] for name in order} == {"train": whole[2:], "valid": whole, "plain": whole}


def test_accelerate_skips_batches_of_a_loader_that_was_resumed(accelerates):
    """A loader of which Accelerate skips batches does not get a state that was loaded before prepare()."""
    dataset = list(range(20))
    train = resumed(dataset)
    rebuilt = prepared(accelerates, train)
    assert len(list(rebuilt)) == 3
    rest = accelerates.DataLoader(dataset, batch_sampler=Shard(rebuilt.batch_sampler, 4), num_workers=0)
    assert type(rest) is stoker.DataLoader and rest.snapshot_every_n_steps == 3
    assert [batch.tolist() for batch in rest] == [[16, 17, 18, 19]]


def test_accelerate_prepares_several_loaders_over_one_data_set():
    accelerate = pytest.importorskip("accelerate")
    accelerator = accelerate.Accelerator(cpu=True)
    dataset = list(range(20))
    train = stoker.DataLoader(dataset, 4)
    iterator = iter(train)
    next(iterator), next(iterator)
    state = train.state_dict()
    train, valid, plain = stoker.DataLoader(dataset, 4), stoker.DataLoader(dataset, 4), torch.utils.data.DataLoader(dataset, 4)
    train.load_state_dict(state)
    made = accelerator.prepare(valid, train, plain)
    assert [len(list(loader)) for loader in made] == [5, 3, 5]
    assert [type(loader.base_dataloader) for loader in made] == [stoker.DataLoader, stoker.DataLoader, torch.utils.data.DataLoader]
    assert [len(list(accelerate.skip_first_batches(loader, 2))) for loader in made] == [3, 3, 3]


@pytest.mark.parametrize("value", [2**31, 2**32, 2**63, 10**30])
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (lambda v: {"num_workers": v}, "num_workers is at most 4096, not .* cores"),
        (lambda v: {"num_workers": 1, "prefetch_factor": v}, "batches made ahead, is at most 1048576, not .* smaller prefetch_factor"),
        (lambda v: {"num_workers": 1, "timeout": v}, "timeout is at most 2147483, not .* 0 waits without a limit"),
        (lambda v: {"batch_size": v << 33}, "batch_size is at most 9223372036854775807, not .* one batch"),
    ],
)
def test_giant_numbers_are_refused(arguments, said, value):
    """Giant numbers are refused: with prefetch_factor=2**31 an epoch would take hours to begin, and num_workers=2**31 would start processes until memory
    runs out."""
    with pytest.raises(ValueError, match=f"DataLoader: .*{said}"):
        stoker.DataLoader(range(26), **arguments(value))


def test_the_largest_numbers_that_are_accepted():
    for arguments in ({"batch_size": 2**63 - 1}, {"num_workers": 1, "timeout": 2147483}, {"num_workers": 1, "prefetch_factor": 1000}):
        assert sum(len(batch) for batch in stoker.DataLoader(range(26), **arguments)) == 26
