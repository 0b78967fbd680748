# SPDX-License-Identifier: Apache-2.0
"""A consumer that calls the CUDA driver itself, as torch does: it reads or overwrites batches late, on a stream of its own, after it has released them.
It runs in a separate process because the emulated driver reads its settings when a process starts.

usage: driver_consumer.py FOLDER read|write|dlpack|capsules|interface
"""

from __future__ import annotations

import ctypes
import math
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from stoker import Pipeline, fn, types

STEPS, BATCH = 40, 4


class Driver:
    """The few functions of CUDA's driver that a consumer needs. Makes device 0's primary context current on this thread."""

    def __init__(self) -> None:
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context, name = ctypes.c_int(), ctypes.c_void_p(), ctypes.create_string_buffer(100)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDeviceGetName", name, 100, device)
        self.emulated = name.value == b"emulated GPU"
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxPushCurrent_v2", context)

    def call(self, name: str, *args: Any) -> None:
        result = getattr(self.cuda, name)(*args)
        if result:
            raise RuntimeError(f"{name} gave {result}")

    def stream(self) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call("cuStreamCreateWithPriority", ctypes.byref(made), 1, 0)
        return made

    def device_memory(self, size: int) -> ctypes.c_uint64:
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def host_memory(self, size: int) -> ctypes.c_void_p:
        memory = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(memory), ctypes.c_size_t(size), 0)
        return memory


def pipeline(folder: str, device: int | None) -> Pipeline:
    pipe = Pipeline(BATCH, 2, device, 1, prefetch_queue_depth=1, max_batches=3)
    with pipe:
        data, label = fn.readers.file(file_root=folder, random_shuffle=True, shuffle_seed=4)
        image = fn.resize(fn.decoders.image_random_crop(data, device="mixed"), size=[48, 40])
        pipe.set_outputs(fn.crop_mirror_normalize(image, mirror=fn.random.coin_flip(), dtype=types.FLOAT), label.gpu())
    return pipe


def bytes_of(tensor: Any) -> bytes:
    return ctypes.string_at(tensor.data_ptr(), 4 * math.prod(tensor.shape()))


def announce(images: Any, stream: ctypes.c_void_p, how: str) -> Any:
    """Informs the library that the stream uses the batch; the array interface cannot name a stream. Returns the exported object, which has to live as long as
    the tensor, or None for "read" and "write"."""
    if how == "dlpack":
        return images.__dlpack__(stream=stream.value, max_version=(1, 0))
    if how == "capsules":
        return images._batch.capsules(bytes(1), stream.value)
    if how == "interface":
        return images.__cuda_array_interface__
    images.use_stream(stream)
    return None


def main() -> None:
    folder, how = sys.argv[1:]
    reference = pipeline(folder, None)
    want = [bytes_of(reference.run()[0].as_tensor()) for _ in range(STEPS)]
    size = len(want[0])
    driver = Driver()
    # The array interface names no stream, so the consumer uses the legacy default stream.
    stream = ctypes.c_void_p(1) if how == "interface" else driver.stream()
    drag = driver.device_memory(1 << 16 if driver.emulated else 256 << 20)
    pipe = pipeline(folder, 0)
    kept = []
    for step in range(STEPS):
        images, _ = pipe.run()
        pipe.release_outputs()
        if how == "write":
            assert bytes_of(images.as_cpu().as_tensor()) == want[step], f"a late write of an earlier batch reached batch {step}"
        held = announce(images, stream, how)
        for _ in range(2 if driver.emulated else 60):  # keeps the stream busy for some milliseconds before the batch is used
            driver.call("cuMemsetD8Async", drag, ctypes.c_ubyte(step), ctypes.c_size_t(1 << 16 if driver.emulated else 256 << 20), stream)
        address = ctypes.c_uint64(images.data_ptr())
        if how == "write":
            driver.call("cuMemsetD8Async", address, ctypes.c_ubyte(0xEE), ctypes.c_size_t(size), stream)
        else:
            kept.append(driver.host_memory(size))
            driver.call("cuMemcpyDtoHAsync_v2", kept[-1], address, ctypes.c_size_t(size), stream)
        del images, held
    driver.call("cuStreamSynchronize", stream)
    for step, memory in enumerate(kept):
        assert ctypes.string_at(memory, size) == want[step], f"batch {step} was overwritten before the stream had read it"
    print("in order")


if __name__ == "__main__":
    main()
