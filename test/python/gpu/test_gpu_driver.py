# SPDX-License-Identifier: Apache-2.0
"""Tests that need a CUDA driver but not torch: order of streams; on the emulated driver also failing functions, a lost device and little memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from both_sides import emulated
from support import run_script

HERE = Path(__file__).parent


@pytest.fixture
def emulator() -> None:
    if not emulated():
        pytest.skip("this is no emulated driver")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("how", ["read", "write", "dlpack", "capsules", "interface"])
def test_streams_are_waited_for(tree: Path, how: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A consumer that uses the driver itself reads or writes its batches in the right order, even late. The emulated driver starts each operation late, as
    STOKER_EMULATED_CUDA says; a real GPU ignores this variable."""
    if how == "interface" and emulated():
        pytest.skip("its default stream orders nothing but itself")
    monkeypatch.setenv("STOKER_EMULATED_CUDA", f"async delay=3000 seed={seed}")
    done = subprocess.run([sys.executable, HERE / "driver_consumer.py", str(tree), how], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and done.stdout == "in order\n", f"seed {seed}\n{done.stdout}{done.stderr}"


PROGRAM = """
import sys
from stoker import Pipeline, fn
from stoker.errors import StokerError
def run(device, **kwargs):
    pipe = Pipeline(4, 2, device, 1, **kwargs)
    with pipe:
        data, label = fn.readers.file(file_root=sys.argv[1])
        image = fn.resize(fn.decoders.image(data, device="mixed"), size=[40, 40])
        pipe.set_outputs(fn.crop_mirror_normalize(image), label.gpu())
    return [[bytes(o.as_cpu().as_tensor()) for o in pipe.run()] for _ in range(8)]
want = run(None)
try:
    assert run(0) == want, "the results differ"
    print("fine")
except StokerError as e:
    print(f"{e.code}: {e}")
assert run(None) == want
"""


def outcome(tree: Path, words: str) -> str:
    done = run_script(PROGRAM, str(tree), STOKER_EMULATED_CUDA=words)
    assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout.strip()


@pytest.mark.parametrize(
    "function", ["cuMemAlloc", "cuMemHostAlloc", "cuEventCreate", "cuStreamCreateWithPriority", "cuModuleLoadData", "cuModuleGetFunction"]
)
def test_a_failing_call_of_the_driver_is_an_error(emulator: None, tree: Path, function: str) -> None:
    """If the Nth call fails, an error names the GPU or its memory, or the cores do the work. There is no crash, no hang, and no wrong pixel."""
    outcomes = [outcome(tree, f"{how}fail={function}:{n}") for n in range(1, 6) for how in ("", "async ")]
    assert any(t != "fine" for t in outcomes), f"no call of {function} failed"
    if function in ("cuMemAlloc", "cuMemHostAlloc"):
        assert all(t == "fine" or "memory" in t.lower() for t in outcomes), outcomes


@pytest.mark.parametrize("function", ["cuLaunchKernel", "cuMemcpyHtoDAsync", "cuEventRecord", "cuStreamWaitEvent"])
def test_what_fails_on_the_way_is_an_error(emulator: None, tree: Path, function: str) -> None:
    for n in (1, 2, 7, 30):
        outcome(tree, f"async fail={function}:{n}")


@pytest.mark.parametrize("operations", [1, 10, 60])
def test_a_lost_device_is_an_error(emulator: None, tree: Path, operations: int) -> None:
    assert outcome(tree, f"async lost={operations}") != "fine"


def test_a_small_gpu(emulator: None, tree: Path) -> None:
    assert "memory" in outcome(tree, "memory=64K").lower()
    assert outcome(tree, "memory=1G") == "fine"


LIMITS = """
import sys
from stoker import Pipeline, fn
def define(**kwargs):
    pipe = Pipeline(64, 2, 0, 1, **kwargs)
    with pipe:
        data, label = fn.readers.file(file_root=sys.argv[1])
        pipe.set_outputs(fn.resize(fn.decoders.image(data), size=[64, 64]).gpu(), label.gpu())
    pipe.build()
    return pipe
print(next(line for line in define().explain().splitlines() if "of the GPU" in line))
pipe = define(gpu_memory_limit=1 << 20)
for _ in range(200):
    pipe.run()
    if "that limit kept" in pipe.explain():
        break
print(pipe.explain())
"""


@pytest.mark.parametrize(("memory", "limit"), [("2G", 512), ("24G", 928), ("141G", 4512)])
def test_limit_by_what_is_free(emulator: None, tree: Path, memory: str, limit: int) -> None:
    """The default limit is a 32nd of the memory, but at least 928 MiB, and at most a quarter of the memory. If batches waited because of the limit, a
    message says so, and names a limit with room for them."""
    done = run_script(LIMITS, str(tree), STOKER_EMULATED_CUDA=f"memory={memory} async delay=2000")
    assert done.returncode == 0, done.stdout + done.stderr
    first, *rest = done.stdout.splitlines()
    assert limit - 8 <= int(first.split()[2]) <= limit, first
    said = [line for line in rest if "that limit kept it at 2 batches" in line]
    assert len(said) == 1 and "gpu_memory_limit=" in said[0], rest


COPY = """
import ctypes
import sys
import numpy as np
from stoker import Pipeline, fn
cuda, context, stream = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) and not cuda.cuCtxPushCurrent_v2(context)
assert not cuda.cuStreamCreateWithPriority(ctypes.byref(stream), 1, 0)
pipe = Pipeline(4, 2, 0, 1)
with pipe:
    data, _ = fn.readers.file(file_root=sys.argv[1])
    pipe.set_outputs(fn.resize(fn.decoders.image(data, device="mixed"), size=[256, 256]))
for k in range(1, 20):
    (out,) = pipe.run(stream.value)
    size = ctypes.c_size_t(4 * 256 * 256 * 3)
    assert not cuda.cuMemsetD8Async(ctypes.c_uint64(out.data_ptr()), ctypes.c_ubyte(k), size, stream)
    assert (np.array(out.as_cpu().as_tensor()) == k).all(), k
print("in order")
"""


def test_a_copy_sees_what_the_consumer_wrote(tree: Path) -> None:
    done = run_script(COPY, str(tree), STOKER_EMULATED_CUDA="async delay=3000")
    assert done.stdout == "in order\n", done.stdout + done.stderr


ROOM = """
import ctypes
import sys
import time
from stoker import Pipeline, fn, types
pipe = Pipeline(8, 4, 0, 1, prefetch_queue_depth=2, decode="gpu")
with pipe:
    data, _ = fn.readers.file(file_root=sys.argv[1])
    pipe.set_outputs(fn.resize(fn.decoders.image(data, device="mixed"), size=[512, 512], dtype=types.FLOAT))
pipe.build()
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) and not cuda.cuCtxPushCurrent_v2(context)
for k in range(40):
    if k == 4:
        time.sleep(0.5)  # as many batches are ready now as the pipeline wants
        free, all, taken = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
        while not taken.value:  # the pipeline may allocate between the two calls
            assert not cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(all))
            cuda.cuMemAlloc_v2(ctypes.byref(taken), ctypes.c_size_t(free.value - (12 << 20)))
    pipe.run()
    if k < 4:
        time.sleep(0.3)
print("fine")
"""


def test_the_user_takes_the_rest_of_the_memory(emulator: None, tree: Path) -> None:
    """If there is no memory for one more slot, the pipeline goes on with those that it has."""
    done = run_script(ROOM, str(tree), STOKER_EMULATED_CUDA="memory=2G")
    assert done.stdout == "fine\n", done.stdout + done.stderr


HELD = """
import ctypes
import sys
import time
import numpy as np
from stoker import Pipeline, fn, types
settings = {"max_batches": 5} if sys.argv[1] == "hard" else {}
pipe = Pipeline(4, 2, 0, 1, prefetch_queue_depth=1, **settings)
with pipe:
    data = fn.external_source(source=lambda: [np.zeros((8, 8, 3), np.uint8)] * 4, layout="HWC")
    pipe.set_outputs(fn.resize(data.gpu(), size=[512, 512], dtype=types.FLOAT))
pipe.build()
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) and not cuda.cuCtxPushCurrent_v2(context)
for _ in range(3):
    last = pipe.run()
time.sleep(0.5)  # as many batches are ready now as the pipeline wants
free, all, taken = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
while not taken.value:  # the pipeline may allocate between the two calls
    assert not cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(all))
    cuda.cuMemAlloc_v2(ctypes.byref(taken), ctypes.c_size_t(free.value - (10 << 20)))
for _ in range(12):
    last = pipe.run()
assert not cuda.cuMemFree_v2(taken)
kept = [last]
for _ in range(10):
    kept = [*kept[-2:], pipe.run()]
print("fine")
"""


@pytest.mark.parametrize("limit", ["hard", "soft"])
def test_memory_that_comes_back_is_used(emulator: None, limit: str) -> None:
    """While memory is short, a consumer that holds a batch gets the next one; when memory has come back, it may hold more."""
    done = run_script(HELD, limit, STOKER_EMULATED_CUDA="memory=2G")
    assert done.stdout == "fine\n", done.stdout + done.stderr


FREES = """
import ctypes
import numpy as np
from stoker import Pipeline, fn
rng = np.random.default_rng(1)
pipe = Pipeline(4, 2, 0, 1, prefetch_queue_depth=1)
with pipe:
    data = fn.external_source(source=lambda: [np.zeros(int(n), np.uint8) for n in rng.integers(1 << 17, 1 << 20, 4)])
    pipe.set_outputs(data.gpu())
held = []
for k in range(300):
    held.append(pipe.run())
    if len(held) > 60:
        held.clear()
print(ctypes.CDLL("libcuda.so.1").emulated_calls())
"""


def test_nothing_is_freed_while_a_pipeline_runs(emulator: None) -> None:
    """Freeing memory waits for the user's work on the GPU. Memory that is replaced, here because shapes vary and batches are kept, is freed at the end."""
    done = run_script(FREES, STOKER_EMULATED_CUDA="memory=64G fail=cuMemFree:0")
    assert done.stdout == "0\n", done.stdout + done.stderr


DROPS = """
import ctypes
import sys
import threading
import numpy as np
from stoker import Pipeline, fn
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) and not cuda.cuCtxPushCurrent_v2(context)
pipe = Pipeline(4, 2, 0, 1, prefetch_queue_depth=1)
with pipe:
    data = fn.external_source(source=lambda: [np.zeros(1 << 20, np.uint8)] * 4)
    pipe.set_outputs(data.gpu())
held = [pipe.run() for _ in range(60)]  # 240 MiB
done = threading.Event()
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def function(_):
    done.wait()
assert not cuda.cuLaunchHostFunc(None, function, None)
held.clear()
done.set()
pipe.run()
pipe.close()
assert not cuda.cuCtxSynchronize()
print("fine", cuda.emulated_calls() > 0)
"""


def test_no_wait_for_a_host_function(emulator: None) -> None:
    """A function that the user's stream calls may need Python's lock, which the thread that drops batches holds. So this thread must not wait for the GPU,
    although it drops more memory than is kept."""
    done = run_script(DROPS, STOKER_EMULATED_CUDA="async memory=8G fail=cuMemFree:0")
    assert done.stdout == "fine True\n", done.stdout + done.stderr


LAST = """
import ctypes
import sys
import threading
import numpy as np
from stoker import Pipeline, fn
cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) and not cuda.cuCtxPushCurrent_v2(context)
def available():
    free, all = ctypes.c_size_t(), ctypes.c_size_t()
    assert not cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(all))
    return free.value
before = available()
pipe = Pipeline(4, 2, 0, 1, prefetch_queue_depth=1)
with pipe:
    data = fn.external_source(source=lambda: [np.zeros(1 << 20, np.uint8)] * 4)
    pipe.set_outputs(data.gpu())
batches = [pipe.run() for _ in range(3)]
assert available() < before
held = batches if sys.argv[1] == "batch" else [b[0].as_tensor().__dlpack__() for b in batches]
pipe.close()
del pipe, data, batches
done = threading.Event()
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def function(_):
    done.wait()
assert not cuda.cuLaunchHostFunc(None, function, None)
held.pop()
held.clear()
done.set()
assert not cuda.cuCtxSynchronize()
while available() < before:
    pass
print("fine")
"""


@pytest.mark.parametrize("kind", ["batch", "capsule"])
def test_no_wait_for_a_host_function_after_the_pipeline(emulator: None, kind: str) -> None:
    """The thread that drops the last tensors of a closed pipeline holds Python's lock too. Other threads free the memory."""
    done = run_script(LAST, kind, STOKER_EMULATED_CUDA="async memory=8G")
    assert done.stdout == "fine\n", done.stdout + done.stderr


OTHERS = """
import ctypes
import threading
import numpy as np
from stoker import Pipeline, fn
cuda, context, stream = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) and not cuda.cuCtxPushCurrent_v2(context)
assert not cuda.cuStreamCreateWithPriority(ctypes.byref(stream), 1, 0)
pipe = Pipeline(2, 2, 0, 1, prefetch_queue_depth=1)
with pipe:
    small = fn.external_source(source=lambda: [np.full(2, 7, np.uint8)] * 2)
    large = fn.external_source(source=lambda: [np.full(1 << 21, 9, np.uint8)] * 2)
    pipe.set_outputs(small.gpu(), large.gpu())
done = threading.Event()
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def function(_):
    done.wait()
small, large = pipe.run()
large.use_stream(stream)
assert not cuda.cuLaunchHostFunc(stream, function, None)
print(np.array(small.as_cpu().as_tensor()).tolist())
done.set()
print(np.array(large.as_cpu().as_tensor()).max())
"""


def test_a_copy_waits_only_for_its_own_readers(emulator: None) -> None:
    done = run_script(OTHERS, STOKER_EMULATED_CUDA="async")
    assert done.stdout == "[[7, 7], [7, 7]]\n9\n", done.stdout + done.stderr


RAGGED = """
import ctypes
import numpy as np
from stoker import Pipeline, fn
cuda, context, stream = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_void_p()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) and not cuda.cuCtxPushCurrent_v2(context)
assert not cuda.cuStreamCreateWithPriority(ctypes.byref(stream), 1, 0)
pipe = Pipeline(8, 2, 0, 1, prefetch_queue_depth=1, max_batches=2)
with pipe:
    pipe.set_outputs(fn.external_source(source=lambda: [np.full(n + 1, n, np.uint8) for n in range(8)]).gpu())
held = [pipe.run()[0], pipe.run()[0]]  # all that the pipeline may make, so that it rests
held[1].use_stream(stream)
before = cuda.emulated_calls()
copy = held[1].as_cpu()
print(cuda.emulated_calls() - before, [np.asarray(t).tolist() for t in copy] == [[n] * (n + 1) for n in range(8)])
"""


def test_a_copy_of_different_samples_waits_once(emulator: None) -> None:
    done = run_script(RAGGED, STOKER_EMULATED_CUDA="async fail=cuEventCreate:0")
    assert done.stdout == "1 True\n", done.stdout + done.stderr
