# SPDX-License-Identifier: Apache-2.0
"""Ways in which scripts written for DALI use pipelines: declared outputs, sinks, constants, settings without effect, names that only DALI has."""

from __future__ import annotations

import importlib
import subprocess
import sys

import numpy as np
import pytest
import stoker
from stoker import Pipeline, experimental, fn, ops, pipeline_def, tensors, types
from stoker.errors import ArgumentError, InvalidArgumentError, StateError


def made(define, batch_size=3, **kwargs):
    pipe = Pipeline(batch_size=batch_size, num_threads=2, device_id=None, **kwargs)
    with pipe:
        nodes = define()
        pipe.set_outputs(*(nodes if isinstance(nodes, (tuple, list)) else [nodes]))
    return pipe


@pytest.mark.parametrize(
    ("declared", "match"),
    [
        ({"output_dtype": types.UINT8, "output_ndim": 3}, ""),
        ({"output_dtype": [None], "output_ndim": [3], "output_layout": ["HWC"]}, ""),
        ({"output_dtype": types.FLOAT}, "type DALIDataType.FLOAT was declared, it is DALIDataType.UINT8"),
        ({"output_ndim": 2}, "number of dimensions 2 was declared, it is 3"),
        ({"output_dtype": types.UINT8, "output_layout": "CHW"}, "layout 'CHW' was declared, it is 'HWC'"),
        ({"output_ndim": [3, 3]}, "2 values were declared for the number of dimensions of 1 outputs"),
        ({"output_ndim": -1}, "output_ndim is at least 0"),
    ],
)
@pytest.mark.parametrize("known", [False, True])
def test_declared_outputs_are_checked_as_soon_as_they_are_known(declared, match, known):
    """If a source declares its type, outputs are checked when the pipeline is built. Otherwise the type is known, and checked, with the first batch."""
    kwargs = {"dtype": types.UINT8, "layout": "HWC"} if known else {}

    def define():
        image = fn.external_source(source=lambda: np.zeros((3, 5, 4, 3), np.uint8), **kwargs)
        return image if known else fn.reinterpret(image, layout="HWC")

    if match:
        with pytest.raises(InvalidArgumentError, match=match):
            made(define, **declared).run()
        return
    pipe = made(define, **declared)
    assert pipe.output_ndim() == [3]
    assert pipe.output_dtype() == ([types.UINT8] if known or declared["output_dtype"] == types.UINT8 else [None])
    for _ in range(2):
        assert pipe.run()[0].shape() == [(5, 4, 3)] * 3


@pytest.mark.parametrize("by_batch", [False, True])
def test_functions_without_outputs_are_called(by_batch):
    seen = []

    @pipeline_def(batch_size=3, num_threads=2, device_id=None, prefetch_queue_depth=1)
    def define():
        x = fn.external_source(source=lambda: np.arange(3))
        assert fn.python_function(x, function=lambda v: seen.append(np.sum(v)), num_outputs=0, batch_processing=by_batch) is None
        # No output uses this result, but preserve=True keeps the operator.
        fn.python_function(x, function=lambda v: seen.append(7) or v, preserve=True)
        return x + 1

    pipe = define()
    (out,) = pipe.run()
    pipe.close()
    assert pipe.num_outputs == 1 and out.as_array().tolist() == [1, 2, 3]
    assert seen.count(7) >= 3 and {3} <= set(seen) if by_batch else {0, 1, 2, 7} <= set(seen)
    with pytest.raises(ArgumentError, match="num_outputs=0, but the function returned int"):
        made(lambda: (fn.python_function(fn.random.uniform(), function=lambda v: 1, num_outputs=0), fn.random.uniform())[1]).run()
    with pytest.raises(StateError, match="belongs to a pipeline"):
        fn.python_function(fn.random.uniform(), function=abs, num_outputs=0)


def test_sinks_are_kept_by_files():
    calls = []
    pipe = Pipeline(2, 1, None, seed=3)
    with pipe:
        x = fn.random.uniform(seed=1)
        pipe.add_sink(fn.random.normal(seed=2))
        pipe.set_outputs(x)
    again = Pipeline.deserialize(pipe.serialize())
    assert again.num_outputs == 1 and len(again.run()) == 1 and len(again.output_dtype()) == 1 and not calls
    np.testing.assert_array_equal(again.run()[0].as_array(), (pipe.run(), pipe.run())[1][0].as_array())


def test_arrays_are_constants_of_32_bits():
    x = made(
        lambda: [fn.external_source(source=lambda: np.uint8([[1]])) + c for c in (np.array([2]), np.array([0.5]), np.int64(2), [2])], 1
    )
    assert [o.dtype for o in x.run()] == [types.INT32, types.FLOAT, types.INT64, types.INT32]
    outputs = [
        types.Constant(np.array([2**31]), dtype=types.INT64),
        np.array([[1, 2]]),
        np.array([2**32 - 1], np.uint64),
        np.float64([0.1]),
    ]
    pipe = Pipeline(1, 1, None)
    pipe.set_outputs(*outputs)
    assert [o.dtype for o in pipe.run()] == [types.INT64, types.INT32, types.UINT32, types.FLOAT]
    with pytest.raises(InvalidArgumentError, match="not all of its values fit"):
        types.Constant(np.array([2**31]), device="cpu")


@pytest.mark.parametrize("dtype", [types.UINT8, types.INT16, types.FLOAT])
def test_a_constant_takes_its_argument_dtype_before_its_own(dtype):
    pipe = Pipeline(1, 1, None)
    with pipe:
        pipe.set_outputs(types.Constant(types.ScalarConstant(30, types.INT32), dtype=dtype))
    (out,) = pipe.run()
    assert out.dtype == dtype and out.as_array().item() == 30


def test_settings_are_reported_as_they_were_given():
    @pipeline_def(batch_size=11, prefetch_queue_depth={"cpu_size": 3, "gpu_size": 2})
    def define():
        pipe = Pipeline.current()
        assert (pipe.prefetch_queue_depth, pipe.cpu_queue_size, pipe.gpu_queue_size) == ({"cpu_size": 3, "gpu_size": 2}, 3, 2)
        assert pipe.set_affinity is True and pipe.max_streams == -1 and pipe.enable_memory_stats is False
        return np.float32([1])

    assert define(num_threads=3, device_id=None, set_affinity=True).batch_size == 11
    plain = Pipeline(2, 1, None, prefetch_queue_depth=4, max_streams=5)
    assert (plain.prefetch_queue_depth, plain.cpu_queue_size, plain.gpu_queue_size, plain.max_streams) == (4, 4, 4, 5)


def test_fed_data_keeps_its_layout_and_nodes_keep_their_names():
    pipe = made(lambda: fn.external_source(name="x"))
    pipe.feed_input("x", tensors.TensorListCPU(np.zeros((3, 4, 2), np.float32), "AB"))
    assert pipe.run()[0].layout() == "AB"
    pipe.feed_input("x", tensors.TensorListCPU(np.zeros((3, 4, 2), np.float32), "AB"), layout="HW")
    assert pipe.run()[0].layout() == "HW"
    with Pipeline(1, 1, None):
        assert fn.random.uniform(name="u").name == "u" and fn.random.uniform().name == "random.uniform"
        assert ops.random.Uniform(name="v")().name == "v"


def test_states_are_bytes_and_files_take_them(tmp_path):
    pipe = made(lambda: fn.random.uniform(), seed=4)
    pipe.run()
    state = pipe.checkpoint(tmp_path / "state")
    assert isinstance(state, bytes) and (tmp_path / "state").read_bytes() == state
    want = pipe.run()[0].as_array()
    for given in (state, state.decode(), str(tmp_path / "state")):
        np.testing.assert_array_equal(made(lambda: fn.random.uniform(), checkpoint=given).run()[0].as_array(), want)


def test_a_graph_is_defined_when_it_is_written():
    pipe = Pipeline(2, 1, None)
    for wrong in ("file.json", 42):
        with pytest.raises(TypeError, match="define_graph is a callable"):
            pipe.serialize(wrong)
    again = Pipeline.deserialize(pipe.serialize(lambda: (fn.constant(idata=[1, 2]), fn.constant(fdata=3.0))))
    assert [o.as_array().tolist() for o in again.run()] == [[[1, 2]] * 2, [[3.0]] * 2]


def test_sources_of_a_file_are_fed():
    source = [[np.float32([k] * 2)] * 3 for k in range(2)]
    pipe = made(
        lambda: [fn.external_source(name="x", layout="C") * 2, *fn.external_source(source=source, num_outputs=3, name="y", batch=True)], 3
    )
    again = Pipeline.deserialize(pipe.serialize())
    other = Pipeline(3, 1, None)
    other.deserialize_and_build(pipe.serialize())
    for read in (again, other):
        read.feed_input("x", np.ones((3, 2), np.float32))
        read.feed_input("y", tuple(np.full((3, 1), k) for k in range(3)))
        got = read.run()
        assert [o.as_array().ravel().tolist() for o in got] == [[2] * 6, [0] * 3, [1] * 3, [2] * 3] and got[0].layout() == "C"
        with pytest.raises(StateError, match="call feed_input"):
            read.run()


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda: fn.random.coin_flip() + "a", TypeError),
        (lambda: ([fn.random.coin_flip()],), TypeError),
        (lambda: (None,), TypeError),
        (lambda: fn.external_source(source=5), TypeError),
        (lambda: fn.external_source(source=lambda: np.zeros((3, 4)), layout="HWC"), RuntimeError),
        (lambda: fn.resize(fn.random.coin_flip(), sizes=3), KeyError),
    ],
)
def test_exceptions_are_of_the_types_that_dali_raises(wrong, kind):
    with pytest.raises(kind) as caught:
        made(wrong).run()
    assert isinstance(caught.value, stoker.StokerError)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("stoker", "plugin_manager"),
        ("stoker", "pickling"),
        ("stoker.backend", "GetSchema"),
        ("stoker.backend_impl", "SetHostBufferGrowthFactor"),
        ("stoker.experimental", "dynamic"),
        ("stoker.fn", "hidden"),
        ("stoker.ops", "cpu_ops"),
        ("stoker.pipeline", "StreamPolicy"),
        ("stoker.plugin", "tf"),
        ("stoker.plugin.pytorch", "torch_utils"),
        ("stoker.types", "TENSOR_LAYOUT"),
    ],
)
def test_names_that_only_dali_has_say_what_to_do(module, name):
    with pytest.raises(AttributeError, match="only DALI has it; "):
        getattr(importlib.import_module(module), name)
    if hasattr(importlib.import_module(module), "__path__"):
        with pytest.raises(ModuleNotFoundError, match="only DALI has it; "):
            importlib.import_module(f"{module}.{name}")
    with pytest.raises(ImportError, match="only DALI has it; "):
        exec(f"from {module} import {name}")
    assert not hasattr(experimental, "nothing")
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module("stoker.nothing")
    assert "DALI" not in str(caught.value)


def test_modules_are_attributes_of_the_package():
    """A program can use these modules without importing them, as with DALI."""
    code = "import stoker; print(stoker.pipeline.Pipeline.__name__, stoker.data_node.DataNode.__name__, stoker.experimental.__name__)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["Pipeline", "DataNode", "stoker.experimental"]
