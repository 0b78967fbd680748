# SPDX-License-Identifier: Apache-2.0
"""Operators and batches report the device of their values. These tests need no GPU, because building a graph needs none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from stoker import Loader, Pipeline, fn
from stoker.errors import InvalidArgumentError, ShapeError
from stoker.loader._options import device_id_of
from stoker.tensors import TensorListCPU, stream_handle


def test_places_in_a_graph(tree: Path) -> None:
    pipe = Pipeline(batch_size=2, num_threads=1, device_id=0)
    with pipe:
        data, label = fn.readers.file(file_root=str(tree))
        assert data.device == label.device == "cpu"
        image = fn.decoders.image(data, device="mixed")
        assert image.device == "gpu" and fn.resize(image, size=20).device == "gpu" and (image * 2)[0:5].device == "gpu"
        assert fn.decoders.image(data).device == "cpu" and fn.decoders.image(data, device="cpu").device == "cpu"
        assert image.gpu() is image and label.gpu().device == "gpu" and label.cpu() is label
        assert fn.resize(fn.decoders.image(data).gpu(), size=20).device == "gpu"
        assert image.shape().device == "cpu" and image.shape(device="gpu").device == "gpu"
        assert fn.external_source([np.zeros(3)], device="gpu").device == "gpu"
        assert fn.external_source([np.zeros(3)]).device == "cpu"
        assert image.cpu().device == "cpu" and fn.resize(image.cpu(), size=20).device == "cpu"
        with pytest.raises(InvalidArgumentError, match=r"lies on the GPU.*\.cpu\(\)"):
            fn.resize(image, size=20, device="cpu")
        with pytest.raises(InvalidArgumentError, match=r"horizontal.*cores"):
            fn.flip(image, horizontal=label.gpu())
        with pytest.raises(InvalidArgumentError, match=r"subscript.*GPU"):
            image[label.gpu()]
        with pytest.raises(InvalidArgumentError, match="device is"):
            fn.external_source([np.zeros(3)], device="mixed")


def test_without_a_gpu_all_is_on_the_cores(tree: Path) -> None:
    pipe = Pipeline(batch_size=2, num_threads=1)
    with pipe:
        data, label = fn.readers.file(file_root=str(tree))
        image = fn.decoders.image(data, device="mixed")
        assert image.device == label.gpu().device == "cpu" and label.gpu() is label and image.cpu() is image
        pipe.set_outputs(fn.resize(image, size=[9, 8], device="gpu"), label.gpu())
    assert all(isinstance(o, TensorListCPU) for o in pipe.run())


@pytest.mark.parametrize("device, number", [("cpu", None), ("cuda:3", 3), ("gpu:1", 1), (2, 2), ("cuda", 0)])
def test_devices_of_a_loader(device: object, number: int | None) -> None:
    torch = pytest.importorskip("torch")
    if device != "cuda" or not torch.cuda.is_available():
        assert device_id_of(device) == number
    if isinstance(device, str) and not device.startswith("gpu"):
        assert device_id_of(torch.device(device)) == device_id_of(device)


@pytest.mark.parametrize("device", ["cuda:x", "tpu", "cuda:-1", "cuda:", True, None])
def test_no_devices_of_a_loader(device: object) -> None:
    with pytest.raises(InvalidArgumentError, match="device is"):
        device_id_of(device)


def test_a_pipeline_and_a_device_that_disagree(tree: Path) -> None:
    pipe = Pipeline(batch_size=2, num_threads=1)
    with pipe:
        pipe.set_outputs(*fn.readers.file(file_root=str(tree)))
    with pytest.raises(InvalidArgumentError, match="device_id=None"):
        Loader(pipe, device="cuda:0")


def test_streams_by_any_name() -> None:
    assert stream_handle(7) == 7 and stream_handle(SimpleNamespace(cuda_stream=0)) == 0
    assert stream_handle(SimpleNamespace(ptr=12)) == 12 and stream_handle(SimpleNamespace(cuda_stream=99)) == 99
    assert stream_handle(SimpleNamespace(__cuda_stream__=lambda: (0, 33))) == 33


def test_host_batches_are_their_own(tree: Path) -> None:
    """A copy of an output, or of one of its samples, keeps the metadata, occupies no slot of the pipeline, and outlives the pipeline."""
    pipe = Pipeline(batch_size=3, num_threads=2, max_batches=3)
    with pipe:
        data, label = fn.readers.file(file_root=str(tree))
        pipe.set_outputs(fn.decoders.image(data), label)
    kept = []
    for _ in range(12):
        images, labels = pipe.run()
        copy, one = TensorListCPU(images._batch.to_host(0), 0), TensorListCPU(labels._batch.to_host(1, 2), 0)
        for i in range(3):
            np.testing.assert_array_equal(copy.at(i), images.at(i))
            assert copy[i].data_ptr() != images[i].data_ptr() and copy[i].get_property("index") == images[i].get_property("index")
        assert copy.source_info() == images.source_info() and one.source_info() == images.source_info()[2:]
        assert len(one) == 1 and one.is_dense_tensor() and one.as_array()[0] == labels.at(2)
        with pytest.raises(ShapeError, match=r"\.jpg"):
            copy.as_tensor()
        images._batch.use_stream(1)  # the call has no effect, because the batch is in host memory
        kept.append((copy, [np.array(images.at(i)) for i in range(3)]))
    pipe.close()
    for copy, want in kept:
        assert all(np.array_equal(copy.at(i), want[i]) for i in range(3))
    with pytest.raises(InvalidArgumentError):
        images._batch.to_host(5)
