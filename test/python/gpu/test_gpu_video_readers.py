# SPDX-License-Identifier: Apache-2.0
"""Videos in pipelines and in Loader on a GPU: the same samples in the same order as on the cores, decoded by NVIDIA's decoder or by the emulated one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import stoker

sys.path.insert(0, str(Path(__file__).parent.parent))

import videos
from both_sides import Output, emulated, why_no_gpu
from stoker import Audio, fn, pipeline_def, types
from stoker import transforms as T
from stoker.loader import Video
from support import SEED, make_nuscenes
from test_clips_with_sound import FILES
from test_pack_video import COMMAND, pack

pytestmark = videos.needs_video
only_emulated = pytest.mark.skipif(bool(why_no_gpu()) or not emulated(), reason="asks the emulated decoder to fail")

ENGINE = "h264.mp4 h264_open.mp4 hevc_open.mp4 vp9.webm rotated.mp4 vfr.mp4".split()


def text(path) -> np.ndarray:
    return np.frombuffer(str(path).encode(), np.uint8)


def pipeline(define, device, batch=3, threads=2, **settings):
    """Returns a pipeline with the outputs of define(device). device: "cpu" or "gpu", for the operator that decodes."""

    @pipeline_def(batch_size=batch, num_threads=threads, device_id=0, **settings)
    def made():
        out = define(device)
        return tuple(out) if isinstance(out, (list, tuple)) else out

    pipe = made()
    pipe.build()
    return pipe


def batches(pipe, count):
    return [[Output.of(o) for o in pipe.run()] for _ in range(count)]


def facts(run):
    return [[(o.shapes, o.data, o.places) for o in batch] for batch in run]


def both(define, count, **settings):
    """Decodes on the cores and on the GPU, and compares the batches. Returns the counters and the explanation of the pipeline on the GPU."""
    with_cores, with_gpu = (pipeline(define, device, **settings) for device in ("cpu", "gpu"))
    want, got = batches(with_cores, count), batches(with_gpu, count)
    assert facts(want) == facts(got)
    assert got[0][0].kind == "gpu"
    return with_gpu.counters(), with_gpu.explain()


@pytest.mark.parametrize("name", ENGINE)
@pytest.mark.parametrize("arguments", [{}, {"dtype": types.FLOAT}, {"dtype": types.FLOAT, "normalized": True}])
def test_readers_give_the_bytes_of_the_cores(clips, name, arguments):
    def define(device):
        return fn.readers.video(
            filenames=[str(clips(name))],
            labels=[7],
            sequence_length=4,
            stride=3,
            step=5,
            pad_sequences=True,
            fill_value=[9, 8, 7],
            enable_frame_num="sequence",
            enable_timestamps=True,
            random_shuffle=True,
            device=device,
            **arguments,
        )

    counters, explained = both(define, 5)
    assert counters["video_frames_on_gpu"] == counters["video_frames"] > 0
    assert "has made" in explained and "cores decoded" not in explained


def test_what_follows_a_reader_takes_frames_that_are_not_stored(clips):
    def define(device):
        clip = fn.readers.video(filenames=[str(clips("hevc_open.mp4"))], sequence_length=6, device=device)
        small = fn.resize(clip.gpu(), size=[40, 50])
        return fn.crop_mirror_normalize(small, output_layout="FCHW", dtype=types.FLOAT, crop=[32, 32])

    counters, _ = both(define, 3)
    assert counters["video_frames_on_gpu"] == counters["video_frames"]


def test_readers_that_resize(clips):
    counters, _ = both(
        lambda device: fn.readers.video_resize(filenames=[str(clips("h264.mp4"))], sequence_length=5, size=[30, 44], device=device), 3
    )
    assert counters["video_frames_on_gpu"] == counters["video_frames"]


@pytest.mark.parametrize("pad", ["constant", "edge", "reflect_101"])
def test_the_experimental_reader(clips, pad):
    def define(device):
        names = [str(clips(name)) for name in ("h264.mp4", "h264_open.mp4")]
        return fn.experimental.readers.video(
            filenames=names, labels=[], sequence_length=9, stride=4, step=13, pad_mode=pad, enable_frame_num="sequence", device=device
        )

    both(define, 5, batch=1)


def test_decoders_of_bytes(clips):
    data = [np.fromfile(clips(name), np.uint8) for name in ("h264.mp4", "vp9.webm", "mpeg4.avi", "hevc_open.mp4")]

    def define(device):
        source = fn.external_source(source=lambda info: data[info.idx_in_epoch % 4], batch=False, dtype=types.UINT8)
        frames = fn.random.uniform(range=[0, 20], shape=5, dtype=types.INT32)
        return fn.decoders.video(source, frames=frames, pad_mode="edge", device="mixed" if device == "gpu" else "cpu")

    counters, explained = both(define, 3, batch=4, seed=3)
    assert 0 < counters["video_frames_on_gpu"] < counters["video_frames"]
    assert "the cores decoded the others" in explained and "mpeg4" in explained


@pytest.mark.parametrize("decoders", [1, 16])
def test_frames_that_samples_name(clips, decoders):
    names = [str(clips(name)) for name in ("h264.mp4", "h264_small.mp4", "mjpeg.avi", "hevc_open.mp4")]

    def define(device):
        def source(info):
            k = info.idx_in_epoch
            return text(names[k % 4]), np.int64(k // 4)

        path, at = fn.external_source(source=source, batch=False, num_outputs=2, dtype=[types.UINT8, types.INT64])
        frame = fn.io.video.frame(path, at, decoders=decoders, device=device)
        return frame, fn.flip(frame.gpu(), horizontal=1)

    counters, _ = both(define, 6, batch=4)
    assert counters["video_frames_on_gpu"] >= counters["video_frames"] * 0.7
    if decoders > 1:  # each decoder continues after its last frame
        assert counters["video_packets"] < 2.5 * counters["video_frames"]


@pytest.mark.parametrize("on_error", ["replace", "skip"])
def test_bad_samples_follow_on_error(clips, tmp_path, on_error):
    good = clips("front.mp4")
    bad = tmp_path / "cut.mp4"
    bad.write_bytes(good.read_bytes()[: good.stat().st_size * 2 // 3])

    def define(device):
        return fn.readers.video(filenames=[str(bad), str(good)], labels=[], sequence_length=7, device=device)

    both(define, 5, on_error=on_error, max_errors=100)
    pipe = pipeline(define, "gpu", batch=1)
    with pytest.raises(stoker.StokerError, match=r"cut\.mp4: it ends before byte .*readers\.video"):
        batches(pipe, 14)


@pytest.mark.parametrize("name", ["h264.mp4", "hevc_open.mp4"])
def test_messages_name_damaged_frames(clips, name):
    for device in ("cpu", "gpu"):
        pipe = pipeline(
            lambda device: fn.readers.video(filenames=[str(clips("damaged_" + name))], sequence_length=30, device=device), device, batch=1
        )
        with pytest.raises(stoker.StokerError, match=rf"damaged_{name}: frame \d+ \(.* s\): .*readers\.video"):
            batches(pipe, 2)


def test_a_run_continues_from_a_state_and_shards_divide_it(clips):
    def define(device):
        return fn.readers.video(
            filenames=[str(clips("h264.mp4"))],
            sequence_length=3,
            random_shuffle=True,
            num_shards=2,
            shard_id=1,
            enable_frame_num="sequence",
            name="r",
            device=device,
        )

    whole = pipeline(define, "gpu", batch=2)
    want = batches(whole, 4)
    first = pipeline(define, "gpu", batch=2)
    batches(first, 2)
    state = first.checkpoint()
    rest = pipeline(define, "cpu", batch=2, checkpoint=state, enable_checkpointing=True)
    assert facts(want)[2:] == facts(batches(rest, 2))


def test_decode_on_the_cores_when_asked(clips):
    counters, explained = both(
        lambda device: fn.readers.video(filenames=[str(clips("h264.mp4"))], sequence_length=3, device=device), 2, decode="cores"
    )
    assert counters["video_frames"] > 0 and counters["video_frames_on_gpu"] == 0 and "video decoder" not in explained


def test_a_small_memory_limit_leaves_surfaces_out(clips):
    counters, explained = both(
        lambda device: fn.readers.video(filenames=[str(clips("h264.mp4"))], sequence_length=1, device=device), 2, memory_limit=4 << 20
    )
    assert counters["video_frames_on_gpu"] == 0 and "memory_limit" in explained


@only_emulated
@pytest.mark.parametrize("words", ["none", "no=h264"])
def test_a_gpu_without_an_engine(clips, monkeypatch, words):
    monkeypatch.setenv("STOKER_EMULATED_NVDEC", words)
    counters, explained = both(lambda device: fn.readers.video(filenames=[str(clips("h264.mp4"))], sequence_length=3, device=device), 2)
    assert counters["video_frames_on_gpu"] == 0 and "no engine" in explained and "h264" in explained


@pytest.mark.parametrize("given", [{"frames": 3, "stride": 2}, {"fields": {"clip": Video(4, fps=10, clips=2), "label": None}}])
def test_loader_gives_the_clips_of_the_cores(clips, tmp_path, given):
    for k, name in enumerate(("h264.mp4", "hevc_open.mp4", "mpeg4.avi", "h264_open.mp4")):
        (tmp_path / f"c{k % 2}").mkdir(exist_ok=True)
        (tmp_path / f"c{k % 2}" / name).symlink_to(clips(name))
    steps = [T.RandomResizedCrop(32), T.RandomHorizontalFlip(), T.Normalize([0.45] * 3, [0.225] * 3)]
    cores, gpu = (
        stoker.Loader(tmp_path, 2, shuffle=True, seed=5, transforms=steps, device=d, num_threads=2, **given).pipeline
        for d in ("cpu", "cuda:0")
    )
    for _ in range(4):
        a, b = cores.run(), gpu.run()
        left, right = Output.of(a[0]), Output.of(b[0])
        assert (left.shapes, left.data, left.places) == (right.shapes, right.data, right.places) and right.kind == "gpu"
    counters = gpu.counters()
    assert 0 < counters["video_frames_on_gpu"] < counters["video_frames"]
    assert "mpeg4" in gpu.explain()


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    """Makes a folder of two classes of videos with sound. The GPU's decoder supports these videos, except mpeg4.avi, which only the cores can decode."""
    root = tmp_path_factory.mktemp("films")
    for k, name in enumerate(("aac.mp4", "late.mkv", "mpeg4.avi", "opus.webm")):
        path = root / f"c{k % 2}" / name
        path.parent.mkdir(exist_ok=True)
        if videos.READY and (videos.READY / "films" / name).exists():
            shutil.copy(videos.READY / "films" / name, path)
        elif not shutil.which("ffmpeg"):
            pytest.skip("there is no ffmpeg, and these videos are not among the ready ones")
        else:
            subprocess.run(["ffmpeg", "-v", "error", "-nostdin", *FILES[name].split(), str(path)], check=True, timeout=120)
    return root


@pytest.mark.parametrize("ragged", [(), ("audio",)])
def test_loader_with_sound(films, ragged):
    """The GPU decodes the pictures, and the cores the sound of the same window. Both equal the results of a Loader on the cores."""
    fields = {"clip": Video(4, stride=2), "audio": Audio(rate=16000), "path": None}
    steps = [T.RandomResizedCrop(32), T.Normalize([0.45] * 3, [0.225] * 3)]
    cores, gpu = (
        stoker.Loader(films, 2, shuffle=True, seed=5, transforms=steps, fields=fields, ragged=ragged, device=d, num_threads=2).pipeline
        for d in ("cpu", "cuda:0")
    )
    for _ in range(4):
        a, b = ([Output.of(o) for o in pipe.run()] for pipe in (cores, gpu))
        same = [(x, y) for x, y in zip(a, b, strict=True) if x.dtype == y.dtype]  # leaves out the labels, which are int64 on a GPU
        assert len(same) == len(a) - 1 and all((x.shapes, x.data, x.places) == (y.shapes, y.data, y.places) for x, y in same)
        assert [y.kind for _, y in same[:2]] == ["gpu", "gpu"]
    counters = gpu.counters()
    assert 0 < counters["video_frames_on_gpu"] < counters["video_frames"] and "mpeg4" in gpu.explain()


@pytest.mark.parametrize("settings", [{}, {"decode": "cores"}])
def test_windows_of_sound(films, settings):
    """The time window of a clip that the GPU decodes is in host memory, where decoders.audio and arithmetic on the cores read it; .gpu() copies it. All
    values equal those of the cores."""

    def define(device):
        data, label = fn.readers.file(file_root=str(films), file_filters=["*"])
        arguments = {"sequence_length": 5, "position": "random", "pad_mode": "edge", "seed": 3, "enable_window": True}
        clip, window = fn.decoders.video(data, device="mixed" if device == "gpu" else "cpu", **arguments)
        assert clip.device == device and window.device == "cpu"
        sound, rate = fn.decoders.audio(data, window)
        assert sound.device == "cpu"
        return fn.flip(clip, horizontal=1), window, sound, rate, label, window * 2.0, window.gpu() + 1.0

    with_cores, with_gpu = (pipeline(define, device, **settings) for device in ("cpu", "gpu"))
    want, got = batches(with_cores, 3), batches(with_gpu, 3)
    assert facts(want) == facts(got)
    assert [o.kind for o in got[0]] == ["gpu", "cpu", "cpu", "cpu", "cpu", "cpu", "gpu"]
    assert (with_gpu.counters()["video_frames_on_gpu"] > 0) == (not settings)


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_windows_for_later_levels(films, device):
    """Operators that wait for the whole batch, such as python_function, can read the time window of a clip."""

    def define(device):
        data, _ = fn.readers.file(file_root=str(films), file_filters=["*"])
        clip, window = fn.decoders.video(data, sequence_length=5, enable_window=True, device="mixed" if device == "gpu" else "cpu")
        longest = fn.pad(fn.decoders.audio(data, window)[0])
        begin = fn.python_function(window, function=lambda w: w[:1])
        return clip, longest, begin, fn.decoders.audio(data, window + begin.shape()[0] * 0.0)[0]

    (clip, longest, begin, again) = batches(pipeline(define, device), 1)[0]
    (_, longest_on_cores, begin_on_cores, again_on_cores) = batches(pipeline(define, "cpu"), 1)[0]
    assert (longest.data, begin.data, again.data) == (longest_on_cores.data, begin_on_cores.data, again_on_cores.data)
    assert clip.kind == device


@pytest.mark.parametrize("policy", ["partial", "pad"])
def test_videos_that_are_fed(clips, policy):
    """experimental.inputs.video on a GPU gives the same sequences and lengths of batches as on the cores, also for a codec that only the cores decode."""
    paths = [clips(name) for name in ("h264.mp4", "hevc_open.mp4", "mpeg4.avi")]

    def define(device):
        return fn.experimental.inputs.video(name="video", sequence_length=7, last_sequence_policy=policy, device=device)

    def fed(device):
        pipe = pipeline(define, "mixed" if device == "gpu" else "cpu")
        made = []
        for path in paths:
            pipe.feed_input("video", path.read_bytes())
            frames = len(stoker.VideoDecoder(path))
            while frames > 0:
                batch = Output.of(pipe.run()[0])
                assert batch.kind == device
                made.append((batch.shapes, batch.data))
                frames -= 7 * len(batch.shapes)
        return made

    assert fed("cpu") == fed("gpu")


@pytest.mark.skipif(not (COMMAND.exists() and shutil.which("ffmpeg")), reason="packs its videos with the build's command and with ffmpeg")
def test_streampetr_over_videos(tmp_path, monkeypatch):
    """The example's loop reads six cameras from videos: the fields of all batches are those of the cores."""
    root = make_nuscenes(tmp_path / "nuscenes", scenes=2, samples=4, seed=SEED, size=(200, 112), sweeps=0, points=400)
    pack(root, "-o", tmp_path / "v", "--codec", "hevc", "--gop", 3)
    example = Path(__file__).resolve().parents[3] / "examples" / "streampetr"
    monkeypatch.syspath_prepend(str(example))
    for name in ("pipeline", "reference", "streaming", "tables"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import pipeline as streaming_pipeline
    import reference

    config = reference.Config(hw=(40, 88))
    cores, gpu = (
        streaming_pipeline.Loader(root, "v1.0-mini", config, 2, SEED, threads=2, device=d, video_root=tmp_path / "v").pipeline
        for d in ("cpu", "cuda:0")
    )
    names = ["pipeline", "reference", "streaming", "tables"]
    for _ in range(6):  # six batches continue into the second round of the data
        for k, (a, b) in enumerate(zip(cores.run(), gpu.run(), strict=True)):
            left, right = Output.of(a), Output.of(b)
            assert (left.shapes, left.data, left.places) == (right.shapes, right.data, right.places), k
    counters = gpu.counters()
    assert counters["video_frames_on_gpu"] == counters["video_frames"] > 0, gpu.explain()
    for name in names:
        sys.modules.pop(name, None)


LOOP = """
    import ctypes, os, sys
    import numpy as np
    import stoker
    from stoker import fn, pipeline_def, types

    path, *functions = sys.argv[1:]


    def run(device):
        def source(info):
            return np.frombuffer(path.encode(), np.uint8), np.int64(3 * info.idx_in_epoch)

        @pipeline_def(batch_size=2, num_threads=2, device_id=0, prefetch_queue_depth=1)
        def define():
            clip = fn.readers.video(filenames=[path], sequence_length=3, stride=2, step=4, dtype=types.FLOAT, normalized=True, device=device)
            name, at = fn.external_source(source=source, batch=False, num_outputs=2, dtype=[types.UINT8, types.INT64])
            return clip, fn.io.video.frame(name, at, device=device)

        pipe = define()
        pipe.build()
        try:
            return [np.array(t) for o in pipe.run() for t in o.as_cpu()]
        finally:
            pipe.close()


    def same(got):
        return len(got) == len(want) and all(map(np.array_equal, got, want))


    want = run("cpu")
    assert same(run("gpu"))
    driver = ctypes.CDLL("libcuda.so.1")
    for function in functions:
        failed = reached = 0
        for n in (1, 2, 3, 4, 5, 7, 10, 15, 22, 33):
            if function.startswith("cuvid"):
                os.environ["STOKER_EMULATED_NVDEC"] = f"once={function}:{n}"
            else:
                os.environ["STOKER_EMULATED_CUDA"] = f"strict fail={function}:{n}"
                driver.cuInit(0)
            try:
                assert same(run("gpu")), (function, n)
            except stoker.StokerError as e:
                assert len(str(e)) > 20, (function, n, str(e))
                failed += 1
                if function == "cuLaunchKernel" and "readers.video" in str(e):
                    assert "h264_small.mp4" in str(e)
                    reached += "frame " in str(e)
            os.environ["STOKER_EMULATED_CUDA"] = "strict"
            os.environ.pop("STOKER_EMULATED_NVDEC", None)
            driver.cuInit(0)
            assert same(run("gpu")), (function, n, "afterwards")
        assert failed or function.startswith("cuvid"), function
        assert reached or function != "cuLaunchKernel"
    print("ended")
"""
CALLS = "cuMemAlloc cuMemHostAlloc cuStreamCreateWithPriority cuEventCreate cuEventRecord cuEventSynchronize cuStreamSynchronize"
CALLS += " cuLaunchKernel cuMemcpyHtoDAsync cuvidGetDecoderCaps cuvidCreateDecoder cuvidDecodePicture cuvidMapVideoFrame64 cuvidUnmapVideoFrame64"
CALLS += " cuvidCreateVideoParser cuvidParseVideoData"


@only_emulated
@pytest.mark.parametrize("functions", [CALLS.split()[k::3] for k in range(3)])
def test_each_call_of_the_driver_may_fail(clips, script, functions):
    """Each call of a driver function fails once. The batch is right or an error is raised, nothing is left on the device, and the next run is right."""
    done = script(LOOP, str(clips("h264_small.mp4")), *functions, STOKER_EMULATED_CUDA="strict")
    assert "ended" in done.stdout, done.stdout + done.stderr


ORDER = """
    import sys
    sys.path[:0] = sys.argv[2:]
    import test_gpu_video_readers as t

    path = sys.argv[1]
    t.both(lambda device: t.fn.readers.video(filenames=[path], sequence_length=4, stride=3, step=5, pad_sequences=True, device=device), 6)
    t.both(lambda device: t.fn.flip(t.fn.readers.video(filenames=[path], sequence_length=4, device=device).gpu(), horizontal=1), 6)
    print("ended")
"""


@only_emulated
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_streams_wait_for_each_other(clips, script, seed):
    """The emulated streams start their work late, so that a missing wait between streams would give wrong frames."""
    folders = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
    done = script(ORDER, str(clips("h264.mp4")), *folders, STOKER_EMULATED_CUDA=f"strict async delay=2000 seed={seed}")
    assert "ended" in done.stdout, done.stdout + done.stderr


NAMED = """
    import sys
    import numpy as np
    from stoker import fn, pipeline_def, types

    @pipeline_def(batch_size=2, num_threads=2, device_id=0)
    def define():
        def source(info):
            return np.frombuffer(sys.argv[1].encode(), np.uint8), np.int64(info.idx_in_epoch)

        clip = fn.readers.video(filenames=[sys.argv[1]], sequence_length=4, device="gpu")
        name, at = fn.external_source(source=source, batch=False, num_outputs=2, dtype=[types.UINT8, types.INT64])
        return clip, fn.io.video.frame(name, at, device="gpu")

    pipe = define()
    pipe.build()
    for _ in range(3):
        clip, frame = pipe.run()
        assert np.array(clip.as_cpu()[0]).any() and np.array(frame.as_cpu()[0]).any()
    assert pipe.counters()["video_frames_on_gpu"] > 0
    print("ended")
"""


@only_emulated
def test_clips_do_not_wait_for_the_users_stream(clips, script):
    """Workers decode into the pipeline's own memory. On the default stream, on which the user trains, an event would wait for all of the user's work."""
    done = script(NAMED, str(clips("h264.mp4")), STOKER_EMULATED_CUDA="named")
    assert "ended" in done.stdout, done.stdout + done.stderr
