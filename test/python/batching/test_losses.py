# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: B023 - functions are called in the loop that makes them
"""Costs, heatmaps and losses, compared with a criterion that loops over samples."""

import math

import numpy as np
import pytest
import stoker.batching as sb
import torch
from stoker.batching import _fused, losses
from torch.autograd import forward_ad
from torch.nn import functional


def scene(device, layers=2, batch=3, queries=20, classes=4, values=10, seed=0, sizes=(4, 0, 7)):
    torch.manual_seed(seed)
    sizes = torch.tensor(sizes, device=device)
    most = int(sizes.max())
    labels = sb.RaggedBatch(torch.randint(classes, (batch, most), device=device), sample_sizes=sizes)
    target = torch.randn(batch, most, values, device=device)
    target[..., 3:6] = target[..., 3:6].abs() + 0.5
    boxes = torch.randn(layers, batch, queries, values, device=device)
    boxes[..., 3:6] = boxes[..., 3:6].abs() + 0.5
    logits = torch.randn(layers, batch, queries, classes, device=device)
    return logits.requires_grad_(), boxes.requires_grad_(), labels, sb.RaggedBatch(target, sample_sizes=sizes)


def focal_cost(p, alpha=0.25, gamma=2):
    return -alpha * (1 - p) ** gamma * torch.log(p + 1e-12) + (1 - alpha) * p**gamma * torch.log(1 - p + 1e-12)


def reference_giou(a, b):
    out = torch.zeros(len(a), len(b))
    for i, x in enumerate(a.tolist()):
        for j, y in enumerate(b.tolist()):
            w, h = min(x[2], y[2]) - max(x[0], y[0]), min(x[3], y[3]) - max(x[1], y[1])
            inter = max(w, 0) * max(h, 0)
            join = (x[2] - x[0]) * (x[3] - x[1]) + (y[2] - y[0]) * (y[3] - y[1]) - inter
            hull = (max(x[2], y[2]) - min(x[0], y[0])) * (max(x[3], y[3]) - min(x[1], y[1]))
            out[i, j] = inter / join - (hull - join) / hull
    return out


@pytest.mark.parametrize("kind", ["focal", "softmax", "probability"])
@pytest.mark.parametrize("weight", [0.25, [0.1 * i for i in range(10)]], ids=["one", "many"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_detection_cost(device, kind, weight, dtype):
    logits, boxes, labels, targets = scene(device)
    logits, boxes = logits.detach().to(dtype), boxes.detach().to(dtype)
    if kind == "probability":
        logits = logits.sigmoid()
    got = sb.detection_cost(
        logits=logits,
        boxes=boxes,
        target_labels=labels,
        target_boxes=targets,
        classification=kind,
        l1_weight=weight,
        giou_weight=1.5,
        box_format="xyzwlh",
    )
    assert got.shape == (2, 3, 20, 7) and got.non_uniform_dim == 3 and got.batch_shape == (2, 3) and got.dtype == torch.float32
    w = torch.as_tensor(weight, dtype=torch.float64).expand(10)
    for lay in range(2):
        for b in range(3):
            n = int(labels.sample_sizes[b])
            x, own, gt = logits[lay, b].double().cpu(), boxes[lay, b].double().cpu(), targets.tensor[b, :n].double().cpu()
            p = {"focal": focal_cost(x.sigmoid()), "softmax": -x.softmax(-1), "probability": -x}[kind]
            cost = 2 * p[:, labels.tensor[b, :n].cpu()] + ((own[:, None] - gt[None]).abs() * w).sum(-1)
            cost -= 1.5 * reference_giou(losses.corners(own, "xyzwlh"), losses.corners(gt, "xyzwlh"))
            assert torch.allclose(got.tensor[lay, b, :, :n].double().cpu(), cost, rtol=1e-4, atol=1e-4), (lay, b)


def test_detection_cost_takes_the_sizes_of_the_ragged_argument(device):
    logits, boxes, labels, targets = scene(device)
    both = sb.detection_cost(logits=logits, boxes=boxes, target_labels=labels, target_boxes=targets)
    for one in ({"target_labels": labels.tensor, "target_boxes": targets}, {"target_labels": labels, "target_boxes": targets.tensor}):
        got = sb.detection_cost(logits=logits, boxes=boxes, **one)
        assert torch.equal(got.sample_sizes, both.sample_sizes) and torch.equal(got.tensor, both.tensor)
    other = sb.RaggedBatch(targets.tensor, sample_sizes=targets.sample_sizes.flip(0))
    if device == "cpu":
        with pytest.raises(sb.ShapeError, match=r"target_labels has sample sizes \[4, 0, 7\], target_boxes \[7, 0, 4\]"):
            sb.detection_cost(logits=logits, boxes=boxes, target_labels=labels, target_boxes=other)
    with pytest.raises(sb.ShapeError, match=r"target_boxes .* is ragged in dim 2: dim 1, the targets"):
        sb.detection_cost(boxes=boxes, target_boxes=sb.RaggedBatch(targets.tensor, sample_sizes=targets.sample_sizes, non_uniform_dim=2))


def test_detection_cost_parts_and_nan(device):
    logits, boxes, labels, targets = scene(device)
    with torch.no_grad():
        boxes[0, 0, 3, 2] = float("nan")
        boxes[0, 0, 4, 2] = float("inf")
    only_boxes = sb.detection_cost(boxes=boxes, target_boxes=targets)
    assert only_boxes.tensor[0, 0, 3, :4].tolist() == [100.0] * 4 and only_boxes.tensor[0, 0, 4, :4].tolist() == [100.0] * 4
    assert not only_boxes.requires_grad
    only_labels = sb.detection_cost(logits=logits, target_labels=labels)
    assert torch.allclose(only_labels.tensor[1, 2, :, 0], 2 * focal_cost(logits[1, 2].sigmoid())[:, labels.tensor[2, 0]], atol=1e-5)
    plain = sb.detection_cost(logits=logits[0], target_labels=labels.tensor.int())
    assert plain.sample_sizes.tolist() == [7, 7, 7]
    assert sb.detection_cost(
        logits=logits, target_labels=sb.RaggedBatch(labels.tensor[:, :0], sample_sizes=labels.sample_sizes * 0)
    ).shape == (2, 3, 20, 0)
    bad = sb.RaggedBatch(labels.tensor * 0 + 4, sample_sizes=labels.sample_sizes)
    if device == "cpu":
        with pytest.raises(IndexError, match="detection_cost"):
            sb.detection_cost(logits=logits, target_labels=bad)
    else:
        assert sb.detection_cost(logits=logits, target_labels=bad).tensor[0, 0, 0, 0] == 100
        with pytest.raises(IndexError, match="detection_cost: 22"):
            sb.check()
    for call, text in [
        (lambda: sb.detection_cost(), "logits or boxes must be given"),
        (lambda: sb.detection_cost(logits=logits), "logits and target_labels go together"),
        (lambda: sb.detection_cost(boxes=boxes[..., :9], target_boxes=targets), r"boxes \(2, 3, 20, 9\) and target_boxes \(3, 7, 10\)"),
        (
            lambda: sb.detection_cost(boxes=boxes[:, :2], target_boxes=targets),
            r"boxes \(2, 2, 20, 10\) does not fit target_boxes \(3, 7, 10\)",
        ),
        (lambda: sb.detection_cost(boxes=boxes, target_boxes=targets, l1_weight=[1, 2]), "l1_weight has 2 numbers"),
        (lambda: sb.detection_cost(logits=logits, target_labels=labels, classification="x"), "classification is 'x'"),
    ]:
        with pytest.raises(sb.ShapeError, match=text):
            call()


def per_sample(logits, boxes, labels, targets, matches, giou=True):
    """Computes the losses in a loop over layers and samples."""
    total = logits.sum() * 0
    for lay in range(logits.shape[0]):
        for b in range(logits.shape[1]):
            n = int(matches.rows.sample_sizes[lay, b])
            r, k = matches.rows.tensor[lay, b, :n], matches.cols.tensor[lay, b, :n]
            hot = torch.zeros_like(logits[lay, b])
            hot[r, labels.tensor[b][k]] = 1
            p = logits[lay, b].sigmoid()
            pt, a = torch.where(hot > 0, p, 1 - p), torch.where(hot > 0, 0.25, 0.75)
            part = (a * (1 - pt) ** 2 * functional.binary_cross_entropy_with_logits(logits[lay, b], hot, reduction="none")).sum()
            part = part + 0.25 * (boxes[lay, b][r] - targets.tensor[b][k]).abs().sum()
            if giou and n:
                part = (
                    part
                    + (
                        1
                        - losses.generalized_iou(losses.corners(boxes[lay, b][r], "xyzwlh"), losses.corners(targets.tensor[b][k], "xyzwlh"))
                    ).sum()
                )
            total = total + part / max(1, n)
    return total


def criterion(logits, boxes, labels, targets):
    costs = sb.detection_cost(logits=logits, boxes=boxes, target_labels=labels, target_boxes=targets)
    matches = sb.linear_sum_assignment(costs)
    loss = losses.sigmoid_focal(logits, labels, matches).sum() + 0.25 * losses.l1(boxes, targets, matches).sum()
    return loss + losses.giou(boxes, targets, matches, "xyzwlh").sum(), matches


@pytest.mark.parametrize("sizes", [(4, 0, 7), (0, 0, 0), (20, 20, 20)], ids=str)
def test_criterion_equals_a_loop(device, sizes):
    scene_now = scene(device, sizes=sizes)
    logits, boxes, labels, targets = scene_now
    loss, matches = criterion(*scene_now)
    want = per_sample(logits, boxes, labels, targets, matches)
    assert torch.allclose(loss, want, rtol=1e-5)
    for a, b in zip(
        torch.autograd.grad(loss, (logits, boxes)), torch.autograd.grad(want, (logits, boxes), allow_unused=True), strict=False
    ):
        assert bool(a.isfinite().all()) and torch.allclose(a, torch.zeros_like(a) if b is None else b, rtol=1e-4, atol=1e-5)


def test_gaussian_focal(device):
    torch.manual_seed(0)
    target = torch.zeros(3, 4, 8, 9, device=device)
    sb.draw_heatmap_batched(
        target,
        torch.randint(0, 8, (3, 5, 2), device=device),
        torch.randint(0, 4, (3, 5), device=device),
        labels=torch.randint(0, 4, (3, 5), device=device),
    )
    x = torch.randn(3, 4, 8, 9, device=device, requires_grad=True)
    got = losses.gaussian_focal(x, target)
    p = x.double().sigmoid()
    pos, neg = (1 - p) ** 2 * p.log() * (target == 1), (1 - target) ** 4 * p**2 * (1 - p).log() * (target != 1)
    want = -(pos + neg).sum((1, 2, 3)) / (target == 1).sum((1, 2, 3)).clamp(min=1)
    assert torch.allclose(got.double(), want, rtol=1e-5) and got.shape == (3,)
    assert torch.allclose(losses.gaussian_focal(x.sigmoid(), target, from_logits=False), got, rtol=1e-4)
    got.sum().backward()
    assert bool(x.grad.isfinite().all())


def draw_reference(heatmap, centers, radii, labels, sizes, factor, k):
    out = heatmap.clone().double()
    for b in range(len(out)):
        for t in range(int(sizes[b])):
            (x, y), r = centers[b, t].tolist(), int(radii[b, t])
            sigma = (2 * r + 1) / factor
            page = out[b] if labels is None else out[b, int(labels[b, t])]
            for v in range(max(0, y - r), min(page.shape[0], y + r + 1)):
                for u in range(max(0, x - r), min(page.shape[1], x + r + 1)):
                    page[v, u] = max(float(page[v, u]), k * math.exp(-((u - x) ** 2 + (v - y) ** 2) / (2 * sigma**2)))
    return out


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64], ids=str)
def test_heatmaps_equal_the_reference(device, dtype):
    for seed in range(6):
        torch.manual_seed(seed)
        b, t, classes, h, w = 3, 7, 2, 9, 14
        centers, radii = torch.randint(-6, 20, (b, t, 2), dtype=dtype), torch.randint(-1, 6, (b, t), dtype=dtype)
        labels, sizes = torch.randint(0, classes, (b, t), dtype=dtype), torch.randint(0, t + 1, (b,))
        start = torch.rand(b, classes, h, w) * 0.5
        ragged = [sb.RaggedBatch(x.to(device), sample_sizes=sizes.to(device)) for x in (centers, radii, labels)]
        heatmap = start.to(device)
        assert sb.draw_heatmap_batched(heatmap, ragged[0], ragged[1], 5.0, 0.8, ragged[2]) is heatmap
        assert torch.allclose(heatmap.double().cpu(), draw_reference(start, centers, radii, labels, sizes, 5.0, 0.8), rtol=0, atol=1e-6)
        dirty = torch.full((b, h, w), 7.0, device=device)
        sb.draw_heatmap_batched(dirty, ragged[0], ragged[1], accumulate=False)
        want = draw_reference(torch.zeros(b, h, w), centers, radii, None, sizes, 6, 1)
        assert torch.allclose(dirty.double().cpu(), want, rtol=0, atol=1e-6)
        valid = ragged[0].mask.cpu()
        flat = torch.zeros(b, h, w, device=device)
        idxes = torch.arange(b, dtype=dtype)[:, None].expand(b, t)[valid]
        sb.draw_heatmap(flat, centers[valid].to(device), radii[valid].to(device), idxes.to(device))
        assert torch.allclose(flat, dirty, rtol=0, atol=1e-6)
    with pytest.raises(sb.ShapeError, match=r"centers \(3, 7, 2\), radii \(3, 6\) do not fit heatmap \(3, 9, 14\)"):
        sb.draw_heatmap_batched(flat, centers.to(device), radii[:, :6].to(device))
    with pytest.raises(sb.ShapeError, match=r"heatmap must be float32, not torch\.float64"):
        sb.draw_heatmap_batched(flat.double(), centers.to(device), radii.to(device))
    bad = labels.to(device) * 0 + classes
    if device == "cpu":
        with pytest.raises(IndexError, match="draw_heatmap: 21"):
            sb.draw_heatmap_batched(heatmap, centers, radii, labels=bad)
    else:
        sb.draw_heatmap_batched(heatmap, centers.to(device), radii.to(device), labels=bad)
        with pytest.raises(IndexError, match="draw_heatmap: 21"):
            sb.check()


def cornernet(height, width, overlap):
    b1, c1 = height + width, width * height * (1 - overlap) / (1 + overlap)
    r1 = (b1 - np.sqrt(b1**2 - 4 * c1)) / 2
    b2, c2 = 2 * (height + width), (1 - overlap) * width * height
    r2 = (b2 - np.sqrt(b2**2 - 16 * c2)) / 8
    a3, b3, c3 = 4 * overlap, -2 * overlap * (height + width), (overlap - 1) * width * height
    return min(r1, r2, (b3 + np.sqrt(b3**2 - 4 * a3 * c3)) / (2 * a3))


def test_gaussian_radius(device):
    rng = np.random.default_rng(0)
    sizes = rng.random((20, 2)) * 50 + 1
    want = [cornernet(h, w, 0.6) for h, w in sizes]
    got = sb.gaussian_radius(*torch.from_numpy(sizes).to(device).T, 0.6)
    assert torch.allclose(got.cpu(), torch.tensor(want, dtype=torch.float64))
    assert sb.gaussian_radius(10, 20, 0.7) == pytest.approx(cornernet(10, 20, 0.7)) and isinstance(sb.gaussian_radius(10, 20, 0.7), float)
    assert sb.gaussian_radius(torch.tensor(10), torch.tensor(20)).dtype == torch.float32
    short = sb.gaussian_radius(torch.tensor([100.0, 300.0], dtype=torch.float16, device=device), torch.tensor(200.0, device=device).half())
    assert short.dtype == torch.float16 and short.tolist() == pytest.approx([cornernet(100, 200, 0.7), cornernet(300, 200, 0.7)], rel=1e-3)
    h, w, o = 10.0, 20.0, 0.7  # height, width and overlap; the lines below are CenterNet's own code
    r1 = (h + w + np.sqrt((h + w) ** 2 - 4 * w * h * (1 - o) / (1 + o))) / 2
    r2 = (2 * (h + w) + np.sqrt(4 * (h + w) ** 2 - 16 * (1 - o) * w * h)) / 2
    r3 = (-2 * o * (h + w) + np.sqrt((2 * o * (h + w)) ** 2 - 16 * o * (o - 1) * w * h)) / 2
    assert sb.gaussian_radius(h, w, o, variant="centernet") == pytest.approx(min(r1, r2, r3))


def weighted(loss):
    """Returns a sum of the losses with different factors, so that their gradient is not one value that was expanded."""
    return (loss * torch.arange(1, loss.numel() + 1, device=loss.device).view(loss.shape)).sum()


def random_matches(rng, layers, batch, queries, sizes, device):
    """Returns matches of random queries, also the same one twice and counted from the end, with random targets of samples with `sizes` targets."""
    pairs = int(rng.integers(1, 9))
    counts = torch.from_numpy(np.where(sizes > 0, rng.integers(0, pairs + 1, (layers, batch)), 0))
    rows = torch.from_numpy(rng.integers(-queries, queries, (layers, batch, pairs)))
    cols = torch.from_numpy(rng.integers(-np.maximum(sizes, 1)[:, None], np.maximum(sizes, 1)[:, None], (layers, batch, pairs)))
    rows = sb.RaggedBatch(rows.to(device), sample_sizes=counts.to(device))
    cols = rows.create_with_sample_sizes_like_self(cols.to(device))
    return sb.Assignment(rows, cols, torch.zeros(layers, batch, dtype=torch.int8, device=device))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_fused_focal_loss(device, dtype):
    """The kernel's loss and gradient are those of torch's operators, for random shapes, labels that are no class, and gradients of any layout."""
    near = dict(rtol=2e-5, atol=1e-6) if dtype in (torch.float32, torch.float64) else dict(rtol=2e-2, atol=2e-3)
    for seed in range(12):
        print("seed", seed)
        rng = np.random.default_rng(seed)
        layers, batch, queries, classes = (int(n) for n in rng.integers((1, 1, 1, 1), (4, 4, 40, 12)))
        torch.manual_seed(seed)
        logits = (torch.randn(layers, batch, queries, classes, device=device) * 4).to(dtype)
        sizes = rng.integers(0, 6, batch)
        labels = torch.randint(-1, classes + 2, (batch, 6), device=device, dtype=torch.int32 if seed % 2 else torch.int64)
        labels = sb.RaggedBatch(labels, sample_sizes=torch.from_numpy(sizes).to(device))
        matches = random_matches(rng, layers, batch, queries, sizes, device)
        mean, gamma, alpha = seed % 3 > 0, [2.0, 0.0, 1.5][seed % 3], 0.3
        total = [torch.sum, weighted][seed % 2]
        divisor = matches.rows.sample_sizes.clamp(min=1) if mean else 1

        def composed(x):
            return losses._composed_focal(x, labels, matches, alpha, gamma)

        results = []
        for fused in (True, False):
            x = logits.transpose(1, 2).contiguous().transpose(1, 2) if seed % 4 == 3 else logits.clone()
            x.requires_grad_()
            loss = _fused.focal(x, labels, matches, mean, alpha, gamma, composed) if fused else composed(x) / divisor
            total(loss).backward()
            results.append((loss.detach(), x.grad))
        for got, want in zip(*results, strict=True):
            assert got.dtype == want.dtype and torch.allclose(got, want, **near), seed
        with torch.no_grad():
            assert torch.equal(_fused.focal(logits, labels, matches, mean, alpha, gamma, composed), results[0][0])


def test_fused_focal_loss_of_extreme_logits(device):
    one = torch.zeros(1, 1, dtype=torch.int64, device=device)
    labels = sb.RaggedBatch(one, sample_sizes=one[0] + 1)
    matches = sb.Assignment(labels, labels, one[0].to(torch.int8))

    def loss(x):
        return _fused.focal(x, labels, matches, False, 0.25, 2.0, lambda x: x).tolist()

    extreme = torch.tensor([[[float("inf"), -200.0, 200.0]]], device=device)
    assert loss(extreme) == [150.0]
    assert math.isnan(loss(extreme * float("nan"))[0])
    none = sb.RaggedBatch(one[:, :0], sample_sizes=one[0])
    no_matches = sb.Assignment(none, none, one[0].to(torch.int8))
    assert _fused.focal(extreme[:, :0], labels, no_matches, False, 0.25, 2.0, lambda x: x).tolist() == [0.0]


def test_fused_l1_loss(device):
    """The kernel's loss and gradient are those of torch's operators, also where two values are equal and in samples without pairs."""
    for seed in range(12):
        print("seed", seed)
        rng = np.random.default_rng(seed)
        layers, batch, queries, values = (int(n) for n in rng.integers((1, 1, 1, 1), (3, 6, 30, 12)))
        torch.manual_seed(seed)
        sizes = rng.integers(0, 7, batch)
        target = torch.randint(-3, 4, (batch, 7, values), device=device) / 2
        target = sb.RaggedBatch(target, sample_sizes=torch.from_numpy(sizes).to(device))
        boxes = torch.randint(-3, 4, (layers, batch, queries, values), device=device) / 2
        matches = random_matches(rng, layers, batch, queries, sizes, device)
        total, mean = [torch.sum, weighted][seed % 2], seed % 3 > 0
        divisor = matches.rows.sample_sizes.clamp(min=1) if mean else 1

        def composed(x):
            return losses._composed_l1(x, target, matches, 1.0)

        results = []
        for fused in (True, False):
            x = boxes.clone().requires_grad_()
            loss = _fused.l1(x, target, matches, mean, composed) if fused else composed(x) / divisor
            total(loss).backward()
            results.append((loss.detach(), x.grad))
        for got, want in zip(*results, strict=True):
            assert torch.allclose(got, want, rtol=1e-5, atol=1e-6), seed


@pytest.mark.parametrize("axis", [0, 1], ids=["query", "target"])
def test_pairs_out_of_range_are_left_out_of_fused_losses(device, axis):
    """A pair whose query or target does not exist counts neither in the loss nor in the gradient, and check() raises an error."""
    logits, boxes, labels, targets = scene(device)
    sizes = torch.tensor([[2, 0, 2], [1, 0, 2]], device=device)
    index = torch.tensor([[[1, 0], [0, 0], [3, 1]], [[0, 2], [0, 0], [2, 3]]], device=device)
    rows = sb.RaggedBatch(index, sample_sizes=sizes)
    pair = [rows, rows.create_with_sample_sizes_like_self(index.clone())]
    wrong = index.clone()
    wrong[0, 2, 1] = (20, 7)[axis]
    bad = list(pair)
    bad[axis] = rows.create_with_sample_sizes_like_self(wrong)
    fewer = sizes.clone()
    fewer[0, 2] = 1
    short = [sb.RaggedBatch(p.tensor, sample_sizes=fewer) for p in pair]
    good = sb.Assignment(short[0], short[0].create_with_sample_sizes_like_self(short[1].tensor), None)
    for run, x in [
        (lambda x, m: _fused.focal(x, labels, m, False, 0.25, 2.0, lambda x: x), logits),
        (lambda x, m: _fused.l1(x, targets, m, False, lambda x: x), boxes),
    ]:
        got, want = run(x, sb.Assignment(*bad, None)), run(x, good)
        assert torch.equal(got, want)
        assert torch.equal(*(torch.autograd.grad(weighted(loss), x)[0] for loss in (got, want)))
        with pytest.raises(IndexError, match=r"batched_index(_mapping|ing_access): 1\b"):
            sb.check()


def test_losses_of_other_matches_use_torch(device):
    """Matches that the kernels do not take have the same loss: int32 indices, and rows and cols with layouts of their own."""
    logits, boxes, labels, targets = scene(device)
    matches = sb.linear_sum_assignment(sb.detection_cost(logits=logits, boxes=boxes, target_labels=labels, target_boxes=targets))
    rows, cols = (sb.RaggedBatch(m.tensor.int(), sample_sizes=m.sample_sizes.clone()) for m in matches[:2])
    other = sb.Assignment(rows, cols, matches.status)
    assert not _fused.takes_focal(logits, labels, other, 0.25, 2.0) and not _fused.takes_l1(boxes, targets, other, 1.0)
    assert torch.allclose(losses.sigmoid_focal(logits, labels, matches), losses.sigmoid_focal(logits, labels, other), rtol=1e-5)
    assert torch.allclose(losses.l1(boxes, targets, matches), losses.l1(boxes, targets, other), rtol=1e-5)


def test_targets_that_would_broadcast_are_refused(device):
    logits, boxes, labels, targets = scene(device)
    matches = sb.linear_sum_assignment(sb.detection_cost(logits=logits, boxes=boxes, target_labels=labels, target_boxes=targets))

    def of(tensor):
        return targets.create_with_sample_sizes_like_self(tensor)

    for call, text in (
        (lambda: losses.l1(boxes, of(targets.tensor[..., :1]), matches), r"boxes \(2, 3, 20, 10\) and target_boxes \(3, 7, 1\)"),
        (lambda: losses.l1(boxes[..., :1], targets, matches), "same number of values"),
        (lambda: losses.l1(boxes, of(targets.tensor[..., None]), matches), "same number of values"),
        (lambda: losses.giou(boxes[..., :3], of(targets.tensor[..., :3]), matches), "too few values for xyxy: 4 are needed"),
        (lambda: losses.giou(boxes, of(targets.tensor[..., :4]), matches, "xyzwlh"), "too few values for xyzwlh: 6 are needed"),
        (lambda: losses.generalized_iou(boxes[..., :3], boxes[..., :3]), "too few values for GIoU"),
        (lambda: losses.sigmoid_focal(logits, of(labels.tensor.float()), matches), "are torch.float32: integers"),
        (lambda: losses.sigmoid_focal(logits, of(labels.tensor > 0), matches), "are torch.bool: integers"),
        (lambda: losses.sigmoid_focal(logits, of(labels.tensor[..., None]), matches), "one label a target"),
    ):
        with pytest.raises(sb.ShapeError, match=text):
            call()
    short = of(labels.tensor.to(torch.int16))
    assert torch.allclose(losses.sigmoid_focal(logits, short, matches), losses.sigmoid_focal(logits, labels, matches))


def test_second_derivatives_of_fused_losses(device):
    logits, boxes, labels, targets = scene(device)
    matches = sb.linear_sum_assignment(sb.detection_cost(logits=logits, boxes=boxes, target_labels=labels, target_boxes=targets))
    divisor = matches.rows.sample_sizes.clamp(min=1)

    def focal(x):
        return losses._composed_focal(x, labels, matches, 0.25, 2.0)

    def l1(x):
        return losses._composed_l1(x, targets, matches, 1.0)

    for fused, composed, x in [
        (lambda x: _fused.focal(x, labels, matches, True, 0.25, 2.0, focal), lambda x: focal(x) / divisor, logits),
        (lambda x: _fused.l1(x * x, targets, matches, True, l1), lambda x: l1(x * x) / divisor, boxes),
    ]:
        first = [torch.autograd.grad(weighted(f(x)), x, create_graph=True)[0] for f in (fused, composed)]
        second = [torch.autograd.grad((g**2).sum(), x)[0] for g in first]
        assert torch.allclose(*first, rtol=1e-4, atol=1e-6) and torch.allclose(*second, rtol=1e-4, atol=1e-5)
        assert float(second[0].abs().max()) > 0


def test_forward_mode_derivative_of_the_focal_loss(device):
    logits, boxes, labels, targets = scene(device)
    matches = sb.linear_sum_assignment(sb.detection_cost(logits=logits, boxes=boxes, target_labels=labels, target_boxes=targets))
    tangent = torch.randn_like(logits)
    want = (torch.autograd.grad(losses.sigmoid_focal(logits, labels, matches).sum(), logits)[0] * tangent).sum()
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(logits.detach(), tangent)
        got = forward_ad.unpack_dual(losses.sigmoid_focal(dual, labels, matches).sum()).tangent
    assert got is not None and torch.allclose(got, want, rtol=1e-4)


def test_losses_are_float32_under_autocast(device):
    logits, boxes, labels, targets = scene(device)
    with torch.autocast(device, dtype=torch.bfloat16):
        projected = functional.linear(logits, torch.eye(4, device=device))
        assert projected.dtype == torch.bfloat16
        loss, _ = criterion(projected, boxes, labels, targets)
    loss.backward()
    assert loss.dtype == torch.float32 and bool(logits.grad.isfinite().all())
