# SPDX-License-Identifier: Apache-2.0
"""The PyTorch iterators: ends of epochs, last batches, arguments and ranks; also the iterators by DLPack."""

import contextlib
import copy
import gc
import itertools
import pickle
import sys
import threading
import warnings

import numpy as np
import pytest
import stoker
import torch
from stoker import fn, pipeline_def
from stoker.errors import InvalidArgumentError, StalledError, StateError, StokerError
from stoker.plugin.pytorch import (
    DALIClassificationIterator,
    DALIGenericIterator,
    DALIRaggedIterator,
    LastBatchPolicy,
    feed_ndarray,
)

FILL, PARTIAL, DROP = LastBatchPolicy.FILL, LastBatchPolicy.PARTIAL, LastBatchPolicy.DROP


@pipeline_def(batch_size=2, num_threads=2, device_id=None)
def numbered(files, labels, **reader):
    return fn.readers.file(files=files, labels=labels, name="Reader", **reader)[1]


def seven(files, **reader):
    return numbered([str(f) for f in files[:7]], list(range(1, 8)), **reader)


def epochs(iterator, n):
    result = []
    for _ in range(n):
        result.append([step[0]["label"].flatten().tolist() for step in iterator])
        iterator.reset()
    return result


# The table of the documentation: policy, whether epochs are padded, last batch of an epoch, first batch of the next one.
TABLE = [
    (FILL, True, [7, 7], [1, 2]),
    (FILL, False, [7, 1], [2, 3]),
    (PARTIAL, True, [7], [1, 2]),
    (PARTIAL, False, [7], [2, 3]),
    (DROP, True, [5, 6], [1, 2]),
    (DROP, False, [5, 6], [2, 3]),
]


@pytest.mark.parametrize(("policy", "padded", "last", "first"), TABLE)
@pytest.mark.parametrize("by", ["reader", "size"])
def test_policy_table(files, policy, padded, last, first, by):
    pipe = seven(files, pad_last_batch=padded)
    end = {"reader_name": "Reader"} if by == "reader" else {"size": 7, "last_batch_padded": padded}
    a, b, c = epochs(DALIGenericIterator(pipe, ["label"], last_batch_policy=policy, **end), 3)
    assert a[0] == [1, 2] and a[-1] == last and b[0] == first
    # Without padding, samples continue from one epoch into the next, so only DROP loses samples.
    if not padded and policy is FILL:
        flat = [x for e in (a, b, c) for s in e for x in s]
        assert flat == [(i % 7) + 1 for i in range(len(flat))]


@pytest.mark.parametrize("shuffle", [False, True])
def test_partial_with_padding_is_exactly_once(files, shuffle):
    pipe = seven(files, pad_last_batch=True, random_shuffle=shuffle)
    for epoch in epochs(DALIGenericIterator(pipe, ["label"], reader_name="Reader", last_batch_policy=PARTIAL), 4):
        assert sorted(x for step in epoch for x in step) == list(range(1, 8))
        assert len(epoch) == 4


def test_length(files):
    for policy, length in ((FILL, 4), (PARTIAL, 4), (DROP, 3)):
        assert len(DALIGenericIterator(seven(files), ["label"], reader_name="Reader", last_batch_policy=policy)) == length
        assert len(DALIGenericIterator(seven(files), ["label"], size=7, last_batch_policy=policy)) == length
    assert len(DALIGenericIterator(seven(files), ["label"])) == 0


@pytest.mark.parametrize("reader", [{}, {"random_shuffle": True}, {"pad_last_batch": True}, {"stick_to_shard": True}], ids=str)
@pytest.mark.parametrize("policy", [FILL, PARTIAL, DROP])
def test_the_length_is_that_of_each_epoch(files, policy, reader):
    """If a reader wraps, an epoch may begin within the last batch of the one before, and have fewer batches than others."""
    for samples, batch, shards in [(5, 4, 1), (7, 2, 1), (7, 3, 1), (8, 3, 1), (7, 2, 2), (8, 3, 2), (5, 3, 2), (11, 2, 3)]:
        for rank in range(shards):
            if policy is DROP and samples // shards < batch:
                continue
            ends = [{"reader_name": "Reader"}]
            padded = reader.get("pad_last_batch", False)
            if shards == 1 and (padded or policy is not FILL):  # otherwise len() is DALI's, which is the same for all epochs
                ends += [{"size": samples, "last_batch_padded": padded}]
            for end in ends:
                names, numbers = [str(f) for f in files[:samples]], list(range(samples))
                pipe = numbered(names, numbers, batch_size=batch, num_shards=shards, shard_id=rank, **reader)
                iterator = DALIGenericIterator(pipe, ["label"], last_batch_policy=policy, **end)
                for _ in range(6):
                    said = len(iterator)
                    lengths = [len(iterator) for _ in iterator]
                    assert [said] * said == lengths and len(iterator) == said, (samples, batch, shards, rank, end)
                    iterator.reset()


@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_of_which_all_would_be_dropped_is_an_error(files, shuffle):
    """With seven samples on five ranks, some ranks have only one sample, so no rank can have a batch of two. If the iterators were empty, the program would
    train nothing without an error."""

    def made(**kwargs):
        pipe = seven(files, num_shards=5, random_shuffle=shuffle)
        return DALIGenericIterator(pipe, ["label"], reader_name="Reader", **kwargs)

    with pytest.raises(RuntimeError, match=r"samples: 1\) is smaller than a batch \(samples: 2\).*PARTIAL or FILL"):
        made(last_batch_policy=DROP)
    assert (
        len(list(made(last_batch_policy=DROP, prepare_first_batch=False))) == 0
    )  # without prepare_first_batch there is no error, as in DALI
    assert len(list(made(last_batch_policy=PARTIAL))) == 1
    with pytest.raises(ValueError, match="LastBatchPolicy, not 'DROP'"):
        made(last_batch_policy="DROP")


def test_end_and_reset(files):
    iterator = DALIGenericIterator(seven(files, pad_last_batch=True), ["label"], reader_name="Reader")
    assert len(list(iterator)) == 4
    with pytest.raises(StopIteration):
        next(iterator)  # raises again: an iterator stays at its end until reset() or another `for`
    iterator.reset()
    assert len(list(iterator)) == 4
    assert len(list(iterator)) == 4
    again = DALIGenericIterator(seven(files, pad_last_batch=True), ["label"], reader_name="Reader", auto_reset=True)
    assert [len(list(again)) for _ in range(3)] == [4, 4, 4]
    assert len(list(DALIGenericIterator(seven(files), ["label"], size=7, auto_reset="yes"))) == 4


def taken_to_the_last_batch(iterator, how, count):
    """Takes `count` batches without requesting another one, and returns their labels."""
    if how == "zip":
        return [step[0]["label"].flatten().tolist() for _, step in zip(range(count), iterator, strict=False)]
    if how == "islice":
        return [step[0]["label"].flatten().tolist() for step in itertools.islice(iterator, count)]
    if how == "next":
        running = iter(iterator)
        return [next(running)[0]["label"].flatten().tolist() for _ in range(count)]
    labels = []
    for step in iterator:
        labels.append(step[0]["label"].flatten().tolist())
        if len(labels) == count:
            break
    return labels


def counted(samples, epochs_end=True, batch_size=2):
    """Returns a pipeline over an external_source whose epochs have `samples` samples each, or which never ends. An epoch's last batch may be short."""

    def source(iteration):
        ids = range(iteration * batch_size, (iteration + 1) * batch_size)
        given = [np.int64([i % samples + 1]) for i in ids if i < samples or not epochs_end]
        if not given:
            raise StopIteration
        return given

    @pipeline_def(batch_size=batch_size, num_threads=2, device_id=None)
    def define():
        return fn.external_source(source)

    return define()


class FedByIterSetup(stoker.Pipeline):
    """Feeds the samples 1 to 6 of an epoch by its iter_setup."""

    def __init__(self):
        super().__init__(batch_size=2, num_threads=2, device_id=None)
        self.fed = 0
        with self:
            self.set_outputs(fn.external_source(name="in"))

    def iter_setup(self):
        if self.fed == 6:
            self.fed = 0
            raise StopIteration
        self.feed_input("in", np.int64([[self.fed + 1], [self.fed + 2]]))
        self.fed += 2


UNSIZED = {"source of 7 without a size", "list without a size", "iter_setup"}  # kinds of ends of which only the sources know


def kinds_of_ends(files):
    """Returns a dict with one entry for each means by which an iterator finds the end of an epoch: a function of policy and auto_reset that makes it."""

    def by_reader(**reader):
        def make(**kwargs):
            return DALIGenericIterator(seven(files, **reader), ["label"], reader_name="Reader", **kwargs)

        return make

    def by_size(make_pipeline, size, padded=False):
        return lambda **kwargs: DALIGenericIterator(make_pipeline(), ["label"], size=size, last_batch_padded=padded, **kwargs)

    return {
        "reader pads": by_reader(pad_last_batch=True),
        "reader goes on": by_reader(pad_last_batch=False),
        "reader shuffles": by_reader(pad_last_batch=False, random_shuffle=True),
        "reader shuffles and pads": by_reader(pad_last_batch=True, random_shuffle=True),
        "size, padded": by_size(lambda: seven(files, pad_last_batch=True), 7, True),
        "size, goes on": by_size(lambda: seven(files, pad_last_batch=False), 7),
        "source of 6": by_size(lambda: counted(6), 6),
        "source of 7": by_size(lambda: counted(7), 7),
        "endless source": by_size(lambda: counted(8, epochs_end=False), 8),
        "source of 7 without a size": lambda **kwargs: DALIGenericIterator(counted(7), ["label"], **kwargs),
        "list without a size": lambda **kwargs: DALIGenericIterator(pipeline_of([np.ones((2, 1))] * 3, "raise"), ["label"], **kwargs),
        "iter_setup": lambda **kwargs: DALIGenericIterator(FedByIterSetup(), ["label"], **kwargs),
    }


@pytest.mark.parametrize("auto_reset", [False, True])
@pytest.mark.parametrize("policy", [FILL, PARTIAL, DROP])
@pytest.mark.parametrize("how", ["zip", "islice", "next", "break"])
def test_an_epoch_ends_with_its_last_batch(files, how, policy, auto_reset):
    """A loop that takes all batches without requesting another one gets the same epochs as a loop that runs until StopIteration."""
    for kind, make in kinds_of_ends(files).items():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            want = epochs(make(last_batch_policy=policy), 5)
            assert all(want), kind
            iterator, got = make(last_batch_policy=policy, auto_reset=auto_reset), []
            for epoch in want:
                got.append(taken_to_the_last_batch(iterator, how, len(epoch)))
                if not auto_reset:
                    iterator.reset()
        assert got == want, kind


@pytest.mark.parametrize("policy", [FILL, PARTIAL, DROP])
def test_an_epoch_that_ended_stays_so_until_reset_or_another_for(files, policy):
    for kind, make in kinds_of_ends(files).items():
        iterator = make(last_batch_policy=policy)
        steps = len(list(iterator))
        assert steps > 0 and len(iterator) == (0 if kind in UNSIZED else steps), kind
        with pytest.raises(StopIteration):
            next(iterator)
        assert len(list(iterator)) > 0, kind
        with pytest.raises(StopIteration):
            next(iterator)
        iterator.reset()
        assert len(list(iterator)) > 0, kind


@pytest.mark.parametrize("policy", [FILL, PARTIAL, DROP])
def test_another_for_begins_the_next_epoch_as_in_dali(files, policy):
    """Another `for` over an iterator gives the batches that it would give after reset(), with either value of auto_reset."""
    for kind, make in kinds_of_ends(files).items():
        left, called, automatic = (
            make(last_batch_policy=policy),
            make(last_batch_policy=policy),
            make(last_batch_policy=policy, auto_reset=True),
        )
        for _ in range(3):
            epochs = [[step[0]["label"].flatten().tolist() for step in iterator] for iterator in (left, called, automatic)]
            assert epochs[0] == epochs[1] == epochs[2] and epochs[0], kind
            called.reset()


@pytest.mark.parametrize("samples", [6, 7])
@pytest.mark.parametrize("auto_reset", [False, True])
def test_size_and_a_source_agree_on_the_end(samples, auto_reset):
    """If `size` and the end of the source agree, that end does not count as another epoch. A list without cycle= does not start over."""
    iterator = DALIGenericIterator(counted(samples), ["label"], size=samples, auto_reset=auto_reset)
    for _ in range(4):
        assert [x for step in iterator for x in step[0]["label"].flatten().tolist()] == list(range(1, samples + 1))
        if not auto_reset:
            iterator.reset()
    ending = DALIGenericIterator(pipeline_of([np.ones((2, 1))] * 3), ["label"], size=6, auto_reset=auto_reset)
    assert len(list(ending)) == 3
    ending.reset()
    assert list(ending) == []  # the list does not start over


def pipeline_of(batches, cycle=None):
    @pipeline_def(batch_size=2, num_threads=2, device_id=None)
    def define():
        return fn.external_source(batches, cycle=cycle)

    return define()


def test_an_iteration_after_break_continues_with_a_warning(files):
    iterator = DALIGenericIterator(seven(files, pad_last_batch=True), ["label"], reader_name="Reader")
    for step in iterator:
        assert step[0]["label"].flatten().tolist() == [1, 2]
        break
    with pytest.warns(UserWarning, match="continues where it was"):
        rest = [s[0]["label"].flatten().tolist() for s in iterator]
    assert rest == [[3, 4], [5, 6], [7, 7]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        iterator.reset()
    next(iterator)
    with pytest.warns(UserWarning, match="reset"):
        iterator.reset()


@pytest.mark.parametrize("how", ["reset", "for"])
def test_an_epoch_that_only_its_source_ends_continues_with_a_warning(how):
    """Without a size, the next step shows whether the epoch has ended. If it has not, the warning comes then, at the line of the user."""
    iterator = DALIGenericIterator(counted(6), ["label"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert taken_to_the_last_batch(iterator, "next", 2) == [[1, 2], [3, 4]]
        for _ in range(2):
            iterator.reset() if how == "reset" else iter(iterator)
    with pytest.warns(UserWarning, match="reset.* is ignored" if how == "reset" else "continues where it was") as warned:
        assert next(iterator)[0]["label"].flatten().tolist() == [5, 6]
    assert [w.filename for w in warned] == [__file__]
    with pytest.raises(StopIteration):
        next(iterator)  # the reset was ignored, so the epoch ends


@pytest.mark.parametrize("how", ["reset", "for", "both"])
def test_a_step_whose_warning_is_an_error_comes_next(how):
    iterator = DALIGenericIterator(counted(8), ["label"])
    assert next(iterator)[0]["label"].flatten().tolist() == [1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if how != "for":
            iterator.reset()
        if how != "reset":
            iter(iterator)
        with pytest.raises(UserWarning, match="continues where it was" if how == "for" else "reset.* is ignored"):
            next(iterator)
        with pytest.raises(StateError, match="not returned yet"):
            iterator.checkpoints()
        assert [step[0]["label"].flatten().tolist() for step in (next(iterator), next(iterator))] == [[3, 4], [5, 6]]
    assert iterator.checkpoints()
    assert next(iterator)[0]["label"].flatten().tolist() == [7, 8]


def test_another_reset_after_such_a_step_warns_at_once():
    """The step may be the epoch's last. The reset is ignored, so the end of the epoch comes after it."""
    iterator = DALIGenericIterator(counted(4), ["label"])
    next(iterator)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        iterator.reset()
        with pytest.raises(UserWarning, match=r"reset.* is ignored"):
            next(iterator)
        with pytest.raises(UserWarning, match=r"reset.* is ignored"):
            iterator.reset()
        assert next(iterator)[0]["label"].flatten().tolist() == [3, 4]
        with pytest.raises(StopIteration):
            next(iterator)


@pytest.mark.parametrize("taken", [1, 2, 3])
def test_reset_of_a_pipeline(taken):
    """After the last batch of an epoch, reset() begins the next one, as in DALI with a prefetch_queue_depth of 2. Before it, the epoch continues."""
    pipe, found = counted(6), []
    for _ in range(3):
        for _ in range(taken):
            try:
                found.append(pipe.run()[0].as_array().flatten().tolist())
            except StopIteration:
                found.append(None)
        pipe.reset()
    rest = [[1, 2], [3, 4], [5, 6], None, [1, 2], [3, 4]] if taken < 3 else [[1, 2], [3, 4], [5, 6]] * 3
    assert found == rest[: 3 * taken]


class Stop(KeyboardInterrupt):
    pass


class Faulty:
    """A source of the samples of epochs of 8. At sample `at` it once raises `error`, or waits for the event `until`."""

    def __init__(self, at=None, error=None, until=None):
        self.at, self.error, self.until = at, error, until

    def __call__(self, info):
        if info.idx_in_epoch >= 8:
            raise StopIteration
        if info.idx_in_epoch == self.at and info.epoch_idx == 0 and self.until is not None:
            self.until.wait(60)
        if info.idx_in_epoch == self.at and self.error is not None:
            error, self.error = self.error, None
            raise error
        return np.int64([info.idx_in_epoch])


@pipeline_def(batch_size=2, num_threads=1, device_id=None)
def of_source(source):
    return fn.external_source(source, batch=False)


def outcomes(iterator):
    """Returns the steps of an epoch, each with a list for each pipeline; for an error the name of its class."""
    found = []
    while True:
        try:
            found.append([part["x"].flatten().tolist() for part in next(iterator)])
        except StopIteration:
            return found
        except Exception as e:
            found.append(type(e).__name__)


WHOLE = [[[k, k + 1]] * 2 for k in range(0, 8, 2)]


@pytest.mark.parametrize("at", range(0, 8, 2))
@pytest.mark.parametrize("faulty", [(0,), (1,), (0, 1)])
def test_an_error_takes_the_place_of_a_step_of_all_pipelines(faulty, at):
    """If the batch of one pipeline fails, the others give theirs up too, so that all stay at the same step."""
    pipes = [of_source(Faulty(at, ValueError("once")) if k in faulty else Faulty()) for k in range(2)]
    iterator = DALIGenericIterator(pipes, ["x"], size=16, auto_reset=True)
    assert outcomes(iterator) == WHOLE[: at // 2] + ["ValueError"] + WHOLE[at // 2 + 1 :]
    assert outcomes(iterator) == WHOLE


def test_a_failed_step_keeps_no_batch():
    """The batch of the other pipeline is freed with the exception. The garbage collector does not have to run."""
    iterator = DALIGenericIterator([of_source(Faulty(2, ValueError("once"))), of_source(Faulty())], ["x"], size=16)
    gc.disable()
    try:
        next(iterator)
        second, taken = iterator._sessions[1], []
        take = second.take
        second.take = lambda: taken.append(take()) or taken[0]
        with contextlib.suppress(ValueError):  # pytest.raises would keep the exception
            next(iterator)
        second.core.held = None
        references = sys.getrefcount(taken[0])
        assert references == 2  # `taken` and the argument
    finally:
        gc.enable()


@pytest.mark.parametrize("late", [0, 1])
def test_a_pipeline_that_waits_for_its_batch_loses_none(late):
    """After a timeout of one pipeline, the next call gives the whole step. Until then no state can be saved if the other one has given its batch."""
    event = threading.Event()
    pipes = [of_source(Faulty(4, until=event) if k == late else Faulty(), timeout=0.2) for k in range(2)]
    iterator = DALIGenericIterator(pipes, ["x"], size=16)
    assert [next(iterator) and 0 for _ in range(2)] == [0, 0]
    for _ in range(2):
        with pytest.raises(StalledError):
            next(iterator)
        with pytest.raises(StateError, match="not returned yet"):
            iterator.checkpoints()
    event.set()
    rest = [step for step in outcomes(iterator) if step != "StalledError"]  # a slow machine may need longer than the timeout
    assert rest == WHOLE[2:]


@pytest.mark.parametrize("failed", [False, True])
def test_an_interrupt_between_two_pipelines(failed):
    """Ctrl-C while the second pipeline is waited for: the next call gives the batch, or the error, that the first one gave."""
    iterator = DALIGenericIterator([of_source(Faulty(2, ValueError("once") if failed else None)), of_source(Faulty())], ["x"], size=16)
    next(iterator)
    second, take = iterator._sessions[1], iterator._sessions[1].take

    def interrupted():
        second.take = take
        raise Stop

    second.take = interrupted
    with pytest.raises(Stop):
        next(iterator)
    assert outcomes(iterator) == (["ValueError", *WHOLE[2:]] if failed else WHOLE[1:])


@pytest.mark.parametrize("shorter", [0, 1])
def test_pipelines_whose_epochs_differ_are_an_error(shorter):
    pipes = [of_source(Faulty()), of_source(Faulty())]
    pipes[shorter] = counted(4)
    iterator = DALIGenericIterator(pipes, ["x"], size=16)
    steps = []
    with pytest.raises(
        InvalidArgumentError, match=f"pipeline {shorter} of this iterator has ended its epoch after 2 steps, and others have not"
    ):
        while True:
            steps.append(next(iterator))
    assert len(steps) == 2
    with pytest.raises(StopIteration):
        next(iterator)


def test_several_pipelines_need_a_size():
    with pytest.raises(AssertionError, match="needs reader_name or size"):
        DALIGenericIterator([of_source(Faulty()), of_source(Faulty())], ["x"])


@pytest.mark.parametrize("auto_reset", [False, True])
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("reader", [{}, {"pad_last_batch": True}, {"random_shuffle": True}, {"tail": "drop"}])
def test_a_dropped_batch_that_fails_ends_the_epoch_once(files, tmp_path, reader, shards, auto_reset):
    """With DROP the error of a batch that would be dropped comes after the epoch's steps. The next epoch begins where it would have begun."""
    (tmp_path / "bad.jpg").write_bytes(b"no image")

    def make(bad):
        @pipeline_def(batch_size=2, num_threads=1, device_id=None)
        def decoded(shard):
            listed = [str(tmp_path / "bad.jpg" if k == bad else files[k]) for k in range(11)]
            data, label = fn.readers.file(
                files=listed, labels=list(range(11)), name="Reader", shard_id=shard, num_shards=shards, shuffle_seed=3, **reader
            )
            return label, fn.decoders.image(data)

        pipes = [decoded(shard) for shard in range(shards)]
        types = [DALIRaggedIterator.DENSE_TAG, DALIRaggedIterator.SPARSE_LIST_TAG]
        return DALIRaggedIterator(
            pipes, ["x", "image"], reader_name="Reader", output_types=types, last_batch_policy=DROP, auto_reset=auto_reset
        )

    for bad in range(11):
        whole, broken = make(None), make(bad)
        for _ in range(3):
            wanted, found = outcomes(whole), outcomes(broken)
            assert len(wanted) <= len(found) <= len(wanted) + 1 and found[len(wanted) :] in ([], ["CorruptError"])
            for step, given in zip(wanted, found, strict=False):
                assert given == ("CorruptError" if any(bad in part for part in step) else step)
            if not auto_reset:
                whole.reset()
                broken.reset()


def test_several_pipelines(files):
    pipes = [seven(files, num_shards=2, shard_id=i, pad_last_batch=True, random_shuffle=True) for i in range(2)]
    iterator = DALIGenericIterator(pipes, ["label"], reader_name="Reader", last_batch_policy=PARTIAL)
    for _ in range(2):
        steps = list(iterator)
        assert all(len(s) == 2 for s in steps)
        seen = sorted(x for s in steps for d in s for x in d["label"].flatten().tolist())
        assert seen == list(range(1, 8))
        iterator.reset()


def test_classification_and_sharing(tree):
    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def images(layout):
        data, label = fn.readers.file(file_root=str(tree), name="Reader")
        image = fn.resize(fn.decoders.image(data), size=[20, 30])
        return fn.crop_mirror_normalize(image, output_layout=layout), label

    (step,) = next(DALIClassificationIterator(images("CHW"), reader_name="Reader"))
    assert step["data"].shape == (4, 3, 20, 30) and step["data"].dtype is torch.float32
    assert step["label"].shape == (4, 1) and step["label"].dtype is torch.int32
    (last,) = next(DALIClassificationIterator(images("HWC"), reader_name="Reader", channels_last=True))
    assert last["data"].shape == (4, 3, 20, 30)
    assert last["data"].is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(last["data"], step["data"])
    step["data"].zero_()  # the program may write to its tensor


def test_ragged(tree):
    @pipeline_def(batch_size=3, num_threads=2, device_id=None)
    def images():
        data, label = fn.readers.file(file_root=str(tree), name="Reader")
        return fn.decoders.image(data), fn.decoders.image(data, output_type="GRAY"), label

    tags = [DALIRaggedIterator.SPARSE_LIST_TAG, DALIRaggedIterator.SPARSE_COO_TAG, DALIRaggedIterator.DENSE_TAG]
    iterator = DALIRaggedIterator(images(), ["list", "coo", "label"], reader_name="Reader", output_types=tags)
    (step,) = next(iterator)
    assert len(step["list"]) == 3 and len({t.shape for t in step["list"]}) > 1
    dense = step["coo"].to_dense()
    for i, image in enumerate(step["list"]):
        assert dense[i, : image.shape[0], : image.shape[1]].shape[:2] == image.shape[:2]
    assert step["label"].shape == (3, 1)
    with pytest.raises(InvalidArgumentError):
        DALIRaggedIterator(images(), ["a", "b", "c"], output_types=["dense"])
    unequal = DALIGenericIterator(images(), ["a", "b", "label"], reader_name="Reader")
    with pytest.raises(StokerError):
        next(unequal)


def test_feed_ndarray(files):
    (label,) = seven(files).run()
    target = torch.zeros((2, 1), dtype=torch.int32)
    assert feed_ndarray(label, target) is target
    assert target.flatten().tolist() == [1, 2]
    assert feed_ndarray(label[1], torch.zeros(1, dtype=torch.int32)).item() == 2
    with pytest.raises(InvalidArgumentError, match="types"):
        feed_ndarray(label, torch.zeros((2, 1)))
    with pytest.raises(InvalidArgumentError, match="shapes"):
        feed_ndarray(label, torch.zeros((3, 1), dtype=torch.int32))


@pytest.mark.parametrize(
    "arguments",
    [
        {"reader_name": "Reader", "size": 7},
        {"reader_name": "Reader", "last_batch_padded": True},
        {"size": 0},
        {"size": -3},
        {"auto_reset": "perhaps"},
        {"last_batch_policy": "drop"},
    ],
)
def test_wrong_arguments(files, arguments):
    with pytest.raises((ValueError, TypeError)):
        DALIGenericIterator(seven(files), ["label"], **arguments)


def test_wrong_output_map(files):
    with pytest.raises(InvalidArgumentError, match="1 outputs"):
        DALIGenericIterator(seven(files), ["a", "b"])
    with pytest.raises(InvalidArgumentError, match="differ"):
        DALIGenericIterator(seven(files), ["a", "a"])
    with pytest.raises(LookupError, match="Raeder"):
        DALIGenericIterator(seven(files), ["label"], reader_name="Raeder")


@pytest.mark.essential
def test_breaking_a_thousand_times_leaks_nothing(files):
    import gc
    import os

    def memory():
        with open("/proc/self/statm") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def threads():
        return len(os.listdir("/proc/self/task"))

    for k in range(1000):
        iterator = DALIGenericIterator(seven(files), ["label"], reader_name="Reader")
        for _ in iterator:
            break
        del iterator
        if k == 200:
            gc.collect()
            before, started = memory(), threads()
    gc.collect()
    assert threads() <= started + 2
    assert memory() - before < 16e6, f"{(memory() - before) / 800:.0f} bytes a pipeline"


def test_numpy_sees_the_same(files):
    iterator = DALIGenericIterator(seven(files), ["label"], size=7)
    tensor = next(iterator)[0]["label"]
    np.testing.assert_array_equal(tensor.numpy().flatten(), [1, 2])


@pytest.mark.parametrize("batch", [1, 2, 3])
@pytest.mark.parametrize("policy", [FILL, PARTIAL, DROP])
def test_ranks_have_equally_many_steps(files, policy, batch):
    """Runs each rank separately, over several epochs, in order and shuffled. If ranks had different numbers of steps, they would wait for each other
    forever."""

    @pipeline_def(batch_size=batch, num_threads=1, device_id=None)
    def reads(rank, ranks, **how):
        return fn.readers.file(files=[str(f) for f in files[:7]], num_shards=ranks, shard_id=rank, name="Reader", **how)[1]

    for ranks in (2, 3):
        for shuffle, tail in itertools.product(
            (False, True), ({}, {"pad_last_batch": True}, {"tail": "wrap"}, {"tail": "fill"}, {"tail": "drop"})
        ):
            if tail == {"tail": "drop"} and ranks * batch > 7:
                continue
            steps = []
            for rank in range(ranks):
                pipe = reads(rank, ranks, random_shuffle=shuffle, **tail)
                if policy == DROP and 7 // ranks < batch:  # every rank raises the error, although some ranks have one more sample
                    with pytest.raises(RuntimeError, match=r"an epoch \(samples: 2\) is smaller than a batch"):
                        DALIGenericIterator(pipe, ["label"], reader_name="Reader", last_batch_policy=policy, auto_reset=True)
                    continue
                loader = DALIGenericIterator(pipe, ["label"], reader_name="Reader", last_batch_policy=policy, auto_reset=True)
                steps.append([(len(loader), sum(1 for _ in loader)) for _ in range(6)])
            assert all(s == steps[0] for s in steps), f"{ranks} ranks, shuffle={shuffle}, {tail}: {steps}"
            if steps:
                assert all(length == count for length, count in steps[0]), (
                    f"{ranks} ranks, shuffle={shuffle}, {tail}: len() and steps {steps[0]}"
                )


@pytest.mark.parametrize("policy", [FILL, PARTIAL, DROP])
def test_last_batches_of_several_ranks(files, policy):
    """With 7 samples in batches of 3, the second of two ranks has no sample in the last step. It gets one repeated sample, since a batch needs a shape."""

    @pipeline_def(batch_size=3, num_threads=1, device_id=None)
    def reads(rank, ranks, tail):
        return fn.readers.file(
            files=[str(f) for f in files[:7]], labels=list(range(7)), num_shards=ranks, shard_id=rank, tail=tail, name="Reader"
        )[1]

    def of_ranks(tail, ranks=2):
        iterators = [
            DALIGenericIterator(reads(rank, ranks, tail), ["label"], reader_name="Reader", last_batch_policy=policy)
            for rank in range(ranks)
        ]
        steps = [[(step[0]["label"].flatten().tolist(), *iterator.valid_samples) for step in iterator] for iterator in iterators]
        assert all(valid == len(batch) for rank in steps for batch, valid in rank[: None if policy is FILL else 1])
        assert policy is not PARTIAL or ranks == 1 or steps[1][-1] == ([6], 0)
        return [[batch for batch, _ in rank] for rank in steps]

    if policy is not PARTIAL:
        with pytest.raises(InvalidArgumentError, match=f'tail="keep".*LastBatchPolicy.{policy.name} is not .* tail="fill"'):
            of_ranks("keep")
    last = {FILL: [[6, 6, 6]], PARTIAL: [[6]], DROP: []}[policy]
    other = {FILL: [[6, 6, 6]], PARTIAL: [[6]], DROP: []}[policy]
    assert of_ranks("fill") == [[[0, 1, 2], *last], [[3, 4, 5], *other]]
    if policy is PARTIAL:
        assert of_ranks("keep", 1) == of_ranks("fill", 1)
        assert of_ranks("keep") == of_ranks("fill")


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_an_iterator_is_not_copied(files, duplicate):
    """A copy would share the pipeline, so that each of the two would get every other batch."""
    iterator = DALIGenericIterator(seven(files), ["label"], reader_name="Reader")
    with pytest.raises(TypeError, match=r"cannot be pickled or copied: .* Make another pipeline with another iterator"):
        duplicate(iterator)
    assert len(list(iterator)) == 4


def test_any_framework_by_dlpack(files, monkeypatch):
    """DLPackIterator and the iterator for JAX give the batches of the PyTorch iterator, and refuse wrong arguments. NumPy replaces JAX."""
    import sys
    from types import SimpleNamespace

    from stoker.plugin.dlpack import DLPackIterator

    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "jax.dlpack", SimpleNamespace(from_dlpack=np.from_dlpack))
    from stoker.plugin.jax import DALIGenericIterator as JaxIterator

    for policy in (FILL, PARTIAL, DROP):
        want = epochs(DALIGenericIterator(seven(files), ["label"], reader_name="Reader", last_batch_policy=policy), 3)
        made = [DLPackIterator(seven(files), ["label"], np.from_dlpack, reader_name="Reader", last_batch_policy=policy)]
        if policy is not PARTIAL:
            made.append(JaxIterator(seven(files), ["label"], reader_name="Reader", last_batch_policy=policy))
        for iterator in made:
            got = []
            for _ in range(3):
                got.append([step["label"].ravel().tolist() for step in iterator])
                iterator.reset()
            assert got == want, policy
    for wrong, match in [
        (lambda: JaxIterator(seven(files), ["label"], last_batch_policy=PARTIAL), "FILL or DROP"),
        (lambda: JaxIterator(seven(files), ["label"], sharding=object()), "make_array_from"),
        (lambda: DLPackIterator(seven(files), ["a", "b"], np.from_dlpack), "2 names"),
        (lambda: DLPackIterator([seven(files), seven(files)], ["a"], np.from_dlpack), "2 pipelines"),
    ]:
        with pytest.raises(stoker.StokerError, match=match):
            wrong()


@pytest.mark.parametrize("point", ["before", "after"])
def test_an_interrupt_does_not_lose_a_step_that_an_error_has_delayed(monkeypatch, point):
    """A warning that the user has made an error leaves its step for the next call, which may be interrupted before or after it has the step."""

    def source(k):
        if k == 6:
            raise StopIteration
        return [np.int64([k])] * 2

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def of_batches():
        return fn.external_source(source=source)

    iterator = DALIGenericIterator([of_batches()], ["x"])
    steps = [next(iterator), next(iterator)]
    iterator.reset()
    with warnings.catch_warnings(), monkeypatch.context() as patch:
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="in the middle of an epoch"):
            next(iterator)
        take = type(iterator)._take

        def interrupted(self):
            if point == "after":
                take(self)
            raise KeyboardInterrupt

        patch.setattr(type(iterator), "_take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            next(iterator)
    steps += [next(iterator) for _ in range(4)]
    assert [int(step[0]["x"][0, 0]) for step in steps] == list(range(6))
