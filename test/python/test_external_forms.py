# SPDX-License-Identifier: Apache-2.0
"""fn.external_source as DALI's users write it: samples, batches, short batches, sources that cycle or repeat, and streams."""

import functools
import json
import threading
import time

import numpy as np
import pytest
from stoker import fn, pipeline_def
from stoker.errors import ArgumentError, InvalidArgumentError, StateError, StokerError
from test_external import pipeline, until_end, values

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.essential
def test_a_short_batch_does_not_end_the_epoch():
    """Only StopIteration ends an epoch, as in DALI: batches after a short one are delivered."""
    sizes = [3, 1, 3, 2, 3]
    given = [[np.int32([k, i]) for i in range(n)] for k, n in enumerate(sizes)]
    want = [[a.tolist() for a in batch] for batch in given]
    pipe = pipeline(given, cycle="raise")
    for _ in range(2):
        assert until_end(pipe) == want
        pipe.reset()
    assert until_end(pipeline(lambda i: given[i] if i < 5 else next(iter(())))) == want
    pipe = pipeline(name="in")
    for batch in given:
        pipe.feed_input("in", batch)
    assert [values(pipe.run()) for _ in given] == want


def test_sources_of_one_pipeline_give_batches_of_one_size():
    @pipeline_def(batch_size=3, num_threads=2, device_id=None)
    def define():
        return fn.external_source(lambda: np.zeros((2, 1)), name="a"), fn.external_source(lambda: np.zeros((3, 1)), name="b")

    with pytest.raises(StokerError, match=r'"a" gave 2 samples, and "b" 3'):
        define().run()


def _numbers(n):
    for k in range(n):
        yield np.int32([k])


class _Calls:
    def __call__(self):
        yield from _numbers(7)


@pytest.mark.parametrize("cycle", [None, "no", "quiet", True, "raise"])
@pytest.mark.parametrize("form", ["list", "generator function", "partial", "object", "generator", "callable"])
def test_one_sample_at_a_time(form, cycle):
    """7 samples in batches of 3: an epoch drops its last sample, as in DALI. Batches of a cycling source continue across the end."""
    running = _numbers(7)
    source = {
        "list": list(_numbers(7)),
        "generator function": lambda: _numbers(7),
        "partial": functools.partial(_numbers, 7),
        "object": _Calls(),
        "generator": running,
        "callable": lambda: next(running),
    }[form]
    if form == "generator function":

        def source():
            yield from _numbers(7)

    if form in ("generator", "callable") and cycle not in (None, "no"):
        with pytest.raises(InvalidArgumentError, match=r"cannot start over|for iterables"):
            pipeline(source, batch=False, cycle=cycle)
        return
    if form == "callable" and cycle == "no":
        return
    pipe = pipeline(source, batch=False, cycle=cycle)
    if cycle in ("quiet", True):
        assert [values(pipe.run()) for _ in range(5)] == [[[(3 * k + i) % 7] for i in range(3)] for k in range(5)]
        return
    once = [[[3 * k + i] for i in range(3)] for k in range(2)]
    assert until_end(pipe) == once
    pipe.reset()
    assert until_end(pipe) == (once if cycle == "raise" else [])


def test_repeat_last_and_blocking():
    pipe = pipeline(name="in", repeat_last=True)
    with pytest.raises(StateError, match="feed_input"):
        pipe.run()
    for k in (1, 2):
        pipe.feed_input("in", np.full((k + 1, 1), k))
        assert [values(pipe.run()) for _ in range(3)] == [[[k]] * (k + 1)] * 3
    pipe = pipeline(name="in", blocking=True)
    pipe.build()
    later = threading.Timer(0.1, pipe.feed_input, ("in", np.full((3, 1), 9)))
    later.start()
    assert values(pipe.run()) == [[9]] * 3
    later.join()


def test_forms_of_samples_and_layouts(rng):
    torch = pytest.importorskip("torch")
    given = rng.integers(0, 255, (3, 4), dtype=np.uint8)
    (earlier,) = pipeline(lambda: given).run()
    for batch in (earlier, earlier.as_tensor(), list(earlier), [t.__dlpack__() for t in torch.from_numpy(given)], tuple(given)):
        np.testing.assert_array_equal(pipeline([batch], outputs=1).run()[0].as_array(), given)
    a, b = pipeline(lambda: (given, given), num_outputs=2, layout=["A"]).run()
    assert (a.layout(), b.layout()) == ("A", "")

    class Stream:
        waits = 0

        def synchronize(self):
            self.waits += 1

    class OnGpu(np.ndarray):
        __cuda_array_interface__ = None

    pipe, stream = pipeline(name="in"), Stream()
    pipe.feed_input("in", given, cuda_stream=stream)
    pipe.feed_input("in", given.view(OnGpu), cuda_stream=stream)
    assert stream.waits == 1
    with pytest.raises(TypeError, match="cuda_stream is a stream"):
        pipe.feed_input("in", given.view(OnGpu), cuda_stream=17)


@pytest.mark.parametrize("copy", [False, True])
def test_a_batch_as_one_array_is_the_batch_as_a_list(rng, copy):
    """The array may have any type and memory layout. If its samples are contiguous in memory, it is read as one buffer, otherwise sample by sample."""
    torch = pytest.importorskip("torch")
    whole = rng.integers(0, 100, (3, 4, 6, 5))
    fixed = whole.astype(np.uint8)
    fixed.flags.writeable = False
    forms = [
        whole,
        fixed,
        whole.astype(">i4"),
        whole.astype(np.float16)[::-1],
        whole[:, 1:, ::2],
        whole[:, 0, 0, 0] > 50,
        whole[:, :0].astype(np.int8),
    ]
    forms += [
        torch.tensor(whole),
        torch.tensor(whole).transpose(1, 3),
        torch.tensor(whole[:, 0, 0, 0]),
        torch.zeros(3, 0),
        np.asfortranarray(whole),
    ]
    for form in forms:
        given = [form, list(form)]
        want = [np.asarray(sample).tolist() for sample in form]
        pipe = pipeline(given, no_copy=not copy)
        assert [values(pipe.run()) for _ in given] == [want, want]
        fed = pipeline(name="in", no_copy=not copy)
        fed.feed_input("in", form)
        assert values(fed.run()) == want


def test_replacing_samples_of_a_source_is_refused():
    with pytest.raises(StokerError, match=r'on_error="replace".*"skip"'):
        pipeline(lambda: np.zeros((3, 1)), settings={"on_error": "replace"}).build()


def test_a_warning_names_a_source_without_a_state_if_checkpoints_are_enabled():
    array = np.zeros((2, 1))
    for source in ([array], iter([array]), lambda: array):
        with pytest.warns(UserWarning, match=r"no state of the source of external_source 'in'") as warned:
            pipeline(source, name="in", settings={"enable_checkpointing": True}).build()
        assert warned[0].filename == __file__
        pipeline(source, name="in").build()
    for source in (lambda i: array, None):
        pipeline(source, name="in", settings={"enable_checkpointing": True}).build()


def _slow_ends(samples):
    def source():
        yield from samples
        time.sleep(0.2)  # the source ends only after the pipeline has delivered its last batch

    return source


@pytest.mark.parametrize("kind", ["list", "generator function", "slow end", "samples", "short end"])
def test_a_state_after_the_last_batch_begins_the_next_epoch(kind):
    """An iterator reports the end of an epoch only when the next batch is requested. A state right after the last batch is already that of the next epoch."""
    batches = [[np.array([3 * k + i], np.int32) for i in range(3)] for k in range(4)]
    samples = [s for batch in batches for s in batch]

    def source():
        return {
            "list": batches,
            "generator function": lambda: (yield from batches),
            "slow end": _slow_ends(batches),
            "samples": samples,
            "short end": [*samples, np.zeros(1, np.int32)],  # a batch that the source does not fill is dropped, as in DALI
        }[kind]

    def open_pipeline(checkpoint=None):
        batch = kind not in ("samples", "short end")
        pipe = pipeline(source(), batch=batch, cycle="raise", settings={"checkpoint": checkpoint})
        pipe.build()
        return pipe

    pipe = open_pipeline()
    taken = [values(pipe.run()) for _ in batches]
    state = pipe.checkpoint()
    assert (json.loads(state)["epoch"], json.loads(state)["consumed"]) == (1, 0)
    assert pipe.checkpoint() == state
    resumed = open_pipeline(state)
    assert [values(resumed.run()) for _ in batches] == taken
    with pytest.raises(StopIteration):  # the pipeline whose state was saved still reports the end of its epoch
        pipe.run()


def _with_memory(kind):
    """Returns a source that continues where it stopped when the next epoch begins, and the arguments for it."""
    batches = [[np.array([k], np.int32)] * 3 for k in range(4)]
    given = iter(batches)
    return {
        "iterator": (given, {}),
        "list that ends for good": (batches, {}),
        "round and round": (batches, {"cycle": "quiet"}),
        "generator function": (lambda: (yield from batches), {}),
        "callable": (lambda: next(given), {}),
    }[kind]


@pytest.mark.parametrize("kind", ["iterator", "list that ends for good", "round and round", "generator function", "callable"])
def test_a_source_that_cannot_restart_is_restored_only_at_the_beginning(kind):
    def steps(k):
        if k == 3:
            raise StopIteration
        return [np.array([k], np.int32)] * 3

    @pipeline_def(batch_size=3, num_threads=2, device_id=None)
    def define():
        source, how = _with_memory(kind)
        return fn.external_source(steps), fn.external_source(source, name="memory", **how)

    pipe = define()
    begun = pipe.checkpoint()
    taken = [values(pipe.run()) for _ in range(3)]
    with pytest.raises(StopIteration):
        pipe.run()
    state = pipe.checkpoint()
    assert (json.loads(state)["epoch"], json.loads(state)["consumed"]) == (1, 0)
    with pytest.raises(StateError, match=r'the source "memory" can\'t continue it.* cycle="raise"'):
        define(checkpoint=state).build()
    again = define(checkpoint=begun)
    assert [values(again.run()) for _ in range(3)] == taken


def test_a_state_does_not_wait_for_a_source_that_waits():
    """A checkpoint does not wait for the source's next batch. The loop may feed the source, so this batch may depend on later steps."""
    more = threading.Event()

    def source():
        yield [np.zeros(1, np.int32)] * 3
        assert more.wait(60)
        yield [np.ones(1, np.int32)] * 3

    pipe = pipeline(source, cycle="raise")
    assert values(pipe.run()) == [[0]] * 3
    assert json.loads(pipe.checkpoint())["consumed"] == 3
    more.set()
    assert values(pipe.run()) == [[1]] * 3
    assert json.loads(pipe.checkpoint())["epoch"] == 1


@pytest.mark.parametrize("by_sample", [False, True])
def test_a_source_that_ends_before_the_reader_is_refused_with_advice(files, by_sample):
    """A source that ends before the reader's epoch is an error, unless cycle="quiet". If its end ended the epoch, samples would be lost."""

    def source():
        for k in range(5 if by_sample else 2):
            yield np.int32([k]) if by_sample else [np.int32([k])] * 3

    @pipeline_def(batch_size=3, num_threads=2, device_id=None)
    def with_a_reader(**how):
        given = fn.external_source(source, batch=not by_sample, name="short", **how)
        return fn.readers.file(files=[str(f) for f in files[:7]], tail="fill")[1], given

    for how in ({}, {"cycle": "raise"}):
        pipe = with_a_reader(**how)
        with pytest.raises(StokerError, match=r'"short" gave 0 samples .* reader has 3: .* as many samples as the reader.* cycle="quiet"'):
            for _ in range(3):
                pipe.run()
    pipe = with_a_reader(cycle="quiet")
    assert [np.array(pipe.run()[1].at(0)).tolist() for _ in range(6)] == [[k * 3 % 5] if by_sample else [k % 2] for k in range(6)]


def test_a_batch_that_is_short_says_so(files):
    @pipeline_def(batch_size=3, num_threads=2, device_id=None)
    def with_a_reader():
        return fn.readers.file(files=[str(f) for f in files[:7]], tail="keep")[1], fn.external_source(lambda k: [np.int32([k])] * 3)

    pipe = with_a_reader()
    pipe.run(), pipe.run()
    with pytest.raises(InvalidArgumentError, match="gave 3 samples, and the batch has room for 1"):
        pipe.run()


# ---- masked arrays ----


@pytest.mark.parametrize("form", ["array", "samples", "lists", "sample", "feed", "function"])
def test_masked_values_are_refused(form):
    """A tensor has no mask: the numbers under it must not appear as data."""
    masked = np.ma.masked_array(np.arange(12, dtype=np.float32).reshape(3, 4), mask=np.eye(3, 4, dtype=bool))

    def run(array):
        if form == "feed":
            pipe = pipeline(name="in")
            pipe.feed_input("in", array)
        elif form == "function":
            pipe = pipeline_def(batch_size=3, num_threads=1, device_id=None)(
                lambda: fn.python_function(fn.external_source(lambda: np.zeros((3, 4), np.float32)), function=lambda _: array[0])
            )()
        elif form == "sample":
            pipe = pipeline(lambda info: array[info.idx_in_batch], batch=False)
        else:
            pipe = pipeline(lambda: {"array": array, "samples": list(array), "lists": [[row] for row in array]}[form])
        return np.ravel(values(pipe.run()))

    with pytest.raises(ArgumentError, match=r"1 of 4 values of a numpy\.ma\.MaskedArray are masked, .* \.filled\(0\)"):
        run(masked)
    assert run(masked.filled(7))[0] == 7
    assert run(np.ma.masked_array(np.ones((3, 4), np.float32))).tolist() == [1] * 12
