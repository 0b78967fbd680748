# SPDX-License-Identifier: Apache-2.0
"""The functions of stoker.samplers give the clips that torchcodec's functions of the same names give. The expected frame numbers are written here, since
torchcodec may not be installed. Wrong arguments are refused."""

from __future__ import annotations

import numpy as np
import pytest
import stoker
import torch
import videos
from stoker import samplers

pytestmark = videos.needs_video


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    """Opens a video of 50 frames at 25 frames a second."""
    return stoker.VideoDecoder(videos.make(tmp_path_factory.mktemp("videos"), "h264.mp4").read_bytes())


def numbers(batch):
    return (batch.pts_seconds * 25).round().int().tolist()


def test_regular_indices(decoder):
    batch = samplers.clips_at_regular_indices(decoder, num_clips=3, num_frames_per_clip=4, num_indices_between_frames=5)
    assert numbers(batch) == [[s, s + 5, s + 10, s + 15] for s in (0, 17, 34)]
    assert batch.data.shape == (3, 4, 3, 144, 176) and torch.equal(batch.data[1, 2], decoder[27])
    assert numbers(samplers.clips_at_regular_indices(decoder, num_clips=2, sampling_range_start=-10)) == [[40], [49]]


@pytest.mark.parametrize(("policy", "want"), [("repeat_last", [46, 48, 48, 48]), ("wrap", [46, 48, 46, 48])])
def test_clips_beyond_the_end(decoder, policy, want):
    arguments = {"num_frames_per_clip": 4, "num_indices_between_frames": 2, "sampling_range_start": 46, "sampling_range_end": 47}
    assert numbers(samplers.clips_at_random_indices(decoder, policy=policy, **arguments)) == [want]
    with pytest.raises(ValueError, match="beyond the end"):
        samplers.clips_at_random_indices(decoder, policy="error", **arguments)


def test_random_places_are_torchs(decoder):
    torch.manual_seed(3)
    starts = torch.randint(0, 50 - 9, (5,)).tolist()
    torch.manual_seed(3)
    batch = samplers.clips_at_random_indices(decoder, num_clips=5, num_frames_per_clip=4, num_indices_between_frames=3)
    assert numbers(batch) == [[s, s + 3, s + 6, s + 9] for s in starts]
    torch.manual_seed(4)
    times = (torch.rand(5, dtype=torch.float64) * (2 - 3 * 0.1)).numpy()
    torch.manual_seed(4)
    batch = samplers.clips_at_random_timestamps(decoder, num_clips=5, num_frames_per_clip=4, seconds_between_frames=0.1)
    assert numbers(batch) == [[int(np.floor((t + k * 0.1) * 25 + 1e-9)) for k in range(4)] for t in times]


def test_random_times_stay_in_a_narrow_range(decoder):
    """The range is 2**-40 s wide, which only a few thousand doubles near 1 s fit into."""
    begin, end = 1 + 2**-40, 1 + 2**-39
    batch = samplers.clips_at_random_timestamps(decoder, num_clips=50, sampling_range_start=begin, sampling_range_end=end)
    assert numbers(batch) == [[25]] * 50


def test_regular_times(decoder):
    batch = samplers.clips_at_regular_timestamps(decoder, seconds_between_clip_starts=0.8, num_frames_per_clip=2)
    assert numbers(batch) == [[0, 1], [20, 21], [40, 41]]
    batch = samplers.clips_at_regular_timestamps(
        decoder,
        seconds_between_clip_starts=0.5,
        num_frames_per_clip=3,
        seconds_between_frames=0.4,
        sampling_range_start=0.6,
        sampling_range_end=1.7,
    )
    assert numbers(batch) == [[15, 25, 35], [27, 37, 47], [40, 40, 40]]


@pytest.mark.parametrize(
    "call",
    [
        lambda d: samplers.clips_at_random_indices(d, num_clips=0),
        lambda d: samplers.clips_at_random_indices(d, num_frames_per_clip=0),
        lambda d: samplers.clips_at_random_indices(d, num_indices_between_frames=0),
        lambda d: samplers.clips_at_random_indices(d, sampling_range_start=50),
        lambda d: samplers.clips_at_regular_indices(d, sampling_range_start=5, sampling_range_end=5),
        lambda d: samplers.clips_at_regular_indices(d, policy="mirror"),
        lambda d: samplers.clips_at_random_timestamps(d, seconds_between_frames=0),
        lambda d: samplers.clips_at_random_timestamps(d, sampling_range_start=2),
        lambda d: samplers.clips_at_regular_indices(d, sampling_range_start=1.5),
        lambda d: samplers.clips_at_random_indices(d, sampling_range_end=40.5),
        lambda d: samplers.clips_at_regular_indices(d, sampling_range_start="3"),
        lambda d: samplers.clips_at_random_timestamps(d, sampling_range_end=float("nan")),
        lambda d: samplers.clips_at_random_timestamps(d, seconds_between_frames="1"),
        lambda d: samplers.clips_at_regular_timestamps(d, seconds_between_clip_starts=None),
        lambda d: samplers.clips_at_regular_timestamps(d, seconds_between_clip_starts=0),
    ],
)
def test_what_is_refused(decoder, call):
    with pytest.raises(ValueError, match=r"\w"):
        call(decoder)
