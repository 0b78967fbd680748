# SPDX-License-Identifier: Apache-2.0
"""Loader.mix: shares that are exact over time, epochs of a named source or of steps, and states that continue with other numbers of ranks."""

import io
import itertools
import json
import os
import tarfile
import threading
from fractions import Fraction

import numpy as np
import pytest
from stoker import Loader, fn, pipeline_def
from stoker import transforms as T
from stoker.errors import InvalidArgumentError, StateError
from support import SEED

SIZES = {"a": 40, "b": 24, "c": 12}


class Numbers:
    """A Dataset of small images. A label is 100 times the number of the source, plus the index of the sample."""

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


@pytest.mark.parametrize("how", ["state", "close"])
def test_an_epoch_that_continues_ends_where_it_would_have_ended(how):
    """After the last batch of the source that determines the epoch, other sources have some steps before its end is found. A run that resumes at one of
    these steps must not repeat the epoch."""
    shares = (0.45, 0.45, 0.1)
    whole = mixture(epoch="c", shares=shares)
    wanted, after = labels(whole), labels(whole)
    assert sum(batch[0] // 100 == 2 for batch in wanted) == 3
    for step in range(1, len(wanted) + 1):
        run = mixture(epoch="c", shares=shares)
        iterator = iter(run)
        taken = [next(iterator).label.tolist() for _ in range(step)]
        if how == "close":
            run.close()
        else:
            state = json.loads(json.dumps(run.state_dict()))
            run = mixture(epoch="c", shares=shares)
            run.load_state_dict(state)
        assert taken + labels(run) == wanted, step
        assert labels(run) == after, step


def test_a_break_begins_the_next_epoch():
    mixed = mixture(epoch="a")
    next(iter(mixed))
    rest = labels(mixed)
    assert mixed.epoch == 2 and sorted(label for batch in rest for label in batch if label < 100) == list(range(40))


@pytest.mark.parametrize("how", ["state", "close"])
@pytest.mark.parametrize("leader", ["a", "c"])
def test_an_epoch_after_a_break_continues(leader, how):
    """If source c is the leader, some steps of the new epoch come before the leader's first batch."""

    def broken_off():
        mixed = mixture(epoch=leader)
        for _ in zip(range(12), mixed, strict=False):
            pass
        return mixed, iter(mixed)

    mixed, rest = broken_off()
    epoch, whole, after = mixed.epoch, labels(rest), labels(mixed)
    assert sum(batch[0] // 100 == "abc".index(leader) for batch in whole) == SIZES[leader] // 4
    for step in range(len(whole) + 1):
        run, iterator = broken_off()
        taken = [next(iterator).label.tolist() for _ in range(step)]
        if how == "close":
            run.close()
        else:
            state = json.loads(json.dumps(run.state_dict()))
            run = mixture(epoch=leader)
            run.load_state_dict(state)
        assert run.epoch == epoch
        assert taken + labels(run) == whole, step
        assert labels(run) == after, step


def _from_pipeline():
    @pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def numbers():
        return fn.external_source(source=_ten_batches, batch=True)

    return Loader(numbers(), fields=("label",))


def _ten_batches(k):
    if k == 10:
        raise StopIteration
    return [np.array(400 + 4 * k + i, np.int64) for i in range(4)]


LEADERS = {
    "loader": lambda: source("c"),
    "mixture": lambda: Loader.mix({"b": (source("b"), 0.5), "c": (source("c"), 0.5)}, epoch="b"),
    "mixture of steps": lambda: Loader.mix({"b": (source("b"), 0.5), "c": (source("c"), 0.5)}, steps=7),
    "pipeline": _from_pipeline,
    "dataloader": lambda: pytest.importorskip("torch") and source("c").as_dataloader(),
}


@pytest.mark.parametrize("how", ["state", "close", "both"])
@pytest.mark.parametrize("leader", LEADERS)
def test_a_break_after_a_resume_begins_the_next_epoch(leader, how):
    """The epochs after it are those of a run that was not interrupted, also if the leader gave its batches of the epoch before the resume."""

    def made():
        return Loader.mix({"a": (source("a"), 0.8), "leader": (LEADERS[leader](), 0.2)}, epoch="leader")

    def run(steps, resumed):
        mixed = made()
        iterator = iter(mixed)
        for step in range(steps):
            if step == resumed:
                state = json.loads(json.dumps(mixed.state_dict()))
                if how != "state":
                    mixed.close()
                if how != "close":
                    mixed = made()
                    mixed.load_state_dict(state)
                iterator = iter(mixed)
            next(iterator)
        iterator = iter(mixed)
        taken = [next(iterator).label.tolist() for _ in range(9)]
        taken += [next(iterator).label.tolist() for iterator in [iter(mixed)] for _ in range(8)]
        return taken, mixed.epoch

    for steps in (2, 6, 7, 11):
        wanted = run(steps, None)
        for resumed in range(steps):
            assert run(steps, resumed) == wanted, (steps, resumed)


def test_dataloaders_of_loaders_are_mixed_as_these():
    """A DataLoader of as_dataloader() has no position and no ranks of its own."""
    pytest.importorskip("torch")

    def made(wrap, rank=0):
        b = source("b", shard=(rank, 2))
        return Loader.mix({"a": (source("a", shard=(rank, 2)), 0.8), "b": (b.as_dataloader() if wrap else b, 0.2)}, epoch="b")

    def run(steps, wrap):
        mixed = made(wrap)
        iterator = iter(mixed)
        for _ in range(steps):
            next(iterator)
        state = mixed.state_dict()
        mixed = made(wrap)
        mixed.load_state_dict(state)
        iter(mixed)
        next(iter(mixed))  # the iteration that continued the epoch gave no batch
        taken = [next(iterator).label.tolist() for iterator in [iter(mixed)] for _ in range(9)]
        return taken, mixed.epoch, mixed.step, mixed.state_dict()["taken"]

    for steps in (2, 6, 11):
        assert run(steps, True) == run(steps, False)
    loader = source("b")
    with pytest.raises(InvalidArgumentError, match="one Loader is given twice"):
        Loader.mix([(loader, 1), (loader.as_dataloader(), 1)])


def test_an_epoch_whose_rest_is_no_step_for_more_ranks_ends(tmp_path):
    """A RobotLoader finds only when its iteration begins that the rest of its epoch is too short for a step of all ranks."""
    for module in ("pyarrow", "torch"):
        pytest.importorskip(module)
    import robots

    robots.make(tmp_path / "robots", lengths=(7, 7))

    def made(rank, world):
        robot = Loader.from_lerobot(tmp_path / "robots", 4, shard=(rank, world), last_batch="drop")
        return Loader.mix({"robot": (robot, 0.5), "a": (source("a", shard=(rank, world)), 0.5)}, epoch="robot")

    mixed = made(0, 1)
    iterator = iter(mixed)
    while mixed.loaders[0].state_dict()["consumed"] < 8:
        next(iterator)
    state = mixed.state_dict()
    for rank in range(2):
        mixed = made(rank, 2)
        mixed.load_state_dict(state)
        assert "robot" not in [mixed.source for _ in mixed]
        assert mixed.epoch == 1
        assert [mixed.source for _ in mixed].count("robot") == 1


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
    for more, said in [({"epoch": "z"}, "not one of the sources"), ({"steps": 0}, "at least 1"), ({"epoch": 0, "steps": 1}, "leave one")]:
        with pytest.raises(InvalidArgumentError, match=said):
            Loader.mix([(a, 1)], **more)
    state = mixture(steps=4).state_dict()
    with pytest.raises(StateError, match="same sources and shares"):
        mixture(steps=4, shares=(0.4, 0.4, 0.2)).load_state_dict(state)
    with pytest.raises(StateError, match="damaged"):
        mixture(steps=4).load_state_dict({**state, "taken": [1]})
    with pytest.raises(StateError, match=r"no state of a mixture .* but one of a Loader"):
        mixture(steps=4).load_state_dict(a.state_dict())
    with pytest.raises(StateError, match="in order"):
        mixture(steps=4).set_epoch(3)


@pytest.mark.parametrize("ends", [{"steps": 6}, {"epoch": "b"}])
def test_set_epoch_after_a_loop_was_left(ends):
    """set_epoch() takes the epoch of the next iteration. A mixture cannot go back to the start of the epoch that the loop has begun. The next iteration says
    so, and not the one that runs."""
    mixed = mixture(**ends)
    for epoch in range(3):
        mixed.set_epoch(epoch)
        iterator = iter(mixed)
        mixed.set_epoch(epoch)  # Lightning calls it here when it continues a run
        next(iterator)
        mixed.set_epoch(epoch)
        next(iterator)
        assert (mixed.epoch, mixed.step) == (epoch, 2)
        if epoch == 0:
            with pytest.raises(StateError, match=r"set_epoch\(0\) was called after the loop had begun epoch 0"):
                iter(mixed)
        else:
            mixed.set_epoch(epoch + 1)
            with pytest.raises(StateError, match=rf"in order, and is in epoch {epoch};"):
                mixed.set_epoch(epoch + 2)
            mixed.set_epoch(epoch + 1)
    mixed.set_epoch(2)
    list(iterator)  # the next iteration is of another epoch
    list(itertools.islice(mixed, 2))
    assert (mixed.epoch, mixed.step) == (3, 2)
    mixed = mixture(**ends)
    next(iter(mixed))
    mixed.set_epoch(0)
    mixed.close()
    list(itertools.islice(mixed, 1))
    assert (mixed.epoch, mixed.step) == (0, 2)  # close() continues the iteration that it ends
    mixed = mixture(**ends)
    mixed.load_state_dict({**mixed.state_dict(), "epoch": 2})
    list(itertools.islice(mixed, 2))
    mixed.set_epoch(2)
    state = mixed.state_dict()
    mixed = mixture(**ends)
    mixed.load_state_dict(state)
    mixed.set_epoch(2)
    iterator = iter(mixed)
    mixed.set_epoch(2)
    next(iterator)
    assert (mixed.epoch, mixed.step) == (2, 3)


@pytest.mark.parametrize("ends", [{"steps": 6}, {"epoch": "b"}])
def test_an_iteration_without_a_batch_begins_no_epoch(ends):
    wanted = labels(mixture(**ends))
    mixed = mixture(**ends)
    iter(mixed)
    mixed.set_epoch(0)
    assert labels(itertools.islice(mixed, 2)) == wanted[:2]
    state = mixed.state_dict()
    mixed = mixture(**ends)
    mixed.load_state_dict(state)
    iter(mixed)
    mixed.set_epoch(0)
    assert labels(mixed) == wanted[2:]
    assert mixed.epoch == 1


def test_numbers_of_numpy_and_torch():
    torch = pytest.importorskip("torch")
    a, b = source("a"), source("b")
    wanted = [Fraction(2, 3), Fraction(1, 3)]
    for two, one in (
        (np.int8(2), np.uint8(1)),
        (torch.tensor(2), torch.tensor(1)),
        (torch.tensor(0.5), np.array(0.25)),
        (np.float32(0.2), 0.1),
    ):
        assert Loader.mix([(a, two), (b, one)]).shares == wanted
    for epoch in (1, np.int64(1), torch.tensor(1), "1"):
        assert Loader.mix([(a, 1), (b, 1)], epoch=epoch)._leader == 1
    for epoch in (2, -1, True, 1.0, torch.tensor(True), [1], np.array([1])):
        with pytest.raises(InvalidArgumentError, match="is not one of the sources; they are 0, 1"):
            Loader.mix([(a, 1), (b, 1)], epoch=epoch)
    for share in (torch.tensor(True), torch.tensor([1.0, 2.0]), torch.tensor(float("nan"))):
        with pytest.raises(InvalidArgumentError, match="the share of source 0 is a number above 0"):
            Loader.mix([(a, share), (b, 1)])


@pytest.mark.parametrize("share", [0, -1, float("nan"), float("inf"), -float("inf"), "nan", "1/0", True, None, [1]])
def test_shares_that_are_no_numbers(share):
    with pytest.raises(InvalidArgumentError, match="the share of source 0 is a number above 0"):
        Loader.mix([(source("a"), share), (source("b"), 1)])


@pytest.mark.parametrize("share, first", [(1e308, {0}), (10**400, {0}), (5e-324, {1})])
def test_shares_of_extreme_sizes(share, first):
    mixed = Loader.mix([(source("a"), share), (source("b"), 1)], steps=9)
    assert {label // 100 for batch in labels(mixed) for label in batch} == first


@pytest.mark.parametrize(
    "other, said",
    [
        (lambda: mixture(steps=7), "end with 6 steps, and those of this one with 7 steps"),
        (lambda: mixture(epoch="b"), "end with 6 steps, and those of this one with source 'b'"),
        (lambda: mixture(steps=6, shares=(0.5, 0.2, 0.3)), "give the same sources and shares"),
        (lambda: Loader.mix({n: (source(n), 1) for n in "cab"}, steps=6), "give the same sources and shares"),
        (lambda: Loader.mix([(source("a"), 1)], steps=6), "a mixture of other sources"),
        (
            lambda: Loader.mix({"a": (source("a"), 0.5), "b": (source("b"), 0.3), "c": (source("b"), 0.2)}, steps=6),
            "source c of the mixture: ",
        ),
    ],
)
def test_a_state_of_another_mixture_changes_nothing(other, said):
    """A refused state leaves the position of each source unchanged."""
    first = mixture(steps=6)
    next(iter(first))
    state = json.loads(json.dumps(first.state_dict()))
    whole = labels(other())
    mixed = other()
    batches = iter(mixed)
    begun = [next(batches).label.tolist() for _ in range(2)]
    before = mixed.state_dict()
    with pytest.raises(StateError, match=said):
        mixed.load_state_dict(state)
    assert mixed.state_dict() == before
    assert begun + labels(batches) == whole


def image(rng):
    from PIL import Image

    out = io.BytesIO()
    Image.fromarray(rng.integers(0, 256, (6, 6, 3), np.uint8)).save(out, "PNG")
    return out.getvalue()


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    """Returns a dict from each kind of source to a function that makes a Loader over it. The function takes further arguments of Loader, such as the
    shard."""
    pytest.importorskip("pyarrow")
    pytest.importorskip("torch")
    import robots
    from sound_files import pcm16
    from stoker import Audio
    from tables import write_table

    root, rng = tmp_path_factory.mktemp("kinds"), np.random.default_rng(7)
    files = []
    for i in range(14):
        files.append((str(root / f"{i}.png"), i))
        (root / f"{i}.png").write_bytes(image(rng))
    write_table(root / "table", rng, (9, 12), 5)
    with tarfile.open(root / "a.tar", "w") as tar:
        for i in range(11):
            for ending, data in (("png", image(rng)), ("cls", str(i).encode())):
                member = tarfile.TarInfo(f"{i:03d}.{ending}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    for i in range(10):
        os.makedirs(root / "sounds" / f"c{i}", exist_ok=True)
        (root / "sounds" / f"c{i}" / "s.wav").write_bytes(pcm16(rng, 400))
    robots.make(root / "robots")
    small = {"transforms": [T.Resize((4, 4))], "shuffle": True}
    return {
        "files": lambda **more: Loader(files, **small, **more),
        "table": lambda **more: Loader(
            f"{root}/table/*.parquet", fields={"image": "Image", "label": None}, **{**small, "shuffle": "groups"}, **more
        ),
        "tar": lambda **more: Loader(str(root / "a.tar"), **small, **more),
        "dataset": lambda **more: Loader(Numbers("b"), shuffle=True, **more),
        "sounds": lambda **more: Loader(str(root / "sounds"), fields={"audio": Audio(), "label": None}, pad=0, shuffle=True, **more),
        "robots": lambda **more: Loader.from_lerobot(root / "robots", shuffle=True, **more),
    }


def names_of(batch):
    return (batch["index"] if isinstance(batch, dict) else batch.label).tolist()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("world", [1, 2])
def test_every_position_continues_over_every_kind_of_source(kinds, world):
    seed = SEED + world
    print("seed", seed)
    rng = np.random.default_rng(seed)
    chosen = list(rng.permutation(list(kinds))[: 6 if world == 1 else 4])
    shares = rng.integers(1, 9, len(chosen)).tolist()
    ends = {"steps": int(rng.integers(5, 9))} if world == 1 else {"epoch": str(chosen[0])}
    total = 11

    def made(rank):
        pairs = {n: (kinds[n](batch_size=2, shard=(rank, world), seed=3), s) for n, s in zip(chosen, shares, strict=True)}
        return Loader.mix(pairs, **ends)

    def walk(mixed, count):
        """Takes `count` batches, over several epochs if necessary. Returns the source of each batch, and its indexes or labels."""
        found = []
        while len(found) < count:
            for batch in mixed:
                found.append((mixed.source, names_of(batch)))
                if len(found) == count:
                    break
        return found

    for rank in range(world):
        with made(rank) as mixed:
            whole = walk(mixed, total)
        for position in range(total):
            with made(rank) as first:
                begun = walk(first, position)
                state = json.loads(json.dumps(first.state_dict()))
            with made(rank) as second:
                second.load_state_dict(state)
                assert begun + walk(second, total - position) == whole, (seed, rank, position)


@pytest.mark.parametrize("steps", [0, 5, 13])
def test_a_state_that_is_saved_again_at_once_continues_with_other_ranks(kinds, steps):
    """A job may restart with other ranks and another batch size, and save before its first batch."""

    def made(rank, world, batch):
        return Loader.mix({n: (make(batch_size=batch, shard=(rank, world), seed=3), 1) for n, make in kinds.items()}, steps=40)

    def rest(state, rank):
        with made(rank, 2, 2) as mixed:
            mixed.load_state_dict(state)
            return [(mixed.source, names_of(batch)) for batch, _ in zip(mixed, range(14), strict=False)]

    with made(0, 1, 4) as first:
        for _ in zip(range(steps), first, strict=False):
            pass
        state = json.loads(json.dumps(first.state_dict()))
    with made(1, 2, 2) as second:
        second.load_state_dict(state)
        again = json.loads(json.dumps(second.state_dict()))
    for rank in range(2):
        assert rest(again, rank) == rest(state, rank)


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s["taken"].__setitem__(0, 2**40),
        lambda s: s["begun"].__setitem__(1, 2**40),
        lambda s: s.update(step=8),
        lambda s: s.update(largest=0),
        lambda s: s["sources"][1].update(stoker_loader=7),
    ],
)
def test_a_damaged_state_is_refused_and_changes_nothing(change):
    """A damaged state is refused, and the mixture continues as before. Counts that contradict the shares would make it take batches of one source forever."""
    mixed = mixture(steps=7)
    iterator = iter(mixed)
    for _ in range(3):
        next(iterator)
    state = json.loads(json.dumps(mixed.state_dict()))
    want = labels(iterator)
    damaged = json.loads(json.dumps(state))
    change(damaged)
    again = mixture(steps=7)
    again.load_state_dict(state)
    with pytest.raises(StateError):
        again.load_state_dict(damaged)
    assert labels(again) == want and len(want) == 4


def test_a_close_while_a_source_starts_leaves_it_closed():
    """If a thread closes the mixture while the iterating thread starts a source, the source must not keep running."""

    class Source:
        batch_size = 2
        running = False

        def __iter__(self):
            mixed.close()  # as if by another thread
            self.running = True
            return iter(range(100))

        def close(self):
            self.running = False

        def state_dict(self):
            return {}

        def load_state_dict(self, state):
            pass

    source = Source()
    mixed = Loader.mix([(source, 1)], steps=3)
    with pytest.raises(StateError, match="it was closed"):
        next(iter(mixed))
    assert not source.running


def test_an_error_does_not_end_the_epoch():
    """The loop that catches an error continues with the batch after the one that failed, as with one Loader."""

    class Fails(Numbers):
        def __getitem__(self, i):
            if i == 5:
                raise OSError("bad disk")
            return super().__getitem__(i)

    mixed = Loader.mix([(Loader(Fails("c"), 4), 1)])
    iterator, got = iter(mixed), []
    with pytest.raises(OSError, match="bad disk"):
        for batch in iterator:
            got += batch.label.tolist()
    got += [label for batch in iterator for label in batch.label.tolist()]
    assert got == [200, 201, 202, 203, 208, 209, 210, 211] and mixed.epoch == 1


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("ends", [{"steps": 9}, {"epoch": "b"}, {"epoch": "c"}])
def test_an_error_on_one_rank_leaves_the_ranks_together(ends, nested):
    """A batch that fails on one rank counts as its step, so that both ranks take the same sources and end at the same step. A state that is saved after the
    error continues there."""

    class Fails(Numbers):
        def __getitem__(self, i):
            if i == 5:
                raise OSError("bad disk")
            return super().__getitem__(i)

    def new(rank, kind=Numbers):
        a, b, c = (Loader(kind(n) if n == "c" else Numbers(n), 2, shard=(rank, 2), last_batch="drop") for n in "abc")
        a, c = (Loader.mix([(one, 1)], steps=3) for one in (a, c)) if nested else (a, c)
        return Loader.mix({"a": (a, 0.3), "b": (b, 0.3), "c": (c, 0.4)}, **ends)

    def walk(mixed, epochs):
        found, states = [], [mixed.state_dict()]
        while mixed.epoch < epochs:
            rows = iter(mixed)
            while True:
                try:
                    batch = next(rows)
                except StopIteration:
                    break
                except OSError:
                    found.append((mixed.epoch, mixed.step, "c", None))
                else:
                    found.append((mixed.epoch, mixed.step, mixed.source, batch.label.tolist()))
                states.append(mixed.state_dict())
        return found, states

    (good, _), (other, _), (failing, states) = walk(new(0), 2), walk(new(1), 2), walk(new(0, Fails), 2)
    assert [step[:3] for step in good] == [step[:3] for step in other] == [step[:3] for step in failing]
    bad = [k for k, step in enumerate(failing) if step[3] is None]
    assert bad and [step[3] for k, step in enumerate(good) if k in bad] == [[204, 205]] * len(bad)
    assert all(k in bad or step == good[k] for k, step in enumerate(failing))
    for k, state in enumerate(states):
        again = new(0, Fails)
        again.load_state_dict(json.loads(json.dumps(state)))
        assert walk(again, 2)[0] == failing[k:]


def test_an_error_without_a_batch_is_no_step():
    """A source that raises an error may keep its position. Its batch is then still to come."""
    mixed = Loader.mix([(source("a"), 1)], steps=9)
    rows = iter(mixed)
    next(rows)
    state = mixed.state_dict()
    mixed.loaders[0].close()
    with pytest.raises(StateError, match="closed"):
        next(rows)
    assert mixed.step == 1 and mixed.state_dict() == state


def test_states_from_another_thread():
    """A thread that asks for states while another one takes batches gets those after whole batches, and the loop gets no error."""
    whole = mixture(steps=9)
    want = [json.dumps(whole.state_dict())]
    for _ in range(6):
        for _ in whole:
            want.append(json.dumps(whole.state_dict()))
        want.append(json.dumps(whole.state_dict()))
    mixed, found, failed, done = mixture(steps=9), set(), [], threading.Event()

    def ask():
        while not done.is_set():
            try:
                state = mixed.state_dict()
                found.add(json.dumps({name: state[name] for name in ("taken", "step", "sources")}))
            except Exception as e:
                failed.append(e)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        got = [labels(mixed) for _ in range(6)]
    finally:
        done.set()
        thread.join()
    states = [json.loads(text) for text in want]
    allowed = {json.dumps(s["sources"]): s["taken"] for s in states}
    assert not failed and found and [len(epoch) for epoch in got] == [9] * 6
    for state in map(json.loads, found):
        assert allowed[json.dumps(state["sources"])] == state["taken"]


def test_two_threads_at_once():
    inside, leave = threading.Event(), threading.Event()

    class Slow(Numbers):
        def __getitem__(self, i):
            if i >= 4:
                inside.set()
                leave.wait(30)
            return super().__getitem__(i)

    mixed = Loader.mix([(Loader(Slow("a"), 4), 1)])
    it, got = iter(mixed), []
    thread = threading.Thread(target=lambda: got.extend(it), name="first", daemon=True)
    thread.start()
    inside.wait(30)
    with pytest.raises(StateError, match="this mixture is in use by the thread 'first'"):
        while not got or len(got) < 10:
            next(it)
    leave.set()
    thread.join(30)
    assert len(got) == 10


def test_explain_names_the_sources():
    mixed = mixture(steps=10)
    list(mixed)
    text = mixed.explain()
    assert text.startswith(
        "a mixture of 3 sources; 10 steps in an epoch; epoch 1, step 0\n\nsource a: share 0.5, 20 samples so far (0.5)\n  "
    )
    for name, loader in zip(mixed.names, mixed.loaders, strict=True):
        assert f"source {name}: share " in text
        assert all(f"  {line}".rstrip() in text for line in loader.pipeline.explain().splitlines())
    outer = Loader.mix([(mixed, 1)], steps=1).explain()
    assert "0 samples so far\n  a mixture of 3 sources" in outer
