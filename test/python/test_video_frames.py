# SPDX-License-Identifier: Apache-2.0
"""io.video.frame: single frames, each from the video that its sample names, by number or by time."""

from __future__ import annotations

import contextlib
import os
import shutil

import numpy as np
import pytest
import stoker
import videos
from stoker import fn, pipeline_def, types
from storage import Store
from support import NO_AWS

pytestmark = videos.needs_video


def text(path):
    return np.frombuffer(str(path).encode(), np.uint8)


def read(samples, kind=types.INT64, batch=4, threads=2, videos_of=None, **arguments):
    """Returns the frames of (path, number or time) pairs, in this order. videos_of: paths; the pairs then have indices in this list instead of paths."""
    number = np.dtype(types.to_numpy_type(kind)).type

    def source(info):
        path, at = samples[info.idx_in_epoch % len(samples)]
        return (np.int32(path) if videos_of else text(path)), number(at)

    @pipeline_def(batch_size=batch, num_threads=threads, device_id=None, prefetch_queue_depth=2)
    def define():
        types_of = [types.INT32 if videos_of else types.UINT8, kind]
        path, at = fn.external_source(source=source, batch=False, num_outputs=2, dtype=types_of)
        return fn.io.video.frame(path, at, **({"filenames": videos_of} if videos_of else {}), **arguments)

    pipe = define()
    pipe.build()
    got = []
    while len(got) < len(samples):
        (frames,) = pipe.run()
        got += [np.array(f) for f in frames]
    return got[: len(samples)]


@pytest.mark.parametrize("name", ["h264.mp4", "hevc_open.mp4", "vp9.webm", "av1.mp4", "h264.ts", "rotated.mp4"])
@pytest.mark.parametrize("decoders", [1, 16])
def test_frames_by_number(clips, name, decoders):
    path = clips(name)
    want = videos.frames(path)
    draw = np.random.default_rng(5)
    numbers = [*range(8), *draw.integers(0, len(want), 24), len(want) - 1]
    for got, n in zip(read([(path, n) for n in numbers], decoders=decoders), numbers, strict=True):
        assert np.array_equal(got, want[n]), n


def test_frames_by_time(clips):
    path = clips("vfr.mp4")
    want, times = videos.frames(path), videos.times(path)
    seconds = [t for t in times[:8]] + [times[5] + 0.001, times[5] - 1e-7, times[-1] + 0.01, 0]
    numbers = [*range(8), 5, 5, len(times) - 1, 0]
    for got, n in zip(read([(path, t) for t in seconds], types.FLOAT64), numbers, strict=True):
        assert np.array_equal(got, want[n]), n


def test_videos_by_number_in_turn(clips):
    """Four videos of different sizes, read in turn, give their own frames, whether there are fewer or more decoders than videos."""
    names = [str(clips(name)) for name in ("h264.mp4", "odd444.mp4", "hevc10.mkv", "mjpeg.avi")]
    want = [videos.frames(name) for name in names]
    samples = [(v, n) for n in range(12) for v in range(4)]
    for decoders in (2, 8):
        for got, (v, n) in zip(read(samples, videos_of=names, decoders=decoders), samples, strict=True):
            assert np.array_equal(got, want[v][n]), (v, n)


@pytest.mark.parametrize(
    ("sample", "kind", "said"),
    [
        (("h264.mp4", 50), types.INT64, r"h264\.mp4: frame 50 does not exist: the video has the frames 0 to 49"),
        (("h264.mp4", -1), types.INT64, r"h264\.mp4: frame -1 does not exist"),
        (("h264.mp4", 2.01), types.FLOAT64, r"h264\.mp4: no frame is shown at 2\.01 seconds: the video lasts from 0 to 2"),
        (("h264.mp4", -0.5), types.FLOAT64, "no frame is shown at -0.5"),
        (("h264.mp4", float("nan")), types.FLOAT64, "not a number"),
        (("missing.mp4", 0), types.INT64, r"missing\.mp4"),
        (("", 0), types.INT64, "path must have 1 to"),
    ],
)
def test_frames_that_do_not_exist(clips, tmp_path, sample, kind, said):
    name, at = sample
    path = clips(name) if name == "h264.mp4" else tmp_path / name if name else ""
    with pytest.raises(stoker.StokerError, match=said):
        read([(path, at)], kind, batch=1)


def test_wrong_types_are_refused_when_the_graph_is_built(clips):
    def build(video, at, **arguments):
        @pipeline_def(batch_size=1, num_threads=1, device_id=None)
        def define():
            return fn.io.video.frame(video(), at(), **arguments)

        define().build()

    path, zero = (lambda: types.Constant(text("a.mp4"))), (lambda: types.Constant(np.int64(0)))
    with pytest.raises(stoker.StokerError, match="must be one number"):
        build(path, lambda: types.Constant(np.zeros(3, np.int64)))
    with pytest.raises(stoker.StokerError, match="path of a video"):
        build(lambda: types.Constant(np.zeros(3, np.int64)), zero)
    with pytest.raises(stoker.StokerError, match="number of a video"):
        build(path, zero, filenames=["a.mp4"])
    with pytest.raises(stoker.StokerError, match="filenames is empty"):
        build(zero, zero, filenames=[])


def test_bad_samples_follow_on_error(clips, tmp_path):
    good, bad = clips("front.mp4"), tmp_path / "cut.mp4"
    bad.write_bytes(good.read_bytes()[: good.stat().st_size // 3])
    samples = [(good, 3), (bad, 45), (good, 45), (good, 46)]
    with pytest.raises(stoker.StokerError, match=r"cut\.mp4: .*frame 45"):
        read(samples)
    want = videos.frames(good)

    def source(info):
        path, at = samples[info.idx_in_epoch % 4]
        return text(path), np.int64(at)

    @pipeline_def(batch_size=4, num_threads=2, device_id=None, on_error="skip", max_errors=10)
    def define():
        path, at = fn.external_source(source=source, batch=False, num_outputs=2, dtype=[types.UINT8, types.INT64])
        return fn.io.video.frame(path, at)

    pipe = define()
    pipe.build()
    (frames,) = pipe.run()
    assert [np.array(f).tobytes() for f in frames] == [want[n].tobytes() for n in (3, 45, 46)]


def test_a_file_that_is_replaced(clips, tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(clips("h264.mp4").read_bytes())
    seen = []

    def source(info):
        if info.idx_in_epoch == 1:
            other = tmp_path / "b.mp4"
            other.write_bytes(clips("odd444.mp4").read_bytes())
            other.replace(path)
        return text(path), np.int64(3)

    @pipeline_def(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def define():
        video, at = fn.external_source(source=source, batch=False, num_outputs=2, dtype=[types.UINT8, types.INT64])
        return fn.io.video.frame(video, at)

    pipe = define()
    pipe.build()
    for _ in range(4):
        seen.append(np.array(pipe.run()[0][0]))
    assert np.array_equal(seen[-1], videos.frames(clips("odd444.mp4"))[3])


def test_a_file_that_is_replaced_by_one_of_equal_size(clips, tmp_path):
    """After a file is replaced by another one of the same size and modification time, frames come from the new file."""
    path, other = tmp_path / "a.mp4", tmp_path / "b.mp4"
    data = [clips(name).read_bytes() for name in ("h264.mp4", "vfr.mp4")]
    size = max(map(len, data)) + 8
    for to, bytes_of in zip((path, other), data, strict=True):
        rest = size - len(bytes_of)
        to.write_bytes(bytes_of + rest.to_bytes(4, "big") + b"free" + bytes(rest - 8))
        os.utime(to, (10**9, 10**9))
    seen = []

    def source(info):
        if info.idx_in_epoch == 2:
            other.replace(path)
        return text(path), np.int64(3)

    @pipeline_def(batch_size=1, num_threads=1, device_id=None, prefetch_queue_depth=1)
    def define():
        video, at = fn.external_source(source=source, batch=False, num_outputs=2, dtype=[types.UINT8, types.INT64])
        return fn.io.video.frame(video, at)

    pipe = define()
    pipe.build()
    for _ in range(5):
        seen.append(np.array(pipe.run()[0][0]))
    want = [videos.frames(clips(name))[3] for name in ("h264.mp4", "vfr.mp4")]
    assert not np.array_equal(*want)
    assert np.array_equal(seen[0], want[0]) and np.array_equal(seen[-1], want[1])


def test_videos_are_read_by_the_storage_of_the_pipeline(clips, tmp_path, monkeypatch):
    """Frames are read with the settings, connections and cache of the storage that the pipeline has. No frame opens its own storage."""
    path, bucket = clips("h264.mp4"), tmp_path / "root" / "bucket"
    bucket.mkdir(parents=True)
    shutil.copy(path, bucket / "a.mp4")
    with contextlib.closing(Store(tmp_path / "root", key="")) as store:
        for name, value in NO_AWS.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        storage = stoker.Storage(endpoint=store.url, anonymous=True, region="r", hedging=False)

        @pipeline_def(batch_size=2, num_threads=2, device_id=None, storage=storage)
        def define():
            return fn.io.video.frame(text("s3://bucket/a.mp4"), np.int64(7))

        pipe = define()
        (frames,) = pipe.run()
        pipe.close()
        assert np.array_equal(np.array(frames[0]), videos.frames(path)[7])
        assert storage.counters()["storage_requests"] > 0
