#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: B023 - functions are called in the loop that makes them
"""Compares batched assignment with SciPy in a loop (CPU, two threads) and with torch-linear-assignment (CUDA, input and result on the GPU).

Two kinds of costs: `uniform` are random numbers; `detr` are L1 distances between random boxes plus a cost of the class, as a detector's loss has. Every result
is compared with SciPy's, index by index."""

import statistics
import sys
import time

from common import interleaved, report, torch  # isort: skip
import numpy as np
import stoker.batching as sb
from scipy.optimize import linear_sum_assignment

SETS = [(48, 900, 68, "uniform"), (48, 900, 68, "detr"), (208, 300, 100, "uniform"), (208, 300, 100, "detr"), (48, 900, 300, "uniform"),
        (48, 900, 300, "detr"), (1, 900, 60, "uniform"), (1, 900, 60, "detr")]  # fmt: skip


def costs(rng, b, q, g, kind):
    if kind == "uniform":
        return rng.random((b, q, g)).astype(np.float32)
    boxes, targets = rng.random((b, q, 1, 4)), rng.random((b, 1, g, 4))
    return (5 * np.abs(boxes - targets).sum(-1) + 2 * rng.random((b, q, 10))[:, :, rng.integers(0, 10, g)]).astype(np.float32)


def same(got, reference):
    rows, cols = got.rows.tensor.cpu().numpy(), got.cols.tensor.cpu().numpy()
    return all((rows[i] == r).all() and (cols[i] == c).all() for i, (r, c) in enumerate(reference))


def on_cpu(cost, reference, row):
    torch.set_num_threads(2)
    tensor = torch.from_numpy(cost)
    cpu_ratio, wall_ratio, ours, theirs = [], [], [], []
    for _ in range(7):
        t = (time.process_time(), time.perf_counter())
        for problem in cost:
            linear_sum_assignment(problem)
        u = (time.process_time(), time.perf_counter())
        sb.linear_sum_assignment(tensor)
        v = (time.process_time(), time.perf_counter())
        cpu_ratio.append((u[0] - t[0]) / (v[0] - u[0]))
        wall_ratio.append((u[1] - t[1]) / (v[1] - u[1]))
        ours.append(1e3 * (v[1] - u[1]))
        theirs.append(1e3 * (u[1] - t[1]))
    report(**row, device="cpu", equal=same(sb.linear_sum_assignment(tensor), reference), scipy_ms=statistics.median(theirs),
           ours_ms=statistics.median(ours), times_faster=statistics.median(wall_ratio), cpu_time_ratio=statistics.median(cpu_ratio),
           spread=[round(min(wall_ratio), 2), round(max(wall_ratio), 2)])  # fmt: skip


def on_gpu(cost, reference, row):
    tensor = torch.from_numpy(cost).cuda()
    turned = tensor.transpose(1, 2).contiguous().transpose(1, 2)  # the memory layout of the tensors that detection_cost returns
    functions = {"ours": lambda: sb.linear_sum_assignment(tensor), "ours_query_dense": lambda: sb.linear_sum_assignment(turned)}
    try:
        import torch_linear_assignment as tla

        functions["tla"] = lambda: tla.batch_linear_assignment(tensor)
    except ImportError:
        pass

    def host():
        problems = tensor.cpu().numpy()
        rows, cols = zip(*[linear_sum_assignment(p) for p in problems], strict=False)
        return torch.from_numpy(np.stack(rows)).cuda(), torch.from_numpy(np.stack(cols)).cuda()

    functions["scipy_with_copies"] = host
    times = {}
    for inner, names in ((20, [n for n in functions if n != "scipy_with_copies"]), (1, ["scipy_with_copies"])):
        times.update(interleaved({n: functions[n] for n in names}, repeats=7, inner=inner))
    report(**row, device="cuda", equal=same(functions["ours"](), reference) and same(functions["ours_query_dense"](), reference),
           **{f"{n}_ms": t[0] for n, t in times.items()}, **({"of_tla": times["ours"][0] / times["tla"][0]} if "tla" in times else {}),
           spread=[round(x, 4) for x in times["ours"][1:]])  # fmt: skip


def complexity():
    """Measures how the time per problem grows with its size. In the worst case, time is proportional to rows^2 x cols; with random costs it is about rows x
    cols times the average length of an augmenting path."""
    rng = np.random.default_rng(1)
    for q, g in [(100, 100), (200, 200), (400, 400), (800, 800), (900, 25), (900, 50), (900, 100), (900, 200), (900, 400), (900, 800)]:
        tensor = torch.from_numpy(costs(rng, 2, q, g, "uniform"))
        t = time.process_time()
        sb.linear_sum_assignment(tensor)
        t = time.process_time() - t
        extra = {}
        if torch.cuda.is_available():
            extra["cuda_ms"] = interleaved({"x": lambda: sb.linear_sum_assignment(tensor.cuda())}, 3, 3)["x"][0]
        report(problems=2, Q=q, G=g, cpu_ms_a_problem=t * 500, cpu_ns_per_row_col=t / 2 * 1e9 / (q * g), **extra)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    for b, q, g, kind in SETS:
        cost = costs(rng, b, q, g, kind)
        reference = [linear_sum_assignment(c) for c in cost]
        row = dict(problems=b, Q=q, G=g, kind=kind)
        if "cuda" not in sys.argv[1:]:
            on_cpu(cost, reference, row)
        if torch.cuda.is_available():
            on_gpu(cost, reference, row)
    if "complexity" in sys.argv[1:]:
        complexity()
