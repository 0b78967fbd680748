# SPDX-License-Identifier: Apache-2.0
"""As many workers take part as keep batches ready. No time is asserted: only where it leads to."""

from __future__ import annotations

import time

import numpy as np
from stoker import Pipeline, fn

THREADS = 8


def made() -> Pipeline:
    pipe = Pipeline(batch_size=8, num_threads=THREADS, device_id=None, seed=3)
    with pipe:
        pipe.set_outputs(fn.gaussian_blur(fn.random.uniform(shape=[64, 64, 3], range=[0.0, 1.0]), sigma=2.0))
    return pipe


def run_until(pipe: Pipeline, pause: float, reached) -> list[int]:
    """The workers after each batch, up to the first of which that holds."""
    seen = []
    while not seen or (not reached(seen[-1]) and len(seen) < 4000):
        pipe.run()
        time.sleep(pause)
        seen.append(int(pipe.counters()["workers"]))
    return seen


def test_workers_follow_the_consumer() -> None:
    pipe = made()
    few = run_until(pipe, 0.02, lambda n: n <= THREADS // 2)
    assert few[-1] <= THREADS // 2, few
    many = run_until(pipe, 0.0, lambda n: n == THREADS)
    assert many[-1] == THREADS and min(few + many) >= 1, many


def test_batches_do_not_depend_on_how_many_take_part() -> None:
    slow, fast = made(), made()
    for k in range(60):
        a, b = np.asarray(slow.run()[0].as_array()), np.asarray(fast.run()[0].as_array())
        assert np.array_equal(a, b), f"batch {k}"
        time.sleep(0.005 if k % 20 < 15 else 0.0)
