# SPDX-License-Identifier: Apache-2.0
"""stoker.DataLoader saves and restores states of Datasets in worker processes, as torchdata's StatefulDataLoader does."""

import copy
import json
import pickle
import threading
import time

import pytest
import torch
from stoker import DataLoader
from stoker.errors import StateError
from test_dataloader_torch import DRAWS, folder  # noqa: F401
from torch.utils import data


class Drawing(data.Dataset):
    """Draws from torch's generator in its process, and saves that generator's state."""

    def __len__(self):
        return 26

    def __getitem__(self, index):
        return index, int(torch.randint(1 << 30, ()))

    def state_dict(self):
        return {"random": torch.get_rng_state().tolist()}

    def load_state_dict(self, state):
        torch.set_rng_state(torch.tensor(state["random"], dtype=torch.uint8))


def part_of(sizes):
    """Returns the numbers that this worker yields, or all numbers if there are no worker processes. sizes: how many numbers each worker yields."""
    worker = data.get_worker_info()
    if worker is None:
        return range(sum(sizes))
    first = sum(sizes[: worker.id])
    return range(first, first + sizes[worker.id])


class Resumable(data.IterableDataset):
    """Saves its position and epoch. The epoch after a state is loaded begins at the saved position; all others begin at 0."""

    def __init__(self, sizes):
        self.sizes, self.place, self.epoch, self.resumed = sizes, 0, 0, False

    def __iter__(self):
        self.place = self.place if self.resumed else 0
        self.resumed = False
        for number in part_of(self.sizes)[self.place :]:
            self.place += 1
            yield number, self.epoch
        self.place, self.epoch = 0, self.epoch + 1

    def state_dict(self):
        return {"place": self.place, "epoch": self.epoch}

    def load_state_dict(self, state):
        self.place, self.epoch, self.resumed = state["place"], state["epoch"], True


class Position:
    """An iterator that saves its position."""

    def __init__(self, numbers):
        self.numbers, self.seen = numbers, []

    def __iter__(self):
        return self

    def __next__(self):
        if len(self.seen) == len(self.numbers):
            raise StopIteration
        self.seen.append(self.numbers[len(self.seen)])
        return self.seen[-1]

    def state_dict(self):
        return {"seen": self.seen}  # returns the list itself, which later batches change

    def load_state_dict(self, state):
        self.seen = state["seen"]


class Streaming(data.IterableDataset):
    def __init__(self, sizes):
        self.sizes = sizes

    def __iter__(self):
        return Position(part_of(self.sizes))


class Itself(Streaming, Position):
    """A Dataset that is its own iterator. The attributes of Position do not exist before its first epoch."""

    def __iter__(self):
        Position.__init__(self, part_of(self.sizes))
        return self


SIZES = [3, 17, 0, 11]
MAKERS = {
    "drawing": Drawing,
    "resumable": lambda: Resumable(SIZES),
    "iterator": lambda: Streaming(SIZES),
    "itself": lambda: Itself(SIZES),
}


def same(batch):
    return batch


def taken(loader, epochs):
    return [list(loader) for _ in range(epochs)]


@pytest.fixture(params=[(kind, persistent) for kind in MAKERS for persistent in (False, True)], ids=str)
def make(request):
    kind, persistent = request.param

    def made():
        generator = torch.Generator().manual_seed(7)
        return DataLoader(
            MAKERS[kind](),
            batch_size=2,
            num_workers=4,
            persistent_workers=persistent,
            collate_fn=same,
            generator=generator,
            prefetch_factor=2,
        )

    return made


def test_a_run_continues_with_the_states_of_its_workers(make):
    whole = taken(make(), 2)
    for epoch, position in ((0, 0), (0, 1), (0, 5), (0, 9), (0, 11), (1, 0), (1, 6), (1, len(whole[1]))):
        loader = make()
        taken(loader, epoch)
        iterator = iter(loader)
        had = [next(iterator) for _ in range(position)]
        assert had == whole[epoch][:position]
        state = loader.state_dict()
        before = copy.deepcopy(state)
        list(iterator)
        assert state == before  # later batches must not change a saved state
        fresh = make()
        fresh.load_state_dict(json.loads(json.dumps(state)))
        assert fresh.state_dict() == json.loads(json.dumps(state))
        assert list(fresh) == whole[epoch][position:]
        if epoch == 0:
            assert list(fresh) == whole[1]


def test_a_state_between_epochs(make):
    whole = taken(make(), 3)
    loader = make()
    taken(loader, 1)
    fresh = make()
    fresh.load_state_dict(pickle.loads(pickle.dumps(loader.state_dict())))
    assert taken(fresh, 2) == whole[1:]


def test_a_state_of_a_run_that_was_resumed(make):
    whole = list(make())
    loader = make()
    iterator = iter(loader)
    next(iterator)
    for more in (1, 2, 1, 4):
        state = loader.state_dict()
        loader = make()
        loader.load_state_dict(state)
        iterator = iter(loader)
        for _ in range(more):
            next(iterator)
    assert list(iterator) == whole[9:]


def test_a_state_that_is_loaded_during_an_iteration(make):
    """The next iteration continues from the state. The present one would not, and raises an error, unless it has no further batch."""
    whole = taken(make(), 2)
    saved = make()
    iterator = iter(saved)
    had = [next(iterator) for _ in range(3)]
    state = saved.state_dict()
    loader = make()
    iterator = iter(loader)
    next(iterator)
    loader.load_state_dict(state)
    for _ in range(2):
        with pytest.raises(StateError, match=r"loaded into this DataLoader after this iteration had begun.*begin a new iteration"):
            next(iterator)
    assert loader.state_dict() == state
    assert had + list(loader) == whole[0] and list(loader) == whole[1]
    loader = make()
    for k, _ in enumerate(loader):
        if k == len(whole[0]) - 1:
            loader.load_state_dict(state)
    assert had + list(loader) == whole[0] and list(loader) == whole[1]


def test_persistent_workers_that_were_left(make):
    """Leaves an epoch early, after its workers have run ahead of the loop. A state in the next epoch contains the states of these workers."""
    loader = make()
    if type(loader.dataset) is Resumable and loader.persistent_workers:
        pytest.skip("its state in the middle of an epoch says nothing of the next one, until a worker has begun that")
    next(iter(loader))
    iterator = iter(loader)
    state = loader.state_dict()
    rest = list(iterator)
    fresh = make()
    fresh.load_state_dict(state)
    assert list(fresh) == rest


def test_states_have_one_structure(tmp_path):
    def structure(value):
        if isinstance(value, dict):
            return {k: structure(v) for k, v in value.items()}
        return [structure(v) for v in value] if isinstance(value, list) and value and isinstance(value[0], dict) else type(value)

    def made():
        return DataLoader(Drawing(), batch_size=2, num_workers=2, shuffle=True)

    loader = made()
    seen = [loader.state_dict()]
    for _ in loader:
        seen.append(loader.state_dict())
    seen.append(loader.state_dict())
    assert all(structure(state) == structure(seen[0]) for state in seen)
    checkpoint = pytest.importorskip("torch.distributed.checkpoint")
    checkpoint.save({"loader": seen[4]}, checkpoint_id=tmp_path)
    read = {"loader": made().state_dict()}
    checkpoint.load(read, checkpoint_id=tmp_path)
    assert read["loader"] == seen[4]


def test_other_workers_are_refused():
    def made(workers):
        return DataLoader(Drawing(), batch_size=2, num_workers=workers)

    for before, after in ((0, 2), (2, 0), (2, 3)):
        loader = made(before)
        next(iter(loader))
        with pytest.raises(StateError, match=f"saved with num_workers={before}, .*continue with "):
            made(after).load_state_dict(loader.state_dict())
    state = made(3).state_dict()
    # Another number of workers is allowed, since no worker had begun.
    assert len(list(made(2).load_state_dict(state) or made(2))) == 13
    broken = {**state, "worker_states": {"last": 0, "states": [{}]}}
    with pytest.raises(StateError, match="damaged states of worker processes"):
        made(3).load_state_dict(broken)


def test_the_program_sees_its_own_dataset_in_a_worker():
    loader = DataLoader(Resumable([4, 6]), batch_size=None, num_workers=2, worker_init_fn=_without_last)
    assert sorted(number for number, _ in loader) == [0, 1, 2, 3, 4, 5, 6, 7]


def _without_last(worker):
    dataset = data.get_worker_info().dataset
    assert type(dataset) is Resumable and data.get_worker_info().id == worker
    dataset.sizes = [4, 4]


class Broken(Drawing):
    def __getitem__(self, index):
        if index == 4:
            raise ValueError("sample 4")
        return super().__getitem__(index)


class NoState(Drawing):
    def state_dict(self):
        raise OSError("no state")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_that_fails_counts(workers):
    def made():
        return DataLoader(Broken(), batch_size=2, num_workers=workers, generator=torch.Generator().manual_seed(3))

    loader = made()
    iterator = iter(loader)
    next(iterator), next(iterator)
    with pytest.raises(ValueError, match="sample 4"):
        next(iterator)
    state = loader.state_dict()
    rest = [[x.tolist() for x in batch] for batch in iterator]
    fresh = made()
    fresh.load_state_dict(state)
    resumed = [[x.tolist() for x in batch] for batch in fresh]
    assert resumed == rest and rest[0][0] == [6, 7]


def test_a_state_dict_that_fails_is_raised_in_the_loop():
    with pytest.raises(OSError, match="no state"):
        next(iter(DataLoader(NoState(), num_workers=1)))


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("kind", ["images", "numbers"])
def test_later_epochs_of_persistent_workers(kind, persistent, folder):  # noqa: F811
    """Persistent workers get no new seed in the second epoch. A resumed run must not draw a seed either, or its order differs."""
    from torchvision import datasets

    def made():
        dataset = datasets.ImageFolder(folder, DRAWS) if kind == "images" else data.TensorDataset(torch.arange(21))
        return DataLoader(
            dataset, batch_size=4, shuffle=True, num_workers=2, persistent_workers=persistent, generator=torch.Generator().manual_seed(5)
        )

    def equal(these, those):
        return len(these) == len(those) and all(
            torch.equal(x, y) for a, b in zip(these, those, strict=True) for x, y in zip(a, b, strict=True)
        )

    whole = taken(made(), 3)
    loader = made()
    taken(loader, 1)
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    fresh = made()
    fresh.load_state_dict(state)
    assert equal(list(fresh), whole[1][1:]) and equal(list(fresh), whole[2])
    list(iterator)
    fresh = made()
    fresh.load_state_dict(loader.state_dict())
    assert equal(list(fresh), whole[2])


class Waiting(data.Dataset):
    """A Dataset whose first sample waits for an event."""

    def __init__(self, event):
        self.event = event

    def __len__(self):
        return 12

    def __getitem__(self, index):
        if index == 0:
            self.event.wait(20)
        return index


def test_batches_out_of_order_come_once():
    event = torch.multiprocessing.Event()
    loader = DataLoader(Waiting(event), num_workers=2, in_order=False)
    iterator = iter(loader)
    had = [int(next(iterator)) for _ in range(3)]
    assert 0 not in had
    state = json.loads(json.dumps(loader.state_dict()))
    event.set()
    rest = sorted(map(int, iterator))
    fresh = DataLoader(Waiting(event), num_workers=2, in_order=False)
    fresh.load_state_dict(state)
    assert sorted(map(int, fresh)) == rest == sorted(set(range(12)) - set(had))
    assert len(list(fresh)) == 12


def test_a_stream_out_of_order_without_states_is_refused():
    class Numbers(data.IterableDataset):
        def __iter__(self):
            return iter(range(5))

    loader = DataLoader(Numbers(), num_workers=2, in_order=False)
    next(iter(loader))
    fresh = DataLoader(Numbers(), num_workers=2, in_order=False)
    fresh.load_state_dict(loader.state_dict())
    with pytest.raises(StateError, match="in_order=False"):
        iter(fresh)


class Counting(data.Dataset):
    """A Dataset whose samples are (index, number of samples that this process has returned, number of requests for its state)."""

    def __init__(self):
        self.asked, self.given = 0, 0

    def __len__(self):
        return 40

    def __getitem__(self, index):
        self.given += 1
        return index, self.given, self.asked

    def state_dict(self):
        self.asked += 1
        return {"given": self.given}

    def load_state_dict(self, state):
        self.given = state["given"]


STEPS = {**MAKERS, "counting": Counting}


@pytest.mark.parametrize(("kind", "persistent", "every"), [(k, p, 5) for k in STEPS for p in (False, True)] + [("counting", False, 0)])
def test_snapshots_every_few_steps(kind, persistent, every):
    """Workers send a state only every few steps. A resumed run repeats the batches after the last sent state, and continues with the same batches."""

    def made(steps=every):
        return DataLoader(
            STEPS[kind](),
            batch_size=2,
            num_workers=2 if kind == "counting" else 4,
            persistent_workers=persistent,
            collate_fn=_without_count,
            generator=torch.Generator().manual_seed(7),
            snapshot_every_n_steps=steps,
        )

    whole = taken(made(1), 2)
    loader = made()
    for epoch, position in ((0, 4), (0, 8), (1, 3)):
        loader = made()
        assert taken(loader, epoch) == whole[:epoch]
        iterator = iter(loader)
        assert [next(iterator) for _ in range(position)] == whole[epoch][:position]
        state = json.loads(json.dumps(loader.state_dict()))
        del iterator
        fresh = made()
        fresh.load_state_dict(state)
        assert fresh.state_dict() == state
        iterator = iter(fresh)
        some = [next(iterator)]
        again = made(1)
        again.load_state_dict(fresh.state_dict())
        assert some + list(iterator) == whole[epoch][position:]
        assert list(again) == whole[epoch][position + 1 :]
    assert list(fresh) == list(again)


def _without_count(batch):
    return [sample[:2] if isinstance(sample, tuple) else sample for sample in batch]


@pytest.mark.parametrize(("every", "most"), [(1, 9), (5, 4), (0, 0)])
def test_snapshots_ask_workers_for_few_states(every, most):
    batches = list(DataLoader(Counting(), batch_size=2, num_workers=2, collate_fn=same, snapshot_every_n_steps=every))
    asked = max(count for batch in batches for _, _, count in batch)
    assert asked == 9 if every == 1 else asked <= most


def test_persistent_workers_that_were_left_between_snapshots():
    def made():
        return DataLoader(
            Counting(), batch_size=2, num_workers=2, persistent_workers=True, collate_fn=_without_count, snapshot_every_n_steps=7
        )

    loader = made()
    next(iter(loader))
    iterator = iter(loader)
    had = [next(iterator) for _ in range(3)]
    state = loader.state_dict()
    rest = list(iterator)
    fresh = made()
    fresh.load_state_dict(state)
    assert list(fresh) == rest and had[0][0][1] > 1  # the workers had read ahead in the first epoch


def test_steps_between_snapshots_are_checked():
    for wrong in (-1, 1.5, "2", True):
        with pytest.raises(ValueError, match="snapshot_every_n_steps is a whole number of steps"):
            DataLoader(Drawing(), snapshot_every_n_steps=wrong)
    loader = DataLoader(Drawing(), 2, num_workers=1, snapshot_every_n_steps=3)
    assert loader.snapshot_every_n_steps == 3 and DataLoader(Drawing()).snapshot_every_n_steps == 1
    state = {**loader.state_dict(), "worker_states": {"last": -1, "since": 4, "states": [{"phase": 0, "dataset": None, "iterator": None}]}}
    with pytest.raises(StateError, match="damaged states of worker processes"):
        loader.load_state_dict(state)


def test_a_changed_order_is_found_after_a_snapshot():
    def made(seed):
        return DataLoader(
            Drawing(), 2, shuffle=True, num_workers=2, snapshot_every_n_steps=4, sampler=None, generator=torch.Generator().manual_seed(seed)
        )

    loader = made(1)
    iterator = iter(loader)
    for _ in range(6):
        next(iterator)
    state = loader.state_dict()
    state["digest"] += 1
    fresh = made(1)
    fresh.load_state_dict(state)
    with pytest.raises(StateError, match="the sampler gives other samples"):
        next(iter(fresh))


class Given(data.Dataset):
    """Counts the samples that it has given, and saves this number."""

    def __init__(self, pause=lambda index: None):
        self.given, self.pause = 0, pause

    def __len__(self):
        return 40

    def __getitem__(self, index):
        self.given += 1
        self.pause(index)
        return index

    def state_dict(self):
        return {"given": self.given}

    def load_state_dict(self, state):
        self.given = state["given"]


def test_a_state_from_another_thread_is_between_two_batches(monkeypatch):
    inside, leave = threading.Event(), threading.Event()

    def pause(index):
        if index == 9:
            inside.set()
            leave.wait(30)

    loader = DataLoader(Given(pause), 4)
    taken, found = [], []
    loop = threading.Thread(target=lambda: taken.extend(b.tolist() for b in loader), daemon=True)
    loop.start()
    assert inside.wait(30)
    monkeypatch.setattr("stoker.dataloader.dataloader.VISIT", 0.1)
    with pytest.raises(StateError, match="another thread has been waiting for a batch"):
        loader.state_dict()
    monkeypatch.undo()
    asks = threading.Thread(target=lambda: found.append(loader.state_dict()))
    asks.start()
    asks.join(0.2)
    assert asks.is_alive() and not found
    leave.set()
    loop.join(30)
    asks.join(30)
    assert taken == [list(range(k, k + 4)) for k in range(0, 40, 4)]
    assert found[0]["dataset_state"]["given"] in (40, 4 * found[0]["batches"])


@pytest.mark.parametrize("workers", [0, 2])
def test_states_from_another_thread_continue(workers):
    make = lambda: DataLoader(Resumable([20, 20]) if workers else Given(), 4, num_workers=workers, collate_fn=same)  # noqa: E731
    loader, found, done = make(), [], threading.Event()

    def ask():
        while not done.is_set():
            found.append(loader.state_dict())

    thread = threading.Thread(target=ask)
    thread.start()
    whole = []
    try:
        for batch in loader:
            whole.append(batch)
            time.sleep(0.01)  # as if this were a step, in which the other thread may save
    finally:
        done.set()
        thread.join(30)
    states = {state["batches"]: state for state in found if state["inside"]}
    assert states and len(whole) == 10
    for batches, state in states.items():
        assert workers or state["dataset_state"]["given"] == 4 * batches
        rest = make()
        rest.load_state_dict(json.loads(json.dumps(state)))
        assert list(rest) == whole[batches:]


@pytest.mark.parametrize("changed", [{"batch_size": 5}, {"shuffle": False}])
def test_another_order_in_mid_epoch_is_refused_with_what_to_give(changed):
    make = lambda **more: DataLoader(Given(), **{"batch_size": 4, "shuffle": True, **more})  # noqa: E731
    loader = make()
    next(iter(loader))
    other = make(**changed)
    other.load_state_dict(loader.state_dict())
    with pytest.raises(StateError, match="give the batch_size, shuffle and sampler of that run"):
        list(other)
