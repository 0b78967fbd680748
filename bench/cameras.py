#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns camera frames of 1600x900 into normalised crops of 704x256, and compares two JPEG decoders in a pipeline of Stoker: its own and libjpeg-turbo. Slices
of both alternate.

usage: cameras.py DIR [--threads N] [--batch N] [--images N] [--rounds N]
As in pipelines for driving, the frame shrinks to 704x396, its lower 256 rows are kept, and half of the crops are mirrored. Only the decoder differs between
the sides, so the same seed gives the same pixels. This is checked first.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import measure
import numpy as np
import peers
import stoker

WIDTH, HEIGHT, SHRUNK = 704, 256, 396


def pipeline(files: list[Path], batch: int, threads: int, decoder: str) -> Any:
    fn, types = stoker.fn, stoker.types
    names = [str(f) for f in files]

    @stoker.pipeline_def(batch_size=batch, num_threads=threads, device_id=None, prefetch_queue_depth=2, seed=1)
    def program() -> Any:
        jpegs, _ = fn.readers.file(files=names, random_shuffle=True, name="Reader")
        images = fn.resize(fn.decoders.image(jpegs), size=(SHRUNK, WIDTH))
        return fn.crop_mirror_normalize(
            images,
            crop=(HEIGHT, WIDTH),
            crop_pos_y=1.0,
            mirror=fn.random.coin_flip(),
            mean=peers.MEAN255,
            std=peers.STD255,
            dtype=types.FLOAT,
            output_layout="CHW",
        )

    os.environ["STOKER_JPEG"] = decoder  # the library reads this when it creates decoders
    made = program()
    made.build()
    made.run()
    del os.environ["STOKER_JPEG"]
    return made


def check_equal(sides: list[Iterator[Any]], batches: int) -> None:
    for _ in range(batches):
        ours, theirs = (next(side)[0].as_array() for side in sides)
        if ours.shape[1:] != (3, HEIGHT, WIDTH) or not np.array_equal(ours, theirs):
            raise SystemExit("the two decoders do not give the same pixels")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=measure.machine()["cores"])
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--images", type=int, default=240, help="per slice")
    parser.add_argument("--rounds", type=int, default=11)
    a = parser.parse_args()
    files = peers.list_files(a.folder)
    sides = [peers.run_endless(pipeline(files, a.batch, a.threads, decoder)) for decoder in ("stoker", "libjpeg-turbo")]
    check_equal(sides, max(2, len(files) // a.batch))
    takes = [peers.taker(side, lambda batch: len(batch[0])) for side in sides]
    measure.wait_idle()
    result = measure.compare("libjpeg-turbo in stoker", takes[0], takes[1], a.images, a.rounds).summary()
    measure.emit(
        {"name": "cameras 1600x900 to 704x256", "threads": a.threads, "batch": a.batch, "inputs": measure.describe(files), **result}
    )


if __name__ == "__main__":
    main()
