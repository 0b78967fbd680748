#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times a DETR-like set criterion in three forms, forward and backward on one GPU: a loop over samples with SciPy; batched over padded targets with one
copy to the host for SciPy; and stoker.batching, eager and as a CUDA graph. StreamPETR's shapes: 8 samples x 6 decoder layers, 900 queries, 5..79 objects,
10 classes, 10 box values; focal loss and L1."""

from common import captured, interleaved, report, torch  # isort: skip
import numpy as np
import scipy.optimize
import stoker.batching as sb

B, L, Q, C, D = 8, 6, 900, 10, 10


def focal_cost(p):
    return -0.25 * (1 - p) ** 2 * torch.log(p + 1e-12) + 0.75 * p**2 * torch.log(1 - p + 1e-12)


def focal_loss(logits, hot):
    p = logits.sigmoid()
    pt, a = torch.where(hot > 0, p, 1 - p), torch.where(hot > 0, 0.25, 0.75)
    return a * (1 - pt) ** 2 * torch.nn.functional.binary_cross_entropy_with_logits(logits, hot, reduction="none")


def main():
    device = "cuda"
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    counts = [int(n) for n in rng.integers(5, 80, B)]
    boxes = [torch.randn(n, D, device=device) for n in counts]
    labels = [torch.randint(C, (n,), device=device) for n in counts]
    box = torch.randn(L, B, Q, D, device=device, requires_grad=True)
    cls = torch.randn(L, B, Q, C, device=device, requires_grad=True)

    def loop():
        total = 0
        for lay in range(L):
            for b in range(B):
                cost = 2 * focal_cost(cls[lay, b].sigmoid())[:, labels[b]] + 0.25 * torch.cdist(box[lay, b], boxes[b], p=1)
                cost = torch.nan_to_num(cost, nan=100.0, posinf=100.0, neginf=-100.0)
                r, k = (torch.as_tensor(i, device=device) for i in scipy.optimize.linear_sum_assignment(cost.detach().cpu().numpy()))
                target = torch.full((Q,), C, device=device)
                target[r] = labels[b][k]
                hot = torch.nn.functional.one_hot(target, C + 1)[:, :C].float()
                n = max(1, len(r))
                total = total + focal_loss(cls[lay, b], hot).sum() / n + (box[lay, b][r] - boxes[b][k]).abs().sum() * 0.25 / n
        return total

    most = max(counts)
    padded_box = torch.nn.utils.rnn.pad_sequence(boxes, batch_first=True)
    padded_cls = torch.nn.utils.rnn.pad_sequence(labels, batch_first=True)
    mask = torch.arange(most, device=device)[None] < torch.tensor(counts, device=device)[:, None]

    def batched():
        p = cls.sigmoid()
        cost = 2 * focal_cost(p).gather(3, padded_cls[None, :, None, :].expand(L, B, Q, most))
        cost = cost + 0.25 * torch.cdist(box.reshape(L * B, Q, D), padded_box.repeat(L, 1, 1), p=1).view(L, B, Q, most)
        host = torch.nan_to_num(cost.detach(), nan=100.0, posinf=100.0, neginf=-100.0).cpu().numpy()
        ri, ki = np.zeros((L, B, most), np.int64), np.zeros((L, B, most), np.int64)
        for lay in range(L):
            for b in range(B):
                r, k = scipy.optimize.linear_sum_assignment(host[lay, b, :, : counts[b]])
                ri[lay, b, : len(r)], ki[lay, b, : len(k)] = r, k
        r, k, m = torch.as_tensor(ri, device=device), torch.as_tensor(ki, device=device), mask[None].expand(L, B, most)
        wanted = torch.where(m, padded_cls[None].expand(L, B, most).gather(2, k), C)
        target = torch.full((L, B, Q + 1), C, device=device).scatter_(2, torch.where(m, r, Q), wanted)[:, :, :Q]
        n = mask.sum(1).clamp(min=1).float()[None]
        first = (focal_loss(cls, torch.nn.functional.one_hot(target, C + 1)[..., :C].float()).sum((2, 3)) / n).sum()
        ours = box.gather(2, r[..., None].expand(L, B, most, D))
        theirs = padded_box[None].expand(L, B, most, D).gather(2, k[..., None].expand(L, B, most, D))
        return first + (((ours - theirs).abs().sum(3) * m).sum(2) * 0.25 / n).sum()

    target_boxes = sb.combine_data(boxes)
    target_labels = sb.combine_data(labels, other_with_same_sample_sizes=target_boxes)

    def ours():
        costs = sb.detection_cost(logits=cls, boxes=box, target_labels=target_labels, target_boxes=target_boxes)
        matches = sb.linear_sum_assignment(costs)
        return sb.losses.sigmoid_focal(cls, target_labels, matches).sum() + 0.25 * sb.losses.l1(box, target_boxes, matches).sum()

    def both_ways(criterion):
        def run():
            box.grad = cls.grad = None
            criterion().backward()

        return run

    values = [float(f().detach()) for f in (loop, batched, ours)]
    grads = []
    for criterion in (loop, ours):
        both_ways(criterion)()
        assert box.grad is not None and cls.grad is not None
        grads.append((box.grad.clone(), cls.grad.clone()))
    error = max(float((a - b).abs().max() / a.abs().max()) for a, b in zip(*grads, strict=False))
    graph = captured(both_ways(ours))
    times = interleaved({"ours_eager": both_ways(ours), "ours_graph": graph}, 9, 20)
    times.update(interleaved({"loop": both_ways(loop), "batched": both_ways(batched)}, 5, 2))
    report(work="criterion, forward and backward", losses=[round(v, 4) for v in values], gradient_error=error, **{f"{n}_ms": t[0] for n, t in times.items()},
           spread={n: [round(x, 3) for x in t[1:]] for n, t in times.items()}, loop_over_eager=times["loop"][0] / times["ours_eager"][0],
           batched_over_eager=times["batched"][0] / times["ours_eager"][0], batched_over_graph=times["batched"][0] / times["ours_graph"][0])  # fmt: skip
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        both_ways(ours)()
        torch.cuda.synchronize()
    rows = sorted(prof.key_averages(), key=lambda e: -e.device_time_total)
    report(work="kernels of one criterion", count=sum(e.count for e in rows), total_us=sum(e.device_time_total for e in rows),
           largest={e.key[:50]: round(e.device_time_total, 1) for e in rows[:8]})  # fmt: skip


if __name__ == "__main__":
    main()
