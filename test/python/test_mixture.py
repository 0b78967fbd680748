# SPDX-License-Identifier: Apache-2.0
"""Loader.mix: shares that are exact over time, epochs of a named source or of steps, and states that continue with other numbers of ranks."""

import json
from fractions import Fraction

import numpy as np
import pytest
from stoker import Loader
from stoker.errors import InvalidArgumentError, StateError

SIZES = {"a": 40, "b": 24, "c": 12}


class Numbers:
    """Small images whose labels are 100 times the source's number plus their own."""

    def __init__(self, name):
        self.base, self.size = 100 * "abc".index(name), SIZES[name]

    def __len__(self):
        return self.size

    def __getitem__(self, i):
        return np.full((4, 4, 3), i, np.uint8), self.base + i


def source(name, batch=4, shard=None, **more):
    return Loader(Numbers(name), batch, shuffle=True, seed=ord(name), shard=shard, **more)


def mixture(shard=None, batch=4, epoch=None, steps=None, shares=(0.5, 0.3, 0.2)):
    return Loader.mix({n: (source(n, batch, shard), s) for n, s in zip("abc", shares, strict=True)}, epoch=epoch, steps=steps)


def labels(batches):
    return [batch.label.tolist() for batch in batches]


@pytest.mark.essential
@pytest.mark.parametrize("shares", [(0.5, 0.3, 0.2), (7, 2, 1), (0.9, 0.05, 0.05), (1, 1, 1), (0.97, 0.02, 0.01)])
def test_shares_are_exact_over_time(shares):
    mixed = mixture(steps=97, shares=shares)
    wanted = [Fraction(str(s)) / sum(Fraction(str(t)) for t in shares) for s in shares]
    taken = [0, 0, 0]
    for total, batch in enumerate(mixed, 1):
        taken["abc".index(mixed.source)] += 1
        assert {label // 100 for label in batch.label.tolist()} == {"abc".index(mixed.source)}
        assert all(abs(n - total * share) < 1 for n, share in zip(taken, wanted, strict=True))


def test_epochs_of_a_named_source():
    mixed = mixture(epoch="b")
    for epoch in range(3):
        assert mixed.epoch == epoch
        expected = len(mixed)
        batches = labels(mixed)
        assert len(batches) == expected
        seen = [label for batch in batches for label in batch if label // 100 == 1]
        assert sorted(seen) == list(range(100, 124))
    assert mixed.epoch == 3


def test_other_sources_continue_over_epochs():
    mixed = mixture(steps=7)
    seen = [label for _ in range(6) for batch in labels(mixed) for label in batch if label < 100]
    assert sorted(seen[:40]) == list(range(40))


@pytest.mark.essential
@pytest.mark.parametrize("taken", [0, 1, 9, 16, 20, 33])
@pytest.mark.parametrize("how", [{"epoch": "a"}, {"steps": 16}])
def test_a_state_continues(taken, how):
    def walk(mixed, count):
        while count:
            for batch in mixed:
                yield batch.label.tolist()
                count -= 1
                if not count:
                    return

    whole = list(walk(mixture(**how), 60))
    first = mixture(**how)
    begun = list(walk(first, taken))
    state = json.loads(json.dumps(first.state_dict()))
    first.close()
    second = mixture(**how)
    second.load_state_dict(state)
    assert begun + list(walk(second, 60 - taken)) == whole


@pytest.mark.parametrize("before, after", [(2, 1), (1, 2)])
def test_other_numbers_of_ranks_continue(before, after):
    def run(world, state, steps):
        taken, states = [], []
        for rank in range(world):
            mixed = mixture(shard=(rank, world), batch=4 // world, epoch="a")
            if state:
                mixed.load_state_dict(state)
            batches = iter(mixed)
            taken.append([next(batches).label.tolist() for _ in range(steps)] if steps else labels(batches))
            states.append(mixed.state_dict())
        assert not steps or all(s == states[0] for s in states)
        return [[label for part in step for label in part] for step in zip(*taken, strict=True)], states[0]

    whole, _ = run(1, None, 0)
    first, state = run(before, None, 6)
    second, _ = run(after, state, 0)
    assert first + second == whole


def test_a_break_begins_the_next_epoch():
    mixed = mixture(epoch="a")
    next(iter(mixed))
    rest = labels(mixed)
    assert mixed.epoch == 2 and sorted(label for batch in rest for label in batch if label < 100) == list(range(40))


def test_mixtures_of_mixtures():
    inner = Loader.mix([(source("a"), 1), (source("b"), 1)], steps=5)
    mixed = Loader.mix([(inner, 0.5), (source("c"), 0.5)], steps=8)
    names = [{label // 100 for label in batch}.pop() for batch in labels(mixed)]
    assert names.count(2) == 4 and names.count(0) == names.count(1) == 2


def test_shares_count_samples_and_not_batches():
    mixed = Loader.mix([(source("a", 8), 0.5), (source("b", 2), 0.5)], steps=100)
    taken = [0, 0]
    for batch in mixed:
        taken[int(mixed.source)] += len(batch.label)
        assert abs(taken[0] - taken[1]) <= 16
    assert sum(taken) > 250


def test_what_is_refused():
    a = source("a")
    for bad, said in [
        ([], "pairs of a Loader"),
        ([a], "pairs of a Loader"),
        ([(a, 0)], "above 0"),
        ([(a, "x")], "above 0"),
        ([(a, 1), (a, 1)], "given twice"),
        ([([1, 2], 1)], "is a list"),
        ([(a, 1), (source("b", shard=(0, 2)), 1)], "different numbers of ranks"),
    ]:
        with pytest.raises(InvalidArgumentError, match=said):
            Loader.mix(bad)
    for more, said in [({"epoch": "z"}, "not one of the sources"), ({"steps": 0}, "1 or more"), ({"epoch": 0, "steps": 1}, "leave one")]:
        with pytest.raises(InvalidArgumentError, match=said):
            Loader.mix([(a, 1)], **more)
    state = mixture(steps=4).state_dict()
    with pytest.raises(StateError, match="same sources and shares"):
        mixture(steps=4, shares=(0.4, 0.4, 0.2)).load_state_dict(state)
    with pytest.raises(StateError, match="damaged"):
        mixture(steps=4).load_state_dict({**state, "taken": [1]})
    with pytest.raises(StateError, match="not a state of a mixture"):
        mixture(steps=4).load_state_dict(a.state_dict())
    with pytest.raises(StateError, match="in order"):
        mixture(steps=4).set_epoch(3)
