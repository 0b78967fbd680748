# SPDX-License-Identifier: Apache-2.0
"""Iterators over restored pipelines continue with the same batches as the uninterrupted run."""

import gc
import json
import random
import warnings
import weakref

import numpy as np
import pytest
from stoker import fn, pipeline_def
from stoker.errors import CorruptError, InvalidArgumentError, StateError
from stoker.plugin.dlpack import DLPackIterator
from stoker.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

EPOCHS = 3


@pipeline_def(num_threads=1, device_id=None)
def labelled(files, **reader):
    return fn.readers.file(files=files, labels=list(range(len(files))), name="Reader", **reader)[1]


@pipeline_def(num_threads=1, device_id=None)
def decoded(files, **reader):
    data, label = fn.readers.file(files=files, labels=list(range(len(files))), name="Reader", **reader)
    return label, fn.decoders.image(data)


@pipeline_def(num_threads=1, device_id=None)
def sourced(source, **how):
    return fn.external_source(source, **how)


def values(step):
    return [part["x"].flatten().tolist() for part in step]


def outcome(iterator):
    """Returns the values of the next step, or "error" if a file of the step is damaged."""
    try:
        return values(next(iterator))
    except CorruptError:
        return "error"


def epoch(iterator):
    """Returns the batches of an epoch of an iterator with auto_reset."""
    found = []
    try:
        while True:
            found.append(outcome(iterator))
    except StopIteration:
        return found


def check(make, from_start=False):
    """Restores a run after each batch, and after each end of an epoch. Asserts that it continues like the uninterrupted run. make: makes an iterator with
    auto_reset, from states or from None. from_start: its sources can start only at the beginning of an epoch."""
    whole, iterator, saved = [], make(None), []
    for e in range(EPOCHS):
        whole.append([])
        while True:
            saved.append((e, len(whole[e]), iterator.checkpoints()))
            length = len(iterator)
            try:
                whole[e].append(outcome(iterator))
            except StopIteration:
                break
            assert len(iterator) == length
    whole += [epoch(iterator) for _ in range(2)]
    for e, steps, states in saved:
        expected = [whole[e][steps:], *whole[e + 1 :]]
        try:
            again = make(states)
        except StateError as error:  # a source of whole batches can begin only at an epoch's start
            assert from_start and "mid-epoch" in str(error)
            continue
        if len(expected[0]) > 0:
            assert len(again) == len(expected[0]) + steps or again._reader is None, f"behind batch {steps} of epoch {e}: {states}"
        # A state after the last batch of an epoch is at the start of the next epoch, unless the epoch has another batch, which is dropped.
        found = []
        # Ends the epoch like a loop that counts its steps, and never gets a StopIteration.
        if steps % 2 and steps < len(whole[e]) == len(again):
            found.append([outcome(again) for _ in expected[0]])
            with warnings.catch_warnings(action="error"):
                again.reset()
        found += [epoch(again) for _ in range(EPOCHS)]
        expected = [x for k, x in enumerate(expected) if k or x]
        found = [x for k, x in enumerate(found) if k or x]
        n = min(len(found), len(expected))
        assert n >= 2 and found[:n] == expected[:n], f"behind batch {steps} of epoch {e}: {states}"


def draw_reader(r):
    how = r.choice(["in order", "in order", "sticky", "shuffled", "padded", "wrap", "fill", "drop"])
    return {
        "in order": {},
        "sticky": {"stick_to_shard": True},
        "shuffled": {"random_shuffle": True, "shuffle_seed": 5, "pad_last_batch": r.random() < 0.5},
        "padded": {"pad_last_batch": True},
    }.get(how, {"tail": how})


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("number", range(60))
def test_readers(files, tmp_path, number, damaged):
    """damaged: the pipelines decode their files, some of which are no images. Each error takes the place of its step."""
    r = random.Random(number)
    names = [str(files[0])] * r.randint(7, 23)
    shards, batch, reader = r.choice([1, 1, 2, 3]), r.randint(1, 5), draw_reader(r)
    if reader.get("tail") == "drop":
        batch = min(batch, len(names) // shards)
    all_of_them = r.random() < 0.3  # whether one iterator reads all shards
    ranks = range(shards) if all_of_them else [r.randrange(shards)]
    policy = r.choice(
        [p for p in LastBatchPolicy if not damaged or p is not LastBatchPolicy.DROP]
    )  # DROP: a batch may fail that would be dropped
    if policy is LastBatchPolicy.DROP:
        batch = min(batch, len(names) // shards)
    end = {"reader_name": "Reader"}
    if r.random() < 0.3:
        end = {"size": r.randint(15, 25) if policy is LastBatchPolicy.DROP else r.randint(5, 25), "last_batch_padded": r.random() < 0.5}

    def make(states, names=names):
        define = decoded if damaged else labelled
        pipes = [
            define(names, batch_size=batch, seed=1, checkpoint=states and states[k], shard_id=rank, num_shards=shards, **reader)
            for k, rank in enumerate(ranks)
        ]
        return DALIGenericIterator(pipes, ["x", "image"][: damaged + 1], last_batch_policy=policy, auto_reset=True, **end)

    print(len(names), shards, batch, reader, list(ranks), policy, end)
    if damaged:
        whole = make(None)
        (tmp_path / "bad.jpg").write_bytes(b"no image")
        bad = r.sample(range(len(names)), r.randint(1, 3))
        names = [str(tmp_path / "bad.jpg") if k in bad else name for k, name in enumerate(names)]
        broken = make(None, names)
        for _ in range(EPOCHS):
            for step, given in zip(epoch(whole), epoch(broken), strict=True):
                assert given in (step, "error")  # PARTIAL does not return samples that may have failed
                assert given == "error" or not any(x in bad for part in step for x in part)
    check(lambda states: make(states, names))


def batches_of(r, batch):
    """Returns the batches of an epoch of a source, some of them short."""
    sizes = [r.choice([batch, batch, r.randint(1, batch)]) for _ in range(r.randint(2, 5))]
    numbers = iter(range(100))
    return [np.array([[next(numbers)] for _ in range(n)], np.int32) for n in sizes]


@pytest.mark.parametrize("number", range(40))
def test_sources(number):
    r = random.Random(number)
    batch, policy = r.randint(1, 4), r.choice(list(LastBatchPolicy))
    kind = r.choice(["samples", "some samples", "batches", "repeated"])
    of_epoch = batches_of(r, batch)

    def sample(info):
        if kind == "some samples" and info.idx_in_epoch >= 11:
            raise StopIteration
        return np.int32([info.idx_in_epoch + 100 * info.epoch_idx])

    def step(info):
        if info.iteration >= len(of_epoch):
            raise StopIteration
        return of_epoch[info.iteration]

    source, how = {
        "batches": (step, {"batch_info": True}),
        "repeated": (of_epoch, {"cycle": "raise"}),
    }.get(kind, (sample, {"batch": False}))
    size = r.randint(6, 17) if r.random() < 0.8 or kind == "samples" else -1
    ends = {"size": size, "last_batch_padded": r.random() < 0.3}

    def make(states):
        pipe = sourced(source, batch_size=batch, checkpoint=states and states[0], **how)
        return DALIGenericIterator(pipe, ["x"], last_batch_policy=policy, auto_reset=True, **ends)

    print(kind, [len(b) for b in of_epoch], batch, policy, ends)
    check(make, from_start=kind == "repeated")


def counted(checkpoint=None, batch_size=3, size=10, **how):
    pipe = sourced(lambda info: np.int32([info.idx_in_epoch]), batch_size=batch_size, batch=False, checkpoint=checkpoint)
    return DALIGenericIterator(pipe, ["x"], size=size, **how)


def test_a_state_that_does_not_say_where_an_epoch_ends_is_refused():
    pipe = sourced(lambda info: np.int32([info.idx_in_epoch]), batch_size=3, batch=False)
    assert "iterator" not in json.loads(pipe.checkpoint())
    counted(pipe.checkpoint())  # accepted, since no batch was taken
    pipe.run()
    with pytest.raises(InvalidArgumentError, match=r"save states with the iterator's checkpoints\(\)"):
        counted(pipe.checkpoint())
    iterator = counted()
    next(iterator), next(iterator)
    (state,) = iterator.checkpoints()
    assert values(next(counted(state))) == [[6, 7, 8]]
    assert iterator._pipes[0].checkpoint() == state, "the pipeline says the same"
    with pytest.raises(InvalidArgumentError, match="after 6 samples of an iterator's epoch, but an epoch has only 5 here"):
        counted(state, size=5)
    for damaged in (None, {"samples": -1, "steps": 2}, {"samples": "6", "steps": 2}, {"samples": 6}, 6):
        with pytest.raises(InvalidArgumentError, match=r'the state is damaged: "iterator"|save states with'):
            counted(json.dumps({**json.loads(state), "iterator": damaged}))


def test_a_batch_that_reset_has_taken_is_no_part_of_a_state():
    """If short batches make the epoch longer than len(), reset() takes a batch to find out whether the epoch has more. No state can be saved before the loop
    gets it."""
    pipe = sourced(lambda k: np.zeros([1 + k % 2, 1], np.int32), batch_size=2)
    iterator = DALIGenericIterator(pipe, ["x"], size=7, last_batch_policy=LastBatchPolicy.DROP)
    for _ in range(len(iterator)):
        next(iterator)
    with pytest.warns(UserWarning, match="in the middle of an epoch is ignored"):
        iterator.reset()
    with pytest.raises(StateError, match="get that batch first, then save the state"):
        iterator.checkpoints()
    next(iterator)
    assert iterator.checkpoints()


@pytest.mark.parametrize("source", ["by batch", "list"])
@pytest.mark.parametrize("how", ["reset", "for", "none"])
def test_a_state_after_an_epochs_last_batch_and_reset(source, how):
    """If only the source knows the end of an epoch, a run that was saved after reset() has no empty epoch either. Without reset(), a source that takes the
    number of its batch reports the end first, as in the run that was saved."""

    def by_batch(k):
        if k == 2:
            raise StopIteration
        return np.int32([[2 * k], [2 * k + 1]])

    def make(state=None):
        given = {"source": by_batch} if source == "by batch" else {"source": [by_batch(0), by_batch(1)], "cycle": "raise"}
        return DALIGenericIterator(sourced(**given, batch_size=2, checkpoint=state), ["x"], auto_reset=True)

    iterator = make()
    for _ in range(2):
        last = next(iterator)
    assert values(last) == [[2, 3]]
    if how == "reset":
        iterator.reset()
    elif how == "for":
        iter(iterator)
    state = iterator.checkpoints()[0]
    restored = make(state)
    assert restored.checkpoints()[0] == state
    whole = [[[0, 1]], [[2, 3]]]
    assert [epoch(restored), epoch(restored)] == ([[], whole] if how == "none" and source == "by batch" else [whole, whole])


def test_a_pipelines_state_after_reset_is_of_no_iterator():
    def by_batch(k):
        if k == 3:
            raise StopIteration
        return np.int32([[k]])

    pipe = sourced(by_batch, batch_size=1)
    pipe.run()
    pipe.run()
    pipe.reset()
    state = pipe.checkpoint()
    assert json.loads(state)["iterator"] == {"reset": True}
    with pytest.raises(InvalidArgumentError, match="saved in mid-epoch without an iterator that has a size"):
        DALIGenericIterator(sourced(by_batch, batch_size=1, checkpoint=state), ["x"], size=3)


def test_contiguous_shards_continue_unchanged(files):
    def make(batch, shards, state=None):
        pipe = labelled([str(files[0])] * 20, batch_size=batch, num_shards=shards, checkpoint=state)
        return DALIGenericIterator(pipe, ["x"], reader_name="Reader")

    iterator = make(3, 1)
    next(iterator)
    (state,) = iterator.checkpoints()
    for other in (2, 1), (3, 2):
        with pytest.raises(StateError, match="a run that read shard 0 of 1 in batches of 3; this pipeline reads"):
            make(*other, state)


def test_pipelines_of_one_iterator_are_at_the_same_batch(files):
    def make(states):
        pipes = [labelled([str(files[0])] * 20, batch_size=3, shard_id=k, num_shards=2, checkpoint=s) for k, s in enumerate(states)]
        return DALIGenericIterator(pipes, ["x"], reader_name="Reader")

    iterator = make([None, None])
    first, _ = iterator.checkpoints()
    next(iterator)
    _, second = iterator.checkpoints()
    with pytest.raises(InvalidArgumentError, match="were saved after different batches"):
        make([first, second])


def test_a_dropped_iterator_takes_its_pipeline_along():
    gc.disable()
    try:
        iterator = counted()
        next(iterator)
        gone = weakref.ref(iterator._pipes[0])
        del iterator
        assert gone() is None
    finally:
        gc.enable()


def test_arrays_by_dlpack(files):
    """Iterators that deliver arrays by DLPack are restored in the same way as those of PyTorch."""

    def make(state=None):
        return DLPackIterator(
            labelled([str(files[0])] * 13, batch_size=3, checkpoint=state),
            ["x"],
            np.from_dlpack,
            reader_name="Reader",
            last_batch_policy=LastBatchPolicy.PARTIAL,
            auto_reset=True,
        )

    iterator = make()
    next(iterator)
    again = make(iterator.checkpoints()[0])
    for _ in range(3):
        assert [b["x"].flatten().tolist() for b in again] == epoch_of_arrays(iterator)


def epoch_of_arrays(iterator):
    found = []
    try:
        while True:
            found.append(next(iterator)["x"].flatten().tolist())
    except StopIteration:
        return found
