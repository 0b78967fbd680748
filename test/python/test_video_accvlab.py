# SPDX-License-Identifier: Apache-2.0
"""stoker.video.accvlab has the names of ACCV-Lab's on_demand_video_decoder, and gives the frames of stoker.VideoDecoder."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
import stoker
import videos

pytestmark = videos.needs_video
nvc = pytest.importorskip("stoker.video.accvlab")


@pytest.fixture(scope="session")
def clips(clips):
    return lambda name: str(clips(name))


@pytest.fixture(scope="session")
def files(clips):
    return [clips(name) for name in ("h264.mp4", "hevc_open.mp4", "av1.mp4", "front.mp4")]


def frame(path, number):
    return np.asarray(stoker.VideoDecoder(path, dimension_order="NHWC")[number])


def check(got, paths, frames, bgr=False):
    assert len(got) == len(paths)
    for image, path, number in zip(got, paths, frames, strict=True):
        want = frame(path, number)
        assert image.dtype == np.uint8 and image.isBGR is bgr and np.array_equal(image, want[..., ::-1] if bgr else want), (path, number)


def test_random_frames(files):
    decoder = nvc.CreateGopDecoder(maxfiles=4)
    infos = nvc.GetFastInitInfo(files)
    assert [(i.width, i.height, i.codec_id) for i in infos[:2]] == [(176, 144, 27), (176, 144, 173)]
    assert infos[0].avg_frame_rate_num / infos[0].avg_frame_rate_den == 25 and infos[0].duration == 2_000_000
    for seed in range(3):
        numbers = [int(n) for n in np.random.default_rng(seed).integers(0, 25, 4)]
        check(decoder.DecodeN12ToRGB(files, numbers, as_bgr=bool(seed % 2), fastStreamInfos=infos), files, numbers, bool(seed % 2))
    check(decoder.DecodeN12ToRGB([files[0]] * 3, [9, 2, 9]), [files[0]] * 3, [9, 2, 9])
    decoder.release_device_memory()
    decoder.release_decoder()
    check(decoder.DecodeN12ToRGB(files[:1], [4]), files[:1], [4])


def test_frames_become_tensors(files):
    torch = pytest.importorskip("torch")
    (image,) = nvc.CreateGopDecoder(1).DecodeN12ToRGB(files[:1], [3])
    tensor = torch.as_tensor(image)
    assert tensor.shape == (144, 176, 3) and tensor.dtype == torch.uint8 and np.array_equal(tensor.numpy(), frame(files[0], 3))


@pytest.mark.parametrize(
    "name", ["h264.mp4", "front.mp4", "hevc_open.mp4", "vp9.webm", "h264.ts", "fragments.mp4", "mjpeg.avi", "annex_b.h264"]
)
def test_groups_hold_all_that_their_frames_need(clips, name, tmp_path):
    path = str(tmp_path / name)
    os.link(clips(name), path) if os.stat(clips(name)).st_dev == os.stat(tmp_path).st_dev else os.symlink(clips(name), path)
    decoder = nvc.CreateGopDecoder(maxfiles=1)
    count = len(stoker.VideoDecoder(path))
    want = [frame(path, k) for k in range(count)]
    groups, at = [], 0
    while at < count:
        data, (first,), (length,) = decoder.GetGOP([path], [at + (count - at) // 30])
        assert first <= at + (count - at) // 30 < first + length
        groups.append((data, first, length))
        at = first + length
    os.unlink(path)  # the groups of pictures contain all that is decoded, so the file is not needed
    for data, first, length in groups:
        for k in sorted({first, first + length // 2, first + length - 1}):
            (image,) = decoder.DecodeFromGOPRGB(data, [path], [k])
            assert np.array_equal(image, want[k]), k


def test_groups_of_several_files(files, tmp_path):
    decoder = nvc.CreateGopDecoder(maxfiles=4)
    numbers = [30, 5, 20, 14]
    data, firsts, lengths = decoder.GetGOP(files, numbers)
    assert all(f <= n < f + k for f, n, k in zip(firsts, numbers, lengths, strict=True)) and firsts[0] == 24
    check(decoder.DecodeFromGOPRGB(data, files, numbers, as_bgr=True), files, numbers, True)
    parts = decoder.GetGOPList(files, numbers)
    check(decoder.DecodeFromGOPListRGB([d for d, _, _ in parts], files, numbers), files, numbers)
    names = [str(tmp_path / f"{k}.bin") for k in range(4)]
    for name, (part, _, _) in zip(names, parts, strict=True):
        nvc.SavePacketsToFile(part, name)
    check(decoder.DecodeFromGOPRGB(decoder.LoadGops(names), files, numbers), files, numbers)
    check(decoder.DecodeFromGOPListRGB(decoder.LoadGopsToList(names[1:]), files[1:], numbers[1:]), files[1:], numbers[1:])
    assert sorted(os.listdir(tmp_path)) == [f"{k}.bin" for k in range(4)]


def test_kept_groups(files):
    decoder = nvc.CreateGopDecoder(maxfiles=4, gopCacheCapacity=2)
    assert decoder.isCacheHit() == []
    first = decoder.GetGOPList(files[:2], [13, 3], useGOPCache=True)
    assert decoder.isCacheHit() == [False, False]
    again = decoder.GetGOPList(files[:2], [23, 30], useGOPCache=True)
    assert decoder.isCacheHit() == [True, False] and again[0][0] is first[0][0]
    decoder.GetGOP(files[2:3], [0], useGOPCache=True)
    info = decoder.get_cache_info()
    assert info["cached_files_count"] == info["cache_capacity"] == 2 and info["cached_files"][files[1]]["frame_range"][0] <= 30
    decoder.GetGOP(files[:1], [13])
    assert decoder.isCacheHit() == [False]
    decoder.clear_cache()
    assert decoder.get_cache_info()["cached_files"] == {}
    for wrong, error in ((0, ValueError), (1.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="gopCacheCapacity"):
            nvc.CreateGopDecoder(1, gopCacheCapacity=wrong)


def test_readers_of_streams_continue_where_they_stopped(files):
    reader = nvc.CreateSampleReader(num_of_set=1, num_of_file=4)
    for n in range(6):
        check(reader.DecodeN12ToRGB(files, [n] * 4), files, [n] * 4)
    counters = reader._open.get(files[0]).counters
    assert counters["packets_decoded"] < 14, counters  # each call continued where the one before it ended
    reader.DecodeN12ToRGBAsync(files, [6] * 4, True)
    check(reader.DecodeN12ToRGBAsyncGetBuffer(files, [6] * 4, True), files, [6] * 4, True)
    with pytest.raises(RuntimeError, match="nothing is being decoded"):
        reader.DecodeN12ToRGBAsyncGetBuffer(files, [6] * 4, True)
    reader.DecodeN12ToRGBAsync(files, [7] * 4)
    with pytest.raises(RuntimeError, match="not those that decoding was started with"):
        reader.DecodeN12ToRGBAsyncGetBuffer(files, [8] * 4)
    reader.clearAllReaders()


def test_batches_of_streams(files):
    reader = nvc.CreateBatchAsyncStreamReader(num_of_set=1, num_of_file=4, max_frames_per_decode_call=3)
    wanted = [[0, 1, 2], [3, 4, 5], [2, 1, 0], [7, 7, 8]]
    reader.Decode(files, wanted)
    got = reader.GetBuffer(files, wanted)
    for images, path, numbers in zip(got, files, wanted, strict=True):
        check(images, [path] * 3, numbers)
    with pytest.raises(ValueError, match="equally many frames"):
        reader.Decode(files[:2], [[0, 1], [0]])
    with pytest.raises(ValueError, match="1 to 3"):
        reader.Decode(files[:1], [[0, 1, 2, 3]])
    reader.Decode(files[:1], [[99]])
    with pytest.raises(IndexError, match="99"):
        reader.GetBuffer(files[:1], [[99]])


def test_wrong_calls(files, tmp_path):
    decoder = nvc.CreateGopDecoder(maxfiles=2)
    cases = [
        (lambda: decoder.DecodeN12ToRGB(files, [0] * 4), ValueError, "4 different files in one call"),
        (lambda: decoder.DecodeN12ToRGB(files[0], [0]), ValueError, "a list of paths"),
        (lambda: decoder.DecodeN12ToRGB(files[:2], [0]), ValueError, "one frame for each file"),
        (lambda: decoder.DecodeN12ToRGB(files[:1], [-1]), ValueError, "numbered from 0"),
        (lambda: decoder.DecodeN12ToRGB(files[:1], [50]), IndexError, "frame 50 does not exist"),
        (lambda: decoder.DecodeN12ToRGB([str(tmp_path / "a.mp4")], [0]), stoker.StokerError, "a.mp4"),
        (lambda: decoder.GetGOP(files[:1], [50]), ValueError, "frame 50 does not exist"),
        (lambda: decoder.DecodeFromGOPRGB(np.arange(50, dtype=np.uint8), files[:1], [0]), ValueError, "not bytes of GetGOP"),
        (lambda: decoder.DecodeFromGOPRGB(decoder.GetGOP(files[:1], [0])[0][:-5], files[:1], [0]), ValueError, "cut short"),
        (
            lambda: decoder.DecodeFromGOPRGB(decoder.GetGOP(files[:1], [0])[0], files[:1], [40]),
            ValueError,
            "frame 40 of .* is not in the data",
        ),
        (lambda: decoder.Decode(files[:1], [0]), NotImplementedError, "RGB here"),
        (lambda: decoder.ParseSerializedPacketBundle(None), NotImplementedError, "DecodeFromGOPRGB"),
        (lambda: decoder.DecodeN12ToRGB(files[:1], [1.7]), ValueError, "whole numbers, not 1.7"),
        (lambda: decoder.GetGOP(files[:1], [float("nan")]), ValueError, "whole numbers, not nan"),
        (lambda: decoder.DecodeFromGOPRGB(decoder.GetGOP(files[:1], [0])[0] + 0.5, files[:1], [0]), ValueError, "uint8, not of float"),
        (lambda: nvc.SavePacketsToFile(np.full(9, 300), str(tmp_path / "gop")), ValueError, "uint8, not of int64"),
        (lambda: nvc.GetFastInitInfo([]), ValueError, "empty"),
        (lambda: nvc.CreateGopDecoder(0), ValueError, "maxfiles is 0"),
    ]
    for call, error, said in cases:
        with pytest.raises(error, match=said):
            call()


def test_damaged_groups_never_crash(files):
    decoder = nvc.CreateGopDecoder(maxfiles=1)
    data, _, _ = decoder.GetGOP(files[:1], [13])
    random = np.random.default_rng(3)
    refused = 0
    for _ in range(60):
        bad = data.copy()
        bad[random.integers(0, bad.size, 3)] ^= random.integers(1, 255, 3, dtype=np.uint8)
        try:
            decoder.DecodeFromGOPRGB(bad, files[:1], [13])
        except (ValueError, OSError, IndexError, stoker.StokerError):
            refused += 1
    assert refused > 5


WORKER = """
import pickle, sys
import numpy as np
import stoker.video.accvlab as nvc
store = nvc.SharedGopStore.attach(capacity=3, store_id=int(sys.argv[2]))
path = sys.argv[1]
ref = store.lookup(path, 30)
assert ref is None
data, (first,), (length,) = nvc.CreateGopDecoder(1).GetGOP([path], [30])
ref = store.put(path, first, length, data)
assert store.lookup(path, 30) == ref and store.put(path, first, length, data) == ref
store.close()
sys.stdout.buffer.write(pickle.dumps(ref))
"""


def test_processes_share_groups(files):
    number = os.getpid()
    store = nvc.SharedGopStore.create(capacity=3, store_id=number)
    try:
        done = subprocess.run([sys.executable, "-c", WORKER, files[0], str(number)], capture_output=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr.decode()
        ref = pickle.loads(done.stdout)
        assert isinstance(ref, nvc.GopRef) and (ref.first_frame_id, ref.gop_len) == (24, 12)
        (data,) = store.get_batch([ref])
        check(nvc.CreateGopDecoder(1).DecodeFromGOPRGB(data, files[:1], [30]), files[:1], [30])
        for k in range(3):
            store.put(files[1], k * 10, 10, np.full(100, k, np.uint8))
        assert store.lookup(files[0], 30) is None and np.array_equal(store.read(store.lookup(files[1], 25)), np.full(100, 2, np.uint8))
        with pytest.raises(KeyError, match="removed before it was read"):
            store.get_batch([ref])
        assert data[:3].tobytes() == b"STK"  # bytes that were read before the removal stay valid
        stats = store.get_stats()
        assert stats["puts"] == 3 and stats["evictions"] == 1 and stats["pool_usage"] == "3/3" and stats["hit_rate"] == 0.5
    finally:
        store.cleanup()
    assert not store._folder.exists()
    with pytest.raises(FileNotFoundError, match=r"call SharedGopStore\.create"):
        nvc.SharedGopStore.attach(3, number)


def fork(work):
    """Starts a forked process that runs a function, and returns its id. The process ends after at most 30 seconds."""
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # ends a process that waits without an end
        try:
            os._exit(0 if work() else 1)
        finally:
            os._exit(2)
    return child


def succeeds(child):
    """Waits for a process of fork(), and returns whether its function returned a true value."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def in_fork(work):
    return succeeds(fork(work))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # CPython warns if a process with threads forks
def test_decoders_made_before_a_fork_work_after_it(files):
    paths, numbers = files[:2], [3, 14]
    wanted = nvc.CreateGopDecoder(2).DecodeN12ToRGB(paths, numbers)

    def fits(frames):
        return all(np.array_equal(a, b) for a, b in zip(frames, wanted, strict=True))

    decoder, reader, batches = nvc.CreateGopDecoder(2), nvc.CreateSampleReader(1, 2), nvc.CreateBatchAsyncStreamReader(1, 2, 1)
    decoder.DecodeN12ToRGB(paths, [1, 2])
    reader.DecodeN12ToRGBAsync(paths, [1, 2])
    reader.DecodeN12ToRGBAsyncGetBuffer(paths, [1, 2])
    batches.Decode(paths, [[1], [2]])
    batches.GetBuffer(paths, [[1], [2]])

    def in_background():
        reader.DecodeN12ToRGBAsync(paths, numbers)
        return fits(reader.DecodeN12ToRGBAsyncGetBuffer(paths, numbers))

    def in_batches():
        batches.Decode(paths, [[n] for n in numbers])
        return fits(frames[0] for frames in batches.GetBuffer(paths, [[n] for n in numbers]))

    assert in_fork(lambda: fits(decoder.DecodeN12ToRGB(paths, numbers)))
    assert in_fork(in_background) and in_fork(in_batches)
    begin, end = threading.Event(), threading.Event()
    reader._background.start("asked", lambda: (begin.set(), end.wait(30)))
    assert begin.wait(30)

    def is_lost():
        with pytest.raises(RuntimeError, match="before this process was forked"):
            reader._background.take("asked")
        return in_background()

    assert in_fork(is_lost)
    end.set()
    assert in_background() and in_batches()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_threads_and_forked_processes_may_use_one_store():
    store = nvc.SharedGopStore.create(capacity=4, store_id=os.getpid() + 1)
    wrong = []

    def work(number):
        try:
            for k in range(100):
                size = 50_000 + k
                ref = store.put(f"{number}.mp4", k, 1, np.full(size, k, np.uint8))
                try:
                    data = store.read(ref)
                except KeyError:  # others have filled the store meanwhile
                    continue
                if data.size != size or (data != k).any():
                    wrong.append(f"{number}: group {k}")
        except Exception as e:
            wrong.append(repr(e))
        return not wrong

    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        children = [fork(lambda k=k: work(k)) for k in range(4, 7)]
        assert all([succeeds(child) for child in children])
        assert len(store._entries()) == 4
    finally:
        store.cleanup()


def test_the_cache_of_files(files, tmp_path):
    assert nvc.drop_videos_cache(files) is nvc.DropCacheStatus.SUCCESS
    assert nvc.drop_videos_cache([str(tmp_path / "none")]) is nvc.DropCacheStatus.FILE_OPEN_FAILED


def test_a_store_into_which_others_may_write_is_refused(monkeypatch, tmp_path):
    """A folder in which other users may write, or a link in its place, is refused: if they truncated a group of pictures, reading it would end in SIGBUS."""
    monkeypatch.setattr(nvc.SharedGopStore, "_folder_of", staticmethod(lambda store_id: tmp_path / "store"))
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "lock").touch()
    for mode, fits in ((0o777, False), (0o720, False), (0o700, True)):
        os.chmod(tmp_path / "store", mode)
        for make in (nvc.SharedGopStore.attach, nvc.SharedGopStore.create):
            if fits:
                make(4).close()
            else:
                with pytest.raises(PermissionError, match="other users may write into it"):
                    make(4)
    (tmp_path / "store").rename(tmp_path / "real")
    (tmp_path / "store").symlink_to(tmp_path / "real")
    for make in (nvc.SharedGopStore.attach, nvc.SharedGopStore.create):
        with pytest.raises(PermissionError, match="belongs to another user"):
            make(4)


def test_a_fifo_in_place_of_a_video_hangs_nothing(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert nvc.drop_videos_cache([str(tmp_path / "fifo")]) is not nvc.DropCacheStatus.SUCCESS
    with pytest.raises(OSError, match="a FIFO"):
        nvc.CreateGopDecoder(maxfiles=1).LoadGops([str(tmp_path / "fifo")])
