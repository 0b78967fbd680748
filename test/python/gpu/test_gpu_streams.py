# SPDX-License-Identifier: Apache-2.0
"""Order between the consumer's streams and the pipeline: batches are complete when delivered, and no memory is written while a consumer's stream still has
work on it. The streams are slow on purpose: without this order, a late read or write would reach another batch."""

from __future__ import annotations

import importlib
import threading
from pathlib import Path
from typing import Any

import pytest
from both_sides import make, training
from stoker import Loader, fn
from stoker import transforms as T

CYCLES = 40_000_000  # in cycles of the GPU's clock: about 20 ms


def reference(tree: Path, count: int, **settings: Any) -> list[Any]:
    """Returns the batches that the cores make, as tensors of torch."""
    import torch

    pipe = make(tree, None, **settings)
    return [torch.from_dlpack(pipe.run()[0]).clone() for _ in range(count)]


def take(pipe: Any) -> Any:
    """Returns the next batch's images as a tensor; only this tensor holds the batch."""
    import torch

    tensor = torch.from_dlpack(pipe.run()[0])
    pipe.release_outputs()
    return tensor


@pytest.mark.parametrize("side", [False, True])
def test_slow_readers_see_their_own_batch(torch_cuda, tree: Path, side: bool) -> None:
    torch = torch_cuda
    want = reference(tree, 40)
    pipe = make(tree, prefetch_queue_depth=1, max_batches=3)
    got = []
    with torch.cuda.stream(torch.cuda.Stream() if side else torch.cuda.current_stream()):
        for _ in range(40):
            tensor = take(pipe)
            torch.cuda._sleep(CYCLES)
            got.append(tensor.clone())  # the stream runs this copy late, after the host has released the batch
            del tensor
    torch.cuda.synchronize()
    for step, (a, b) in enumerate(zip(want, got, strict=True)):
        assert torch.equal(a, b.cpu()), f"batch {step} was overwritten before the stream had read it"


@pytest.mark.parametrize("side", [False, True])
def test_slow_writers_do_not_spoil_later_batches(torch_cuda, tree: Path, side: bool) -> None:
    torch = torch_cuda
    want = reference(tree, 40)
    pipe = make(tree, prefetch_queue_depth=1, max_batches=3)
    reading, stream = torch.cuda.Stream(), torch.cuda.Stream()
    for step in range(40):
        with torch.cuda.stream(reading):
            tensor = take(pipe)
            got = tensor.cpu()
        with torch.cuda.stream(stream if side else reading):
            torch.cuda._sleep(CYCLES)
            tensor.fill_(-7.0)
        if side:
            reading.wait_stream(stream)  # torch requires this if a tensor is used on two streams
        del tensor
        assert torch.equal(want[step], got), f"a late write of an earlier batch reached batch {step}"


def test_a_second_stream_that_is_named(torch_cuda, tree: Path) -> None:
    torch = torch_cuda
    want = reference(tree, 30)
    pipe = make(tree, prefetch_queue_depth=1, max_batches=3)
    second = torch.cuda.Stream()
    got = []
    for _ in range(30):
        images, _ = pipe.run()
        images.use_stream(second)
        tensor = torch.from_dlpack(images)
        with torch.cuda.stream(second):
            torch.cuda._sleep(CYCLES)
            got.append(tensor.clone())
        del tensor, images
        pipe.release_outputs()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b.cpu()) for a, b in zip(want, got, strict=True))


def test_stream_given_to_run(torch_cuda, tree: Path) -> None:
    torch = torch_cuda
    want = reference(tree, 20)
    pipe = make(tree, prefetch_queue_depth=1, max_batches=3)
    stream, got = torch.cuda.Stream(), []
    for _ in range(20):
        images, _ = pipe.run(stream)
        capsule = images.__dlpack__(stream=-1)  # -1: DLPack adds no wait, because run() was given the stream
        tensor = torch.utils.dlpack.from_dlpack(capsule)
        with torch.cuda.stream(stream):
            torch.cuda._sleep(CYCLES)
            got.append(tensor.clone())
        del tensor, capsule, images
        pipe.release_outputs()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b.cpu()) for a, b in zip(want, got, strict=True))


def test_batches_are_taken_without_waiting_for_the_gpu(torch_cuda, tree: Path) -> None:
    """Batches are delivered while the consumer's stream is busy, and the host does not wait for it. An allocation waits for the whole GPU, so epochs before the
    measured one must let all batches that can be in flight grow to their largest size."""
    torch = torch_cuda
    loader = Loader(tree, 4, shuffle=True, transforms=[T.RandomResizedCrop(32)], device="cuda", prefetch=4)
    for _ in range(100):
        list(loader)  # in these epochs, more batches are in flight than in the loop below
    batches = iter(loader)
    next(batches)
    torch.cuda.synchronize()
    torch.cuda._sleep(100 * CYCLES)
    done = torch.cuda.Event()
    done.record()
    kept = [next(batches) for _ in range(3)]
    assert not done.query(), "taking batches waited until the consumer's stream was idle"
    torch.cuda.synchronize()
    assert all(b[0].isfinite().all() for b in kept)


def test_held_batches_keep_their_pixels(torch_cuda, tree: Path) -> None:
    torch = torch_cuda
    want = reference(tree, 12)
    pipe = make(tree, prefetch_queue_depth=2, max_batches=16)
    held = [take(pipe) for _ in range(12)]
    assert len({t.data_ptr() for t in held}) == 12
    assert all(torch.equal(a, b.cpu()) for a, b in zip(want, held, strict=True))


def test_cuda_graph_of_a_model(torch_cuda, tree: Path) -> None:
    """A model can be captured as a CUDA graph, and replayed, while a loader runs."""
    torch = torch_cuda
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)).cuda().eval()
    loader = Loader(tree, 4, shuffle=True, last_batch="drop", transforms=[T.RandomResizedCrop(32)], device="cuda", prefetch=4)
    static = torch.zeros(4, 3, 32, 32, device="cuda")
    with torch.no_grad():
        model(static)
        torch.cuda.synchronize()
        for round_ in range(3):
            batches = iter(loader)
            static.copy_(next(batches)[0])  # the Loader's threads run during the capture
            graph = torch.cuda.CUDAGraph()
            # In the capture mode "global", no thread of the process may make calls that a capture forbids.
            with torch.cuda.graph(graph):
                out = model(static)
            for images, _ in batches:
                static.copy_(images)
                graph.replay()
                torch.testing.assert_close(out, model(images), msg=f"round {round_}")


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_cuda_graph_while_loaders_begin_and_end(torch_cuda, tree: Path, mode: str) -> None:
    """A loader that begins, grows or ends during a capture neither fails nor spoils the CUDA graph. A capture forbids some calls, mainly allocations, to all
    threads, and the loader makes such calls then."""
    torch = torch_cuda
    model = torch.nn.Linear(64, 64).cuda().eval()
    data = torch.ones(4, 64, device="cuda")
    stop, laps, failed = threading.Event(), threading.Semaphore(0), []

    def loaders() -> None:
        try:
            with torch.cuda.stream(torch.cuda.Stream()):
                for size in range(16, 4096, 8):
                    if stop.is_set():
                        return
                    with Loader(tree, 4, transforms=[T.Resize((size % 128 + 8, size % 96 + 8))], device="cuda") as loader:
                        next(iter(loader))
                    laps.release()
        except Exception as e:
            failed.append(e)
            laps.release()

    thread = threading.Thread(target=loaders, daemon=True)
    with torch.no_grad():
        want = model(data)
        thread.start()
        try:
            for _ in range(10):
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, capture_error_mode=mode):
                    out = model(data)
                    laps.acquire(timeout=20)  # the other thread ends a loader during the capture
                    laps.acquire(timeout=20)  # then it begins another loader
                graph.replay()
                torch.testing.assert_close(out, want)
        finally:
            stop.set()
            thread.join()
    assert not failed, failed


def test_compiled_model(torch_cuda, tree: Path) -> None:
    torch = torch_cuda
    loader = Loader(tree, 4, last_batch="drop", transforms=[T.Resize((24, 24))], device="cuda")
    config: Any = importlib.import_module("torch._inductor.config")
    step = torch.compile(lambda x: (x.float() * 2 + 1).sum((1, 2, 3)))
    with config.patch(compile_threads=1):  # by default torch starts a process for each core, which takes longer than this compilation
        for images, _ in loader:
            torch.testing.assert_close(step(images), (images.float() * 2 + 1).sum((1, 2, 3)), rtol=1e-4, atol=1e-2)


def test_two_pipelines_at_once(torch_cuda, tree: Path) -> None:
    """Two pipelines in two threads, each on its own stream, give the same batches as on the CPU."""
    torch = torch_cuda
    sizes = (40, 56)
    want = [reference(tree, 15, graph={"size": s}) for s in sizes]
    pipes = [make(tree, graph={"size": s}, prefetch_queue_depth=1, max_batches=3) for s in sizes]
    got: list[list[Any]] = [[], []]

    def consume(k: int) -> None:
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(15):
                tensor = take(pipes[k])
                torch.cuda._sleep(CYCLES // 4)
                got[k].append(tensor.clone())

    threads = [threading.Thread(target=consume, args=(k,), daemon=True) for k in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    torch.cuda.synchronize()
    for a, b in zip(want, got, strict=True):
        assert len(b) == 15 and all(torch.equal(x, y.cpu()) for x, y in zip(a, b, strict=True))


def test_two_devices_at_once(torch_cuda, two_gpus, tree: Path) -> None:
    torch = torch_cuda
    want = reference(tree, 10)
    pipes = [make(tree, d, prefetch_queue_depth=1, max_batches=3) for d in (0, 1)]
    for step in range(10):
        for device, pipe in enumerate(pipes):
            tensor = take(pipe)
            assert tensor.device.index == device and torch.equal(tensor.cpu(), want[step])


def test_tensors_outlive_their_pipeline(torch_cuda, tree: Path) -> None:
    torch = torch_cuda
    want = reference(tree, 3)
    pipe = make(tree)
    held = [take(pipe) for _ in range(3)]
    pipe.close()
    del pipe
    other = make(tree, define=lambda root: (fn.copy(training(root)[0]),))
    for _ in range(4):
        other.run()
    assert all(torch.equal(a, b.cpu()) for a, b in zip(want, held, strict=True))
