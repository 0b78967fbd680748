# SPDX-License-Identifier: Apache-2.0
"""experimental.readers.video cuts videos and the ranges of lists into the same clips as DALI does on the CPU."""

from __future__ import annotations

import importlib
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stoker
import videos

dali = pytest.importorskip("nvidia.dali")
pytestmark = videos.needs_video

PADS = ("none", "edge", "constant", "reflect_101")
WINDOWS = (
    (7, 3, 1),
    (7, 3, -1),
    (7, 3, 4),
    (8, 1, 4),
    (8, 1, 1),
    (5, 10, 1),
    (5, 10, 2),
    (4, 12, 1),
    (2, 12, 1),
    (13, 2, 1),
    (12, 2, 1),
    (60, 1, 1),
)
LINES = ("5 10", "5.4 10.6", "5 10.4", "-5 -2", "-10.4 -5.6", "0 -1", "5 25")
ROUNDINGS = ("start_down_end_up", "start_up_end_down", "all_up", "all_down")


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Makes a video of 25 frames of a codec that DALI decodes on the CPU."""
    return videos.make(tmp_path_factory.mktemp("videos"), "vp9.webm")


def clips(module: Any, **arguments: Any) -> list[list[int]]:
    """Returns the frame numbers of each clip; [] if there is no clip."""
    fn = importlib.import_module(f"{module.__name__}.fn")

    @module.pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def define() -> Any:
        return tuple(fn.experimental.readers.video(name="r", enable_frame_num="sequence", **arguments))

    try:
        pipe = define()
        pipe.build()
        return [np.array(pipe.run()[-1][0]).tolist() for _ in range(pipe.reader_meta("r")["epoch_size"])]
    except RuntimeError:
        return []


@pytest.mark.parametrize(("pad", "window"), list(itertools.product(PADS, WINDOWS)))
def test_clips_of_a_video(video: Path, pad: str, window: tuple[int, int, int]) -> None:
    length, stride, step = window
    arguments = {"filenames": [str(video)], "pad_mode": pad, "sequence_length": length, "stride": stride, "step": step}
    assert clips(stoker, **arguments) == clips(dali, **arguments)


@pytest.mark.parametrize(("line", "rounding"), list(itertools.product(LINES, ROUNDINGS)))
def test_clips_of_numbered_frames(video: Path, tmp_path: Path, line: str, rounding: str) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"{video} 7 {line}\n")
    arguments = {"file_list": str(path), "file_list_format": "frames", "file_list_rounding": rounding, "sequence_length": 1}
    got = clips(stoker, **arguments)
    assert got
    assert got == clips(dali, **arguments)


TIMES = ("0.2 0.6", "0.21 0.61", "0.05 0.95", "0 0.05")


@pytest.mark.parametrize("include", [True, False, None])
@pytest.mark.parametrize(("line", "rounding"), list(itertools.product(TIMES, ROUNDINGS)))
def test_clips_of_times(video: Path, tmp_path: Path, line: str, rounding: str, include: bool | None) -> None:
    path = tmp_path / "list.txt"
    path.write_text(f"{video} 7 {line}\n")
    more = {} if include is None else {"file_list_include_end": include}
    arguments = {"file_list": str(path), "file_list_format": "timestamps", "file_list_rounding": rounding, "sequence_length": 1, **more}
    assert clips(stoker, **arguments) == clips(dali, **arguments)
