# SPDX-License-Identifier: Apache-2.0
"""stoker.VideoDecoder: every frame, by number and by time, equals the frame that FFmpeg decodes, in every kind of file; bad files give clear errors."""

from __future__ import annotations

import copy
import io
import itertools
import json
import os
import pickle
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import stoker
import videos
from PIL import Image
from support import SEED

pytestmark = videos.needs_video


def opened(source, **arguments):
    return stoker.VideoDecoder(source, dimension_order="NHWC", **arguments)


@pytest.mark.parametrize("name", videos.NAMES)
def test_frames_equal_ffmpegs(clips, name):
    path = clips(name)
    want = videos.frames(path)
    decoder = opened(path)
    assert len(decoder) == len(want)
    assert np.array_equal(decoder[:], want)
    assert decoder.counters["packets_decoded"] <= decoder.counters["frames_wanted"] + 30
    rng = random.Random(SEED)
    for _ in range(12):
        numbers = [rng.randrange(len(want)) for _ in range(rng.randrange(1, 5))]
        assert np.array_equal(decoder.get_frames_at(numbers).data, want[numbers]), numbers


@pytest.mark.parametrize("steps", [[2], [3], [1, 3], [2, 1], [1]])
@pytest.mark.parametrize("name", ["h264.mp4", "h264_open.mp4", "hevc_open.mp4", "vp9.webm"])
def test_reading_on_decodes_each_packet_once(clips, name, steps):
    """A caller that skips a few frames in each call continues after its last frame, and does not begin at a key frame again."""
    path = clips(name)
    want = videos.frames(path)
    decoder, frame = opened(path), 0
    for k in range(len(want)):
        if frame >= len(want):
            break
        assert np.array_equal(decoder[frame], want[frame]), frame
        frame += steps[k % len(steps)]
    assert decoder.counters["packets_decoded"] < 1.3 * len(want) + 30, decoder.counters


class Bits:
    """Writes a unit of H.264 bit by bit."""

    def __init__(self) -> None:
        self.bits = ""

    def fixed(self, *pairs):
        """Appends pairs of a number of bits and a value."""
        self.bits += "".join(f"{value:0{count}b}" for count, value in pairs)
        return self

    def golomb(self, *values):
        for value in values:
            self.bits += f"{value + 1:b}".zfill(2 * (value + 1).bit_length() - 1)
        return self

    def align(self):
        self.bits += "0" * (-len(self.bits) % 8)
        return self

    def unit(self, head):
        self.fixed((1, 1)).align()
        data, zeros = bytearray([head]), 0
        for k in range(0, len(self.bits), 8):
            byte = int(self.bits[k : k + 8], 2)
            if zeros == 2 and byte <= 3:
                data.append(3)
                zeros = 0
            data.append(byte)
            zeros = zeros + 1 if byte == 0 else 0
        return b"\0\0\0\1" + bytes(data)


def field_pictures(count):
    """Returns a stream of H.264 (32 x 32 pixels), in which each picture is an IDR field and a second intra field, both uncompressed."""
    sets = Bits().fixed((8, 77), (8, 0), (8, 30)).golomb(0, 0, 0, 4, 1).fixed((1, 0)).golomb(1, 0)
    sets = sets.fixed((1, 0), (1, 0), (1, 1), (1, 0), (1, 0)).unit(0x67)
    sets += (
        Bits()
        .golomb(0, 0)
        .fixed((1, 0), (1, 0))
        .golomb(0, 0, 0)
        .fixed((1, 0), (2, 0))
        .golomb(0, 0, 0)
        .fixed((1, 1), (1, 0), (1, 0))
        .unit(0x68)
    )
    stream = b""
    for number in range(count):
        for bottom in (0, 1):
            field = Bits().golomb(0, 7, 0).fixed((4, 0), (1, 1), (1, bottom))
            if not bottom:
                field.golomb(number % 2)
            field.fixed((8, bottom), *([(1, 0), (1, 0)] if not bottom else [(1, 0)])).golomb(0, 1)
            for _ in range(2):
                field.golomb(25).align().fixed(*[(8, 20 + 5 * number)] * 256, *[(8, 128)] * 128)
            stream += Bits().fixed((3, 0)).unit(0x09) + (b"" if bottom else sets) + field.unit(0x41 if bottom else 0x45)
    return stream


@pytest.mark.parametrize("container", ["h264", "ts", "mkv"])
def test_fields_in_separate_packets_are_refused(tmp_path, container):
    raw, path = tmp_path / "raw.h264", tmp_path / f"fields.{container}"
    raw.write_bytes(field_pictures(8))
    if path.suffix != raw.suffix:
        videos.ffmpeg("-fflags +genpts -r 50 -i", raw, "-c copy", path)
    else:
        path = raw
    with pytest.raises(stoker.errors.UnsupportedError, match="two fields of a picture as separate packets"):
        opened(path)


def test_frames_of_a_cut_copy_do_not_depend_on_earlier_calls(clips, tmp_path):
    """The copy begins at a picture that is not an IDR picture, before which there is no key frame to begin at."""
    path = tmp_path / "cut.mkv"
    videos.ffmpeg("-ss 0.7 -i", clips("h264_open.mp4"), "-c copy", path)
    want = opened(path)[:]
    for i, frame in enumerate(want):
        assert np.array_equal(opened(path)[i], frame), i


@pytest.mark.parametrize("container", ["avi", "mp4"])
def test_packed_frames_of_mpeg4_are_refused(tmp_path, container):
    """Xvid packs two frames into one packet of an AVI file. An MP4 file lists its packets in the header, so their bytes are first read for decoding."""
    packed, copy, unpacked = (tmp_path / name for name in ("packed.avi", f"copy.{container}", "unpacked.avi"))
    if b"libxvid" not in videos.ffmpeg("-encoders"):
        pytest.skip("this ffmpeg is without libxvid")
    videos.ffmpeg("-f lavfi -i", videos.SOURCE.format(1), "-c:v libxvid -bf 2 -g 12", packed)
    videos.ffmpeg("-i", packed, "-c copy", copy)
    with pytest.raises(stoker.errors.UnsupportedError, match=r"packed B-frames.*mpeg4_unpack_bframes"):
        opened(copy)[3]
    videos.ffmpeg("-i", packed, "-c copy -bsf:v mpeg4_unpack_bframes", unpacked)
    want = videos.frames(unpacked)
    assert len(want) > 20 and np.array_equal(opened(unpacked)[:], want)


def mark_all(path, count):
    """Removes the table of key frames from an MP4 file of `count` frames, so that all packets count as key frames."""
    data = path.read_bytes()
    assert data.count(b"stss") == 1
    path.write_bytes(data.replace(b"stss", b"free"))
    assert opened(path).metadata.num_key_frames == count


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("hevc_open.mp4", None),
        ("h264.mp4", None),
        ("mpeg4.mp4", None),
        ("av1.mp4", None),
        ("vp9.mp4", "-c:v libvpx-vp9 -g 12 -deadline realtime -cpu-used 8"),
        ("mpeg2.mp4", "-c:v mpeg2video -g 12 -bf 2 -q:v 4"),
    ],
)
def test_files_that_mark_all_packets_as_key_frames(clips, tmp_path, name, arguments):
    """Without the table stss, all packets of an MP4 file count as key frames. Decoding still begins only at those that are."""
    path = tmp_path / name
    if arguments:
        videos.ffmpeg("-f lavfi -i", videos.SOURCE.format(1), arguments, path)
    else:
        shutil.copy(clips(name), path)
    want = videos.frames(path)
    mark_all(path, len(want))
    for i, frame in enumerate(want):
        assert np.array_equal(opened(path)[i], frame), i
    assert np.array_equal(opened(path)[:], want)


@pytest.mark.parametrize(
    ("filters", "arguments", "most"),
    [
        ("null", "-c:v libx264 -preset fast -bf 2 -g 60", 70),
        # Each 12th picture is one after which decoding can begin, though no IDR picture.
        ("null", "-c:v libx264 -bf 3 -x264-params open-gop=1:keyint=12:min-keyint=12:scenecut=0", 30),
        # There is no key picture after the first: a column of intra blocks wanders through the pictures.
        ("null", "-c:v libx264 -preset fast -bf 0 -x264-params intra-refresh=1:keyint=20", 50),
        # Picture 20 is an intra picture. Picture 21 nevertheless refers to picture 19: its corner is the one that all pictures before 20 have.
        (
            "split[a][b];[a]negate=enable='gte(n,20)'[n];[b]crop=64:64:0:0[c];[n][c]overlay=0:0:enable='gte(n,21)'",
            "-c:v libx264 -preset slow -bf 0 -refs 2 -x264-params keyint=100:min-keyint=100:scenecut=100",
            80,
        ),
        # All pictures are intra pictures, and only the first one is an IDR picture.
        (
            "negate=enable='mod(n,2)'",
            "-c:v libx264 -preset ultrafast -refs 1 -x264-params keyint=250:min-keyint=250:scenecut=400:rc-lookahead=0",
            3,
        ),
    ],
    ids=["long", "open", "refresh", "intra", "only_intra"],
)
def test_h264_that_marks_all_packets_as_key_frames(tmp_path, filters, arguments, most):
    """Decoding begins at IDR pictures and recovery points. At other intra pictures it begins only for their own frames: later ones may refer to earlier ones."""
    path = tmp_path / "video.mp4"
    videos.ffmpeg("-f lavfi -i", f"{videos.SOURCE.format(3)},{filters}", arguments, "-pix_fmt yuv420p", path)
    want = videos.frames(path)
    mark_all(path, len(want))
    for i, frame in enumerate(want):
        decoder = opened(path)
        assert np.array_equal(decoder[i], frame), i
        assert decoder.counters["packets_decoded"] <= most, i
    one_by_one = opened(path)
    for i, frame in enumerate(want):
        assert np.array_equal(one_by_one[i], frame), i
    assert np.array_equal(opened(path)[:], want)


def test_intra_pictures_that_ffmpeg_does_not_return_by_themselves(tmp_path):
    """Each 10th picture is an intra picture with B-frames before it, but neither an IDR picture nor a recovery point, so libavcodec omits it at the start."""
    path = tmp_path / "video.mp4"
    videos.ffmpeg(
        "-f lavfi -i",
        videos.SOURCE.format(3.2),
        "-c:v libx264 -x264-params keyint=infinite:open-gop=1:bframes=2:scenecut=0 -force_key_frames expr:not(mod(n,10))",
        "-pix_fmt yuv420p -bsf:v filter_units=remove_types=6",
        path,
    )
    want = videos.frames(path)
    data = path.read_bytes()
    assert data.count(b"stss") == 1
    path.write_bytes(data.replace(b"stss", b"free"))
    forwards, backwards = opened(path), opened(path)
    for i, frame in enumerate(want):
        assert np.array_equal(opened(path)[i], frame), i
        assert np.array_equal(forwards[i], frame), i
    for i in reversed(range(len(want))):
        assert np.array_equal(backwards[i], want[i]), i
    assert np.array_equal(opened(path)[:], want)
    assert np.array_equal(opened(path).get_frames_at([20, 30]).data, want[[20, 30]])


def slices_of_hevc(path):
    """Returns type, temporal layer, and offset in the file of each slice in an MP4 file of HEVC."""
    words = ["ffprobe", "-v", "error", "-show_entries", "packet=pos,size", "-of", "json", str(path)]
    packets = json.loads(subprocess.run(words, capture_output=True, check=True, timeout=60).stdout)["packets"]
    data, found = path.read_bytes(), []
    for packet in packets:
        at = int(packet["pos"])
        end = at + int(packet["size"])
        while at < end:
            kind, layer = data[at + 4] >> 1 & 63, data[at + 5] & 7
            found += [(kind, layer, at + 4)] if kind < 32 else []
            at += 4 + int.from_bytes(data[at : at + 4], "big")
    return found


@pytest.mark.parametrize("name", ["layers.mp4", "layers.hevc"])
def test_pictures_of_lower_temporal_layers_are_decoded_for_higher_ones(tmp_path, name):
    """The stream has two temporal layers. In the last picture of the lower layer before each IDR picture, the test changes the type to TRAIL_N, as an encoder
    may: only pictures of the higher layer refer to it."""
    path = tmp_path / "layers.mp4"
    options = "log-level=error:keyint=9:min-keyint=9:open-gop=0:bframes=3:b-adapt=0:scenecut=0:temporal-layers=1"
    videos.ffmpeg("-f lavfi -i", videos.SOURCE.format(2), "-c:v libx265 -preset fast -x265-params", options, path)
    slices = slices_of_hevc(path)
    lower = [(kind, at) for kind, layer, at in slices if layer == 1]
    assert len(lower) < len(slices)
    last = [at for (kind, at), (following, _) in itertools.pairwise([*lower, (20, 0)]) if kind == 1 and following == 20]
    assert len(last) > 2
    data = bytearray(path.read_bytes())
    for at in last:
        data[at] &= 0x81
    path.write_bytes(data)
    if name != path.name:
        videos.ffmpeg("-i", path, "-c copy", tmp_path / name)
    want = videos.frames(tmp_path / name)
    for i, frame in enumerate(want):
        assert np.array_equal(opened(tmp_path / name)[i], frame), i


def test_batches_that_follow_each_other_decode_each_packet_once(clips):
    path = clips("h264.mp4")
    want = videos.frames(path)
    decoder = opened(path)
    for first in range(0, len(want), 5):
        assert np.array_equal(decoder[first : first + 5], want[first : first + 5])
    assert decoder.counters["packets_decoded"] < 1.3 * len(want) + 30, decoder.counters


@pytest.mark.parametrize("name", ["h264.mp4", "h264_open.mp4", "hevc_open.mp4", "vp9.webm", "av1.mp4", "mpeg4.avi"])
def test_one_frame_after_another(clips, name):
    """Reading frames one after another decodes each packet fewer than 2.2 times on average. Reading backwards gives the same frames."""
    path = clips(name)
    want = videos.frames(path)
    decoder = opened(path)
    for i, frame in enumerate(want):
        assert np.array_equal(decoder[i], frame), i
    assert decoder.counters["packets_decoded"] < 2.2 * len(want)
    backwards = opened(path)
    for i in reversed(range(len(want))):
        assert np.array_equal(backwards[i], want[i]), i


@pytest.mark.parametrize("name", ["h264.mp4", "vfr.mp4", "edit.mp4", "late.mkv", "vp9.webm", "fragments.mp4", "hevc_open.mp4"])
def test_times_are_ffmpegs(clips, name):
    path = clips(name)
    decoder = opened(path)
    want = videos.times(path)
    batch = decoder.get_frames_at(range(len(decoder)))
    assert np.allclose(batch.pts_seconds, want, atol=1e-6)
    assert np.allclose(batch.pts_seconds[:-1] + batch.duration_seconds[:-1], want[1:], atol=1e-6)
    assert decoder.metadata.begin_stream_seconds == pytest.approx(want[0])
    assert decoder.metadata.end_stream_seconds > want[-1]


def guessed_times(path):
    """Returns FFmpeg's time of each frame. FFmpeg guesses some of them; frames without a guess have nan."""
    words = [
        "ffprobe",
        "-v",
        "error",
        "-select_streams",
        "v:0",
        "-show_entries",
        "frame=best_effort_timestamp_time",
        "-of",
        "csv=p=0",
        path,
    ]
    lines = subprocess.run(words, capture_output=True, check=True, timeout=60, text=True).stdout.split()
    return [float(t.strip(",").replace("N/A", "nan")) for t in lines]


UNEVEN = "-vf select='not(mod(n\\,3))+gt(random(1)\\,0.6)' -vsync vfr "


@pytest.mark.parametrize(
    "codec",
    [
        "libx264 -x264-params open-gop=1:bframes=3:keyint=12:min-keyint=12:scenecut=0",
        "libx265 -preset ultrafast -x265-params log-level=error:open-gop=1:bframes=4:keyint=12:min-keyint=12",
    ],
)
def test_leading_pictures_without_a_time_leave_the_other_times(tmp_path, codec):
    """Parts of a Matroska file begin with pictures of negative times, which the format cannot store."""
    videos.ffmpeg(f"-f lavfi -i testsrc2=size=96x64:rate=25:duration=5 {UNEVEN} -c:v {codec}", tmp_path / "whole.mkv")
    videos.ffmpeg("-i", tmp_path / "whole.mkv", "-c copy -f segment -segment_time 1 -reset_timestamps 1", tmp_path / "part%d.mkv")
    parts = sorted(tmp_path.glob("part*.mkv"))
    for part in parts:
        want = guessed_times(part)
        decoder = opened(part)
        got = decoder.get_frames_in_range(0, len(decoder))
        assert np.allclose(got.pts_seconds, want, atol=1e-6)
        assert np.array_equal(got.data, videos.frames(part))
    assert any(None in videos.packet_times(part) for part in parts)


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("mpeg2.mpg", "mpeg2video -g 12 -bf 2"),
        ("mpeg1.mpg", "mpeg1video -g 12 -bf 2"),
        ("h264.vob", "libx264 -g 12 -bf 3 -b:v 20k"),
        ("hevc.mpg", "libx265 -preset ultrafast -b:v 20k -x265-params log-level=error:bframes=3"),
    ],
)
def test_program_streams_keep_the_times_that_they_state(tmp_path, name, codec):
    path = tmp_path / name
    videos.ffmpeg(f"-f lavfi -i testsrc2=size=96x64:rate=25:duration=4 -c:v {codec}", path)
    assert None in videos.packet_times(path)
    known = np.array(guessed_times(path))
    decoder = opened(path)
    want = known[0] + np.arange(len(decoder)) / 25
    assert np.nanmax(np.abs(known - want)) < 1e-6
    assert np.allclose(decoder.get_frames_in_range(0, len(decoder)).pts_seconds, want, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("mpeg2.mpg", "mpeg2video -g 12 -b:v 20k"),
        ("mpeg4.vob", "mpeg4 -g 12 -q:v 31"),
        ("h264.vob", "libx264 -bf 0 -b:v 20k"),
        ("hevc.vob", "libx265 -preset ultrafast -b:v 20k -x265-params log-level=error:bframes=0"),
    ],
)
@pytest.mark.parametrize("rate", [10, 25])
def test_program_streams_without_b_frames_keep_the_times_that_they_state(tmp_path, name, codec, rate):
    """A gap of 10 s follows frame 39. A time of presentation always equals the time of decoding. The file states the gap at the first picture whose header has
    a time, and headers can be several pictures apart."""
    path = tmp_path / name
    gap = "-vf setpts=PTS+gte(N\\,40)*10/TB -vsync passthrough -force_key_frames expr:eq(n,40)"
    videos.ffmpeg(f"-f lavfi -i testsrc2=size=96x64:rate={rate}:duration={80 / rate} {gap} -c:v {codec}", path)
    known = np.array(guessed_times(path))
    got = np.array(opened(path).get_frames_in_range(0, 80).pts_seconds.tolist())
    want = got[0] + np.arange(80) / rate
    after = int(np.argmax(np.diff(got))) + 1
    want[after:] += 10
    assert 40 <= after <= 52 and np.allclose(got, want, atol=1e-4)
    away = np.abs(known - got)
    away = away[~np.isnan(away)]
    assert np.median(away) < 1e-4


@pytest.mark.parametrize(
    ("name", "source", "rate", "codec"),
    [
        ("h264.mpg", "color=c=blue:size=320x240:rate=30:duration=4", 30, "libx264 -preset veryfast -crf 40"),
        (
            "hevc.vob",
            "testsrc2=size=176x144:rate=25:duration=6",
            25,
            "libx265 -preset ultrafast -x265-params log-level=error:keyint=25:open-gop=1",
        ),
        ("mpeg4.mpg", "color=c=blue:size=320x240:rate=30:duration=4", 30, "mpeg4 -bf 2 -q:v 31"),
    ],
)
def test_a_time_that_is_reported_for_two_pictures_belongs_to_the_second(tmp_path, name, source, rate, codec):
    """If pictures are small, FFmpeg reports the times of a program stream's header for the picture before it, too."""
    path = tmp_path / name
    videos.ffmpeg(f"-f lavfi -i {source} -c:v {codec}", path)
    times = videos.packet_times(path)
    assert any(a is not None and a == b for a, b in itertools.pairwise(times))
    decoder = opened(path)
    got = decoder.get_frames_in_range(0, len(decoder)).pts_seconds
    assert np.allclose(got, got[0] + np.arange(len(decoder)) / rate, atol=1e-4)


def test_times_that_contradict_the_order_of_pictures_are_refused(tmp_path):
    """The times of the second half begin again, after a picture without a time."""
    videos.ffmpeg("-f lavfi -i testsrc2=size=176x144:rate=25:duration=2.4 -c:v mpeg2video -g 12 -bf 2", tmp_path / "one.mpg")
    assert videos.packet_times(tmp_path / "one.mpg")[-2] is None
    data = (tmp_path / "one.mpg").read_bytes()
    with pytest.raises(stoker.StokerError, match=r"has no time of presentation.*encode the file again"):
        stoker.VideoDecoder(data + data)


@pytest.mark.parametrize("stated", ["pc", "unknown"])
@pytest.mark.parametrize(("pixels", "codec", "ending"), [("gray", "ffv1", "mkv"), ("gray10le", "ffv1", "mkv"), ("gray", "rawvideo", "avi")])
def test_gray_has_full_range_as_in_ffmpeg(tmp_path, stated, pixels, codec, ending):
    path = tmp_path / f"gray.{ending}"
    videos.ffmpeg(f"-f lavfi -i testsrc2=size=96x64:rate=25:duration=0.2 -vf format={pixels} -color_range {stated} -c:v {codec}", path)
    assert "gray" in videos.probe(path)["pix_fmt"]
    want = np.frombuffer(videos.ffmpeg("-i", path, "-f rawvideo -pix_fmt rgb24 -"), np.uint8).reshape(-1, 64, 96, 3)
    assert np.abs(opened(path)[:].numpy().astype(int) - want).max() <= 1


def test_gray_of_stated_limited_range(tmp_path):
    path = tmp_path / "gray.mkv"
    videos.ffmpeg("-f lavfi -i testsrc2=size=96x64:rate=25:duration=0.2 -vf format=gray10le -color_range tv -c:v ffv1", path)
    want = np.frombuffer(videos.ffmpeg("-i", path, "-f rawvideo -pix_fmt rgb24 -"), np.uint8).reshape(-1, 64, 96, 3)
    assert np.abs(opened(path)[:].numpy().astype(int) - want).max() <= 1


@pytest.mark.parametrize("ending", ["h264", "ts", "m2v"])
def test_colours_of_parts_do_not_depend_on_the_order_of_reading(tmp_path, ending):
    """The parts of the file state no colours, then one range and matrix, then others. libavcodec keeps what an earlier part has stated."""
    x264 = "-bf 2 -g 8 -c:v libx264 -x264-params "
    mpeg2 = "-bf 2 -g 8 -c:v mpeg2video -q:v 4 "
    arguments = {
        "h264": [x264 + "bframes=2", x264 + "fullrange=on:colormatrix=bt709", x264 + "fullrange=off:colormatrix=smpte170m"],
        "m2v": [mpeg2, *(mpeg2 + f"-colorspace {c} -color_primaries {c} -color_trc {c}" for c in ("bt709", "smpte170m"))],
    }["m2v" if ending == "m2v" else "h264"]
    parts = [tmp_path / f"{k}.{'m2v' if ending == 'm2v' else 'mp4'}" for k in range(3)]
    for part, how in zip(parts, arguments, strict=True):
        videos.ffmpeg("-f lavfi -i", "testsrc2=size=64x48:rate=25:duration=0.8", "-pix_fmt yuv420p", how, part)
        if ending != "m2v":
            videos.ffmpeg("-i", part, "-c copy", part.with_suffix(f".{ending}"))
    want = np.concatenate([videos.frames(part) for part in parts])
    path = tmp_path / f"together.{ending}"
    if ending == "ts":
        videos.ffmpeg("-i", "concat:" + "|".join(str(part.with_suffix(".ts")) for part in parts), "-c copy", path)
    else:
        path.write_bytes(b"".join(part.with_suffix(f".{ending}").read_bytes() for part in parts))
    orders = [range(60), range(59, -1, -1), np.random.default_rng(SEED).permutation(60)]
    for order in orders:
        decoder = opened(path)
        assert len(decoder) == 60
        for k in map(int, order):
            assert np.array_equal(np.asarray(decoder[k]), want[k]), k


def test_the_plan_decodes_what_frames_need(clips):
    """A frame at the end of a group of 12 needs at most 12 packets; frames of one group share them."""
    decoder = opened(clips("h264.mp4"))
    decoder.get_frames_at([11, 23, 22, 11])
    assert decoder.counters["segments"] == 2 and decoder.counters["packets_decoded"] <= 24
    assert decoder.counters["frames_wanted"] == 3  # frame 11 was requested twice, but counts once


# ---- torchcodec's methods ----


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_methods_of_torchcodec_give_the_frames(clips, order):
    path = clips("h264.mp4")
    want = videos.frames(path)
    want = want if order == "NHWC" else want.transpose(0, 3, 1, 2)
    d = stoker.VideoDecoder(path, dimension_order=order, num_ffmpeg_threads=2, seek_mode="approximate")
    assert np.array_equal(d[-1], want[-1]) and np.array_equal(d[3:20:5], want[3:20:5]) and np.array_equal(d[5:2:-1], want[5:2:-1])
    assert d[4:4].shape == (0, *want.shape[1:])
    frame = d.get_frame_at(-2)
    data, begin, duration = frame
    assert np.array_equal(data, want[-2]) and begin == pytest.approx((len(want) - 2) / 25) and duration == pytest.approx(1 / 25)
    assert np.array_equal(d.get_frames_in_range(2, 9, 3).data, want[2:9:3])
    assert np.array_equal(d.get_frame_played_at(0.41).data, want[10])
    assert np.array_equal(d.get_frames_played_at([0.41, 0.0, 0.44]).data, want[[10, 0, 11]])
    played = d.get_frames_played_in_range(0.1, 0.3)
    assert np.array_equal(played.data, want[2:8]) and len(played) == 6 and played[1:3].data.shape[0] == 2
    assert np.array_equal(d.get_frames_played_in_range(0, 1, fps=10).data, want[[0, 2, 5, 7, 10, 12, 15, 17, 20, 22]])
    for begin, end, step in ((-10, 1000, 1), (-1000, 4, 1), (45, -2, 2), (60, 70, 1), (-60, -55, 1)):
        assert np.array_equal(d.get_frames_in_range(begin, end, step).data, want[begin:end:step])
    assert np.array_equal(d.get_all_frames().data, want)
    assert np.array_equal(d.get_all_frames(fps=5).data, want[::5])
    frames = list(d.get_frames_at([3, 8]))
    assert all(
        np.array_equal(f.data, want[i]) and float(f.pts_seconds) == pytest.approx(i / 25) for f, i in zip(frames, (3, 8), strict=True)
    )
    m = d.metadata
    assert (m.num_frames, m.codec, m.width, m.height, m.stream_index) == (50, "h264", 176, 144, 0)
    assert m.average_fps == pytest.approx(25) and m.duration_seconds == pytest.approx(2) and m.num_key_frames == 5


@pytest.mark.parametrize("frames", [3, 7, 10, 21])
def test_a_video_ends_where_its_last_frame_does(tmp_path, frames):
    """The end is the double nearest to frames / 25. For several of these lengths, the sum of the last frame's time and duration is another double."""
    path = tmp_path / "short.mp4"
    videos.ffmpeg("-f lavfi -i", videos.SOURCE.format(1), "-frames:v", str(frames), "-c:v mjpeg", path)
    m = stoker.VideoDecoder(path).metadata
    assert (m.end_stream_seconds, m.duration_seconds, m.average_fps) == (frames / 25, frames / 25, 25)
    assert len(stoker.VideoDecoder(path).get_frames_played_in_range(0, frames / 25)) == frames


@pytest.mark.parametrize(
    ("begin", "end", "fps", "count"),
    [(0.43, 0.44, 30.0, 0), (1.93, 2.0, 30.0, 2), (1.0, 1.32, 10.0, 3), (0.0, 0.05, 10.0, 1), (0.2, 2.0, 50.0, 90), (0.5, 0.5, 10.0, 0)],
)
def test_frames_at_a_rate(clips, begin, end, fps, count):
    """The number of frames and their times equal torchcodec 0.17's: the time of a frame is the one that was requested for it."""
    d = stoker.VideoDecoder(clips("h264.mp4"))
    batch = d.get_frames_played_in_range(begin, end, fps=fps)
    assert len(batch) == count
    assert batch.pts_seconds.tolist() == pytest.approx([begin + k / fps for k in range(count)])
    assert batch.duration_seconds.tolist() == pytest.approx([1 / fps] * count if fps else [])
    assert np.array_equal(batch.data, d.get_frames_played_at([begin + k * (1 / fps) for k in range(count)]).data)


def test_torchs_default_device(clips):
    torch = pytest.importorskip("torch")
    assert stoker.VideoDecoder(clips("h264.mp4"), device=None)[0].device == torch.get_default_device()


@pytest.mark.parametrize(("name", "rotation"), [("h264.mp4", None), ("rotated.mp4", 90.0), ("rotated180.mp4", -180.0)])
def test_rotation_is_torchcodecs(clips, name, rotation):
    """Angles are counter-clockwise, as torchcodec 0.17 reports them. (FFmpeg 5.1 writes the tag rotate=90 as a display matrix of 90 degrees.)"""
    assert stoker.VideoDecoder(clips(name)).metadata.rotation == rotation


@pytest.mark.parametrize(
    ("argument", "value", "advice"),
    [
        ("transforms", [object()], "apply them to the frames"),
        ("output_dtype", "auto", "divide them by 255"),
        ("custom_frame_mappings", "{}", "exact without them"),
    ],
)
def test_what_only_torchcodec_has(clips, argument, value, advice):
    with pytest.raises(stoker.errors.UnsupportedError, match=advice):
        stoker.VideoDecoder(clips("h264.mp4"), **{argument: value})
    stoker.VideoDecoder(clips("h264.mp4"), transforms=[], output_dtype="uint8", custom_frame_mappings=None)


@pytest.mark.parametrize(
    "call",
    [
        lambda d: d[50],
        lambda d: d[-51],
        lambda d: d.get_frame_at(50),
        lambda d: d.get_frames_at([0, 50]),
        lambda d: d.get_frames_in_range(5, 2),
        lambda d: d.get_frames_in_range(0, 5, 0),
        lambda d: d.get_frame_played_at(2.0),
        lambda d: d.get_frame_played_at(-0.1),
        lambda d: d.get_frame_played_at(float("nan")),
    ],
)
def test_frames_that_do_not_exist(clips, call):
    with pytest.raises(IndexError):
        call(stoker.VideoDecoder(clips("h264.mp4")))


def test_arguments_that_are_wrong(clips):
    path = clips("h264.mp4")
    for arguments in (
        {"dimension_order": "HWC"},
        {"device": "tpu"},
        {"seek_mode": "fast"},
        {"num_ffmpeg_threads": -1},
        {"num_ffmpeg_threads": None},
        {"stream_index": 7},
        {"stream_index": -1},
    ):
        with pytest.raises(ValueError, match=r"\w"):
            stoker.VideoDecoder(path, **arguments)
    with pytest.raises(ValueError, match="source is"):
        stoker.VideoDecoder(3)
    for call in (lambda d: d.get_frame_at(1.5), lambda d: d["1"], lambda d: d.get_frames_at([0.5])):
        with pytest.raises(TypeError, match=r"the number of a frame is a whole number, not .*; get_frame_played_at\(seconds\) takes times"):
            call(stoker.VideoDecoder(path))
    for mask in ([True, False], np.array([True, False])):
        with pytest.raises(TypeError, match=r"not True; mask.nonzero\(\)"):
            stoker.VideoDecoder(path).get_frames_at(mask)
    for call in (lambda d: d.get_frame_played_at("1"), lambda d: d.get_frames_played_at(["0.1"]), lambda d: d.get_frame_played_at(None)):
        with pytest.raises(TypeError, match="a time is a number of seconds, not "):
            call(stoker.VideoDecoder(path))
    with open(path, encoding="latin-1") as text, pytest.raises(TypeError, match="opened for text"):
        stoker.VideoDecoder(text)
    with pytest.raises(ValueError, match="must not be after stop_seconds"):
        stoker.VideoDecoder(path).get_frames_played_in_range(1, 0.5)


# ---- sources ----


def test_every_kind_of_source_gives_the_frames(clips, tmp_path):
    import torch

    path = clips("h264.mp4")
    data = path.read_bytes()
    want = videos.frames(path)
    for source in (
        str(path),
        data,
        bytearray(data),
        io.BytesIO(data),
        torch.frombuffer(bytearray(data), dtype=torch.uint8),
        f"file://{path}",
    ):
        assert np.array_equal(opened(source)[7:9], want[7:9])
    with open(path, "rb") as file:
        assert np.array_equal(opened(file)[-1], want[-1])
    renamed = tmp_path / "photo.jpg"
    renamed.write_bytes(data)
    assert len(opened(renamed)) == 50


def test_a_file_object_that_fails(clips):
    class Failing(io.BytesIO):
        def read(self, n=-1):
            if self.tell() > 20000:
                raise ZeroDivisionError("the user's own")
            return super().read(n)

    with pytest.raises(ZeroDivisionError, match="the user's own"):
        opened(Failing(clips("h264.mp4").read_bytes()))[:]


def test_a_url(clips):
    """Opening a URL and reading a frame takes three requests at most: for the file's size, for its header, and for the moov box with the frame's packets."""
    data = clips("h264.mp4").read_bytes()
    asked = []

    def fetch(uri, offset, length):
        asked.append((offset, length))
        return data[offset:] if length is None or length < 0 else data[offset : offset + length]

    def listed(uri):
        return [("mem://bucket/h264.mp4", len(data))]

    storage = stoker.Storage(fetch=fetch, list=listed)
    decoder = opened("mem://bucket/h264.mp4", storage=storage)
    assert np.array_equal(decoder[30], videos.frames(clips("h264.mp4"))[30])
    assert len(asked) <= 4 and decoder.counters["requests"] <= 3


def served(data, name="mem://bucket/v.mp4"):
    """Returns a storage with one object, and a list to which each range that is read is appended."""
    asked = []

    def fetch(uri, offset, length):
        asked.append((offset, length))
        return data[offset:] if length is None or length < 0 else data[offset : offset + length]

    return stoker.Storage(fetch=fetch, list=lambda uri: [(name, len(data))]), asked


def test_a_large_list_at_the_end_costs_one_request(clips):
    """Takes three requests: for the size, for the file's beginning, and for the moov box, even if that box crosses the border between two blocks of 1 MiB."""
    data = clips("h264.mp4").read_bytes()
    at = data.index(b"moov") - 4
    size = int.from_bytes(data[at : at + 4], "big")
    assert at + size == len(data)
    spare = 2_500_000
    moov = (size + spare).to_bytes(4, "big") + data[at + 4 :] + spare.to_bytes(4, "big") + b"free" + bytes(spare - 8)
    for gap in (8, 1_000_000, 3 << 20):
        storage, asked = served(data[:at] + gap.to_bytes(4, "big") + b"free" + bytes(gap - 8) + moov)
        decoder = opened("mem://bucket/v.mp4", storage=storage)
        assert len(decoder) == 50 and len(asked) <= 3 and decoder.counters["requests"] <= 3


# ---- indexes that are kept ----


@pytest.fixture
def long_video(tmp_path, monkeypatch):
    """Makes a video of 2 500 frames, since indexes that are quick to make are not stored. Returns its path, and the folder of indexes."""
    path = tmp_path / "long.mp4"
    videos.ffmpeg("-f lavfi -i", "testsrc2=size=64x48:rate=25:duration=100", "-c:v libx264 -preset ultrafast -bf 2 -g 50", path)
    os.utime(path, (1e9, 1e9))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    time.sleep(0.15)  # an index is not stored if the file has just changed
    return path, tmp_path / "caches" / "stoker" / "indexes"


def kept(decoder):
    return decoder.counters["index_kept"]


def described(decoder):
    return decoder.metadata, decoder.get_frames_at(range(0, len(decoder), 100)).pts_seconds.tolist(), decoder[2345].tolist()


def test_an_index_is_kept(long_video):
    path, folder = long_video
    first = opened(path)
    (file,) = folder.iterdir()
    again = opened(path)
    assert (kept(first), kept(again)) == (0, 1) and described(first) == described(again)
    assert again.counters["packets_decoded"] == first.counters["packets_decoded"]
    assert file.stat().st_mode & 0o777 == 0o666 & ~umask() and file.stat().st_size < 40 * 2500
    assert kept(opened(path, stream_index=0)) == 0  # the index for stream_index=0 is stored separately
    assert kept(opened(path.read_bytes())) == 0


def test_no_copy_of_a_file_is_stored(long_video):
    """The index of an MPEG-TS file holds the bytes of its packets, which are divided into pieces there."""
    path, folder = long_video
    copy = path.with_suffix(".ts")
    videos.ffmpeg("-i", path, "-c copy", copy)
    os.utime(copy, (1e9, 1e9))
    time.sleep(0.15)
    assert [kept(opened(copy)) for _ in range(2)] == [0, 0] and not folder.exists()


def umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize("change", ["content", "touched", "replaced", "damaged", "cut", "link", "fifo", "folder"])
def test_an_index_that_does_not_fit_is_made_again(long_video, change):
    path, folder = long_video
    want = described(opened(path))
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    if change == "content":
        path.write_bytes(path.read_bytes() + bytes(8))
    elif change == "touched":
        os.utime(path, (2e9, 2e9))
    elif change == "replaced":
        copy = path.with_name("copy.mp4")
        shutil.copy2(path, copy)
        copy.rename(path)
    elif change == "damaged":
        file.write_bytes(whole[:700] + bytes([whole[700] ^ 1]) + whole[701:])
    elif change == "cut":
        file.write_bytes(whole[:-9])
    else:
        file.unlink()
        if change == "link":
            file.symlink_to(path.with_name("elsewhere"))
        elif change == "fifo":
            os.mkfifo(file)
        else:
            file.mkdir()
    decoder = opened(path)
    assert kept(decoder) == 0 and described(decoder) == want
    assert not path.with_name("elsewhere").exists()
    if change in ("damaged", "cut", "link"):
        assert kept(opened(path)) == 1 and not file.is_symlink()


def test_short_videos_leave_no_index(clips, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    opened(clips("h264.mp4"))
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written(long_video, monkeypatch):
    path, folder = long_video
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nothing")
    assert len(opened(path)) == len(opened(path)) == 2500 and not folder.exists()


@pytest.mark.parametrize("copies", [pickle.dumps, copy.deepcopy])
def test_a_decoder_cannot_be_pickled(clips, copies):
    with pytest.raises(TypeError, match=r"VideoDecoder .* cannot be pickled or deeply copied: open one in each process"):
        copies(opened(clips("h264.mp4")))
    decoder = opened(clips("h264.mp4"))
    assert np.array_equal(copy.copy(decoder)[3], decoder[3])


def test_threads_share_a_decoder(clips):
    path = clips("h264.mp4")
    want = videos.frames(path)
    decoder = opened(path)
    wrong = []

    def work(seed):
        rng = random.Random(seed)
        for _ in range(20):
            i = rng.randrange(len(want))
            if not np.array_equal(decoder[i], want[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_import_loads_no_ffmpeg():
    code = "import stoker, stoker.fn; print(any('libav' in line for line in open('/proc/self/maps')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.strip() == "False"


# ---- bad files ----


def refused(source, **arguments):
    """Opens the video, and reads its frames one by one. Returns the messages of all errors."""
    said = []
    try:
        decoder = opened(source, **arguments)
    except stoker.StokerError as e:
        return [str(e)]
    for i in range(len(decoder)):
        try:
            decoder[i]
        except stoker.StokerError as e:
            said.append(str(e))
    return said


def test_files_that_are_no_video(clips, tmp_path):
    for name, data in (("empty.mp4", b""), ("text.mp4", b"hello " * 100), ("zeros.mp4", bytes(5000)), ("half.mp4", b"\0\0\0\x18ftypmp42")):
        path = tmp_path / name
        path.write_bytes(data)
        with pytest.raises(stoker.StokerError, match=name):
            opened(path)
    with pytest.raises(stoker.errors.NotFoundError, match=r"none\.mp4"):
        opened(tmp_path / "none.mp4")
    videos.ffmpeg("-f lavfi -i sine=duration=1", tmp_path / "sound.wav")
    with pytest.raises(stoker.StokerError, match="no video stream"):
        opened(tmp_path / "sound.wav")
    (tmp_path / "list.mp4").write_text("#EXTM3U\n#EXTINF:1,\n/etc/passwd\n")
    with pytest.raises(stoker.StokerError):
        opened(tmp_path / "list.mp4")


@pytest.mark.parametrize("size", [0x7FFFFFFF, 0xFFFFFFFF])
def test_a_packet_of_an_impossible_size_is_a_bad_sample(tmp_path, size):
    """FFmpeg reports that memory ran out for a packet of 4 GiB. That would end the pipeline, although other files are intact."""
    path = tmp_path / "good.ivf"
    videos.ffmpeg("-f lavfi -i testsrc2=size=64x48:rate=10:duration=2 -c:v libvpx", path)
    data, at = bytearray(path.read_bytes()), 32
    for _ in range(5):
        at += 12 + int.from_bytes(data[at : at + 4], "little")
    data[at : at + 4] = size.to_bytes(4, "little")
    bad = tmp_path / "bad.ivf"
    bad.write_bytes(data)
    with pytest.raises(stoker.StokerError, match=r"bad\.ivf") as raised:
        opened(bad)[:]
    assert not isinstance(raised.value, stoker.errors.OutOfMemoryError)
    loader = stoker.Loader([str(bad), str(path)], 1, frames=20, on_error="skip", max_errors=10)
    assert sum(len(batch) for batch in loader) >= 1


def test_a_cut_file_names_frame_and_time(clips, tmp_path):
    data = clips("front.mp4").read_bytes()
    path = tmp_path / "cut.mp4"
    path.write_bytes(data[: len(data) * 2 // 3])
    want = videos.frames(clips("front.mp4"))
    decoder = opened(path)
    assert len(decoder) == 50
    assert np.array_equal(decoder[5], want[5])
    with pytest.raises(stoker.StokerError, match=r"cut\.mp4: frame 49 \(1\.960 s\): .*cut short"):
        decoder[49]
    assert np.array_equal(decoder[6], want[6])  # the decoder still works after the error
    whole = clips("h264.mp4").read_bytes()
    path.write_bytes(whole[: len(whole) // 2])  # cuts off the moov box, which is at the end
    with pytest.raises(stoker.StokerError, match=r"cut\.mp4"):
        opened(path)


def test_frames_before_a_cut_are_those_of_any_order_of_calls(clips, tmp_path):
    """A decoder that reads on sends packets ahead. If those are missing, the frames before them are still right, and an error names a frame that needs them."""
    data = clips("front.mp4").read_bytes()
    path = tmp_path / "cut.mp4"
    path.write_bytes(data[: len(data) * 2 // 3])
    want = videos.frames(clips("front.mp4"))

    def frame(decoder, i):
        try:
            return np.asarray(decoder[i]).tobytes()
        except stoker.StokerError as e:
            return str(e)

    alone = [frame(opened(path), i) for i in range(len(want))]
    lost = [i for i, result in enumerate(alone) if isinstance(result, str)]
    assert lost[0] > 0 and all(f"frame {i} " in alone[i] for i in lost)
    assert all(alone[i] == want[i].tobytes() for i in range(len(want)) if i not in lost)
    decoder = opened(path)
    assert [frame(decoder, i) for i in range(len(want))] == alone
    for numbers in ([0, lost[0]], [lost[0] - 1, lost[0]], range(lost[0] + 3)):
        with pytest.raises(stoker.StokerError, match=rf"frame {lost[0]} \("):
            opened(path).get_frames_at(list(numbers))


@pytest.mark.parametrize("name", ["front.mp4", "hevc_open.mp4", "vp9.webm", "av1.mp4", "h264.ts", "mpeg4.avi", "fragments.mp4"])
def test_flipped_bits_never_crash(clips, name):
    data = clips(name).read_bytes()
    rng = random.Random(SEED)
    for _ in range(8):
        bad = bytearray(data)
        for _ in range(rng.choice([1, 20])):
            bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        refused(bytes(bad))
        refused(bytes(bad), strict=False)
        refused(bytes(bad[: rng.randrange(len(bad))]))


def test_a_damaged_frame_is_refused(clips):
    """Overwrites bytes of one packet. Frames in other groups of 12 frames are still decoded exactly."""
    path = clips("front.mp4")
    want = videos.frames(path)
    words = ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pos,size,flags", "-of", "csv=p=0", str(path)]
    packets = [line.split(",") for line in subprocess.run(words, capture_output=True, check=True, text=True).stdout.split()]
    size, position = int(packets[13][0]), int(packets[13][1])
    bad = bytearray(path.read_bytes())
    bad[position + 8 : position + size] = bytes([0xFF]) * (size - 8)
    decoder = opened(bytes(bad))
    assert np.array_equal(decoder[:12], want[:12]) and np.array_equal(decoder[24:], want[24:])
    messages = refused(bytes(bad))
    assert messages and all("damaged" in m and "frame " in m for m in messages)
    assert opened(bytes(bad), strict=False)[:].shape == want.shape


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["h264.ts", "mpeg4.avi"])
def test_whether_a_frame_is_damaged_does_not_depend_on_earlier_calls(clips, name, seed):
    data, draw = bytearray(clips(name).read_bytes()), random.Random(seed)
    for _ in range(2):
        at = draw.randrange(len(data) // 4, len(data) - 200)
        data[at : at + 60] = draw.randbytes(60)

    def is_whole(decoder, frame):
        try:
            decoder[frame]
        except stoker.StokerError:
            return False
        return True

    count = len(opened(bytes(data)))
    want = [is_whole(opened(bytes(data)), i) for i in range(count)]
    for step in (1, 2, 3):
        decoder = opened(bytes(data))
        for i in range(0, count, step):
            assert is_whole(decoder, i) == want[i], (step, i)


def overwritten(path, draws):
    """Yields copies of an MP4 file, in each of which a part of one packet is overwritten."""
    words = ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pos,size", "-of", "csv=p=0", str(path)]
    lines = subprocess.run(words, capture_output=True, check=True, text=True, timeout=60).stdout.split()
    packets = [tuple(map(int, line.split(",")[:2])) for line in lines]
    for seed in range(draws):
        draw, data = random.Random(seed), bytearray(path.read_bytes())
        size, position = draw.choice(packets)
        begin = draw.randrange(12, max(13, size - 2))
        for at in range(begin, min(size, begin + 100)):
            data[position + at] = draw.randrange(4, 256)
        yield bytes(data)


def frame_of(decoder, i):
    """Returns frame i, or None if it is refused."""
    try:
        return decoder[i]
    except stoker.StokerError:
        return None


def test_frames_after_damage_do_not_depend_on_earlier_calls(tmp_path):
    """The decoder of H.264 keeps coefficients of a damaged block, and adds them to a block of the next picture, even if it has been flushed in between."""
    path = tmp_path / "vlc.mp4"
    videos.ffmpeg("-f lavfi -i", videos.SOURCE.format(1), "-c:v libx264 -preset fast -bf 2 -g 12 -coder vlc", path)
    for seed, data in enumerate(overwritten(path, 16)):
        want = [frame_of(opened(data), i) for i in range(25)]
        decoder = opened(data)
        for i in random.Random(seed).sample(range(25), 25):
            frame = frame_of(decoder, i)
            assert (frame is None) == (want[i] is None) and np.array_equal(frame, want[i]), (seed, i)


@pytest.mark.parametrize("coder", ["cabac", "vlc"])
def test_frames_that_depend_on_damage_that_ffmpeg_reports_are_refused(tmp_path, coder):
    """FFmpeg conceals the damage of a picture, and returns B-frames that refer to the picture before the picture itself."""
    path, bad = tmp_path / "video.mp4", tmp_path / "bad.mp4"
    videos.ffmpeg("-f lavfi -i", videos.SOURCE.format(1), "-c:v libx264 -preset fast -bf 2 -g 12 -coder", coder, path)
    want, reported = videos.frames(path), 0
    for seed, data in enumerate(overwritten(path, 16)):
        bad.write_bytes(data)
        words = ["ffmpeg", "-nostdin", "-v", "error", "-threads", "1", "-i", str(bad), "-f", "null", "-"]
        said = subprocess.run(words, capture_output=True, check=True, text=True, timeout=60).stderr
        if "error while decoding MB" not in said:
            continue
        reported += 1
        decoder = opened(data)
        for i in range(len(want)):
            for frame in (frame_of(opened(data), i), frame_of(decoder, i)):
                assert frame is None or np.array_equal(frame, want[i]), (seed, i)
    assert reported >= 4


def with_film_grain(data):
    """Returns a stream of H.264 in Annex B with a message about film grain before each slice."""
    numbers = [
        f"{n:b}".zfill(2 * n.bit_length() - 1) for n in (2 * 40, 2 * 8, 2 * 8, 2)
    ]  # three values of the model, and the message's period
    bits = "0 00 0 00 0010 100".replace(" ", "") + f"{0:08b}{2:03b}{0:08b}{255:08b}" + "".join(numbers) + "1"
    payload = int(bits.ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(-(-len(bits) // 8), "big")
    message = b"\0\0\1\6" + bytes([19, len(payload)]) + payload.replace(b"\0\0", b"\0\0\3") + b"\x80"
    head, *units = data.split(b"\0\0\1")
    return head + b"".join((message if unit[0] & 31 in (1, 5) else b"") + b"\0\0\1" + unit for unit in units)


def test_frames_with_film_grain_that_depend_on_damage_are_refused(tmp_path):
    """FFmpeg decodes such a picture in one frame, whose damage it notes, and adds the grain in another one."""
    path, bad = tmp_path / "video.h264", tmp_path / "bad.h264"
    videos.ffmpeg("-f lavfi -i", videos.SOURCE.format(1), "-c:v libx264 -preset fast -bf 2 -g 12 -threads 1", path)
    plain = videos.frames(path)
    path.write_bytes(with_film_grain(path.read_bytes()))
    want, reported = videos.frames(path), 0
    assert len(want) == len(plain) and not np.array_equal(want, plain)
    for seed, data in enumerate(overwritten(path, 16)):
        bad.write_bytes(data)
        words = ["ffmpeg", "-nostdin", "-v", "error", "-threads", "1", "-i", str(bad), "-f", "null", "-"]
        if b"error while decoding MB" not in subprocess.run(words, capture_output=True, check=True, timeout=60).stderr:
            continue
        reported += 1
        decoder = opened(data)
        for i in range(min(len(want), len(decoder))):
            for frame in (frame_of(opened(data), i), frame_of(decoder, i)):
                assert frame is None or np.array_equal(frame, want[i]), (seed, i)
    assert reported >= 4


def test_damage_is_found_once_for_all_frames_that_depend_on_it(tmp_path):
    """The file is one group of 100 frames. Without a memory of the damage, each frame after it would be decoded from the key frame, twice."""
    path = tmp_path / "one.mp4"
    videos.ffmpeg("-f lavfi -i testsrc2=size=96x64:rate=25:duration=4 -c:v mpeg4 -g 200 -bf 2 -sc_threshold 1000000000", path)
    words = ["ffprobe", "-v", "error", "-select_streams", "v:0", "-show_entries", "packet=pos,size", "-of", "csv=p=0", str(path)]
    packets = [line.split(",") for line in subprocess.run(words, capture_output=True, check=True, text=True).stdout.split()]
    data = bytearray(path.read_bytes())
    for size, position in (map(int, packet[:2]) for packet in packets[48:52]):
        data[position + 8 : position + size] = bytes([0xFF]) * (size - 8)

    def fault(decoder, frame):
        try:
            decoder[frame]
        except stoker.StokerError as error:
            return str(error)
        return None

    alone = [fault(opened(bytes(data)), i) for i in range(100)]
    assert not any(alone[:45]) and all(alone[53:])
    decoder = opened(bytes(data))
    assert [fault(decoder, i) for i in range(100)] == alone
    assert decoder.counters["packets_decoded"] < 1000
    for order in (range(99, -1, -1), random.Random(SEED).sample(range(100), 100)):
        decoder = opened(bytes(data))
        assert {i: fault(decoder, i) for i in order} == dict(enumerate(alone))


@pytest.mark.parametrize("name", ["h264.ts", "mpeg2.ts", "hevc.ts"])
def test_a_lost_packet_of_a_transport_stream_is_refused(clips, tmp_path, name):
    """Removes one transport packet of 188 bytes. Codecs conceal the gap, so only the counters of the packets show it. Frames are exact and keep their times,
    or are refused, the same ones in each order of reading. Frames of other groups are still decoded."""
    path = tmp_path / name
    if name == "hevc.ts":
        videos.ffmpeg("-i", clips("hevc_open.mp4"), "-c copy", path)
    else:
        path = clips(name)
    data, whole = path.read_bytes(), opened(path)
    want = {round(whole.get_frame_at(i).pts_seconds, 3): whole[i] for i in range(len(whole))}
    end = len(data) // 188
    for gap in [*range(4, end, end // 8), 5, 6]:
        bad = data[: gap * 188] + data[(gap + 1) * 188 :]
        once = opened(bad)
        given = 0
        for i in range(len(once)):
            results = []
            for decoder in (once, opened(bad)):
                try:
                    results.append(decoder.get_frame_at(i))
                except stoker.StokerError as e:
                    assert "damaged" in str(e) or "no whole picture" in str(e)
                    results.append(None)
            assert (results[0] is None) == (results[1] is None), (gap, i)
            for frame in results:
                if frame is not None:
                    given += 1
                    assert np.array_equal(frame.data, want[round(frame.pts_seconds, 3)]), (gap, i)
        assert given > 0, gap


@pytest.mark.parametrize("name", ["vp9.webm", "hevc10.mkv"])
def test_a_cut_matroska_file_is_no_shorter_video(clips, tmp_path, name):
    """FFmpeg gives the frames up to the cut without an error. The last of them is refused, since others are missing after it. A file that was written to a pipe
    states no size, and is read as far as it goes."""
    data, whole = clips(name).read_bytes(), opened(clips(name))
    for share in (0.5, 0.8, 0.95):
        path = tmp_path / f"cut_{name}"
        path.write_bytes(data[: int(len(data) * share)])
        decoder, lenient = opened(path), opened(path, strict=False)
        assert 2 < len(decoder) <= len(whole)
        with pytest.raises(stoker.StokerError, match=rf"cut_{name}: frame \d+ .* are missing from the file"):
            decoder[:]
        assert lenient[:].shape[0] == len(decoder) and np.array_equal(decoder[0], whole[0])
    streamed = videos.ffmpeg("-i", clips(name), "-c copy -f matroska -")
    assert np.array_equal(opened(streamed)[:], whole[:])


@pytest.mark.parametrize(
    ("name", "codec", "piped"),
    [
        ("a.avi", "-c:v mpeg4 -c:a mp3", "-f avi"),
        ("index.avi", "-c:v mjpeg -an", "-f avi"),
        ("a.flv", "-c:v flv -c:a mp3 -ar 44100", "-f flv"),
        ("h264.flv", "-c:v libx264 -g 12 -c:a aac -ar 44100", "-f flv -flvflags no_sequence_end"),
        ("fragments.mp4", "-c:v libx264 -g 12 -c:a aac -movflags frag_keyframe+empty_moov", "-f mp4 -movflags frag_keyframe+empty_moov"),
        ("vp8.ivf", "-c:v libvpx -an", "-f ivf"),
    ],
)
def test_a_cut_avi_flv_ivf_or_fragmented_mp4_is_no_shorter_video(tmp_path, name, codec, piped):
    """FFmpeg gives the frames up to the cut without an error. Files that were written to a pipe state no size or a wrong one, and are read as far as they go.
    Of two cuts of FLV that are one byte apart, one is inside of a tag and can be recognised."""
    path = tmp_path / name
    videos.ffmpeg("-f lavfi -i testsrc2=size=64x48:rate=10:duration=5 -f lavfi -i sine=duration=5", codec, path)
    data, whole = path.read_bytes(), opened(path)[:]
    assert len(whole) == 50
    for share in (0.5, 0.6, 0.7, 0.9):
        refused = []
        for end in (int(len(data) * share), int(len(data) * share) + 1):
            decoder = opened(data[:end])
            assert len(decoder) <= 50 and np.array_equal(decoder[0], whole[0])
            try:
                refused += [len(decoder[:]) == 50]
            except stoker.StokerError:
                refused.append(True)
        assert all(refused) or (any(refused) and name.endswith("flv")), share
    streamed = videos.ffmpeg("-i", path, "-c copy", piped, "-")
    assert np.array_equal(opened(streamed)[:], whole)


def test_avi_that_lacks_only_its_index(tmp_path):
    """All frames are in the file. But if the packets of the streams are not interleaved, FFmpeg leaves out those that an incomplete index lacks."""
    path = tmp_path / "v.avi"
    videos.ffmpeg("-f lavfi -i testsrc2=size=64x48:rate=10:duration=5 -f lavfi -i sine=duration=5 -c:v mjpeg -c:a pcm_s16le", path)
    data, whole, sound = path.read_bytes(), opened(path)[:], stoker.audioread(path)[0]
    movi, index = data.index(b"movi"), data.rindex(b"idx1")
    entries = [data[at : at + 16] for at in range(index + 8, len(data), 16)]
    apart, moved = bytearray(data[: movi + 4]), b""  # the sound, and then the frames
    for kind in (b"01wb", b"00dc"):
        for entry in (e for e in entries if e[:4] == kind):
            at, size = movi + int.from_bytes(entry[8:12], "little"), int.from_bytes(entry[12:], "little")
            moved += entry[:8] + (len(apart) - movi).to_bytes(4, "little") + entry[12:]
            apart += data[at : at + 8 + size + size % 2]
    assert len(apart) == index
    apart += data[index : index + 8] + moved
    for file in (data, bytes(apart)):
        for end in (index, index + 20, index + (len(data) - index) // 2, len(data) - 40, len(data)):
            decoder = opened(file[:end])
            if file is data or len(decoder) == len(whole):
                assert np.array_equal(decoder[:], whole), end
            else:
                assert index + 24 < end < len(data)
                with pytest.raises(stoker.StokerError, match="are missing from the file"):
                    decoder[:]
            if end < index + 24 or end == len(data):
                assert np.array_equal(stoker.audiodecode(file[:end])[0], sound)
        with pytest.raises(stoker.StokerError, match="are missing from the file"):
            opened(file[: index - 1])[:]
    for end in (index - 1, index - 3000):
        with pytest.raises(stoker.StokerError, match=r"a truncated file|damaged at"):
            stoker.audiodecode(data[:end])


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF, 0x7FFFF000, None])
def test_sizes_of_avi_that_were_not_filled_in_or_count_the_header(tmp_path, size):
    """size: the size that the file states; None: 8 bytes too many."""
    path = tmp_path / "v.avi"
    videos.ffmpeg("-f lavfi -i testsrc2=size=64x48:rate=10:duration=2 -c:v mjpeg", path)
    data, whole = bytearray(path.read_bytes()), opened(path)[:]
    data[4:8] = (len(data) if size is None else size).to_bytes(4, "little")
    assert np.array_equal(opened(bytes(data))[:], whole)


def test_an_ivf_file_whose_header_states_the_duration_is_not_cut(tmp_path):
    """FFmpeg writes the duration in time bases where other programs write the number of frames."""
    videos.ffmpeg("-f lavfi -i testsrc2=size=64x48:rate=10:duration=2 -c:v libvpx", tmp_path / "v.webm")
    videos.ffmpeg("-i", tmp_path / "v.webm", "-c copy", tmp_path / "v.ivf")
    assert int.from_bytes((tmp_path / "v.ivf").read_bytes()[24:28], "little") > 1000
    assert len(opened(tmp_path / "v.ivf")[:]) == 20


@pytest.mark.parametrize("sound", ["", "-f lavfi -i sine=duration=5 -c:a flac"])
@pytest.mark.parametrize("codec", ["libtheora", "libvpx"])
def test_a_cut_ogg_file_is_no_shorter_video(tmp_path, codec, sound):
    """FFmpeg gives the frames of whole pages without an error. A file that is cut, also between two pages, lacks the pages that end its streams."""
    if f" {codec} " not in videos.ffmpeg("-hide_banner -encoders").decode():
        pytest.skip(f"this ffmpeg has no {codec}")
    path = tmp_path / "v.ogv"
    videos.ffmpeg("-f lavfi -i", "testsrc2=size=64x48:rate=10:duration=5", sound, "-c:v", codec, path)
    data, pages, whole = path.read_bytes(), [], opened(path)[:]
    assert len(whole) == 50
    while sum(pages) < len(data):
        table = data[sum(pages) + 26 : sum(pages) + 27 + 255]
        pages.append(27 + table[0] + sum(table[1 : 1 + table[0]]))
    for end in [len(data) // 2, len(data) * 9 // 10, len(data) - 1, sum(pages[: len(pages) * 2 // 3]), sum(pages[:-1])]:
        path.write_bytes(data[:end])
        decoder, lenient = opened(path), opened(path, strict=False)
        assert 2 < len(decoder) <= 50
        with pytest.raises(stoker.StokerError, match=r"v\.ogv: frame \d+ .* are missing from the file"):
            decoder[:]
        assert len(lenient[:]) == len(decoder) and np.array_equal(decoder[0], whole[0])
    path.write_bytes(data + b"TAG" + bytes(125))
    assert np.array_equal(opened(path)[:], whole)


def box(kind, *parts):
    body = b"".join(parts)
    return struct.pack(">I", len(body) + 8) + kind + body


def test_boxes_that_promise_too_much(clips):
    data = clips("h264.mp4").read_bytes()
    moov = data[data.index(b"moov") - 4 :]
    trak_at = moov.index(b"trak") - 4
    trak = moov[trak_at : trak_at + struct.unpack(">I", moov[trak_at : trak_at + 4])[0]]
    many = box(b"ftyp", b"isom\0\0\2\0isom") + box(b"moov", moov[8:trak_at], trak * 2000)
    assert refused(many)
    two = data + moov
    assert len(opened(two)) == 50 or refused(two)
    huge = bytearray(data)
    at = data.index(b"mvhd") + 4
    huge[at : at + 1] = b"\1"  # version 1: times and durations have 64 bits
    refused(bytes(huge))
    at = data.index(b"stsz") + 8
    for count in (0x7FFFFFFF, 0xFFFFFFFF):
        huge = bytearray(data)
        huge[at : at + 8] = struct.pack(">II", 1, count)  # states `count` samples of one byte each
        refused(bytes(huge))


@pytest.mark.parametrize("name", ["mpeg4.mp4", "h263.3gp"])
def test_a_size_that_only_the_codec_knows(clips, name):
    """FFmpeg's demuxer does not report the frame size of these codecs in MP4, only the codec does. The metadata still have the right height and width."""
    facts = opened(clips(name)).metadata
    assert (facts.height, facts.width) == videos.frames(clips(name))[0].shape[:2]


def without_width(data):
    """Sets the width that a Matroska file states to 0."""
    at = data.index(bytes([0xB0, 0x81, 176, 0xBA, 0x81]))
    return data[: at + 2] + bytes(1) + data[at + 3 :]


def test_a_header_without_the_size(clips):
    """The size is that of the stream. A codec whose stream has no size, as FFV1, is refused."""
    data = clips("vp9.webm").read_bytes()
    assert opened(without_width(data)).metadata.width == 176
    assert np.array_equal(opened(without_width(data))[:], opened(data)[:])
    with pytest.raises(stoker.StokerError, match="states the size of the frames"):
        opened(without_width(clips("gray.mkv").read_bytes()))


def read_pair(path):
    """Returns the shape of a clip of two frames, read by readers.video."""
    pipe = stoker.Pipeline(1, 1, None)
    with pipe:
        pipe.set_outputs(stoker.fn.readers.video(device="cpu", filenames=[str(path)], sequence_length=2))
    return pipe.run()[0].shape()[0]


@pytest.mark.parametrize("stated", [(200, 100), (16, 16), (60, 44), (50, 48)])
@pytest.mark.parametrize(
    "codec",
    [
        "libx264 -pix_fmt yuv420p",
        "libx264 -pix_fmt yuv420p -flags +ilme+ildct",
        "libx264 -pix_fmt yuv444p -x264-params cqm=jvt",
        "libx265 -pix_fmt yuv422p10le -x265-params log-level=none",
        "libx265 -pix_fmt yuv420p -x265-params log-level=none:temporal-layers=3",
    ],
)
def test_a_box_that_states_another_size(tmp_path, codec, stated):
    """The sizes in MP4's boxes and in the coded stream differ. As with FFmpeg, the stream's counts, but a box that leaves out a part of H.264's last blocks
    crops them."""
    path = tmp_path / "v.mp4"
    videos.ffmpeg("-f lavfi -i", "testsrc2=size=62x44:rate=10:duration=1", "-c:v", codec, path)
    data = bytearray(path.read_bytes())
    at = max(data.rfind(b"avc1"), data.rfind(b"hev1")) + 28
    assert struct.unpack_from(">HH", data, at) == (62, 44)
    struct.pack_into(">HH", data, at, *stated)
    path.write_bytes(data)
    facts = videos.probe(path)
    decoder = opened(path)
    assert (decoder.metadata.width, decoder.metadata.height) == (facts["width"], facts["height"]) == decoder[0].shape[1::-1]
    assert read_pair(path) == (2, facts["height"], facts["width"], 3)


def test_a_wrong_header_of_another_codec(tmp_path):
    path, fixed = tmp_path / "v.mp4", tmp_path / "fixed.mp4"
    videos.ffmpeg("-f lavfi -i", "testsrc2=size=62x44:rate=10:duration=1", "-c:v libvpx-vp9", path)
    data = bytearray(path.read_bytes())
    struct.pack_into(">HH", data, data.rfind(b"vp09") + 28, 80, 32)
    path.write_bytes(data)
    videos.ffmpeg("-i", path, "-c copy", fixed)
    with pytest.raises(stoker.errors.ShapeError, match=r"62 x 44 pixels, and the video 80 x 32: .* `ffmpeg -i IN -c copy OUT` corrects it"):
        read_pair(path)
    assert read_pair(fixed) == (2, 44, 62, 3)


@pytest.mark.parametrize("width", [-1, -(2**31)])
def test_impossible_sizes(clips, width):
    """A file that states a negative width is refused as damaged. A PixelWidth (b0) of four bytes replaces Matroska's PixelWidth of one byte and the next
    field."""
    data = clips("vp9.webm").read_bytes()
    at = data.index(bytes([0xB0, 0x81, 176, 0xBA, 0x81]))
    with pytest.raises(stoker.StokerError, match="is damaged"):
        opened(data[:at] + bytes([0xB0, 0x84]) + struct.pack(">i", width) + data[at + 6 :])


def moov_of(data):
    """Returns the file's bytes before its moov box, which is the last one, and the bytes in the box."""
    at = data.index(b"moov")
    assert int.from_bytes(data[at - 4 : at], "big") == len(data) - at + 4
    return data[: at - 4], data[at + 4 :]


def test_two_lists(clips):
    """If a file has two moov boxes, the first one is used, or the file is refused. Frames of one box are never read at the offsets of the other."""
    data = clips("h264.mp4").read_bytes()
    want = videos.frames(clips("h264.mp4"))
    before, moov = moov_of(data)
    other = moov_of(clips("vfr.mp4").read_bytes())[1]
    for second in (moov, other):
        try:
            decoder = opened(before + box(b"moov", moov) + box(b"moov", second))
        except stoker.StokerError:
            continue
        assert np.array_equal(decoder[20], want[20])


def test_a_hundred_thousand_tracks(clips):
    """The file is refused with a message, because the number of streams is limited."""
    before, moov = moov_of(clips("h264.mp4").read_bytes())
    at = moov.index(b"trak") - 4
    size = int.from_bytes(moov[at : at + 4], "big")
    track = moov[at : at + size]
    small = box(b"trak", box(b"mdia", box(b"hdlr", bytes(8), b"vide", bytes(13))))
    for tracks in (small * 100_000, track * 3000):
        with pytest.raises(stoker.errors.LimitError, match=r"more than [0-9]+ streams"):
            opened(before + box(b"moov", moov[:at], tracks, moov[at + size :]))
    # The moov box has one good track, and after it more tracks than the limit allows: the file is refused, not read in part.
    with pytest.raises(stoker.StokerError):
        opened(before + box(b"moov", moov[: at + size], small * 300, moov[at + size :]))


@pytest.mark.parametrize("value", [2**63, 2**64 - 1, 2**63 - 1, 0])
@pytest.mark.parametrize("name", [b"mvhd", b"mdhd"])
def test_impossible_durations(clips, name, value):
    """Writes an impossible 64-bit duration to a box of version 1. Frames are still found, because each has its own time."""
    before, moov = moov_of(clips("h264.mp4").read_bytes())

    def changed(data):
        at = data.index(name) - 4
        size = int.from_bytes(data[at : at + 4], "big")
        scale = data[at + 20 : at + 24]
        return data[:at] + box(name, b"\1\0\0\0", bytes(16), scale, struct.pack(">Q", value), data[at + 28 : at + size]) + data[at + size :]

    moov = changed(moov)
    if name == b"mdhd":  # mdhd grows by 12 bytes, and so do the boxes around it
        for outer in (b"trak", b"mdia"):
            at = moov.index(outer) - 4
            moov = moov[:at] + struct.pack(">I", int.from_bytes(moov[at : at + 4], "big") + 12) + moov[at + 4 :]
    decoder = opened(before + box(b"moov", moov))
    assert len(decoder) == 50 and decoder.metadata.duration_seconds == pytest.approx(2.0, abs=0.1)
    assert np.array_equal(decoder[20], videos.frames(clips("h264.mp4"))[20])


@pytest.mark.parametrize(("name", "wrong"), [("late.mkv", "a.mp4"), ("h264.mp4", "a.webm"), ("h264.ts", "a.avi")])
def test_a_wrong_extension(clips, tmp_path, name, wrong):
    (tmp_path / wrong).write_bytes(clips(name).read_bytes())
    assert np.array_equal(opened(tmp_path / wrong)[10], opened(clips(name))[10])


@pytest.mark.parametrize("flags", ["frag_keyframe+empty_moov", "frag_keyframe+empty_moov+default_base_moof"])
def test_fragments_out_of_order(clips, tmp_path, flags):
    """Exchanges fragments. Each frame is then the right one for its time, or is refused. Offsets in the first kind of file are absolute, so they are wrong
    afterwards. FFmpeg drops the frames of a fragment that comes too late."""
    path = tmp_path / "fragments.mp4"
    videos.ffmpeg("-i", clips("h264.mp4"), "-c copy -movflags", flags, path)
    data, want = path.read_bytes(), videos.frames(path)
    begins = videos.times(path)
    at = [i - 4 for i in range(len(data)) if data[i : i + 4] == b"moof"]
    end = data.index(b"mfra") - 4
    parts = [data[a:b] for a, b in zip(at, [*at[1:], end], strict=True)]
    for order in ([1, 0, 2, 3, 4], [4, 3, 2, 1, 0], [0, 1, 1, 2, 3, 4], [0, 2, 3, 4]):
        decoder = opened(data[: at[0]] + b"".join(parts[k] for k in order))
        assert len(decoder) > 0
        for i in range(len(decoder)):
            try:
                frame = decoder.get_frame_at(i)
            except stoker.StokerError as e:
                assert "default_base" not in flags and f"frame {i} (" in str(e)
            else:
                nearest = min(range(len(begins)), key=lambda k: abs(begins[k] - frame.pts_seconds))
                assert abs(begins[nearest] - frame.pts_seconds) < 1e-3 and np.array_equal(frame.data, want[nearest])


@pytest.mark.parametrize("length", [12, 250])
@pytest.mark.parametrize(
    ("name", "codec"),
    [("v.ivf", "libvpx -g {}"), ("v.mp4", "libx264 -bf 2 -sc_threshold 0 -g {}"), ("v.mp4", "mpeg4 -bf 2 -sc_threshold 0 -g {}")],
)
def test_a_key_frame_whose_time_is_too_late_is_refused(tmp_path, name, codec, length):
    """The frames that need it would be left out, and later frames would get their numbers. length: frames from one key frame to the next."""
    path = tmp_path / name
    videos.ffmpeg("-f lavfi -i testsrc2=size=64x48:rate=25:duration=2 -c:v", codec.format(length), path)
    data = bytearray(path.read_bytes())
    assert len(opened(bytes(data))) == 50
    if name.endswith("ivf"):
        data[32 + 4 : 32 + 12] = (100).to_bytes(8, "little")
    else:
        at = data.index(b"ctts") + 16  # the difference between the times of presentation and of decoding, for the first packets
        assert data[at - 4 : at] == (1).to_bytes(4, "big")
        data[at : at + 4] = (1 << 20).to_bytes(4, "big")
    with pytest.raises(stoker.StokerError, match=r"packet 0, a key frame, has a time after those of \d+ frames"):
        opened(bytes(data))


@pytest.mark.parametrize(
    ("name", "codec"),
    [
        ("v.ts", "libx264 -x264-params open-gop=1:bframes=3:keyint=3:min-keyint=3:scenecut=0"),
        ("v.ts", "libx264 -x264-params open-gop=1:bframes=8:b-adapt=0:b-pyramid=0:keyint=24:min-keyint=24:scenecut=0"),
        ("v.mkv", "libx265 -preset ultrafast -x265-params log-level=error:open-gop=1:bframes=4:b-adapt=0:keyint=12:min-keyint=12"),
        ("v.mpg", "mpeg2video -g 3 -bf 2"),
        ("v.mpg", "mpeg1video -g 12 -bf 2"),
    ],
)
def test_leading_pictures_of_a_part_are_left_out(tmp_path, name, codec):
    """A part that was cut out of a video is no damaged file. Where FFmpeg cuts is up to the container."""
    videos.ffmpeg("-f lavfi -i testsrc2=size=64x48:rate=25:duration=4 -c:v", codec, tmp_path / name)
    for k in range(1, 12, 2):
        part = tmp_path / f"part{k}_{name}"
        videos.ffmpeg(f"-ss {k / 10} -i", tmp_path / name, "-c copy", part)
        decoder = opened(part)
        assert len(decoder) >= 40
        assert len(decoder[:]) == len(decoder)


def test_a_stream_without_its_first_key_frame(clips, tmp_path):
    """The 12 frames that depend on the missing key frame cannot be decoded, and are not counted."""
    data = clips("annex_b.h264").read_bytes()
    starts = [i for i in range(len(data) - 5) if data[i : i + 3] == b"\0\0\1"]
    idr = [s for s in starts if data[s + 3] & 31 == 5]
    sps = [s for s in starts if data[s + 3] & 31 in (7, 8)]
    head = data[sps[0] : idr[0]]
    after = next(s for s in starts if s > idr[0])
    path = tmp_path / "late.h264"
    path.write_bytes(head + data[after:])
    decoder = opened(path)
    want = videos.frames(clips("annex_b.h264"))
    assert len(decoder) == len(want) - 12 and np.array_equal(decoder[:], want[12:])
    none = head + data[after : next(s for s in starts if s > idr[0] and data[s + 3] & 31 in (7, 8))]
    assert refused(none)


def test_sizes_that_change(clips, tmp_path):
    small = tmp_path / "small.h264"
    videos.ffmpeg("-f lavfi -i testsrc2=size=96x64:rate=25:duration=1", videos.H264, small)
    both = clips("annex_b.h264").read_bytes() + small.read_bytes()
    decoder = opened(both)
    assert len(decoder) == 75
    assert tuple(decoder[49].shape) == (144, 176, 3) and tuple(decoder[50].shape) == (64, 96, 3)
    with pytest.raises(stoker.ShapeError, match="frame 50 has 96 x 64 pixels"):
        decoder[48:52]


def test_an_encrypted_file(clips, tmp_path):
    path = tmp_path / "drm.mp4"
    key = "00112233445566778899aabbccddeeff"
    videos.ffmpeg("-i", clips("h264.mp4"), f"-c copy -encryption_scheme cenc-aes-ctr -encryption_key {key} -encryption_kid {key}", path)
    with pytest.raises(stoker.StokerError, match=r"drm\.mp4: .*encrypted"):
        opened(path)


def test_an_interrupt_ends_a_long_read(clips):
    """Ctrl-C while frames are read raises KeyboardInterrupt."""
    code = """
import os, signal, sys, threading, stoker
decoder = stoker.VideoDecoder(sys.argv[1])
try:
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    while True:
        decoder[:]
except KeyboardInterrupt:
    print("interrupted", decoder[3].shape)
"""
    done = subprocess.run([sys.executable, "-c", code, str(clips("h264.mp4"))], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.startswith("interrupted"), done.stderr


def test_inspect_reports_the_stream_and_failed_frames(clips, tmp_path):
    data = clips("front.mp4").read_bytes()
    bad = tmp_path / "cut.mp4"
    bad.write_bytes(data[: len(data) * 2 // 3])
    command = [os.environ.get("STOKER_BUILD", "build") + "/cli/stoker", "inspect"]
    good = subprocess.run([*command, clips("front.mp4")], capture_output=True, text=True, timeout=60, check=True)
    assert "h264 in QuickTime / MOV" in good.stdout and "50 frames of 176 x 144, 2.000 s" in good.stdout
    assert "25.00 frames a second" in good.stdout and "5 key frames, at most 12 frames" in good.stdout
    done = subprocess.run([*command, bad, "--json"], capture_output=True, text=True, timeout=60, check=False)
    facts = json.loads(done.stdout)
    assert done.returncode == 1 and facts["frames"] == 50 and 0 < facts["damaged"] < 25 and not facts["variable_rate"]
    assert "frame 49 (1.960 s)" in facts["failures"][-1]
    assert json.loads(subprocess.run([*command, clips("vfr.mp4"), "--json"], capture_output=True, text=True, check=True).stdout)[
        "variable_rate"
    ]
    rounded = tmp_path / "rounded.mkv"  # with times in whole milliseconds
    source = ["-f", "lavfi", "-i", "testsrc=size=64x64:rate=30000/1001:duration=1", "-c:v", "mpeg4"]
    subprocess.run(["ffmpeg", "-v", "error", *source, rounded], check=True, timeout=60)
    assert "29.97 frames a second\n" in subprocess.run([*command, rounded], capture_output=True, text=True, check=True).stdout
    none = subprocess.run([*command, tmp_path / "none.mp4"], capture_output=True, text=True, check=False)
    assert none.returncode == 1 and "none.mp4" in none.stderr


def command(*words):
    program = os.environ.get("STOKER_BUILD", "build") + "/cli/stoker"
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)


def test_view_draws_frames_at_equal_distances(clips, tmp_path):
    """The sheet shows frames at equal distances with their numbers and times. Frames that fail are crossed out."""
    done = command("view", clips("h264.mp4"), "-o", tmp_path / "a.png", "-b", 5, "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 0 and [f["frame"] for f in said["frames"]] == [0, 12, 24, 36, 49]
    assert [f["seconds"] for f in said["frames"]] == pytest.approx([0, 0.48, 0.96, 1.44, 1.96]) and said["frames"][1]["key"]
    with Image.open(tmp_path / "a.png") as sheet:
        pixels = np.asarray(sheet.convert("RGB"))
    found = [np.argwhere((pixels == 255).all(-1))]
    assert pixels.shape[0] > 2 * 144 and pixels.shape[1] > 3 * 176 and len(found)
    corner = np.asarray(opened(clips("h264.mp4"))[0])[:8, :8]
    assert any(np.array_equal(pixels[y : y + 8, x : x + 8], corner) for y in range(12) for x in range(12))
    data = clips("front.mp4").read_bytes()
    (tmp_path / "cut.mp4").write_bytes(data[: len(data) * 2 // 3])
    done = command("view", tmp_path / "cut.mp4", "-o", tmp_path / "b.png", "-b", 5)
    assert done.returncode == 1 and "frame 49 (1.960 s)" in done.stderr and (tmp_path / "b.png").exists()
    done = command("view", clips("h264.mp4"), "--augment", 3, "-o", tmp_path / "c.png")
    assert done.returncode == 2 and "--augment" in done.stderr
    assert command("view", tmp_path / "none.mp4", "-o", tmp_path / "c.png").returncode == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # CPython warns if a process with threads forks
def test_a_fork_while_another_thread_decodes(clips):
    """In the forked process, the decoder that the thread used raises an error instead of waiting for ever; others work."""
    inside, end = threading.Event(), threading.Event()

    class Slow(io.FileIO):
        waits = False

        def read(self, n=-1):
            if self.waits:
                inside.set()
                end.wait(30)
            return super().read(n)

    file = Slow(clips("h264.mp4"))
    busy, idle = opened(file), opened(clips("h264.mp4"))
    want = np.asarray(idle[7])
    file.waits = True
    thread = threading.Thread(target=lambda: busy[30])
    thread.start()
    assert inside.wait(30)
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # ends a process that waits without an end
        try:
            with pytest.raises(stoker.errors.StateError, match="open another one"):
                busy[7]
            os._exit(0 if np.array_equal(idle[7], want) and np.array_equal(opened(clips("h264.mp4"))[7], want) else 1)
        finally:
            os._exit(2)
    end.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert np.array_equal(busy[7], want)


@pytest.mark.parametrize("name", ["sound.mkv", "sound.webm", "sound.mp4"])
def test_containers_that_hold_only_sound(tmp_path, name):
    """`stoker inspect` and `stoker view` treat files with a video's ending that contain only sound as sounds."""
    coding = {"mkv": "flac", "webm": "libvorbis", "mp4": "aac"}[name.partition(".")[2]]
    videos.ffmpeg(f"-f lavfi -i sine=duration=1:sample_rate=48000 -c:a {coding}", tmp_path / name)
    done = command("inspect", tmp_path / name)
    assert done.returncode == 0 and "1 channel of" in done.stdout and "48000 Hz, 1.0" in done.stdout
    done = command("view", tmp_path / name, "-o", tmp_path / "a.png")
    assert done.returncode == 0 and "waveform and spectrogram" in done.stdout and (tmp_path / "a.png").exists()
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:40])
    assert command("inspect", tmp_path / name).returncode == 1


def test_bench_reports_the_shares_of_the_time(clips, tmp_path):
    """`stoker bench` on a folder of videos reports the shares of time, and counts damaged videos."""
    for i in range(2):
        shutil.copy(clips("h264.mp4"), tmp_path / f"{i}.mp4")
    said = json.loads(command("bench", tmp_path, "--seconds", 0.5, "--json").stdout)
    shares = [said[f"{part}_percent"] for part in ("opening", "reading", "decoding", "conversion")]
    assert said["videos"] == 2 and said["clips"] >= 2 and said["failed"] == 0 and 0 < sum(shares) <= 100
    assert said["bound_by"] == "decoding" or max(shares) != shares[2]
    assert 1 <= said["decoded_per_frame"] <= 50 / 16 * 2
    (tmp_path / "2.mp4").write_bytes(b"none" * 100)
    done = command("bench", tmp_path, "--seconds", 0.1)
    assert done.returncode == 1 and "2.mp4" in done.stderr and "clips failed" in done.stdout
    assert command("bench", tmp_path / "2.mp4", "--seconds", 0.1).returncode == 1
