#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the times and losses of the two criteria of criterion.py, and checks that losses and gradients agree to 1e-5."""

import time

import torch
from criterion import batched_criterion, loop_criterion
from stoker.batching import combine_data


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    counts = [5, 0, 31, 60]
    labels = [torch.randint(10, (n,), device=device) for n in counts]
    targets = [torch.rand(n, 4, device=device) * 0.5 + 0.1 for n in counts]
    logits = torch.randn(6, 4, 300, 10, device=device, requires_grad=True)
    raw = torch.randn(6, 4, 300, 4, device=device, requires_grad=True)
    ragged_targets = combine_data(targets)
    ragged_labels = combine_data(labels, other_with_same_sample_sizes=ragged_targets)

    def run(name, criterion, *wanted):
        logits.grad = raw.grad = None
        for _ in range(2):  # only the second turn is timed; the first one warms up
            logits.grad = raw.grad = None
            if device == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            parts = criterion(logits, raw.sigmoid(), *wanted)
            sum(parts.values()).backward()
            if device == "cuda":
                torch.cuda.synchronize()
        print(
            f"{name:8} {1e3 * (time.perf_counter() - start):7.2f} ms  "
            + "  ".join(f"{k} {float(v.detach()):.5f}" for k, v in parts.items())
        )
        return {k: v.detach() for k, v in parts.items()}, logits.grad.clone(), raw.grad.clone()

    loop = run("loop", loop_criterion, labels, targets)
    batched = run("batched", batched_criterion, ragged_labels, ragged_targets)
    for name, value in loop[0].items():
        assert torch.allclose(value, batched[0][name], rtol=1e-5), name
    for ours, theirs in zip(batched[1:], loop[1:], strict=False):
        error = float((ours - theirs).abs().max() / theirs.abs().max())
        assert error < 1e-5, error
        print(f"gradients differ by {error:.1e} of the largest")


if __name__ == "__main__":
    main()
