# SPDX-License-Identifier: Apache-2.0
"""States that were damaged or written by hand: each entry is set to numbers at and beyond its limits, and to values of other types. A Loader refuses such a
state with an error of Stoker, or continues, and never fails in another way."""

import copy
import itertools

import numpy as np
import pytest
import robots
import torch
from stoker import DataLoader, Loader, Pipeline, fn
from stoker.errors import StateError, StokerError

PIXELS = np.arange(20, dtype=np.uint8)[:, None, None, None] * np.ones((1, 8, 8, 3), np.uint8)
VALUES = [None, -1, 0, 1, 2**63 - 1, 1.5, float("nan"), "", "x", b"", [], {}, True, ["x"], {"a": 1}, np.int64(3), torch.tensor(3), object()]
HUGE = [2**64, 10**30]
# Entries that a Loader ignores, because the state's own entry "pipeline_seed" takes precedence.
UNUSED = [("pipeline", "seed")]


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([(torch.zeros(3, 8, 8, dtype=torch.uint8), i) for i in range(20)])


def arrays(**more):
    return Loader((PIXELS, np.arange(20)), 3, **more)


def table(root, shuffle):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(pa.table({"label": list(range(20))}), root / "some.parquet", row_group_size=4)
    return Loader(str(root / "some.parquet"), 3, shuffle=shuffle, seed=1)


def robot(root):
    if not (root / "robot").exists():
        robots.make(root / "robot", (5, 6))
    return Loader.from_lerobot(root / "robot", 2, shuffle=True, seed=1)


def pipeline():
    p = Pipeline(2, 1, None, seed=3)
    with p:
        p.set_outputs(fn.external_source(lambda s: np.full(3, s.idx_in_epoch), batch=False))
    return Loader(p)


KINDS = {
    "arrays": lambda root: arrays(shuffle=True, seed=1),
    "sampler": lambda root: arrays(sampler=lambda epoch: range(20)),
    "batch_sampler": lambda root: Loader((PIXELS, np.arange(20)), batch_sampler=[[0, 1], [3], [5, 6, 7]]),
    "stream": lambda root: Loader(Stream(), 3),
    "pipeline": lambda root: pipeline(),
    "table": lambda root: table(root, True),
    "groups": lambda root: table(root, "groups"),
    "robot": robot,
    "mixture": lambda root: Loader.mix({"a": (arrays(shuffle=True, seed=1), 0.5), "b": (arrays(), 0.5)}),
    "mixture_with_a_robot": lambda root: Loader.mix({"a": (arrays(), 0.5), "b": (robot(root), 0.5)}),
    "DataLoader": lambda root: DataLoader([(torch.zeros(3), i) for i in range(20)], 3, shuffle=True),
}


def entries(state, at=()):
    yield at
    for key in state if isinstance(state, dict) else range(min(len(state), 2)) if isinstance(state, list) else ():
        yield from entries(state[key], (*at, key))


def changed(state, at, value):
    if not at:
        return value
    state = copy.deepcopy(state)
    inner = state
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return state


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", KINDS)
def test_every_entry_of_a_state_takes_any_value(tmp_path, kind):
    make = KINDS[kind]
    loader = make(tmp_path)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    refused = loaded = 0
    for at in entries(state):
        for value in VALUES + HUGE:
            again = make(tmp_path)
            try:
                again.load_state_dict(changed(state, at, value))
                for _, _ in zip(range(4), again, strict=False):
                    pass
            except StokerError:
                refused += 1
            else:
                loaded += 1
                used = at[-2:] not in UNUSED
                assert not (used and type(value) is int and value in HUGE), f"{at} = {value} was taken"
            finally:
                if hasattr(again, "close"):
                    again.close()
    print(f"{kind}: {refused} refused, {loaded} loaded")
    assert refused > 100


def test_a_position_after_the_end_of_a_robots_epoch_is_refused(tmp_path):
    loader = robot(tmp_path)
    next(iter(loader))
    state = loader.state_dict()
    with pytest.raises(StateError, match="consumed"):
        loader.load_state_dict({**state, "consumed": state["size"] + 1})
    assert loader.state_dict() == state


def refuses(loader, state):
    try:
        loader.load_state_dict(state)
    except StateError:
        return True
    return False


@pytest.mark.parametrize("kind", ["arrays", "stream", "pipeline", "table", "robot", "mixture"])
def test_a_refused_state_does_not_end_the_iteration(tmp_path, kind):
    """An iteration in which load_state_dict() fails gives the same batches as without the call."""
    made = []
    for name in ("first", "second", "third"):
        (tmp_path / name).mkdir()
        made.append(KINDS[kind](tmp_path / name))
    without, loader, other = made
    want = list(itertools.islice(without, 1, 5))
    batches = itertools.islice(loader, 5)
    next(batches)
    state = loader.state_dict()
    refused = [s for s in [changed(state, at, "x") for at in entries(state)] if refuses(other, s)]
    assert len(refused) > 3
    for s in refused:
        assert refuses(loader, s)
    assert loader.state_dict() == state
    for a, b in zip(want, batches, strict=True):
        a, b = ({**x} if isinstance(x, dict) else dict(enumerate(x)) for x in (a, b))
        assert a.keys() == b.keys()
        for key, value in a.items():
            assert torch.equal(value, b[key]) if isinstance(value, torch.Tensor) else value == b[key]
