# SPDX-License-Identifier: Apache-2.0
"""Caches of objects: the same samples with fewer requests, whatever happens to the disk or to another process; and `stoker cache`."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest
from stoker import Pipeline, Storage, fn
from stoker.errors import InvalidArgumentError, StokerError
from storage import BUILD, KEYS, Store, hashes, stoker
from support import SEED, child_process

SECRETS = {"access_key": KEYS["AWS_ACCESS_KEY_ID"], "secret_key": KEYS["AWS_SECRET_ACCESS_KEY"]}
TRAIN = "s3://photos/train"


@pytest.fixture
def store(tree, tmp_path, monkeypatch):
    for name in ("train", "val"):
        shutil.copytree(tree, tmp_path / "store" / "photos" / name)
    server = Store(tmp_path / "store")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    server.close()


class Cached:
    """A context with a Storage that has a cache. The end of the context waits until the cache has written all objects."""

    def __init__(self, folder, **more):
        self.storage = Storage(cache=folder, hedging=False, **more)

    def __enter__(self):
        return self.storage

    def __exit__(self, *_):
        while self.counters()["cache_pending_bytes"]:
            time.sleep(0.005)

    def counters(self):
        return self.storage.counters()


def read(folder, source=TRAIN, **more):
    """Reads one epoch with a pipeline of its own. Returns its samples, and the counters after everything was written to the cache."""
    cached = Cached(folder, **more)
    with cached as storage:
        out = hashes(source, storage=storage)
    return out, cached.counters()


def entries(folder):
    return sorted(p for p in folder.glob("??/*") if p.is_file())


def size_of(folder):
    return sum(p.stat().st_size for p in entries(folder))


@pytest.mark.essential
def test_the_second_run_asks_for_nothing(store, tree, tmp_path):
    want = hashes(tree)
    first, counted = read(tmp_path / "cache")
    assert first == want and counted["cache_kept"] == len(entries(tmp_path / "cache")) == 21
    assert counted["cache_bytes"] == size_of(tmp_path / "cache") and counted["storage_requests"] >= 21
    second, counted = read(tmp_path / "cache")
    assert second == want and counted["cache_hits"] >= 21
    assert counted["cache_misses"] == counted["cache_kept"] == counted["cache_left_out"] == 0
    other, counted = read(tmp_path / "cache", endpoint=store.url + "/")  # the endpoint comes from an argument instead of the environment
    assert other == want and counted["cache_misses"] == 0


@pytest.mark.parametrize("indexed", [False, True])
def test_what_has_changed_is_fetched_again(store, tree, tmp_path, indexed):
    """The ETag in a listing or an index shows that an object has changed; the sizes are the same."""
    source = tmp_path / "train.stoker" if indexed else TRAIN

    def look():
        if indexed:
            stoker("index", TRAIN, "-o", source)

    look()
    want = hashes(tree)
    assert read(tmp_path / "cache", source)[0] == want
    store.set("change=0.5&seed=3")
    assert hashes(TRAIN, storage=Storage(retries=40)) == want
    store.set("")
    look()
    again, counted = read(tmp_path / "cache", source)
    assert again == want and 0 < counted["cache_stale"] == counted["cache_misses"] == counted["cache_kept"] <= 21
    again, counted = read(tmp_path / "cache", source)
    assert again == want and counted["cache_stale"] == counted["cache_misses"] == 0


def test_what_is_damaged_is_fetched_again(store, tmp_path):
    folder = tmp_path / "cache"
    want, _ = read(folder)
    files = entries(folder)
    data = files[0].read_bytes()
    files[0].write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])  # flips a bit of the object's bytes
    files[1].write_bytes(files[1].read_bytes()[:-1])
    files[2].write_bytes(b"")
    files[3].write_bytes(files[4].read_bytes())  # the file now contains the entry of another object
    report = json.loads(stoker("cache", "verify", folder, "--json"))
    assert report["damaged"] == 4 and report["entries"] == 17 and not any(f.exists() for f in files[:4])
    assert read(folder)[0] == want and len(entries(folder)) == 21
    for f in files[:3]:
        f.write_bytes(data[:90])
    whole = bytearray(files[3].read_bytes())
    whole[56:72] = struct.pack("<QQ", 0, len(whole) - 88)  # the header says that only the URI follows it
    files[3].write_bytes(whole)
    got, counted = read(folder)
    assert got == want and counted["cache_damaged"] + counted["cache_misses"] >= 4 and counted["cache_kept"] == 4
    assert json.loads(stoker("cache", "verify", folder, "--json")) == {
        "entries": 21, "bytes": size_of(folder), "damaged": 0, "removed": 0, "removed_bytes": 0,
    }  # fmt: skip


def test_it_is_filled_to_its_limit(store, tree, tmp_path):
    """Entries stay while one data set is read again and again. Entries that two runs have not used are removed if their room is needed, and so are entries over
    a limit that has become smaller."""
    folder, want = tmp_path / "cache", hashes(tree)
    limit = sum(p.stat().st_size + 200 for p in tree.glob("*/*.jpg")) // 2
    kept = []
    for _ in range(3):
        got, counted = read(folder, cache_limit=limit)
        assert got == want and 0 < size_of(folder) <= limit and counted["cache_bytes"] == size_of(folder)
        kept.append({p.name for p in entries(folder)})
    assert kept[0] <= kept[1] <= kept[2] and counted["cache_hits"] >= len(kept[1]) > 2
    state_back(folder)
    for _ in range(3):  # before the first run the cache is full of objects that the last run used
        assert read(folder, "s3://photos/val", cache_limit=limit)[0] == want
        state_back(folder)
    assert size_of(folder) <= limit
    assert sum("photos/val" in line for line in stoker("cache", "list", folder).splitlines()) > 2
    read(folder, "s3://photos/val", cache_limit=limit // 2)
    assert size_of(folder) <= limit // 2


def state_back(folder):
    """Makes the entries' times, and the start times of the last two runs in the state file, half an hour older. The cache compares them in whole
    seconds, and without this the runs of a test could begin within one second."""
    for p in entries(folder):
        s = p.stat()
        os.utime(p, (s.st_mtime - 1800, s.st_mtime - 1800))
    state = bytearray((folder / "state").read_bytes())
    for at in (16, 24):
        begun = int.from_bytes(state[at : at + 8], "little") - 1800
        state[at : at + 8] = max(begun, 0).to_bytes(8, "little")
    (folder / "state").write_bytes(state)


CHILD = """
    import hashlib, resource, sys, time
    import numpy as np
    from stoker import Storage, fn, pipeline_def

    folder, file_size = sys.argv[1], int(sys.argv[2])
    if file_size:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))
    storage = Storage(cache=folder, hedging=False)
    print("begun", flush=True)

    @pipeline_def(batch_size=7, num_threads=2, storage=storage)
    def pipe():
        return fn.readers.file(file_root="s3://photos/train")

    p, seen = pipe(), hashlib.md5()
    for _ in range(3):
        for sample in p.run()[0]:
            seen.update(np.asarray(sample).tobytes())
    while storage.counters()["cache_pending_bytes"]:
        time.sleep(0.005)
    p.run()  # shows the notices that have come
    print(seen.hexdigest(), int(storage.counters()["cache_kept"]))
"""


@pytest.fixture
def child():
    with contextlib.ExitStack() as children:

        def start(folder, file_size=0):
            command = [sys.executable, "-c", textwrap.dedent(CHILD), str(folder), str(file_size)]
            return children.enter_context(child_process(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))

        yield start


def ends(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    seen, kept = out.split()[1:]
    return (seen, int(kept)), err


def test_two_processes_fetch_an_object_once(store, tmp_path, child):
    store.set("latency_ms=30")
    before = store.counts()["requests"]
    children = [child(tmp_path / "cache") for _ in range(2)]
    (a, b) = [ends(c)[0] for c in children]
    assert a[0] == b[0] and a[1] + b[1] == len(entries(tmp_path / "cache")) == 21
    listings = 4  # one of the root and one of each class
    assert store.counts()["requests"] < before + 2 * (21 + listings), (
        "both have fetched all; one that waits too long for the other may fetch an object too"
    )


def test_a_killed_process_costs_nothing(store, tree, tmp_path, child):
    """Other processes can fetch the objects that the killed process was about to fetch, its unfinished files are removed, and the count of used bytes is not
    too small."""
    folder = tmp_path / "cache"
    store.set("latency_ms=20&jitter_ms=200")
    victim = child(folder)
    assert victim.stdout.readline() == "begun\n"
    while not entries(folder):
        time.sleep(0.002)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    (folder / "tmp" / "1-2-1000").write_bytes(b"half of it")  # a process that is killed while it writes leaves such a file
    state = bytearray((folder / "state").read_bytes())
    used = int.from_bytes(state[8:16], "little")
    state[8:16] = (used + 1000).to_bytes(8, "little")
    (folder / "state").write_bytes(state)
    store.set("")
    got, counted = read(folder)
    assert got == hashes(tree) and len(entries(folder)) == 21 and not list((folder / "tmp").iterdir())
    json.loads(stoker("cache", "verify", folder, "--json"))
    assert size_of(folder) <= counted["cache_bytes"] <= size_of(folder) + 21 * 60000


def test_a_disk_that_refuses_is_one_line(store, tree, tmp_path, child):
    assert max(p.stat().st_size for p in tree.glob("*/*.jpg")) > 4096  # at least one file is too large for the limit of 4096 bytes
    tmp_path.joinpath("odd", "state").mkdir(parents=True)  # a folder in place of the file stops root too; missing permissions would not
    Storage(cache=tmp_path / "whole")
    shutil.copy(tmp_path / "whole" / "CACHEDIR.TAG", tmp_path / "odd")
    children = [child(tmp_path / "whole"), child(tmp_path / "full", file_size=4096), child(tmp_path / "odd")]
    (want, err), (full, full_err), (odd, odd_err) = [ends(c) for c in children]
    assert want[1] == 21 and "cache" not in err and odd == (want[0], 0) and full[0] == want[0] and full[1] < 21
    assert [line for line in full_err.splitlines() if "cache" in line] == [
        f"stoker: cache: {tmp_path / 'full'}: cannot write to it: File too large; nothing more is added to it in this run"
    ]
    said = f"stoker: cache: {tmp_path / 'odd'} cannot be written to (Is a directory): its entries are used, and none are added"
    assert [line for line in odd_err.splitlines() if "cache" in line] == [said]


def test_what_cannot_be_a_cache(store, tree, tmp_path):
    with pytest.raises(InvalidArgumentError, match="holds other files and is not a Stoker cache"):
        Storage(cache=tree)
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "in" / "it"):
        with pytest.raises(InvalidArgumentError, match="is not a folder, and none could be made: Not a directory"):
            Storage(cache=path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(InvalidArgumentError, match="could be made: Too many levels of symbolic links"):
        Storage(cache=tmp_path / "loop")
    assert f"{tmp_path}/loop: it cannot be opened: Too many levels" in stoker("cache", "list", tmp_path / "loop", code=1)
    for limit in (0, -1, "much", "1 PB", True):
        with pytest.raises(InvalidArgumentError, match=r"cache_limit is (a number of bytes|at least 1|a whole number)"):
            Storage(cache=tmp_path / "c", cache_limit=limit)
    with pytest.raises(StokerError, match="cache_limit goes with cache"):
        Storage(cache_limit="1GB")
    assert "is not a Stoker cache" in stoker("cache", "clear", tree, code=1)
    assert len(list(tree.glob("*/*.jpg"))) == 21
    assert "it is list DIR, verify DIR" in stoker("cache", "burn", tmp_path, code=2)


def test_in_memory(store, child):
    """The cache outlives the process, and only processes of one user share it. Wherever a cache's folder is named, the word "memory" stands for the folder
    in memory."""
    folder = Path(f"/dev/shm/stoker-{os.geteuid()}")
    try:
        _, first = read("memory")
        assert first["cache_misses"] == 21
        assert folder.stat().st_mode & 0o777 == 0o700
        folder.chmod(0o755)  # an earlier version left the folder with these rights
        (_, kept), _ = ends(child("memory"))
        assert kept == 0
        assert folder.stat().st_mode & 0o777 == 0o700
        listed = json.loads(stoker("cache", "list", "memory", "--json"))
        assert len([e for e in listed["list"] if e["uri"].startswith(TRAIN)]) >= 21
    finally:
        if folder.is_dir():
            stoker("cache", "clear", "memory", f"{TRAIN}/")


def test_the_default_limit_in_memory_leaves_memory(tmp_path):
    """A file system in memory may be as large as all memory, also as what a container may not use."""

    def available():
        return int(re.search(r"MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text())[1]) << 10

    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        before = available()
        limit = Storage(cache=folder).counters()["cache_limit"]
        assert 0 < limit <= 0.5 * max(before, available()) + (256 << 20)  # other programs take and release memory meanwhile
    assert Storage(cache=tmp_path / "c", cache_limit=12345).counters()["cache_limit"] == 12345


def test_a_folder_of_anothers_is_no_memory(store, tmp_path):
    """Any user may create any folder in /dev/shm first, so a folder that another user owns is not trusted."""
    script = """
        import os, sys
        import stoker
        stoker.Storage, stoker.errors.InvalidArgumentError  # what another user may not be allowed to load
        os.seteuid(54321)
        os.symlink(sys.argv[1], f"/dev/shm/stoker-{os.geteuid()}")
        try:
            stoker.Storage(cache="memory")
        except stoker.errors.InvalidArgumentError as e:
            print(e)
        finally:
            os.unlink(f"/dev/shm/stoker-{os.geteuid()}")
    """
    if os.geteuid() != 0:
        pytest.skip("only root can run as a user who has no such folder")
    (tmp_path / "planted").mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "planted")]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert "is not this user's own folder" in done.stdout, done.stderr


def test_the_command(store, tree, tmp_path):
    folder = tmp_path / "cache"
    report = json.loads(stoker("cache", "warm", TRAIN, "--cache", folder, "--cache-limit", "1GB", "--json"))
    assert report["fetched"] == report["kept"] == 21 and report["there"] == report["left_out"] == report["failed"] == 0
    report = json.loads(stoker("cache", "warm", TRAIN, "--cache", folder, "--endpoint", store.url, "--json"))
    assert report["there"] == 21 and report["fetched"] == 0
    assert read(folder)[1]["cache_misses"] == 0
    listed = json.loads(stoker("cache", "list", folder, "--json"))
    assert {e["uri"] for e in listed["list"]} == {f"{TRAIN}/{p.parent.name}/{p.name}" for p in tree.glob("*/*.jpg")}
    assert sum(e["bytes"] for e in listed["list"]) == sum(p.stat().st_size for p in tree.glob("*/*.jpg"))
    assert "21 entries" in stoker("cache", "verify", folder)
    (folder / "mine.txt").write_text("kept")
    assert "removed 7 entries" in stoker("cache", "clear", folder, f"{TRAIN}/class1/")
    assert json.loads(stoker("cache", "clear", folder, "--json"))["removed"] == 14
    assert (folder / "mine.txt").exists() and not entries(folder)
    assert f"{tree} lies on this host: a cache keeps what comes over a network" in stoker("cache", "warm", tree, "--cache", folder, code=1)
    stoker("index", tree, "-o", tmp_path / "local")
    assert "lies on this host" in stoker("cache", "warm", tmp_path / "local", "--cache", folder, code=1)
    assert "--cache DIR is missing" in stoker("cache", "warm", TRAIN, code=2)


def test_warm_counts_each_object_once_and_names_those_that_fail(store, tree, tmp_path):
    """The counts leave out objects that the pipeline reads ahead for the next epoch, even if the cache is too small for all objects."""
    small = json.loads(stoker("cache", "warm", TRAIN, "--cache", tmp_path / "small", "--cache-limit", "2KB", "--json"))
    assert small["fetched"] == 21 and small["there"] == small["failed"] == 0 and small["left_out"] <= 21
    there = sorted(tree.glob("*/*.jpg"))[0]
    listed = tmp_path / "some.txt"
    listed.write_text(f"{TRAIN}/none.jpg\n{TRAIN}/{there.parent.name}/{there.name}\n")
    said = stoker("cache", "warm", listed, "--cache", tmp_path / "cache", code=1)
    assert said.startswith("0 objects were there, 1 was fetched") and f"1 object could not be read:\n  {TRAIN}/none.jpg: " in said
    facts = json.loads(stoker("cache", "warm", listed, "--cache", tmp_path / "cache", "--json", code=1))
    assert (facts["there"], facts["fetched"], facts["failed"]) == (1, 0, 1)


@pytest.mark.parametrize("line", ["{uri}\n", "{uri} 3\n", "  {uri}\t\r\n\n"])
def test_a_list_is_warmed(store, tree, tmp_path, line):
    """`stoker cache warm` takes a list of URIs with or without labels, as its help suggests. It refuses lists of local files, and empty ones."""
    listed = tmp_path / "some.txt"
    uris = [f"{TRAIN}/{p.parent.name}/{p.name}" for p in sorted(tree.glob("*/*.jpg"))][:5]
    listed.write_text("".join(line.format(uri=uri) for uri in uris))
    report = json.loads(stoker("cache", "warm", listed, "--cache", tmp_path / "cache", "--json"))
    assert (report["fetched"], report["kept"], report["failed"]) == (5, 5, 0)
    entries = json.loads(stoker("cache", "list", tmp_path / "cache", "--json"))["list"]
    assert sorted(e["uri"] for e in entries) == sorted(uris)
    listed.write_text("".join(f"{p} 1\n" for p in tree.glob("*/*.jpg")))
    assert "lies on this host" in stoker("cache", "warm", listed, "--cache", tmp_path / "cache", code=1)
    listed.write_text("")
    assert str(listed) in stoker("cache", "warm", listed, "--cache", tmp_path / "cache", code=1)


def test_what_cannot_be_removed_is_not_counted_as_removed(store, tmp_path):
    """`stoker cache clear` reports that it removed nothing, and fails, if its user may not write to the cache."""
    stoker("cache", "warm", TRAIN, "--cache", tmp_path / "cache")
    with tempfile.TemporaryDirectory(dir="/tmp") as public:
        os.chmod(public, 0o755)
        folder = Path(public) / "cache"
        shutil.copytree(tmp_path / "cache", folder)
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        user = {"user": 65534} if os.geteuid() == 0 else {}
        command = [str(BUILD / "cli/stoker"), "cache", "clear", str(folder), "--json"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, **user)
        except PermissionError:
            pytest.skip(f"another user may not run {command[0]}")
        report = json.loads(done.stdout)
        assert (report["removed"], report["removed_bytes"], report["entries"]) == (0, 0, 21)
        assert done.returncode == 1 and f"21 entries could not be removed: may this user write to {folder}?" in done.stderr
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)


def test_a_function_is_called_once(tree, tmp_path):
    calls = []

    def fetch(uri, offset, length):
        calls.append(uri)
        return (tree / uri[6:]).read_bytes()

    files = [(f"mem://{p.parent.name}/{p.name}", 0) for p in sorted(tree.glob("*/*.jpg"))]
    outs = [read(tmp_path / "cache", files, fetch=fetch, fetch_name="tree")[0] for _ in range(2)]
    assert outs[0] == outs[1] and sorted(calls) == sorted(uri for uri, _ in files)


def test_stores_of_two_functions_are_kept_apart(tmp_path):
    """Two programs use the same cache and the same URIs for different stores."""

    def sums(name, value):
        storage = Storage(fetch=lambda uri, offset, length: bytes([value]) * 100, fetch_name=name, cache=tmp_path / "cache")
        p = Pipeline(2, 1, None, storage=storage)
        with p:
            p.set_outputs(fn.readers.file(files=["data://a", "data://b"])[0])
        p.build()
        got = [int(p.run()[0].at(k).sum()) for k in range(2)]
        p.close()
        while storage.counters()["cache_pending_bytes"]:
            time.sleep(0.005)
        return got, storage.counters()["cache_misses"]

    assert sums("one", 1) == ([100, 100], 2)
    assert sums("two", 2) == ([200, 200], 2)
    assert sums("one", 3) == ([100, 100], 0), "from the cache"
    with pytest.raises(InvalidArgumentError, match="fetch and cache need fetch_name, a name of the store"):
        Storage(fetch=print, cache=tmp_path / "cache")
    with pytest.raises(InvalidArgumentError, match="fetch_name go with fetch"):
        Storage(fetch_name="one")


def test_an_object_that_is_larger_than_all_that_may_wait(tmp_path):
    """Up to 64 MiB may wait to be written, but one larger object may wait by itself."""
    data, calls = random.Random(SEED).randbytes(65 << 20), []

    def fetch(uri, offset, length):
        calls.append(uri)
        return data[offset:]

    for run in range(2):
        cached = Cached(tmp_path / "cache", fetch=fetch, fetch_name="one")
        with cached as storage, Pipeline(1, 1, None, storage=storage) as p:
            p.set_outputs(fn.readers.file(files=["data://a"])[0])
            p.build()
            assert p.run()[0].at(0).tobytes() == data
            p.close()
        assert cached.counters()["cache_kept"] == (1, 0)[run] and calls == ["data://a"]
