# SPDX-License-Identifier: Apache-2.0
"""stoker.Loader: its state, after every batch, around the ends of epochs and with another number of ranks."""

import contextlib
import gc
import itertools
import json
import os
import pickle
import shutil
import threading

import numpy as np
import pytest
import stoker
import torch
from stoker import Loader, Pipeline, fn, sample_rng
from stoker import transforms as T
from stoker.errors import StateError

SMALL = [T.Resize((16, 16))]
AUGMENT = [T.RandomResizedCrop(16), T.RandomHorizontalFlip()]


def make(tree, batch_size=4, **kwargs):
    return Loader(tree, batch_size, **{"transforms": SMALL, "fields": ("image", "label", "index"), **kwargs})


def ids(loader):
    return [b.index.tolist() for b in loader]


def flat(batches):
    return list(itertools.chain.from_iterable(batches))


@pytest.mark.essential
@pytest.mark.parametrize("kind", ["folder", "dataset", "function", "weights", "dataset and function"])
@pytest.mark.parametrize("last", ["drop", "keep"])
def test_state_after_every_batch(tree, files, kind, last):
    class Bytes:
        def __len__(self):
            return len(files)

        def __getitem__(self, i):
            return str(files[i]), i

    def new():
        extra = {
            "folder": {"shuffle": True},
            "dataset": {"shuffle": True},
            "function": {"sampler": lambda epoch: [(5 * i + epoch) % 21 for i in range(18)]},
            "weights": {"sampler": [float(i + 1) for i in range(21)]},
            "dataset and function": {"sampler": lambda epoch: [(5 * i + epoch) % 21 for i in range(18)]},
        }[kind]
        return make(Bytes() if "dataset" in kind else tree, transforms=AUGMENT, seed=3, last_batch=last, **extra)

    def run(loader, epochs):
        for epoch in range(loader.epoch, epochs):
            for batch in loader:
                yield epoch, batch.index.tolist(), batch.image.clone()

    whole = new()
    states, steps = [whole.state_dict()], []
    for step in run(whole, 3):
        steps.append(step)
        states.append(whole.state_dict())
    for k, state in enumerate(states):
        text = json.dumps(state)
        assert len(text) < 1024
        rest = new()
        rest.load_state_dict(json.loads(text))
        resumed = list(run(rest, 3))
        assert [s[:2] for s in resumed] == [s[:2] for s in steps[k:]], f"after {k} batches"
        assert all(torch.equal(a[2], b[2]) for a, b in zip(resumed, steps[k:], strict=True)), f"pixels after {k} batches"


@pytest.mark.essential
@pytest.mark.parametrize("kind", ["folder", "dataset"])
def test_state_with_another_number_of_ranks(tree, files, kind):
    class Bytes:
        def __len__(self):
            return len(files)

        def __getitem__(self, i):
            return files[i].read_bytes(), i

    source = Bytes() if kind == "dataset" else tree

    def ranks(world, state=None):
        options = {"batch_size": 2, "shuffle": True, "seed": 9, "last_batch": "pad", "transforms": AUGMENT}
        loaders = [make(source, shard=(r, world), **options) for r in range(world)]
        for loader in loaders:
            if state is not None:
                loader.load_state_dict(state)
        return loaders

    def take(loaders, steps=None):
        seen = []
        for batches in itertools.islice(zip(*loaders, strict=True), steps):
            for b in batches:
                sums = (b.image.double() * torch.arange(1, 257).view(16, 16)).sum(dim=(1, 2, 3)).tolist()
                seen += [s for *s, valid in zip(b.index.tolist(), sums, b.valid.tolist(), strict=True) if valid]
        return seen

    order = take(ranks(1))
    two = ranks(2)
    first = take(two, 2)
    for world in (1, 3, 4):
        assert first + take(ranks(world, two[0].state_dict())) == order, world


@pytest.mark.parametrize("tail", ["wrap", "keep"])
def test_state_of_a_pipeline_after_every_batch(tree, tail):
    """A new Loader that loads a state gives the same next batches, even across the ends of epochs, and even if the program had left an epoch early. With
    tail "wrap", an epoch's last batch also has the first samples of the next epoch."""

    def new():
        pipe = Pipeline(4, 2, None)
        with pipe:
            _, label = fn.readers.file(
                files=sorted(map(str, tree.glob("*/*.jpg")))[:13], random_shuffle=True, **({"tail": tail} if tail == "keep" else {})
            )
            pipe.set_outputs(label)
        return Loader(pipe, fields=["label"])

    whole, states, steps = new(), [], []
    for epoch in range(4):
        states.append((len(steps), whole.state_dict()))
        for batch in whole:
            steps.append((epoch, batch.label.flatten().tolist()))
            states.append((len(steps), whole.state_dict()))
    for k, state in states:
        rest = new()
        rest.load_state_dict(json.loads(json.dumps(state)))
        assert rest.state_dict() == state
        assert [(e, b.label.flatten().tolist()) for e in range(rest.epoch, 4) for b in rest] == steps[k:], f"after {k} batches"
    left = new()
    next(iter(left))
    iter(left)  # ends the epoch before its last batch
    rest = new()
    rest.load_state_dict(left.state_dict())
    assert [b.label.flatten().tolist() for b in rest] == [b.label.flatten().tolist() for b in left]


def test_breaking_begins_the_next_epoch(tree):
    loader = make(tree, shuffle=True, last_batch="keep", seed=4)
    want = [flat(ids(make_at(tree, e))) for e in range(3)]
    for i, batch in enumerate(loader):
        assert batch.index.tolist() == want[0][4 * i : 4 * i + 4]
        if i == 1:
            break
    assert loader.epoch == 0
    assert flat(ids(loader)) == want[1]
    assert loader.epoch == 2
    for _ in loader:  # leaves the loop at the epoch's last batch
        if len(_.index) == 1:
            break
    assert flat(ids(loader)) == flat(ids(make_at(tree, 3)))


def make_at(tree, epoch):
    loader = make(tree, shuffle=True, last_batch="keep", seed=4)
    loader.load_state_dict({**loader.state_dict(), "epoch": epoch})
    return loader


@pytest.mark.parametrize("taken", [0, 2, 6])
def test_state_around_the_end_of_an_epoch(tree, taken):
    """A state that is saved before the first batch, between epochs, or when a new iteration begins after a break, leads to the batches that the saved run gets
    next."""
    loader = make(tree, shuffle=True, last_batch="keep", seed=4)
    want = [flat(ids(make_at(tree, e))) for e in range(3)]
    assert len({tuple(w) for w in want}) == 3
    for _ in zip(range(taken), loader, strict=False):
        pass
    if taken == 6:
        assert flat(ids(loader)) == want[1]
    states = [loader.state_dict()]
    running = iter(loader)
    states.append(loader.state_dict())
    rest = flat(b.index.tolist() for b in running)
    for state in states[1:] if taken == 2 else states:
        again = make(tree, shuffle=True, last_batch="keep", seed=4)
        again.load_state_dict(state)
        assert flat(ids(again)) == rest
    assert loader.state_dict()["epoch"] == loader.epoch


def test_a_state_shares_nothing_with_its_loader(tree):
    """A program may change a state that it has loaded, or got from a Loader. This changes neither the Loader nor its later states."""
    state = after(make(tree, shuffle=True), 3)
    loader, given = make(tree, shuffle=True), json.loads(json.dumps(state))
    loader.load_state_dict(given)
    given["pipeline"]["consumed"] = 0
    loader.state_dict()["pipeline"]["consumed"] = 4
    assert loader.state_dict() == state
    loader.close()
    loader.state_dict()["pipeline"]["consumed"] = 4
    assert loader.state_dict() == state and len(ids(loader)) == 3
    at_start = loader.state_dict()
    loader.state_dict()["data"]["size"] = 99
    assert loader.state_dict() == at_start and at_start["data"]["size"] == 21


def test_wrong_states(tree):
    loader = make(tree)
    for state in ({}, None, {"stoker_loader": 99, "epoch": 0, "pipeline": None}, "text"):
        with pytest.raises(StateError):
            loader.load_state_dict(state)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(loader)


def built(tree, **more):
    pipe = Pipeline(2, 1, None, **more)
    with pipe:
        pipe.set_outputs(*fn.readers.file(file_root=str(tree)))
    pipe.build()
    return pipe


def foreign(tree):
    """Returns a dict from parts of messages to states of other objects."""
    loader = make(tree)
    pipe = built(tree)
    torchs = stoker.DataLoader(range(8), 2)
    return {
        "one of a Loader": loader.state_dict(),
        "one of a mixture": Loader.mix([(make(tree), 1)]).state_dict(),
        r"one of a stoker\.DataLoader": torchs.state_dict(),
        "JSON text, like the state of a Pipeline": pipe.checkpoint(),
        "a checkpoint of DALI's": b"\x0a\x02\x08\x01",
        "torchdata's StatefulDataLoader": {"_snapshot": {}, "_steps_since_snapshot": 0, "_iterator_finished": False},
        "a state of an optimizer": torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1).state_dict(),
        "checkpoint of Lightning": {"pytorch-lightning_version": "2.0", "state_dict": {}},
        r"a list of 1, whose entry is one of a Loader": [loader.state_dict()],
        r"the entries 'w\.0', 'w\.1', 'w\.2', 'w\.3', \.\.\.": {f"w.{k}": torch.zeros(1) for k in range(5)},
        "an empty dict": {},
        "but None": None,
        "a value of type int": 5,
    }


@pytest.mark.parametrize("kind", ["a Loader", "a mixture", "a stoker.DataLoader", "a Pipeline"])
def test_states_of_other_objects_are_refused_by_name(tree, kind):
    load = {
        "a Loader": make(tree).load_state_dict,
        "a mixture": Loader.mix([(make(tree), 1)]).load_state_dict,
        "a stoker.DataLoader": stoker.DataLoader(range(8), 2).load_state_dict,
        "a Pipeline": lambda state: built(tree, checkpoint=state),
    }[kind]
    for said, state in foreign(tree).items():
        if said.replace("\\", "").endswith(kind) or (kind == "a Pipeline" and state is None):
            continue
        with pytest.raises(StateError, match=rf"this is no state of {kind}.*{said}.*: give what"):
            load(state)
    if kind == "a Loader":
        state = make(tree).state_dict()
        with pytest.raises(StateError, match="a dict whose entry 'data' is one"):
            load({"model": {}, "data": state})
        with pytest.raises(StateError, match="a state of a Loader in version 2, and this Stoker reads version 1"):
            load({**state, "stoker_loader": 2})
    if kind == "a Pipeline":
        with pytest.raises(StateError, match=r"but one of a Loader: give what Pipeline\.checkpoint"):
            load(json.dumps(make(tree).state_dict()))


def test_a_closed_loader_stays_where_it_is(tree, files):
    """The state of a closed Loader stays as it was before, and a new iteration continues from there."""

    class Paths:
        def __len__(self):
            return len(files)

        def __getitem__(self, i):
            return str(files[i]), i

    for source in (tree, Paths()):
        with Loader(source, 4, transforms=SMALL, shuffle=True, fields=("index",)) as loader:
            rows = iter(loader)
            begun = [next(rows).index.tolist() for _ in range(2)]
            state = loader.state_dict()
        with pytest.raises(StateError, match="closed"):
            next(rows)
        assert loader.state_dict() == state
        rest = [b.index.tolist() for b in loader]
        whole = Loader(source, 4, transforms=SMALL, shuffle=True, fields=("index",))
        assert [begun + rest, [b.index.tolist() for b in loader]] == [[b.index.tolist() for b in whole] for _ in range(2)]


def test_a_closed_loader_of_a_pipeline_stays_where_it_is(tree):
    """As above, for a Pipeline of the user, which stays open: at every position, and after a state was loaded."""

    def new(state=None):
        pipe = Pipeline(4, seed=3)
        with pipe:
            data, label = fn.readers.file(file_root=tree, random_shuffle=True, shuffle_seed=3, tail="keep", name="r")
            pipe.set_outputs(fn.decoders.image(data, values="pictures").shape(), label)
        loader = Loader(pipe, fields=("shape", "label"))
        if state is not None:
            loader.load_state_dict(state)
        return loader

    whole = new()
    states, batches = [], []
    while whole.epoch < 2:
        for batch in whole:
            batches.append(batch.label.tolist())
            states.append(whole.state_dict())
    for begun in (0, 2):
        for taken in range(1, len(batches) - begun):
            loader = new(states[begun - 1] if begun else None)
            found, rows = batches[:begun], iter(loader)
            while len(found) < begun + taken:
                batch = next(rows, None)
                if batch is None:
                    rows = iter(loader)
                else:
                    found.append(batch.label.tolist())
            before = loader.state_dict(), loader.epoch, loader.step
            loader.close()
            assert before == (loader.state_dict(), loader.epoch, loader.step) and before[0] == states[begun + taken - 1]
            while len(found) < len(batches):
                found += [b.label.tolist() for b in loader]
            assert found == batches


@pytest.mark.parametrize("source", [False, True])
def test_a_closed_loader_of_a_closed_pipeline_has_a_state(tree, source):
    """At every position, also if the Loader was closed before and continued."""
    for taken in range(8):
        pipe = Pipeline(4, seed=3)
        with pipe:
            if source:
                numbers = fn.external_source(source=[[np.int64(k)] * 4 for k in range(3)], cycle="raise")
            else:
                _, numbers = fn.readers.file(file_root=tree, random_shuffle=True, shuffle_seed=3, tail="keep", name="r")
            pipe.set_outputs(numbers)
        loader = Loader(pipe, fields=("label",))
        left = taken
        while left:
            for _ in loader:
                left -= 1
                if left % 3 == 0:
                    break
            loader.close()
        before = loader.state_dict()
        for close in (loader.close, pipe.close, pipe.close, loader.close):
            close()
        assert before == loader.state_dict(), taken
        with pytest.raises(StateError, match="closed: make a new one"):
            next(iter(loader))


def test_a_loader_may_be_closed_in_a_child(tree):
    loader = make(tree)
    rows = iter(loader)
    begun = next(rows).index.tolist()
    child = os.fork()
    if child == 0:
        try:
            loader.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    assert begun + flat(b.index.tolist() for b in rows) == list(range(21))


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
@pytest.mark.parametrize("taken", [0, 2, 7])
def test_a_state_in_a_distributed_checkpoint(tree, tmp_path, taken):
    """The loaded state replaces one with the same keys, and a Loader's state has other keys in mid-epoch, so doc/loader.md stores it as a text."""
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    loader = make(tree, 3, shuffle=True)
    batches = iter(loader)
    for _ in range(taken):
        next(batches)
    checkpoint.save({"loader": json.dumps(loader.state_dict())}, checkpoint_id=tmp_path)
    again = make(tree, 3, shuffle=True)
    states = {"loader": json.dumps(again.state_dict())}
    checkpoint.load(states, checkpoint_id=tmp_path)
    again.load_state_dict(json.loads(states["loader"]))
    assert ids(again) == (ids(batches) or ids(loader))


def test_reprs_do_not_raise_in_a_child(tree):
    """Logs and tracebacks of workers show what they hold."""
    loader = make(tree)
    child = os.fork()
    if child == 0:
        try:
            assert "belongs to the process that forked this one; epoch 0" in repr(loader)
            assert "belongs to the process" in loader._repr_html_() and "Pipeline" in loader.pipeline._repr_html_()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


def test_reprs_do_not_raise_over_a_closed_pipeline(tree):
    with Pipeline(3, 2, None) as pipe:
        pipe.set_outputs(*fn.readers.file(file_root=str(tree)))
    loader = Loader(pipe)
    assert "7 in an epoch" in repr(loader) and "how it runs" in loader._repr_html_()
    pipe.close()
    assert "its pipeline is closed" in repr(loader) and "its pipeline is closed" in loader._repr_html_()
    assert "Pipeline" in pipe._repr_html_()


def test_reprs_do_not_raise_without_the_source(tree, tmp_path):
    shutil.copytree(tree, tmp_path / "data")
    loader = make(tmp_path / "data")
    loader.close()
    shutil.rmtree(tmp_path / "data")
    assert f"{tmp_path}/data" in repr(loader) and "epoch 0)" in repr(loader)


class Drawn(torch.utils.data.IterableDataset):
    """A stream that draws twice for each sample: before the sample is yielded, and when the generator resumes."""

    def __iter__(self):
        for k in range(7):
            yield {"image": np.full((8, 8, 3), k, np.uint8), "drawn": float(sample_rng().random())}
            sample_rng().random()


def drawn(loader):
    return flat(batch.drawn.tolist() for batch in loader)


@pytest.mark.parametrize("taken", [1, 2, 4])
def test_a_resumed_stream_repeats_its_random_numbers(taken):
    """A resumed stream makes the samples before its position again, and drops them. Their draws must not shift those of later samples."""
    loaders = [Loader(Drawn(), 2, seed=3) for _ in range(3)]
    whole = [drawn(loaders[0]) for _ in range(2)]
    # After 4 batches the epoch has ended, so the state is at the start of the next one.
    list(itertools.islice(itertools.chain(loaders[1], loaders[1]), taken))
    loaders[2].load_state_dict(loaders[1].state_dict())
    assert drawn(loaders[2]) == (whole[0][2 * taken :] or whole[1])


DATA = torch.utils.data
ANEW = {  # samplers that give a new order in each iteration
    "random": lambda: DATA.RandomSampler(range(21)),
    "weighted": lambda: DATA.WeightedRandomSampler([1.0] * 21, 21),
    "subset": lambda: DATA.SubsetRandomSampler(range(21)),
    "function": lambda: lambda epoch: torch.randperm(21).tolist(),
}


def in_order_of(tree, source, sampler, **kwargs):
    data = tree if source == "folder" else (torch.zeros(21, 8, 8, 3, dtype=torch.uint8), torch.arange(21))
    return Loader(data, 4, sampler=sampler, fields=("index",), last_batch="keep", **kwargs)


def after(loader, batches):
    """Returns the loader's state after `batches` batches, across epochs."""
    list(itertools.islice(itertools.chain.from_iterable(itertools.repeat(loader)), batches))
    return json.loads(json.dumps(loader.state_dict()))


@pytest.mark.parametrize("kind", ANEW)
@pytest.mark.parametrize("source", ["folder", "arrays"])
@pytest.mark.parametrize("epoch", [0, 1])
def test_an_order_that_does_not_come_again_is_refused(tree, source, kind, epoch):
    """A state in mid-epoch is refused if the sampler now gives another order, which would repeat some samples and skip others. A state of a complete epoch
    is loaded."""
    state = after(in_order_of(tree, source, ANEW[kind]()), 6 * epoch + 2)
    assert len(json.dumps(state)) < 1024
    loader = in_order_of(tree, source, ANEW[kind]())
    before = loader.state_dict()
    with pytest.raises(StateError, match=f"epoch {epoch} other ids .* function"):
        loader.load_state_dict(state)
    assert loader.state_dict() == before
    rows = iter(loader)
    first = flat(next(rows).index.tolist() for _ in range(3))
    with pytest.raises(StateError, match=f"epoch {epoch} other ids .* function"):
        loader.load_state_dict(state)
    assert sorted(first + flat(ids(loader))) == list(range(21)) or kind == "weighted"  # the rest of the order that was drawn
    assert loader.epoch == 1
    # The saved epoch is complete, so its order does not matter.
    loader.load_state_dict(after(in_order_of(tree, source, ANEW[kind]()), 6 * epoch + 6))
    assert loader.epoch == epoch + 1 and len(flat(ids(loader))) == 21


@pytest.mark.parametrize("source", ["folder", "arrays"])
def test_a_long_sampler_begins_again_with_its_first_ids(tree, source, monkeypatch):
    """Ids of a sampler without a length are drawn in parts. A state, or set_epoch, leads to the first part with the draws of that epoch."""
    monkeypatch.setattr("stoker.loader._order.Order.most", 8)

    class Endless:
        def __iter__(self):
            return iter(range(21))

    def values(batches):
        return [(b.index.tolist(), b.image.numpy().tobytes()) for b in batches]

    data = tree if source == "folder" else (torch.arange(21 * 192).to(torch.uint8).view(21, 8, 8, 3), torch.arange(21))
    new = lambda: Loader(data, 4, sampler=Endless(), fields=("image", "index"), transforms=AUGMENT, seed=3)  # noqa: E731
    whole = new()
    start, epochs = whole.state_dict(), [values(whole) for _ in range(2)]
    assert [len(epoch) for epoch in epochs] == [6, 6]
    loader = new()
    list(itertools.islice(loader, 3))
    loader.load_state_dict(start)
    assert values(loader) == epochs[0]
    loader = new()
    list(itertools.islice(loader, 3))
    loader.set_epoch(1)
    assert values(loader) == epochs[1]


@pytest.mark.parametrize("way", ["close", "refused state"])
@pytest.mark.parametrize("source", ["folder", "arrays"])
@pytest.mark.parametrize(
    ("size", "last", "shard"), [(21, "keep", None), (16, "keep", None), (18, "drop", None), (21, "drop", None), (21, "keep", (1, 2))]
)
def test_a_long_sampler_continues_from_every_position(tree, monkeypatch, way, source, size, last, shard):
    """Ids of a sampler without a length are drawn in parts ("stretches"). A Loader that is closed, or that refuses a state, continues with the batches and
    the random draws of a Loader that was not interrupted: inside a part, at its end, and at the end of the epoch."""
    monkeypatch.setattr("stoker.loader._order.Order.most", 8)
    data = tree if source == "folder" else (torch.arange(21 * 192).to(torch.uint8).view(21, 8, 8, 3), torch.arange(21))

    class Endless:
        def __iter__(self):
            return iter(range(size))

    sampler = Endless() if shard is None else lambda epoch: iter([(5 * i + epoch) % 21 for i in range(size)])
    batch = 4 if shard is None else 2
    new = lambda: Loader(data, batch, sampler=sampler, fields=("image", "index"), transforms=AUGMENT, seed=3, last_batch=last, shard=shard)  # noqa: E731
    values = lambda b: (b.index.tolist(), b.image.numpy().tobytes())  # noqa: E731
    refused = Loader([(os.devnull, 0)], 1).state_dict()

    def interrupt(loader):
        if way == "close":
            loader.close()
        else:
            with pytest.raises(StateError):
                loader.load_state_dict(refused)

    whole = new()
    epochs = [[values(b) for b in whole] for _ in range(2)]
    steps = (size + 3 * (last == "keep")) // 4
    assert [len(epoch) for epoch in epochs] == [steps, steps] and epochs[0] != epochs[1]
    for first, second in [(0, 0), *itertools.product(range(1, steps + 1), range(1, 4))]:
        loader = new()
        rows = iter(loader)
        found = [values(next(rows)) for _ in range(first)]
        interrupt(loader)
        if loader.epoch == 0:
            assert loader.step == first
        for _ in range(2):  # an iteration without a batch changes nothing
            rows = iter(loader)
        assert (loader.epoch, loader.step) == divmod(first, steps)
        found += [values(b) for b in itertools.islice(rows, second)]
        interrupt(loader)
        while len(found) < 2 * steps:
            found += map(values, loader)
        assert found == flat(epochs), (first, second)
        assert loader.epoch == 2


@pytest.mark.parametrize("size", [21, 16])
@pytest.mark.parametrize("source", ["folder", "arrays"])
def test_an_epoch_of_a_long_sampler_can_be_repeated(tree, source, size, monkeypatch):
    """After the end of an epoch, set_epoch and a state lead to all ids of that epoch, and not to those of its last part."""
    monkeypatch.setattr("stoker.loader._order.Order.most", 8)

    class Endless:
        def __iter__(self):
            return iter(range(size))

    data = tree if source == "folder" else (torch.zeros(21, 8, 8, 3, dtype=torch.uint8), torch.arange(21))
    new = lambda: Loader(data, 4, sampler=Endless(), fields=("index",), transforms=SMALL)  # noqa: E731
    start = new().state_dict()
    for closed, again in itertools.product(
        (False, True), (lambda loader: loader.set_epoch(0), lambda loader: loader.load_state_dict(start))
    ):
        loader = new()
        rows = iter(loader)
        first = flat(next(rows).index.tolist() for _ in range(-(-size // 4)))
        if closed:
            loader.close()
        else:
            assert not list(rows)
        with pytest.raises(TypeError, match="no length"):
            len(loader)
        again(loader)
        assert first == flat(ids(loader)) == flat(ids(loader)) == list(range(size))


def test_a_long_sampler_may_be_its_own_iterator(tree, monkeypatch):
    """An iterator whose __iter__ begins again is not asked to begin again for its second part."""
    monkeypatch.setattr("stoker.loader._order.Order.most", 8)

    class Own:
        def __iter__(self):
            self.ids = iter(range(21))
            return self

        def __next__(self):
            return next(self.ids)

    loader = make(tree, sampler=Own())
    for _ in range(2):
        assert flat(b.index.tolist() for b in itertools.islice(loader, 9)) == list(range(21))


@pytest.mark.parametrize("at", [8, 11])
@pytest.mark.parametrize("source", ["folder", "arrays"])
def test_an_error_of_a_long_sampler_repeats_no_samples(tree, source, at, monkeypatch):
    """A sampler without a length raises an error when its second part is drawn. The loop may continue, and gets the rest of the ids."""
    monkeypatch.setattr("stoker.loader._order.Order.most", 8)

    class Failing:
        def __init__(self):
            self.failed, self.at = False, 0

        def __iter__(self):
            return self

        def __next__(self):
            if self.at == at and not self.failed:
                self.failed = True
                raise OSError("not now")
            if self.at == 21:
                raise StopIteration
            self.at += 1
            return self.at - 1

    data = tree if source == "folder" else (torch.zeros(21, 8, 8, 3, dtype=torch.uint8), torch.arange(21))
    loader = Loader(data, 4, sampler=lambda epoch: Failing(), fields=("index",), transforms=SMALL)
    rows = iter(loader)
    found = flat(next(rows).index.tolist() for _ in range(2))
    with pytest.raises(OSError, match="not now"):
        next(rows)
    assert loader.step == 2
    assert found + flat(b.index.tolist() for b in rows) == list(range(21))
    assert loader.epoch == 1


@pytest.mark.parametrize("source", ["folder", "arrays"])
def test_an_order_that_comes_again(tree, source):
    """A Loader resumes if its sampler repeats the saved order: because the sampler depends on the epoch's number, or because the order is the first one of a
    seeded sampler. This also holds for the state of a resumed Loader."""
    for batches, sampler in (
        (2, lambda: DATA.RandomSampler(range(21), generator=torch.Generator().manual_seed(5))),
        (8, lambda: DATA.DistributedSampler(range(21), 1, 0, seed=3)),
    ):
        loader, other = (in_order_of(tree, source, sampler()) for _ in range(2))
        state = after(loader, batches)
        other.load_state_dict(state)
        assert other.state_dict() == state
        rows = iter(other)
        next(rows)
        loader.load_state_dict(other.state_dict())
        assert flat(ids(loader)) == flat(b.index.tolist() for b in rows) != []


@pytest.mark.parametrize("way", ["close", "refused state"])
@pytest.mark.parametrize("kind", ["buckets", "function", "weights"])
def test_states_after_an_interruption_at_the_end_of_an_epoch(tree, kind, way):
    """States of the next epoch hold the digest of that epoch's order, and not of the order of the epoch that was saved before."""
    extra = {
        "buckets": {"shuffle": True, "bucket_by": [k % 3 for k in range(21)]},
        "function": {"sampler": lambda epoch: [(5 * i + epoch) % 21 for i in range(21)]},
        "weights": {"sampler": [1.0] * 20 + [2.5]},
    }[kind]
    new = lambda: make(tree, seed=3, **extra)  # noqa: E731
    whole = [ids(loader) for loader in [new()] for _ in range(2)]
    loader = new()
    rows = iter(loader)
    next(rows)
    loader.state_dict()
    for _ in range(len(whole[0]) - 1):
        next(rows)
    if way == "close":
        loader.close()
    else:
        with pytest.raises(StateError):
            loader.load_state_dict(Loader([(os.devnull, 0)], 1).state_dict())
    assert (loader.epoch, next(iter(loader)).index.tolist()) == (1, whole[1][0])
    state = loader.state_dict()
    for other in (loader, new()):
        other.load_state_dict(state)
        assert ids(other) == whole[1][1:]


@pytest.mark.parametrize("source", ["folder", "arrays"])
def test_orders_of_other_lengths_and_ranks(tree, source):
    state = after(in_order_of(tree, source, list(range(21))), 2)
    for sampler in (list(range(10)), list(range(6))):
        with pytest.raises(StateError, match=f"epochs of 21 samples; here they have {len(sampler)}"):
            in_order_of(tree, source, sampler).load_state_dict(state)
    # Such a state is refused: this Loader would continue its own order in the middle, although the saved run delivered the earlier samples in another order.
    for epoch in (0, 1):
        plain = after(in_order_of(tree, source, None), 6 * epoch + 2)
        with pytest.raises(StateError, match=r"without an order of its own; .* or save at the end of an epoch"):
            in_order_of(tree, source, list(range(21))).load_state_dict(plain)
    in_order_of(tree, source, list(range(21))).load_state_dict(after(in_order_of(tree, source, None), 6))
    with pytest.raises(StateError, match="order of its own"):
        in_order_of(tree, source, None).load_state_dict(state)
    state = after(in_order_of(tree, source, list(range(10)), shard=(0, 2)), 2)
    other = in_order_of(tree, source, list(range(11, 21)), shard=(1, 2))  # the state of one rank resumes another one, whose ids differ
    other.load_state_dict(state)
    assert flat(ids(other)) == [19, 20]
    for damaged in ({**state["order"], "samples": -1}, {"digest": "0"}, "text"):
        with pytest.raises(StateError, match="damaged"):
            other.load_state_dict({**state, "order": damaged})


class Share(torch.utils.data.IterableDataset):
    """Gives every n-th of 24 samples, from number `rank` on."""

    def __init__(self, rank, ranks):
        self.rank, self.ranks = rank, ranks

    def __iter__(self):
        return ((torch.full((3, 8, 8), i, dtype=torch.uint8), i) for i in range(self.rank, 24, self.ranks))


def share_of(kind, rank, ranks):
    """Returns the Loader of a rank whose samples the program has divided, and that gives them in batches of two."""
    order = np.random.default_rng(5).permutation(24).tolist()
    mine = order[rank::ranks][:6]  # each rank has as many ids, whatever the number of ranks
    extra = {
        "sampler": lambda: {"sampler": DATA.SubsetRandomSampler(mine, torch.Generator().manual_seed(1))},
        "list": lambda: {"sampler": mine},
        "batches": lambda: {"batch_sampler": [mine[k : k + 2] for k in range(0, 6, 2)]},
        "distributed": lambda: {"sampler": DATA.DistributedSampler(range(24), ranks, rank, seed=3)},
        "stream": dict,
    }[kind]()
    data = Share(rank, ranks) if kind == "stream" else (torch.zeros(24, 8, 8, 3, dtype=torch.uint8), torch.arange(24))
    return Loader(data, **({} if kind == "batches" else {"batch_size": 2}), shard=(rank, ranks), **extra)


@pytest.mark.parametrize("kind", ["sampler", "list", "batches", "distributed", "stream"])
def test_shares_of_ranks_continue_with_as_many_ranks(kind):
    """If each rank has samples of its own, a state in mid-epoch is refused by another number of ranks, which divides the samples in another way. A state of a
    complete epoch is loaded, and so is the state of another rank of the same run."""
    whole = [[b.label.tolist() for b in share_of(kind, rank, 2)] for rank in (0, 1)]
    state = after(share_of(kind, 0, 2), 1)
    for rank in (0, 1):
        loader = share_of(kind, rank, 2)
        loader.load_state_dict(state)
        assert [b.label.tolist() for b in loader] == whole[rank][1:]
    for rank, ranks in ((0, 1), (0, 4), (3, 4)):
        loader = share_of(kind, rank, ranks)
        before = loader.state_dict()
        with pytest.raises(
            StateError, match=r"each of 2 ranks has its own .* some samples would come twice .* number of ranks of the run that was saved"
        ) as raised:
            loader.load_state_dict(state)
        assert kind != "stream" or "save after the loop over an epoch has ended" in str(raised.value)
        assert loader.state_dict() == before
    loader = share_of(kind, 0, 2)
    list(loader)
    other = share_of(kind, 0, 4)
    other.load_state_dict(loader.state_dict())
    assert other.epoch == 1 and list(other)


def test_a_sampler_that_all_ranks_share_continues_with_other_ranks():
    """If the sampler gives all ranks the same ids, a position means the same with any number of ranks."""
    data = (torch.zeros(24, 8, 8, 3, dtype=torch.uint8), torch.arange(24))
    new = lambda rank, ranks: Loader(data, 4, sampler=list(range(23, -1, -1)), shard=(rank, ranks))  # noqa: E731
    for rank in range(3):
        loader = new(rank, 3)
        loader.load_state_dict(after(new(1, 2), 2))
        assert flat(b.label.tolist() for b in loader) == list(range(15, -1, -1))


def test_a_state_of_a_stream_without_the_number_of_ranks_is_loaded():
    """Older versions saved no number of ranks."""
    state = after(share_of("stream", 0, 2), 1)
    assert state["dataset"].pop("ranks") == 2
    loader = share_of("stream", 0, 4)
    loader.load_state_dict(state)
    assert [b.label.tolist() for b in loader] == [[8, 12], [16, 20]]


@pytest.mark.parametrize("kind", ["folder", "sampler", "dataset"])
def test_states_from_another_thread(tree, files, kind):
    """A thread that asks for states and facts while another one takes batches gets the states after whole batches, and the loop gets no error."""
    data = [(str(path), k) for k, path in enumerate(files)] if kind != "folder" else tree
    extra = {"sampler": lambda epoch: list(range(21))[:: 1 - 2 * (epoch % 2)]} if kind == "sampler" else {"shuffle": True}
    new = lambda: make(_ByIndex(data) if kind == "dataset" else data, seed=3, **extra)  # noqa: E731
    want = set()
    whole = new()
    for _ in range(8):
        want.add(json.dumps(whole.state_dict()))
        for _ in whole:
            want.add(json.dumps(whole.state_dict()))
    loader, found, failed, done = new(), set(), [], threading.Event()

    def ask():
        while not done.is_set():
            try:
                found.add(json.dumps(loader.state_dict()))
                assert 0 <= loader.step <= len(loader) == 6
                with contextlib.suppress(StateError):  # the pipeline of an epoch may be closed already
                    loader.pipeline.explain()
            except Exception as e:
                failed.append(e)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        batches = [ids(loader) for _ in range(8)]
    finally:
        done.set()
        thread.join()
    assert [sorted(flat(epoch)) for epoch in batches] == [list(range(21))] * 8
    # A state that is saved before the loop notices the end of an epoch differs from the state at the next epoch's beginning, but leads to the same batches.
    assert not failed and found and len(found - want) <= 8


class _ByIndex:
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def test_a_state_in_the_middle_of_a_batch_is_refused(tree):
    loaders = []

    def order(epoch):
        return [loader.state_dict() for loader in loaders if loader.step == 0] or [3, 1, 2]

    loader = make(tree, sampler=order)
    assert ids(loader) == [[3, 1, 2]]
    loaders.append(loader)
    with pytest.raises(StateError, match=r"state_dict\(\) was called while this thread takes a batch.* Set a flag"):
        iter(loader)


ORDERS = {
    "shuffled": {"shuffle": True},
    "in order": {},
    "sampler": {"sampler": lambda epoch: range(18)},
    "weights": {"sampler": [1.0] * 20 + [2.5]},
    "buckets": {"shuffle": True, "bucket_by": [k % 3 for k in range(21)]},
}


@pytest.mark.parametrize("source", ["files", "dataset"])
@pytest.mark.parametrize("before", ORDERS)
@pytest.mark.parametrize("after", ORDERS)
def test_orders_change_between_epochs(files, source, before, after):
    """A run may change the kind of its order at the end of an epoch. In mid-epoch, an error says that it cannot."""
    items = [(str(path), k) for k, path in enumerate(files)]
    new = lambda kind: make(_ByIndex(items) if source == "dataset" else items, seed=3, **ORDERS[kind])  # noqa: E731
    want = new(after)
    want.set_epoch(1)
    want = ids(want)
    own = [kind not in ("shuffled", "in order") for kind in (before, after)]
    steps = len(new(before))
    for taken in (steps, steps + 1):  # before and after the loop notices the end of the epoch
        saved = new(before)
        it = iter(saved)
        list(itertools.islice(it, taken))
        state = json.loads(json.dumps(saved.state_dict()))
        loader = new(after)
        if before == after or any(own):
            loader.load_state_dict(state)
            assert (loader.epoch, ids(loader)) == (1, want)
        else:
            with pytest.raises(StateError, match="give the shuffle of the run that was saved"):
                loader.load_state_dict(state)
    saved = new(before)
    next(iter(saved))
    if own[0] != own[1]:
        kinds = "without an order of its own; this one has one" if own[1] else "with an order of its own; this one has none"
        with pytest.raises(StateError, match=f"mid-epoch, of a Loader {kinds} .* or save at the end of an epoch"):
            new(after).load_state_dict(saved.state_dict())


def test_states_of_samples_by_index(files):
    items = [(str(path), k) for k, path in enumerate(files)]
    by_files, by_batches = make(items), Loader(items, batch_sampler=[[0, 1], [2]], transforms=SMALL)
    with pytest.raises(
        StateError, match=r"fetches samples by index.* this one reads its source itself: give the source and the batch_sampler"
    ):
        by_files.load_state_dict(by_batches.state_dict())
    with pytest.raises(
        StateError, match=r"reads its source itself; this one fetches samples by index.* give the source and the batch_sampler"
    ):
        by_batches.load_state_dict(by_files.state_dict())


def test_one_trace_of_all_epochs(tree, tmp_path):
    """A Loader with a sampler makes a pipeline for each epoch, and each of them writes the trace."""
    path = tmp_path / "trace.json"
    path.write_text("of an earlier run")

    def waits():
        """Returns a list of the batches for which the loop waited in each epoch. A smaller number than the one before begins a new epoch."""
        events = [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X" and e["name"].startswith("wait")]
        assert [e["ts"] for e in events] == sorted(e["ts"] for e in events)
        epochs = [[]]
        for batch in (e["args"]["batch"] for e in events):
            if epochs[-1] and batch < epochs[-1][-1]:
                epochs.append([])
            epochs[-1] += [batch] if batch not in epochs[-1] else []
        return epochs

    loader = make(tree, sampler=lambda epoch: range(8), trace=path)
    list(loader)
    one = waits()
    assert len(one) == 1 and one[0][:2] == [0, 1]
    list(loader)
    assert [epoch[:2] for epoch in waits()] == [[0, 1]] * 2
    next(iter(loader))
    loader.close()
    assert [epoch[:2] for epoch in waits()[:2]] == [[0, 1]] * 2 and waits()[2][0] == 0
    loader = make(tree, sampler=lambda epoch: range(8), trace=path)
    list(loader)
    rows = iter(loader)
    next(rows)
    del loader, rows  # without close()
    gc.collect()
    assert [epoch[:1] for epoch in waits()] == [[0]] * 2
    assert sorted(os.listdir(tmp_path)) == ["trace.json"]
