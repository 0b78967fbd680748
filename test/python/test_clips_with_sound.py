# SPDX-License-Identifier: Apache-2.0
"""Clips and sounds of one time window equal the frames and samples that the program ffmpeg gives for the same times."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile

import numpy as np
import pytest
import stoker
from sound_files import pcm16
from stoker import Audio, AudioDecoder, Pipeline, VideoDecoder, fn
from stoker.errors import InvalidArgumentError, StokerError
from videos import READY, can_decode

torch = pytest.importorskip("torch")

from stoker.loader import Loader, Video  # noqa: E402

pytestmark = pytest.mark.skipif(READY is not None or not can_decode(), reason="needs the ffmpeg program and a build with video")

PICTURE = "-f lavfi -i testsrc2=size=96x64:rate=25:duration=2"
NOISE = "-f lavfi -i anoisesrc=duration={}:sample_rate={}:seed=3"
H264 = "-c:v libx264 -preset ultrafast -bf 2 -g 12"
# name of the file: arguments of ffmpeg
FILES = {
    "aac.mp4": f"{PICTURE} {NOISE.format(2, 44100)} {H264} -c:a aac",
    "flac.mkv": f"{PICTURE} {NOISE.format(2, 16000)} {H264} -c:a flac",
    "opus.webm": f"{PICTURE} {NOISE.format(2, 48000)} -c:v libvpx -g 12 -deadline realtime -c:a libopus",
    "stream.ts": f"{PICTURE} {NOISE.format(2, 44100)} {H264} -c:a aac",
    "late.mkv": f"{PICTURE} -itsoffset 0.73 {NOISE.format(0.5, 16000)} {H264} -c:a flac",
    "stereo.mov": f"{PICTURE} {NOISE.format(2, 22050)} {H264} -ac 2 -c:a pcm_s16le",
    "mpeg4.avi": f"{PICTURE} {NOISE.format(2, 16000)} -c:v mpeg4 -g 12 -c:a pcm_s16le",
    "flash.flv": f"{PICTURE} {NOISE.format(2, 44100)} {H264} -c:a aac",
    "disk.m2ts": f"{PICTURE} {NOISE.format(2, 48000)} {H264} -c:a aac",
    "vfr.mp4": f"{PICTURE} {NOISE.format(2, 32000)} -vf select='not(mod(n\\,3))+gt(n\\,30)' -vsync vfr {H264} -c:a aac",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    root = tmp_path_factory.mktemp("films")
    for name, arguments in FILES.items():
        subprocess.run(["ffmpeg", "-v", "error", "-nostdin", *arguments.split(), str(root / name)], check=True, timeout=120)
    return root


def frames_of(path, kind) -> list[dict[str, str]]:
    """Returns the facts that ffprobe reports about each frame of a stream."""
    command = ["ffprobe", "-v", "error", "-select_streams", kind, "-show_frames", "-of", "json", str(path)]
    made = subprocess.run(command, check=True, capture_output=True, timeout=120)
    return json.loads(made.stdout)["frames"]


def rate_of(path) -> int:
    command = ["ffprobe", "-v", "error", "-select_streams", "a:0", "-show_streams", "-of", "json", str(path)]
    made = subprocess.run(command, check=True, capture_output=True, timeout=120)
    return int(json.loads(made.stdout)["streams"][0]["sample_rate"])


class Film:
    """The times of a file's frames, as ffprobe reports them, and its sound, as ffmpeg decodes it."""

    def __init__(self, path):
        self.path = path
        pictures, sounds = frames_of(path, "v:0"), frames_of(path, "a:0")
        last = pictures[-1]
        self.begins = [float(f.get("pts_time", f["best_effort_timestamp_time"])) for f in pictures]
        self.ends = [*self.begins[1:], self.begins[-1] + float(last.get("pkt_duration_time", last.get("duration_time", 0)))]
        self.origin, channels = float(sounds[0]["pts_time"]), int(sounds[0]["channels"])
        self.rate = rate_of(path)
        command = ["ffmpeg", "-v", "error", "-nostdin", "-i", str(path), "-map", "0:a:0", "-f", "f32le", "-"]
        raw = subprocess.run(command, check=True, capture_output=True, timeout=120).stdout
        self.sound = np.frombuffer(raw, "<f4").reshape(-1, channels)

    def window(self, begin: float, end: float, frames: int | None = None) -> np.ndarray:
        """Returns the samples of a time window in seconds, with zeros at times without sound."""
        first = round((begin - self.origin) * self.rate)
        count = round((end - self.origin) * self.rate) - first if frames is None else frames
        made = np.zeros((count, self.sound.shape[1]), np.float32)
        low, high = max(first, 0), min(first + count, len(self.sound))
        if low < high:
            made[low - first : high - first] = self.sound[low:high]
        return made


@pytest.fixture(scope="module")
def films(files):
    return {name: Film(files / name) for name in FILES}


def decoded(path, arguments, **more):
    """Returns a clip, its time window, its sound and the sound's rate."""
    pipe = Pipeline(1, num_threads=1)
    with pipe:
        data, _ = fn.readers.file(files=[str(path)])
        clip, window = fn.decoders.video(data, enable_window=True, **arguments)
        sound, rate = fn.decoders.audio(data, window, **more)
        pipe.set_outputs(clip, window, sound, rate)
    pipe.build()
    clip, window, sound, rate = pipe.run()
    return np.asarray(clip.at(0)), np.asarray(window.at(0)), np.asarray(sound.at(0)), float(np.asarray(rate.at(0)))


@pytest.mark.parametrize("name", FILES)
def test_sounds_have_the_window_of_their_clip(films, name):
    film, frames = films[name], len(films[name].begins)
    for first, count, stride in ((0, 5, 1), (7, 4, 3), (frames - 3, 3, 1), (frames - 2, 6, 2), (12, 1, 1)):
        clip, window, sound, rate = decoded(
            film.path, {"start_frame": first, "sequence_length": count, "stride": stride, "pad_mode": "edge"}
        )
        last = min(first + (count - 1) * stride, frames - 1)
        assert window == pytest.approx([film.begins[first], film.ends[last]], abs=2e-6)
        assert rate == film.rate and np.array_equal(sound, film.window(*window))
        decoder = VideoDecoder(film.path)
        if last + 1 < frames:
            assert window[1] == decoder.get_frame_at(last + 1).pts_seconds  # exactly where the next frame begins
        again = decoder.get_frames_in_range(first, last + 1, stride).data.movedim(1, -1).numpy()
        assert np.array_equal(clip[: len(again)], again)


@pytest.mark.parametrize("name", ["aac.mp4", "late.mkv", "vfr.mp4"])
def test_windows_of_one_duration(films, name):
    film, frames = films[name], len(films[name].begins)
    for first in (0, 9, frames - 1):
        _, window, sound, _ = decoded(film.path, {"start_frame": first, "sequence_length": 2, "pad_mode": "edge"}, duration=0.37)
        assert np.array_equal(sound, film.window(window[0], 0, round(0.37 * film.rate)))
        for rate, dtype in ((8000, np.float32), (48000, np.int16)):
            kind = {np.float32: stoker.types.FLOAT, np.int16: stoker.types.INT16}[dtype]
            more = {"duration": 0.37, "sample_rate": float(rate), "downmix": True, "dtype": kind}
            _, _, sound, got = decoded(film.path, {"start_frame": first, "sequence_length": 2, "pad_mode": "edge"}, **more)
            assert sound.shape == (round(0.37 * rate),) and got == rate and sound.dtype == dtype


def test_a_rate_of_frames(films):
    film = films["flac.mkv"]
    for first, count, stride, fps in ((0, 3, 1, 10.0), (5, 4, 2, 8.0), (15, 3, 1, 10.0)):
        arguments = {"start_frame": first, "sequence_length": count, "stride": stride, "fps": fps, "pad_mode": "edge"}
        _, window, sound, _ = decoded(film.path, arguments)
        last = min(first + (count - 1) * stride, int(np.ceil(2 * fps)) - 1)
        assert window == pytest.approx([film.begins[0] + first / fps, film.begins[0] + (last + 1) / fps], abs=1e-9)
        assert np.array_equal(sound, film.window(*window))


def check(batches, films, paths, stride, frames, names=("clip", "audio")):
    """Checks that each sound belongs to its clip. Returns the numbers of the clips' first frames."""
    starts = []
    for batch in batches:
        for i, path in enumerate(batch.path):
            film = films[path.rpartition("/")[2]]
            clip, sound = getattr(batch, names[0])[i], getattr(batch, names[1])
            whole = VideoDecoder(film.path)[:]
            found = [k for k in range(len(whole)) if torch.equal((clip[0] * 255).round().to(torch.uint8), whole[k])]
            assert len(found) == 1
            last = min(found[0] + (frames - 1) * stride, len(whole) - 1)
            want = film.window(film.begins[found[0]], film.ends[last]).mean(1)
            n = int(batch.audio_lengths[i]) if hasattr(batch, "audio_lengths") else int(sound.sample_sizes[i])
            row = (sound.tensor if hasattr(sound, "tensor") else sound)[i]
            assert n == len(want) and np.abs(row[:n].numpy() - want).max() < 1e-6 and not row[n:].any()
            starts.append(found[0])
    return starts


NAMES = ["aac.mp4", "flac.mkv", "late.mkv", "stereo.mov"]


@pytest.mark.parametrize("ragged", [(), ("audio",)])
def test_loader_gives_each_clip_its_sound(files, films, ragged):
    paths = [str(files / name) for name in NAMES]
    fields = {"audio": Audio(), "clip": Video(4, stride=2), "path": None, "rate": None}
    loader = Loader(paths, 2, fields=fields, shuffle=True, seed=7, ragged=ragged)
    starts = []
    for _ in range(2):
        batches = list(loader)
        assert batches[0]._fields == ("audio", "clip", "path", "rate", *(() if ragged else ("audio_lengths",)))
        assert batches[0].clip.shape == (2, 4, 3, 64, 96)
        assert [r for b in batches for r in b.rate.tolist()] == [films[p.rpartition("/")[2]].rate for b in batches for p in b.path]
        starts += check(batches, films, paths, 2, 4)
    assert len(set(starts)) > 3


def test_loader_with_one_length_labels_and_resuming(files):
    from stoker import transforms as T

    pairs = [(str(files / name), k) for k, name in enumerate(NAMES)]
    fields = {"clip": Video(3), "label": None, "audio": Audio(rate=16000, duration=0.25, mono=False), "index": None}

    def make(**more):
        return Loader(pairs[:3], 1, fields=fields, shuffle=True, seed=2, transforms=[T.Resize((32, 32))], **more)

    whole = list(make())
    assert whole[0]._fields == tuple(fields) and whole[0].clip.shape == (1, 3, 3, 32, 32) and whole[0].audio.shape == (1, 1, 4000)
    assert all(b.label.tolist() == b.index.tolist() for b in whole)
    first = make(num_threads=1)
    next(iter(first))
    second = make()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for a, b in zip(list(second), whole[1:], strict=True):
        assert torch.equal(a.clip, b.clip) and torch.equal(a.audio, b.audio)


def test_the_sound_of_a_clip_alone(files):
    """Fields that are only about the sound give the same sounds as next to the clip."""
    pairs = [(str(files / name), k) for k, name in enumerate(NAMES[:3])]
    for audio, names in ((Audio(rate=16000, duration=0.25), ("rate",)), (Audio(), ("audio_lengths", "rate"))):
        want = next(iter(Loader(pairs, 3, frames=3, fields={"audio": audio, **dict.fromkeys(names), "label": None})))
        for more in ((), *((name,) for name in names), names):
            got = next(iter(Loader(pairs, 3, frames=3, fields={"audio": audio, **dict.fromkeys(more)})))
            assert got._fields[: 1 + len(more)] == ("audio", *more) and not {"image", "label"} & {*got._fields}
            for name in got._fields:
                assert torch.equal(torch.as_tensor(getattr(got, name)), torch.as_tensor(getattr(want, name)))
    with pytest.raises(InvalidArgumentError, match="fields is empty"):
        Loader(pairs, 3, frames=3, fields={})


def test_other_sources_give_the_clips_of_files(files, films, tmp_path):
    """Tars, tables and Datasets of videos give the same clips and sounds as files."""
    data = {name: (files / name).read_bytes() for name in NAMES}
    with tarfile.open(tmp_path / "films.tar", "w") as tar:
        for i, name in enumerate(NAMES):
            for ending, content in ((name.rpartition(".")[2], data[name]), ("cls", str(i).encode())):
                member = tarfile.TarInfo(f"{i}.{ending}")
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    sources = [
        tmp_path / "films.tar",
        [{"clip": data[name], "label": i} for i, name in enumerate(NAMES)],
    ]

    class Films:
        def __len__(self):
            return len(NAMES)

        def __getitem__(self, i):
            return sources[1][i]

    made = [sources[0], Films()]
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        pass
    else:
        pq.write_table(pa.table({"clip": list(data.values()), "label": list(range(len(NAMES)))}), tmp_path / "films.parquet")
        made += [tmp_path / "films.parquet", "from_parquet"]
    fields = {"clip": Video(4), "audio": Audio(), "label": None}
    want = next(iter(Loader([(str(files / name), i) for i, name in enumerate(NAMES)], 4, fields=fields)))
    for source in made:
        make = Loader if source != "from_parquet" else Loader.from_parquet
        got = next(iter(make(tmp_path / "films.parquet" if source == "from_parquet" else source, 4, fields=fields)))
        assert got._fields == want._fields and got.label.tolist() == [0, 1, 2, 3]
        assert (
            torch.equal(got.clip, want.clip) and torch.equal(got.audio, want.audio) and torch.equal(got.audio_lengths, want.audio_lengths)
        )


def test_columns_that_the_sounds_of_clips_would_replace_are_refused(files, tmp_path):
    names = ["flac.mkv", "stereo.mov"]
    rows = [{"path": str(files / name), "audio": f"word {k}", "rate": 7, "sound_lengths": k} for k, name in enumerate(names)]
    table = tmp_path / "films.csv"
    table.write_text("\n".join([",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]) + "\n")

    class Films(torch.utils.data.Dataset):
        def __len__(self):
            return len(rows)

        def __getitem__(self, i):
            return {("clip" if name == "path" else name): value for name, value in rows[i].items()}

    for make, source in ((Loader.from_csv, table), (Loader, Films())):
        for name, more, way in (
            ("audio", {"audio": Audio()}, "give the sound another name in fields=, as 'sound'"),
            ("rate", {"sound": Audio(), "rate": None}, "leave it out of fields="),
        ):
            with pytest.raises(
                StokerError, match=f"a sound adds a field '{name}', and the data have one of this name: rename it, or {way}"
            ):
                next(iter(make(source, 2, fields={"clip": Video(4), **more})))
        assert {"clip", "sound"} <= {*next(iter(make(source, 2, fields={"clip": Video(4), "sound": Audio()})))._fields}  # the advice works
        batch = next(iter(make(source, 2, fields={"clip": Video(4), "sound": Audio(mono=True)})))
        assert batch._fields == ("clip", "sound", "sound_lengths") and batch.sound_lengths.tolist() == [2560, 3528]


def test_torchaudios_transforms(files):
    T = pytest.importorskip("torchaudio.transforms")
    steps = [stoker.transforms.Resize((32, 32)), T.MelSpectrogram(16000, n_fft=512, n_mels=40), T.AmplitudeToDB()]
    fields = {"clip": Video(4), "audio": Audio(rate=16000, duration=0.16)}
    paths = [str(files / name) for name in NAMES]
    plain = next(iter(Loader(paths, 4, fields=fields)))
    made = next(iter(Loader(paths, 4, fields=fields, transforms=steps)))
    want = steps[2](steps[1](plain.audio))
    assert made.clip.shape == (4, 4, 3, 32, 32) and made.audio.shape == want.shape
    assert (made.audio - want).abs().max() < 1e-4 * (want.max() - want.min())


@pytest.mark.parametrize("name", FILES)
def test_one_file(films, name):
    film = films[name]
    video, sound = VideoDecoder(film.path), AudioDecoder(film.path)
    assert sound.metadata.begin_stream_seconds == pytest.approx(film.origin, abs=1e-6)
    assert sound.metadata.num_frames == len(film.sound) and sound.metadata.sample_rate == film.rate
    assert np.array_equal(sound.get_all_samples().data.numpy(), film.sound.T)
    frames = video.get_frames_played_in_range(video.metadata.begin_stream_seconds + 0.9, video.metadata.begin_stream_seconds + 1.1)
    begin, end = float(frames.pts_seconds[0]), float(frames.pts_seconds[-1] + frames.duration_seconds[-1])
    got = AudioDecoder(film.path.read_bytes()).get_samples_played_in_range(begin, end)
    assert np.array_equal(got.data.numpy(), film.window(begin, end).T) and got.sample_rate == film.rate
    assert got.pts_seconds == pytest.approx(begin, abs=1 / film.rate) and got.duration_seconds == pytest.approx(
        end - begin, abs=1.1 / film.rate
    )
    with pytest.raises(IndexError, match="there is no sound from"):
        sound.get_samples_played_in_range(100.0, 101.0)
    with pytest.raises(ValueError, match="must not be after"):
        sound.get_samples_played_in_range(2.0, 1.0)


def test_torchcodecs_arguments(films):
    """File objects are read, samples can be unpacked, and arguments that would change the samples are refused with advice."""
    film = films["stereo.mov"]
    with open(film.path, "rb") as file:
        file.read(100)
        decoder = AudioDecoder(file, sample_rate=22050, num_channels=2)
    data, begin, duration, rate = decoder.get_all_samples()
    assert np.array_equal(data.numpy(), film.sound.T) and rate == 22050
    assert (begin, duration) == (film.origin, len(film.sound) / 22050)
    for arguments, advice in (
        ({"sample_rate": 16000}, "resample the samples"),
        ({"num_channels": 1}, "mean of the channels"),
        ({"num_channels": 3}, "choose or mix the channels"),
        ({"stream_index": 1}, "leave the argument out"),
    ):
        with pytest.raises(stoker.errors.UnsupportedError, match=advice):
            AudioDecoder(film.path, **arguments)
    mono = pcm16(np.random.default_rng(1), 100)
    with pytest.raises(stoker.errors.UnsupportedError, match=r"repeat the channel: samples\.data\.expand\(2, -1\)"):
        AudioDecoder(mono, num_channels=2)
    assert AudioDecoder(mono).get_all_samples().data.expand(2, -1).shape == (2, 100)
    with open(film.path, encoding="latin-1") as text, pytest.raises(TypeError, match="opened for text"):
        AudioDecoder(text)


def test_wrong_arguments(files):
    path = [str(files / "flac.mkv")]
    for fields, message in (
        ({"clip": Video(3, clips=2), "audio": Audio()}, "a sample has one clip"),
        ({"clip": Video(3), "audio": Audio(rate=8000, duration=0.1, crop="random")}, "the sound begins with the clip"),
        ({"clip": Video(3), "audio": Audio(rate=8000, duration=0.1), "audio_lengths": None}, "there is no 'audio_lengths'"),
    ):
        with pytest.raises(StokerError, match=message):
            Loader(path, 1, fields=fields)
    for arguments, more, message in (
        ({"sequence_length": 2, "position": "center", "clips": 2}, {}, "enable_window is of one clip"),
        ({"sequence_length": 2}, {"start": 1.0}, "leave out start"),
        ({"sequence_length": 2}, {"duration": 1.0, "pad": True}, "leave out pad"),
    ):
        with pytest.raises(StokerError, match=message):
            decoded(path[0], arguments, **more)


def test_a_program_stream(tmp_path):
    """The sound of an MPEG program stream equals the sound that ffmpeg decodes. ffprobe reports no times for its frames, so only the samples are compared."""
    path = tmp_path / "program.mpg"
    arguments = f"{PICTURE} {NOISE.format(2, 44100)} -c:v mpeg2video -c:a mp2".split()
    subprocess.run(["ffmpeg", "-v", "error", "-nostdin", *arguments, str(path)], check=True, timeout=120)
    command = ["ffmpeg", "-v", "error", "-nostdin", "-i", str(path), "-map", "0:a:0", "-f", "f32le", "-"]
    raw = subprocess.run(command, check=True, capture_output=True, timeout=120).stdout
    assert np.array_equal(AudioDecoder(path).get_all_samples().data.numpy()[0], np.frombuffer(raw, "<f4"))


def test_videos_without_sound(tmp_path):
    command = ["ffmpeg", "-v", "error", "-nostdin", *f"{PICTURE} {H264}".split(), str(tmp_path / "mute.mp4")]
    subprocess.run(command, check=True, timeout=120)
    with pytest.raises(StokerError, match=r"mute\.mp4"):
        list(Loader([str(tmp_path / "mute.mp4")], 1, fields={"clip": Video(2), "audio": Audio()}))
