# SPDX-License-Identifier: Apache-2.0
"""Functions that decode clips with a VideoDecoder, as those of torchcodec.samplers do. Clips begin at random or regular frame numbers or times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeVar

from stoker import _numbers
from stoker._video import FrameBatch, VideoDecoder
from stoker.errors import ArgumentError

__all__ = ["clips_at_random_indices", "clips_at_random_timestamps", "clips_at_regular_indices", "clips_at_regular_timestamps"]

_Number = TypeVar("_Number", int, float)
_POLICIES = ("repeat_last", "wrap", "error")


def _completed(clip: list[_Number], length: int, policy: str) -> list[_Number]:
    """Returns the numbers or times of the frames of a clip. clip: the numbers or times of the frames that lie inside the video. If these are fewer than
    `length`, adds frames by the policy, or raises ArgumentError if the policy is "error"."""
    if len(clip) == length:
        return clip
    if policy == "error":
        raise ArgumentError(f"a clip of {length} frames reaches beyond the end of the video, and policy='error' refuses that")
    if policy == "wrap":
        return [clip[k % len(clip)] for k in range(length)]
    return clip + clip[-1:] * (length - len(clip))


def _check(frames: int, policy: str) -> None:
    _numbers.whole("num_frames_per_clip", frames, 1)
    if policy not in _POLICIES:
        raise ArgumentError(f"policy is one of {', '.join(_POLICIES)}, not {policy!r}")


def _in_clips(batch: FrameBatch, frames: int) -> FrameBatch:
    """Reshapes a batch of all clips' frames to (clip, frame, ...). frames: number of frames in a clip."""
    clips = len(batch) // frames
    return FrameBatch(
        batch.data.reshape(clips, frames, *batch.data.shape[1:]),
        batch.pts_seconds.reshape(clips, frames),
        batch.duration_seconds.reshape(clips, frames),
    )


# ---- by number ----


def _range_of_indices(decoder: VideoDecoder, frames: int, gap: int, first: int, end: int | None, policy: str) -> tuple[int, int, int]:
    """Checks the arguments. Returns (gap, first, end): the difference between the numbers of successive frames of a clip, and the range of
    frames at which a clip may begin."""
    _check(frames, policy)
    gap = _numbers.whole("num_indices_between_frames", gap, 1)
    total, span = len(decoder), gap * (frames - 1) + 1
    first = _numbers.whole("sampling_range_start", first, -_numbers.INT32_MAX)
    first = first + total if first < 0 else first
    end = None if end is None else _numbers.whole("sampling_range_end", end, -_numbers.INT32_MAX, _numbers.INT64_MAX)
    end = max(total - span + 1, 1) if end is None else min(end + total if end < 0 else end, total)
    if not 0 <= first < end:
        raise ArgumentError(f"no clip of {span} frames begins from frame {first} to {end - 1} of a video of {total} frames")
    return gap, first, end


def _at_indices(decoder: VideoDecoder, starts: Sequence[int], frames: int, gap: int, policy: str) -> FrameBatch:
    wanted: list[int] = []
    for start in starts:
        wanted += _completed([i for i in range(start, start + gap * frames, gap) if i < len(decoder)], frames, policy)
    return _in_clips(decoder.get_frames_at(wanted), frames)


def clips_at_random_indices(
    decoder: VideoDecoder,
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    num_indices_between_frames: int = 1,
    sampling_range_start: int = 0,
    sampling_range_end: int | None = None,
    policy: str = "repeat_last",
) -> FrameBatch:
    """Decodes clips that begin at frames drawn with torch's random numbers.

    num_indices_between_frames: difference between the numbers of consecutive frames of a clip.
    sampling_range_start, sampling_range_end: a clip begins at one of these frames, the last excluded; negative numbers count from the end. By default all clips
        lie inside the video.
    policy: what takes the place of frames after the video's end: "repeat_last": the clip's last frame inside the video; "wrap": its frames from the first on;
        "error": an error is raised.
    """
    import torch

    gap, first, end = _range_of_indices(
        decoder, num_frames_per_clip, num_indices_between_frames, sampling_range_start, sampling_range_end, policy
    )
    decoder._check_room(_numbers.whole("num_clips", num_clips, 1) * num_frames_per_clip)
    # torchcodec draws on torch's default device, so the same is done here: a seed then gives the same clips.
    starts = torch.randint(first, end, (num_clips,), device=torch.get_default_device()).tolist()
    return _at_indices(decoder, starts, num_frames_per_clip, gap, policy)


def clips_at_regular_indices(
    decoder: VideoDecoder,
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    num_indices_between_frames: int = 1,
    sampling_range_start: int = 0,
    sampling_range_end: int | None = None,
    policy: str = "repeat_last",
) -> FrameBatch:
    """Decodes clips that begin at equal distances from each other. Arguments are those of clips_at_random_indices."""
    import torch

    gap, first, end = _range_of_indices(
        decoder, num_frames_per_clip, num_indices_between_frames, sampling_range_start, sampling_range_end, policy
    )
    decoder._check_room(_numbers.whole("num_clips", num_clips, 1) * num_frames_per_clip)
    starts = torch.linspace(first, end - 1, num_clips, dtype=torch.int, device="cpu").tolist()
    return _at_indices(decoder, starts, num_frames_per_clip, gap, policy)


# ---- by time ----


def _positive(name: str, value: Any) -> float:
    seconds = _numbers.number(name, value, -math.inf)
    if not 0 < seconds < math.inf:
        raise ArgumentError(f"{name} is {seconds}; it must be a positive number")
    return seconds


def _range_of_times(
    decoder: VideoDecoder, frames: int, gap: float | None, first: float | None, end: float | None
) -> tuple[float, float, float]:
    """Checks the arguments. Returns (first, end, gap): the range of times at which a clip may begin, and the seconds from one of its frames to the next."""
    m = decoder.metadata
    if m.average_fps is None:
        raise ArgumentError("the video has no duration: choose its frames by number")
    gap = 1 / m.average_fps if gap is None else _positive("seconds_between_frames", gap)
    first = m.begin_stream_seconds if first is None else _numbers.number("sampling_range_start", first, -math.inf)
    if end is None:
        end = m.end_stream_seconds - (frames - 1) * gap
    else:
        end = min(_numbers.number("sampling_range_end", end, -math.inf), m.end_stream_seconds)
    if not m.begin_stream_seconds <= first < end:
        raise ArgumentError(
            f"no clip begins from {first} s to {end} s; the video lasts from {m.begin_stream_seconds} s to {m.end_stream_seconds} s, and a clip "
            f"{(frames - 1) * gap:g} s"
        )
    return first, end, gap


def _at_times(decoder: VideoDecoder, starts: Any, frames: int, gap: float, policy: str) -> FrameBatch:
    wanted: list[float] = []
    for start in starts.tolist():
        times = [start + k * gap for k in range(frames)]
        wanted += _completed([t for t in times if t < decoder.metadata.end_stream_seconds], frames, policy)
    return _in_clips(decoder.get_frames_played_at(wanted), frames)


def clips_at_random_timestamps(
    decoder: VideoDecoder,
    *,
    num_clips: int = 1,
    num_frames_per_clip: int = 1,
    seconds_between_frames: float | None = None,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: str = "repeat_last",
) -> FrameBatch:
    """Decodes clips that begin at times drawn with torch's random numbers.

    seconds_between_frames: seconds from one frame of a clip to the next. Default: the average duration of a frame.
    sampling_range_start, sampling_range_end: a clip begins between these times. By default all clips lie inside the video.
    policy: as for clips_at_random_indices.
    """
    import torch

    _check(num_frames_per_clip, policy)
    count = _numbers.whole("num_clips", num_clips, 1)
    first, end, gap = _range_of_times(decoder, num_frames_per_clip, seconds_between_frames, sampling_range_start, sampling_range_end)
    decoder._check_room(count * num_frames_per_clip)
    # These are torchcodec's draws, on torch's default device too, so a seed gives the same clips. The product can round up to `end`, which is excluded.
    starts = torch.rand(count, dtype=torch.float64, device=torch.get_default_device()) * (end - first) + first
    return _at_times(decoder, starts.clamp(first, math.nextafter(end, -math.inf)), num_frames_per_clip, gap, policy)


def clips_at_regular_timestamps(
    decoder: VideoDecoder,
    *,
    seconds_between_clip_starts: float,
    num_frames_per_clip: int = 1,
    seconds_between_frames: float | None = None,
    sampling_range_start: float | None = None,
    sampling_range_end: float | None = None,
    policy: str = "repeat_last",
) -> FrameBatch:
    """Decodes clips that begin seconds_between_clip_starts after each other. Other arguments are those of clips_at_random_timestamps."""
    import torch

    _check(num_frames_per_clip, policy)
    seconds_between_clip_starts = _positive("seconds_between_clip_starts", seconds_between_clip_starts)
    first, end, gap = _range_of_times(decoder, num_frames_per_clip, seconds_between_frames, sampling_range_start, sampling_range_end)
    clips = math.ceil(min((end - first) / seconds_between_clip_starts, _numbers.INT32_MAX))
    decoder._check_room(clips * num_frames_per_clip)
    starts = torch.arange(first, end, seconds_between_clip_starts, dtype=torch.float64, device="cpu")
    return _at_times(decoder, starts[starts < end], num_frames_per_clip, gap, policy)
