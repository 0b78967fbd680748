# SPDX-License-Identifier: Apache-2.0
"""Batches on the GPU as Python sees them, and how values get to the GPU. torch is not needed."""

from __future__ import annotations

import ctypes
import pickle
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from both_sides import Output, assert_sides_agree, batches, difference, make, raw
from driver_consumer import Driver
from stoker import Pipeline, backend, fn, types
from stoker.errors import InvalidArgumentError, ShapeError, StokerError
from stoker.tensors import TensorCPU, TensorGPU, TensorListCPU, TensorListGPU
from support import SEED


def raw_values(output: Output) -> list[int]:
    return [data[0] for data in output.data]


def test_outputs_on_the_gpu_have_the_classes_of_the_gpu(tree: Path) -> None:
    images, labels = make(tree).run()
    for output in (images, labels):
        assert isinstance(output, TensorListGPU) and isinstance(output, types.TensorListGPU) and isinstance(output, backend.TensorListGPU)
        assert not isinstance(output, TensorListCPU)
        assert isinstance(output[0], TensorGPU) and not isinstance(output[0], TensorCPU)
        assert isinstance(output.as_cpu(), TensorListCPU) and isinstance(output[0].as_cpu(), TensorCPU)
        assert output.__dlpack_device__() == output[0].__dlpack_device__() == (2, 0)
        assert output.device_id() == output[0].device_id() == 0
    assert images.shape() == [(3, 64, 64)] * 4 and images.as_tensor().shape() == [4, 3, 64, 64]
    assert images.layout() == "CHW" and images.as_tensor().layout() == "NCHW" and images.dtype is types.FLOAT and images.is_dense_tensor()
    assert images[1].data_ptr() - images[0].data_ptr() == 3 * 64 * 64 * 4
    assert 'device="gpu"' in repr(images) and repr(images).startswith("TensorListGPU(") and repr(images[0]).startswith("TensorGPU(")


def test_what_only_host_memory_has_is_refused_with_the_way_out(tree: Path) -> None:
    images, _ = make(tree).run()
    for call, said in {
        lambda: images[1:3]: r"list\(outputs\)\[1:3\] is a list of samples; .* outputs\.as_cpu\(\)\.as_array\(\)\[1:3\] is an array",
        lambda: images.as_array(): r"no attribute 'as_array': outputs\.as_cpu\(\)\.as_array .*from_dlpack\(outputs\.as_tensor\(\)\)",
    }.items():
        with pytest.raises((TypeError, AttributeError), match=said):
            call()
    assert not hasattr(images, "as_arrays") and len(list(images)[1:3]) == 2


def test_values_come_back_inside_a_graph(tree: Path) -> None:
    """After x.cpu(), the cores read the GPU's results as arguments, subscripts and images, and the values return to the GPU. A graph does this twice."""

    def define() -> Any:
        data, label = fn.readers.file(file_root=str(tree), random_shuffle=True)
        image = fn.resize(fn.decoders.image(data, device="mixed"), size=[8, 8])
        host = image.cpu()
        brightness = fn.cast(host[0, 0, 0], dtype=types.FLOAT) / 255.0
        brighter = fn.brightness(image, brightness=brightness)
        again = fn.crop(host.gpu(), crop=[4, 4]).cpu()
        perm = fn.batch_permutation()
        return (
            host,
            host + 1,
            brighter,
            again,
            image.cpu().shape(),
            *(fn.permute_batch(x, indices=perm) for x in (image, host, label.gpu())),
        )

    for found in assert_sides_agree(define, 9, batch_size=4, prefetch_queue_depth=2):
        assert [o.kind for o in found] == ["cpu", "cpu", "gpu", "cpu", "cpu", "gpu", "cpu", "gpu"]
    pipe = Pipeline(batch_size=4, num_threads=1, device_id=0)
    with pipe:
        pipe.set_outputs(*define())
    assert pipe.explain().count("a copy from the GPU to the cores") == 3
    with pytest.raises((StokerError, TypeError), match=r"\.cpu\(\)"):
        list(batches(lambda: fn.brightness(define()[2], brightness=define()[2]), 0, 1))


def test_a_view_of_the_one_host_value_among_those_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """cat passes its only non-empty input through. If that input is in host memory, it must be copied to the GPU."""
    monkeypatch.setenv("STOKER_POISON", "17")  # also makes the library check the addresses of GPU jobs
    samples = [np.arange(n, dtype=np.uint8) for n in (300, 5, 0)]
    rest = [np.arange(n, dtype=np.uint8) for n in (0, 3, 4)]

    def define() -> Any:
        x, empty = fn.external_source(source=[samples], cycle=True), fn.external_source(source=[rest], cycle=True).gpu()
        whole = fn.cat(x, empty, empty, device="gpu")
        return whole, whole + 1

    for found in assert_sides_agree(define, 2, batch_size=3):
        for sample, more, got in zip(samples, rest, found[0].data, strict=True):
            assert got == bytes(np.concatenate([sample, more, more]))


def test_a_value_as_image_and_as_argument() -> None:
    """A value that is an input on the GPU also stays in host memory if the cores read it as an argument."""
    samples = [np.full((1, 1, 1), v, np.uint8) for v in (2, 3, 5)]

    def define() -> Any:
        x = fn.external_source(source=[samples], cycle=True, layout="HWC")
        return fn.brightness(x, brightness=x, device="gpu")

    assert [raw_values(o) for o in assert_sides_agree(define, 1)[0]] == [[4, 9, 25]]


def test_bad_files_and_values_that_come_back(tree: Path, tmp_path: Path) -> None:
    """A file that cannot be decoded is left out of every output: of images that returned to the cores, of labels, and of permuted images."""
    files = sorted(tree.glob("*/*.jpg"))[:8]
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(files[3].read_bytes()[:300])
    files[3] = cut

    def define() -> Any:
        data, label = fn.readers.file(files=[str(f) for f in files])
        image = fn.decoders.image(data, device="mixed")
        return image.cpu(), label, fn.permute_batch(image, indices=[7, 6, 5, 4, 0, 2, 1, 0])

    found = assert_sides_agree(define, 2, batch_size=8, on_error="skip", max_errors=9)
    assert all(len(o.data) == 7 for batch in found for o in batch)


def test_gpu_memory_is_not_read_as_host_memory(tree: Path) -> None:
    images, _ = make(tree).run()
    for thing in (images, images[0], images.as_tensor()):
        with pytest.raises(TypeError, match="as_cpu"):
            np.asarray(thing)
    with pytest.raises(BufferError):
        memoryview(images[0])
    with pytest.raises(AttributeError, match="as_cpu"):
        _ = images[0].__array_interface__
    with pytest.raises((BufferError, RuntimeError)):
        np.from_dlpack(images[0])


def test_copies_in_host_memory(tree: Path) -> None:
    images, labels = make(tree).run()
    whole = images.as_cpu()
    assert whole.source_info() == images.source_info() and whole.as_array().shape == (4, 3, 64, 64)
    for i in range(4):
        assert raw(images[i].as_cpu()) == raw(whole[i])
        assert images[i].as_cpu().source_info() == images.source_info()[i]
        for key in ("epoch", "position", "index", "source_info", "layout"):
            assert images[i].as_cpu().get_property(key) == images[i].get_property(key) == whole[i].get_property(key)
    assert raw(images.as_tensor().as_cpu()) == raw(whole.as_tensor())
    assert labels.as_cpu().as_array().dtype == np.int32
    target = np.empty((4, 3, 64, 64), np.float32)
    images.copy_to_external(target.ctypes.data)
    np.testing.assert_array_equal(target, whole.as_array())
    one = np.empty((3, 64, 64), np.float32)
    images[2].copy_to_external(ctypes.c_void_p(one.ctypes.data))
    np.testing.assert_array_equal(one, whole.at(2))


def test_a_copy_to_the_memory_of_a_gpu_is_refused(tree: Path) -> None:
    """DALI copies outputs on a GPU to an address there. Stoker raises an error for an address on a GPU, and for a null pointer, and accesses no memory
    there."""
    images, _ = make(tree).run()
    address = Driver().device_memory(4 * 3 * 64 * 64 * 4).value
    for tensor in (images, images[1], images.as_tensor()):
        with pytest.raises(InvalidArgumentError, match=r"address lies in the memory of a GPU, .* x\.copy_\(torch\.from_dlpack\(tensor\)\)"):
            tensor.copy_to_external(ctypes.c_void_p(address))
        for null in (0, ctypes.c_void_p(None)):
            with pytest.raises(InvalidArgumentError, match="null pointer"):
                tensor.copy_to_external(null)
    with pytest.raises(InvalidArgumentError, match="null pointer"):
        images.as_cpu().copy_to_external(0)
    with pytest.raises(TypeError, match=r"cannot be pickled: .* take as_cpu\(\) of outputs on a GPU first"):
        pickle.dumps(images)


def test_dlpack_to_the_host_is_a_copy(tree: Path) -> None:
    images, _ = make(tree).run()
    try:
        copied = np.from_dlpack(images[0], device="cpu")
    except TypeError:
        pytest.skip("this NumPy asks for no device")
    np.testing.assert_array_equal(copied, images.as_cpu().at(0))
    for wrong in ({"dl_device": (2, 7)}, {"dl_device": (1, 0), "copy": False}, {"copy": True}):
        with pytest.raises(BufferError):
            images[0].__dlpack__(max_version=(1, 0), **wrong)
    with pytest.raises(ValueError, match="ambiguous"):
        images[0].__dlpack__(stream=0)
    for stream in (None, -1, 1, 2):
        images[0].__dlpack__(stream=stream)


def test_cuda_array_interface(tree: Path) -> None:
    images, labels = make(tree).run()
    about = images.__cuda_array_interface__
    assert about == images.as_tensor().__cuda_array_interface__
    assert about["version"] == 3 and about["shape"] == (4, 3, 64, 64) and about["typestr"] == "<f4" and about["strides"] is None
    assert about["data"] == (images.data_ptr(), False) and about["stream"] is None
    assert labels[0].__cuda_array_interface__["typestr"] == "<i4"
    assert not hasattr(images.as_cpu().as_tensor(), "__cuda_array_interface__")


def test_copies_hold_no_slot(tree: Path) -> None:
    pipe = make(tree, max_batches=4)
    kept = [pipe.run()[0].as_cpu() for _ in range(20)]
    cores = list(batches(lambda: _training(tree), None, 20, batch_size=4))
    for a, b in zip(cores, kept, strict=True):
        assert not difference(a[0], Output.of(b))
    pipe.close()
    assert kept[0].source_info()[0].endswith(".jpg")


def _training(tree: Path):
    from both_sides import training

    return training(tree)


def test_unequal_shapes(tree: Path) -> None:
    def define():
        data, _ = fn.readers.file(file_root=str(tree))
        return fn.decoders.image(data, device="mixed")

    (a,) = next(batches(define, None, 1, batch_size=6))
    pipe = make(tree, define=lambda root: (define(),), batch_size=6)
    (images,) = pipe.run()
    assert not images.is_dense_tensor() and not difference(a, Output.of(images))
    assert [raw(t.as_cpu()) for t in images] == a.data
    with pytest.raises(ShapeError, match=r"\.jpg"):
        images.as_tensor()
    host = images.as_cpu()
    with pytest.raises(ShapeError):
        host.as_tensor()
    assert [host.at(i).shape for i in range(6)] == images.shape()


@pytest.mark.parametrize("no_copy", [False, True])
def test_an_array_fed_from_a_gpu_may_be_written_to(no_copy: bool) -> None:
    """A batch on the GPU that another pipeline made is always copied when it is fed, because it goes through host memory."""
    given = np.random.default_rng(5).integers(1, 255, (3, 40), dtype=np.uint8)
    first, second = Pipeline(batch_size=3, num_threads=2, device_id=0), Pipeline(batch_size=3, num_threads=2, device_id=0)
    with first:
        first.set_outputs(fn.external_source(source=[given], device="gpu"))
    with second:
        second.set_outputs(fn.external_source(name="fed", device="gpu", no_copy=no_copy))
    (batch,) = first.run()
    second.feed_input("fed", batch)
    driver = Driver()
    stream = driver.stream()
    driver.call("cuMemsetD8Async", ctypes.c_uint64(batch[0].data_ptr()), ctypes.c_ubyte(0), ctypes.c_size_t(given.size), stream)
    driver.call("cuStreamSynchronize", stream)
    assert not batch.as_cpu().as_array().any()
    np.testing.assert_array_equal(second.run()[0].as_cpu().as_array(), given)


class OnGpu:
    """An array on the GPU with the interface of CuPy's arrays. It records copies to the host; overwrite() fills its memory with zeros."""

    drivers = threading.local()

    def __init__(self, driver: Driver, values: np.ndarray, device: int = 0) -> None:
        self.driver, self.values, self.device = driver, values, SimpleNamespace(id=device)
        self.fetched: list[int]  # size in bytes of each copy to host memory; parts of the array append to the same list
        self.shape, self.memory, self.fetched = values.shape, driver.device_memory(values.nbytes), []
        values, stream = np.ascontiguousarray(values), driver.stream()
        driver.call("cuMemcpyHtoDAsync_v2", self.memory, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(values.nbytes), stream)
        driver.call("cuStreamSynchronize", stream)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"shape": self.shape, "typestr": self.values.dtype.str, "data": (self.memory.value, False), "version": 3, "strides": None}

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i: int) -> OnGpu:
        part = OnGpu(self.driver, self.values[i], self.device.id)
        part.fetched = self.fetched
        return part

    def copy(self) -> OnGpu:
        if not hasattr(self.drivers, "driver"):
            self.drivers.driver = Driver()  # each thread needs a context of its own
        return OnGpu(self.drivers.driver, self.values)

    def get(self) -> np.ndarray:
        self.fetched.append(self.values.nbytes)
        return self.values.copy()

    def overwrite(self) -> None:
        stream = self.driver.stream()
        self.driver.call("cuMemsetD8Async", self.memory, ctypes.c_ubyte(0), ctypes.c_size_t(self.values.nbytes), stream)
        self.driver.call("cuStreamSynchronize", stream)


@pytest.mark.parametrize("no_copy", [False, True])
def test_what_lies_on_the_gpu_is_read_there(no_copy: bool) -> None:
    rng, driver = np.random.default_rng(8), Driver()
    whole = [OnGpu(driver, rng.integers(0, 255, (4, 9, 7, 3), dtype=np.uint8)) for _ in range(5)]
    lists = [[OnGpu(driver, rng.standard_normal((3 + i, 5), np.float32)) for i in range(4)] for _ in range(5)]
    host = [rng.integers(0, 9, (4, 2), dtype=np.int32) for _ in range(5)]
    mixed = [list(host[k]) if k % 2 else OnGpu(driver, host[k]) for k in range(5)]
    other = [OnGpu(driver, host[k], device=1) for k in range(5)]
    pipe = Pipeline(batch_size=4, num_threads=2, device_id=0, prefetch_queue_depth=2)
    with pipe:
        image, several = (fn.external_source(source=given, device="gpu", no_copy=no_copy) for given in (whole, lists))
        fed = fn.external_source(name="fed", device="gpu", no_copy=no_copy, layout="C")
        pipe.set_outputs(
            image,
            fn.crop_mirror_normalize(image, mirror=1, mean=[1.0], std=[2.0]),
            several * 2,
            fed,
            fn.cast(fn.reductions.max(several, axes=0), dtype=types.FLOAT64),
            *(fn.external_source(source=given, device="gpu") for given in (mixed, other)),
        )
    for k in range(5):
        given = OnGpu(driver, host[k])
        pipe.feed_input("fed", given)
        if not no_copy:
            given.overwrite()
        got = [o.as_cpu() for o in pipe.run()]
        np.testing.assert_array_equal(got[0].as_array(), whole[k].values)
        np.testing.assert_allclose(got[1].as_array(), (whole[k].values[:, :, ::-1].transpose(0, 3, 1, 2) - 1.0) / 2, rtol=1e-6)
        for i in range(4):
            np.testing.assert_array_equal(got[2].at(i), lists[k][i].values * 2)
            np.testing.assert_array_equal(got[4].at(i), lists[k][i].values.max(0))
        assert got[3].layout() == "C"
        for list_of in got[3], got[5], got[6]:
            np.testing.assert_array_equal(list_of.as_array(), host[k])
        assert not given.fetched and not whole[k].fetched and sum(other[k].fetched) == host[k].nbytes


def test_a_short_batch_on_the_gpu_and_one_that_is_too_long() -> None:
    driver = Driver()
    given = [OnGpu(driver, np.arange(6, dtype=np.int16).reshape(3, 2)), OnGpu(driver, np.zeros((5, 2), np.int16))]
    pipe = Pipeline(batch_size=4, num_threads=2, device_id=0)
    with pipe:
        pipe.set_outputs(fn.external_source(source=given, device="gpu"))
    np.testing.assert_array_equal(pipe.run()[0].as_cpu().as_array(), given[0].values)
    with pytest.raises(RuntimeError, match="5 samples, and the batch has room for 4"):
        pipe.run()


def test_what_was_fed_from_torch_on_a_gpu_may_be_written_to(torch_cuda: Any) -> None:
    given = torch_cuda.arange(1, 121, dtype=torch_cuda.uint8, device="cuda").reshape(3, 40)
    want = given.cpu().numpy()
    pipe = Pipeline(batch_size=3, num_threads=2, device_id=0)
    with pipe:
        pipe.set_outputs(fn.external_source(name="fed", device="gpu"))
    pipe.feed_input("fed", given)
    given.zero_()
    torch_cuda.cuda.synchronize()
    np.testing.assert_array_equal(pipe.run()[0].as_cpu().as_array(), want)


def test_values_of_the_host_are_uploaded() -> None:
    rng = np.random.default_rng(3)
    given = [[rng.integers(0, 255, (4 + i, 5), dtype=np.uint8) for i in range(3)] for _ in range(12)]
    pipe = Pipeline(batch_size=3, num_threads=2, device_id=0)
    with pipe:
        mixed = fn.external_source(source=given, device="gpu", layout="HW")
        fed = fn.external_source(name="fed", device="gpu")
        pipe.set_outputs(mixed, fed, fn.external_source(source=given))
    for step in range(12):
        if step % 2:
            pipe.feed_input("fed", [np.int64([step])] * 3)
        else:
            pipe.feed_input(fed, [np.int64([step])] * 3)
        a, b, c = pipe.run()
        assert isinstance(a, TensorListGPU) and isinstance(b, TensorListGPU) and isinstance(c, TensorListCPU)
        assert a.layout() == "HW"
        for i in range(3):
            np.testing.assert_array_equal(a.as_cpu().at(i), given[step][i])
            np.testing.assert_array_equal(c.at(i), given[step][i])
        assert b.as_cpu().as_array().tolist() == [[step]] * 3


def test_serialised_graphs_keep_their_places(tree: Path) -> None:
    pipe = make(tree)
    want = [Output.of(o) for o in pipe.run()]
    text = pipe.serialize()
    again = Pipeline.deserialize(text)
    got = [Output.of(o) for o in again.run()]
    cores = [Output.of(o) for o in Pipeline.deserialize(text, device_id=None).run()]
    for a, b, c in zip(want, got, cores, strict=True):
        assert a.kind == b.kind == "gpu" and c.kind == "cpu"
        assert not difference(c, a) and not difference(c, b)


def test_a_state_moves_between_cores_and_gpu(tree: Path) -> None:
    cores, gpu = make(tree, None), make(tree)
    for _ in range(3):
        cores.run()
    state = cores.checkpoint()
    moved = make(tree, checkpoint=state)
    for _ in range(4):
        want = [Output.of(o) for o in cores.run()]
        assert not any(difference(a, Output.of(b)) for a, b in zip(want, moved.run(), strict=True))
    back = make(tree, None, checkpoint=moved.checkpoint())
    for _ in range(7):
        gpu.run()
    assert not any(difference(Output.of(a), Output.of(b)) for a, b in zip(back.run(), gpu.run(), strict=True))


def test_results_do_not_depend_on_how(tree: Path) -> None:
    reference = list(batches(lambda: _training(tree), None, 8, batch_size=4))
    for settings in (
        {"num_threads": 1},
        {"num_threads": 5},
        {"prefetch_queue_depth": 1},
        {"prefetch_queue_depth": 6},
        {"fuse": False},
        {"read_requests": 1},
    ):
        for a, b in zip(reference, batches(lambda: _training(tree), 0, 8, batch_size=4, **settings), strict=True):
            for x, y in zip(a, b, strict=True):
                assert not difference(x, y), (settings, difference(x, y))


@pytest.mark.parametrize("size", [(83, 96), (83, 95)])
def test_a_first_batch_of_an_unexpected_shape(size: tuple[int, int]) -> None:
    """If the first batch has another shape than the pipeline expects, each sample has its own allocation. Allocations of multiples of 512 bytes are often
    adjacent, but must not be taken for one dense batch."""
    images = [np.random.default_rng(i).random((40 + i, 50, 4), np.float32) for i in range(3)]

    def define():
        return fn.resize(fn.external_source(source=lambda: images, batch=True, layout="HWC").gpu(), size=list(size))

    for (got,) in assert_sides_agree(define):
        assert got.shapes == [(*size, 4)] * 3


def test_a_value_is_read_on_the_gpu_and_on_the_host() -> None:
    """A value is both inputs of an operator that reads one of them in host memory and the other on the GPU."""
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=0, prefetch_queue_depth=1)
    with pipe:
        both = fn.external_source(source=lambda: [np.float32([[2, 3]])] * 2)
        pipe.set_outputs(fn.affine_points(both, both, device="gpu"))
    (mapped,) = pipe.run()
    assert [mapped.as_cpu().at(i).tolist() for i in range(2)] == [[[7, 9]]] * 2


@pytest.mark.parametrize("boxes", [False, True])
def test_points_and_boxes_are_mapped_alike(boxes: bool) -> None:
    rng = np.random.default_rng(SEED)
    for k in (1, 2, 3, 6):
        points = rng.normal(scale=50, size=(3, 200, 2 * k)).astype(np.float32)
        points[0, 0, 0], points[1, 5, -1], points[2, 9, 0] = np.nan, np.inf, -np.inf
        matrices = rng.normal(size=(3, k, k + 1)).astype(np.float32)
        matrices[1, :, 0] = 0

        def define(inputs: Any = (points, matrices)):
            given, transform = fn.external_source(source=[[list(x) for x in inputs]] * 2, batch=True, num_outputs=2)
            return fn.affine_points(given.gpu(), transform, boxes=boxes)

        assert_sides_agree(define)
