# SPDX-License-Identifier: Apache-2.0
"""readers.video, experimental.readers.video and decoders.video: clips contain the frames that their numbers name, in DALI's order, on any shard and after a
restart."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import struct
import subprocess
import urllib.request

import numpy as np
import pytest
import stoker
import videos
from stoker import errors, fn, ops, pipeline_def, types
from storage import Store

pytestmark = videos.needs_video


@pytest.fixture(scope="session")
def pair(clips):
    """Returns the paths of two videos of equal size, with 50 and with 48 frames."""
    return [str(clips("h264.mp4")), str(clips("vfr.mp4"))]


def pipeline(read, batch=1, threads=2, **arguments):
    @pipeline_def(batch_size=batch, num_threads=threads, device_id=None)
    def define():
        out = read(**arguments)
        return tuple(out) if isinstance(out, (list, tuple)) else out

    pipe = define()
    pipe.build()
    return pipe


def samples(read, count=None, **arguments):
    """Returns all samples of an epoch, or the first `count`, as tuples of arrays."""
    pipe = pipeline(read, name="r", **arguments)
    count = count or pipe.reader_meta("r")["epoch_size"]
    return [tuple(np.array(o[0]) for o in pipe.run()) for _ in range(count)]


def numbered(name="experimental", **arguments):
    read = fn.experimental.readers.video if name == "experimental" else fn.readers.video
    return samples(read, enable_frame_num="sequence", **arguments)


def frames_of(path, numbers, fill=0):
    whole = stoker.VideoDecoder(path, dimension_order="NHWC")[:].numpy()
    return np.stack([whole[n] if n >= 0 else np.full_like(whole[0], fill) for n in numbers])


def can_decode(video, frame):
    try:
        video[frame]
    except stoker.StokerError:
        return False
    return True


@pytest.mark.parametrize("reader", ["experimental", "plain"])
@pytest.mark.parametrize(("length", "stride", "step"), [(5, 1, -1), (4, 3, -1), (8, 2, 5), (1, 1, -1), (50, 1, -1)])
def test_clips_hold_their_frames(pair, reader, length, stride, step):
    got = numbered(reader, filenames=pair, labels=[3, 9], sequence_length=length, stride=stride, step=step)
    want = []
    for path, label in zip(pair, [3, 9], strict=True):
        n = len(stoker.VideoDecoder(path))
        gap = step if step > 0 else length * stride
        span = (length - 1) * stride + 1 if reader == "plain" else length * stride
        want += [(path, label, list(range(s, s + length * stride, stride))) for s in range(0, n, gap) if s + span <= n]
    assert [(label.item(), numbers.tolist()) for _, label, numbers in got] == [(label, numbers) for _, label, numbers in want]
    for (clip, _, _), (path, _, numbers) in zip(got, want, strict=True):
        assert np.array_equal(clip, frames_of(path, numbers))


def test_times_and_types(pair):
    pipe = pipeline(
        fn.readers.video, filenames=pair[1], sequence_length=6, stride=4, enable_timestamps=True, enable_frame_num="scalar", labels=[]
    )
    clip, label, first, times = pipe.run()
    assert (clip.layout(), clip.dtype, label.dtype, first.dtype, times.dtype) == (
        "FHWC",
        types.UINT8,
        types.INT32,
        types.INT32,
        types.FLOAT64,
    )
    assert np.array(label[0]).tolist() == [0] and np.array(first[0]).tolist() == [0]
    decoder = stoker.VideoDecoder(pair[1])
    assert np.allclose(np.array(times[0]), decoder.get_frames_at(range(0, 24, 4)).pts_seconds)
    (only,) = pipeline(fn.readers.video, filenames=pair, sequence_length=2).run()
    assert only.layout() == "FHWC"


def test_frame_numbers_as_a_flag(pair):
    """enable_frame_num also takes True and False, as in DALI."""
    arguments = {"filenames": pair, "sequence_length": 2, "count": 1}
    assert [a.tolist() for a in samples(fn.readers.video, enable_frame_num=True, **arguments)[0][1:]] == [[0]]
    assert len(samples(fn.readers.video, enable_frame_num=False, **arguments)[0]) == 1


def test_float_frames_are_the_scaled_bytes(pair):
    whole = samples(fn.readers.video, filenames=pair[0], sequence_length=3, count=1)[0][0]
    plain = samples(fn.readers.video, filenames=pair[0], sequence_length=3, count=1, dtype=types.FLOAT)[0][0]
    unit = samples(fn.readers.video, filenames=pair[0], sequence_length=3, count=1, dtype=types.FLOAT, normalized=True)[0][0]
    assert np.array_equal(plain, whole.astype(np.float32)) and np.array_equal(unit, whole.astype(np.float32) * np.float32(1 / 255))


def test_files_of_every_ending_of_videos(clips, tmp_path):
    endings = [glob.removeprefix("*") for glob in stoker._core.video_globs()]
    assert {".mts", ".m2t", ".3gp", ".3g2", ".ogv", ".vob", ".m2v", ".mpe", ".mj2", ".ivf", ".obu"} < set(endings)
    (tmp_path / "a").mkdir()
    for ending in endings:
        (tmp_path / "a" / f"video{ending}").symlink_to(clips("h264_small.mp4"))
    (tmp_path / "a" / "text.txt").write_text("no video")
    assert len(samples(fn.readers.video, file_root=str(tmp_path), sequence_length=25)) == len(endings)
    fields = {"video": stoker.Video(frames=2), "label": None}
    assert sum(len(batch.label) for batch in stoker.Loader(tmp_path, 9, fields=fields)) == len(endings)


def test_folders_and_lists(clips, pair, tmp_path):
    for k, name in enumerate(["b", "a"]):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{k}.mp4").symlink_to(pair[k])
    got = samples(fn.readers.video, file_root=str(tmp_path), sequence_length=10)
    assert [label.item() for _, label in got] == [0] * 4 + [1] * 5
    text = tmp_path / "list.txt"
    text.write_text(f"{pair[0]} 7 0.25 1.05\n\n{pair[0]} 8\n{pair[1]} -1 1\n")
    got = numbered(file_list=str(text), sequence_length=21, pad_mode="edge")
    assert [(label.item(), n[0], n[-1]) for _, label, n in got] == [
        (7, 6, 26),
        (8, 0, 20),
        (8, 21, 41),
        (8, 42, 49),
        (-1, 8, 28),
        (-1, 29, 47),
    ]
    text.write_text(f"{pair[0]} 7 -10 -3\n")
    got = numbered(file_list=str(text), sequence_length=7, file_list_format="frames")
    assert [n.tolist() for _, _, n in got] == [list(range(40, 47))]
    got = numbered("plain", file_list=str(text), sequence_length=7, file_list_frame_num=True)
    assert [n.tolist() for _, _, n in got] == [list(range(40, 47))]
    for line, said in (
        ("a.mp4", "file label"),
        ("a.mp4 x", "file label"),
        ("a.mp4 1 2 3 4", "file label"),
        ("a.mp4 1 nan", "file label"),
        ("", "no files"),
    ):
        text.write_text(line + "\n")
        with pytest.raises(stoker.StokerError, match=said):
            pipeline(fn.readers.video, file_list=str(text), sequence_length=2)


@pytest.mark.parametrize(
    "name",
    [
        "h264_open.mp4",
        "hevc_open.mp4",
        "vp9.webm",
        "h264.ts",
        "fragments.mp4",
        "mpeg4.avi",
        "mpeg4.mp4",
        "annex_b.h264",
        "rotated.mp4",
        "edit.mp4",
    ],
)
def test_every_kind_of_file(clips, name):
    path = str(clips(name))
    want = videos.frames(path)
    for clip, numbers in numbered(filenames=path, sequence_length=7, stride=3, step=4, pad_mode="reflect"):
        assert np.array_equal(clip, want[numbers])


def test_short_clips_of_open_groups(clips):
    """Decoding begins at pictures of H.264 that are not IDR pictures. A clip's bytes suffice for its frames."""
    path = str(clips("h264_open.mp4"))
    want = videos.frames(path)
    for length in (1, 2):
        for clip, numbers in numbered("plain", filenames=path, sequence_length=length, step=1):
            assert np.array_equal(clip, want[numbers]), numbers


def test_uniform_clips_span_the_video(pair):
    got = numbered(filenames=pair, sequence_length=7, uniform_sample=True)
    assert [n.tolist() for _, n in got] == [np.floor(np.linspace(0, n - 1, 7) + 0.5).astype(int).tolist() for n in (50, 48)]
    assert np.array_equal(got[1][0], frames_of(pair[1], got[1][1]))


def numbers_of(decoded, path):
    """Returns for each decoded frame its number in the video; -1 for a frame that is not in the video, such as padding."""
    whole = stoker.VideoDecoder(path, dimension_order="NHWC")[:].numpy()
    return [next((i for i, w in enumerate(whole) if np.array_equal(w, f)), -1) for f in decoded]


@pytest.mark.parametrize(
    ("arguments", "want"),
    [
        ({}, list(range(50))),
        ({"frames": [0, 49, 5, 5]}, [0, 49, 5, 5]),
        ({"frames": 7}, [7]),
        ({"frames": [0, 52]}, [0, -1]),
        ({"frames": [0, 52], "pad_mode": "edge"}, [0, 49]),
        ({"start_frame": 45, "stride": 2}, [45, 47, 49]),
        ({"start_frame": 2, "end_frame": 8, "stride": 3}, [2, 5]),
        ({"start_frame": 45, "end_frame": 52, "pad_mode": "none"}, [45, 46, 47, 48, 49]),
        ({"start_frame": 45, "end_frame": 52, "stride": 2, "pad_mode": "edge"}, [45, 47, 49, 49]),
        ({"sequence_length": 3}, [0, 1, 2]),
        ({"start_frame": 48, "sequence_length": 4, "fill_value": [118, 185, 0]}, [48, 49, -1, -1]),
        ({"start_frame": 46, "sequence_length": 4, "stride": 3, "pad_mode": "reflect_1001"}, [46, 49, 47, 44]),
        ({"start_frame": 46, "sequence_length": 4, "stride": 3, "pad_mode": "reflect_101"}, [46, 49, 46, 43]),
    ],
)
def test_decoded_sequences_have_their_frames(pair, arguments, want):
    def read():
        data, _ = fn.readers.file(files=pair[:1])
        return fn.experimental.decoders.video(data, **arguments)

    (out,) = pipeline(read).run()
    got = np.array(out[0])
    assert out.layout() == "FHWC" and numbers_of(got, pair[0]) == want
    if "fill_value" in arguments:
        assert (got[-1] == np.array([118, 185, 0])).all()


def test_decoder_takes_values_of_samples(pair):
    def read():
        data, number = fn.readers.file(files=pair)
        return fn.decoders.video(data, start_frame=number * 3 + 1, sequence_length=number + 2, stride=2)

    pipe = pipeline(read, batch=2)
    (out,) = pipe.run()
    assert numbers_of(np.array(out[0]), pair[0]) == [1, 3] and numbers_of(np.array(out[1]), pair[1]) == [4, 6, 8]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"frames": [1], "stride": 2}, "frames names all frames"),
        ({"sequence_length": 3, "end_frame": 4}, "choose one"),
        ({"start_frame": 50}, "start_frame is 50; the video has 50 frames"),
        ({"frames": [50], "pad_mode": "none"}, "frame 50 does not exist"),
        ({"pad_mode": "mirror"}, "pad_mode"),
        ({"fill_value": [1, 2]}, "fill_value has 2 values"),
    ],
)
def test_decoder_refuses(pair, arguments, said):
    def read():
        data, _ = fn.readers.file(files=pair[:1])
        return fn.decoders.video(data, **arguments)

    with pytest.raises(stoker.StokerError, match=said):
        pipeline(read).run()


def test_random_places(pair):
    """Clips of position="random" depend on the seed and the sample's position, but not on the number of threads, and are inside the video."""

    def run(threads, seed):
        def read():
            data, _ = fn.readers.file(files=pair[:1] * 6)
            return fn.decoders.video(data, sequence_length=5, stride=4, position="random")

        @pipeline_def(batch_size=3, num_threads=threads, device_id=None, seed=seed)
        def define():
            return read()

        pipe = define()
        pipe.build()
        return [numbers_of(np.array(pipe.run()[0][i]), pair[0]) for _ in range(4) for i in range(3)]

    first = run(1, 5)
    assert first == run(3, 5) and first != run(1, 6) and len({c[0] for c in first}) > 5
    assert all(np.diff(c).tolist() == [4] * 4 for c in first)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "nothing to read"),
        ({"filenames": ["a.mp4"], "file_root": "x"}, "different ways"),
        ({"filenames": ["none.mp4"]}, r"none\.mp4"),
        ({"filenames": [__file__]}, r"test_video_readers\.py"),
        ({"labels": [1]}, "nothing to read"),
        ({"image_type": types.GRAY}, "image_type"),
    ],
)
def test_readers_refuse(pair, arguments, said):
    with pytest.raises(stoker.StokerError, match=said):
        pipeline(
            fn.readers.video, sequence_length=2, **({"filenames": pair} if arguments == {"image_type": types.GRAY} else {}), **arguments
        )


def test_too_long_clips(pair):
    with pytest.raises(stoker.StokerError, match="there is no clip of 60 frames"):
        pipeline(fn.readers.video, filenames=pair, sequence_length=60)
    got = numbered("plain", filenames=pair[0], sequence_length=60, pad_sequences=True)
    assert got[0][1].tolist() == [*range(50), *[-1] * 10] and not got[0][0][50:].any()


# ---- order, shards, a restart, errors ----


def test_shards_and_a_restart(pair):
    arguments = {"filenames": pair, "sequence_length": 4, "random_shuffle": True, "enable_frame_num": "scalar", "labels": []}

    def places(pipe, batches):
        return [
            (int(np.array(label[i]).item()), int(np.array(first[i]).item()))
            for _ in range(batches)
            for _, label, first in [pipe.run()]
            for i in range(2)
        ]

    @pipeline_def(batch_size=2, num_threads=2, device_id=None, seed=3)
    def define(shard=0, shards=1):
        return tuple(fn.readers.video(**arguments, shard_id=shard, num_shards=shards, name="r"))

    whole = define()
    whole.build()
    size = whole.reader_meta("r")["epoch_size"]
    assert size == 24
    both = []
    for shard in range(2):
        part = define(shard=shard, shards=2)
        part.build()
        both += places(part, size // 4)
    assert sorted(both) == sorted(places(whole, size // 2)) and len(set(both)) == size
    begun = define()
    begun.build()
    places(begun, 5)
    state = begun.checkpoint()
    rest = places(begun, 4)
    resumed = define(checkpoint=state)
    resumed.build()
    assert places(resumed, 4) == rest


def test_operators_after_a_reader_take_its_sequences(pair):
    """resize and crop_mirror_normalize after a reader take its clips as sequences of frames."""

    @pipeline_def(batch_size=2, num_threads=2, device_id=None)
    def define():
        clip = fn.readers.video(filenames=pair, sequence_length=3)
        small = fn.resize(clip, size=[20, 30])
        return small, fn.crop_mirror_normalize(clip, crop=[32, 32], output_layout="FCHW", dtype=types.FLOAT), clip

    pipe = define()
    pipe.build()
    small, cut, clip = pipe.run()
    assert (
        np.array(small[0]).shape == (3, 20, 30, 3)
        and np.array(cut[1]).shape == (3, 3, 32, 32)
        and np.array(clip[0]).shape == (3, 144, 176, 3)
    )


def test_a_replaced_video_is_decoded_with_its_own_index(tmp_path):
    """The files have equal sizes, so that a replacement's bytes lie where those of the damaged file lay."""
    paths = [tmp_path / f"{k}.ts" for k in range(2)]
    for k, path in enumerate(paths):
        videos.ffmpeg("-f lavfi -i testsrc2=size=128x96:rate=25:duration=1 -vf", f"hue=h={100 * k}", "-c:v mpeg2video -q:v 4", path)
    empty = b"\x47\x1f\xff\x10" + bytes(184)
    size = max(path.stat().st_size for path in paths) // 188
    for path in paths:
        path.write_bytes(path.read_bytes() + empty * (size - path.stat().st_size // 188))
    data, at = bytearray(paths[0].read_bytes()), size // 2 * 188
    data[at : at + 188] = empty
    paths[0].write_bytes(data)
    damaged, whole = stoker.VideoDecoder(paths[0]), stoker.VideoDecoder(paths[1], dimension_order="NHWC")
    bad = next(i for i in range(len(damaged)) if not can_decode(damaged, i))

    @pipeline_def(batch_size=1, num_threads=1, device_id=None, on_error="replace", max_errors=100)
    def define():
        data, frame = fn.readers.file(files=[str(path) for path in paths], labels=[bad, 2])
        data = fn.cat(data, data[:0])  # moves the bytes to the worker's own memory, where each sample's begin at the same address
        return fn.decoders.video(data, frames=frame), frame

    pipe = define()
    pipe.build()
    for _ in range(2):
        clip, frame = pipe.run()
        assert np.array(frame[0]).item() == 2
        np.testing.assert_array_equal(np.array(clip[0])[0], whole[2].numpy())
    assert len(pipe.bad_samples()) == 1


def state_size(data, name, form):
    """Changes how the only box with this name states its size, and the size of a moov box around it. Returns the size and the position of the box."""
    at = data.find(name) - 4
    size = int.from_bytes(data[at : at + 4], "big")
    if form == "to the end":
        data[at : at + 4] = bytes(4)
    elif form == "64 bits":
        size += 8
        data[at : at + 8] = struct.pack(">I4sQ", 1, name, size)
        moov = data.find(b"moov") - 4
        if moov < at:
            struct.pack_into(">I", data, moov, int.from_bytes(data[moov : moov + 4], "big") + 8)
    return size, at


def with_equal_packets(path, count, moov="32 bits", trak="32 bits"):
    """Returns the bytes of an MP4 file, changed so that its header lists `count` packets of one byte each. moov, trak: how these boxes state their sizes."""
    data = bytearray(path.read_bytes())
    for name, values in ((b"stsz", (1, count)), (b"stts", (1, count)), (b"stsc", (1, 1, count, 1)), (b"stco", (1,))):
        struct.pack_into(f">{len(values)}I", data, data.find(name) + 8, *values)
    for name in (b"stss", b"ctts", b"edts"):
        at = data.find(name)
        if at > 0:
            data[at : at + 4] = b"free"
    state_size(data, b"trak", trak)
    size, at = state_size(data, b"moov", moov)
    assert at + size == len(data)
    return np.frombuffer(bytes(data), np.uint8)


def test_a_header_cannot_take_memory_beyond_the_limit(tmp_path):
    """A table of a few bytes can state any number of packets. A list of impossibly many is refused, and one of very many if memory_limit does not have room."""
    path = tmp_path / "short.mp4"
    videos.ffmpeg("-f lavfi -i testsrc2=size=128x96:rate=25:duration=0.4 -c:v libx264 -bf 0", path)

    def refuse(count, message, **sizes):
        data = with_equal_packets(path, count, **sizes)

        @pipeline_def(batch_size=1, num_threads=1, device_id=None, memory_limit=1 << 20)
        def define():
            return fn.decoders.video(fn.external_source(source=lambda info: data, batch=False), sequence_length=1)

        with pytest.raises(stoker.StokerError, match=message):
            define().run()

    for sizes in ({}, {"moov": "64 bits"}, {"trak": "64 bits"}, {"moov": "to the end"}, {"moov": "64 bits", "trak": "64 bits"}):
        refuse(20_000_000, "the header lists packets of more than 64 times the file's size", **sizes)
    refuse(60 * path.stat().st_size, "the list of its packets takes more than .* that memory_limit leaves")


@pytest.mark.parametrize(("width", "height", "count"), [(320, 240, 60), (64, 48, 700)], ids=["few", "many"])
def test_copies_of_packets_stay_within_the_limit(tmp_path, width, height, count):
    """MPEG-TS divides packets into pieces, so the list holds copies of them. Reading the list stops before they exceed the limit, with few and with many packets."""
    path = tmp_path / "v.ts"
    videos.ffmpeg(f"-f lavfi -i testsrc2=size={width}x{height}:rate=25 -frames:v {count} -c:v mpeg2video -g 1 -q:v 1", path)
    data = np.fromfile(path, np.uint8)
    words = ["ffprobe", "-v", "error", "-show_entries", "packet=size", "-of", "csv=p=0", str(path)]
    sizes = [int(word.split(",")[0]) for word in subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()]
    assert len(sizes) == count

    def read(limit):
        @pipeline_def(batch_size=1, num_threads=1, device_id=None, memory_limit=limit)
        def define():
            return fn.decoders.video(fn.external_source(source=lambda info: data, batch=False), sequence_length=1)

        return np.array(define().run()[0])

    for part in (0.3, 0.9, 0.99):
        with pytest.raises(stoker.StokerError, match=r"the list of its packets takes more than .* that memory_limit leaves"):
            read(int(part * sum(sizes)))
    entries, decoding = 64 * count, 7 << 18  # more than the list's entries take, and a decoder for frames of this size
    assert read(sum(sizes) + entries + decoding).shape[-3:] == (height, width, 3)


def test_a_damaged_clip_follows_on_error(clips, tmp_path):
    data = bytearray(clips("front.mp4").read_bytes())
    good = tmp_path / "good.mp4"
    good.write_bytes(data)
    bad = tmp_path / "bad.mp4"
    bad.write_bytes(data[: len(data) * 2 // 3])
    arguments = {"filenames": [str(good), str(bad)], "sequence_length": 10, "labels": []}
    pipe = pipeline(fn.readers.video, **arguments)
    with pytest.raises(stoker.StokerError, match=r"bad\.mp4"):
        for _ in range(10):
            pipe.run()

    @pipeline_def(batch_size=10, num_threads=2, device_id=None, on_error="replace", max_errors=10)
    def define():
        return tuple(fn.readers.video(**arguments))

    pipe = define()
    pipe.build()
    clip, _ = pipe.run()
    assert len(clip) == 10 and all(np.array(c).shape == (10, 144, 176, 3) for c in clip)


def test_a_local_file_that_changes_follows_on_error(clips, tmp_path):
    """If a file is replaced during a run, its samples are bad; those of other files are not."""
    good, changes = tmp_path / "good.mp4", tmp_path / "changes.mp4"
    for path in (good, changes):
        shutil.copy(clips("h264.mp4"), path)

    @pipeline_def(batch_size=1, num_threads=2, device_id=None, on_error="skip", max_errors=0.9)
    def define():
        names = [str(good), str(changes)]
        return tuple(fn.readers.video(filenames=names, labels=[0, 1], sequence_length=5, enable_frame_num=True, random_shuffle=True))

    pipe = define()
    pipe.build()
    pipe.run()
    CHANGES["replaced"](changes, clips("h264_open.mp4"))
    want, late = frames_of(good, range(50)), []
    for k in range(80):
        clip, label, first = (np.array(o[0]) if len(o) else None for o in pipe.run())
        if clip is not None:
            assert np.array_equal(clip, want[first.item() : first.item() + 5])
            late += [label.item()] if k >= 40 else []  # the first 40 clips may have been read before the change
    assert set(late) == {0}


def test_the_first_bad_file_is_named(pair, tmp_path):
    """Files are opened several at a time. The error names the first bad file of the list."""
    for name in ("b.mp4", "a.mp4"):
        (tmp_path / name).write_bytes(b"no video" * 100)
    names = [*pair * 10, str(tmp_path / "b.mp4"), *pair * 10, str(tmp_path / "a.mp4")]
    with pytest.raises(stoker.StokerError, match=r"b\.mp4: .*\(video 21 of 42\)"):
        pipeline(fn.readers.video, filenames=names, sequence_length=2)


@contextlib.contextmanager
def serving(video, tmp_path, monkeypatch, **more):
    """Yields a store whose object s3://bucket/v.mp4 is the video. Indexes are stored below tmp_path."""
    folder = tmp_path / os.path.basename(video) / "bucket"
    folder.mkdir(parents=True)
    shutil.copy(video, folder / "v.mp4")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    with contextlib.closing(Store(folder.parent, **more)) as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made


def test_the_index_of_an_object_is_kept(pair, tmp_path, monkeypatch):
    """Opening an object takes at most three requests. Opening it again takes one, with the stored index; another version of the object is read again."""

    def run(store):
        before = store.counts()["requests"]
        decoder = stoker.VideoDecoder("s3://bucket/v.mp4", storage=stoker.Storage(), dimension_order="NHWC")
        assert store.counts()["requests"] - before - 1 == decoder.counters["requests"]  # 1: the request that counts() itself makes
        return decoder.counters["index_kept"], decoder.counters["requests"], len(decoder), decoder[30].tolist()

    with serving(pair[0], tmp_path, monkeypatch) as store:
        kept, requests, *first = run(store)
        assert kept == 0 and requests <= 3 and len(list(tmp_path.rglob("*.stoker"))) == 1
        kept, requests, *again = run(store)
        assert (kept, requests) == (1, 1) and first == again
    with serving(pair[1], tmp_path, monkeypatch) as store:
        kept, _, frames, _ = run(store)
        assert kept == 0 and frames == 48


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o700])
def test_indexes_are_kept_only_where_no_one_else_can_write(pair, tmp_path, monkeypatch, mode):
    """No index is stored in, or read from, a folder to which other users may write: they could plant an index with wrong offsets."""
    from stoker import _core

    with serving(pair[0], tmp_path, monkeypatch):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
        folder = tmp_path / "caches" / "stoker" / "indexes"
        assert _core.index_folder() == str(folder)
        folder.mkdir(parents=True)
        folder.chmod(mode)
        kept = [stoker.VideoDecoder("s3://bucket/v.mp4", storage=stoker.Storage()).counters["index_kept"] for _ in range(2)]
        assert kept == [0, int(mode == 0o700)] and len(os.listdir(folder)) == int(mode == 0o700)
        assert _core.index_folder() == (str(folder) if mode == 0o700 else None)


def test_indexes_are_kept_under_no_folder_that_others_can_swap(tmp_path, monkeypatch):
    """The folders above the folder of indexes must be safe too: their owners, and everyone who may write to them, could exchange it for another folder."""
    from stoker import _core

    caches = tmp_path / "caches"
    monkeypatch.setenv("XDG_CACHE_HOME", str(caches))
    (caches / "stoker" / "indexes").mkdir(parents=True, mode=0o700)
    for mode, parent in ((0o777, caches), (0o770, caches / "stoker"), (0o1777, caches / "stoker")):
        before = parent.stat().st_mode & 0o7777
        parent.chmod(mode)
        assert _core.index_folder() is None, parent
        parent.chmod(before)
    caches.chmod(0o1777)  # like /tmp, with the sticky bit: other users cannot replace this user's files
    assert _core.index_folder() == str(caches / "stoker" / "indexes")
    if os.geteuid() == 0:
        os.chown(caches / "stoker", 12345, -1)
        assert _core.index_folder() is None


def test_readers_keep_indexes(pair, tmp_path, monkeypatch):
    with serving(pair[0], tmp_path, monkeypatch):
        for _ in range(2):
            got = samples(fn.readers.video, filenames="s3://bucket/v.mp4", sequence_length=5, count=2)
            assert np.array_equal(got[1][0], frames_of(pair[0], range(5, 10)))
            assert stoker.VideoDecoder("s3://bucket/v.mp4", storage=stoker.Storage()).counters["index_kept"] == 1


@pytest.mark.parametrize(
    "arguments", [{"size": [40, 50]}, {"resize_shorter": 48, "interp_type": types.INTERP_CUBIC}, {"resize_x": 60, "antialias": False}]
)
def test_video_resize(pair, arguments):
    """readers.video_resize gives the same clips as readers.video and resize together. With dtype FLOAT, its values can be normalised."""
    read = {"filenames": pair, "sequence_length": 3, "enable_frame_num": "sequence", "labels": [], "count": 3}
    got = samples(fn.readers.video_resize, **read, **arguments)

    def both(**more):
        clip, *others = fn.readers.video(**more)
        return (fn.resize(clip, **arguments), *others)

    want = samples(both, **read)
    assert all(np.array_equal(a, b) for ours, theirs in zip(got, want, strict=True) for a, b in zip(ours, theirs, strict=True))
    assert got[0][0].shape[0] == 3 and got[0][0].shape != (3, 144, 176, 3) and len(got[0]) == 3
    floats = samples(fn.readers.video_resize, filenames=pair, sequence_length=2, count=1, dtype=types.FLOAT, normalized=True, size=[8, 8])[
        0
    ][0]
    assert floats.dtype == np.float32 and floats.min() >= 0 and floats.max() <= 1


def test_video_resize_as_a_class(pair):
    """Arguments of the constructor also apply to calls of the object, as with other operators."""
    read = {"filenames": pair, "sequence_length": 3, "labels": []}
    made = ops.readers.VideoResize(**read, size=[40, 50])
    want = samples(fn.readers.video_resize, **read, size=[40, 50], count=2)
    got = samples(lambda **more: made(**more), count=2)
    assert all(np.array_equal(a, b) for ours, theirs in zip(got, want, strict=True) for a, b in zip(ours, theirs, strict=True))
    assert made.schema_name == "readers__VideoResize" and "sequence_length=3" in repr(made)
    with pytest.raises(stoker.StokerError, match=r"readers\.video_resize at .*no argument 'sizes'"):
        ops.readers.VideoResize(sizes=[3, 4])
    with pytest.raises(stoker.StokerError, match="given before"):
        pipeline(lambda: made(size=[3, 4]))


def test_video_resize_refuses(pair):
    with pytest.raises(stoker.StokerError, match=r"readers\.video_resize at .*no argument 'sizes'"):
        pipeline(fn.readers.video_resize, filenames=pair, sequence_length=2, sizes=[3, 4])
    with pytest.raises(stoker.StokerError, match="sequence_length"):
        pipeline(fn.readers.video_resize, filenames=pair, size=[3, 4])


@pytest.mark.parametrize("reader", ["reader", "decoder"])
def test_memory_of_the_decoder_counts(tmp_path, reader):
    """memory_limit counts the decoder's memory: H.264 of 1280 x 720 pixels needs up to 12 frames of 1.4 MB, and a clip of one frame 2.8 MB."""
    path = str(tmp_path / "large.mp4")
    videos.ffmpeg("-f lavfi -i", "testsrc2=size=1280x720:rate=25:duration=0.4", "-c:v libx264 -preset ultrafast", path)

    def run(limit):
        @pipeline_def(batch_size=1, num_threads=1, device_id=None, memory_limit=limit)
        def define():
            if reader == "reader":
                return fn.readers.video(filenames=path, sequence_length=1)
            return fn.decoders.video(fn.readers.file(files=[path])[0], frames=[3])

        pipe = define()
        pipe.build()
        return np.array(pipe.run()[0][0])

    with pytest.raises(stoker.StokerError, match="memory_limit"):
        run(8 << 20)
    assert run(64 << 20).shape == (1, 720, 1280, 3)


# ---- experimental.inputs.video ----


def inputs_pipeline(batch=3, **arguments):
    @pipeline_def(batch_size=batch, num_threads=2, device_id=None)
    def define():
        return fn.experimental.inputs.video(name="video", **arguments)

    pipe = define()
    pipe.build()
    return pipe


def sequences(batch):
    return [np.array(s) for s in batch[0]]


@pytest.mark.parametrize("policy", ["partial", "pad"])
def test_videos_that_are_fed(clips, policy):
    """The pipeline makes batches of the first video, of which the last one is short, and then those of the next video."""
    paths = [clips("h264.mp4"), clips("h264_small.mp4"), clips("vp9.webm")]
    pipe = inputs_pipeline(sequence_length=7, last_sequence_policy=policy)
    forms = [path.read_bytes() for path in paths]
    pipe.feed_input("video", forms[0])
    pipe.feed_input("video", [np.frombuffer(forms[1], np.uint8)])
    for form, path in zip((None, None, np.frombuffer(forms[2], np.uint8)[None]), paths, strict=True):
        if form is not None:
            pipe.feed_input("video", form)
        want = frames_of(path, range(len(stoker.VideoDecoder(path))))
        got = []
        while sum(map(len, got)) < len(want):
            batch = sequences(pipe.run())
            assert 1 <= len(batch) <= 3
            got += batch
        lengths = [7] * (len(want) // 7) + [len(want) % 7] * (len(want) % 7 > 0)
        assert [len(s) for s in got] == (lengths if policy == "partial" else [7] * len(lengths))
        whole = np.concatenate(got)
        assert np.array_equal(whole[: len(want)], want) and not whole[len(want) :].any()
    with pytest.raises(errors.NoDataError, match=r"video.* has no data"):
        pipe.run()


def test_videos_that_are_fed_are_refused(clips):
    pipe = inputs_pipeline(sequence_length=2)
    video = clips("h264.mp4").read_bytes()
    with pytest.raises(errors.InvalidArgumentError, match="one video in each call, not 2"):
        pipe.feed_input("video", [video, video])
    with pytest.raises(errors.CorruptError, match="not a file that Stoker reads as video"):
        pipe.feed_input("video", b"no video" * 100)
    pipe.feed_input("video", video)  # the errors above have not changed the pipeline
    assert [s.shape for s in sequences(pipe.run())] == [(2, 144, 176, 3)] * 3
    for arguments, said in (
        ({}, "sequence_length is missing"),
        ({"sequence_length": 0}, "at least 1"),
        ({"sequence_length": 2, "last_sequence_policy": "drop"}, "'partial' or 'pad'"),
        ({"sequence_length": 2, "device": "gpu"}, "'cpu' or 'mixed'"),
        ({"sequence_length": 2, "strides": 2}, "no argument 'strides'"),
    ):
        with pytest.raises(stoker.StokerError, match=said):
            inputs_pipeline(**arguments)


def test_a_video_input_as_a_class(clips):
    pipe = stoker.Pipeline(batch_size=2, num_threads=2, device_id=None)
    with pipe:
        node = ops.experimental.inputs.Video(name="video", sequence_length=5)()
        pipe.set_outputs(fn.resize(node, size=[20, 30]))
    pipe.build()
    pipe.feed_input("video", clips("h264.mp4").read_bytes())
    assert [s.shape for s in sequences(pipe.run())] == [(5, 20, 30, 3)] * 2


# ---- DALI ----


@pytest.fixture(scope="session")
def dali():
    return pytest.importorskip("nvidia.dali")


def dali_samples(dali, count, **arguments):
    @dali.pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def define():
        return tuple(dali.fn.experimental.readers.video(name="r", **arguments))

    pipe = define()
    pipe.build()
    assert pipe.reader_meta("r")["epoch_size"] == count
    return [tuple(np.array(o[0]) for o in pipe.run()) for _ in range(count)]


@pytest.mark.dali
@pytest.mark.parametrize(
    "arguments",
    [
        {"sequence_length": 5, "stride": 2, "step": 3},
        *({"sequence_length": 7, "stride": 3, "pad_mode": m} for m in ("none", "constant", "edge", "repeat", "reflect", "symmetric")),
        {"sequence_length": 40, "uniform_sample": True},
        {"sequence_length": 5, "labels": [4, 5]},
    ],
)
def test_equal_to_dali(dali, clips, arguments):
    """Compares the frames of each clip, their times and their label with DALI's. Colours differ at edges, because DALI interpolates chroma."""
    paths = [str(clips("vp9.webm")), str(clips("odd420.mkv"))][:1] * 2
    more = {"filenames": paths, "enable_frame_num": "sequence", "enable_timestamps": True, **arguments}
    got = samples(fn.experimental.readers.video, **more)
    want = dali_samples(dali, len(got), **more)
    for ours, theirs in zip(got, want, strict=True):
        for a, b in zip(ours[1:], theirs[1:], strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape and np.allclose(a, b, atol=1e-3)
        assert np.abs(ours[0].astype(int) - theirs[0]).mean() < 8


@pytest.mark.dali
@pytest.mark.parametrize("policy", ["partial", "pad"])
@pytest.mark.parametrize("length", [4, 7])
def test_inputs_equal_dalis(dali, clips, length, policy):
    """Compares the sequences in each batch, and their frames, with DALI's after two videos were fed."""

    @dali.pipeline_def(batch_size=3, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def define():
        return dali.fn.experimental.inputs.video(name="video", sequence_length=length, last_sequence_policy=policy)

    theirs = define()
    theirs.build()
    ours = inputs_pipeline(sequence_length=length, last_sequence_policy=policy)
    for name in ("vp9.webm", "odd420.mkv"):
        data = np.fromfile(clips(name), np.uint8)[None]
        theirs.feed_input("video", data)
        ours.feed_input("video", data)
        for _ in range(-(-len(stoker.VideoDecoder(clips(name))) // (3 * length))):
            got, want = sequences(ours.run()), [np.array(s) for s in theirs.run()[0]]
            assert [s.shape for s in got] == [s.shape for s in want]
            assert all(np.abs(a.astype(int) - b).mean() < 8 for a, b in zip(got, want, strict=True))


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """Makes a video of noise of more than 8 MiB, so that a source does not hold all of it in memory."""
    path = tmp_path_factory.mktemp("large") / "v.mp4"
    noise = "color=gray:s=640x480:r=25:d=1,noise=alls=100:allf=t"
    videos.ffmpeg("-f lavfi -i", noise, "-c:v mpeg4 -q:v 1 -g 1 -movflags +faststart", path)
    return str(path)


@pytest.mark.parametrize("reader", ["decoder", "plain"])
def test_an_object_that_changes_while_it_is_read_is_an_error(large, tmp_path, monkeypatch, reader):
    with serving(large, tmp_path, monkeypatch, key="") as store:

        def change():
            store.set("change=1")
            with contextlib.suppress(OSError, http.client.HTTPException):
                urllib.request.urlopen(f"{store.url}/bucket/v.mp4", timeout=20).read()
            store.set("change=0")

        if reader == "decoder":
            decoder = stoker.VideoDecoder("s3://bucket/v.mp4", storage=stoker.Storage())
            decoder[0]
            change()
            with pytest.raises(stoker.StokerError, match=r"s3://bucket/v\.mp4: .*changed while it was read: its ETag was"):
                decoder[24]
        else:
            pipe = pipeline(fn.readers.video, filenames="s3://bucket/v.mp4", sequence_length=5)
            change()
            with pytest.raises(stoker.StokerError, match=r"s3://bucket/v\.mp4.* changed"):
                for _ in range(5):
                    pipe.run()


def overwrite(path, data):
    """Writes other bytes to a file, and sets a modification time one second after the old one, which differs even on a coarse clock."""
    before = os.stat(path)
    path.write_bytes(data)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000_000))


CHANGES = {
    "replaced": lambda path, other: (shutil.copy(other, f"{path}.new"), os.replace(f"{path}.new", path)),
    "overwritten": lambda path, other: overwrite(path, other.read_bytes()),
    "cut": lambda path, other: os.truncate(path, os.path.getsize(path) // 2),
    "emptied": lambda path, other: os.truncate(path, 0),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("reader", ["decoder", "plain"])
def test_a_local_file_that_changes_while_it_is_read_is_an_error(clips, tmp_path, reader, change):
    """A file's packets are located when it is opened. Bytes that are written to it later must not be decoded as these packets."""
    path, frame = tmp_path / "v.mp4", 10
    shutil.copy(clips("h264.mp4"), path)
    want = frames_of(path, range(50))
    if reader == "decoder":
        decoder = stoker.VideoDecoder(path, dimension_order="NHWC")
        assert np.array_equal(decoder[0].numpy(), want[0])
        CHANGES[change](path, clips("h264_open.mp4"))
        if change == "replaced":  # the decoder still has the old file open
            assert np.array_equal(decoder[40].numpy(), want[40])
            return
        with pytest.raises(stoker.StokerError, match=r"changed after it had been opened|become shorter"):
            for frame in range(12, 50):
                assert np.array_equal(decoder[frame].numpy(), want[frame])
        return
    pipe = pipeline(fn.readers.video, filenames=str(path), sequence_length=frame, name="r")
    with pytest.raises(stoker.StokerError, match=r"v\.mp4: it was replaced or changed after this run had opened it"):
        for taken in range(100):  # several epochs, since the first clips may have been read before the change
            if taken == 1:
                CHANGES[change](path, clips("h264_open.mp4"))
            assert np.array_equal(np.array(pipe.run()[0].at(0)), want[taken % 5 * frame : (taken % 5 + 1) * frame])
    pipe.close()
