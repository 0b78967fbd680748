# SPDX-License-Identifier: Apache-2.0
"""fn.python_function: the user's Python functions in a graph, called by sample or by batch; their results and exceptions."""

import contextlib
import gc
import threading

import numpy as np
import pytest
from stoker import Pipeline, fn, ops, pipeline_def, types
from stoker.errors import InvalidArgumentError, StokerError

pytestmark = pytest.mark.filterwarnings("error")


def pipeline(make, size=4, **settings):
    @pipeline_def(batch_size=size, num_threads=3, device_id=None, seed=3, **settings)
    def define():
        x = fn.external_source(lambda i: [np.full((2 + k, 3, 3), 10 * i + k, np.uint8) for k in range(size)], layout="HWC")
        return make(x)

    return define()


def samples(output):
    return [np.array(t) for t in output]


@pytest.mark.essential
@pytest.mark.parametrize("by_batch", [False, True])
def test_arrays_in_and_out(by_batch):
    def function(x, y):
        assert x.flags.writeable and x.dtype == np.uint8
        x += 1  # the function may write to its argument
        return x[::2, ::-1], np.float32(y.sum()), x.T

    def batch(xs, ys):
        return tuple(map(list, zip(*map(function, xs, ys), strict=True)))

    def make(x):
        y = fn.cast(x, dtype=types.FLOAT)
        made = fn.python_function(
            x, y, function=batch if by_batch else function, num_outputs=3, batch_processing=by_batch, output_layouts=["HWC"]
        )
        return (*made, fn.crop(made[0], crop=(1, 2)), x)

    pipe = pipeline(make)
    for k in range(4):
        a, b, c, d, x = pipe.run()
        assert (a.layout(), b.layout(), c.layout()) == ("HWC", "", "") and b.dtype is types.FLOAT
        for i in range(4):
            given = np.full((2 + i, 3, 3), 10 * k + i, np.uint8)
            np.testing.assert_array_equal(x.at(i), given)
            np.testing.assert_array_equal(a.at(i), given[::2] + 1)
            assert b.at(i) == given.sum()
            np.testing.assert_array_equal(c.at(i), given.T + 1)
            assert d.at(i).shape == (1, 2, 3)


def test_where_functions_may_stand(tree):
    """Functions may follow a decoder or each other, take only draws or no inputs, be classes of ops, or be made before there is a pipeline."""
    scale = ops.PythonFunction(lambda x: (x / 2).astype(np.float32))
    draw = fn.random.uniform(range=[1.0, 2.0])

    @pipeline_def(batch_size=5, num_threads=3, device_id=None, seed=3)
    def define():
        image = fn.decoders.image(fn.readers.file(file_root=str(tree), name="Reader")[0])
        mean = fn.python_function(image, function=lambda x: x.mean((0, 1)), batch_processing=False)
        once = fn.python_function(image, function=lambda xs: [np.int64([len(xs)])] * len(xs), batch_processing=True)
        small = scale(fn.resize(image, size=(4, 4)))
        number = fn.python_function(function=lambda: np.int32(7))
        return (
            image,
            mean,
            once,
            fn.python_function(small, function=lambda x: x * 2),
            number,
            fn.python_function(draw, function=np.sqrt),
            draw,
        )

    pipe = define()
    for _ in range(6):  # six batches of 5 samples reach into the next epoch
        image, mean, once, small, number, root, drawn = pipe.run()
        for i in range(5):
            np.testing.assert_allclose(mean.at(i), image.at(i).mean((0, 1)))
        assert once.as_array().ravel().tolist() == [5] * 5 and number.as_array().tolist() == [7] * 5
        assert small.as_array().shape == (5, 4, 4, 3) and small.dtype is types.FLOAT
        np.testing.assert_array_equal(root.as_array(), np.sqrt(drawn.as_array()))


class Boom(Exception):
    pass


@pytest.mark.parametrize("by_batch", [False, True])
def test_exceptions_arrive_as_they_were(by_batch):
    def function(x):
        if (x[0] if by_batch else x).flat[0] >= 20:
            raise Boom("broken")
        return x

    pipe = pipeline(lambda x: fn.python_function(x, function=function, batch_processing=by_batch))
    pipe.run(), pipe.run()
    with pytest.raises(Boom, match="broken") as caught:
        pipe.run()
    assert any("in the function of python_function" in note and "epoch 0" in note for note in caught.value.__notes__)


def test_bad_samples_are_a_matter_of_policy():
    def function(x):
        if x.flat[0] % 10 == 2:
            raise Boom(f"sample {x.flat[0]}")
        return x

    pipe = pipeline(lambda x: fn.python_function(x, function=function), on_error="skip", max_errors=1000)
    for k in range(25):  # exceptions that no caller collects are dropped once there is no room for more
        assert [t.flat[0] for t in samples(pipe.run()[0])] == [(10 * k + i) % 256 for i in (0, 1, 3)] or k >= 25
    assert "sample 2" in str(pipe.bad_samples()[0]) and "python_function" in str(pipe.bad_samples()[0])


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"function": lambda x: None}, "not NoneType"),
        ({"function": lambda x: (x, x)}, "num_outputs=1, but the function returned a tuple of 2"),
        ({"function": lambda x: [x, x], "num_outputs": 2}, "returned list"),
        ({"function": lambda x: x[0], "output_layouts": "HWC"}, '2 dims, and the layout "HWC"'),
        ({"function": lambda x: x[0] if len(x) == 3 else x}, "output 0 is uint8 with 2 dims"),
        ({"function": lambda x: x.astype(complex)}, "cannot be used"),
        ({"function": lambda xs: xs[1:], "batch_processing": True}, "a batch of 4 samples was given, and the function returned 3"),
        ({"function": lambda xs: 3, "batch_processing": True}, "returned int"),
    ],
)
def test_values_that_cannot_be_outputs(arguments, match):
    pipe = pipeline(lambda x: fn.python_function(x, **arguments))
    with pytest.raises((TypeError, ValueError, StokerError), match=match):
        pipe.run()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"function": 3}, "function is a callable, not int"),
        ({"function": abs, "num_outputs": -1}, "num_outputs is a whole number from 0 on"),
        ({"function": abs, "device": "gpu"}, "in a pipeline without a GPU"),
        ({"function": abs, "outputs": 1}, "no argument 'outputs'"),
        ({"function": abs, "output_layouts": ["A", "B"]}, "output_layouts has 2 values for 1 outputs"),
    ],
)
def test_wrong_arguments(arguments, match):
    with pytest.raises(StokerError, match=match):
        pipeline(lambda x: fn.python_function(x, **arguments)).build()
    with pytest.raises(InvalidArgumentError, match="needs an input"):
        pipeline(lambda x: fn.python_function(function=abs, batch_processing=True)).build()


def test_torch_and_capsules():
    torch = pytest.importorskip("torch")
    from stoker.plugin.pytorch import TorchPythonFunction
    from stoker.plugin.pytorch.fn import torch_python_function

    def make(x):
        def one(t):
            assert isinstance(t, torch.Tensor)
            return t.float().mean(), t.flip(0)

        mean, flipped = torch_python_function(x, function=one, num_outputs=2)
        stacked = TorchPythonFunction(lambda ts: torch.stack([t.sum() for t in ts]), batch_processing=True)(x)
        capsules = fn.dl_tensor_python_function(x, function=lambda cs: [(torch.from_dlpack(c) + 1).__dlpack__() for c in cs])
        empty = torch_python_function(fn.cast(x, dtype=types.BOOL), function=lambda t: t[:0])
        empty = torch_python_function(fn.python_function(empty, function=lambda a: a[:, :2]), function=lambda t: t)
        return x, mean, flipped, stacked, capsules, empty

    x, mean, flipped, stacked, capsules, empty = pipeline(make).run()
    for i in range(4):
        assert mean.at(i) == np.float32(x.at(i).mean()) and stacked.at(i) == x.at(i).sum()
        np.testing.assert_array_equal(flipped.at(i), x.at(i)[::-1])
        np.testing.assert_array_equal(capsules.at(i), x.at(i) + 1)
    assert empty.shape() == [(0, 2, 3)] * 4 and empty.dtype is types.BOOL


def test_functions_run_side_by_side_on_the_pipelines_threads():
    meet = threading.Barrier(2, timeout=20)
    met = threading.Event()

    def function(x):
        if not met.is_set():
            meet.wait()
            met.set()
            meet.abort()
        return x

    with contextlib.suppress(threading.BrokenBarrierError):
        pipeline(lambda x: fn.python_function(x, function=function)).run()
    assert met.is_set()


def test_a_pipeline_in_a_cycle_may_die_inside_its_own_function():
    died = threading.Event()

    class Mine(Pipeline):
        def __del__(self):
            super().__del__()
            died.set()

    def function(x):
        gc.collect()
        return x

    def leave():
        pipe = Mine(batch_size=2, num_threads=2, device_id=None)
        with pipe:
            pipe.set_outputs(fn.python_function(fn.random.uniform(), function=function))
        pipe.run()
        pipe.me = pipe

    leave()
    for _ in range(100):
        if died.wait(0.05):
            break
        gc.collect()
    assert died.is_set()


def test_a_serialised_function_is_missed():
    pipe = pipeline(lambda x: fn.python_function(x, function=lambda x: x))
    with pytest.raises(StokerError, match="has no source"):
        Pipeline.deserialize(pipe.serialize())


@pytest.mark.parametrize("name", ["python_function", "dl_tensor_python_function"])
def test_a_function_has_a_name(name: str) -> None:
    import stoker
    from stoker import fn

    @stoker.pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def pipe() -> object:
        return getattr(fn, name)(np.arange(3), function=lambda x: x, name="mine", preserve=True, bytes_per_sample_hint=3)

    (given,) = pipe().run()
    assert np.asarray(given[1]).tolist() == [0, 1, 2]


@pytest.mark.parametrize("by_batch", [False, True])
def test_stop_iteration_does_not_end_an_epoch(by_batch: bool) -> None:
    """StopIteration from the user's function becomes another error. A loop would take it for the end of the epoch, and leave out the samples that follow."""
    calls = iter(range(5))

    def function(x):
        next(calls)
        return x

    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def define():
        return fn.python_function(fn.random.uniform(), function=function, batch_processing=by_batch)

    pipe = define()
    pipe.build()
    with pytest.raises(RuntimeError, match=r"raised StopIteration.*next\(iterator, default\)") as caught:
        for _ in range(6):
            pipe.run()
    assert "in the function of python_function" in caught.value.__notes__[0]
