# SPDX-License-Identifier: Apache-2.0
"""TensorCPU and TensorListCPU made from arrays, and methods that change them in place; DALI's names of types and errors; an iterator's size; graphs in DOT."""

import ast
import gc
import json
import weakref
from pathlib import Path

import numpy as np
import pytest
import stoker
from stoker import Pipeline, fn, pipeline_def, types
from stoker.backend_impl import TensorCPU, TensorGPU, TensorListCPU
from stoker.errors import StokerError

pytestmark = pytest.mark.filterwarnings("error")


@pytest.mark.essential
def test_a_tensor_is_over_the_array(rng):
    array = rng.integers(0, 100, (2, 3, 4), dtype=np.int32)
    tensor = TensorCPU(array, "HWC")
    assert (tensor.shape(), tensor.layout(), tensor.dtype, tensor.ndim()) == ([2, 3, 4], "HWC", types.INT32, 3)
    array[0, 0, 0] = -5
    assert np.asarray(tensor)[0, 0, 0] == -5 and tensor.data_ptr() == array.ctypes.data
    for shared in (np.from_dlpack(tensor), np.asarray(memoryview(tensor)), np.asarray(TensorCPU(tensor.__dlpack__()))):
        np.testing.assert_array_equal(shared, array)
    assert tensor.source_info() == "" and tensor.get_property("layout") == "HWC" and tensor.as_cpu() is tensor
    for dtype in ("bool", "uint8", "int64", "float16", "float64"):
        np.testing.assert_array_equal(np.asarray(TensorCPU(array.astype(dtype))), array.astype(dtype))
    np.testing.assert_array_equal(np.asarray(TensorCPU(array[:, ::2])), array[:, ::2])
    assert TensorCPU(np.float32(3)).shape() == [] and TensorCPU(np.zeros((0, 2))).shape() == [0, 2]
    np.testing.assert_array_equal(np.asarray(TensorCPU(b"abc")), np.frombuffer(b"abc", np.uint8))


def test_an_array_lives_as_long_as_what_is_made_of_it():
    class Array(np.ndarray):
        pass

    array = np.arange(6.0).view(Array)
    gone = weakref.ref(array)
    tensor = TensorCPU(array)
    del array
    shared = np.from_dlpack(tensor)
    tensor.set_layout("X")
    del tensor
    gc.collect()
    assert gone() is not None and shared.tolist() == [0, 1, 2, 3, 4, 5]
    del shared
    gc.collect()
    assert gone() is None


def test_squeeze_layout_and_type_in_place():
    for dim, shape, layout, changed in [
        (None, [3, 2], "BD", True),
        (0, [3, 1, 2], "BCD", True),
        (-2, [1, 3, 2], "ABD", True),
        (1, [1, 3, 1, 2], "ABCD", False),
    ]:
        tensor = TensorCPU(np.arange(6).reshape(1, 3, 1, 2), "ABCD")
        assert tensor.squeeze(dim) is changed
        assert (tensor.shape(), tensor.layout(), np.asarray(tensor).ravel().tolist()) == (shape, layout, list(range(6)))
    with pytest.raises(RuntimeError, match="axis 9"):
        tensor.squeeze(9)
    tensor = TensorCPU(np.float32([1, 2]))
    tensor.reinterpret(types.INT32)
    assert tensor.dtype is types.INT32 and np.asarray(tensor)[0] == 0x3F800000
    with pytest.raises(RuntimeError, match="differ in size"):
        tensor.reinterpret(types.FLOAT64)
    with pytest.raises(ValueError, match='layout "AB"'):
        tensor.set_layout("AB")
    (out,) = fn_pipe(lambda: fn.external_source(lambda: np.ones((2, 1, 3), np.uint8), layout="HW")).run()
    sample = out[1]
    assert sample.squeeze() and sample.shape() == [3] and sample.layout() == "W" and out.shape() == [(1, 3)] * 2


def test_lists_are_made_of_arrays(rng):
    array = rng.integers(0, 100, (2, 3, 4), dtype=np.uint8)
    batch = TensorListCPU(array, "HW")
    assert (batch.shape(), len(batch), batch.layout(), batch.is_dense_tensor(), batch.dtype) == ([(3, 4)] * 2, 2, "HW", True, types.UINT8)
    np.testing.assert_array_equal(batch.as_array(), array)
    np.testing.assert_array_equal(batch.at(1), array[1])
    reshaped = batch.as_reshaped_tensor([4, 6])
    assert isinstance(reshaped, TensorCPU) and reshaped.shape() == [4, 6] and reshaped.data_ptr() == array.ctypes.data
    with pytest.raises(RuntimeError, match="24 elements"):
        batch.as_reshaped_tensor([5, 5])
    unequal = TensorListCPU([TensorCPU(np.full((i + 1, 2), i, np.uint8), "AB") for i in range(3)])
    assert (unequal.shape(), unequal.is_dense_tensor(), unequal.layout()) == ([(1, 2), (2, 2), (3, 2)], False, "AB")
    assert np.asarray(unequal.as_reshaped_tensor([12])).tolist() == [0] * 2 + [1] * 4 + [2] * 6
    with pytest.raises(RuntimeError, match="differ in shape"):
        unequal.as_array()
    assert TensorListCPU(batch, "AB").layout() == "AB" and TensorListCPU(array.__dlpack__(), "HW").shape() == [(3, 4)] * 2
    assert TensorListCPU([array, array]).is_dense_tensor() and len(TensorListCPU([])) == 0
    assert TensorListCPU.broadcast(TensorCPU(array, "HWC"), 3).shape() == [(2, 3, 4)] * 3
    assert TensorListCPU.from_dlpack_list([array, array], "HWC").layout() == "HWC"
    assert not TensorListCPU([array, array[:, :2].copy()], contiguous=False).is_dense_tensor()
    batch.reinterpret(types.INT8)
    batch.set_layout("XY")
    assert batch.dtype is types.INT8 and batch.layout() == "XY"
    batch.reset()
    assert batch.shape() == []
    for named in ({"list_of_tensors": [TensorCPU(array)]}, {"b": array[None]}, {"tl": TensorListCPU(array[None])}):
        assert TensorListCPU(**named).shape() == [(2, 3, 4)]
    assert TensorCPU(b=array, layout="HWC").shape() == [2, 3, 4]
    with pytest.raises(TypeError, match="no argument 'lay'"):
        TensorListCPU(array, lay="HW")
    mixed = [TensorCPU(np.zeros((2, 2)), layout) for layout in ("HW", "WH")]
    for wrong in ([np.zeros(2), np.zeros(2, np.int8)], [np.zeros(2), np.zeros((2, 1))], np.float32(3), mixed):
        with pytest.raises(TypeError):
            TensorListCPU(wrong)
    with pytest.raises(TypeError):
        TensorCPU([1, 2])
    with pytest.raises(StokerError, match="external_source"):
        TensorGPU(array)


def fn_pipe(make, **settings):
    @pipeline_def(batch_size=2, num_threads=1, device_id=None, **settings)
    def define():
        return make()

    return define()


def test_made_tensors_feed_pipelines(rng):
    array = rng.random((2, 5), dtype=np.float32)
    for given in (TensorListCPU(array, "X"), [TensorCPU(a) for a in array], TensorCPU(array)):
        pipe = fn_pipe(lambda: fn.external_source(name="in"))
        pipe.feed_input("in", given)
        np.testing.assert_array_equal(pipe.run()[0].as_array(), array)


def test_names_of_types_and_arguments_without_effect(tree):
    assert types.to_dali_type("float32") is types.FLOAT and types.CUDAStream(7).ptr == 7 and types.TensorLayout("HW") == "HW"
    with pytest.raises(AttributeError, match="only DALI has it"):
        types.PYTHON_OBJECT  # noqa: B018

    def make():
        files, labels = fn.readers.file(file_root=str(tree), name="Reader", minibatch_size=4)
        image = fn.decoders.image(files, memory_stats=True, preserve=True, temp_buffer_hint=3, bytes_per_sample_hint=7)
        small = fn.crop(image, crop=(3, 3), output_dtype=types.FLOAT, image_type=types.RGB, seed=5)
        return image, labels, types.ConstantNode("cpu", [1, 2], types.INT16), small

    pipe = fn_pipe(make, exec_async=False, exec_pipelined=False, concurrency=None, stream_policy=None, enable_memory_stats=True)
    _, _, constant, small = pipe.run()
    assert constant.as_array().tolist() == [[1, 2]] * 2 and small.dtype is types.FLOAT
    with pytest.raises(KeyError, match="memory_stats"):
        fn.crop(np.zeros((4, 4, 3), np.uint8), crop=(3, 3), memory_stats=True)
    assert pipe.concurrency is pipe.stream_policy is pipe.output_stream() is None
    assert pipe.external_source_shm_statistics() == {"capacities": [], "per_sample_capacities": []}
    pipe.enable_api_check(False), pipe.start_py_workers()


def test_samples_are_taken_by_number():
    """DALI's lists take no slices either."""
    outputs = TensorListCPU(np.arange(8).reshape(4, 2))
    assert np.asarray(outputs[np.int64(1)]).tolist() == np.asarray(outputs[-3]).tolist() == [2, 3]
    with pytest.raises(TypeError, match=r"list\(outputs\)\[1:3\] is a list of samples; .* outputs\.as_array\(\)\[1:3\] is an array"):
        outputs[1:3]
    with pytest.raises(TypeError, match=r"not \[::2\]: list\(outputs\)\[::2\]"):
        outputs[::2]
    for wrong in ("a", None, [1]):
        with pytest.raises(TypeError, match=f"by number, not by {type(wrong).__name__}"):
            outputs[wrong]
    assert len(outputs.as_array()[1:3]) == len(list(outputs)[1:3]) == 2


def test_errors_are_of_dalis_kinds():
    image = np.zeros((4, 4, 3), np.uint8)
    for kind, match, wrong in [
        (KeyError, "no argument 'siez'", lambda: fn_pipe(lambda: fn.resize(image, siez=3))),
        (KeyError, "no argument 'sauce'", lambda: fn_pipe(lambda: fn.external_source(sauce=3))),
        (KeyError, "no external_source 'y'", lambda: fn_pipe(lambda: fn.external_source(name="x")).feed_input("y", [image])),
        (IndexError, "has no data", lambda: fn_pipe(lambda: fn.external_source(name="x")).run()),
        (RuntimeError, "4 samples", lambda: fn_pipe(lambda: fn.external_source(lambda: [image] * 4)).run()),
        (RuntimeError, "float64", lambda: fn_pipe(lambda: fn.external_source(lambda: [np.zeros(2)] * 2, dtype=types.INT8)).run()),
        (ValueError, "takes 1 inputs", lambda: fn_pipe(lambda: fn.resize(size=3))),
        (NotImplementedError, "no outputs", lambda: Pipeline(1, 1, None).build()),
    ]:
        with pytest.raises(kind, match=match) as caught:
            wrong()
        assert isinstance(caught.value, RuntimeError) and match in str(caught.value), match


def test_the_size_of_an_iterator_and_the_graph_as_dot(tree, tmp_path):
    from stoker.plugin.pytorch import DALIGenericIterator, LastBatchPolicy

    def make(**reader):
        def outputs():
            return fn.readers.file(file_root=str(tree), name="Reader", **reader)[1] + 1

        return fn_pipe(outputs)

    for policy, reader, size in [
        (LastBatchPolicy.FILL, {}, 22),
        (LastBatchPolicy.FILL, {"pad_last_batch": True, "num_shards": 2, "shard_id": 0}, 11),
        (LastBatchPolicy.DROP, {}, 21),
        (LastBatchPolicy.PARTIAL, {"num_shards": 4, "shard_id": 0}, 6),
    ]:
        iterator = DALIGenericIterator(make(**reader), ["label"], reader_name="Reader", last_batch_policy=policy)
        assert iterator._size == iterator.size == size, (policy, reader)
    assert DALIGenericIterator(make(), ["label"], size=10)._size == 10
    pipe = make()
    pipe.save_graph_to_dot_file(tmp_path / "graph.dot")
    text = (tmp_path / "graph.dot").read_text()
    assert "Reader (readers.file, test_tensors_made.py:" in text and "op0 -> op2" in text and "output 0" in text
    assert json.loads(pipe.serialize())["pipeline"]["batch_size"] == 2 and stoker.tensors.TensorListCPU is types.TensorListCPU


MAKERS = set(
    "arange as_tensor asarray bartlett_window blackman_window empty empty_permuted empty_strided eye fftfreq full hamming_window hann_window kaiser_window "
    "linspace logspace nested_tensor ones rand randint randn randperm range rfftfreq scalar_tensor sparse_coo_tensor tensor tril_indices triu_indices "
    "zeros".split()
)
OF_ANY_TYPE = {"arange", "as_tensor", "asarray", "randint", "randperm", "sparse_coo_tensor"}  # their type never is torch's default type


def test_torch_gets_the_device_and_the_type_of_each_tensor():
    """A function of torch without device= makes its tensor on torch.set_default_device(), and one without dtype= may give it torch.set_default_dtype()."""
    wrong = []
    package = Path(__file__).parents[2] / "python" / "stoker"
    for file in sorted(package.rglob("*.py")):
        for call in (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)):
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            name = getattr(owner, "attr", getattr(owner, "id", ""))
            if owner is None or name.strip("_") not in ("torch", "fft", "nested") or call.func.attr not in MAKERS:
                continue
            given = {word.arg for word in call.keywords}
            if "device" not in given or ("dtype" not in given and call.func.attr not in OF_ANY_TYPE):
                wrong.append(f"{file.relative_to(package)}:{call.lineno}: {ast.unparse(call)}")
    assert not wrong, "give device= and dtype= to:\n" + "\n".join(wrong)
