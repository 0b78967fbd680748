# SPDX-License-Identifier: Apache-2.0
"""fn.external_source: forms of sources, feed_input, the end of epochs, resuming, exceptions, wrong data."""

import gc
import subprocess
import sys
import traceback
import weakref

import numpy as np
import pytest
from stoker import Pipeline, fn, pipeline_def, types
from stoker.errors import InvalidArgumentError, StateError, StokerError

pytestmark = pytest.mark.filterwarnings("error")


def pipeline(*args, batch_size=3, outputs=None, settings=None, **kwargs):
    @pipeline_def(batch_size=batch_size, num_threads=2, device_id=None, **(settings or {}))
    def define():
        nodes = fn.external_source(*args, **kwargs)
        return tuple(nodes) if isinstance(nodes, list) else nodes

    return define()


def values(outputs):
    return [np.array(t).tolist() for t in outputs[0]]


def until_end(pipe):
    batches = []
    try:
        while True:
            batches.append(values(pipe.run()))
    except StopIteration:
        return batches


def test_sample_mode_with_sample_info():
    seen = []

    def source(info):
        assert isinstance(info, types.SampleInfo)
        seen.append((info.idx_in_epoch, info.idx_in_batch, info.iteration, info.epoch_idx))
        if info.idx_in_epoch >= 9:
            raise StopIteration
        return np.int32([info.idx_in_epoch, info.epoch_idx])

    pipe = pipeline(source, batch=False)
    assert until_end(pipe) == [[[3 * b + i, 0] for i in range(3)] for b in range(3)]
    with pytest.raises(StopIteration):
        pipe.run()
    pipe.reset()
    assert until_end(pipe) == [[[3 * b + i, 1] for i in range(3)] for b in range(3)]
    assert seen[:9] == [(k, k % 3, k // 3, 0) for k in range(9)]


@pytest.mark.parametrize("form", ["none", "iteration", "info"])
def test_batch_mode_callables(form):
    count = iter(range(1000))

    def none():
        return [np.float32([next(count)])] * 3

    def iteration(i):
        return np.full((3, 1), i, np.float32)

    def info(b):
        assert isinstance(b, types.BatchInfo)
        return [np.float32([b.iteration])] * 3

    pipe = pipeline({"none": none, "iteration": iteration, "info": info}[form], batch_info=form == "info")
    assert [values(pipe.run()) for _ in range(3)] == [[[k]] * 3 for k in range(3)]


def batches(n, size=3):
    for k in range(n):
        yield [np.int64([k, i]) for i in range(size)]


@pytest.mark.parametrize("cycle", [None, "quiet", "raise"])
def test_iterables_cycle_or_end(cycle):
    once = [[[k, i] for i in range(3)] for k in range(2)]
    pipe = pipeline(list(batches(2)), cycle=cycle)
    if cycle == "quiet":
        assert [values(pipe.run()) for _ in range(5)] == [once[k % 2] for k in range(5)]
        return
    assert until_end(pipe) == once
    pipe.reset()
    assert until_end(pipe) == (once if cycle == "raise" else [])


def test_generators_end_and_generator_functions_start_again():
    assert len(until_end(pipeline(batches(4)))) == 4
    pipe = pipeline(lambda: next(running))
    running = batches(2)
    assert len(until_end(pipe)) == 2

    def function():
        yield from batches(2)

    pipe = pipeline(function, cycle="raise")
    assert len(until_end(pipe)) == 2
    pipe.reset()
    assert len(until_end(pipe)) == 2
    with pytest.raises(InvalidArgumentError, match="generator cannot start over"):
        pipeline(batches(2), cycle="quiet")


def test_several_outputs():
    def source(info):
        return np.full((2, 2), info.idx_in_epoch, np.uint8), np.int64(info.idx_in_epoch), b"abc"

    pipe = pipeline(source, num_outputs=3, batch=False, layout=["HW", None, None])
    a, b, c = pipe.run()
    assert a.layout() == "HW" and a.as_array().shape == (3, 2, 2) and a.dtype is types.UINT8
    assert b.as_array().tolist() == [0, 1, 2] and b.shape() == [(), (), ()]
    assert c.as_array().tolist() == [[97, 98, 99]] * 3
    (single,) = pipeline(lambda i: (np.int32([1]),), num_outputs=1, batch=False).run()
    assert values((single,)) == [[1]] * 3


@pytest.mark.parametrize(
    "dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64", "bool"]
)
def test_types_pass(dtype, rng):
    given = (rng.random((3, 4, 5)) * 100).astype(dtype)
    (out,) = pipeline(lambda: given, dtype=dtype, ndim=2).run()
    assert out.dtype is types.to_dtype(dtype)
    np.testing.assert_array_equal(out.as_array(), given)


def test_arrays_that_are_not_plain(rng):
    import torch

    base = rng.integers(0, 255, (6, 8), dtype=np.uint8)
    frozen = base.copy()
    frozen.flags.writeable = False
    for given, want in [
        (base[::2, ::-1], base[::2, ::-1]),
        (base.T, base.T),
        (np.asfortranarray(base), base),
        (base.astype(">i4"), base),
        (frozen, base),
        (torch.from_numpy(base), base),
        (torch.from_numpy(base)[:, ::2], base[:, ::2]),
        ([1, 2, 3], np.array([1, 2, 3])),
        (bytearray(b"xyz"), np.frombuffer(b"xyz", np.uint8)),
        (7, np.array(7)),
    ]:
        (out,) = pipeline(lambda info, given=given: given, batch=False, batch_size=1).run()
        np.testing.assert_array_equal(out.at(0), want)


def test_jpegs_from_python(files):
    from PIL import Image

    def source(info):
        return files[info.idx_in_epoch % len(files)].read_bytes()

    @pipeline_def(batch_size=4, num_threads=2, device_id=None)
    def define():
        return fn.decoders.image(fn.external_source(source, batch=False, dtype=types.UINT8))

    (images,) = define().run()
    for image, path in zip(images, files, strict=False):
        np.testing.assert_array_equal(np.asarray(image), np.asarray(Image.open(path).convert("RGB")))


class Boom(Exception):
    pass


@pytest.mark.essential
def test_exceptions_arrive_with_their_traceback_and_place():
    def helper(info):
        raise Boom("broken sample")

    def source(info):
        if info.idx_in_epoch == 4:
            helper(info)
        return np.int32([info.idx_in_epoch])

    pipe = pipeline(source, batch=False)
    assert values(pipe.run()) == [[0], [1], [2]]
    with pytest.raises(Boom, match="broken sample") as caught:
        pipe.run()
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert "helper" in names and "source" in names, names
    assert any("sample 4 of epoch 0" in note for note in caught.value.__notes__)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (lambda: [np.zeros(2)] * 4, "gave 4 samples, and the batch has room for 3"),
        (lambda: None, "not NoneType"),
        (lambda: ["text"] * 3, "not str"),
        (lambda: [{}] * 3, "not dict"),
        (list, "empty batch"),
        (lambda: [np.zeros(2, complex)] * 3, "cannot be used"),
        (lambda: [np.array([object()])] * 3, "object|cannot"),
    ],
)
def test_wrong_data(given, match):
    pipe = pipeline(given)
    with pytest.raises((TypeError, ValueError), match=match):
        pipe.run()


def test_promises_are_checked():
    with pytest.raises((TypeError, ValueError, StokerError), match="float64"):
        pipeline(lambda: [np.zeros(2)] * 3, dtype=types.FLOAT).run()
    with pytest.raises((TypeError, ValueError, StokerError), match="dim"):
        pipeline(lambda: [np.zeros((2, 2))] * 3, ndim=1).run()
    with pytest.raises((TypeError, ValueError, StokerError), match="HWC"):
        pipeline(lambda: [np.zeros((2, 2))] * 3, layout="HWC").run()
    with pytest.raises((TypeError, ValueError), match="num_outputs=2"):
        pipeline(lambda: [np.zeros(2)] * 3, num_outputs=2).run()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"source": 17}, "not int"),
        ({"source": [], "cycle": "twice"}, "cycle must be 'no', 'quiet'"),
        ({"source": None, "cycle": "raise"}, "cycle is only for iterables"),
        ({"source": lambda: 0, "cycle": "raise"}, "cycle is only for iterables"),
        ({"source": lambda: 0, "shape": 3}, "no argument 'shape'"),
        ({"source": lambda: 0, "num_outputs": 2, "layout": ["HW"] * 3}, "3 values of layout for 2 outputs"),
    ],
)
def test_wrong_arguments(arguments, match):
    with pytest.raises(InvalidArgumentError, match=match):
        pipeline(**arguments)


@pytest.mark.essential
def test_feed_input():
    pipe = pipeline(name="in")
    with pytest.raises(StateError, match="feed_input"):
        pipe.run()
    for k in range(4):
        pipe.feed_input("in", np.full((3, 2), k, np.float32))
        assert values(pipe.run()) == [[k, k]] * 3
    pipe.feed_input("in", [np.zeros(1, np.float32)] * 3)
    pipe.feed_input("in", [np.ones(1, np.float32)] * 3)
    assert [values(pipe.run()), values(pipe.run())] == [[[0]] * 3, [[1]] * 3]
    assert np.array(pipe.run(**{"in": np.float32([[0], [1], [2]])})[0]).tolist() == [[0], [1], [2]]
    with pytest.raises(InvalidArgumentError, match="no external_source 'out'"):
        pipe.feed_input("out", [])


def as_given(kind, rng):
    """Returns a batch of 3 samples in one of the forms that users have, the samples' values, and a function that overwrites the batch with zeros."""
    import torch

    base = rng.integers(1, 255, (3, 40), dtype=np.uint8)
    if kind == "torch":
        tensor = torch.from_numpy(base)
        return tensor, base.copy(), tensor.zero_
    if kind == "list":
        return list(base), base.copy(), lambda: base.fill(0)
    if kind == "strided":
        wide = np.repeat(base, 2, axis=1)
        return wide[:, ::2], base.copy(), lambda: wide.fill(0)
    if kind == "read-only view":
        view = base.view()
        view.flags.writeable = False
        return view, base.copy(), lambda: base.fill(0)
    if kind == "bytearrays":
        arrays = [bytearray(row.tobytes()) for row in base]
        return arrays, base.copy(), lambda: [a.__setitem__(slice(None), bytes(40)) for a in arrays]
    if kind == "memoryviews":
        return [memoryview(row) for row in base], base.copy(), lambda: base.fill(0)
    return base, base.copy(), lambda: base.fill(0)


KINDS = ["array", "list", "strided", "read-only view", "torch", "bytearrays", "memoryviews"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fed_array_may_be_written_to(kind, rng):
    given, want, overwrite = as_given(kind, rng)
    pipe = pipeline(name="in")
    pipe.feed_input("in", given)
    overwrite()
    np.testing.assert_array_equal(pipe.run()[0].as_array(), want)


def test_memoryviews_keep_their_type_and_shape():
    numbers = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    pipe = pipeline(name="in")
    pipe.feed_input("in", [memoryview(n) for n in numbers])
    (out,) = pipe.run()
    assert out.dtype is types.FLOAT
    np.testing.assert_array_equal(out.as_array(), numbers)


@pytest.mark.parametrize("form", ["callable", "generator", "sample"])
def test_a_source_may_fill_one_array_again_and_again(form):
    same = np.zeros((3, 1000), np.int32)

    def per_batch(i):
        same[:] = i
        return same

    def generator():
        for i in range(20):
            yield per_batch(i)

    def per_sample(info):
        same[0, :] = info.idx_in_epoch
        return same[0]

    if form == "sample":
        pipe = pipeline(per_sample, batch=False)
        want = [[[3 * k + i] * 1000 for i in range(3)] for k in range(12)]
    else:
        pipe = pipeline(per_batch if form == "callable" else generator)
        want = [[[k] * 1000] * 3 for k in range(12)]
    assert [values(pipe.run()) for _ in want] == want


@pytest.mark.parametrize("no_copy", [False, True])
def test_only_what_may_change_is_copied(no_copy):
    """The pipeline holds the array itself if no_copy=True, otherwise a copy. Bytes objects cannot change and are never copied."""

    class Array(np.ndarray):
        pass

    array = np.zeros((3, 5), np.uint8).view(Array)
    kept = weakref.ref(array)
    text = bytes(range(27))  # not a constant, because a free-threaded CPython does not count references to constants
    pipe = pipeline(name="in", no_copy=no_copy)
    pipe.feed_input("in", array)
    del array
    gc.collect()
    assert (kept() is not None) == no_copy
    before = sys.getrefcount(text)
    other = pipeline(name="in", no_copy=no_copy)
    other.feed_input("in", [text] * 3)
    assert sys.getrefcount(text) >= before + 3
    assert values(other.run()) == [list(text)] * 3


@pytest.mark.parametrize("fed", [False, True])
@pytest.mark.parametrize(
    ("second", "match"),
    [
        (np.zeros((3, 4), np.float64), '"in" gave float64, where its first batch was float32'),
        (np.zeros((3, 4, 1), np.float32), '"in" gave samples of 2 dim'),
    ],
)
def test_a_source_keeps_type_and_dims(fed, second, match):
    batches = [np.zeros((3, 4), np.float32), np.ones((3, 9), np.float32), second]
    pipe = pipeline(name="in") if fed else pipeline(batches, name="in")
    for batch in batches[:2]:
        if fed:
            pipe.feed_input("in", batch)
        assert values(pipe.run()) == batch.tolist()
    if fed:
        pipe.feed_input("in", second)
    with pytest.raises(StokerError, match=match):
        pipe.run()


def test_no_callable_runs_ahead_without_bounds():
    calls = []
    pipe = pipeline(lambda info: calls.append(1) or np.zeros(1), batch=False)
    pipe.run()
    import time

    time.sleep(0.3)
    assert len(calls) <= 3 * (1 + pipe.prefetch_queue_depth + 2)


def test_buffers_are_given_back():
    refs = []

    class Array(np.ndarray):
        pass

    def source(info):
        a = np.zeros(100, np.uint8).view(Array)
        refs.append(weakref.ref(a))
        return a

    pipe = pipeline(source, batch=False, no_copy=True)
    for _ in range(30):
        pipe.run()
    alive = sum(r() is not None for r in refs)
    assert alive <= 3 * (pipe.prefetch_queue_depth + 4), f"{alive} of {len(refs)}"
    pipe.close()
    del pipe
    gc.collect()
    assert sum(r() is not None for r in refs) <= 3


def test_closing_gives_arrays_back_at_once():
    """The arrays of unfinished batches are freed by close(), although the garbage collector does not run and the pipeline is still referenced."""
    refs = []

    class Array(np.ndarray):
        pass

    def source(info):
        a = np.zeros(100, np.uint8).view(Array)
        refs.append(weakref.ref(a))
        return a

    pipe = pipeline(source, batch=False, no_copy=True)
    gc.disable()
    try:
        for _ in range(5):
            pipe.run()
        pipe.close()
        assert len(refs) >= 15
        assert [k for k, r in enumerate(refs) if r() is not None] == []
    finally:
        gc.enable()


def test_a_source_that_holds_its_pipeline_is_collected():
    class Owner:
        def __init__(self):
            self.pipe = pipeline(self.source, batch=False)

        def source(self, info):
            return np.zeros(1)

    owner = Owner()
    owner.pipe.run()
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None


def test_garbage_collected_by_its_own_source():
    """The garbage collector may free a pipeline in a reference cycle on any thread, even on the one that calls the pipeline's source."""
    code = """
import gc, time
import subprocess
import sys

import numpy as np
from stoker import Pipeline, fn
gc.disable()
died = []
def source(info):
    time.sleep(0.01)
    gc.collect()
    return np.zeros(3, np.float32)
class Loop(Pipeline):
    def __del__(self):
        died.append(True)
        super().__del__()
def leave():
    pipe = Loop(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        pipe.set_outputs(fn.external_source(source, batch=False))
    pipe.run()
    pipe.me = pipe
leave()
until = time.monotonic() + 30
while not died and time.monotonic() < until:
    time.sleep(0.01)
time.sleep(0.1)
assert died
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def _samples_of(info):
    if info.idx_in_epoch >= 14:  # the last two samples do not fill a batch
        raise StopIteration
    return np.array([info.idx_in_epoch, info.idx_in_batch, info.iteration, info.epoch_idx], np.int32)


def _batch_of(info):
    if info.iteration >= 4:
        raise StopIteration
    return [np.array([info.iteration, info.epoch_idx, i], np.int32) for i in range(3 if info.iteration < 3 else 2)]


def _drawing(source, batch_size=3, checkpoint=None, **kwargs):
    """Returns a pipeline whose outputs are the source's values and random numbers, both of which a resumed run must repeat."""

    @pipeline_def(batch_size=batch_size, num_threads=2, device_id=None, seed=None if checkpoint else 12, checkpoint=checkpoint)
    def define():
        return fn.external_source(source, name="given", **kwargs), fn.random.uniform(range=[0.0, 1.0])

    return define()


def _epochs(pipe, count, states=None):
    batches = []
    for _ in range(count):
        try:
            while True:
                outputs = pipe.run()
                batches.append([[np.array(t).tolist() for t in o] for o in outputs])
                if states is not None:
                    states.append((pipe.checkpoint(), len(batches)))
        except StopIteration:
            pipe.reset()
    return batches


@pytest.mark.parametrize("kind", ["SampleInfo", "BatchInfo", "iteration"])
def test_callables_of_a_place_resume_exactly(kind):
    source = {"SampleInfo": _samples_of, "BatchInfo": _batch_of, "iteration": lambda i: _batch_of(types.BatchInfo(i, 0))}[kind]
    settings = {"batch": kind != "SampleInfo", "batch_info": kind == "BatchInfo"}
    states = []
    whole = _epochs(_drawing(source, **settings), 3, states)
    assert len(whole) == len(states) == 12
    for state, taken in states:
        assert len(state) < 1024
        rest = _drawing(source, checkpoint=state, **settings)
        assert rest.seed == 12
        # A state after an epoch's last batch belongs to this epoch: the run must still report its end.
        assert _epochs(rest, 3 - (taken - 1) // 4) == whole[taken:], f"after {taken} batches"


def test_iterators_in_mid_epoch_are_refused():
    pipe = _drawing(_batch_of, batch_info=True)
    pipe.run()
    state = pipe.checkpoint()
    for source in (iter([[np.zeros(3, np.int32)] * 3] * 4), [[np.zeros(3, np.int32)] * 3] * 4, lambda: [np.zeros(3, np.int32)] * 3):
        with pytest.raises(StateError, match=r"\"given\" can't continue it"):
            _drawing(source, checkpoint=state).build()
    with pytest.raises(StateError, match=r"\"given\" can't begin there"):
        _drawing([[np.zeros(3, np.int32)] * 3] * 4, checkpoint=state, cycle="raise").build()
    with pytest.raises(StateError, match="does not lie between two batches of 2"):
        _drawing(_batch_of, batch_size=2, checkpoint=state, batch_info=True).build()


def test_fed_input_resumes_with_the_next_fed_batch():
    def fed(checkpoint=None):
        pipe = _drawing(None, checkpoint=checkpoint)
        pipe.build()
        return pipe

    def run(pipe, k):
        pipe.feed_input("given", [np.full(2, 10 * k + i, np.int32) for i in range(3)])
        return [[np.array(t).tolist() for t in o] for o in pipe.run()]

    pipe = fed()
    before = [run(pipe, k) for k in range(2)]
    state = pipe.checkpoint()
    after = [run(pipe, k) for k in range(2, 5)]
    resumed = fed(state)
    assert [run(resumed, k) for k in range(2, 5)] == after != before


def test_tensors_that_are_views_of_another_sign():
    """torch may store a tensor as a flag over another tensor's memory, here with the opposite sign. Such a tensor gives its own values, although NumPy
    refuses to share its memory."""
    torch = pytest.importorskip("torch")
    opposite = torch._neg_view(torch.arange(3.0))
    assert values(pipeline(lambda: [opposite] * 3).run()) == [[0.0, -1.0, -2.0]] * 3


@pytest.mark.parametrize("wrong", [{"num_outputs": 1.5}, {"name": 5}, {"layout": 5}, {"ndim": "x"}, {"ndim": [1.5]}], ids=str)
def test_arguments_of_other_kinds_are_named(wrong):
    with pytest.raises(InvalidArgumentError, match=f"test_external.py:[0-9]+: {next(iter(wrong))} takes a"):
        pipeline(lambda: [np.zeros(2)] * 3, **wrong)


@pytest.mark.parametrize("per_sample", [True, False])
def test_a_rank_without_samples_asks_its_source_for_a_repeat(tmp_path, per_sample):
    """Five samples leave the second of two ranks without a sample in the last step. It gets the last sample again."""
    asked = []

    def sample(info):
        asked.append(info.idx_in_epoch)
        return np.array([info.idx_in_epoch])

    def batch(number):
        asked.append(number)
        return np.array([[number]])

    for k in range(5):
        np.save(tmp_path / f"{k}.npy", np.float32([k]))

    @pipeline_def(batch_size=1, num_threads=2, device_id=None)
    def define():
        read = fn.readers.numpy(file_root=str(tmp_path), num_shards=2, shard_id=1, tail="keep")
        return read, fn.external_source(sample if per_sample else batch, batch=not per_sample)

    pipe = define()
    got = [[[np.array(t).tolist() for t in output] for output in pipe.run()] for _ in range(6)]
    assert got == 2 * [[[[1.0]], [[0]]], [[[3.0]], [[1]]], [[[4.0]], [[2]]]]
    assert asked[:6] == [0, 1, 2, 0, 1, 2]


# ---- sources that no output needs, layouts, and feeding one of several outputs ----


def test_a_source_that_no_output_needs_is_not_called(files):
    """Neither the source nor the operators that read it run, as in DALI."""

    def fails():
        raise ValueError("called")

    @pipeline_def(batch_size=2, num_threads=2, device_id=None)
    def beside_a_source():
        used = fn.external_source(lambda i: [np.full(2, i, np.uint8)] * 2)
        unused = fn.external_source(fails)
        fn.external_source(name="fed")
        fn.pad(fn.resize(unused, size=4) + used, axes=[0])
        return used, used

    @pipeline_def(batch_size=2, num_threads=2, device_id=None)
    def beside_a_reader():
        fn.external_source(fails)
        fn.external_source(name="fed")
        return fn.readers.file(files=[str(f) for f in files[:4]])[1]

    for make in (beside_a_source, beside_a_reader):
        pipe = make()
        for k in range(3):
            pipe.feed_input("fed", [np.zeros(2, np.uint8)] * 2)
            out = pipe.run()[0]
            assert make is beside_a_reader or np.array(out[0]).tolist() == [k, k]


def test_a_source_decides_when_epochs_end_if_nothing_else_does():
    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def constant():
        fn.external_source([[np.zeros(1)]] * 2)
        return fn.constant(idata=[5])

    pipe = constant()
    assert [np.array(pipe.run()[0][0]).tolist() for _ in range(2)] == [[5], [5]]
    with pytest.raises(StopIteration):
        pipe.run()


@pytest.mark.parametrize("form", ["list", "tensors", "samples", "two"])
def test_an_output_of_another_pipeline_keeps_its_layout(form):
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def makes():
        return fn.external_source([[np.zeros((4, 5, 3), np.uint8)] * 2], cycle=True, layout="HWC")

    made = makes().run()[0]

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def takes():
        if form == "two":
            return tuple(fn.external_source(lambda: (made, [np.zeros(3)] * 2), num_outputs=2))
        source = {"list": lambda: made, "tensors": lambda: [made[0], made[1]], "samples": lambda: made[0]}[form]
        return fn.external_source(source, batch=form != "samples")

    assert [out.layout() for out in takes().run()] == ["HWC", ""][: 1 + (form == "two")]


def test_each_of_several_outputs_is_fed_by_its_node():
    class Fed(Pipeline):
        def define_graph(self):
            self.first, self.second = fn.external_source(num_outputs=2)
            return self.first, self.second

        def iter_setup(self):
            self.feed_input(self.second, [np.full(3, 2.0)] * 2)
            self.feed_input(self.first, [np.ones(2, np.uint8)] * 2, layout="X")

    pipe = Fed(2, 1, None)
    for _ in range(3):
        first, second = pipe.run()
        assert first.layout() == "X" and np.array(first[1]).tolist() == [1, 1] and np.array(second[0]).tolist() == [2, 2, 2]
    both = Fed(2, 1, None)
    both.iter_setup = lambda: None
    both.build()
    both.feed_input(
        both.first, ([np.ones(2, np.uint8)] * 2, [np.zeros(3)] * 2)
    )  # feeds all outputs of the source at once, through one of them
    both.feed_input(both.first, [np.ones(2, np.uint8)] * 2)
    assert len(both._started()._fed[0][1].queue) == 1


@pytest.mark.parametrize("failing_first", [True, False])
@pytest.mark.parametrize("other", ["fed", "generator"])
@pytest.mark.parametrize("depth", [1, 3])
def test_sources_stay_at_the_same_batch_after_one_has_failed(failing_first, other, depth):
    def failing(k):
        if k in (1, 2, 5):
            raise ValueError(f"batch {k}")
        return [np.array([100 * k], np.int32)]

    def add_other():
        if other == "fed":
            return fn.external_source(name="fed")
        return fn.external_source(source=([np.array([k], np.int32)] for k in range(9)))

    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=depth)
    with pipe:
        first = fn.external_source(source=failing) if failing_first else add_other()
        second = add_other() if failing_first else fn.external_source(source=failing)
        pipe.set_outputs(*((second, first) if failing_first else (first, second)))
    pipe.build()
    found = []
    for k in range(8):
        if other == "fed":
            pipe.feed_input("fed", [np.array([k], np.int32)])
        try:
            found.append([int(np.array(t.at(0))[0]) for t in pipe.run()])
        except ValueError as e:
            found.append(str(e).split(":")[0].split("\n")[0])
    assert [f if isinstance(f, list) else None for f in found] == [None if k in (1, 2, 5) else [k, 100 * k] for k in range(8)]


class Rewinding:
    """A source as in NVIDIA's examples, which begins its next epoch before it raises StopIteration. bad: the batch at which it fails once."""

    def __init__(self, count, bad=None):
        self.count, self.bad, self.next = count, bad, 0

    def __iter__(self):
        self.next = 0
        return self

    def __next__(self):
        if self.next == self.count:
            self.next = 0
            raise StopIteration
        self.next += 1
        if self.next - 1 == self.bad:
            self.bad = None
            raise ValueError("a bad batch")
        return [np.array([self.next - 1], np.int32)]


@pytest.mark.parametrize("depth", [1, 3])
def test_a_source_ends_the_epoch_at_the_batch_at_which_another_one_fails(depth):
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=depth)
    with pipe:
        pipe.set_outputs(*(fn.external_source(source=s, cycle="raise") for s in (Rewinding(5, 3), Rewinding(3))))
    pipe.build()
    found = []
    for _ in range(12):
        try:
            found.append([int(np.array(t.at(0))[0]) for t in pipe.run()])
        except ValueError:
            found.append("failed")
        except StopIteration:
            found.append("end")
            pipe.reset()
    epoch = [[0, 0], [1, 1], [2, 2]]
    assert found == [*epoch, "failed", "end", *epoch, "end", *epoch]


@pytest.mark.parametrize("failing_first", [True, False])
def test_a_failed_batch_is_the_last_one_if_another_source_says_so(failing_first):
    def short(sample):  # called for each sample: its epoch ends at the second batch
        if sample.idx_in_epoch == 3:
            raise StopIteration
        return np.array([sample.idx_in_epoch], np.int32)

    def failing(info):
        if info.iteration == 1 and info.epoch_idx == 0:
            raise ValueError("a bad batch")
        return [np.array([10 * info.iteration], np.int32)] * 2

    pipe = Pipeline(batch_size=2, num_threads=1, device_id=None)
    with pipe:
        one = fn.external_source(source=failing, batch=True, batch_info=True)
        other = fn.external_source(source=short, batch=False)
        pipe.set_outputs(*((one, other) if failing_first else (other, one)))
    pipe.build()
    found = []
    for _ in range(4):
        try:
            found.append([np.array(t.as_tensor())[:, 0].tolist() for t in pipe.run()][:: 1 if failing_first else -1])
        except ValueError:
            found.append("failed")
        except StopIteration:
            found.append("end")
            pipe.reset()
    assert found == [[[0, 0], [0, 1]], "failed", "end", [[0, 0], [0, 1]]]
