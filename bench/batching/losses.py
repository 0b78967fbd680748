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


class Case:
    """Random predictions of every layer and sample, and the objects of every sample, on one GPU."""

    def __init__(self, device):
        torch.manual_seed(0)
        self.device = device
        self.counts = [int(n) for n in np.random.default_rng(0).integers(5, 80, B)]
        self.boxes = [torch.randn(n, D, device=device) for n in self.counts]
        self.labels = [torch.randint(C, (n,), device=device) for n in self.counts]
        self.box = torch.randn(L, B, Q, D, device=device, requires_grad=True)
        self.cls = torch.randn(L, B, Q, C, device=device, requires_grad=True)

    def both_ways(self, criterion):
        """Returns a function that runs a criterion forward and backward."""

        def run():
            self.box.grad = self.cls.grad = None
            criterion().backward()

        return run


def loop_criterion(case):
    """Returns a function that computes the criterion in a loop over layers and samples."""
    device, boxes, labels, box, cls = case.device, case.boxes, case.labels, case.box, case.cls

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

    return loop


def padded_criterion(case):
    """Returns a function that computes the criterion in batches: pads targets to the longest sample, and copies once to the host for SciPy."""
    device, counts, box, cls, most = case.device, case.counts, case.box, case.cls, max(case.counts)
    padded_box = torch.nn.utils.rnn.pad_sequence(case.boxes, batch_first=True)
    padded_cls = torch.nn.utils.rnn.pad_sequence(case.labels, batch_first=True)
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

    return batched


def stoker_criterion(case):
    """Returns a function that computes the criterion with stoker.batching."""
    target_boxes = sb.combine_data(case.boxes)
    target_labels = sb.combine_data(case.labels, other_with_same_sample_sizes=target_boxes)

    def ours():
        costs = sb.detection_cost(logits=case.cls, boxes=case.box, target_labels=target_labels, target_boxes=target_boxes)
        matches = sb.linear_sum_assignment(costs)
        return sb.losses.sigmoid_focal(case.cls, target_labels, matches).sum() + 0.25 * sb.losses.l1(case.box, target_boxes, matches).sum()

    return ours


def gradient_error(case, loop, ours):
    """Returns the largest difference between the gradients of two criteria, relative to the largest gradient of the same tensor."""
    grads = []
    for criterion in (loop, ours):
        case.both_ways(criterion)()
        assert case.box.grad is not None and case.cls.grad is not None
        grads.append((case.box.grad.clone(), case.cls.grad.clone()))
    return max(float((a - b).abs().max() / a.abs().max()) for a, b in zip(*grads, strict=False))


def report_kernels(run):
    """Reports the number of kernels in one run, their total GPU time, and the times of the eight longest kernels."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        run()
        torch.cuda.synchronize()
    rows = sorted(prof.key_averages(), key=lambda e: -e.device_time_total)
    report(work="kernels of one criterion", count=sum(e.count for e in rows), total_us=sum(e.device_time_total for e in rows),
           largest={e.key[:50]: round(e.device_time_total, 1) for e in rows[:8]})  # fmt: skip


def main():
    case = Case("cuda")
    loop, batched, ours = loop_criterion(case), padded_criterion(case), stoker_criterion(case)
    values = [float(f().detach()) for f in (loop, batched, ours)]
    error = gradient_error(case, loop, ours)
    graph = captured(case.both_ways(ours))
    times = interleaved({"ours_eager": case.both_ways(ours), "ours_graph": graph}, 9, 20)
    times.update(interleaved({"loop": case.both_ways(loop), "batched": case.both_ways(batched)}, 5, 2))
    report(work="criterion, forward and backward", losses=[round(v, 4) for v in values], gradient_error=error, **{f"{n}_ms": t[0] for n, t in times.items()},
           spread={n: [round(x, 3) for x in t[1:]] for n, t in times.items()}, loop_over_eager=times["loop"][0] / times["ours_eager"][0],
           batched_over_eager=times["batched"][0] / times["ours_eager"][0], batched_over_graph=times["batched"][0] / times["ours_graph"][0])  # fmt: skip
    report_kernels(case.both_ways(ours))


if __name__ == "__main__":
    main()
