# SPDX-License-Identifier: Apache-2.0
"""Frames depend only on their file: not on tables and headers that a decoder has read in other packets, or in other files."""

from __future__ import annotations

import random

import numpy as np
import pytest
import stoker
import videos

pytestmark = videos.needs_video


def opened(source, **arguments):
    return stoker.VideoDecoder(source, dimension_order="NHWC", **arguments)


def result(decoder, i):
    """Returns frame i, or the type of the error."""
    try:
        return np.asarray(decoder[i])
    except stoker.StokerError as e:
        return type(e)


def same(a, b):
    return np.array_equal(a, b) if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) else a is b


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("annex_b.h264", b"\0\0\1\x67"),
        ("annex_b.hevc", b"\0\0\1\x42"),
        ("mpeg2.m2v", b"\0\0\1\xb3"),
        ("mpeg4.avi", b"\0\0\1\x20"),
        ("old.mkv", None),
    ],
)
def test_frames_after_a_damaged_header_do_not_depend_on_earlier_calls(clips, tmp_path, name, header):
    """The headers before one key frame of the file are damaged. A decoder that has read them elsewhere could decode that key frame."""
    path = tmp_path / name
    if name in videos.KINDS:
        path = clips(name)
    else:
        codec = "-c:v mpeg2video -g 12 -bf 2" if header else "-c:v ffv1 -level 0 -g 12"
        videos.ffmpeg("-f lavfi -i", videos.SOURCE.format(2), codec, path)
    whole, differ = path.read_bytes(), 0
    draw = random.Random(1)
    for _ in range(6):
        data = bytearray(whole)
        if header:
            places = [i for i in range(len(data)) if data.startswith(header, i)]
            at = draw.choice(places[: 1 + (len(places) > 1)]) + 4 + draw.randrange(6)
        else:
            at = draw.randrange(1000, len(data) - 500)
        data[at] ^= 1 << draw.randrange(8)
        try:
            count = len(opened(bytes(data)))
            want = [result(opened(bytes(data)), i) for i in range(count)]
        except stoker.StokerError:
            continue
        differ += any(isinstance(w, type) for w in want)
        for order in (range(count), range(count - 1, -1, -1), draw.sample(range(count), count)):
            decoder = opened(bytes(data))
            for i in order:
                assert same(result(decoder, i), want[i]), (at, i)
    assert differ or not header
