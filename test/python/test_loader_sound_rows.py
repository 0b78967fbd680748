# SPDX-License-Identifier: Apache-2.0
"""Loader over sounds in Parquet files, in a Dataset, and in Hugging Face's `datasets`: the same samples as from files, in every form of a batch."""

from __future__ import annotations

import io
import json
import tarfile

import numpy as np
import pytest
import stoker
from sound_files import pcm16
from stoker.errors import InvalidArgumentError, StokerError
from support import SEED
from tables import pa, pq, write

torch = pytest.importorskip("torch")

from stoker import Audio, Loader  # noqa: E402

SOUNDS = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
FEATURES = {"audio": {"_type": "Audio", "sampling_rate": 8000}, "speaker": {"_type": "Value", "dtype": "int64"}}
COUNT = 25


@pytest.fixture(scope="module")
def sounds():
    """Returns the bytes of COUNT sound files of different lengths."""
    rng = np.random.default_rng(SEED)
    return [pcm16(rng, int(rng.integers(200, 900)), 1 + i % 2) for i in range(COUNT)]


def stored(data: bytes) -> np.ndarray:
    return stoker.audiodecode(data, mono=True)[0]


def columns_of(sounds, **more):
    return {
        "audio": pa.array([{"bytes": s, "path": f"{i}.wav"} for i, s in enumerate(sounds)], SOUNDS),
        "text": pa.array([f"word {i} é" for i in range(len(sounds))]),
        "speaker": pa.array(range(len(sounds)), pa.int64()),
        **more,
    }


@pytest.fixture(scope="module")
def table(sounds, tmp_path_factory):
    """Writes a table of two files with groups of seven rows, and returns its folder."""
    root = tmp_path_factory.mktemp("sounds")
    for part in range(2):
        rows = slice(0, 13) if part == 0 else slice(13, COUNT)
        write(root / f"part-{part}.parquet", {n: c[rows] for n, c in columns_of(sounds).items()}, 7)
    return root


def check_padded(batches, sounds, order=None):
    """Compares batches of padded sounds with the samples of the files. Returns the ids of the sounds."""
    seen = []
    for batch in batches:
        assert batch.audio.shape[1] == int(batch.audio_lengths.max())
        for audio, n, i in zip(batch.audio, batch.audio_lengths.tolist(), batch.speaker.tolist(), strict=True):
            want = stored(sounds[i])
            assert n == len(want) and np.array_equal(audio[:n].numpy(), want) and not audio[n:].any()
            seen.append(i)
    assert order is None or seen == order
    return seen


WANTED = {"audio": Audio(), "text": None, "speaker": None}


@pytest.mark.parametrize("shuffle", [False, True, "groups"])
def test_padded_batches(table, sounds, shuffle):
    loader = Loader(f"{table}/*.parquet", 4, fields=WANTED, shuffle=shuffle, seed=3, last_batch="keep")
    batches = list(loader)
    assert len(loader) == len(batches) == 7 and batches[0]._fields == ("audio", "text", "speaker", "audio_lengths")
    seen = check_padded(batches, sounds)
    assert sorted(seen) == list(range(COUNT)) and (seen == list(range(COUNT))) == (shuffle is False)
    assert [t for b in batches for t in b.text] == [f"word {i} é" for i in seen]


@pytest.mark.parametrize("form", ["struct", "bytes", "large", "path", "dictionary"])
def test_forms_of_columns(sounds, tmp_path, form):
    if form == "path":
        for i, data in enumerate(sounds):
            (tmp_path / f"{i}.wav").write_bytes(data)
    values = {
        "struct": lambda: pa.array([{"bytes": s, "path": None} for s in sounds], SOUNDS),
        "bytes": lambda: pa.array(sounds, pa.binary()),
        "large": lambda: pa.array(sounds, pa.large_binary()),
        "path": lambda: pa.array([{"bytes": None, "path": str(tmp_path / f"{i}.wav")} for i in range(COUNT)], SOUNDS),
        "dictionary": lambda: pa.array([*sounds], pa.binary()).dictionary_encode(),
    }[form]()
    write(tmp_path / "t.parquet", columns_of(sounds, audio=values))
    check_padded(Loader(tmp_path / "t.parquet", 9, fields=WANTED, last_batch="keep"), sounds, list(range(COUNT)))


def test_ragged_batches(table, sounds):
    for batch in Loader(f"{table}/*.parquet", 6, fields={"speaker": None, "audio": Audio()}, ragged=["audio"]):
        assert batch._fields == ("speaker", "audio") and type(batch.audio).__name__ == "RaggedBatch"
        for audio, n, i in zip(batch.audio.tensor, batch.audio.sample_sizes.tolist(), batch.speaker.tolist(), strict=True):
            assert np.array_equal(audio[:n].numpy(), stored(sounds[i]))


def test_one_duration_rate_and_channels(table, sounds):
    fields = {"audio": Audio(rate=16000, duration=0.02, mono=False, dtype="int16"), "rate": None, "index": None}
    loader = Loader(f"{table}/*.parquet", 1, fields=fields)
    for i, batch in enumerate(loader):
        assert batch._fields == ("audio", "rate", "index") and batch.audio.dtype == torch.int16
        want, _ = stoker.audiodecode(sounds[i], dtype="int16", duration=0.02)
        assert batch.audio.shape == (1, 1 + i % 2, 320) and batch.rate.tolist() == [16000.0] and batch.index.tolist() == [i]
        assert np.array_equal(batch.audio[0, :, : len(want)].numpy(), want.T)


def test_random_crops_are_those_of_files(table, sounds, tmp_path):
    paths = []
    for i, data in enumerate(sounds):
        paths.append(str(tmp_path / f"{i}.wav"))
        (tmp_path / f"{i}.wav").write_bytes(data)
    field = Audio(rate=16000, duration=0.01, crop="random")
    rows = [b.audio for b in Loader(f"{table}/*.parquet", 5, fields={"audio": field, "speaker": None}, seed=5)]
    again = [b.audio for b in Loader(f"{table}/*.parquet", 5, fields={"audio": field, "speaker": None}, seed=5, num_threads=1)]
    assert all(torch.equal(a, b) for a, b in zip(rows, again, strict=True))
    for audio, data in zip(torch.cat(rows).numpy(), sounds, strict=True):
        want = stored(data)
        assert any(np.array_equal(audio, want[k : k + 160]) for k in range(len(want) - 159))


def test_the_rate_that_datasets_wrote(sounds, tmp_path):
    """A table's sounds have the rate that `datasets` has written to the table's features, unless the user passes another rate."""
    write(tmp_path / "t.parquet", columns_of(sounds), features=FEATURES)
    from stoker.loader.sources._table import inspect

    assert [c["becomes"] for c in inspect([str(tmp_path / "t.parquet")])["columns"]] == ["sound", "text", "number"]
    for rate, want in ((None, 8000.0), (4000, 4000.0)):
        fields = {"sound": Audio(rate=rate), "rate": None, "speaker": None}  # no column is called `sound`, so the column of sounds is used
        batch = next(iter(Loader(tmp_path / "t.parquet", COUNT, fields=fields)))
        assert batch._fields == ("sound", "rate", "speaker", "sound_lengths") and batch.rate.tolist() == [want] * COUNT
        assert batch.sound_lengths.tolist() == [int(np.ceil(len(stored(s)) * want / 16000)) for s in sounds]


@pytest.mark.parametrize("shuffle", [False, True, "groups"])
def test_order_ranks_and_resuming(table, shuffle):
    fields = {"audio": Audio(rate=16000, duration=0.02, crop="random"), "speaker": None}

    def make(**more):
        return Loader(f"{table}/*.parquet", fields=fields, shuffle=shuffle, seed=9, last_batch="drop", **{"batch_size": 3, **more})

    def flat(batches):
        return [(i, float(a.abs().sum())) for b in batches for a, i in zip(b.audio, b.speaker.tolist(), strict=True)]

    whole = flat(make())
    first = make()
    batches = iter(first)
    head = [next(batches), next(batches)]
    state = json.loads(json.dumps(first.state_dict()))
    first.close()
    second = make(num_threads=1)
    second.load_state_dict(state)
    assert flat(head) + flat(second) == whole
    ranks = [flat(make(shard=(rank, 2))) for rank in range(2)]
    assert len({i for r in ranks for i, _ in r}) == sum(map(len, ranks)) == 24


def test_nulls_and_damage_name_the_row(sounds, tmp_path):
    values = [{"bytes": s, "path": None} for s in sounds]
    values[3] = None
    values[9] = {"bytes": sounds[9][:-100], "path": None}
    write(tmp_path / "t.parquet", columns_of(sounds, audio=pa.array(values, SOUNDS)), 5)
    with pytest.raises(Exception, match=r"t\.parquet\[row group 0, row 3\], column 'audio': it is null"):
        list(Loader(tmp_path / "t.parquet", 4, fields=WANTED))
    values[3] = values[2]
    write(tmp_path / "d.parquet", columns_of(sounds, audio=pa.array(values, SOUNDS)), 5)
    with pytest.raises(StokerError, match=r"d\.parquet\[row group 1, row 4, column 'audio'\].*a truncated WAV"):
        list(Loader(tmp_path / "d.parquet", 4, fields=WANTED))
    values[3] = {"bytes": None, "path": None}
    write(tmp_path / "b.parquet", columns_of(sounds, audio=pa.array(values, SOUNDS)), 5)
    loader = Loader(tmp_path / "b.parquet", 4, fields=WANTED, on_error="skip", max_errors=2, last_batch="keep")
    check_padded(loader, sounds, [i for i in range(COUNT) if i not in (3, 9)])
    whole = Loader(tmp_path / "d.parquet", 5, fields={"audio": Audio(), "speaker": None}, strict=False)
    assert [n for b in whole for n in b.audio_lengths.tolist()][9] == len(stored(sounds[9])) - 25


def test_a_table_of_sounds_from_parquet(table, sounds):
    loader = Loader.from_parquet(f"{table}/*.parquet", 5, image="audio", memory=1, shuffle="groups", fields={"x": Audio(), "speaker": None})
    ids = [i for b in loader for i in b.speaker.tolist()]
    assert sorted(ids) == list(range(COUNT))


def test_wrong_tables(table, tmp_path, sounds):
    write(tmp_path / "t.parquet", columns_of(sounds, numbers=pa.array([[1.0]] * COUNT), other=pa.array(sounds)))
    for fields, message in (
        ({"numbers": Audio()}, r"'numbers' holds list<.*>: a column of sounds holds the bytes of their files"),
        ({"audio": Audio(), "nothing": None}, "no column 'nothing'"),
        ({"audio": Audio(), "image": None}, "'image' next to a sound"),
        ({"audio": Audio(rate=8000, duration=1.0), "audio_lengths": None}, "there is no 'audio_lengths'"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            list(Loader(tmp_path / "t.parquet", 2, fields=fields))
    with pytest.raises(InvalidArgumentError, match="no column of sounds"):
        write(tmp_path / "n.parquet", {"a": pa.array([1, 2])})
        Loader(tmp_path / "n.parquet", 2, fields={"audio": Audio()})
    with pytest.raises(InvalidArgumentError, match="pad would have no effect on sounds"):
        Loader(f"{table}/*.parquet", 2, fields={"audio": Audio()}, pad="zeros")

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return len(sounds)

        def __getitem__(self, i):
            return {"audio": sounds[i]}

    with pytest.raises(InvalidArgumentError, match=r"bucket_by: .* before they are read"):
        Loader(Rows(), 2, fields={"audio": Audio()}, bucket_by="duration")


def test_buckets_by_a_column(table, sounds):
    keys = [len(stored(s)) // 200 for s in sounds]
    loader = Loader(f"{table}/*.parquet", 4, fields=WANTED, bucket_by=keys, last_batch="keep")
    batches = [b.speaker.tolist() for b in loader]
    assert sorted(i for b in batches for i in b) == list(range(COUNT))
    assert sum(len({keys[i] for i in b}) == 1 for b in batches) >= 3


MANY = 60


@pytest.fixture(scope="module", params=("column", "headers", "paths"))
def many(request, tmp_path_factory):
    """Writes a table of 60 sounds of many lengths in groups of eight rows. The lengths are in a column, or only in the sounds' headers. The sounds are in the
    table, or in files that the table names."""
    root, rng = tmp_path_factory.mktemp("many"), np.random.default_rng(SEED)
    data = [pcm16(rng, int(n)) for n in rng.integers(200, 9000, MANY)]
    more = {}
    if request.param == "column":
        more["duration"] = pa.array([len(stored(s)) / 16000 for s in data], pa.float64())
    if request.param == "paths":
        for i, sound in enumerate(data):
            (root / f"{i}.wav").write_bytes(sound)
        more["audio"] = pa.array([{"bytes": None, "path": str(root / f"{i}.wav")} for i in range(MANY)], SOUNDS)
    write(root / "t.parquet", columns_of(data, **more), 8)
    return root / "t.parquet"


def bucketed(many, batch=4, **more):
    return Loader(many, batch, fields=WANTED, bucket_by="duration", shuffle=True, **more)


def ids(batches):
    return [b.speaker.tolist() for b in batches]


def waste(batches):
    lengths = [b.audio_lengths for b in batches]
    return 1 - sum(int(n.sum()) for n in lengths) / sum(len(n) * int(n.max()) for n in lengths)


def test_buckets_of_durations(many):
    loader = bucketed(many, seed=5)
    epochs = [list(loader) for _ in range(2)]
    for batches in epochs:
        assert sorted(i for batch in ids(batches) for i in batch) == list(range(MANY)) and len(batches) == len(loader) == 15
        assert waste(batches) < 0.1 < waste(list(Loader(many, 4, fields=WANTED, shuffle=True, seed=5)))
        longest = [int(b.audio_lengths.max()) for b in batches]
        assert longest != sorted(longest)  # batches are shuffled, not sorted by length
    assert ids(epochs[0]) != ids(epochs[1])
    assert ids(bucketed(many, seed=5, num_threads=1)) == ids(epochs[0])


@pytest.mark.parametrize("taken", (1, 7, 15))
def test_buckets_of_durations_are_resumed(many, taken):
    whole, part = bucketed(many, seed=9), bucketed(many, seed=9)
    want = ids(whole) + ids(whole)
    steps = iter(part)
    first = [next(steps).speaker.tolist() for _ in range(taken)]
    other = bucketed(many, seed=9)
    other.load_state_dict(part.state_dict())
    rest = ids(other) + (ids(other) if taken < 15 else [])
    assert (first + rest)[: len(want)] == want[: len(first + rest)] and len(first + rest) >= 15


@pytest.mark.parametrize(("last", "steps", "seen"), (("drop", 2, 48), ("keep", 3, 60), ("pad", 3, 60)))
def test_buckets_of_durations_give_ranks_equal_steps(many, last, steps, seen):
    ranks = [list(bucketed(many, 8, seed=1, shard=(r, 3), last_batch=last)) for r in range(3)]
    assert [len(r) for r in ranks] == [steps] * 3
    assert len({i for r in ranks for batch in ids(r) for i in batch}) == seen
    low, high = sorted((torch.cat([r[k].audio_lengths for r in ranks]) for k in range(2)), key=lambda lengths: int(lengths.max()))
    assert low.max() <= high.min()


def test_lengths_that_are_missing_or_wrong(tmp_path, sounds):
    lengths = [None if i % 5 == 0 else float("nan") if i % 5 == 1 else len(stored(s)) / 16000 for i, s in enumerate(sounds)]
    write(tmp_path / "t.parquet", columns_of(sounds, duration=pa.array(lengths, pa.float32())))
    batches = ids(Loader(tmp_path / "t.parquet", 5, fields=WANTED, bucket_by="duration", last_batch="keep"))
    assert sorted(i for b in batches for i in b) == list(range(COUNT))
    # Rows without a valid length are in the first batches, as if they had no sound.
    assert {i for b in batches[:2] for i in b} == {i for i in range(COUNT) if i % 5 < 2}
    write(tmp_path / "u.parquet", columns_of(sounds, duration=pa.array([f"{len(s)} bytes" for s in sounds])))
    with pytest.raises(
        InvalidArgumentError, match=r"u\.parquet: bucket_by reads the lengths from the column 'duration', and it holds string"
    ):
        Loader(tmp_path / "u.parquet", 5, fields=WANTED, bucket_by="duration")
    with pytest.raises(InvalidArgumentError, match="all sounds are equally long: leave bucket_by"):
        Loader(tmp_path / "t.parquet", 5, fields={"audio": Audio(rate=8000, duration=0.1)}, bucket_by="duration")
    with pytest.raises(InvalidArgumentError, match="bucket_by is 'duration', or a list"):
        Loader(tmp_path / "t.parquet", 5, fields=WANTED, bucket_by="size")


def test_a_bad_sound_among_lengths_from_headers(tmp_path, sounds):
    data = [b"" if i == 3 else s[:30] if i == 4 else s for i, s in enumerate(sounds)]
    write(tmp_path / "t.parquet", columns_of(data))
    loader = Loader(tmp_path / "t.parquet", 5, fields=WANTED, bucket_by="duration", last_batch="keep", on_error="skip", max_errors=2)
    assert sorted(i for b in ids(loader) for i in b) == [i for i in range(COUNT) if i not in (3, 4)]


def test_one_frame(tmp_path):
    """Sounds of one frame give a batch of shape (3, 1): the axis of length 1 is kept."""
    data = pcm16(np.random.default_rng(1), 1)
    write(tmp_path / "t.parquet", {"audio": pa.array([data] * 3)})
    (tmp_path / "1.wav").write_bytes(data)
    for source in (tmp_path / "t.parquet", [str(tmp_path / "1.wav")] * 3):
        for dtype in ("float32", "int16"):
            (batch,) = Loader(source, 3, fields={"audio": Audio(dtype=dtype)})
            assert batch.audio.shape == (3, 1) and str(batch.audio.dtype) == f"torch.{dtype}"


# ---- Datasets ----


class Rows:
    """A Dataset of sound files. form: "tuple": tuples with the file's bytes second; "struct": dicts with a dict of bytes and path, as in tables; "array":
    dicts with an array of bytes."""

    def __init__(self, sounds, form):
        self.sounds, self.form = sounds, form

    def __len__(self):
        return len(self.sounds)

    def __getitem__(self, i):
        if self.form == "tuple":
            return f"word {i}", self.sounds[i], i
        made = {"bytes": self.sounds[i], "path": None} if self.form == "struct" else np.frombuffer(self.sounds[i], np.uint8)
        return {"text": f"word {i}", "audio": made, "speaker": i}


@pytest.mark.parametrize("form", ["tuple", "struct", "array"])
def test_datasets_of_python(sounds, form):
    loader = Loader(
        Rows(sounds, form), 6, fields={"text": None, "audio": Audio(), "speaker": None}, shuffle=True, seed=2, last_batch="keep"
    )
    batches = list(loader)
    assert batches[0]._fields == ("text", "audio", "speaker", "audio_lengths")
    assert sorted(check_padded(batches, sounds)) == list(range(COUNT))
    assert all(t == f"word {i}" for b in batches for t, i in zip(b.text, b.speaker.tolist(), strict=True))


def test_iterable_datasets(sounds):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return ({"audio": s, "speaker": i} for i, s in enumerate(sounds))

    check_padded(Loader(Stream(), 6, fields={"audio": Audio(), "speaker": None}, last_batch="keep"), sounds, list(range(COUNT)))


def test_datasets_in_processes(sounds):
    loader = Loader(Rows(sounds, "struct"), 6, fields={"audio": Audio(), "speaker": None}, python_workers=1, last_batch="keep")
    check_padded(loader, sounds, list(range(COUNT)))


def test_samples_that_python_decoded():
    class Decoded:
        def __len__(self):
            return 3

        def __getitem__(self, i):
            return {"audio": np.zeros((1, 100), np.float32)}

    with pytest.raises(TypeError, match="ndarray as a sound: it is a path or the bytes of a file"):
        next(iter(Loader(Decoded(), 3, fields={"audio": Audio()})))


# ---- Hugging Face's datasets ----


@pytest.fixture
def hub(sounds):
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset(pa.table({n: c for n, c in columns_of(sounds).items() if n != "text"}))
    return made.cast_column("audio", datasets.Audio())


def test_taken_over_from_datasets(hub, sounds):
    fields = {"audio": Audio(), "speaker": None}
    check_padded(Loader(hub, 6, fields=fields, last_batch="keep"), sounds, list(range(COUNT)))
    picked = hub.select([9, 3, 4]).with_format("torch")
    check_padded(Loader(picked, 2, fields=fields, last_batch="keep"), sounds, [9, 3, 4])
    check_padded(Loader(hub.to_iterable_dataset(), 6, fields=fields, last_batch="keep"), sounds, list(range(COUNT)))


def test_the_rate_of_datasets(hub):
    import datasets

    batch = next(iter(Loader(hub.cast_column("audio", datasets.Audio(sampling_rate=8000)), 5, fields={"sound": Audio(), "rate": None})))
    assert batch._fields == ("sound", "rate", "sound_lengths") and batch.rate.tolist() == [8000.0] * 5
    streamed = hub.cast_column("audio", datasets.Audio(sampling_rate=8000)).to_iterable_dataset()
    assert next(iter(Loader(streamed, 5, fields={"audio": Audio(), "rate": None}))).rate.tolist() == [8000.0] * 5


def test_tables_that_datasets_writes(hub, sounds, tmp_path):
    hub.to_parquet(tmp_path / "hub.parquet")
    assert pq.read_schema(tmp_path / "hub.parquet").field("audio").type == SOUNDS
    check_padded(
        Loader(tmp_path / "hub.parquet", 6, fields={"audio": Audio(), "speaker": None}, last_batch="keep"), sounds, list(range(COUNT))
    )


# ---- columns that are called as a field of the sounds ----


def own_columns(form, sounds, root):
    """Returns a function from fields to the first batch of 3 sounds. The data have a column `rate` and a column `audio_lengths`, with other values than the
    sounds' own."""
    part = sounds[:3]
    paths = [str(root / f"{i}.wav") for i in range(3)]
    for path, sound in zip(paths, part, strict=True):
        with open(path, "wb") as f:
            f.write(sound)
    rows = [{"audio": s, "rate": 7 + i, "audio_lengths": i} for i, s in enumerate(part)]
    make = Loader
    if form in ("table", "from_parquet", "datasets", "stream", "bare stream"):
        columns = {name: pa.array([row[name] for row in rows]) for name in rows[0]}
        columns["audio"] = pa.array([{"bytes": s, "path": None} for s in part], SOUNDS)
        source = write(root / "t.parquet", columns)
        make = Loader.from_parquet if form == "from_parquet" else Loader
        if form not in ("table", "from_parquet"):
            datasets = pytest.importorskip("datasets")
            source = datasets.Dataset(pa.table(columns)).cast_column("audio", datasets.Audio(decode=False))
            source = source if form == "datasets" else source.to_iterable_dataset()
            source = source.map(lambda row: row) if form == "bare stream" else source
    elif form == "csv":
        lines = [f"{path},{row['rate']},{row['audio_lengths']}\n" for path, row in zip(paths, rows, strict=True)]
        (root / "t.csv").write_text("path,rate,audio_lengths\n" + "".join(lines))
        source, make = root / "t.csv", Loader.from_csv
    elif form == "manifest":
        lines = [json.dumps({**row, "audio": None, "audio_filepath": path}) + "\n" for path, row in zip(paths, rows, strict=True)]
        (root / "t.json").write_text(json.dumps({"audio_filepath": paths[0]}) + "\n" + "".join(lines[1:]))
        source = root / "t.json"
    elif form == "tars":
        with tarfile.open(root / "t.tar", "w") as tar:
            for i, row in enumerate(rows):
                for ending, data in (("wav", row["audio"]), ("cls", b"%d" % row["rate"]), ("txt", b"%d" % row["audio_lengths"])):
                    info = tarfile.TarInfo(f"{i}.{ending}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))
        components = {"audio": "wav", "rate": "cls", "audio_lengths": "txt"}
        source, make = str(root / "t.tar"), lambda *given, **more: Loader.from_tars(*given, components=components, **more)
    elif form == "iterable":

        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(rows)

        source = Stream()
    else:

        class Dicts(torch.utils.data.Dataset):
            def __len__(self):
                return 3

            def __getitem__(self, i):
                return rows[i]

        source = Dicts()
    return lambda fields: next(iter(make(source, 3, fields=fields)))


@pytest.mark.parametrize(
    "form", ["table", "from_parquet", "datasets", "stream", "bare stream", "csv", "manifest", "tars", "dicts", "iterable"]
)
def test_columns_that_a_field_of_the_sounds_would_replace_are_refused(sounds, tmp_path, form):
    first = own_columns(form, sounds, tmp_path)
    for name in ("rate", "audio_lengths"):
        with pytest.raises(InvalidArgumentError, match=f"a sound adds a field '{name}', and the data have one of this name: rename it"):
            first({"audio": Audio(), name: None})
    batch = first({"audio": Audio()})  # columns that the user does not want do no harm
    assert batch._fields == ("audio", "audio_lengths") and batch.audio_lengths.tolist() == [len(stored(s)) for s in sounds[:3]]
    for audio, sound in zip(batch.audio, sounds[:3], strict=True):
        assert np.array_equal(audio[: len(stored(sound))].numpy(), stored(sound))
    if form in ("table", "datasets", "stream"):  # where the only column of sounds may have any name
        assert first({"sound": Audio(), "audio_lengths": None}).audio_lengths.tolist() == [0, 1, 2]


def test_the_rate_of_sounds_whose_data_have_no_such_column(sounds, tmp_path):
    source = write(tmp_path / "t.parquet", columns_of(sounds))
    batch = next(iter(Loader(source, 3, fields={"audio": Audio(), "rate": None, "audio_lengths": None, "speaker": None})))
    assert batch.rate.tolist() == [16000.0] * 3 and batch.audio_lengths.tolist() == [len(stored(s)) for s in sounds[:3]]
