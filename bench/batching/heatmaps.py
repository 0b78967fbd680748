#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: B023 - functions are called in the loop that makes them
"""Times heatmaps for 48 maps of 20 x 50 pixels, and for 48 x 20 classes. Filling with zeros is included (accumulate=False).

ACCV-Lab's kernel took 30 and 63 us on an H200."""

from common import captured, gpu_ms, report, torch  # isort: skip

import stoker.batching as sb


def main():
    device = "cuda"
    torch.manual_seed(0)
    b, t, h, w = 48, 60, 20, 50
    sizes = torch.randint(5, t + 1, (b,), device=device)
    centers = torch.stack([torch.randint(0, w, (b, t)), torch.randint(0, h, (b, t))], -1).to(device)
    radii = torch.randint(1, 6, (b, t), device=device)
    for classes in (None, 20):
        labels = None if classes is None else sb.RaggedBatch(torch.randint(0, classes, (b, t), device=device), sample_sizes=sizes)
        shape = (b, h, w) if classes is None else (b, classes, h, w)
        heatmap = torch.empty(shape, device=device)
        points, extents = sb.RaggedBatch(centers, sample_sizes=sizes), sb.RaggedBatch(radii, sample_sizes=sizes)

        def draw():
            sb.draw_heatmap_batched(heatmap, points, extents, labels=labels, accumulate=False)

        eager, graph = gpu_ms(draw, inner=100), gpu_ms(captured(draw), inner=100)
        want = torch.zeros(shape)
        sb.draw_heatmap_batched(want, points.cpu(), extents.cpu(), labels=None if labels is None else labels.cpu())
        report(shape=shape, targets=int(sizes.sum()), error=float((heatmap.cpu() - want).abs().max()), eager_us=eager[0] * 1e3, graph_us=graph[0] * 1e3,
               spread_us=[round(x * 1e3, 2) for x in eager[1:]])  # fmt: skip


if __name__ == "__main__":
    main()
