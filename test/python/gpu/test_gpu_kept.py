# SPDX-License-Identifier: Apache-2.0
"""GPU memory while the program keeps batches: a kept batch holds no more than its outputs, a kept output no other output, and released memory is reused."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import pytest
from both_sides import make
from stoker import Pipeline, fn
from stoker.errors import StokerError


def labelled(tree: Path, size: int, **settings: Any) -> Pipeline:
    def define(root: Any) -> Any:
        data, label = fn.readers.file(file_root=str(root))
        return fn.resize(fn.decoders.image(data), size=[size, size]).gpu(), label.gpu()

    return make(tree, define=define, batch_size=2, **settings)


def numbers(labels: Any) -> list[int]:
    return [int(x) for x in labels.as_cpu().as_array().ravel()]


ORDER = [i // 7 for i in range(21)]  # labels of the tree's files, in the order in which the reader reads them


def test_two_thousand_batches(tree: Path) -> None:
    pipe = labelled(tree, 8)
    kept = []
    for _ in range(2000):
        kept.append(pipe.run())
    core = pipe._running()
    pipe.release_outputs()
    held = core.counters()["held_bytes"]
    assert 1900 * 2 * 8 * 8 * 3 <= held <= 2000 * (2 * 8 * 8 * 3 + 64 + 64)
    for i in range(0, 2000, 37):
        assert numbers(kept[i][1]) == [ORDER[(2 * i) % 21], ORDER[(2 * i + 1) % 21]]
    assert len({k[1].data_ptr() for k in kept}) == 2000
    kept.clear()
    assert core.counters()["held_bytes"] == 0


def test_labels_hold_no_images(tree: Path) -> None:
    pipe = labelled(tree, 512, gpu_memory_limit=1 << 20)  # with this limit the only batches under way are the prefetched ones
    labels = [pipe.run()[1] for _ in range(120)]
    pipe.release_outputs()
    seen = pipe._running().counters()
    assert seen["slots"] <= 8 and seen["held_bytes"] <= 120 * 64
    pipe.close()
    for i, label in enumerate(labels):
        assert numbers(label) == [ORDER[(2 * i) % 21], ORDER[(2 * i + 1) % 21]]
    with pytest.raises(IndexError, match="only output"):
        labels[0]._batch.to_host(0)


def test_dlpack_holds_one_output(tree: Path) -> None:
    """Takes capsules for a stream, as the iterators and the Loader do. A capsule holds the memory of its output only."""
    pipe = labelled(tree, 512, held_limit=1 << 30, gpu_memory_limit=1 << 20)
    kept: Any = [pipe._next().capsules(bytes(2), 1)[1] for _ in range(100)]
    core = pipe._running()
    assert core.counters()["slots"] <= 8
    images: Any = [pipe._next().capsules(bytes(2), 1)[0] for _ in range(60)]
    assert core.counters()["held_bytes"] > 0
    pipe.close()
    del pipe
    images.clear()
    kept.clear()


def test_over_the_limit(tree: Path) -> None:
    pipe = labelled(tree, 512, held_limit=8 << 20)
    kept: list[Any] = []
    with pytest.raises(StokerError) as raised:
        for _ in range(200):
            kept.append(pipe.run()[0])
            pipe.release_outputs()
    for text in ("held_limit: 8.0 MiB of the GPU's memory", "1.5 MiB each on the GPU", ".clone()", ".detach()", ".item()", ".cpu()"):
        assert text in str(raised.value)
    del raised
    kept.clear()
    pipe.run()
    assert pipe._running().counters()["held_bytes"] == 0


@pytest.mark.parametrize("size", [8, 512])
@pytest.mark.parametrize("held", [0, 1])
def test_nothing_is_allocated_for_a_batch(tree: Path, size: int, held: int) -> None:
    """The labels of the last `held` batches are kept. The pipeline reuses the slots of released batches, so a batch costs only DLPack's own allocation
    for each tensor. If the consumer's streams lag, the pipeline works further ahead and makes more slots, at times after hundreds of batches. So only one
    stretch of several has to be free of other allocations. There are at most two more slots than were ever in use at once."""
    stretches, batches, spare = 10, 200, 2
    pipe = labelled(tree, size, prefetch_queue_depth=1)
    core = pipe._running()
    window: deque[Any] = deque(maxlen=held)
    seen = [core.counters()]
    for _ in range(1 + stretches):
        for _ in range(batches):
            window.append(pipe._next().capsules(bytes(2), 1)[1])
        seen.append(core.counters())
        assert seen[-1]["slots"] <= seen[-1]["slots_peak"] + spare, seen[-1]
        if len(seen) > 2 and seen[-1]["allocations"] - seen[-2]["allocations"] <= 2 * batches + 40:
            return
    raise AssertionError(f"every {batches} batches took more allocations than their tensors: {seen}")
