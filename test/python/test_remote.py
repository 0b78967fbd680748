# SPDX-License-Identifier: Apache-2.0
"""stoker.Storage: settings that the program passes, TLS, the user's functions as sources, listings, and endpoints that do not answer."""

import contextlib
import io
import os
import pickle
import pty
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
import stoker
from stoker import Loader, Storage, fn, pipeline_def
from stoker import transforms as T
from stoker.errors import ReadError, StokerError
from storage import BUILD, KEYS, Store, tls_door
from storage import hashes as run
from support import child_process, tar_of

SECRETS = {"access_key": KEYS["AWS_ACCESS_KEY_ID"], "secret_key": KEYS["AWS_SECRET_ACCESS_KEY"]}


@pytest.fixture(scope="module")
def store(tree, tmp_path_factory):
    root = tmp_path_factory.mktemp("store")
    shutil.copytree(tree, root / "photos" / "train")
    server = Store(root)
    server.root = root / "photos"
    yield server
    server.close()


@pytest.fixture(autouse=True)
def environment(store, monkeypatch):
    """Removes all AWS settings from the environment, and prevents the use of the machine's AWS files, metadata service and proxies. Tests pass the store's
    address and keys themselves. The store's listings have short pages."""
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_EC2_METADATA_DISABLED", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "NO_PROXY"):
        monkeypatch.setenv(name, store.environment[name])
    store.set("page=5")


@pytest.mark.essential
def test_settings_of_the_program(store, tree, tmp_path, monkeypatch):
    """The program's settings take precedence over the environment, and apply only to the pipelines that receive them."""
    given = Storage(endpoint=store.url, requests=8, retries=3, hedging=False, answer_timeout=5, **SECRETS)
    assert run("s3://photos/train", storage=given, epochs=2) == run(tree, epochs=2)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "one")
    monkeypatch.setenv("AWS_NO_SIGN_REQUEST", "yes")
    assert run("s3://photos/train", storage=given) == run(tree)

    @pipeline_def(batch_size=21, num_threads=2, storage=given)
    def pipe():
        return fn.readers.file(file_root="s3://photos/train")

    assert len(pipe().run()[0]) == 21
    config = tmp_path / "config"
    config.write_text(
        f"[profile other]\naws_access_key_id = {SECRETS['access_key']}\naws_secret_access_key = {SECRETS['secret_key']}\nendpoint_url = {store.url}/\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    assert run("s3://photos/train", storage=Storage(profile="other", path_style=True)) == run(tree)
    with pytest.raises(ReadError, match="403 AccessDenied"):
        run("s3://photos/train", storage=Storage(endpoint=store.url, anonymous=True))
    with pytest.raises(StokerError, match=r"the profile \(AWS_PROFILE\) is \"none\""):
        run("s3://photos/train", storage=Storage(profile="none"))


def test_settings_that_cannot_be(store, tmp_path):
    def refused(said, **given):
        with pytest.raises((StokerError, TypeError), match=said) as e:
            Storage(**given)
        assert "sEcReT" not in str(e.value)

    refused("access_key and secret_key go together", secret_key=SECRETS["secret_key"])
    refused("session_token goes with", session_token="sEcReT")
    refused("anonymous and access_key exclude", anonymous=True, **SECRETS)
    refused("profile and access_key exclude", profile="p", **SECRETS)
    refused(r"the endpoint \(endpoint\) is not http://", endpoint="ftp://u:sEcReT@host")
    refused("requests is at least 1, not 0", requests=0)
    refused("answer_timeout is a number of seconds", answer_timeout=0)
    refused(r"ca_bundle: .*/none\.pem: cannot read it: No such file", ca_bundle=tmp_path / "none.pem")
    refused("cache is empty: name a folder", cache="")
    refused("access_key is a string", access_key=3, secret_key="sEcReT")
    refused("path_style is True, False or None", path_style="path")
    refused("fetch_schemes, fetch_threads and fetch_name go with fetch", fetch_threads=2)
    with pytest.raises(TypeError, match=r"storage is a stoker\.Storage, not str"):
        run("s3://photos/train", storage="s3://photos")
    with pytest.raises(TypeError, match=r"storage is a stoker\.Storage, not dict"):
        stoker.Pipeline(2, storage={})


def test_no_secret_is_printed(store, tmp_path):
    secrets = {"access_key": "AKIAhIdDeN", "secret_key": "sEcReT/1", "session_token": "tOkEn/2"}
    given = Storage(endpoint=store.url, proxy="http://u:pAsSwOrD@127.0.0.1:1", **secrets)
    texts = [repr(given), str(vars(given))]
    for make in (lambda: pickle.dumps(given), lambda: run("s3://photos/train", storage=given)):
        with pytest.raises((TypeError, StokerError)) as e:
            make()
        texts += [str(e.value), repr(e.value), repr(e.value.__dict__)]
    given = Storage(endpoint=store.url, **secrets)
    with pytest.raises(ReadError, match="403") as e:
        run("s3://photos/train", storage=given, trace=tmp_path / "trace")
    texts += [str(e.value), repr(e.value), repr(e.value.__dict__)]

    @pipeline_def(batch_size=2, num_threads=2, storage=given, trace=tmp_path / "trace")
    def pipe():
        return fn.readers.file(files=["s3://photos/train/class0/000.jpg"], tail="keep")

    p = pipe()
    p.build()
    texts += [p.serialize().decode(), p.checkpoint().decode(), repr(p.__dict__), p.explain() if hasattr(p, "explain") else ""]
    with contextlib.suppress(StokerError):
        p.run()
    del p
    texts += [f.read_text() for f in tmp_path.iterdir()]
    for text in texts:
        assert not any(s in text for s in ("sEcReT", "tOkEn", "hIdDeN", "pAsSwOrD")), text


def test_plain_settings_are_pickled(store):
    again = pickle.loads(pickle.dumps(Storage(endpoint=store.url, anonymous=True, retries=0)))
    assert repr(again) == repr(Storage(endpoint=store.url, anonymous=True, retries=0)) and again.core() is not None
    assert "retries=0" in repr(again) and "retries" not in repr(Storage()) and "retries=7" in repr(Storage(retries=7))


# ---- TLS ----


@pytest.fixture(scope="module")
def tls(store, tmp_path_factory):
    with tls_door(store, tmp_path_factory.mktemp("tls")) as door:
        yield door


def test_only_a_trusted_certificate_is_accepted(tls, tree, monkeypatch):
    """The program, AWS's variable or OpenSSL's variable names the certificate authority; without one the connection is refused."""
    url, authority = tls
    want = run(tree)
    assert run("s3://photos/train", storage=Storage(endpoint=url, ca_bundle=authority, requests=8, **SECRETS)) == want
    with pytest.raises(ReadError, match="certificate"):
        run("s3://photos/train", storage=Storage(endpoint=url, retries=1, requests=8, **SECRETS))
    for name in ("AWS_CA_BUNDLE", "SSL_CERT_FILE"):
        with monkeypatch.context() as patch:
            patch.setenv(name, str(authority))
            assert run("s3://photos/train", storage=Storage(endpoint=url, requests=8, **SECRETS)) == want


@pytest.mark.parametrize("most", [300, 3000, 1 << 15])
def test_records_of_any_size(tmp_path, most):
    """Responses are read correctly if TLS records split headers and bodies at any byte."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    draw = random.Random(seed)
    sizes = [0, 1, *(draw.randrange(700_000 if most > 300 else 50_000) for _ in range(6))]
    (tmp_path / "b").mkdir()
    for i, n in enumerate(sizes):
        (tmp_path / "b" / f"{i}.bin").write_bytes(draw.randbytes(n))
    store = Store(tmp_path)
    try:
        with tls_door(store, tmp_path, lambda: draw.randint(1, most)) as (url, authority):
            storage = Storage(endpoint=url, ca_bundle=authority, requests=4, **SECRETS)

            @pipeline_def(batch_size=len(sizes), num_threads=1, storage=storage)
            def pipe():
                return fn.readers.file(files=[f"s3://b/{i}.bin" for i in range(len(sizes))])[0]

            (out,) = pipe().run()
            for i in range(len(sizes)):
                assert bytes(out.at(i)) == (tmp_path / "b" / f"{i}.bin").read_bytes(), f"{sizes[i]} bytes"
    finally:
        store.close()


# ---- the user's functions ----


class Bucket:
    """A Storage's fetch function over a folder, which counts the calls for each object. fail(uri, tries): the error to raise in this call, or None."""

    def __init__(self, root, fail=lambda uri, tries: None):
        self.root, self.fail, self.tries, self.lock = root, fail, {}, threading.Lock()

    def __call__(self, uri, offset, length):
        with self.lock:
            tries = self.tries[uri] = self.tries.get(uri, 0) + 1
        error = self.fail(uri, tries)
        if error is not None:
            raise error
        with open(self.root / uri.partition("://")[2], "rb") as f:
            f.seek(offset)
            return memoryview(f.read(-1 if length is None else length))


def listed(tree, scheme="mem"):
    return [(f"{scheme}://{p.parent.name}/{p.name}", int(p.parent.name[-1])) for p in sorted(tree.glob("*/*.jpg"))]


@pytest.mark.essential
def test_a_function_as_the_source(store, tree):
    """Samples and their order stay the same, even if the function sometimes fails."""
    want = run([(str(tree / uri[6:]), label) for uri, label in listed(tree)], epochs=2)
    assert run(listed(tree), storage=Storage(fetch=Bucket(tree)), epochs=2) == want
    flaky = Bucket(tree, lambda uri, tries: OSError("not now") if tries == 1 and int(uri[-5]) % 3 == 0 else None)
    assert run(listed(tree), storage=Storage(fetch=flaky, fetch_threads=3), epochs=2) == want
    assert all(flaky.tries["mem" + uri[3:]] > 1 for uri, _ in listed(tree))
    both = Bucket(tree)
    other = Storage(fetch=both, fetch_schemes=("mem", "gs"), endpoint=store.url, **SECRETS)
    mixed = [
        ("s3://photos/train" + uri[5:] if i % 3 == 0 else "gs" + uri[3:] if i % 3 == 1 else uri, label)
        for i, (uri, label) in enumerate(listed(tree))
    ]
    assert run(mixed, storage=other, epochs=2) == want and len(both.tries) == 14


@pytest.fixture
def itself():
    """A dict for the Storage through which the user's functions read themselves. It is emptied at the end, since the two would keep each other alive."""
    made = {}
    yield made
    made.clear()


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_a_function_that_reads_through_its_own_storage(tree, tmp_path, itself, cached, fails):
    """Each call makes a second one, which makes a third one, all on the only thread. Some of the innermost calls fail once."""
    want = run([(str(tree / uri[6:]), label) for uri, label in listed(tree)], epochs=2)
    inner = Bucket(tree, lambda uri, tries: OSError("not now") if fails and tries == 1 and int(uri[-5]) % 3 == 0 else None)

    def fetch(uri, offset, length):
        scheme, _, name = uri.partition("://")
        if scheme == "c":
            return inner(uri, offset, length)
        size = (tree / name).stat().st_size - offset if length is None else length
        data = itself["storage"].core().read(f"{chr(ord(scheme) + 1)}://{name}", offset, size)[0]
        return memoryview(data)[:size]

    cache = {"cache": tmp_path / "cache", "fetch_name": "tree"} if cached else {}
    itself["storage"] = Storage(fetch=fetch, fetch_threads=1, **cache)
    assert run(listed(tree, "a"), storage=itself["storage"], epochs=2) == want
    assert len(inner.tries) == 21 and {uri[0] for uri in inner.tries} == {"c"}


@pytest.mark.parametrize("grows", [False, True])
def test_a_function_that_reads_itself_without_end(tree, itself, grows):
    said = []

    def fetch(uri, offset, length):
        try:
            return itself["storage"].core().read(uri + "x" * grows, offset, 9)[0]
        except Exception as e:
            said.append(str(e))
            raise

    itself["storage"] = Storage(fetch=fetch, fetch_threads=1, retries=0)
    with pytest.raises(ReadError, match="fetch raised"):
        run(listed(tree, "a")[:1], storage=itself["storage"])
    assert "jpg" in said[0] and "the fetch function reads through its own storage again and again, without end" in said[0]


def test_a_list_that_lists_through_its_own_storage(tree, itself):
    def files(uri):
        if uri.startswith("b://"):
            return [(uri + path.name, path.stat().st_size) for path in (tree.parent / uri[4:]).glob("*.jpg")]
        found = itself["storage"].core().find([f"b://{tree.name}/class{k}/*.jpg" for k in range(3)])
        return [("a" + os.fsdecode(name)[1:], size) for name, size, _ in found]

    itself["storage"] = Storage(fetch=Bucket(tree.parent), list=files, fetch_threads=1, retries=0)
    assert run(f"a://{tree.name}", storage=itself["storage"]) == run(tree)


def test_failures_of_a_function(store, tree):
    def fails(error, said, kind=ReadError, **more):
        source = Bucket(tree, lambda uri, _: error if uri.endswith("class1/003.jpg") else None)
        with pytest.raises(kind, match=said) as e:
            run(listed(tree), storage=Storage(fetch=source, **more))
        assert "mem://class1/003.jpg" in str(e.value)

    fails(TypeError("a mistake"), "fetch raised TypeError: a mistake")
    fails(PermissionError("no"), "fetch raised PermissionError: no")
    fails(FileNotFoundError("gone"), "fetch raised FileNotFoundError: gone", FileNotFoundError)
    fails(ConnectionError("down"), "fetch raised ConnectionError: down", retries=1)
    gone = Storage(fetch=Bucket(tree, lambda uri, _: FileNotFoundError() if uri.endswith("class1/003.jpg") else None))
    loader = Loader(listed(tree), 21, transforms=[T.Resize((8, 8))], on_error="skip", storage=gone, fields=("image", "index"))
    assert next(iter(loader)).index.tolist() == [i for i in range(21) if i != 10]
    for answer, said in ((None, "fetch raised TypeError"), ("text", "fetch raised TypeError"), (b"", "mem://class0/000.jpg")):
        with pytest.raises(StokerError, match=said):
            run(listed(tree)[:4], storage=Storage(fetch=lambda *_, a=answer: a))


def test_ranges_of_a_function(store, tree, tmp_path):
    """Parts of archives are requested by offset and length; too few or too many bytes are an error."""

    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        for i, path in enumerate(sorted(tree.glob("*/*.jpg"))[:6]):
            tar.add(path, f"{i}.jpg")
    lines = ["v1.2 6"]
    with tarfile.open(tmp_path / "a.tar") as tar:
        lines += [f"jpg {m.offset_data} {m.size} {m.name}" for m in tar.getmembers()]
    (tmp_path / "a.idx").write_text("\n".join(lines) + "\n")

    def pipe(source, path):
        @pipeline_def(batch_size=6, num_threads=2, storage=source)
        def definition():
            return fn.readers.webdataset(paths=[path], index_paths=[str(tmp_path / "a.idx")], ext=["jpg"])

        return [np.asarray(x).tobytes() for x in definition().run()[0]]

    calls = []

    def fetch(uri, offset, length):
        calls.append((uri, offset, length))
        return Bucket(tmp_path)(uri, offset, length)

    assert pipe(Storage(fetch=fetch), "mem://a.tar") == pipe(None, str(tmp_path / "a.tar"))
    assert {u for u, _, _ in calls} == {"mem://a.tar"} and all(o > 0 and n > 0 for _, o, n in calls)
    with pytest.raises(StokerError, match="the fetch function gave 5"):
        pipe(Storage(fetch=lambda *_: bytes(5)), "mem://a.tar")
    with pytest.raises(StokerError, match="bytes were asked for, and the fetch function gave 9999999"):
        pipe(Storage(fetch=lambda *_: bytes(9999999)), "mem://a.tar")


def pack(path, images):
    with tarfile.open(path, "w") as tar:
        for i, image in enumerate(images):
            tar.add(image, f"{i:03}.jpg")
            label = tarfile.TarInfo(f"{i:03}.cls")
            label.size = 2
            tar.addfile(label, io.BytesIO(b"%02d" % i))


class Folder(Bucket):
    """A bucket that also lists its objects, and records the URIs of the listings."""

    def __init__(self, root, fail=lambda uri, tries: None):
        super().__init__(root, fail)
        self.listed = []

    def list(self, uri):
        self.listed.append(uri)
        top = self.root / uri.partition("://")[2]
        return [(f"{uri}{p.relative_to(top).as_posix()}", p.stat().st_size) for p in sorted(top.rglob("*"), reverse=True) if p.is_file()]


def test_a_function_that_lists(store, tree, tmp_path, monkeypatch):
    """If a fetch function comes with a function that lists, Loader reads folders, globs, folders of arrays and tars without an index as from a bucket,
    also if calls fail, and with a cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    root = tmp_path / "root"
    shutil.copytree(tree, root / "b" / "a b" / "train")
    (root / "b" / "a b" / "train" / "class1" / "\u00e9+%41 &<.jpg").write_bytes((tree / "class0" / "000.jpg").read_bytes())
    source = Folder(root)
    want = run(root / "b" / "a b" / "train", epochs=2)
    assert run("mem://b/a b/train", storage=Storage(fetch=source, list=source.list), epochs=2) == want and len(want) == 44
    assert source.listed == ["mem://b/a b/train/"], "once for all classes"
    flaky = Folder(root, lambda uri, tries: OSError("not now") if tries == 1 else None)
    cached = Storage(fetch=flaky, list=flaky.list, fetch_schemes="mem", fetch_name="root", cache=tmp_path / "cache")
    assert run("mem://b/a b/train/", storage=cached, epochs=2) == want
    tries = sum(flaky.tries.values())
    assert run("mem://b/a b/train/", storage=cached, epochs=2) == want and sum(flaky.tries.values()) == tries, "from the cache"
    for k in range(3):
        pack(root / "b" / f"s-{k}.tar", sorted(tree.glob("*/*.jpg"))[5 * k : 5 * k + 5])
    local = run(str(root / "b" / "s-*.tar"))
    for path in ("mem://b/s-*.tar", "mem://b/s-{0..2}.tar"):
        source = Folder(root)
        assert run(path, storage=Storage(fetch=source, list=source.list)) == local, path
        assert {u for u in source.tries if u.endswith(".tar")} == {f"mem://b/s-{k}.tar" for k in range(3)}

    def fails(said, path="mem://b/a b/train", kind=StokerError, **given):
        with pytest.raises(kind, match=said):
            run(path, storage=Storage(**given))

    fails("its size is unknown.*a fetch function needs a list", "mem://b/s-0.tar", fetch=Bucket(root))
    fails("[*] stands for names only in s3:// URIs", "mem://b/s-*.tar", fetch=Bucket(root))
    fails(r"only s3://, gs:// and local folders can be listed; give .*stoker\.Storage\(fetch=\.\.\., list=", fetch=Bucket(root))
    fails("TypeError: list.*gives pairs of a URI that begins with it", fetch=source, list=lambda uri: [uri + "x.jpg"])
    fails("fetch raised ValueError: no such folder", fetch=source, list=raises(ValueError("no such folder")), retries=0)
    fails("no object whose key begins with", "mem://b/none", fetch=source, list=source.list)
    fails("list, fetch_schemes, fetch_threads and fetch_name go with fetch", list=source.list)
    fails("list is a function", fetch=source, list="b", kind=TypeError)
    again = pickle.loads(pickle.dumps(Storage(fetch=os.path.join, list=os.listdir)))
    assert "join" in repr(again)


def raises(error):
    def function(*_):
        raise error

    return function


def test_a_filesystem_of_fsspec(store, tree, tmp_path, monkeypatch):
    """One filesystem object replaces the two functions: it reads, lists and gives sizes."""
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    fs = fsspec.filesystem("memory")
    fs.put(str(tree) + "/", "/photos/train/", recursive=True)
    pack(tmp_path / "a.tar", sorted(tree.glob("*/*.jpg"))[:4])
    fs.put_file(str(tmp_path / "a.tar"), "/photos/a.tar")
    assert run("memory://photos/train", storage=Storage(fetch=fs)) == run(tree)
    assert run("memory://photos/*.tar", storage=Storage(fetch=fs)) == run(str(tmp_path / "a.tar"))
    fs.rm("/photos", recursive=True)


def test_what_no_archive_and_no_bucket_is(store):
    empty = Storage(fetch=lambda uri, offset, length: b"", list=lambda uri: [("mem://b/zero.tar", 0)])
    with pytest.raises(StokerError, match="it has fewer than 512 bytes"):
        Loader("mem://b/zero.tar", 4, storage=empty)
    for root in ("s3://", "s3:///train"):
        with pytest.raises(StokerError, match="it names no bucket"):
            Loader(root, 4)


def test_a_call_that_hangs_does_not_block_close(store, tree):
    """The Loader closes while calls are still waiting; their later results are dropped."""
    gate, begun = threading.Event(), threading.Semaphore(0)

    def fetch(uri, offset, length):
        begun.release()
        gate.wait(60)
        return Bucket(tree)(uri, offset, length)

    loader = Loader(listed(tree), 4, transforms=[T.Resize((8, 8))], storage=Storage(fetch=fetch))
    steps = iter(loader)
    results = []

    def take():
        try:
            results.append(next(steps))
        except StokerError as e:
            results.append(e)

    taker = threading.Thread(target=take, daemon=True)
    taker.start()
    assert begun.acquire(timeout=30)
    loader.close()
    taker.join(30)
    assert not taker.is_alive() and isinstance(results[0], StokerError)
    gate.set()


def test_unknown_schemes_name_the_ways_out(store):
    for uri, said in (
        ("hf://b/x.jpg", "fsspec"),
        ("az://b/x.jpg", "azcopy"),
    ):
        for source in ([(uri, 0)], uri.rpartition("/")[0]):
            with pytest.raises(StokerError) as e:
                run(source)
            assert said in str(e.value) and "stoker.Storage(fetch=" in str(e.value)
    for uri, said in (
        ("s3a://b/x.jpg", "write s3:// instead"),
        ("s3n://b/x.jpg", "write s3:// instead"),
        ("gcs://b/x.jpg", "write gs:// instead"),
    ):
        with pytest.raises(StokerError, match=said):
            run([(uri, 0)])


def test_uris_that_are_written_otherwise(store):
    for scheme in ("S3", "Gs", "HTTP"):
        for source in (f"{scheme}://b/train", [(f"{scheme}://b/x.jpg", 0)], f"{scheme}://b/x-{{0..1}}.tar", f"{scheme}://b/*.tar"):
            with pytest.raises(StokerError, match=r"written as in s3://bucket/prefix, in small letters"):
                run(source)
    for source in (Path("s3://b/train"), [(Path("s3://b/x.jpg"), 0)]):
        with pytest.raises(StokerError, match=r"pathlib\.Path removes one of the slashes"):
            run(source)


# ---- listings ----


def test_an_interrupt_ends_a_listing(store):
    """Ctrl-C does not wait for a store that never answers."""
    script = """
        import stoker
        try:
            stoker.Loader("s3://photos/train", 7)
        except KeyboardInterrupt:
            print("interrupted")
    """
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = {**os.environ, **KEYS, "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        with child_process([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, env=environment) as child:
            silent.settimeout(60)
            with silent.accept()[0]:
                child.send_signal(signal.SIGINT)
                out = child.communicate(timeout=15)[0]  # a program that waits for the listing takes 20 s and then tries again
    assert child.returncode == 0 and out == "interrupted\n"


def test_a_long_listing_shows_progress(store, tmp_path, capsys):
    """The Loader and the commands that list show progress, but only on a terminal."""
    store.set("latency_ms=700&page=3")
    for command in (
        [sys.executable, "-c", "from stoker import Loader; Loader('s3://photos/train', 7)"],
        [str(BUILD / "cli" / "stoker"), "index", "s3://photos/train", "-o", str(tmp_path / "index")],
        [str(BUILD / "cli" / "stoker"), "pack", "s3://photos/train", "-o", str(tmp_path / "packed")],
        [str(BUILD / "cli" / "stoker"), "view", "s3://photos/train", "-o", str(tmp_path / "sheet.png")],
    ):
        terminal, child = pty.openpty()
        environment = {**os.environ, **store.environment, "TERM": "xterm", "PYTHONPATH": os.pathsep.join(sys.path)}
        ended = subprocess.run(command, stderr=child, stdout=subprocess.DEVNULL, env=environment)
        os.close(child)
        said = os.read(terminal, 1 << 16).decode()
        os.close(terminal)
        assert ended.returncode == 0, said
        assert re.search(r"listing: [0-9]+ objects|[1-9][0-9]* objects listed|[1-9][0-9]* files, ", said), (command, said)
    capsys.readouterr()
    Loader("s3://photos/train", 7, storage=Storage(endpoint=store.url, **SECRETS)).close()
    assert "listing" not in capsys.readouterr().err
    store.set("")


def test_a_small_data_set_is_asked_for_no_more_than_an_epoch_early(store):
    """After two epochs of six batches, the loader has requested the objects of these epochs, and at most those of one more."""
    given = Storage(endpoint=store.url, requests=64, retries=3, hedging=False, answer_timeout=30, **SECRETS)
    loader = Loader("s3://photos/train", 4, storage=given, transforms=[T.Resize((8, 8))], last_batch="keep")
    listed = given.counters()["storage_requests"]
    epochs = 2
    for _ in range(epochs):
        assert sum(len(batch.label) for batch in loader) == 21
    loader.close()
    assert 21 * epochs <= given.counters()["storage_requests"] - listed <= 21 * (epochs + 1)


def test_globs_of_a_bucket_match_no_hidden_names(store, tmp_path):
    """Globs of a bucket skip names that begin with a dot, as the shell's globs on a disk do. Interrupted copies and other systems leave such files
    ("._a.tar")."""
    folder = tmp_path / "g" / ".t"
    folder.mkdir(parents=True)
    image = b"P6 1 1 255\n\0\0\0"
    for i, name in enumerate(("a.tar", ".a.tar", "._a.tar", "..tar")):
        (folder / name).write_bytes(tar_of([("0.ppm", image), ("0.cls", b"%d" % i)]))
    server = Store(tmp_path)
    try:
        storage = Storage(endpoint=server.url, **SECRETS)

        def labels(glob):
            remote, local = (
                sorted(label for _, label, _ in run(f"{at}/.t/{glob}", **more))
                for at, more in (("s3://g", {"storage": storage}), (tmp_path / "g", {}))
            )
            assert remote == local
            return remote

        assert labels("*.tar") == labels("?.tar") == labels("[!b]*.tar") == [0]
        assert labels(".*.tar") == [1, 2, 3]
        with pytest.raises(StokerError, match="no object matches"):
            run("s3://g/.t/?a.tar", storage=storage)
        assert labels("\\.*.tar") == [1, 2, 3]
    finally:
        server.close()


def test_globs_of_a_bucket_quote_as_those_of_a_disk(store, tmp_path):
    """A backslash makes the next character an ordinary one, also before the first wildcard, from which on the bucket is listed."""
    folder = tmp_path / "g" / "t"
    folder.mkdir(parents=True)
    image = b"P6 1 1 255\n\0\0\0"
    for i, name in enumerate(("a*1.tar", "a*2.tar", "ab1.tar", "[x]1.tar", "x1.tar", "q?.tar", "qq.tar", "b\\1.tar")):
        (folder / name).write_bytes(tar_of([("0.ppm", image), ("0.cls", b"%d" % i)]))
    server = Store(tmp_path)
    try:
        storage = Storage(endpoint=server.url, **SECRETS)
        for glob, want in {
            r"a\*?.tar": [0, 1],
            r"a\*1.tar": [0],
            r"\a*1.tar": [0, 2],
            r"\[x\]*.tar": [3],
            r"\[x\]\1*.tar": [3],
            r"q\?.tar": [5],
            r"q[?q].tar": [5, 6],
            r"b\\*.tar": [7],
        }.items():
            for at, more in (("s3://g", {"storage": storage}), (tmp_path / "g", {})):
                assert sorted(label for _, label, _ in run(f"{at}/t/{glob}", **more)) == want, (glob, at)
    finally:
        server.close()


@pytest.mark.parametrize("knobs", ["page=3", "page=3&reverse=1", "page=4&deaf=1", "page=3&p503=0.2&seed=4"])
def test_globs_are_listed_in_parts(store, tmp_path, monkeypatch, knobs):
    """A glob gives its matches in the shell's order, although the bucket also has other names, and lists only a few entries a page."""
    seed = int.from_bytes(os.urandom(4), "little")
    print("seed", seed)
    rng = np.random.default_rng(seed)
    folder, letters = tmp_path / "g" / "t", np.array(list("abz09-_. A"))
    names = {"".join(rng.choice(letters, rng.integers(1, 6))).strip(". ") or "a" for _ in range(60)}
    for name in sorted(names):
        kind = rng.choice(["s{}.tar", "s{}.tar", "s{}.tar.stoker", "s{}.txt", "r{}.tar", "s{}.d/s.tar"])
        path = folder / kind.format(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w") as tar:
            data = path.name.encode()
            member = tarfile.TarInfo("0.cls")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    want = sorted(p.name for p in folder.glob("s*.tar") if p.is_file())
    assert len(want) > 3
    server = Store(tmp_path)
    try:
        server.set(knobs)

        @pipeline_def(batch_size=len(want), num_threads=2, storage=Storage(endpoint=server.url, **SECRETS))
        def pipe():
            return fn.readers.webdataset(paths="s3://g/t/s*.tar", ext=["cls"])

        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "kept"))
        assert [np.asarray(x).tobytes().decode() for x in pipe().run()[0]] == want
    finally:
        server.close()


@pytest.mark.parametrize("given", [{}, {"retries": 2}])
def test_an_unreachable_endpoint(given):
    """An unreachable endpoint is reported quickly, after a few tries or after the requested number."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        storage = Storage(endpoint=f"http://127.0.0.1:{free.getsockname()[1]}", **given, **SECRETS)
        for source in ("s3://b/train", "s3://b/s-*.tar"):
            before = storage.counters()["storage_retries"]
            with pytest.raises(ReadError, match=r"Failed to connect to 127\.0\.0\.1.*check the endpoint") as caught:
                Loader(source, 4, storage=storage)
            assert storage.counters()["storage_retries"] - before == given.get("retries", 4) and source in str(caught.value)
