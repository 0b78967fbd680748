#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the overhead of a call for each way to bind a C function to PyTorch: microseconds for a gather of one element."""

import time

from common import report, torch  # isort: skip

import stoker.batching as sb
from stoker.batching import _ops
from stoker.batching._native import device_of, lib


def microseconds(function, n=5000):
    for _ in range(200):
        function()
    best = 1e9
    for _ in range(5):
        start = time.process_time()
        for _ in range(n):
            function()
        best = min(best, (time.process_time() - start) / n * 1e6)
    return best


def main():
    torch.set_num_threads(1)
    data, index = torch.zeros(1, 1, 1), torch.zeros(1, 1, dtype=torch.int64)
    leaf, out = data.clone().requires_grad_(), torch.zeros(1, 1, 1)
    sizes = torch.ones(1, dtype=torch.int64)
    ragged = sb.RaggedBatch(index, sample_sizes=sizes)
    device, arguments = device_of(data), (index, sizes, None, None, None, 0.0, 1, False, -1)
    call = (device.handle, 0, 1, 1, 1, 9, False, data.data_ptr(), 1, 0, index.data_ptr(), 0, 1, 8, 0, 0, 0.0, out.data_ptr(), 0)
    report(
        unit="us",
        c_function_from_python=microseconds(lambda: lib.gather(*call)),
        c_function_with_checks_and_output=microseconds(lambda: _ops._gather_run(data, *arguments)),
        autograd_function=microseconds(lambda: _ops.gather(leaf, *arguments)),
        custom_operator=microseconds(lambda: torch.ops.stoker.gather(data, *arguments)),
        custom_operator_with_autograd=microseconds(lambda: torch.ops.stoker.gather(leaf, *arguments)),
        batched_indexing_access=microseconds(lambda: sb.batched_indexing_access(data, ragged)),
        batched_indexing_access_with_grad=microseconds(lambda: sb.batched_indexing_access(leaf, ragged)),
        torch_gather=microseconds(lambda: data.gather(1, index[..., None])),
    )


if __name__ == "__main__":
    main()
