# SPDX-License-Identifier: Apache-2.0
"""Frames depend only on their file: not on tables and headers that a decoder has read in other packets, or in other files."""

from __future__ import annotations

import random

import numpy as np
import pytest
import stoker
import videos
from stoker import fn, pipeline_def

pytestmark = videos.needs_video

SOI, DHT, DQT, SOS = b"\xff\xd8", 0xC4, 0xDB, 0xDA


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


def pictures(source, huffman, seconds=0.4):
    """Returns pictures of Motion JPEG as single files."""
    data = videos.ffmpeg(
        f"-f lavfi -i {source}=size=64x48:rate=25:duration={seconds} -pix_fmt yuvj420p -c:v mjpeg -q:v 5 -huffman", huffman, "-f mjpeg -"
    )
    return [SOI + part for part in data.split(SOI)[1:]]


def without(picture, marker):
    """Returns a JPEG file without its segments of one kind."""
    at, out = 2, bytearray(SOI)
    while picture[at + 1] != SOS:
        end = at + 2 + int.from_bytes(picture[at + 2 : at + 4], "big")
        if picture[at + 1] != marker:
            out += picture[at:end]
        at = end
    return bytes(out) + picture[at:]


def write(path, parts):
    stream = path.with_suffix(".mjpeg")
    stream.write_bytes(b"".join(parts))
    videos.ffmpeg("-f mjpeg -framerate 25 -i", stream, "-c copy", path)
    return path


@pytest.mark.parametrize("ending", ["avi", "mov"])
def test_pictures_without_huffman_tables_have_the_standard_ones(tmp_path, ending):
    """Cameras leave the standard tables out of AVI files. libavcodec keeps the tables of earlier pictures, which may be those of another file."""
    own, plain = pictures("testsrc", "optimal"), pictures("testsrc2", "default")
    short = [without(p, DHT) for p in plain]
    assert all(len(s) < len(p) for s, p in zip(short, plain, strict=True))
    names = {"own": own, "plain": plain, "short": short}
    paths = {name: write(tmp_path / f"{name}.{ending}", parts) for name, parts in names.items()}
    want = {"own": videos.frames(paths["own"]), "short": videos.frames(paths["plain"])}
    files = [paths[name] for name in ("own", "short", "own", "short", "short", "own")]

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def pipe():
        return fn.readers.video(filenames=list(map(str, files)), sequence_length=4, step=100)

    p = pipe()
    p.build()
    for path in files:
        assert np.array_equal(p.run()[0].as_array()[0], want[path.stem][:4]), path
    kinds = [random.Random(i).choice(["own", "short"]) for i in range(10)]
    mixed = write(tmp_path / f"mixed.{ending}", [names[kind][i] for i, kind in enumerate(kinds)])
    decoder = opened(mixed)
    for i in [*range(10), *range(9, -1, -1)]:
        assert np.array_equal(decoder[i], want[kinds[i]][i]), i


@pytest.mark.parametrize("ending", ["avi", "mov"])
def test_pictures_without_quantisation_tables_are_refused(tmp_path, ending):
    parts = pictures("testsrc", "default")
    path = write(tmp_path / f"first.{ending}", [parts[0], *(without(p, DQT) for p in parts[1:])])
    want = videos.frames(write(tmp_path / f"whole.{ending}", parts))
    for order in (range(10), range(9, -1, -1)):
        decoder = opened(path)
        for i in order:
            if i == 0:
                assert np.array_equal(decoder[0], want[0])
            else:
                with pytest.raises(stoker.errors.UnsupportedError, match=rf"frame {i} .*quantisation tables.*encode it again"):
                    decoder[i]
    flat, again = opened(path, strict=False), opened(path, strict=False)
    again[0]
    assert np.array_equal(flat[5], again[5])


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


@pytest.mark.parametrize("arguments", ["-g 1 -slices 4", "-g 6 -slices 9", "-g 6 -slices 4 -coder 1 -context 1"])
def test_checksums_of_ffv1_are_compared(tmp_path, arguments):
    """FFmpeg takes the pixels of a slice with a wrong checksum from an earlier picture, and reports no error."""
    path = tmp_path / "video.mkv"
    videos.ffmpeg("-f lavfi -i testsrc2=size=128x96:rate=25:duration=0.5 -pix_fmt yuv420p -c:v ffv1 -level 3 -slicecrc 1", arguments, path)
    want, whole, refused = videos.frames(path), path.read_bytes(), 0
    assert np.array_equal(opened(whole)[:], want)
    draw = random.Random(2)
    for _ in range(40):
        data = bytearray(whole)
        data[draw.randrange(1500, len(data) - 500)] ^= 1 << draw.randrange(8)
        try:
            decoder = opened(bytes(data))
        except stoker.StokerError:
            continue
        for i in draw.sample(range(len(want)), len(want)):
            frame = result(decoder, i)
            refused += frame is stoker.errors.CorruptError
            assert isinstance(frame, type) or np.array_equal(frame, want[i]), i
    assert refused >= 30


@pytest.mark.parametrize("arguments", ["-level 3 -slicecrc 0 -slices 4", "-level 0", "-level 1 -coder 1"])
def test_ffv1_without_checksums(tmp_path, arguments):
    path = tmp_path / "video.mkv"
    videos.ffmpeg("-f lavfi -i testsrc2=size=128x96:rate=25:duration=0.5 -pix_fmt yuv420p -g 5 -c:v ffv1", arguments, path)
    want, decoder = videos.frames(path), opened(path)
    for i in random.Random(3).sample(range(len(want)), len(want)):
        assert np.array_equal(decoder[i], want[i])


LOSSES = ["bframes=0", "bframes=0:ref=4:open-gop=1", "bframes=3", "bframes=4:open-gop=1:b-pyramid=1", "temporal-layers=3:bframes=3"]


@pytest.mark.parametrize("options", LOSSES)
def test_pictures_of_hevc_whose_reference_is_missing_are_refused(tmp_path, options):
    """FFmpeg makes up the missing picture, and reports no error. Packets are removed from the file; those of pictures that no other one needs leave the rest."""
    path = tmp_path / "video.mkv"
    x265 = "-c:v libx265 -preset fast -pix_fmt yuv420p -x265-params log-level=none:keyint=12:min-keyint=12:scenecut=0:"
    videos.ffmpeg("-f lavfi -i", videos.SOURCE.format(1.6), x265 + options, path)
    want = {round(f.pts_seconds, 2): np.asarray(f.data) for f in (opened(path).get_frame_at(i) for i in range(40))}
    refused = 0
    for lost in range(1, 12, 2):
        bad = tmp_path / f"lost{lost}.mkv"
        videos.ffmpeg("-i", path, "-c copy -bsf:v", f"noise=drop='eq(n,{lost})'", bad)
        for order in (range(39), random.Random(lost).sample(range(39), 39)):
            decoder = opened(bad)
            for i in order:
                frame = result(decoder, i)
                refused += isinstance(frame, type)
                assert isinstance(frame, type) or np.array_equal(frame, want[round(decoder.get_frame_at(i).pts_seconds, 2)]), (lost, i)
    assert refused >= 20
