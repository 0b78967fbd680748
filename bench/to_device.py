#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the time of stoker.to_device on a GPU with that of Tensor.to for each tensor, and with NVIDIA's multi_tensor_copier if it is installed.

    python bench/to_device.py [--rounds 10] [--calls 500]

The tree is that of NVIDIA ACCV-Lab's evaluation of multi_tensor_copier: the annotations of 16 samples with six cameras, 528 tensors, about 150 KB.
Prints one JSON line: medians in milliseconds, and the median of the ratios of the rounds with their range.
"""

import argparse
import json
import statistics
import time

import torch
from stoker import to_device

VISIBLE = [(60, (30, 20, 40, 10, 50, 20)), (100, (60, 40, 30, 70, 20, 50)), (45, (10, 20, 10, 30, 20, 10)), (120, (80, 50, 60, 40, 70, 30))]


def camera(n):
    return {
        "bounding_boxes": torch.rand(n, 4),
        "class_ids": torch.randint(0, 10, (n,)),
        "active": torch.rand(n) < 0.5,
        "depths": torch.rand(n),
        "proj_mat": torch.rand(3, 4),
    }


def sample(objects, visible):
    return {
        "cams_gt": [camera(n) for n in visible],
        "gt_data": {
            "bounding_boxes_3d": torch.rand(objects, 7),
            "class_ids": torch.randint(0, 10, (objects,)),
            "active": torch.rand(objects) < 0.5,
        },
    }


def one_by_one(tree, device):
    if isinstance(tree, torch.Tensor):
        return tree.to(device)
    if isinstance(tree, dict):
        return {key: one_by_one(value, device) for key, value in tree.items()}
    return [one_by_one(value, device) for value in tree]


def milliseconds(copy, tree, calls):
    times = []
    for k in range(calls + 50):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        kept = copy(tree, "cuda")
        torch.cuda.synchronize()
        if k >= 50:
            times.append(time.perf_counter() - begin)
        del kept
    return statistics.mean(times) * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--calls", type=int, default=500)
    args = parser.parse_args()
    tree = [sample(*entry) for entry in VISIBLE * 4]
    ways = {"to": one_by_one, "stoker": to_device}
    try:
        from accvlab.multi_tensor_copier import start_copy

        ways["multi_tensor_copier"] = lambda tree, device: start_copy(tree, f"{device}:0").get()
    except ImportError:
        pass
    rounds = [{name: milliseconds(copy, tree, args.calls) for name, copy in ways.items()} for _ in range(args.rounds)]
    result = {name: round(statistics.median(r[name] for r in rounds), 4) for name in ways}
    for name in ways:
        if name != "to":
            ratios = sorted(r["to"] / r[name] for r in rounds)
            result[f"to / {name}"] = [round(statistics.median(ratios), 2), round(ratios[0], 2), round(ratios[-1], 2)]
    print(json.dumps({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, **result}))


if __name__ == "__main__":
    main()
