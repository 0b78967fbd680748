#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the memory of a pipeline: the peak without the memory of output batches (slots), the number of slots, the growth over epochs, and the page faults
per image. Needs no torch.

usage: memory.py DIR [--batch N] [--epochs N] [--images N]
"""

from __future__ import annotations

import argparse
import gc
import resource
from pathlib import Path

import measure
import peers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--images", type=int, default=1024, help="files of an epoch")
    parser.add_argument("--threads", type=int, default=measure.machine()["cores"])
    a = parser.parse_args()
    import stoker

    before = measure.peak_memory()
    files = peers.list_files(a.folder)[: a.images]
    pipeline = peers.dali_pipeline(stoker, files, a.batch, a.threads)
    steps, resident = len(files) // a.batch, []
    faults = 0
    for epoch in range(a.epochs):
        if epoch == 1:
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(steps):
            pipeline.run()
        gc.collect()
        resident.append(measure.resident_memory())
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    counters = pipeline.counters()
    slot = a.batch * 3 * 224 * 224 * 4
    peak = measure.peak_memory()
    measure.emit(
        {
            "name": "memory",
            "batch": a.batch,
            "epochs": a.epochs,
            "peak_mb": round(peak / 1e6, 1),
            "before_pipeline_mb": round(before / 1e6, 1),
            "slot_mb": round(slot / 1e6, 1),
            "slots": counters.get("slots"),
            "peak_without_slots_mb": round((peak - counters.get("slots", 0) * slot) / 1e6, 1),
            "after_epoch_1_mb": round(resident[0] / 1e6, 1),
            "after_last_epoch_mb": round(resident[-1] / 1e6, 1),
            "growth_mb": round((resident[-1] - resident[min(2, len(resident) - 1)]) / 1e6, 2),
            "page_faults_per_image": round(faults / (steps * a.batch * max(1, a.epochs - 1)), 3),
        }
    )


if __name__ == "__main__":
    main()
