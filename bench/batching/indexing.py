#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares each indexing function, forward and backward, with the complete PyTorch sequence that gives the same result (sizes, negative indices, filler,
no reads out of range): eager, and inside a CUDA graph. StreamPETR's sizes: 48 problems of 900 queries with 5..79 objects, 10 box values; and 8
samples of 900 queries with 256 features."""

import statistics

from common import captured, interleaved, report, torch  # isort: skip

import stoker.batching as sb


def places(index, sizes, extent):
    """Returns (ok, wrapped). wrapped: the indices, with negative ones counted from the end, some of which may be out of range. ok: a mask of the valid ones."""
    wrapped = torch.where(index < 0, index + extent, index)
    ok = (torch.arange(index.shape[1], device=index.device) < sizes[:, None]) & (wrapped >= 0) & (wrapped < extent)
    return ok, wrapped


def spread(index, data):
    return index[..., None].expand(-1, -1, data.shape[2])


def plain_access(data, index, sizes, filler=0.0):
    ok, wrapped = places(index, sizes, data.shape[1])
    out = data.gather(1, spread(torch.where(ok, wrapped, 0), data))
    return torch.where(ok[..., None], out, filler)


def plain_write(rows, index, sizes, base):
    ok, wrapped = places(index, sizes, base.shape[1])
    spare = torch.cat([base, base[:, :1]], 1)  # values that must not be written go to an extra row, which is cut off afterwards
    return spare.scatter(1, spread(torch.where(ok, wrapped, base.shape[1]), rows), rows)[:, : base.shape[1]]


def plain_inverse(rows, index, sizes, extent, filler=0.0):
    return plain_write(rows, index, sizes, torch.full((rows.shape[0], extent, rows.shape[2]), filler, device=rows.device))


def plain_mapping(data, source, target, sizes, base):
    return plain_write(plain_access(data, source, sizes), target, sizes, base)


def plain_mask(index, sizes, extent):
    ok, wrapped = places(index, sizes, extent)
    mask = torch.zeros(index.shape[0], extent + 1, dtype=torch.bool, device=index.device)
    return mask.scatter_(1, torch.where(ok, wrapped, extent), True)[:, :extent]


def plain_indices(mask):
    return (~mask).to(torch.uint8).argsort(stable=True, dim=1), mask.sum(1)


def plain_bool(data, mask):
    order, counts = plain_indices(mask)
    most = int(counts.max())
    out = data.gather(1, spread(order[:, :most], data))
    return torch.where((torch.arange(most, device=data.device) < counts[:, None])[..., None], out, 0.0)


def plain_bool_write(rows, mask, base):
    rank = (mask.cumsum(1) - 1).clamp(min=0, max=rows.shape[1] - 1)
    return torch.where(mask[..., None], rows.gather(1, spread(rank, rows)), base)


def plain_padded(data, sizes):
    return torch.where((torch.arange(data.shape[1], device=data.device) < sizes[:, None])[..., None], data, 0.0)


def plain_sum(data, sizes):
    return plain_padded(data, sizes).sum(1)


def plain_average(data, sizes):
    return torch.nan_to_num(plain_sum(data, sizes) / sizes[:, None], nan=0.0)


def cases(batch, queries, objects, width):
    device = "cuda"
    torch.manual_seed(0)
    sizes = torch.randint(5, objects + 1, (batch,), device=device)
    wide = torch.randn(batch, queries, width, device=device, requires_grad=True)
    narrow = torch.randn(batch, objects, width, device=device, requires_grad=True)
    into_wide = torch.stack([torch.randperm(queries)[:objects] for _ in range(batch)]).to(device)
    into_narrow = torch.stack([torch.randperm(objects) for _ in range(batch)]).to(device) % sizes[:, None]
    wide_index, narrow_index = sb.RaggedBatch(into_wide, sample_sizes=sizes), sb.RaggedBatch(into_narrow, sample_sizes=sizes)
    targets = sb.RaggedBatch(narrow, sample_sizes=sizes)
    mask = plain_mask(into_wide, sizes, queries)
    picked = sb.batched_bool_indexing(wide.detach(), mask)
    rows = picked.tensor.clone().requires_grad_()
    picked = sb.RaggedBatch(rows, sample_sizes=picked.sample_sizes)
    return {
        "batched_indexing_access": (
            lambda: sb.batched_indexing_access(wide, wide_index).tensor,
            lambda: plain_access(wide, into_wide, sizes),
            (wide,),
        ),
        "batched_inverse_indexing_access": (
            lambda: sb.batched_inverse_indexing_access(narrow, wide_index, queries),
            lambda: plain_inverse(narrow, into_wide, sizes, queries),
            (narrow,),
        ),
        "batched_indexing_write": (
            lambda: sb.batched_indexing_write(narrow, wide_index, wide),
            lambda: plain_write(narrow, into_wide, sizes, wide),
            (narrow, wide),
        ),
        "batched_index_mapping": (
            lambda: sb.batched_index_mapping(targets, narrow_index, wide_index, wide),
            lambda: plain_mapping(narrow, into_narrow, into_wide, sizes, wide),
            (narrow, wide),
        ),
        "get_mask_from_indices": (lambda: sb.get_mask_from_indices(queries, wide_index), lambda: plain_mask(into_wide, sizes, queries), ()),
        "get_indices_from_mask": (lambda: sb.get_indices_from_mask(mask).tensor, lambda: plain_indices(mask)[0], None),
        "batched_bool_indexing": (lambda: sb.batched_bool_indexing(wide, mask).tensor, lambda: plain_bool(wide, mask), (wide,)),
        "batched_bool_indexing_write": (
            lambda: sb.batched_bool_indexing_write(picked, mask, wide),
            lambda: plain_bool_write(rows, mask, wide),
            (rows, wide),
        ),
        "with_padded_set_to": (lambda: targets.with_padded_set_to(0.0).tensor, lambda: plain_padded(narrow, sizes), (narrow,)),
        "sum_over_targets": (lambda: sb.sum_over_targets(targets), lambda: plain_sum(narrow, sizes), (narrow,)),
        "average_over_targets": (lambda: sb.average_over_targets(targets), lambda: plain_average(narrow, sizes), (narrow,)),
    }


def both_ways(function, inputs, weight):
    return (lambda: torch.autograd.grad(function(), inputs, weight)) if inputs else function


def run(shape):
    eager, graph = [], []
    for name, (ours, plain, inputs) in cases(*shape).items():
        got, want = (t.detach() for t in (ours(), plain()))
        equal = inputs is None or torch.allclose(got.float(), want.float(), rtol=1e-5, atol=1e-5)
        weight = torch.randn_like(got) if inputs else None
        calls = {"ours": both_ways(ours, inputs, weight), "plain": both_ways(plain, inputs, weight)}
        if inputs:
            equal = equal and all(
                torch.allclose(a, b, rtol=1e-5, atol=1e-5) for a, b in zip(calls["ours"](), calls["plain"](), strict=False)
            )
        times = interleaved(calls, 7, 30)
        row = {"eager_us": times["ours"][0] * 1e3, "plain_us": times["plain"][0] * 1e3, "eager": times["plain"][0] / times["ours"][0]}
        eager.append(row["eager"])
        del got, want  # frees the autograd graphs, which belong to the current stream: a capture must not use that stream
        if name != "batched_bool_indexing":  # the shape of this function's result depends on the data, so it cannot be captured
            replays = interleaved({k: captured(f) for k, f in calls.items()}, 7, 50)
            row.update(
                graph_us=replays["ours"][0] * 1e3, plain_graph_us=replays["plain"][0] * 1e3, graph=replays["plain"][0] / replays["ours"][0]
            )
            graph.append(row["graph"])
        report(shape=shape, function=name, equal=bool(equal), **row)
    report(shape=shape, median_eager=statistics.median(eager), median_graph=statistics.median(graph), least_graph=min(graph))


if __name__ == "__main__":
    run((48, 900, 79, 10))
    run((8, 900, 79, 256))
