# SPDX-License-Identifier: Apache-2.0
"""Windows of sounds in a store: Loader fetches only the header and the bytes of the window, and gives the same samples as for local files."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import stoker
from sound_files import tone, wav
from stoker.errors import StokerError
from storage import KEYS, Store
from support import SEED

torch = pytest.importorskip("torch")

from stoker import Audio, Loader  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import audio as bench  # noqa: E402

RATE, SECONDS, SOUNDS = 16000, 90, 4
EPOCHS = 3  # epochs whose requests may be counted: the one that a test reads, and two that the Loader may have begun
FORMATS = ("wav", "listed.wav", "flac", "table.flac")


def with_seek_table(flac: bytes, samples: int) -> bytes:
    """Adds a seek table with a point for every fifth block."""
    blocks, points = [k for k in range(42, len(flac) - 4) if flac[k : k + 4] == b"\xff\xf8\x75\x08"], b""
    for i in range(0, samples // 4096, 5):
        points += struct.pack(">QQH", i * 4096, blocks[i] - 42, 4096)
    return flac[:4] + b"\x00" + flac[5:42] + b"\x83" + struct.pack(">I", len(points))[1:] + points + flac[42:]


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


@pytest.fixture(scope="module")
def sounds(tmp_path_factory):
    """Writes a bucket with a folder of 4 sounds of 90 s for each format: WAVs with a plain header, WAVs with 2 KB in a chunk before the samples, FLACs
    without and with a seek table; also short WAVs, damaged WAVs and, if ffmpeg is installed, AAC. Returns the bucket's folder, and the sounds' samples."""
    root = tmp_path_factory.mktemp("root")
    rng, stored = np.random.default_rng(SEED), []
    for i in range(SOUNDS):
        x = (tone(rng, SECONDS * RATE)[:, 0] * 32767).astype("<i2") + rng.integers(-300, 300, SECONDS * RATE).astype("<i2")
        stored.append(x)
        plain, flac = wav(x[:, None], RATE), bench.flac_file(x)
        notes = b"LIST" + struct.pack("<I", 2000) + bytes(2000)
        listed = plain[:4] + struct.pack("<I", len(plain) + 2000) + plain[8:36] + notes + plain[36:]
        for name, data in zip(FORMATS, (plain, listed, flac, with_seek_table(flac, len(x))), strict=True):
            path = root / "sounds" / name / f"class{i % 2}" / f"{i}.{name.rpartition('.')[2]}"
            write(path, data)
    folder = root / "sounds"
    for i in range(40):
        write(folder / "short" / f"class{i % 2}" / f"{i:02}.wav", wav(stored[0][i * 100 : i * 100 + 8000, None], RATE))
    whole = wav(stored[0][:, None], RATE)
    for i, data in enumerate((whole, whole[:700_000], b"RIFF" + bytes(500_000), whole[:20], b"", whole)):
        write(folder / "bad" / "a" / f"{i}.wav", data)
    if shutil.which("ffmpeg"):
        (folder / "aac" / "a").mkdir(parents=True)
        command = ["ffmpeg", "-v", "error", "-nostdin", "-i", str(folder / "wav/class0/0.wav"), "-b:a", "128k", str(folder / "aac/a/0.m4a")]
        subprocess.run(command, check=True, timeout=120)
    return root, stored


@pytest.fixture
def store(sounds, monkeypatch):
    server = Store(sounds[0], key="")
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {**server.environment, **KEYS}.items():
        monkeypatch.setenv(name, value)
    yield server
    server.close()


def batches(source, audio, **more):
    loader = Loader(source, 3, fields={"audio": audio, "label": None, "rate": None}, num_threads=2, **more)
    made = [(batch.audio.clone(), batch.label.tolist(), batch.rate.tolist()) for batch in loader]
    loader.close()
    return made


@pytest.mark.parametrize("crop", ("start", "center", "random"))
@pytest.mark.parametrize("name", FORMATS)
def test_windows_are_those_of_local_files(sounds, store, name, crop):
    audio, local = Audio(rate=RATE, duration=0.75, crop=crop), sounds[0] / "sounds" / name
    want = batches(local, audio, seed=3, shuffle=True)
    storage = stoker.Storage()
    made = batches(f"s3://sounds/{name}", audio, seed=3, shuffle=True, storage=storage)
    for (a, labels, rates), (b, *others) in zip(made, want, strict=True):
        assert torch.equal(a, b) and [labels, rates] == others
    # The bytes around a window of a FLAC file are fetched too: up to the next points of its seek table, or a margin if it has none.
    each = int(0.75 * RATE) * 2 + {"wav": 100, "listed.wav": 70_000}.get(name, 450_000)
    counted, size = storage.counters(), sum(path.stat().st_size for path in local.glob("*/*"))
    most = EPOCHS * SOUNDS * each + 4000  # 4000: size of the listing in bytes
    assert counted["storage_bytes"] <= most < 0.75 * size
    assert counted["storage_requests"] <= EPOCHS * SOUNDS * (2 if name == "wav" else 4) + 3


@pytest.mark.parametrize("name", FORMATS)
def test_a_list_of_objects(sounds, store, name):
    paths = sorted((sounds[0] / "sounds" / name).glob("*/*"))
    items = [(str(path), k) for k, path in enumerate(paths)]
    objects = [(f"s3://sounds/{name}/{path.parent.name}/{path.name}", k) for k, path in enumerate(paths)]
    audio, storage = Audio(rate=8000, duration=0.5, crop="random", mono=False, dtype="int16"), stoker.Storage()
    want, made = batches(items, audio, seed=1), batches(objects, audio, seed=1, storage=storage)
    assert all(torch.equal(a, b) and x == y for (a, x, _), (b, y, _) in zip(made, want, strict=True))
    assert storage.counters()["storage_bytes"] < 0.75 * sum(path.stat().st_size for path in paths)


@pytest.mark.parametrize("name", FORMATS)
def test_entries_of_a_manifest(sounds, store, tmp_path, name):
    root, stored = sounds
    lines = [
        {
            "audio_filepath": f"{{}}/{name}/class{i % 2}/{i}.{name.rpartition('.')[2]}",
            "offset": 1.5 * k + i,
            "duration": 0.5 + 0.25 * k,
            "text": f"{i} {k}",
        }
        for i in range(SOUNDS)
        for k in range(3)
    ]
    for place, at in ((str(root / "sounds"), "local.json"), ("s3://sounds", "store.json")):
        text = "".join(json.dumps({**line, "audio_filepath": line["audio_filepath"].format(place)}) + "\n" for line in lines)
        (tmp_path / at).write_text(text)
    fields, storage = {"audio": Audio(rate=RATE), "text": None}, stoker.Storage()
    local = list(Loader(str(tmp_path / "local.json"), 3, fields=fields))
    remote = list(Loader(str(tmp_path / "store.json"), 3, fields=fields, storage=storage))
    at = 0
    for a, b in zip(remote, local, strict=True):
        assert torch.equal(a.audio, b.audio) and a.text == b.text and torch.equal(a.audio_lengths, b.audio_lengths)
        for audio, length in zip(a.audio, a.audio_lengths.tolist(), strict=True):
            line = lines[at]
            first = int(line["offset"] * RATE)
            assert np.array_equal(audio[:length].numpy(), stored[at // 3][first : first + length] / np.float32(32768))
            at += 1
    if name == "wav":
        needed = sum(int(line["duration"] * RATE) * 2 + 44 for line in lines)
        assert storage.counters()["storage_bytes"] <= EPOCHS * needed + 2000


@pytest.mark.parametrize("name, most", [("wav", 0.1), ("listed.wav", 0.5)])
def test_windows_of_one_object_through_a_cache(sounds, store, tmp_path, name, most):
    """A header that comes from the cache also gives the size of the object, so that no later window needs the whole object."""
    places = {"local": f"{sounds[0]}/sounds/{name}/class0/0.wav", "store": f"s3://sounds/{name}/class0/0.wav"}
    for at, place in places.items():
        lines = [json.dumps({"audio_filepath": place, "offset": 8.0 * k, "duration": 0.25, "text": ""}) + "\n" for k in range(10)]
        (tmp_path / f"{at}.json").write_text("".join(lines))
    fields = {"audio": Audio(rate=RATE), "text": None}
    want = [batch.audio.clone() for batch in Loader(str(tmp_path / "local.json"), 2, fields=fields)]
    size, counted = Path(places["local"]).stat().st_size, []
    for _ in range(2):
        storage = stoker.Storage(cache=tmp_path / "cache")
        with Loader(str(tmp_path / "store.json"), 2, fields=fields, storage=storage) as loader:
            made = [batch.audio.clone() for batch in loader]
        while storage.counters()["cache_pending_bytes"]:
            time.sleep(0.005)
        assert all(torch.equal(a, b) for a, b in zip(made, want, strict=True))
        counted.append(storage.counters())
    assert counted[0]["storage_bytes"] < most * size
    assert counted[1]["storage_bytes"] == 0 and counted[1]["cache_hits"] >= 20


def test_small_objects_are_fetched_at_once(store):
    storage = stoker.Storage()
    assert len(batches("s3://sounds/short", Audio(rate=RATE, duration=0.1), storage=storage)) == 14
    # One request for each object, and those for the listing, which contains the objects' sizes.
    assert storage.counters()["storage_requests"] <= EPOCHS * 40 + 4


def test_other_formats_are_fetched_whole(store, sounds):
    local = sounds[0] / "sounds" / "aac"
    if not local.exists() or not stoker._core.audio_named(".m4a"):
        pytest.skip("needs ffmpeg and its libraries")
    audio = Audio(rate=RATE, duration=0.5, crop="random")
    (want,), (made,) = batches(local, audio, seed=9), batches("s3://sounds/aac", audio, seed=9)
    assert torch.equal(made[0], want[0])


def test_damaged_objects_are_bad_samples(store):
    audio = Audio(rate=RATE, duration=0.5)
    loader = Loader("s3://sounds/bad", 6, fields={"audio": audio, "path": None}, on_error="skip", max_errors=10)
    (batch,) = list(loader)
    assert [path[-5] for path in batch.path] == ["0", "5"]
    with pytest.raises(StokerError, match=r"1\.wav.*truncated WAV"):
        list(Loader("s3://sounds/bad", 2, fields={"audio": audio}, on_error="raise"))


def test_a_window_after_the_end(store, tmp_path):
    (tmp_path / "m.json").write_text(
        json.dumps({"audio_filepath": "s3://sounds/wav/class0/0.wav", "offset": 100.0, "duration": 1.0}) + "\n"
    )
    with pytest.raises(StokerError, match=r"0\.wav.*the window begins at 100 s; the file ends at 90 s"):
        list(Loader(str(tmp_path / "m.json"), 1, fields={"audio": Audio()}, on_error="raise"))


def test_resuming_and_faults_of_the_store_change_nothing(store):
    audio = Audio(rate=RATE, duration=0.3, crop="random")
    arguments = {"fields": {"audio": audio, "path": None}, "shuffle": True, "seed": 8}
    whole = [(b.audio.clone(), b.path) for b in Loader("s3://sounds/wav", 2, **arguments)]
    store.set("p503=0.3&seed=3")
    loader = Loader("s3://sounds/wav", 2, **arguments)
    steps = iter(loader)
    next(steps)
    state = loader.state_dict()
    loader.close()
    again = Loader("s3://sounds/wav", 2, **arguments)
    again.load_state_dict(state)
    rest = [(b.audio.clone(), b.path) for b in again]
    store.set("")
    assert len(rest) == 1
    assert all(torch.equal(a, b) and x == y for (a, x), (b, y) in zip(rest, whole[1:], strict=True))
