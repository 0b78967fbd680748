# SPDX-License-Identifier: Apache-2.0
"""Loader over sounds: folders, lists, manifests, tables and tars; dense, padded and ragged batches; buckets of durations; order, ranks and resuming; added
noise; torchaudio's transforms; wrong arguments."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from sound_files import pcm16, tone, wav
from stoker.errors import NotFoundError, StokerError
from support import SEED

torch = pytest.importorskip("torch")

from stoker import AddNoise, Audio, Loader, Pipeline, Storage, fn  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Writes seven recordings of different lengths for each of three words, and returns their folder."""
    root, rng = tmp_path_factory.mktemp("words"), np.random.default_rng(SEED)
    for word in ("no", "stop", "yes"):
        (root / word).mkdir()
        for i in range(7):
            (root / word / f"{i}.wav").write_bytes(pcm16(rng, int(rng.integers(300, 1500)), 1 + i % 2))
    return root


def stored(path) -> np.ndarray:
    """Returns the mean of the channels of a file that was written with pcm16, as floats from -1 to 1."""
    data = path.read_bytes()
    return np.frombuffer(data[44:], "<i2").reshape(-1, data[22]).mean(1, dtype=np.float64) / 32768


def paths_of(folder):
    return sorted(folder.glob("*/*.wav"))


def test_padded_batches_with_lengths(folder):
    loader = Loader(folder, 4, fields={"audio": Audio(rate=16000), "label": None, "path": None})
    assert loader.classes == ["no", "stop", "yes"]
    seen = []
    for batch in loader:
        assert batch._fields == ("audio", "label", "path", "audio_lengths")
        assert batch.audio.dtype == torch.float32 and batch.label.dtype == torch.int64
        assert batch.audio.shape == (len(batch.path), int(batch.audio_lengths.max()))
        for audio, n, path in zip(batch.audio, batch.audio_lengths.tolist(), batch.path, strict=True):
            want = stored(type(folder)(path))
            assert n == len(want)
            assert np.abs(audio[:n].numpy() - want).max() < 1e-6
            assert not audio[n:].any()
        seen += list(zip(batch.path, batch.label.tolist(), strict=True))
    assert seen == [(str(p), ("no", "stop", "yes").index(p.parent.name)) for p in paths_of(folder)]


def test_files_that_are_left_out(tmp_path, capfd):
    for name, data in (("a/1.wav", pcm16(np.random.default_rng(0), 9)), ("a/notes.txt", b""), ("b/2.wav", b"")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    Loader(tmp_path, 4, fields={"audio": Audio()})
    assert "skipped 1 file that is no sound: .txt (1)" in capfd.readouterr().err


def test_ragged_batches(folder):
    loader = Loader(folder, 5, fields={"audio": Audio(rate=16000), "label": None}, ragged=["audio"])
    paths = iter(paths_of(folder))
    for batch in loader:
        assert type(batch.audio).__name__ == "RaggedBatch"
        for audio, n in zip(batch.audio.tensor, batch.audio.sample_sizes.tolist(), strict=True):
            want = stored(next(paths))
            assert n == len(want) and np.abs(audio[:n].numpy() - want).max() < 1e-6


@pytest.mark.parametrize("crop", ("start", "center", "random"))
def test_sounds_of_one_duration(folder, crop):
    loader = Loader(folder, 7, fields={"audio": Audio(rate=16000, duration=0.05, crop=crop), "label": None, "path": None}, seed=4)
    places = []
    for batch in loader:
        assert batch._fields == ("audio", "label", "path") and batch.audio.shape == (7, 800)
        for audio, path in zip(batch.audio, batch.path, strict=True):
            want = stored(type(folder)(path))
            if len(want) <= 800:
                assert np.abs(audio[: len(want)].numpy() - want).max() < 1e-6 and not audio[len(want) :].any()
                continue
            found = [k for k in range(len(want) - 799) if abs(want[k] - float(audio[0])) < 1e-6]
            found = [k for k in found if np.abs(want[k : k + 800] - audio.numpy()).max() < 1e-6]
            assert len(found) == 1
            places.append(found[0] / (len(want) - 800))
    assert len(places) > 5
    if crop == "random":
        assert len(set(places)) > 5
    else:
        assert all(abs(p - {"start": 0, "center": 0.5}[crop]) < 0.01 for p in places)


def test_channels_and_types_are_kept(folder):
    loader = Loader(
        [str(p) for p in paths_of(folder) if int(p.stem) % 2], 3, fields={"audio": Audio(mono=False, dtype="int16"), "rate": None}
    )
    paths = (p for p in paths_of(folder) if int(p.stem) % 2)
    for batch in loader:
        assert batch.audio.dtype == torch.int16 and batch.audio.shape[:2] == (3, 2)
        assert batch.rate.tolist() == [16000] * 3
        for audio, n in zip(batch.audio, batch.audio_lengths.tolist(), strict=True):
            assert np.array_equal(audio[:, :n].numpy().T, np.frombuffer(next(paths).read_bytes()[44:], "<i2").reshape(-1, 2))


@pytest.fixture(scope="module")
def manifest(folder):
    lines = [
        json.dumps({"audio_filepath": str(p), "text": f"word {p.parent.name} é {p.stem}", "duration": len(stored(p)) / 16000})
        for p in paths_of(folder)
    ]
    (folder / "train.json").write_text("\n".join(lines), encoding="utf-8")
    return folder / "train.json"


def test_manifests_give_sounds_with_their_texts(folder, manifest):
    loader = Loader(manifest, 4, fields={"audio": Audio(rate=16000), "text": None}, ragged="audio")
    texts = [t for batch in loader for t in batch.text]
    assert texts == [f"word {p.parent.name} é {p.stem}" for p in paths_of(folder)]
    assert len(Loader([manifest, manifest], 4, fields={"audio": Audio(), "text": None})) == 11
    for crop in ("start", "center", "random"):
        loader = Loader(manifest, 21, fields={"sound": Audio(rate=16000, duration=0.05, crop=crop)})
        (batch,) = loader
        assert batch._fields == ("sound",) and batch.sound.shape == (21, 800)
        for audio, path in zip(batch.sound, paths_of(folder), strict=True):
            want, got = stored(path), audio.numpy()
            n, first = min(800, len(want)), 0
            if crop != "start" and len(want) > 800:
                first = min(range(len(want) - 799), key=lambda k: np.abs(want[k : k + 800] - got).max())
            assert np.abs(got[:n] - want[first : first + n]).max() < 1e-6 and not got[n:].any()


@pytest.mark.parametrize("texts", (("b", "c", "b"), ("bb", "cc", "dd"), ("", "", ""), ("", "a", "\u2028 \x85 é")))
def test_short_texts(folder, tmp_path, texts):
    lines = [json.dumps({"audio_filepath": str(p), "text": t}, ensure_ascii=False) for p, t in zip(paths_of(folder), texts, strict=False)]
    for mark in ("", "\ufeff"):
        (tmp_path / "m.json").write_text(mark + "\n".join(lines), encoding="utf-8")
        for kwargs in ({}, {"ragged": "audio"}, {"bucket_by": "duration"}):
            for size in (1, 3):
                made = [t for b in Loader(tmp_path / "m.json", size, fields={"audio": Audio(), "text": None}, **kwargs) for t in b.text]
                assert sorted(made) == sorted(texts)


def test_texts_that_are_not_utf8(folder, tmp_path):
    lines = [json.dumps({"audio_filepath": str(p), "text": t}, ensure_ascii=False) for p, t in zip(paths_of(folder), "aéb", strict=False)]
    (tmp_path / "m.json").write_text("\n".join(lines), encoding="latin-1")
    fields = {"audio": Audio(), "text": None}
    for kwargs in ({}, {"bucket_by": "duration"}):
        with pytest.raises(StokerError, match=r"the text cannot be read: .*UTF-8"):
            list(Loader(tmp_path / "m.json", 3, fields=fields, **kwargs))
        made = [t for b in Loader(tmp_path / "m.json", 3, fields=fields, on_error="skip", max_errors=1, **kwargs) for t in b.text]
        assert sorted(made) == ["a", "b"]


def test_tables_give_sounds_with_their_columns(folder):
    rows = ["path,speaker,score"] + [f"{p.relative_to(folder)},s{k},{k / 2}" for k, p in enumerate(paths_of(folder))]
    (folder / "table.csv").write_text("\n".join(rows))
    fields = {"audio": Audio(rate=16000, duration=0.02), "speaker": None, "score": None}
    made = list(Loader.from_csv(folder / "table.csv", 8, fields=fields))
    assert [s for b in made for s in b.speaker] == [f"s{k}" for k in range(21)]
    assert [s for b in made for s in b.score.tolist()] == [k / 2 for k in range(21)]


def flat(batches):
    return [float(a.abs().sum()) for batch in batches for a in batch.audio]


def test_order_ranks_and_resuming(folder):
    def make(**kwargs):
        audio = Audio(rate=16000, duration=0.04, crop="random")
        return Loader(folder, fields={"audio": audio, "label": None}, shuffle=True, seed=9, **{"batch_size": 3, **kwargs})

    loader = make()
    first, second = flat(loader), flat(loader)
    assert len(first) == 21 and first != second
    assert flat(make(num_threads=1)) == first
    ranks = [flat(make(shard=(k, 3), batch_size=7)) for k in range(3)]
    assert sorted(x for r in ranks for x in r) == pytest.approx(sorted(first))
    again = make()
    it = iter(again)
    head = [next(it), next(it)]
    state = again.state_dict()
    other = make()
    other.load_state_dict(state)
    assert flat(head) + flat(other) == first
    assert flat(other) == second


def test_bad_files(folder, tmp_path):
    good = paths_of(folder)[:3]
    (tmp_path / "cut.wav").write_bytes(good[0].read_bytes()[:-100])
    paths = [str(good[0]), str(tmp_path / "cut.wav"), str(good[1])]
    with pytest.raises(StokerError, match=r"cut\.wav: a truncated WAV"):
        list(Loader(paths, 3, fields={"audio": Audio()}))
    (batch,) = Loader(paths, 3, fields={"audio": Audio(), "path": None}, on_error="skip", max_errors=1)
    assert batch.path == [str(good[0]), str(good[1])]


@pytest.mark.parametrize(
    ("fields", "kwargs", "message"),
    (
        ({"audio": Audio(), "text": None}, {}, "this source has no 'text'"),
        ({"audio": Audio(), "image": "Image"}, {}, "next to a sound, fields are None"),
        ({"a": Audio(), "b": Audio()}, {}, "a sample has one sound"),
        ({"audio": Audio(rate=16000, duration=1)}, {"ragged": ["audio"]}, "leave ragged or duration out"),
        ({"audio": Audio()}, {"ragged": ["label"]}, "only 'audio' can be ragged"),
        ({"audio": Audio()}, {"memory_format": torch.channels_last}, "memory_format would have no effect on sounds"),
        ({"audio": Audio()}, {"transforms": [torch.nn.Identity()]}, "Identity of torch.* runs on the batch instead"),
    ),
)
def test_wrong_arguments(folder, fields, kwargs, message):
    with pytest.raises(StokerError, match=message):
        Loader(folder, 4, fields=fields, **kwargs)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    (
        ({"rate": 0}, "rate is a whole number"),
        ({"duration": 1.0}, "duration needs rate"),
        ({"rate": 1, "duration": -1}, "seconds above 0"),
        ({"crop": "random"}, "needs duration"),
        ({"crop": "end"}, "crop is"),
        ({"dtype": "float16"}, "dtype is one of"),
        ({"quality": 101}, "quality is"),
    ),
)
def test_wrong_audio(kwargs, message):
    with pytest.raises((StokerError, ValueError), match=message):
        Audio(**kwargs)


def test_float_files(tmp_path):
    data = tone(np.random.default_rng(SEED), 500).astype("<f4")
    (tmp_path / "a.wav").write_bytes(wav(data, 8000, "float"))
    (batch,) = Loader([(str(tmp_path / "a.wav"), "one")], 1, fields={"audio": Audio(), "label": None, "rate": None})
    assert np.array_equal(batch.audio[0].numpy(), data[:, 0]) and batch.label == ["one"] and batch.rate.tolist() == [8000]


@pytest.mark.parametrize(("rate", "lower"), [(48000, 16000), (44100, 16000), (44101, 16007), (192000, 8000)])
def test_a_lower_rate_has_no_aliases(rate, lower, tmp_path):
    """A tone above half of the lower rate vanishes (by 60 dB), and one below it stays, as with torchaudio's Resample and SciPy's resample_poly."""
    seconds = np.arange(rate) / rate
    tones = {"high": 0.625 * lower, "low": 0.3 * lower}
    for name, hertz in tones.items():
        (tmp_path / f"{name}.wav").write_bytes(wav(0.5 * np.sin(2 * np.pi * hertz * seconds)[:, None].astype("<f4"), rate, "float"))
    files = [str(tmp_path / f"{name}.wav") for name in tones]
    (batch,) = Loader(files, 2, fields={"audio": Audio(rate=lower)})
    assert batch.audio.shape == (2, lower)
    high, low = batch.audio[:, lower // 10 : -lower // 10].numpy()
    time = np.arange(lower)[lower // 10 : -lower // 10] / lower
    assert np.abs(high).max() < 1e-3
    assert np.abs(low - 0.5 * np.sin(2 * np.pi * tones["low"] * time)).max() < 1e-3


def test_the_filter_of_a_higher_rate_is_dalis(tmp_path):
    data = np.random.default_rng(SEED).normal(0, 0.1, (500, 1)).astype("<f4")
    (tmp_path / "a.wav").write_bytes(wav(data, 8000, "float"))
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None)
    with pipe:
        data, _ = fn.readers.file(files=[str(tmp_path / "a.wav")])
        pipe.set_outputs(*(fn.decoders.audio(data, sample_rate=11025.0, low_pass=low_pass)[0] for low_pass in (False, True)))
    ours, dalis = (np.array(audio.at(0)) for audio in pipe.run())
    assert np.array_equal(ours, dalis)


def test_a_filter_that_would_be_too_long_is_refused(tmp_path):
    (tmp_path / "a.wav").write_bytes(wav(np.zeros((44100, 1), "<f4"), 44100, "float"))
    with pytest.raises(StokerError, match="resampling from 44100 to 10 Hz needs a filter of more than 8192 samples: resample in two steps"):
        list(Loader([str(tmp_path / "a.wav")], 1, fields={"audio": Audio(rate=10)}))


# ---- torchaudio's transforms ----


def test_transforms_of_torchaudio_give_its_values(folder):
    transforms = pytest.importorskip("torchaudio.transforms")
    plain = Audio(rate=16000, duration=0.05)
    sounds = torch.cat([b.audio for b in Loader(folder, 7, fields={"audio": plain})])
    for chain in (
        [transforms.Vol(0.5)],
        [transforms.Vol(6.0, "db")],
        [transforms.Vol(3.0, "power")],
        [transforms.Fade(100, 300, "half_sine")],
        [transforms.Fade(0, 200), transforms.Vol(1.5)],
        [transforms.Resample(16000, 16000)],
    ):
        made = torch.cat([b.audio for b in Loader(folder, 7, fields={"audio": plain}, transforms=chain)])
        want = sounds
        for step in chain:
            want = step(want)
        assert (made - want).abs().max() < 1e-6, chain
    with pytest.raises(StokerError, match=r"Audio\(rate=8000\) in its place"):
        Loader(folder, 7, fields={"audio": plain}, transforms=[transforms.Resample(16000, 8000)])
    with pytest.raises(StokerError, match="Fade needs sounds of one length"):
        Loader(folder, 7, fields={"audio": Audio()}, transforms=[transforms.Fade(10, 10)])


def test_torchaudio_spectra(folder):
    """torchaudio's spectra, mel bands, decibels and MFCC give torchaudio's values within 1e-4 of their range. Spectrogram(center=False) is refused."""
    T = pytest.importorskip("torchaudio.transforms")
    fields = {"audio": Audio(rate=16000, duration=0.08)}
    sounds = torch.cat([b.audio for b in Loader(folder, 7, fields=fields)])
    mel = {"n_fft": 512, "win_length": 400, "hop_length": 160, "n_mels": 40}
    for chain in (
        [T.Spectrogram()],
        [T.Spectrogram(n_fft=512, win_length=401, hop_length=100, power=1)],
        [T.Spectrogram(power=2, window_fn=torch.hamming_window), T.AmplitudeToDB(top_db=80)],
        [T.MelSpectrogram(16000, **mel)],
        [T.MelSpectrogram(16000, **mel, norm="slaney", mel_scale="slaney", f_min=20.0, f_max=7600.0)],
        [T.MelSpectrogram(16000, **mel), T.AmplitudeToDB(top_db=60)],
        [T.MelSpectrogram(16000, **mel, power=1), T.AmplitudeToDB("magnitude")],
        [T.MFCC(16000, 13, melkwargs=mel)],
        [T.MFCC(16000, 20, norm=None, melkwargs=mel)],
        [T.MFCC(16000, 13, log_mels=True, melkwargs=mel)],
    ):
        made = torch.cat([b.audio for b in Loader(folder, 7, fields=fields, transforms=chain)])
        want = []
        for sound in sounds:
            for step in chain:
                sound = step(sound)
            want.append(sound)
        want = torch.stack(want)
        assert made.shape == want.shape, chain
        assert (made - want).abs().max() < 1e-4 * (want.max() - want.min()), chain
    with pytest.raises(StokerError, match=r"Spectrogram\(center=False\) is not in Stoker yet"):
        Loader(folder, 7, fields=fields, transforms=[T.Spectrogram(center=False)])


def test_what_is_no_module_of_torchaudio_is_refused_by_name(folder):
    class Tokenizer:
        __module__ = "torchaudio.pipelines"

        def __call__(self, sound):
            return sound

    with pytest.raises(NotImplementedError, match=r"Tokenizer of torchaudio\.pipelines runs on the batch instead"):
        Loader(folder, 7, fields={"audio": Audio(rate=16000, duration=0.08)}, transforms=[Tokenizer()])


def test_hooks_of_torchaudio_are_refused(folder):
    T = pytest.importorskip("torchaudio.transforms")
    fields = {"audio": Audio(rate=16000, duration=0.08)}

    def silent(module, given, result):
        return result * 0

    hooked, replaced, inside, deeper = T.Vol(0.5), T.Vol(0.5), T.MelSpectrogram(16000), T.MFCC(16000)
    hooked.register_forward_hook(silent)
    replaced.forward = lambda sound: sound * 0
    inside.mel_scale.register_forward_hook(silent)
    deeper.MelSpectrogram.spectrogram.forward = lambda sound: sound * 0
    for step, added in (
        (hooked, "a hook .register_forward_hook or register_forward_pre_hook."),
        (replaced, "a method forward of its own"),
        (inside, "a hook .register.* in its part mel_scale"),
        (deeper, "a method forward of its own in its part spectrogram in its part MelSpectrogram"),
    ):
        with pytest.raises(TypeError, match=f"{type(step).__name__} has {added}, which Stoker would not call: remove it"):
            Loader(folder, 7, fields=fields, transforms=[step])


@pytest.mark.parametrize("length", (1200, 1201, 1250))
def test_spectra_of_odd_transforms_and_rates(tmp_path, length):
    """torchaudio makes one spectrum less if n_fft is odd and the length is a multiple of the step, and rounds half of an odd rate down."""
    T = pytest.importorskip("torchaudio.transforms")
    sound = tone(np.random.default_rng(SEED), length) * 0.4
    (tmp_path / "a.wav").write_bytes(wav(sound.astype("<f4"), 11025, "float"))
    for chain in (
        [T.Spectrogram(n_fft=401, hop_length=100)],
        [T.Spectrogram(n_fft=255, hop_length=50, win_length=200)],
        [T.MelSpectrogram(11025, n_fft=512, n_mels=40)],
        [T.MelSpectrogram(11025, n_fft=1001, hop_length=300, n_mels=64, norm="slaney", mel_scale="slaney")],
    ):
        for audio in (Audio(), Audio(rate=11025, duration=length / 11025)):
            (batch,) = Loader([str(tmp_path / "a.wav")], 1, fields={"audio": audio}, transforms=chain)
            want = chain[0](torch.from_numpy(sound.astype("float32"))[:, 0])
            assert batch.audio[0].shape == want.shape, chain
            assert (batch.audio[0] - want).abs().max() < 1e-4 * want.max(), chain


def test_nan_is_passed_on_by_decibels(tmp_path):
    T = pytest.importorskip("torchaudio.transforms")
    sound = tone(np.random.default_rng(SEED), 4000) * 0.4
    sound[1500] = np.nan
    (tmp_path / "a.wav").write_bytes(wav(sound.astype("<f4"), 16000, "float"))
    for chain in (
        [T.MelSpectrogram(16000, n_mels=40), T.AmplitudeToDB()],
        [T.MelSpectrogram(16000, n_mels=40), T.AmplitudeToDB(top_db=80)],
        [T.MFCC(16000, n_mfcc=13, melkwargs={"n_mels": 40})],
    ):
        (batch,) = Loader([str(tmp_path / "a.wav")], 1, fields={"audio": Audio(rate=16000)}, transforms=chain)
        frames = batch.audio[0].isnan().all(0)
        spectrum = T.Spectrogram()(torch.from_numpy(sound.astype("float32"))[:, 0])
        assert frames.any() and torch.equal(frames, spectrum.isnan().all(0)) and torch.equal(frames, batch.audio[0].isnan().any(0))


def test_spectra_of_different_lengths(folder):
    T = pytest.importorskip("torchaudio.transforms")
    chain = [T.MelSpectrogram(16000, n_fft=256, hop_length=64, n_mels=20)]
    sounds = [a[:n] for b in Loader(folder, 7, fields={"audio": Audio(rate=16000)}) for a, n in zip(b.audio, b.audio_lengths, strict=True)]
    made = [
        (a[:, :n], n)
        for b in Loader(folder, 7, fields={"audio": Audio(rate=16000)}, transforms=chain)
        for a, n in zip(b.audio, b.audio_lengths, strict=True)
    ]
    for (got, n), sound in zip(made, sounds, strict=True):
        want = chain[0](sound)
        assert n == want.shape[1]
        assert (got - want).abs().max() < 1e-4 * want.max()


def test_masks_cover_one_stretch(folder):
    T = pytest.importorskip("torchaudio.transforms")
    fields, spectrum = {"audio": Audio(rate=16000, duration=0.08)}, T.Spectrogram(n_fft=128, hop_length=16)
    plain = torch.cat([b.audio for b in Loader(folder, 7, fields=fields, transforms=[spectrum])])
    for step, axis, most in ((T.FrequencyMasking(20), 1, 20), (T.TimeMasking(30), 2, 30), (T.TimeMasking(60, p=0.25), 2, 20)):
        loader = Loader(folder, 7, fields=fields, transforms=[spectrum, step], seed=1)
        seen = set()
        for _ in range(8):
            made = torch.cat([b.audio for b in loader])
            changed = (made != plain).any(3 - axis)
            for row, flags in zip(made, changed, strict=True):
                where = flags.nonzero().flatten().tolist()
                if where:
                    assert where[-1] - where[0] < most
                    assert not row.narrow(axis - 1, where[0], where[-1] - where[0] + 1).any()
                seen.add((where[0], where[-1]) if where else None)
        assert len(seen) > 60


# ---- batches of similar lengths ----


def padding(batches) -> float:
    """Returns the share of padding among the elements of all batches."""
    lengths = [b.audio_lengths for b in batches]
    return 1 - sum(int(n.sum()) for n in lengths) / sum(int(n.max()) * len(n) for n in lengths)


def ids(batches):
    return [b.index.tolist() for b in batches]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Writes files of 60 different lengths in two classes, and a manifest that lists parts of the files."""
    root, rng = tmp_path_factory.mktemp("many"), np.random.default_rng(SEED)
    lengths = rng.permutation(np.arange(60) * 40 + 100)
    for i, n in enumerate(lengths):
        (root / f"class{i % 2}").mkdir(exist_ok=True)
        (root / f"class{i % 2}" / f"{i:02}.wav").write_bytes(pcm16(rng, int(n)))
    files = sorted(root.glob("*/*.wav"))
    rows = [{"audio_filepath": str(p), "offset": 0.001, "text": p.stem} for p in files]
    for k, row in enumerate(rows):
        if k % 2:
            row["duration"] = 0.0001 * (k + 1)
    (root / "m.json").write_text("".join(json.dumps(r) + "\n" for r in rows))
    return root


FIELDS = {"audio": Audio(rate=16000), "index": None}


@pytest.mark.parametrize("source", ("folder", "list", "manifest"))
def test_buckets_of_durations(many, source):
    data = {"folder": many, "list": [(str(p), 0) for p in sorted(many.glob("*/*.wav"))], "manifest": many / "m.json"}[source]
    loader = Loader(data, 4, fields=FIELDS, bucket_by="duration", shuffle=True, seed=5)
    epochs = [list(loader) for _ in range(2)]
    for batches in epochs:
        assert sorted(i for batch in ids(batches) for i in batch) == list(range(60)) and len(batches) == len(loader) == 15
        assert padding(batches) < 0.1 < padding(list(Loader(data, 4, fields=FIELDS, shuffle=True, seed=5)))
        order = [int(b.audio_lengths.max()) for b in batches]
        assert order != sorted(order)  # batches are shuffled, not sorted by length
    assert ids(epochs[0]) != ids(epochs[1])
    again = Loader(data, 4, fields=FIELDS, bucket_by="duration", shuffle=True, seed=5, num_threads=1)
    assert ids(again) == ids(epochs[0])


def test_lengths_are_those_of_the_files(tmp_path):
    """Each sound gets the length of its own file. The list of lengths has the library's order: files of a folder before those of its subfolders, although "x-1"
    sorts before "x/1" as text."""
    rng = np.random.default_rng(SEED)
    for k, name in enumerate(("x/1", "x/y/2", "x-1/3", "x-1", "x", "é", "\U0001f600", "\uffee")):
        (tmp_path / "a" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "a" / f"{name}.wav").write_bytes(pcm16(rng, 10 * 4 ** (k % 4)))
    (tmp_path / "a" / "wav").write_bytes(b"no sound")
    (batch,) = Loader(tmp_path, 8, fields=FIELDS)
    assert len({int(n) for n in batch.audio_lengths}) == 4
    made = list(Loader(tmp_path, 2, fields=FIELDS, bucket_by="duration"))
    assert len(made) == 4 and all(len(set(b.audio_lengths.tolist())) == 1 for b in made)


def fetched(uri, offset, length):
    data = Path(uri.removeprefix("mine:/")).read_bytes()[offset:]
    return data if length is None else data[:length]


@pytest.mark.parametrize("source", ("list", "manifest"))
def test_buckets_of_durations_in_a_store(many, tmp_path, source):
    """The lengths of objects are read by the Loader's storage, so they give the same order as those of files. If the store fails, the Loader does too: without
    the lengths its order would differ from that of other ranks."""
    paths, texts = sorted(map(str, many.glob("*/*.wav"))), {"audio": FIELDS["audio"], "text": None}

    def made(scheme, fetch=fetched, **more):
        data, fields = [(scheme + p, i) for i, p in enumerate(paths)], {"audio": FIELDS["audio"], "label": None}
        if source == "manifest":
            data, fields = tmp_path / "m.json", texts
            data.write_text("".join(json.dumps({"audio_filepath": scheme + p, "text": str(i)}) + "\n" for i, p in enumerate(paths)))
        storage = Storage(fetch=fetch, fetch_schemes="mine", retries=0)
        loader = Loader(data, 4, fields=fields, bucket_by="duration", shuffle=True, seed=5, storage=storage, **more)
        return [list(map(int, batch[1])) for batch in loader]

    assert made("mine:/") == made("")

    def fails(uri, offset, length):
        raise PermissionError("no keys")

    for more in ({}, {"on_error": "skip"}):
        with pytest.raises(StokerError, match="no keys"):
            made("mine:/", fails, **more)
    paths[7] += ".gone.wav"
    with pytest.raises(NotFoundError, match=r"gone\.wav"):
        made("")
    assert sorted(i for batch in made("", on_error="skip", last_batch="keep") for i in batch) == [i for i in range(60) if i != 7]


@pytest.mark.parametrize("ragged", ((), ("audio",)))
def test_buckets_of_durations_are_resumed(many, ragged):
    def make():
        return Loader(many, 4, fields=FIELDS, bucket_by="duration", shuffle=True, seed=9, ragged=ragged)

    whole, part = ids(make()), make()
    steps = iter(part)
    first = [next(steps).index.tolist() for _ in range(6)]
    other = make()
    other.load_state_dict(part.state_dict())
    assert first + ids(other) == whole


@pytest.mark.parametrize(("last", "steps", "seen"), (("drop", 2, 48), ("keep", 3, 60), ("pad", 3, 60)))
def test_buckets_of_durations_give_ranks_equal_steps(many, last, steps, seen):
    ranks = [
        list(Loader(many, 8, fields=FIELDS, bucket_by="duration", shuffle=True, seed=1, shard=(r, 3), last_batch=last)) for r in range(3)
    ]
    assert [len(r) for r in ranks] == [steps] * 3
    assert len({i for r in ranks for batch in ids(r) for i in batch}) == seen
    low, high = sorted((torch.cat([r[k].audio_lengths for r in ranks]) for k in range(2)), key=lambda lengths: int(lengths.max()))
    assert low.max() <= high.min()


def test_wrong_buckets_of_sounds(many):
    with pytest.raises(StokerError, match="bucket_by is 'duration', or a list"):
        Loader(many, 4, fields=FIELDS, bucket_by="size")
    with pytest.raises(StokerError, match="all sounds are equally long: leave bucket_by"):
        Loader(many, 4, fields={"audio": Audio(rate=16000, duration=0.1)}, bucket_by="duration")
    keys = [k % 3 for k in range(60)]
    assert sum(len({keys[i] for i in b}) == 1 for b in ids(Loader(many, 4, fields=FIELDS, bucket_by=keys))) >= 12


def test_a_batch_sampler_of_sound_files_is_refused(many):
    with pytest.raises(StokerError, match="batch_sampler of sound files is for Datasets: give an object"):
        Loader(many, fields=FIELDS, batch_sampler=[[0, 1], [2]])


@pytest.mark.parametrize(
    ("entry", "message"),
    (
        ({"text": "a"}, "line 2: an entry without audio_filepath"),
        ({"audio_filepath": 3}, "line 2: an entry without audio_filepath"),
        ({"audio_filepath": "a.wav", "duration": "1"}, "line 2: duration is a number of seconds, not '1'"),
        ({"audio_filepath": "a.wav", "duration": float("nan")}, "line 2: duration is a number of seconds, not nan"),
        ({"audio_filepath": "a.wav", "offset": True}, "line 2: offset is a number of seconds, not True"),
        ([1], "line 2: an entry without audio_filepath"),
        ("{", "line 2: an entry without audio_filepath"),
        (None, "line 2: an entry without audio_filepath"),
    ),
)
def test_wrong_entries_of_a_manifest_with_buckets(folder, tmp_path, entry, message):
    first = json.dumps({"audio_filepath": str(paths_of(folder)[0]), "duration": 0.1})
    (tmp_path / "m.json").write_text(f"{first}\n{json.dumps(entry)}\n")
    with pytest.raises(StokerError, match=rf"m\.json, {message}"):
        Loader(tmp_path / "m.json", 1, fields={"audio": Audio(), "text": None}, bucket_by="duration")
    (tmp_path / "m.json").write_text(f"{first}\nnot JSON\n")
    with pytest.raises(StokerError, match=r"m\.json, line 2: an entry is one JSON object a line"):
        Loader(tmp_path / "m.json", 1, fields={"audio": Audio(), "text": None}, bucket_by="duration")


@pytest.mark.parametrize(
    ("given", "message"),
    (
        ({"rate": 16000, "duration": True}, "duration is a number of seconds above 0, not True"),
        ({"rate": 16000, "duration": 1e-9}, "duration=1e-09 at 16000 Hz is 1.6e-05 frames"),
        ({"rate": 16000, "duration": 1e9}, "duration=1e.09 at 16000 Hz is 1.6e.13 frames; a sound has 1 to"),
        ({"mono": "yes"}, "Audio: mono is True or False, not 'yes'"),
        ({"quality": True}, "quality is from 0 to 100, not True"),
        ({"rate": np.float64(16000)}, "rate is a whole number of Hz"),
    ),
)
def test_wrong_fields(given, message):
    with pytest.raises(StokerError, match=message):
        Audio(**given)


@pytest.mark.parametrize("name", ("rate", "index", "valid", "path", "label", "text"))
def test_names_of_other_fields(folder, manifest, name):
    for source, taken in ((folder, name != "text"), ([str(p) for p in paths_of(folder)], name != "text"), (manifest, name != "label")):
        if taken:
            with pytest.raises(StokerError, match=rf"'{name}' is another field of the samples: give the sound another name"):
                Loader(source, 4, fields={name: Audio(rate=16000)})
        else:
            assert next(iter(Loader(source, 4, fields={name: Audio(rate=16000)})))[0].dtype == torch.float32


def test_numbers_of_channels_that_differ(tmp_path):
    paths = [str(tmp_path / f"{k}.wav") for k in (1, 2)]
    for k, path in enumerate(paths, 1):
        type(tmp_path)(path).write_bytes(pcm16(np.random.default_rng(0), 50, k))
    with pytest.raises(StokerError, match=r"sounds of one batch have 1 and 2 channels, .*mono=True"):
        list(Loader(paths, 2, fields={"audio": Audio(mono=False)}, ragged="audio"))


def test_numbers_of_numpy_in_fields():
    made = Audio(rate=np.int64(16000), duration=np.float32(0.5))
    assert made == Audio(rate=16000, duration=0.5) and type(made.rate) is int and type(made.duration) is float


@pytest.mark.parametrize("noises, snr", ((["a"], None), (["a"], "x"), (["a"], (0, 1, 2)), (["a"], (0, True)), ([1], 3.0), ([None], 3.0)))
def test_wrong_noises(noises, snr):
    with pytest.raises(StokerError, match=r"AddNoise: (noises is a list of paths|snr is one number of dB)"):
        AddNoise(noises, snr)


def test_noises_need_no_pairing(folder, capfd):
    """Noises have their own order, and their number may differ from that of the samples. No notice says that the two do not match."""
    noises = [str(p) for p in paths_of(folder)[:2]]
    list(Loader(folder, 7, fields={"audio": Audio(rate=16000), "label": None}, transforms=[AddNoise(noises)]))
    list(Loader(folder, 7, fields={"audio": Audio(rate=16000), "label": None}, transforms=[AddNoise([str(p) for p in paths_of(folder)])]))
    assert "readers" not in capfd.readouterr().err


# ---- tars ----


@pytest.fixture(scope="module")
def tars(folder, tmp_path_factory):
    """Packs the folder's files into two tars, with labels and texts."""
    root, paths = tmp_path_factory.mktemp("tars"), paths_of(folder)
    for k in range(2):
        with tarfile.open(root / f"{k}.tar", "w") as tar:
            for i, path in enumerate(paths[k::2]):
                label = ("no", "stop", "yes").index(path.parent.name)
                for ending, data in (("wav", path.read_bytes()), ("cls", b"%d" % label), ("txt", path.parent.name.encode())):
                    info = tarfile.TarInfo(f"{k}{i:03}.{ending}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
    return [str(root / "0.tar"), str(root / "1.tar")]


def test_tars_give_sounds_with_their_labels(folder, tars):
    paths = [*paths_of(folder)[::2], *paths_of(folder)[1::2]]
    loader = Loader(tars, 4, fields={"audio": Audio(rate=16000), "label": None})
    seen = []
    for batch in loader:
        assert batch._fields == ("audio", "label", "audio_lengths") and batch.label.dtype == torch.int64
        for audio, n in zip(batch.audio, batch.audio_lengths.tolist(), strict=True):
            want = stored(paths[len(seen)])
            assert n == len(want) and np.abs(audio[:n].numpy() - want).max() < 1e-6
            seen.append(n)
    assert len(seen) == len(paths) == loader.pipeline.reader_meta()["Reader"]["epoch_size"]
    components = {"audio": "wav;flac", "word": "txt", "label": "cls"}
    made = Loader.from_tars(
        tars, 5, components=components, fields={"word": None, "audio": Audio(rate=16000), "label": None}, ragged=["audio"], shuffle="shards"
    )
    rows = [(w, int(y), int(n)) for b in made for w, y, n in zip(b.word, b.label, b.audio.sample_sizes, strict=True)]
    assert sorted(rows) == sorted((p.parent.name, ("no", "stop", "yes").index(p.parent.name), len(stored(p))) for p in paths)


def test_tars_are_resumed_and_divided(tars):
    def make(**more):
        return Loader(
            tars, 3, fields={"audio": Audio(rate=16000, duration=0.03, crop="random"), "label": None}, shuffle=True, seed=2, **more
        )

    whole, part = [b.audio for b in make()], make()
    steps = iter(part)
    first = [next(steps).audio for _ in range(3)]
    other = make()
    other.load_state_dict(part.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(first + [b.audio for b in other], whole, strict=True))
    ranks = [sum(len(b.label) for b in make(shard=(r, 2))) for r in range(2)]
    assert abs(ranks[0] - ranks[1]) <= 3 and sum(ranks) >= 21


def test_wrong_tars(tars):
    with pytest.raises(StokerError, match=r"has a component 'flac' \(the sound\); there are wav"):
        Loader.from_tars(tars, 4, fields={"audio": Audio(), "label": None}, components={"audio": "flac", "label": "cls"})
    with pytest.raises(StokerError, match="lengths of sounds in tars are not known"):
        Loader(tars, 4, fields={"audio": Audio(), "label": None}, bucket_by="duration")


# ---- noise, SpecAugment ----


@pytest.fixture(scope="module")
def noises(tmp_path_factory):
    """Writes four sounds, each with one constant value in all of its 3000 samples. Returns their paths."""
    root = tmp_path_factory.mktemp("noises")
    for k, value in enumerate((1000, -1000, 3000, -3000)):
        (root / f"{k}.wav").write_bytes(wav(np.full(3000, value, "<i2"), 16000))
    return sorted(root.glob("*.wav"))


def noisy(folder, noises, snr, batch=4, **more):
    return Loader(folder, batch, fields={"audio": Audio(rate=16000), "index": None}, transforms=[AddNoise(noises, snr=snr)], seed=6, **more)


def test_noise_has_the_ratio(folder, noises):
    plain = [a[:n] for b in Loader(folder, 4, fields=FIELDS) for a, n in zip(b.audio, b.audio_lengths, strict=True)]
    signs, ratios = set(), set()
    for epoch in noisy(folder, noises, (5, 15)), noisy(folder, noises, 10.0):
        made = [a[:n] for b in epoch for a, n in zip(b.audio, b.audio_lengths, strict=True)]
        for x, y in zip(plain, made, strict=True):
            added = y - x
            assert (added - added.mean()).abs().max() < 1e-5
            ratio = float(10 * torch.log10((x**2).mean() / (added**2).mean()))
            assert 4.99 < ratio < 15.01 if len(ratios) < len(plain) else abs(ratio - 10) < 0.01
            signs.add(float(added.mean()) > 0)
            ratios.add(round(ratio, 2))
    assert signs == {False, True} and len(ratios) > 15


def test_noise_is_torchaudios(folder, noises):
    functional = pytest.importorskip("torchaudio.functional")
    plain = [a[:n] for b in Loader(folder, 4, fields=FIELDS) for a, n in zip(b.audio, b.audio_lengths, strict=True)]
    made = [a[:n] for b in noisy(folder, noises, 7) for a, n in zip(b.audio, b.audio_lengths, strict=True)]
    for x, y in zip(plain, made, strict=True):
        want = functional.add_noise(x, torch.full_like(x, float((y - x).mean().sign())), torch.tensor(7.0))
        assert (y - want).abs().max() < 1e-4


def test_noise_is_resumed_and_divided(folder, noises):
    whole, part = [b.audio for b in noisy(folder, noises, (0, 20), shuffle=True)], noisy(folder, noises, (0, 20), shuffle=True)
    steps = iter(part)
    first = [next(steps).audio for _ in range(2)]
    other = noisy(folder, noises, (0, 20), shuffle=True)
    other.load_state_dict(part.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(first + [b.audio for b in other], whole, strict=True))
    for world in (3, 7):
        assert sum(len(b.index) for r in range(world) for b in noisy(folder, noises[:3], (0, 20), shard=(r, world), batch=1)) == 21


def test_noise_that_is_short(folder, tmp_path):
    (tmp_path / "short.wav").write_bytes(wav(np.full(100, 5000, "<i2"), 16000))
    plain = [a[:n] for b in Loader(folder, 4, fields=FIELDS) for a, n in zip(b.audio, b.audio_lengths, strict=True)]
    made = [a[:n] for b in noisy(folder, [tmp_path / "short.wav"], 3) for a, n in zip(b.audio, b.audio_lengths, strict=True)]
    assert all((y - x)[:100].min() > 0 and torch.equal(y[100:], x[100:]) for x, y in zip(plain, made, strict=True))


def test_a_bad_noise_is_named(folder, tmp_path, noises):
    (tmp_path / "bad.wav").write_bytes(b"no sound")
    with pytest.raises(StokerError, match=r"/yes/6\.wav: .*/bad\.wav: neither WAV nor FLAC.*decoders\.audio"):
        list(Loader([str(paths_of(folder)[-1])], 1, fields=FIELDS, transforms=[AddNoise([tmp_path / "bad.wav"])]))


def test_wrong_noise(folder, noises):
    for kwargs, message in (
        ({"noises": str(noises[0])}, "list of paths"),
        ({"noises": []}, "list of paths"),
        ({"noises": noises, "snr": (5, 1)}, "lowest ratio first"),
        ({"noises": noises, "snr": (1, 2, 3)}, "snr is one number"),
    ):
        with pytest.raises((StokerError, ValueError), match=message):
            AddNoise(**kwargs)
    with pytest.raises(StokerError, match=r"AddNoise takes sounds of one channel and one rate"):
        Loader(folder, 4, fields={"audio": Audio()}, transforms=[AddNoise(noises)])


@pytest.mark.parametrize("zero", (True, False))
def test_spec_augment(folder, zero):
    T = pytest.importorskip("torchaudio.transforms")
    fields, chain = {"audio": Audio(rate=16000, duration=0.08)}, [T.Spectrogram(n_fft=128, hop_length=16), T.AmplitudeToDB()]
    plain = torch.cat([b.audio for b in Loader(folder, 7, fields=fields, transforms=chain)])
    step = T.SpecAugment(2, 20, 1, 10, zero_masking=zero, p=0.9)
    loader = Loader(folder, 7, fields=fields, transforms=[*chain, step], seed=1)
    shapes = set()
    for _ in range(3):
        made = torch.cat([b.audio for b in loader])
        for before, after in zip(plain, made, strict=True):
            value = 0.0 if zero else float(before.mean())
            changed = before != after
            assert (after[changed] - value).abs().max() <= 1e-3 if changed.any() else True
            times, rows = changed.all(0).sum().item(), changed.all(1).sum().item()
            assert times < 2 * 20 and rows < 10
            assert not changed[~changed.all(1)][:, ~changed.all(0)].any()
            shapes.add((times, rows))
    assert len(shapes) > 30
