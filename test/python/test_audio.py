# SPDX-License-Identifier: Apache-2.0
"""decoders.audio and readers.nemo_asr: damaged files, windows, order, shards and resuming. Values are compared with DALI in parity/."""

from __future__ import annotations

import json

import numpy as np
import pytest
import stoker
from sound_files import pcm16, tone, wav
from stoker import Audio, Loader, Pipeline, fn, types
from stoker.errors import LimitError, StokerError
from support import SEED


@pytest.fixture
def rng():
    return np.random.default_rng(SEED)


def samples_of(data: bytes) -> np.ndarray:
    """Returns the samples of a file that was written with pcm16, as floats from -1 to 1."""
    return np.frombuffer(data[44:], "<i2").astype(np.float32) / 32768


def decode(files, strict=True, **kwargs):
    pipe = Pipeline(batch_size=len(files), num_threads=2, device_id=None, strict=strict)
    with pipe:
        data = fn.external_source(source=[[np.frombuffer(f, np.uint8) for f in files]], cycle=True)
        pipe.set_outputs(*fn.decoders.audio(data, **kwargs))
    audio, rates = pipe.run()
    return [np.array(audio.at(i)) for i in range(len(files))], [float(np.array(rates.at(i))) for i in range(len(files))]


def test_a_file_that_was_cut_off(rng):
    whole = pcm16(rng, 1000, 2)
    cut = whole[: len(whole) - 1001]
    with pytest.raises(StokerError, match=r"truncated WAV: it ends at byte 3043, after 0\.047 s; its header promises 0\.062 s"):
        decode([whole, cut])
    (first, second), rates = decode([whole, cut], strict=False)
    assert np.array_equal(first.ravel(), samples_of(whole))
    assert np.array_equal(second, first[:749])
    assert rates == [16000, 16000]


def test_infinite_and_nan_floats_pass():
    data = np.array([[np.nan], [np.inf], [-np.inf], [0.25]], "<f4")
    (audio,), _ = decode([wav(data, 16000, "float")])
    assert np.array_equal(audio, data, equal_nan=True)
    (audio,), _ = decode([wav(data, 16000, "float")], dtype=types.INT16)
    assert audio.ravel().tolist() == [0, 32767, -32768, 8192]


def test_a_header_of_4_gb_over_nothing():
    data = wav(np.zeros((0, 1), "<i2"), promise=4_000_000_000)
    with pytest.raises(StokerError, match="its header promises 125000"):
        decode([data])
    assert decode([data], strict=False)[0][0].shape == (0, 1)


@pytest.mark.parametrize("rate", [1, 62])
def test_a_rate_that_makes_far_too_many_samples(rate, tmp_path):
    """A damaged header that says 1 Hz made gigabytes of a small file. The samples are read if they are not resampled."""
    samples = np.arange(48_000, dtype="<i2")
    data = wav(samples, rate)
    with pytest.raises(LimitError, match=f"header says {rate} Hz, and resampling to 16000 Hz"):
        decode([data], sample_rate=16000)
    assert len(decode([data])[0][0]) == 48_000
    assert len(decode([wav(samples[:10], 63)], sample_rate=16000)[0][0]) > 2000
    for name, content in (("a.wav", data), ("b.wav", wav(samples, 16000))):
        (tmp_path / name).write_bytes(content)
    loader = Loader(
        [str(tmp_path / n) for n in ("a.wav", "b.wav")], 1, fields={"audio": Audio(rate=16000, duration=1.0)}, on_error="skip", max_errors=3
    )
    assert sum(len(batch.audio) for batch in loader) == 1


# ---- readers.nemo_asr ----


@pytest.fixture
def manifest(rng, tmp_path):
    """Writes a manifest of 11 utterances. Returns its path, and a list of the utterances' samples."""
    lines, want = [], []
    for i in range(11):
        data = pcm16(rng, 400 + 50 * i)
        (tmp_path / f"{i}.wav").write_bytes(data)
        entry = {"audio_filepath": str(tmp_path / f"{i}.wav"), "text": f"text {i} é", "duration": (400 + 50 * i) / 16000}
        lines.append(json.dumps(entry, ensure_ascii=i % 2 == 0))
        want.append(samples_of(data))
    path = tmp_path / "manifest.json"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path, want


def reader(path, batch_size=4, checkpoint=None, **kwargs):
    pipe = Pipeline(batch_size=batch_size, num_threads=2, device_id=None, checkpoint=checkpoint)
    with pipe:
        outputs = fn.readers.nemo_asr(manifest_filepaths=str(path), read_idxs=True, name="Reader", **kwargs)
        pipe.set_outputs(*outputs)
    return pipe


def numbers(pipe, batches):
    """Returns the numbers of the utterances in `batches` batches, and checks their texts."""
    got = []
    for _ in range(batches):
        _, _, texts, ids = pipe.run()
        for i in range(len(ids)):
            k = int(np.array(ids.at(i))[0])
            assert bytes(np.array(texts.at(i))).decode() == f"text {k} é"
            got.append(k)
    return got


def test_utterances_come_in_order_with_their_texts(manifest):
    path, want = manifest
    pipe = reader(path, 11)
    audio, rates, _, ids = pipe.run()
    assert np.array(ids.as_array()).ravel().tolist() == list(range(11))
    for i in range(11):
        assert np.array_equal(np.array(audio.at(i)), want[i])
        assert float(np.array(rates.at(i))) == 16000
    assert pipe.reader_meta("Reader")["epoch_size"] == 11


@pytest.mark.parametrize("shuffle", ({}, {"random_shuffle": True}, {"shuffle_after_epoch": True}))
def test_shards_are_disjoint_and_complete(manifest, shuffle):
    path, _ = manifest
    got = [numbers(reader(path, num_shards=3, shard_id=k, tail="keep", shuffle_seed=5, **shuffle), 1) for k in range(3)]
    assert sorted(k for shard in got for k in shard) == list(range(11))
    if shuffle:
        assert [k for shard in got for k in shard] != list(range(11))


def test_a_resumed_reader_gives_the_rest(manifest):
    path, _ = manifest
    pipe = reader(path, random_shuffle=True, shuffle_seed=3)
    numbers(pipe, 2)
    state = pipe.checkpoint()
    rest = numbers(pipe, 4)
    assert numbers(reader(path, checkpoint=state, random_shuffle=True, shuffle_seed=3), 4) == rest


def test_offsets_and_durations(rng, tmp_path):
    data = pcm16(rng, 1600)
    (tmp_path / "a.wav").write_bytes(data)
    want = samples_of(data)
    entries = [
        {},
        {"offset": 0.01},
        {"duration": 0.02},
        {"offset": 0.01, "duration": 0.02},
        {"offset": 0.09, "duration": 1},
        {"offset": -1},
    ]
    path = tmp_path / "m.json"
    path.write_text("".join(json.dumps({"audio_filepath": str(tmp_path / "a.wav"), **e}) for e in entries))
    audio = reader(path, 6).run()[0]
    for i, (first, end) in enumerate(((0, 1600), (160, 1600), (0, 320), (160, 480), (1440, 1600), (0, 1600))):
        assert np.array_equal(np.array(audio.at(i)), want[first:end]), i
    path.write_text(json.dumps({"audio_filepath": str(tmp_path / "a.wav"), "offset": 0.2}))
    with pytest.raises(StokerError, match=r"a\.wav: the window begins at 0\.2 s; the file ends at 0\.1 s"):
        reader(path, 1).run()


@pytest.mark.parametrize(
    ("text", "message"),
    (
        ('{"audio_filepath": "a.wav"}\n[]', r"byte 28 \(line 2\): an entry must begin with {"),
        ('{"text": "a"}', r"line 1\): an entry without audio_filepath"),
        ('{"audio_filepath": "a.wav", "duration": "3"}', "a number is expected"),
        ('{"audio_filepath": "a.wav", "duration": 1e999}', "number|finite"),
        ('{"audio_filepath": "a.wav"', "ends early"),
        ('{"audio_filepath": 3}', "a string is expected"),
        ("", "no utterances"),
    ),
)
def test_wrong_manifests(tmp_path, text, message):
    path = tmp_path / "m.json"
    path.write_text(text)
    with pytest.raises(StokerError, match=message):
        reader(path, 1).run()


def test_durations_leave_out(manifest):
    path, _ = manifest
    assert reader(path, min_duration=500 / 16000, max_duration=800 / 16000).reader_meta("Reader")["epoch_size"] == 7
    with pytest.raises(StokerError, match="between min_duration and max_duration"):
        reader(path, min_duration=1000).run()


def test_a_missing_file_names_the_manifest(tmp_path):
    path = tmp_path / "m.json"
    path.write_text('{"audio_filepath": "/nonexistent/a.wav"}')
    with pytest.raises(StokerError, match=r"/nonexistent/a\.wav.*m\.json names it"):
        reader(path, 1).run()


def test_many_channels(rng):
    data = wav((tone(rng, 50, 1000) * 32767).astype("<i2"))
    assert decode([data])[0][0].shape == (50, 1000)
    assert decode([data], downmix=True)[0][0].shape == (50,)


# ---- windows of decoders.audio ----


def test_windows_are_parts_of_the_whole_sound(rng):
    files = [pcm16(rng, n, 2) for n in (1600, 800, 3200)]
    want = [samples_of(f).reshape(-1, 2) for f in files]
    for got, whole in zip(decode(files, start=0.04, duration=0.01)[0], want, strict=True):
        assert np.array_equal(got, whole[640:800])
    for got, whole in zip(decode(files, position=1.0, duration=0.07)[0], want, strict=True):
        assert np.array_equal(got, whole[-1120:])
    for got, whole in zip(decode(files, duration=0.07, pad=True)[0], want, strict=True):
        assert got.shape == (1120, 2)
        assert np.array_equal(got[:800], whole[:800])
        assert len(whole) > 800 or not got[800:].any()


@pytest.mark.parametrize("begin", (600.1, 1000.7, 3600.1, 5000.3))
def test_windows_late_in_a_long_recording_are_exact(begin, tmp_path):
    """Times keep double precision, whether they are constants, come sample by sample, or come from a stored graph. As float32 they would be some samples off."""
    values = (np.arange(8000 * 5400) % 30011).astype("<i2")
    (tmp_path / "long.wav").write_bytes(wav(values, 8000))
    first = round(begin * 8000)
    want = values[first : first + 800]
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipe:
        data, _ = fn.readers.file(files=[str(tmp_path / "long.wav")], name="Reader")
        drawn = fn.external_source(source=[[np.float64(begin)]], cycle=True)
        mono = {"duration": 0.1, "downmix": True, "dtype": types.INT16}
        pipe.set_outputs(fn.decoders.audio(data, start=begin, **mono)[0], fn.decoders.audio(data, start=drawn, **mono)[0])
    assert all(np.array_equal(np.array(o.at(0)), want) for o in pipe.run())
    stored = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with stored:
        data, _ = fn.readers.file(files=[str(tmp_path / "long.wav")], name="Reader")
        stored.set_outputs(fn.decoders.audio(data, start=begin, **mono)[0])
    again = Pipeline.deserialize(stored.serialize())
    assert np.array_equal(np.array(again.run()[0].at(0)), want)
    assert np.array_equal(stoker.audioread(tmp_path / "long.wav", start=begin, duration=0.1, mono=True, dtype="int16")[0], want)


@pytest.mark.parametrize(("rate", "seconds"), ((11025, 0.5), (22050, 0.03), (44100, 0.125), (8000, 0.0625), (11025, 0.1)))
def test_durations_are_rounded_in_one_way(rate, seconds, tmp_path):
    """Half a sample is rounded up, as in the operators: also by Audio, audioread and a Loader of files or of a manifest."""
    path, data = tmp_path / "a.wav", wav(np.arange(rate, dtype="<i2"), rate)
    path.write_bytes(data)
    frames = int(np.floor(seconds * rate + 0.5))
    audio = Audio(rate=rate, duration=seconds)
    assert audio.frames() == frames == len(stoker.audioread(path, duration=seconds)[0]) == len(decode([data], duration=seconds)[0][0])
    assert stoker.audioread(path, start=seconds, dtype="int16")[0][0, 0] == frames
    (tmp_path / "m.json").write_text(json.dumps({"audio_filepath": str(path), "text": "a"}))
    for source in ([str(path)], tmp_path / "m.json"):
        (batch,) = Loader(source, 1, fields={"audio": audio})
        assert batch.audio.shape == (1, frames)


def test_random_windows_are_anywhere():
    file = wav(np.arange(1000, dtype="<i2"))
    pipe = Pipeline(batch_size=500, num_threads=2, device_id=None, seed=3)
    with pipe:
        data = fn.external_source(source=[[np.frombuffer(file, np.uint8)] * 500], cycle=True)
        audio, _ = fn.decoders.audio(data, position=fn.random.uniform(range=(0.0, 1.0)), duration=100 / 16000, dtype=types.INT16)
        pipe.set_outputs(audio)
    made = pipe.run()[0].as_array()
    assert made.shape == (500, 100, 1)
    starts = made[:, 0, 0]
    assert starts.min() < 50 and starts.max() > 850 and len(set(starts.tolist())) > 250
    assert np.array_equal(made[:, :, 0], starts[:, None] + np.arange(100))


@pytest.mark.parametrize(
    ("kwargs", "message"),
    (
        ({"position": 0.5}, "position needs duration"),
        ({"pad": True}, "pad needs duration"),
        ({"position": 0.5, "duration": 1.0, "start": 1.0}, "start and position both"),
        ({"start": 1.0}, r"the window begins at 1 s; the file ends at 0\.1 s"),
        ({"duration": 1e9, "pad": True}, "too long|memory"),
    ),
)
def test_wrong_windows(rng, kwargs, message):
    with pytest.raises(StokerError, match=message):
        decode([pcm16(rng, 1600)], **kwargs)
