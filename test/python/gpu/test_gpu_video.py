# SPDX-License-Identifier: Apache-2.0
"""Videos decoded on the GPU: NVIDIA's decoder, or the one that is emulated next to the emulated driver, gives the bytes that the cores give."""

from __future__ import annotations

import ctypes
import functools
import os
import random
import shutil
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import stoker

sys.path.insert(0, str(Path(__file__).parent.parent))

import videos
from both_sides import emulated, why_no_gpu
from driver_consumer import Driver
from stoker import _core
from stoker._video import _open
from support import SEED

pytestmark = videos.needs_video

# Videos that the video decoder (engine) of every GPU since Turing decodes exactly. AV1 is not among them: Turing, GA100 and Hopper have no engine for it.
ENGINE = "h264.mp4 h264_open.mp4 hevc_open.mp4 hevc10.mkv hevc444.mp4 vp9.webm vp8_hidden.webm h264.ts annex_b.h264 annex_b.hevc h264.avi vfr.mp4".split()
ENGINE += "odd420.mkv full709.mp4 edit.mp4 rotated.mp4 rotated180.mp4 fragments.mp4 late.mkv".split()
only_emulated = pytest.mark.skipif(bool(why_no_gpu()) or not emulated(), reason="asks the emulated decoder for more than a real one offers")
CORES = "mpeg2.ts mpeg4.avi mjpeg.avi odd444.mp4 422_10.mp4 rgb.mkv".split()


_of_thread = threading.local()


def driver() -> Driver:
    """Returns the thread's only Driver: each Driver pushes a context, and a thread can have only a few."""
    if not hasattr(_of_thread, "driver"):
        _of_thread.driver = Driver()
        _of_thread.stream = _of_thread.driver.stream().value
    return _of_thread.driver


@functools.cache
def device() -> _core.VideoDevice:
    return _core.VideoDevice(0)


class OnGpu:
    """Frames of a video, decoded to memory of GPU 0 and copied back."""

    def __init__(self, source, strict: bool = True) -> None:
        self.driver = driver()
        self.stream = _of_thread.stream
        self.video = _open(source, None, -1, strict)
        self.video.use_gpu(device())
        info = self.video.info()
        self.count, self.height, self.width = info["frames"], info["height"], info["width"]

    def __call__(self, frames, planar: bool = False) -> np.ndarray:
        frames = list(frames)
        shape = (len(frames), 3, self.height, self.width) if planar else (len(frames), self.height, self.width, 3)
        out = np.zeros(shape, np.uint8)
        memory = self.driver.device_memory(out.nbytes)
        try:
            self.video.read_gpu(frames, planar, memory.value, self.stream)
            self.driver.call(
                "cuMemcpyDtoHAsync_v2", ctypes.c_void_p(out.ctypes.data), memory, ctypes.c_size_t(out.nbytes), ctypes.c_void_p(self.stream)
            )
            self.driver.call("cuStreamSynchronize", ctypes.c_void_p(self.stream))
        finally:
            self.driver.call("cuMemFree_v2", memory)
        return out

    @property
    def on_gpu(self) -> int:
        return self.video.counters()["frames_on_gpu"]


def on_cores(source, **arguments) -> np.ndarray:
    return np.asarray(stoker.VideoDecoder(source, dimension_order="NHWC", **arguments)[:])


@pytest.mark.parametrize("name", ENGINE)
def test_the_engine_gives_the_cores_bytes(clips, name):
    path = clips(name)
    want = on_cores(path)
    gpu = OnGpu(path)
    assert np.array_equal(gpu(range(gpu.count)), want)
    assert gpu.on_gpu == len(want), gpu.video.why_on_cores()
    assert gpu.video.why_on_cores() == ""
    assert gpu.video.counters()["read_seconds"] > 0
    rng = random.Random(SEED)
    for _ in range(10):
        numbers = [rng.randrange(len(want)) for _ in range(rng.randrange(1, 5))]
        assert np.array_equal(gpu(numbers), want[numbers]), numbers
    assert np.array_equal(gpu([3, 1], planar=True), want[[3, 1]].transpose(0, 3, 1, 2))


@pytest.mark.parametrize("name", CORES)
def test_the_cores_decode_what_engines_do_not(clips, name):
    path = clips(name)
    gpu = OnGpu(path)
    assert np.array_equal(gpu(range(gpu.count)), on_cores(path))
    assert gpu.on_gpu == 0 and gpu.video.why_on_cores()


@pytest.mark.parametrize("name", ["av1.mp4", "gray.mp4"])
def test_streams_that_some_engines_decode(clips, name):
    path = clips(name)
    gpu = OnGpu(path)
    assert np.array_equal(gpu(range(gpu.count)), on_cores(path))
    assert gpu.on_gpu in (0, gpu.count)
    assert gpu.on_gpu or gpu.video.why_on_cores()


@pytest.mark.parametrize("name", ["h264.mp4", "hevc_open.mp4", "vp9.webm"])
def test_one_frame_after_another_decodes_each_packet_once(clips, name):
    path = clips(name)
    want = on_cores(path)
    gpu = OnGpu(path)
    for i, frame in enumerate(want):
        assert np.array_equal(gpu([i])[0], frame), i
    assert gpu.on_gpu == len(want)
    assert gpu.video.counters()["packets_decoded"] < 1.3 * len(want) + 10
    for i in reversed(range(len(want))):
        assert np.array_equal(gpu([i])[0], want[i]), i


@pytest.mark.parametrize("name", ["h264_open.mp4", "hevc_open.mp4"])
def test_batches_of_frames_one_after_another(clips, name):
    """A batch continues after the previous one, also where packets of the two batches alternate in the order of decoding."""
    path = clips(name)
    want = on_cores(path)
    gpu = OnGpu(path)
    for i in range(0, len(want), 7):
        numbers = range(i, min(i + 7, len(want)))
        assert np.array_equal(gpu(numbers), want[numbers.start : numbers.stop]), i
    assert gpu.on_gpu == len(want)
    assert gpu.video.counters()["packets_decoded"] < len(want) + 20


def maps() -> tuple[int, int]:
    """Returns two counts since the last call: how many pictures the emulated decoder has returned, and after how many of them it had no further work."""
    alone = ctypes.c_int()
    count = ctypes.CDLL("libnvcuvid.so.1").emulated_nvdec_maps(ctypes.byref(alone))
    return count, alone.value


@only_emulated
@pytest.mark.parametrize("name", ["h264.mp4", "h264_open.mp4", "hevc_open.mp4", "vp9.webm"])
@pytest.mark.parametrize("size", [1, 3, 10])
def test_the_engine_works_while_frames_are_taken(clips, name, size):
    """If calls continue in a video, the engine gets the packets of the next frames while a call still copies its frames. Few packets are decoded twice."""
    path = clips(name)
    want = on_cores(path)
    gpu = OnGpu(path)
    maps()
    alone = 0
    for i in range(0, len(want), size):
        numbers = range(i, min(i + size, len(want)))
        assert np.array_equal(gpu(numbers), want[numbers.start : numbers.stop]), i
        if 3 * size <= i < len(want) - size - 8:
            alone += maps()[1]
        else:
            maps()
    assert alone == 0
    assert gpu.on_gpu == len(want)
    assert gpu.video.counters()["packets_decoded"] < 1.3 * len(want) + 10


@pytest.mark.parametrize("name", ["h264.mp4", "hevc_open.mp4", "vp9.webm", "rotated.mp4"])
def test_any_order_of_calls_gives_the_right_frames(clips, name):
    """Makes calls that continue, repeat, skip, go back and change the layout, so that frames that were decoded ahead are used, stored or dropped."""
    path = clips(name)
    want = on_cores(path)
    gpu = OnGpu(path)
    rng = random.Random(SEED)
    at = 0
    for _ in range(80):
        at = rng.choice([at, at, at, at, at + 1, at + 3, max(at - 2, 0), rng.randrange(len(want))]) % len(want)
        numbers = list(range(at, min(at + rng.choice([1, 1, 1, 2, 5]), len(want))))
        planar = rng.random() < 0.1
        got = gpu(numbers, planar=planar)
        assert np.array_equal(got.transpose(0, 2, 3, 1) if planar else got, want[numbers]), (numbers, planar, f"seed {SEED}")
        at = numbers[-1] + 1
    assert gpu.on_gpu >= 80, gpu.video.why_on_cores()


def test_pictures_that_nothing_refers_to_are_left_out(clips):
    gpu = OnGpu(clips("h264.mp4"))
    gpu([11])
    counters = gpu.video.counters()
    assert counters["segments"] == 1 and counters["packets_decoded"] < 12 and counters["frames_wanted"] == 1


def test_sessions_serve_videos_of_other_sizes(clips):
    """A decoder session decodes several files of the same codec in turn, and is adapted to each file's size."""
    names = ["h264.mp4", "h264_small.mp4", "hevc_open.mp4", "vp9.webm", "odd420.mkv"]
    want = {name: on_cores(clips(name)) for name in names}
    rng = random.Random(SEED)
    for _ in range(20):
        name = rng.choice(names)
        numbers = [rng.randrange(len(want[name])) for _ in range(3)]
        gpu = OnGpu(clips(name))
        assert np.array_equal(gpu(numbers), want[name][numbers]), name
        assert gpu.on_gpu == len(set(numbers)), (name, gpu.video.why_on_cores())


def test_threads_decode_next_to_each_other(clips):
    names = ["h264.mp4", "hevc_open.mp4", "vp9.webm", "h264_open.mp4"]
    want = {name: on_cores(clips(name)) for name in names}
    wrong = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            name = names[seed % len(names)]
            gpu = OnGpu(clips(name))
            for _ in range(8):
                numbers = [rng.randrange(len(want[name])) for _ in range(3)]
                if not np.array_equal(gpu(numbers), want[name][numbers]):
                    wrong.append((name, numbers))
        except Exception as e:  # noqa: BLE001
            wrong.append(e)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("name", ["h264.mp4", "hevc_open.mp4"])
@pytest.mark.parametrize("strict", [True, False])
def test_the_cores_decide_what_is_damaged(clips, name, strict):
    path = clips("damaged_" + name)
    bad = made = 0
    for i in range(8, 28):  # each frame gets new decoders, since FFmpeg's result for a damaged frame depends on earlier frames
        gpu = OnGpu(path, strict)
        try:
            want = stoker.VideoDecoder(path, dimension_order="NHWC", strict=strict).get_frames_at([i]).data
        except stoker.StokerError as e:
            bad += 1
            with pytest.raises(type(e)) as caught:
                gpu([i])
            assert str(caught.value) == str(e)
        else:
            assert np.array_equal(gpu([i]), want), i
        made += gpu.on_gpu
    assert made >= 6
    assert bad or not strict


def test_a_cut_file_is_an_error_that_names_the_frame(clips, tmp_path):
    path = tmp_path / "cut.mp4"
    data = clips("front.mp4").read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    gpu = OnGpu(path)
    assert np.array_equal(gpu([0, 1]), on_cores(clips("front.mp4"))[:2])
    with pytest.raises(stoker.StokerError, match=r"cut\.mp4: frame \d+ .*cut short"):
        gpu([gpu.count - 1])


def test_what_container_and_stream_disagree_on_is_left_to_the_cores(clips):
    path = clips("colours_disagree.mp4")
    gpu = OnGpu(path)
    assert np.array_equal(gpu(range(gpu.count)), on_cores(path))
    assert gpu.on_gpu == 0 and "colours" in gpu.video.why_on_cores()


@pytest.mark.parametrize(
    ("arguments", "marks_all", "on_gpu"),
    [
        ("-c:v libx264 -preset fast -bf 2 -g 40", True, (0, 40)),
        ("-c:v libx264 -preset fast -bf 0 -x264-params intra-refresh=1:keyint=20", False, range(20)),
    ],
    ids=["marks_all", "refresh"],
)
def test_the_engine_begins_only_where_whole_pictures_follow(tmp_path, arguments, marks_all, on_gpu):
    """Without the table stss, all packets of an MP4 file count as key frames. Intra refresh marks pictures from which on some more packets are needed until
    pictures are whole; the cores leave out those before, but an engine would return them."""
    if not shutil.which("ffmpeg"):
        pytest.skip("there is no ffmpeg")
    path = tmp_path / "video.mp4"
    videos.ffmpeg("-f lavfi -i", videos.SOURCE.format(3), arguments, "-pix_fmt yuv420p", path)
    want = videos.frames(path)
    if marks_all:
        path.write_bytes(path.read_bytes().replace(b"stss", b"free"))
    for i in range(0, len(want), 4):
        gpu = OnGpu(path)
        assert np.array_equal(gpu([i])[0], want[i]), i
        assert gpu.on_gpu == (i in on_gpu), i
    gpu = OnGpu(path)
    for i, frame in enumerate(want):
        assert np.array_equal(gpu([i])[0], frame), i


def test_a_frame_may_be_asked_for_twice(clips):
    path = clips("h264.mp4")
    want = on_cores(path)
    gpu = OnGpu(path)
    assert np.array_equal(gpu([5, 2, 5, 40, 2]), want[[5, 2, 5, 40, 2]])
    assert gpu.video.counters()["frames_wanted"] == 3


def test_wrong_use_is_an_error(clips):
    video = _open(clips("h264.mp4"), None, -1, True)
    with pytest.raises(stoker.StokerError, match="use_gpu"):
        video.read_gpu([0], False, 0, 0)
    with pytest.raises(stoker.StokerError, match="GPU 63"):
        _core.VideoDevice(63)
    with pytest.raises(TypeError, match="VideoDevice"):
        video.use_gpu(0)
    gpu = OnGpu(clips("h264.mp4"))
    with pytest.raises(stoker.StokerError, match="does not exist"):
        gpu([gpu.count])


def test_torch_gets_tensors_on_the_gpu(clips, torch_cuda):
    path = clips("hevc_open.mp4")
    gpu, cores = stoker.VideoDecoder(path, device="cuda"), stoker.VideoDecoder(path)
    batch = gpu.get_frames_at([7, 3, 20])
    assert batch.data.is_cuda and torch_cuda.equal(batch.data.cpu(), cores.get_frames_at([7, 3, 20]).data)
    assert torch_cuda.equal(gpu[4].cpu(), cores[4])
    assert torch_cuda.equal(gpu[2:9:3].cpu(), cores[2:9:3])
    assert gpu.counters["frames_on_gpu"] > 0 and gpu.why_on_cores == ""


@only_emulated
@pytest.mark.parametrize("words", ["none", "no=h264"])
def test_a_gpu_without_an_engine(clips, monkeypatch, words):
    monkeypatch.setenv("STOKER_EMULATED_NVDEC", words)
    gpu = OnGpu(clips("h264.mp4"))
    gpu.video.use_gpu(_core.VideoDevice(0))  # a new device, which has no decoder sessions of other tests
    assert np.array_equal(gpu(range(gpu.count)), on_cores(clips("h264.mp4")))
    assert gpu.on_gpu == 0 and "no engine" in gpu.video.why_on_cores()


FUNCTIONS = "cuvidGetDecoderCaps cuvidCreateDecoder cuvidDecodePicture cuvidReconfigureDecoder cuvidMapVideoFrame64 cuvidCreateVideoParser cuvidParseVideoData"


@only_emulated
@pytest.mark.parametrize("function", FUNCTIONS.split())
@pytest.mark.parametrize("at", [1, 7])
def test_the_cores_step_in_when_the_engine_fails(clips, function, at, script):
    """If a call of the emulated decoder fails, the cores decode the right frames. Runs in a separate process, in which no session exists yet."""
    lines = f"""
        import os, sys
        os.environ["STOKER_EMULATED_NVDEC"] = "fail={function}:{at}"
        sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parent.parent)!r}]
        import numpy as np
        import test_gpu_video as t
        for path in {[str(clips("h264.mp4")), str(clips("h264_small.mp4"))]!r}:
            gpu = t.OnGpu(path)
            assert np.array_equal(gpu(range(gpu.count)), t.on_cores(path))
        print("equal", gpu.on_gpu, gpu.video.why_on_cores())
    """
    done = script(lines)
    assert "equal" in done.stdout, done.stderr


@only_emulated
def test_a_driver_without_video(clips, tmp_path, script):
    """If the driver has no libnvcuvid.so.1 but only libcuda.so.1, the cores decode the frames, and the reason is reported."""
    folder = next(Path(f) for f in os.environ["LD_LIBRARY_PATH"].split(":") if (Path(f) / "libcuda.so.1").exists())
    shutil.copy(folder / "libcuda.so.1", tmp_path)
    lines = f"""
        import sys
        sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parent.parent)!r}]
        import numpy as np
        import test_gpu_video as t
        gpu = t.OnGpu({str(clips("h264.mp4"))!r})
        assert np.array_equal(gpu(range(gpu.count)), t.on_cores({str(clips("h264.mp4"))!r}))
        print(gpu.on_gpu, gpu.video.why_on_cores())
    """
    done = script(lines, LD_LIBRARY_PATH=str(tmp_path))
    assert "libnvcuvid" in done.stdout, done.stderr


@only_emulated
def test_no_lock_while_a_closed_video_waits_for_the_gpu(clips, script):
    """The end of a video frees its memory, which waits for a function that the user's stream calls, and that needs Python's lock."""
    lines = f"""
        import ctypes, sys, threading
        sys.path[:0] = [{str(Path(__file__).parent)!r}, {str(Path(__file__).parent.parent)!r}]
        import test_gpu_video as t
        gpu, go = t.OnGpu({str(clips("h264.mp4"))!r}), threading.Event()
        for k in range(0, 18, 3):  # some frames are decoded ahead, to memory of the video
            gpu(range(k, k + 3))
        @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        def function(_):
            go.wait()
        assert gpu.on_gpu and not ctypes.CDLL("libcuda.so.1").cuLaunchHostFunc(None, function, None)
        sys.setswitchinterval(1000)  # so that the function cannot return before the video is closed
        go.set()
        del gpu.video
        print("closed")
    """
    done = script(lines, STOKER_EMULATED_CUDA="async")
    assert done.stdout == "closed\n", done.stdout + done.stderr
