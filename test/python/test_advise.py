# SPDX-License-Identifier: Apache-2.0
"""advise: measurements with a clock that only the test advances; the stage that the report names as the bottleneck; printed and written reports; batches
that pass through unchanged."""

import io
import itertools
import json
import os
import re

import numpy as np
import pytest
import torch
from PIL import Image
from stoker import Loader, advise
from stoker import transforms as T
from stoker._advise import bound, cache, clock, machine, subject
from stoker._advise.plan import Plan, Step
from stoker.errors import InvalidArgumentError, NotFoundError, StateError


class Hand(clock.HostClock):
    """A clock that stands still until the test advances it."""

    def __init__(self):
        self.now = 0.0

    def mark(self):
        return self.now


@pytest.fixture
def hand(monkeypatch):
    made = Hand()
    monkeypatch.setattr(clock, "pick", lambda: made)
    return made


class Slow:
    """A loader that takes `cost` seconds of the clock for each batch."""

    def __init__(self, hand, cost, length):
        self.hand, self.cost, self.length, self.made = hand, cost, length, 0

    def __len__(self):
        return self.length

    def __iter__(self):
        for _ in range(self.length):
            self.hand.now += self.cost
            self.made += 1
            yield torch.full((2,), float(self.made))


def run(watched, hand, step, least=0):
    """Takes at least `least` batches, and more until the trial is over; each step takes `step` seconds of the clock. Returns the batches."""
    seen = []
    while not watched.done or len(seen) < least:
        for batch in watched:
            hand.now += step
            seen.append(batch)
    return seen


def trial(hand, cost, step, length=1000, **kwargs):
    watched = advise(Slow(hand, cost, length), steps=8, rounds=3, warmup=2, quiet=True, **kwargs)
    run(watched, hand, step)
    return watched.report()


def test_shares_and_gain(hand):
    found = trial(hand, cost=0.03, step=0.01)
    assert found.step.median == pytest.approx(0.04) and found.wait.median == pytest.approx(0.03)
    assert found.cached.median == pytest.approx(0.01)
    assert found.wait_share == pytest.approx(0.75) and found.gain == pytest.approx(4) and len(found.gains) == 3
    assert found.helps and "4.00 times as fast" in found.verdict
    assert len(found.steps("live")) == len(found.steps("cached")) == 24


def test_a_loader_that_costs_nothing_is_not_blamed(hand):
    found = trial(hand, cost=0.0001, step=0.05)
    assert not found.helps and "would not help" in found.verdict and found.bound.stage == "none"
    assert "would not help" in str(found)


def test_without_cached_steps_the_data_is_untouched(hand):
    source = Slow(hand, 0.01, 100)
    watched = advise(source, steps=8, rounds=2, warmup=2, cached=False, quiet=True)
    seen = [int(batch[0]) for batch in watched]
    assert seen == list(range(1, 101)) and watched.done
    found = watched.report()
    assert found.gain is None and found.cached is None and "at most" in found.verdict


def test_first_batches_of_epochs_do_not_count(hand):
    class Starts(Slow):
        def __iter__(self):
            hand.now += 100
            return super().__iter__()

    watched = advise(Starts(hand, 0.01, 5), steps=8, rounds=1, warmup=0, quiet=True)
    run(watched, hand, 0.01)
    found = watched.report()
    assert found.step.p99 == pytest.approx(0.02) and len(found.epoch_starts) >= 2


def test_leaving_an_epoch_in_the_middle(hand):
    """Time between two epochs, such as for validation, counts neither as a step nor as waiting."""
    watched = advise(Slow(hand, 0.01, 50), steps=6, rounds=2, warmup=1, quiet=True)
    while not watched.done:
        for _ in itertools.islice(watched, 4):
            hand.now += 0.01
        hand.now += 1000
    assert watched.report().step.p99 == pytest.approx(0.02)


@pytest.mark.parametrize("length", [3, 30, 200])
def test_epochs_keep_their_length(hand, length):
    source = Slow(hand, 0.01, length)
    watched = advise(source, steps=8, rounds=2, warmup=2, quiet=True)
    counts = []
    while not watched.done:
        counts.append(sum(1 for _ in watched))
        hand.now += 1
    counts.append(sum(1 for _ in watched))
    assert set(counts) == {length}, counts


def test_a_generator(hand):
    def endless():
        while True:
            hand.now += 0.01
            yield np.zeros(3)

    watched = advise(endless(), steps=4, rounds=2, warmup=0, quiet=True)
    for _ in itertools.islice(watched, 60):
        hand.now += 0.02
    assert watched.done and watched.report().gain == pytest.approx(1.5)


def test_a_generator_that_ends():
    assert len(list(advise((i for i in range(70)), steps=4, rounds=2, warmup=0, quiet=True))) <= 70 + 2 * 8


def test_report_before_its_time(hand):
    watched = advise(Slow(hand, 0.01, 5), quiet=True)
    next(iter(watched))
    with pytest.raises(StateError, match="run longer"):
        watched.report()


def test_a_loop_that_is_too_short_is_reported(hand, capfd):
    """The message is printed when the object that advise() returned is deleted, or at the end of the process. A quiet loop, and one without a step, print
    nothing."""
    for quiet in (False, True):
        watched = advise(Slow(hand, 0.01, 12), steps=8, rounds=2, warmup=2, quiet=quiet)
        list(watched)
        del watched
        printed = capfd.readouterr().err
        assert quiet or printed.startswith("advise: no report: the loop ended after 11 of the trial's 46 steps; let it run longer")
        assert not quiet or not printed
    advise(Slow(hand, 0.01, 12))
    assert not capfd.readouterr().err


@pytest.mark.parametrize(
    "settings", [{"warmup": 0, "rounds": 1, "cached": 0}, {"warmup": 3, "rounds": 2, "cached": 0}, {"warmup": 3, "rounds": 2}]
)
def test_the_trial_has_the_announced_number_of_steps(hand, settings):
    watched = advise(Slow(hand, 0.01, 500), steps=4, quiet=True, **settings)
    counts = []
    for _ in watched:
        counts.append(watched._steps_so_far[0])
        if watched.done:
            break
    assert counts[-1] == watched._plan.length() > counts[-2]
    watched = advise(Slow(hand, 0.01, 500), steps=4, quiet=True, **settings)
    next(iter(watched))
    with pytest.raises(StateError, match=f"ends after {settings['warmup'] + 1 + 4} more"):
        watched.report()


def test_wrong_numbers():
    for wrong in ({"steps": 1}, {"rounds": 0}, {"warmup": -1}, {"cached": -2}):
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            advise([], **wrong)
    for name, given in itertools.product(("steps", "rounds", "warmup", "cached"), ("a", 2.5, float("nan"), [1], None, "40")):
        with pytest.raises(TypeError, match=rf"^advise: {name}.* is a whole number, not {re.escape(repr(given))}$"):
            advise([], **{name: given})
    for name, given, message in (
        ("quiet", "no", "advise: quiet is True or False, not 'no'"),
        ("png", True, "advise: png is the path of a file to write, not True"),
        ("json", 5, "advise: json is the path of a file to write, not 5"),
    ):
        with pytest.raises(TypeError, match=message):
            advise([], **{name: given})
    with pytest.raises(TypeError, match="not the class Loader"):
        advise(Loader)
    assert advise([], steps=np.int64(4), rounds=torch.tensor(2), cached=np.array(3))._plan == Plan(4, 2, 20, 3)


def test_everything_else_is_the_loaders(tree):
    with Loader(tree, 4, transforms=[T.Resize((16, 16))]) as loader:
        watched = advise(loader, quiet=True)
        assert len(watched) == 6 and watched.epoch == 0 and watched.state_dict() == loader.state_dict()
        assert watched.classes == loader.classes
        with pytest.raises(AttributeError):
            _ = watched.nothing_of_the_kind


def test_an_exception_of_the_loader_arrives(hand):
    def broken():
        yield 1
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        list(advise(broken(), quiet=True))


def test_files_and_table(hand, tmp_path, capfd):
    source = Slow(hand, 0.03, 1000)
    watched = advise(source, steps=8, rounds=2, warmup=2, png=tmp_path / "a.png", json=tmp_path / "a.json")
    run(watched, hand, 0.01)
    printed = capfd.readouterr().err
    assert printed.startswith("advise: ") and "75.0% of the step" in printed and "4.00 times as fast" in printed
    data = json.loads((tmp_path / "a.json").read_text())
    assert data["gain"]["median"] == pytest.approx(4) and data["wait"]["share"] == pytest.approx(0.75)
    assert [b["kind"] for b in data["blocks"]] == ["live", "cached"] * 2 and len(data["blocks"][0]["steps"]) == 8
    image = Image.open(io.BytesIO((tmp_path / "a.png").read_bytes())).convert("RGB")
    pixels = np.asarray(image).reshape(-1, 3)
    red, blue = (int((pixels == colour).all(1).sum()) for colour in ((214, 69, 65), (66, 114, 178)))
    assert image.width == 1200 and red > 20_000 and blue > 5_000


def test_files_that_cannot_be_written(hand, tmp_path, capfd):
    """A missing folder is an error before the trial begins. A file that cannot be written at the trial's end does not end the loop."""
    for name in ("png", "json"):
        with pytest.raises(NotFoundError, match=f"{name}=.*there is no folder .*nowhere"):
            advise([], **{name: tmp_path / "nowhere" / "a"})
    watched = advise(Slow(hand, 0.03, 1000), steps=2, rounds=1, png=tmp_path, json=str(tmp_path / "a.json"))
    run(watched, hand, 0.01)
    assert f"advise: {tmp_path} was not written: Is a directory" in capfd.readouterr().err and (tmp_path / "a.json").exists()


def test_only_rank_0_prints(hand, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    run(advise(Slow(hand, 0.03, 1000), steps=2, rounds=1, json=tmp_path / "a.json"), hand, 0.01)
    assert capfd.readouterr().err == "" and not (tmp_path / "a.json").exists()


# ---- parts ----


def test_marks_on_a_stream():
    """Times between events of a stream are in milliseconds, and are read after the GPU has reached the events."""

    class Event:
        def __init__(self, at):
            self.at = at

        def elapsed_time(self, other):
            return 1e3 * (other.at - self.at)

    class Cuda:
        synchronized = 0

        @staticmethod
        def current_device():
            return 0

        @classmethod
        def synchronize(cls):
            cls.synchronized += 1

    fake = clock.CudaClock(type("torch", (), {"cuda": Cuda}))
    marks = [Event(t) for t in (5, 5.5, 6, 6, 7, 10, 11)]
    # The last step was requested later than the previous step ended. The time between these events does not count as part of a step.
    steps = [Step(marks[0], marks[1], marks[2], 0, 0), Step(marks[2], marks[3], marks[4], 0, 0), Step(Event(9), marks[5], marks[6], 0, 0)]
    fake.resolve(steps)
    assert [(s.asked, s.got, s.end) for s in steps] == [(0, 0.5, 1), (1, 1, 2), (4, 5, 6)] and Cuda.synchronized == 1


def test_batches_are_kept_as_they_are():
    Pair = __import__("collections").namedtuple("Pair", "image label")
    image = torch.rand(2, 3, 4, 4).to(memory_format=torch.channels_last)
    batch = Pair({"x": image, "y": [np.arange(3), "name"]}, 7)
    kept, size = cache.copied(batch)
    assert isinstance(kept, Pair) and kept.label == 7 and kept.image["y"][1] == "name"
    assert kept.image["x"].stride() == image.stride() and torch.equal(kept.image["x"], image)
    image.zero_()
    assert kept.image["x"].any() and size == 4 * 96 + 24


def test_a_cache_goes_in_a_circle_and_is_bounded(monkeypatch):
    monkeypatch.setattr(cache, "_MOST_BYTES", 100)
    kept = cache.Cache(8)
    for i in range(6):
        kept.offer(np.full(5, i))  # each array has 40 bytes, so two fit into 100
    assert len(kept) == 2 and [int(kept.next()[0]) for _ in range(5)] == [0, 1, 0, 1, 0]


def facts(**changed):
    group = machine.Used
    usage = machine.Usage(group(2, 0.2, 0), group(2, 0.2, 0), group(1, 1, 0), group(), 0, 10.0)
    base = {"batches": 100, "wait_share": 0.5, "waited": 5.0, "own_cpu": 0.1, "step": 0.05, "cores": 16.0, "usage": usage, "counters": {}}
    return bound.Facts(**{**base, **changed})


def usage(workers=0.2, children=0.2, queued=0.0, read=0, crowded=0.0):
    """Makes figures like those of machine.usage(). crowded: the share of the machine's cores that all its programs used."""
    group, cores = machine.Used, os.cpu_count()
    return machine.Usage(group(2, workers, queued), group(2, children, queued), group(1, 1, 0), group(), read, 10.0, crowded * 10 * cores)


class Ours(subject.Subject):
    kind = "Stoker"

    def __init__(self, gpu=False):
        super().__init__(None)
        self.gpu = gpu

    def workers(self):
        return 2

    def on_gpu(self):
        return self.gpu


class Theirs(Ours):
    kind = "DataLoader"


@pytest.mark.parametrize(
    "who, changed, stage, words",
    [
        (Ours(), {"wait_share": 0.01}, "none", "lie ready"),
        (Ours(), {"usage": usage(workers=19.5)}, "cores", "need 3.9 cores.*raise num_threads"),
        (Ours(), {"usage": usage(workers=10, queued=9)}, "cores", "in the queue for a core"),
        (Theirs(), {"usage": usage(children=19.5)}, "cores", "2 processes were busy 98%.*raise num_workers"),
        (Ours(), {"counters": {"reads_started": 10, "reads_submitted": 9, "bytes_read": 1e9}}, "storage", "100 MB/s came; .* 200 MB/s"),
        (Theirs(), {"usage": usage(read=10**9)}, "storage", "100 MB/s came"),
        (Theirs(), {}, "waits", "neither cores nor storage"),
        (Theirs(), {"usage": usage(crowded=0.5)}, "waits", "neither cores nor storage"),
        (Theirs(), {"usage": usage(crowded=0.95)}, "cores", "other programs of this machine used .* measure again"),
        (Ours(), {"usage": usage(crowded=0.95)}, "cores", "other programs of this machine used"),
        (Theirs(), {"own_cpu": 4.5}, "copy", "taking batches over"),
        (subject.Subject(None), {"own_cpu": 4.5}, "loop", "works ahead"),
        (Ours(), {"own_cpu": 4.5}, "loop", "collate_fn, batch_transforms"),
        (Ours(gpu=True), {}, "gpu", "shares with the step"),
        (Ours(gpu=True), {"counters": {"copy_ns": 9e9}}, "copy", "90%"),
        (Ours(gpu=True), {"counters": {"gpu_ns": 9e9}}, "gpu", "90%"),
    ],
)
def test_the_stage_that_bounds(who, changed, stage, words):
    import re

    found = bound.find(who, facts(**changed))
    assert found.stage == stage and re.search(words, found.text), found


def test_kinds_of_loaders(tree):
    loader = Loader(tree, 4, transforms=[T.Resize((16, 16))], num_threads=1, prefetch=3)
    for wrapped in (loader, loader.as_dataloader(), loader.pipeline):
        kind = subject.recognise(wrapped)
        assert kind.kind == "Stoker" and kind.workers() == 1 and kind.ahead == 5 and not kind.on_gpu() and "decodes" in kind.counters()
    torchs = subject.recognise(torch.utils.data.DataLoader(range(9), num_workers=3, prefetch_factor=4))
    assert torchs.kind == "DataLoader" and torchs.ahead == 12
    assert subject.recognise([1, 2]).kind == "an iterator"


def test_spans_that_overlap_count_once():
    assert subject.covered([(5, 7), (0, 3), (1, 2), (2, 4)]) == 6


def test_usage_of_this_process(tree):
    before = machine.usage(0.0)
    loader = Loader(tree, 4, transforms=[T.Resize((500, 500))], num_threads=2)
    for _ in range(3):
        list(loader)
    used = machine.usage(1.0).since(before)
    assert used.workers.threads >= 2 and used.workers.cpu > 0 and used.loop.cpu > 0 and used.wall == 1


@pytest.mark.parametrize("workers", [0, 2])
def test_real_loops(tree, workers):
    """The parts work together with real clocks. The figures themselves are not checked."""
    loader = Loader(tree, 2, shuffle=True, transforms=[T.Resize((16, 16))])
    watched = advise(loader, steps=3, rounds=2, warmup=1, quiet=True)
    while not watched.done:
        for _images, _labels in watched:
            pass
    found = watched.report()
    assert found.gain > 0 and found.step.mean > 0 and 0 <= found.wait_share <= 1 and found.bound.text
    loader = torch.utils.data.DataLoader(torch.arange(64.0), 2, num_workers=workers)
    watched = advise(loader, steps=3, rounds=2, warmup=1, quiet=True)
    while not watched.done:
        for _ in watched:
            pass
    assert f"{workers} worker" in str(watched.report())


def test_torch_is_not_imported(script):
    done = script(
        "import sys; from stoker import advise; list(advise([1, 2, 3])); sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    )
    assert done.returncode == 0, done.stderr
