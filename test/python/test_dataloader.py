# SPDX-License-Identifier: Apache-2.0
"""Loader.as_dataloader: the object that frameworks get if they ask for a DataLoader."""

import gc
import itertools
import sys
import types

import pytest
import stoker
import torch
from stoker import Loader
from stoker import transforms as T


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
    """Accelerate asks its loaders for the end of the epoch and for the number of samples that count in the last step. The stand-in records what it gets."""
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
    torch.manual_seed(2**40 + 5)  # as large as those that torch draws if it is not seeded
    assert epoch() == epoch(seed=0)


@pytest.mark.parametrize("raw", [False, True])
def test_accelerate(tree, raw):
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
