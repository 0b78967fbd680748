# SPDX-License-Identifier: Apache-2.0
"""audioread and audiodecode: values, windows, kinds of arguments, damaged files, objects of a store."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import subprocess
import threading
import urllib.request

import numpy as np
import pytest
import stoker
from sound_files import pcm16, tone, wav
from stoker.errors import StokerError
from storage import KEYS, Store
from support import SEED


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)


@pytest.fixture
def stereo(rng, tmp_path):
    data = pcm16(rng, 100_000, 2, 44100)
    (tmp_path / "a.wav").write_bytes(data)
    return tmp_path / "a.wav", data, np.frombuffer(data[44:], "<i2").reshape(-1, 2)


def test_values_and_types(stereo):
    path, data, stored = stereo
    samples, rate = stoker.audioread(path)
    assert rate == 44100 and samples.dtype == np.float32
    assert np.array_equal(samples, stored / np.float32(32768))
    assert np.array_equal(stoker.audioread(str(path), dtype="int16")[0], stored)
    assert np.array_equal(stoker.audiodecode(data, dtype="int32")[0], stored.astype(np.int32) << 16)
    mono, _ = stoker.audiodecode(np.frombuffer(data, np.uint8), mono=True)
    assert mono.shape == (100_000,)
    assert np.abs(mono - stored.mean(1) / 32768).max() < 1e-6


@pytest.mark.parametrize(("start", "duration"), ((0, None), (0.5, None), (0.25, 0.75), (2, 100), (100_000 / 44100, None), (1, 0)))
def test_windows_are_parts_of_the_whole_sound(stereo, start, duration):
    path, data, stored = stereo
    first = round(start * 44100)
    end = len(stored) if duration is None else first + round(duration * 44100)
    want = stored[first:end] / np.float32(32768)
    assert np.array_equal(stoker.audioread(path, start=start, duration=duration)[0], want)
    assert np.array_equal(stoker.audiodecode(data, start=start, duration=duration)[0], want)


def test_a_long_file_is_read_by_windows(tmp_path):
    """A file of 3 GB, nearly all of which is a hole, is not read completely."""
    path = tmp_path / "long.wav"
    frames = 3 * 2**30 // 2
    with open(path, "wb") as f:
        f.write(wav(np.zeros((0, 1), "<i2"), 16000, promise=2 * frames))
        f.truncate(44 + 2 * frames)
        f.seek(44 + 2 * 1_000_000_000)
        f.write(np.arange(100, dtype="<i2").tobytes())
    samples, _ = stoker.audioread(path, start=1_000_000_000 / 16000, duration=100 / 16000, dtype="int16", mono=True)
    assert samples.tolist() == list(range(100))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    (
        ({"start": 100}, "start is 100 s; the file ends at 2.26757 s"),
        ({"start": -1}, "start is a number of seconds from 0 on, not -1"),
        ({"duration": float("nan")}, "duration is a number of seconds"),
        ({"duration": "1"}, "duration is a number of seconds"),
        ({"dtype": "float64"}, "dtype is one of float32, int16, int32, not 'float64'"),
    ),
)
def test_wrong_arguments(stereo, kwargs, message):
    with pytest.raises((StokerError, ValueError), match=message):
        stoker.audioread(stereo[0], **kwargs)


def test_bad_files(rng, tmp_path):
    with pytest.raises(StokerError, match=r"none\.wav"):
        stoker.audioread(tmp_path / "none.wav")
    path = tmp_path / "cut.wav"
    data = pcm16(rng, 1000)
    path.write_bytes(data[:1044])
    with pytest.raises(StokerError, match=r"cut\.wav: a truncated WAV"):
        stoker.audioread(path)
    samples, _ = stoker.audioread(path, strict=False, dtype="int16")
    assert np.array_equal(samples, np.frombuffer(data[44:1044], "<i2")[:, None])
    (tmp_path / "empty.wav").write_bytes(b"")
    with pytest.raises(StokerError, match=r"empty\.wav: not a sound: it is empty"):
        stoker.audioread(tmp_path / "empty.wav")
    with pytest.raises(StokerError, match="not a sound"):
        stoker.audiodecode(b"")
    with pytest.raises(TypeError):
        stoker.audiodecode(None)


def test_threads_may_read_at_once(rng):
    files = [pcm16(rng, 5000 + i, 2) for i in range(8)]
    want = [stoker.audiodecode(f)[0] for f in files]
    wrong = []

    def work(k):
        for _ in range(30):
            if not np.array_equal(stoker.audiodecode(files[k])[0], want[k]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not wrong


def test_kinds_of_files(rng):
    floats = tone(rng, 300, 2).astype("<f4")
    assert np.array_equal(stoker.audiodecode(wav(floats, 8000, "float", extensible=True, odd_chunk=True))[0], floats)
    shorts = rng.integers(-32768, 32767, (301, 1), "<i2")
    for kwargs in ({"wide": True}, {"fmt_last": True}, {"promise": 0xFFFFFFFF}):
        assert np.array_equal(stoker.audiodecode(wav(shorts, **kwargs), dtype="int16")[0], shorts), kwargs


# ---- wrong arguments ----


@pytest.mark.parametrize(
    ("given", "message"),
    (
        ({"start": True}, "start is a number of seconds from 0 on, not True"),
        ({"start": float("nan")}, "start is a number of seconds from 0 on, not nan"),
        ({"duration": -1}, "duration is a number of seconds from 0 on, not -1"),
        ({"duration": "1"}, "duration is a number of seconds from 0 on, not '1'"),
        ({"mono": "no"}, "mono is True or False, not 'no'"),
        ({"mono": 1}, "mono is True or False, not 1"),
        ({"dtype": "float64"}, "dtype is one of float32, int16, int32, not 'float64'"),
        ({"storage": 3}, "storage is a stoker.Storage, not 3"),
    ),
)
def test_more_wrong_arguments(stereo, given, message):
    with pytest.raises(StokerError, match=message):
        stoker.audioread(stereo[0], **given)


def test_arrays_that_are_no_bytes(stereo):
    _, data, stored = stereo
    for samples in (stored, stored.astype("float32"), np.frombuffer(data[:1000], np.uint8).reshape(10, 100)):
        with pytest.raises(StokerError, match=r"the bytes of a sound.s file are an array of uint8 of one dim, not of (u?int|float)"):
            stoker.audiodecode(samples)
        with pytest.raises(StokerError, match="the bytes of a sound's file are an array of uint8 of one dim"):
            stoker.AudioDecoder(samples)
    assert len(stoker.audiodecode(np.frombuffer(data, np.int8))[0]) == len(stored)
    assert len(stoker.audioread(stereo[0], start=np.float32(0.5), mono=np.bool_(True))[0]) == len(stored) - 22050


def test_paths_and_urls_without_a_name():
    for call in (stoker.audioread, stoker.AudioDecoder):
        with pytest.raises(StokerError, match="the path of the sound is empty"):
            call("")
        with pytest.raises(StokerError, match="http://: a URL without the name of a server"):
            call("http://")


def test_times_that_are_no_numbers(stereo):
    decoder = stoker.AudioDecoder(stereo[0])
    for start, stop, wrong in (
        (float("nan"), 1, "start"),
        (0, float("inf"), "stop"),
        (float("inf"), float("inf"), "start"),
        ("0", 1, "start"),
        (0, True, "stop"),
    ):
        with pytest.raises(ValueError, match=f"{wrong}_seconds is a number of seconds"):
            decoder.get_samples_played_in_range(start, stop)


# ---- objects of a store ----


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Yields a store that needs no keys, and sets the environment's variables for it. It has a WAV of two minutes and, if ffmpeg is installed, the same
    sound as FLAC and its first 2 s as MP3."""
    rng = np.random.default_rng(SEED)
    folder = tmp_path / "root" / "sounds"
    folder.mkdir(parents=True)
    stored = (tone(rng, 120 * 16000) * 32767).astype("<i2")
    (folder / "long.wav").write_bytes(wav(stored, 16000))
    if shutil.which("ffmpeg"):
        for name in ("long.flac", "short.mp3"):
            more = ["-t", "2"] if name == "short.mp3" else []
            command = ["ffmpeg", "-v", "error", "-nostdin", "-i", str(folder / "long.wav"), *more, str(folder / name)]
            subprocess.run(command, check=True, timeout=120)
    server = Store(tmp_path / "root", key="")
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {**server.environment, **KEYS}.items():
        monkeypatch.setenv(name, value)
    server.folder, server.stored = folder, stored[:, 0]
    yield server
    server.close()


def test_windows_of_objects_fetch_what_they_need(store):
    want = store.stored / np.float32(32768)
    for name in ("long.wav", "long.flac"):
        if not (store.folder / name).exists():
            continue
        size = (store.folder / name).stat().st_size
        for start, duration in ((0.0, 0.5), (61.3, 1.0), (119.5, None), (30.0, 8.0)):
            storage = stoker.Storage()
            samples, rate = stoker.audioread(f"s3://sounds/{name}", start=start, duration=duration, mono=True, storage=storage)
            first = round(start * rate)
            assert np.array_equal(samples, want[first : len(want) if duration is None else first + round(duration * rate)])
            fetched, needed = storage.counters()["storage_bytes"], 2 * len(samples)
            assert fetched <= needed + (100_000 if name == "long.wav" else 1_500_000), (name, start, fetched)
            assert fetched < size / 2
    decoder = stoker.AudioDecoder("s3://sounds/long.wav", storage=stoker.Storage())
    part = decoder.get_samples_played_in_range(7.0, 7.25).data
    assert np.array_equal(np.asarray(part)[0], want[7 * 16000 : 7 * 16000 + 4000])


def test_whole_objects(store):
    for name in ("long.wav", "long.flac"):
        if (store.folder / name).exists():
            storage = stoker.Storage()
            samples, _ = stoker.audioread(f"s3://sounds/{name}", dtype="int16", mono=True, storage=storage)
            assert np.array_equal(samples, store.stored)
            assert storage.counters()["storage_bytes"] < 1.2 * (store.folder / name).stat().st_size
    if (store.folder / "short.mp3").exists() and stoker._core.audio_named(".mp3"):
        local, remote = stoker.audioread(store.folder / "short.mp3")[0], stoker.audioread("s3://sounds/short.mp3")[0]
        assert np.array_equal(local, remote)


def test_an_object_that_is_replaced_between_windows(store):
    decoder = stoker.AudioDecoder("s3://sounds/long.wav")
    decoder.get_samples_played_in_range(0.0, 0.1)
    store.set("change=1")  # the next answer gives the object another ETag
    with contextlib.suppress(OSError, http.client.HTTPException):
        urllib.request.urlopen(f"{store.url}/sounds/long.wav", timeout=20).read()
    store.set("change=0")
    with pytest.raises(StokerError, match=r"long\.wav: .*changed while it was read"):
        decoder.get_samples_played_in_range(60.0, 60.1)


def test_a_user_function_that_reports_no_size(store):
    data = (store.folder / "long.wav").read_bytes()
    storage = stoker.Storage(fetch=lambda uri, offset, length: data[offset:] if length is None else data[offset : offset + length])
    samples, _ = stoker.audioread("mine://long.wav", start=5.0, duration=1.0, mono=True, dtype="int16", storage=storage)
    assert np.array_equal(samples, store.stored[5 * 16000 : 6 * 16000])
