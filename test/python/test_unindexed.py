# SPDX-License-Identifier: Apache-2.0
"""Tars in a store that have no index: the first epoch reads them in their order while the index is made; later epochs are as with an index."""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import textwrap
import threading

import numpy as np
import pytest
from PIL import Image
from sound_files import pcm16
from stoker import Audio, Loader, Storage
from stoker import transforms as T
from stoker.errors import CorruptError, NotFoundError, StateError, StokerError
from storage import Store
from support import SEED, tar_of

FAULTS = "p503=0.05&p500=0.02&reset=0.05&truncate=0.1&length=0.02&latency_ms=1&jitter_ms=5&seed=7"
COUNTS = [40, 7, 1, 55, 34]
BATCH = 8


def picture(number, large):
    draws = np.random.default_rng(number)
    out = io.BytesIO()
    side = int(draws.integers(150, 260)) if large else 16
    Image.fromarray(draws.integers(0, 256, (side, side, 3), np.uint8)).save(out, "JPEG", quality=95)
    return out.getvalue()


def write(path, samples):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tar_of(itertools.chain.from_iterable(samples), tarfile.PAX_FORMAT))


def sample(number, large=False):
    return [
        (f"{number:05}.cls", str(number).encode()),
        (f"{number:05}.jpg", picture(number, large)),
        (f"{number:05}.txt", b"unused" * (number % 50)),
    ]


def bucket(root, name, counts, large=False):
    first = 0
    for k, count in enumerate(counts):
        write(root / name / f"s-{k:03}.tar", [sample(first + i, large) for i in range(count)])
        first += count


def sound(number):
    frames = 2000 + 977 * number % 1500
    return [(f"{number:05}.cls", str(number).encode()), (f"{number:05}.wav", pcm16(np.random.default_rng(number), frames))]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    root = tmp_path_factory.mktemp("store")
    bucket(root, "small", COUNTS)
    bucket(root, "large", [60] * 6, large=True)
    for k in range(3):
        write(root / "sounds" / f"s-{k:03}.tar", [sound(k * 20 + i) for i in range(20)])
    server = Store(root)
    server.root = root
    yield server
    server.close()


@pytest.fixture(autouse=True)
def environment(store, tmp_path, monkeypatch):
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    store.set("seed=0")


@pytest.fixture
def no_index(tmp_path):
    """Returns a function that deletes the stored indexes; its attribute kept() counts them."""

    def forget():
        shutil.rmtree(tmp_path / "caches", ignore_errors=True)

    forget.kept = lambda: len(list((tmp_path / "caches").glob("stoker/indexes/*.stoker")))
    return forget


def made(source, **more):
    arguments = {
        "shuffle": True,
        "seed": SEED % 1000,
        "last_batch": "keep",
        "transforms": [T.RandomResizedCrop(8)],
        "num_threads": 2,
        **more,
    }
    return Loader(source, arguments.pop("batch_size", BATCH), **arguments)


def epoch_of(loader):
    return [(int(l), i.numpy().tobytes()) for batch in loader for i, l in zip(batch[0], batch[1], strict=True)]


def labels_of(loader):
    return [label for label, _ in epoch_of(loader)]


def documented(counts, seed, tmp_path):
    """Returns the labels of all samples in the documented order: tars are shuffled like files, and samples keep their order within a tar."""
    names = []
    for k in range(len(counts)):
        path = tmp_path / f"order{k}.jpg"
        path.write_bytes(picture(k, False))
        names.append((str(path), k))
    tars = labels_of(made(names, seed=seed))
    first = np.cumsum([0, *counts])
    return [i for t in tars for i in range(first[t], first[t + 1])]


SMALL = "s3://small/s-*.tar"
TOTAL = sum(COUNTS)


@pytest.mark.essential
def test_order_and_later_epochs(store, tmp_path, no_index, capfd):
    for seed in (0, SEED % 1000):
        no_index()
        loader = made(SMALL, seed=seed)
        epochs = [epoch_of(loader) for _ in range(3)]
        assert no_index.kept() == len(COUNTS)
        assert [label for label, _ in epochs[0]] == documented(COUNTS, seed, tmp_path)
        indexed = made(SMALL, seed=seed)
        assert [epoch_of(indexed) for _ in range(3)][1:] == epochs[1:]
        assert sorted(label for label, _ in epochs[1]) == list(range(TOTAL)) != [label for label, _ in epochs[1]]
    assert capfd.readouterr().err.count("tars are shuffled, and not the samples in them") == 2


def test_in_order_it_is_the_same_epoch(store, no_index):
    streamed = made(SMALL, shuffle=False)
    first = epoch_of(streamed)
    assert no_index.kept() == len(COUNTS)
    assert first == epoch_of(made(SMALL, shuffle=False))
    assert [label for label, _ in first] == list(range(TOTAL))


def test_bytes_are_fetched_once_and_the_first_batch_needs_few(store, no_index):
    store.set("latency_ms=5")
    size = sum(p.stat().st_size for p in (store.root / "large").iterdir())
    assert size > 15 << 20
    storage = Storage()
    loader = made("s3://large/s-{000..005}.tar", storage=storage, read_bytes=8 << 20)
    fetched = lambda: storage.counters()["storage_bytes"]  # noqa: E731
    assert fetched() < 200_000  # the Loader has read only the start of a tar, to learn its components
    batches = iter(loader)
    labels = next(batches)[1].tolist()
    assert fetched() <= 12 << 20 and fetched() < 0.7 * size
    labels += [label for _, more in batches for label in more.tolist()]
    assert sorted(labels) == list(range(360))
    assert fetched() <= 1.05 * size
    assert no_index.kept() == 6


def sounds_of(**more):
    fields = {"label": None, "audio": Audio(rate=16000)}
    return Loader("s3://sounds/s-*.tar", 7, fields=fields, seed=4, last_batch="keep", num_threads=2, **more)


def heard(batches):
    """Returns labels and sounds, without the padding."""
    return [
        (int(label), a[:n].numpy().tobytes())
        for b in batches
        for label, a, n in zip(b.label, b.audio, b.audio_lengths.tolist(), strict=True)
    ]


def test_sounds_are_read_as_images_are(store, no_index):
    """The first epoch of sounds in tars of a store needs no index, later ones have it, and a state of the first epoch continues."""
    size = sum(p.stat().st_size for p in (store.root / "sounds").iterdir())
    storage = Storage()
    loader = sounds_of(storage=storage)
    assert storage.counters()["storage_bytes"] <= size / 2 and no_index.kept() == 0
    first = heard(loader)
    assert storage.counters()["storage_bytes"] <= 1.5 * size and no_index.kept() == 3
    assert [label for label, _ in first] == list(range(60)) and heard(loader) == first == heard(sounds_of())
    assert [len(s) // 4 for _, s in first] == [2000 + 977 * k % 1500 for k in range(60)]
    mixed = sounds_of(shuffle=True)
    assert sorted(heard(mixed)) == sorted(first) != heard(mixed)
    no_index()
    begun = sounds_of(shuffle=True)
    batches = iter(begun)
    head = heard([next(batches), next(batches)])
    state = json.loads(json.dumps(begun.state_dict()))
    begun.close()
    resumed = sounds_of(shuffle=True)
    resumed.load_state_dict(state)
    assert sorted(head + heard(resumed)) == sorted(first)


@pytest.mark.parametrize("forgets", [False, True])
def test_resume_at_any_batch(store, no_index, forgets):
    whole = epoch_of(made(SMALL))
    draws = np.random.default_rng(SEED)
    for at in [1, 5, 6, TOTAL // BATCH, *draws.integers(1, TOTAL // BATCH, 3)]:
        no_index()
        loader = made(SMALL)
        batches = iter(loader)
        for _ in range(at):
            next(batches)
        state = json.loads(json.dumps(loader.state_dict()))
        assert state["pipeline"]["size"] is None and state["pipeline"]["streamed"] is True and state["pipeline"]["consumed"] == at * BATCH
        loader.close()
        if forgets:
            no_index()
        again = made(SMALL)
        again.load_state_dict(state)
        assert epoch_of(again) == whole[at * BATCH :], at
        after = epoch_of(again)
        assert after == epoch_of(_at_epoch(made(SMALL), 1))


def _at_epoch(loader, epoch):
    loader.set_epoch(epoch)
    return loader


def test_states_of_another_kind_are_refused_or_searched_for(store, no_index):
    loader = made(SMALL)
    next(iter(loader))
    streamed = loader.state_dict()
    list(loader)  # begins the next epoch, for which the rest of the tars is searched
    assert loader.epoch == 2
    next(iter(loader))
    assert "streamed" not in loader.state_dict()["pipeline"]
    no_index()
    later = made(SMALL)
    later.load_state_dict(loader.state_dict())
    assert labels_of(later) == labels_of(_at_epoch(made(SMALL), 2))[BATCH:]
    other = made("s3://small/s-00[0-3].tar")
    with pytest.raises(StateError, match="the tars are not those of the state"):
        other.load_state_dict(streamed)
    folder = made([(str(store.root / "x.jpg"), 0)])
    with pytest.raises(StateError, match="tars were read from front to back"):
        folder.load_state_dict(streamed)
    ended = made(SMALL)
    epoch_of(ended)
    state = ended.state_dict()
    assert state.pop("data")["files"] > 0  # facts about the tars, with which a later run compares its own
    assert state == {"stoker_loader": 1, "epoch": 1, "pipeline": None, "seed": SEED % 1000}


def test_a_break_leaves_the_rest_to_a_search(store, no_index):
    loader = made(SMALL)
    for _ in loader:
        break
    assert labels_of(loader) == labels_of(_at_epoch(made(SMALL), 1))


def test_length_makes_the_index(store, no_index):
    before = made(SMALL)
    assert len(before) == -(-TOTAL // BATCH) and no_index.kept() == len(COUNTS)
    first = labels_of(before)
    assert first == labels_of(made(SMALL))  # len() has made the index, so all samples are shuffled
    no_index()
    loader = made(SMALL)
    assert "samples" not in repr(loader)
    labels = []
    for _, more in loader:
        assert len(loader) == -(-TOTAL // BATCH) and len(loader.dataset) == TOTAL
        labels += more.tolist()
    assert sorted(labels) == list(range(TOTAL)) and labels != first


@pytest.mark.parametrize("source", [SMALL, "s3://small/s-{000..004}.tar"])
def test_ctrl_c_ends_a_search(store, no_index, source):
    """After Ctrl-C the search does not wait for an answer, and raises KeyboardInterrupt."""
    storage = Storage()
    loader = made(source, storage=storage)
    store.set("latency_ms=30000")
    interrupt = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt) as raised:
            interrupt.start()
            len(loader)
    finally:
        interrupt.join()
    assert raised.value.__cause__ is None and storage.counters()["storage_retries"] == 0
    store.set("seed=0")
    assert len(loader) == -(-TOTAL // BATCH)


@pytest.mark.parametrize("batch_size", [1, 3, BATCH, TOTAL - 1, TOTAL, TOTAL + 1, 500])
def test_ends_of_epochs(store, tmp_path, no_index, batch_size):
    order = documented(COUNTS, 3, tmp_path)
    for last_batch in ("keep", "drop", "pad"):
        no_index()
        loader = None
        try:
            loader = made(SMALL, seed=3, batch_size=batch_size, last_batch=last_batch)
            labels = labels_of(loader)
        except StokerError as e:
            assert last_batch == "drop" and batch_size > TOTAL and "are fewer than one step" in str(e)
            continue
        if last_batch == "pad":  # padding needs the number of samples in advance, so the tars are not read in their order
            assert len(labels) == -(-TOTAL // batch_size) * batch_size
        else:
            assert labels == order[: TOTAL if last_batch == "keep" else TOTAL // batch_size * batch_size]
        assert loader.epoch == 1 and len(loader) == (TOTAL // batch_size if last_batch == "drop" else -(-TOTAL // batch_size))


def test_faults_of_the_store(store, no_index):
    want = [epoch_of(loader) for loader in [made("s3://large/s-*.tar")] for _ in range(2)]
    for seed in range(3):
        no_index()
        store.set(f"{FAULTS[:-1]}{SEED % 1000 + seed}")
        loader = made("s3://large/s-*.tar")
        assert [epoch_of(loader) for _ in range(2)] == want
    assert store.counts()["faults"] > 5


@pytest.mark.parametrize("read_bytes", [1, 1 << 20, 3 << 20])
def test_little_memory(store, tmp_path, no_index, read_bytes):
    """Bytes that do not fit into read_bytes are requested again when a sample needs them; no sample is lost, and no wait is endless."""
    order = documented([60] * 6, 3, tmp_path)
    for batch_size in (7, 200):
        no_index()
        assert labels_of(made("s3://large/s-*.tar", seed=3, batch_size=batch_size, read_bytes=read_bytes)) == order


def test_threads_that_read_samples_wake_the_search(store, tmp_path, no_index):
    """A worker that notices the end of a request for which the search waits must wake the search. Otherwise about one epoch in 30 would hang."""
    order = documented([60] * 6, 3, tmp_path)
    for _ in range(30):
        no_index()
        loader = made("s3://large/s-*.tar", seed=3, batch_size=7, read_bytes=1 << 20, timeout=60)
        assert labels_of(loader) == order
        loader.close()


# ---- damaged data ----


@pytest.fixture
def spoiled(store, tmp_path, no_index, monkeypatch):
    """Yields a function that serves tars, by default three of thirty samples. change: alters the files in a tar; harm: alters the finished tars."""
    servers = []

    def make(change=lambda members: members, harm=lambda folder: None, tars=None):
        folder = tmp_path / f"spoiled{len(servers)}" / "b"
        for k, samples in enumerate(tars or [[sample(30 * k + i) for i in range(30)] for k in range(3)]):
            write(folder / f"s-{k}.tar", [change(list(itertools.chain.from_iterable(samples)))])
        harm(folder)
        servers.append(Store(folder.parent))
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", servers[-1].url)
        no_index()
        return "s3://b/s-*.tar"

    yield make
    for server in servers:
        server.close()


def test_bad_samples_by_policy(spoiled):
    def change(members):
        return [(n, b"no image" if n in ("00000.jpg", "00001.jpg", "00031.jpg", "00044.jpg") else d) for n, d in members]

    source = spoiled(change)
    with pytest.raises(CorruptError, match=r"s-0.tar:\d+:00000"):
        labels_of(made(source, shuffle=False))
    skipped = labels_of(made(source, shuffle=False, on_error="skip", max_errors=10))
    assert skipped == [i for i in range(90) if i not in (0, 1, 31, 44)]
    replaced = [epoch_of(made(spoiled(change), shuffle=False, on_error="replace", max_errors=10)) for _ in range(2)]
    labels = [label for label, _ in replaced[0]]
    assert len(labels) == 90 and [i for i in range(90) if labels[i] != i] == [0, 1, 31, 44]
    assert replaced[0] == replaced[1]


def test_a_tar_that_is_damaged_in_its_middle(spoiled):
    def harm(folder):
        data = (folder / "s-1.tar").read_bytes()
        at = data.index(b"00045.jpg")
        (folder / "s-1.tar").write_bytes(data[:at] + b"\xff" * 512 + data[at + 512 :])

    labels = []
    with pytest.raises(CorruptError, match=r"s-1\.tar, at byte .*the header of a file is damaged"):
        for _, more in made(spoiled(harm=harm), shuffle=False):
            labels += more.tolist()
    assert labels == list(range(45 // BATCH * BATCH))


def test_missing_components(store, spoiled, capfd):
    def change(members):
        return [m for m in members if m[0] not in ("00040.cls", "00071.cls")]

    source = spoiled(change)
    with pytest.raises(NotFoundError, match=r's-1\.tar: the sample that begins with 00040.* has no component "cls"'):
        labels_of(made(source, shuffle=False))
    components = {"image": "jpg", "label": "cls"}
    arguments = {"transforms": [T.Resize(8)], "last_batch": "keep", "num_threads": 2}
    loader = Loader.from_tars(spoiled(change), BATCH, components=components, missing_component_behavior="skip", **arguments)
    assert labels_of(loader) == [i for i in range(90) if i not in (40, 71)]


def test_cut_tars_are_reported(spoiled, capfd):
    def harm(folder):
        for name in ("s-1.tar", "s-2.tar"):
            with tarfile.open(folder / name) as tar:
                last = tar.getmembers()[-1]
            (folder / name).write_bytes((folder / name).read_bytes()[: last.offset_data + -(-last.size // 512) * 512])

    assert labels_of(made(spoiled(harm=harm), shuffle=False)) == list(range(90))
    printed = capfd.readouterr().err
    for name in ("s-1.tar", "s-2.tar"):
        assert f"{name}: it ends without the blocks of zeros that end a tar" in printed


def test_attributes_of_no_file_at_the_end(spoiled):
    """All samples are read from tars that end with a header of empty attributes. No file follows such a header, so the reader must not wait for one."""

    def harm(folder):
        header = bytearray(512)
        header[:1], header[124:135], header[156:157], header[257:265] = b"x", b"0" * 11, b"x", b"ustar\x0000"
        header[148:156] = b" " * 8
        header[148:155] = b"%06o\0" % sum(header)
        for name in ("s-1.tar", "s-2.tar"):
            with tarfile.open(folder / name) as tar:
                last = tar.getmembers()[-1]
            whole = (folder / name).read_bytes()[: last.offset_data + -(-last.size // 512) * 512]
            (folder / name).write_bytes(whole + header)

    assert labels_of(made(spoiled(harm=harm), shuffle=False)) == list(range(90))


def test_a_sample_larger_than_the_window(spoiled):
    noise = np.random.default_rng(1).integers(0, 256, (1400, 1400, 3), np.uint8)
    out = io.BytesIO()
    Image.fromarray(noise).save(out, "JPEG", quality=95)
    assert len(out.getvalue()) > 2 << 20
    tar = [sample(0), [("00001.cls", b"1"), ("00001.jpg", out.getvalue())], sample(2)]
    for read_bytes in (1 << 20, 64 << 20):
        assert labels_of(made(spoiled(tars=[tar]), shuffle=False, read_bytes=read_bytes)) == [0, 1, 2]


def test_a_missing_tar(store, no_index):
    labels = []
    with pytest.raises(NotFoundError, match=r"s-009\.tar"):
        for _, more in made(["s3://small/s-000.tar", "s3://small/s-009.tar"], shuffle=False):
            labels += more.tolist()
    assert labels == list(range(len(labels))) and len(labels) >= 40 - BATCH


# ---- options that need to know all samples beforehand ----


def test_several_ranks_a_sampler_and_tars_on_a_disk(store, tmp_path, no_index, capfd):
    both = [labels_of(made(SMALL, shard=(rank, 2))) for rank in range(2)]
    assert sorted(both[0] + both[1]) == list(range(TOTAL)) and no_index.kept() == len(COUNTS)
    assert "since several ranks share the epoch" in capfd.readouterr().err
    no_index()
    assert labels_of(made(SMALL, shuffle=False, sampler=lambda epoch: [3, 2, 1])) == [3, 2, 1]
    no_index()
    assert labels_of(made("s3://small/s-000.tar")) == labels_of(made("s3://small/s-000.tar")) != list(range(40))
    no_index()
    on_disk = [shutil.copy(p, tmp_path) for p in sorted((store.root / "small").glob("*.tar"))]
    assert labels_of(made(on_disk)) == labels_of(_indexed(made, SMALL))


def test_a_function_of_the_users(store, tmp_path, no_index):
    def fetch(uri, offset, length):
        data = (store.root / uri.removeprefix("my://")).read_bytes()
        return data[offset:] if length is None else data[offset : offset + length]

    def listed(uri):
        folder = store.root / uri.removeprefix("my://")
        return [(f"my://{p.relative_to(store.root)}", p.stat().st_size) for p in sorted(folder.rglob("*.tar"))]

    order = documented(COUNTS, 3, tmp_path)
    storage = Storage(fetch=fetch, list=listed)
    assert labels_of(made("my://small/s-*.tar", seed=3, storage=storage)) == order


def test_indexes_next_to_their_tars(spoiled):
    def harm(folder):
        labels_of(made([str(p) for p in sorted(folder.glob("*.tar"))]))  # reading the tars makes an index next to each

    assert labels_of(made(spoiled(harm=harm))) == labels_of(_indexed(made, spoiled()))


def _indexed(made, source):
    loader = made(source)
    len(loader)
    return loader


def test_it_ends_while_the_store_is_silent(store, no_index):
    loader = made("s3://large/s-*.tar")
    next(iter(loader))
    store.set("silent=1")
    loader.close()


def test_an_interrupt_ends_the_listing_of_tars():
    """Ctrl-C does not wait for a store that never answers."""
    script = """
        import stoker
        try:
            stoker.Loader("s3://photos/shard-*.tar", 7)
        except KeyboardInterrupt:
            print("interrupted")
    """
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = {**os.environ, "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True, env=environment)
        silent.settimeout(60)
        asked = silent.accept()[0]
        child.send_signal(signal.SIGINT)
        try:
            out = child.communicate(timeout=15)[0]  # a program that waits for the answer takes 20 s, twice
        finally:
            child.kill()
            asked.close()
    assert child.returncode == 0 and out == "interrupted\n"
