# SPDX-License-Identifier: Apache-2.0
"""Data sets at s3:// and http:// give the same samples in the same order as the local tree, even if requests fail, and if an index lists the objects. No
secret is printed. Also tests commands on a bucket."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import videos
from sound_files import pcm16
from stoker import Loader, Storage, fn, pipeline_def
from stoker import transforms as T
from stoker.errors import CorruptError, InvalidArgumentError, ReadError, StokerError
from storage import KEYS, SMALL, Store, stoker
from storage import hashes as run
from support import SEED, child_process

FAULTS = "p503=0.05&p500=0.02&reset=0.1&truncate=0.1&change=0.05&length=0.02&latency_ms=2&jitter_ms=20&seed=7"


@pytest.fixture(scope="module")
def store(tree, tmp_path_factory):
    """Yields a store with the tree as s3://photos/a b/train, and with classes whose names a store sorts differently from a folder."""
    root = tmp_path_factory.mktemp("store")
    shutil.copytree(tree, root / "photos" / "a b" / "train")
    one = next(tree.glob("*/*.jpg"))
    for name in ("a", "a-b", "a b", "Z", "\u00e9", "a+%41"):
        (root / "photos" / "odd" / name).mkdir(parents=True)
        shutil.copy(one, root / "photos" / "odd" / name / "x&y<z> #1?.JPG")
    (root / "photos" / "odd" / "notes.txt").write_text("no class")
    (root / "photos" / "list.txt").write_text("".join(f"a b/train/class{i % 3}/00{i}.jpg {i}\n" for i in range(7)))
    server = Store(root)
    server.root = root / "photos"
    yield server
    server.close()


@pytest.fixture(autouse=True)
def environment(store, monkeypatch):
    for name in [n for n in os.environ if n.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    store.set("page=5")


@pytest.mark.essential
def test_a_tree_in_a_bucket(store, tree):
    assert run("s3://photos/a b/train", epochs=2) == run(tree, epochs=2)
    assert Loader("s3://photos/a b/train/", 4, transforms=SMALL).classes == ["class0", "class1", "class2"]


def test_names_that_sort_otherwise(store):
    for nested in (False, True):

        @pipeline_def(batch_size=8, num_threads=2)
        def pipe(root, nested=nested):
            return fn.readers.file(file_root=root, nested=nested, name="r")

        (local, remote) = (pipe(str(store.root / "odd")), pipe("s3://photos/odd"))
        outs = [[np.asarray(x).ravel().tolist() for x in p.run()[1]] for p in (local, remote)]
        assert outs[0] == outs[1] and len(outs[0]) == 8
    classes = [Loader(r, 2, transforms=SMALL).classes for r in (store.root / "odd", "s3://photos/odd")]
    assert classes[0] == classes[1] == sorted(["a", "a-b", "a b", "Z", "\u00e9", "a+%41"], key=lambda s: s.encode())


def test_lists_of_objects_give_the_same_samples(store):
    @pipeline_def(batch_size=7, num_threads=2)
    def pipe(**arguments):
        return fn.readers.file(**arguments)

    paths = [f"a b/train/class{i % 3}/00{i}.jpg" for i in range(7)]
    forms = [
        {"file_root": str(store.root), "files": paths, "labels": list(range(7))},
        {"files": [f"s3://photos/{p}" for p in paths]},
        {"file_root": "s3://photos/", "files": paths},
        {"file_list": "s3://photos/list.txt"},
        {"file_root": "s3://photos", "file_list": str(store.root / "list.txt")},
    ]
    outs = []
    for form in forms:
        data, labels = pipe(**form).run()
        outs.append([(hashlib.md5(np.asarray(d).tobytes()).hexdigest(), int(np.asarray(l)[0])) for d, l in zip(data, labels, strict=True)])
    assert all(o == outs[0] for o in outs)


def test_missing_objects(store):
    def fails(source, kind, *said):
        with pytest.raises(kind) as e:
            run(source)
        assert all(s in str(e.value) for s in said), str(e.value)

    fails("s3://photos/nope", InvalidArgumentError, "no object whose key begins with")
    fails("s3://nowhere/nope", ReadError, "NoSuchBucket")
    with pytest.raises(ReadError, match=r"404 NoSuchKey.*which must not contain the bucket"):
        run("s3://photos/a b/train", storage=Storage(endpoint=f"{store.url}/photos"))
    fails("s3://photos/a b/train/class0", InvalidArgumentError, "7 images but no class folders", "give the list of the files")
    fails("http://127.0.0.1/x", StokerError, "only s3://, gs:// and local folders can be listed")
    fails("az://photos/train", StokerError, "az://")
    fails([("s3://photos/none.jpg", 0)], FileNotFoundError, "s3://photos/none.jpg", "404 NoSuchKey")


def test_a_missing_object_is_its_samples_failure(store, files):
    names = [f"s3://photos/a b/train/{f.parent.name}/{f.name}" for f in files]
    loader = Loader(
        [*names[:5], "s3://photos/none.jpg", *names[5:]], 22, transforms=[T.Resize((8, 8))], on_error="skip", fields=("image", "index")
    )
    assert next(iter(loader)).index.tolist() == [0, 1, 2, 3, 4, *range(6, 22)]


@pytest.mark.essential
@pytest.mark.parametrize("faults", [FAULTS, "many=6&latency_ms=20"])
def test_faults_change_nothing(store, tree, faults):
    """No sample is lost or doubled; the hash of the sequence and the number of steps are those of local files."""
    before = store.counts()["faults"]
    store.set(faults)
    assert run("s3://photos/a b/train", epochs=4) == run(tree, epochs=4)
    assert store.counts()["faults"] > before + 10


def test_resuming_under_faults(store, tree):
    def make(source):
        return Loader(source, 4, transforms=SMALL, fields=("image", "index"), shuffle=True, seed=9)

    whole = [b.image.numpy().copy() for b in make(tree)]
    store.set(FAULTS)
    first = make("s3://photos/a b/train")
    steps = iter(first)
    for k in range(2):
        assert np.array_equal(next(steps).image.numpy(), whole[k])
    state = first.state_dict()
    first.close()
    second = make("s3://photos/a b/train")
    second.load_state_dict(state)
    rest = [b.image.numpy().copy() for b in second]
    assert len(rest) == len(whole) - 2 and all(np.array_equal(a, b) for a, b in zip(rest, whole[2:], strict=True))


def test_killed_and_resumed_with_other_ranks(store, tree):
    """Runs with 8, 4, 2 and 8 ranks. Each run resumes where the previous one stopped in mid-step, while requests fail. The hash of the global sequence,
    random draws included, is that of one uninterrupted rank that reads local files."""

    def ranks(root, world, state=None):
        source = [(f"{root}/{p.parent.name}/{p.name}", k) for _ in range(4) for k, p in enumerate(sorted(tree.glob("*/*.jpg")))]
        made = [
            Loader(
                source,
                8 // world,
                shard=(r, world),
                transforms=SMALL,
                fields=("image", "label", "index"),
                shuffle=True,
                seed=SEED,
                last_batch="drop",
                read_requests=2 + 16 // world,
            )
            for r in range(world)
        ]
        for loader in made if state else ():
            loader.load_state_dict(state)
        return made

    def step(steps):
        return [(hashlib.md5(i.numpy().tobytes()).hexdigest(), int(y), int(k)) for s in steps for i, y, k in zip(*next(s), strict=True)]

    (alone,) = ranks(tree, 1)
    whole = [s for _ in range(2) for steps in [iter(alone)] for _ in range(len(alone)) for s in step([steps])]
    rng = np.random.default_rng(SEED)
    store.set("p503=0.01&reset=0.05&truncate=0.2&change=0.02&seed=7")
    seen, state = [], None
    for world in (8, 4, 2, 8):
        made = ranks("s3://photos/a b/train", world, state)
        steps = [iter(r) for r in made]
        for _ in range(rng.integers(1, 5)):
            try:
                seen += step(steps)
            except StopIteration:
                steps = [iter(r) for r in made]
                seen += step(steps)
        state = made[int(rng.integers(world))].state_dict()
        for s in steps[: int(rng.integers(world))]:  # some ranks were a step ahead when the run ended, which the state does not contain
            next(s, None)
        for r in made:
            r.close()
    assert seen == whole[: len(seen)] and len(seen) >= 32, f"seed {SEED}"


def test_no_secret_is_printed(store, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another" + KEYS["AWS_SECRET_ACCESS_KEY"])
    monkeypatch.setenv("AWS_SESSION_TOKEN", "tOkEnOfASession")
    texts = []
    with pytest.raises(ReadError) as e:
        run("s3://photos/a b/train")
    texts += [str(e.value), repr(e.value), repr(e.value.__dict__)]
    with pytest.raises(StokerError) as e:
        run([(f"{store.url}/photos/none.jpg?X-Amz-Signature=hIdDeN&X-Amz-Security-Token=tOkEnOfASession", 0)])
    texts += [str(e.value), repr(e.value), repr(e.value.__dict__)]
    assert "403" in texts[0] and "none.jpg" in texts[3]
    for text in texts:
        assert not any(s in text for s in ("sEcReT", "tOkEn", "hIdDeN", "Signature="))


@pytest.mark.parametrize("where", ["reading", "closing"])
def test_an_interrupt_ends_it(store, where):
    """The store never answers, and a request times out only after 20 s. An interrupt or a close ends the wait sooner."""
    script = """
        import sys, stoker
        from stoker import transforms as T
        loader = stoker.Loader([(f"s3://photos/a b/train/class0/00{i}.jpg", i) for i in range(7)], 7, transforms=[T.Resize((8, 8))])
        steps = iter(loader)
        try:
            print("begun", flush=True)
            if sys.argv[1] == "reading":
                next(steps)
        except KeyboardInterrupt:
            print("interrupted")
        loader.close()
        print("closed")
    """
    before = store.counts()["requests"]
    store.set("silent=1")
    command = [sys.executable, "-c", textwrap.dedent(script), where]
    with child_process(command, stdout=subprocess.PIPE, env=dict(os.environ)) as child:
        assert child.stdout.readline() == "begun\n"
        if where == "reading":
            while store.counts()["requests"] < before + 8:  # the count includes the request for the count itself
                time.sleep(0.01)
            child.send_signal(signal.SIGINT)
        out = child.stdout.read()  # communicate() would lose the bytes that were buffered with the first line
        assert child.wait(15) == 0 and out == ("interrupted\nclosed\n" if where == "reading" else "closed\n")


def test_plain_http(store, tree):
    """Requests of URLs over plain http are not signed; this server requires a signature and refuses them."""
    files = sorted(p.relative_to(tree) for p in tree.glob("*/*.jpg"))
    with pytest.raises(ReadError, match="403 AccessDenied"):
        run([(f"{store.url}/photos/a%20b/train/{f}", 0) for f in files])


@pytest.fixture(scope="module")
def moto():
    """Starts the moto server and yields its URL. Skips the test if moto is neither installed (pip install "moto[server]") nor named by STOKER_MOTO."""
    program = os.environ.get("STOKER_MOTO") or shutil.which("moto_server")
    if not program:
        pytest.skip('moto is not installed: pip install "moto[server]", or name its moto_server by STOKER_MOTO')
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with child_process([program, "-H", "127.0.0.1", "-p", str(port)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL):
        for _ in range(600):
            try:
                put(url, "")
                break
            except OSError:
                time.sleep(0.1)
        else:
            pytest.fail(f"{program} does not answer at {url}")
        yield url


def put(url, path, data=b"", method="PUT", query=""):
    from urllib.parse import quote
    from urllib.request import ProxyHandler, Request, build_opener

    scope = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
    headers = {"Authorization": scope, "Content-Type": "application/octet-stream"}
    request = Request(f"{url}/{quote(path)}{query}", data=data or None, method=method if path else "GET", headers=headers)
    with build_opener(ProxyHandler({})).open(request, timeout=20) as answer:
        return answer.read(), answer.headers


def test_a_server_of_another_project_gives_the_same_samples(moto, tree, files, tmp_path, monkeypatch):
    """Lists and reads names of all kinds, a long key and a multipart upload from a server of another project."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", moto)
    put(moto, "bucket")
    for f in files:
        put(moto, f"bucket/train/{f.parent.name}/{f.name}", f.read_bytes())
    assert run("s3://bucket/train") == run(tree)
    put(moto, "void")
    for root in ("s3://void", "s3://void/"):
        with pytest.raises(InvalidArgumentError, match="s3://void: the bucket is empty"):
            run(root)
    data = files[0].read_bytes()
    names = ["a b.jpg", "+%41&.jpg", "\u00e9\u20ac.jpg", "k" * 1016 + ".jpg", "a//b/./c.jpg"]
    for name in names:
        put(moto, f"bucket/odd/{name}", data)
    part = np.random.default_rng(1).integers(0, 256, 5 << 20, np.uint8).tobytes()
    upload = put(moto, "bucket/large", method="POST", query="?uploads")[0].decode().split("<UploadId>")[1].split("<")[0]
    tags = [put(moto, "bucket/large", d, query=f"?partNumber={i + 1}&uploadId={upload}")[1]["ETag"] for i, d in enumerate([part, b"end"])]
    parts = "".join(f"<Part><PartNumber>{i + 1}</PartNumber><ETag>{t}</ETag></Part>" for i, t in enumerate(tags))
    whole = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
    put(moto, "bucket/large", whole, method="POST", query=f"?uploadId={upload}")

    @pipeline_def(batch_size=len(names) + 1, num_threads=2)
    def pipe():
        return fn.readers.file(files=[f"s3://bucket/odd/{n}" for n in names] + ["s3://bucket/large"])

    got = [np.asarray(d).tobytes() for d in pipe().run()[0]]
    assert got == [data] * len(names) + [part + b"end"]
    packed = tmp_path / "packed"
    stoker("pack", tree, "-o", packed)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "kept"))
    tars = sorted(packed.glob("*.tar"))
    for tar in tars:
        put(moto, f"bucket/tars/{tar.name}", tar.read_bytes())
    put(moto, "bucket/tars/readme.txt", b"none")
    assert tars and run("s3://bucket/tars/*.tar") == run([str(t) for t in tars])


def test_an_index_stands_for_its_tree(store, tree, tmp_path, monkeypatch):
    """An index gives the same samples, classes, labels and states as the tree, and the store gets no request for a listing."""
    index = tmp_path / "train.stoker"
    report = json.loads(stoker("index", "s3://photos/a b/train", "-o", index, "--json"))
    assert report["files"] == 21 and report["classes"] == 3 and report["bytes"] == sum(f.stat().st_size for f in tree.glob("*/*.jpg"))
    first = Loader("s3://photos/a b/train", 4, transforms=SMALL, shuffle=True)
    steps = iter(first)
    next(steps)
    state = first.state_dict()
    first.close()
    with monkeypatch.context() as nowhere:
        nowhere.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")  # every request to this address fails
        Loader(index, 4, transforms=SMALL, shuffle=True).close()
    second = Loader(index, 4, transforms=SMALL, shuffle=True)
    second.load_state_dict(state)
    assert second.classes == ["class0", "class1", "class2"] and len(list(second)) == 5
    assert run(index) == run(tree)
    with monkeypatch.context() as nowhere:
        nowhere.delenv("AWS_ENDPOINT_URL_S3")
        again, given = tmp_path / "again.stoker", ("--endpoint", store.url, "--path-style")
        stoker("index", "s3://photos/a b/train", "-o", again, *given)
        report = json.loads(stoker("pack", "s3://photos/a b/train", "-o", tmp_path / "packed", "--json", *given))
    assert again.read_bytes() == index.read_bytes() and report["samples"] == 21
    stoker("index", tree, "-o", index)
    assert run(index) == run(tree)

    @pipeline_def(batch_size=21, num_threads=2)
    def pipe(**arguments):
        return fn.readers.file(**arguments)

    outs = [pipe(**a).run()[1] for a in ({"file_list": str(index)}, {"file_root": str(index)}, {"file_root": str(tree)})]
    outs.append(pipe(file_root="s3://photos/a b/train", file_list=str(index)).run()[1])
    assert len({tuple(int(np.asarray(x)[0]) for x in o) for o in outs}) == 1


def test_what_an_index_cannot_be(store, tree, tmp_path):
    index = tmp_path / "train.stoker"
    stoker("index", tree, "-o", index)
    data = index.read_bytes()
    for broken in (data[:-1], data[:20], data[:40] + b"x" + data[41:], data + b"\0"):
        index.write_bytes(broken)
        with pytest.raises(CorruptError, match="damaged or cut off"):
            run(index)
    index.write_bytes(data[:8] + b"\2" + data[9:])
    with pytest.raises(StokerError, match="version 2"):
        run(index)
    assert "cannot write the index" in stoker("index", tree, "-o", tmp_path / "no" / "index", code=1)


def test_a_reader_chooses_among_an_index(store, tree, tmp_path):
    """A reader's arguments about filters and `nested` apply to an index as to the tree itself."""
    root, index = tmp_path / "root", tmp_path / "i"
    shutil.copytree(tree, root)
    (root / "class1" / "more").mkdir()
    shutil.copy(next(tree.glob("*/*.jpg")), root / "class1" / "more")
    (root / "class0" / "notes.txt").write_text("notes")
    (root / "empty").mkdir()
    stoker("index", root, "-o", index)

    @pipeline_def(batch_size=30, num_threads=2)
    def pipe(**arguments):
        return fn.readers.file(tail="keep", **arguments)

    for form in (
        {},
        {"file_filters": ["*.txt"]},
        {"file_filters": ["00[1-3]*"], "dir_filters": ["class[02]"]},
        {"nested": True, "dir_filters": ["class*"]},
    ):
        both = [
            [(np.asarray(d).tobytes(), int(np.asarray(l)[0])) for d, l in zip(*pipe(file_root=str(r), **form).run(), strict=True)]
            for r in (root, index)
        ]
        assert both[0] == both[1] and both[0]
    with pytest.raises(InvalidArgumentError, match="empty: a class folder without images"):
        run(index)
    with pytest.raises(InvalidArgumentError, match="dir_filters leave out all of its 4 folders"):
        pipe(file_root=str(index), dir_filters=["x"]).run()


def test_commands_on_a_bucket(store, tree, tmp_path):
    facts = json.loads(stoker("inspect", "s3://photos/a b/train", "--json"))
    local = json.loads(stoker("inspect", tree, "--json"))
    assert facts == local and facts["files"] == 21 and facts["classes"] == 3 and facts["mean_bytes"] > 0
    stoker("index", "s3://photos/a b/train", "-o", tmp_path / "i")
    assert json.loads(stoker("inspect", tmp_path / "i", "--json")) == local
    assert "1 file: 1 good" in stoker("inspect", "s3://photos/a b/train/class0/000.jpg")
    assert "404 NoSuchKey" in stoker("inspect", "s3://photos/none.jpg", code=1)
    stoker("view", "s3://photos/a b/train", "-o", tmp_path / "view.png")
    assert (tmp_path / "view.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads(stoker("bench", "s3://photos/a b/train", "--seconds", "0.2", "--batch", "4", "--quiet", "--json"))


@pytest.mark.parametrize("kind", ["sound", pytest.param("video", marks=videos.needs_video)])
def test_options_of_a_store_hold_for_sounds_and_videos(tmp_path, monkeypatch, kind):
    """`inspect` and `view` of one sound or video use the same options of the store as those of a folder."""
    name = {"sound": "s.wav", "video": "v.mp4"}[kind]
    (tmp_path / "bucket").mkdir()
    (tmp_path / "bucket" / "s.wav").write_bytes(pcm16(np.random.default_rng(SEED), 800, rate=8000))
    (tmp_path / "bucket" / "v.mp4").write_bytes(b"no video")
    found = {
        "sound": {"inspect": "8000 Hz, 0.100 s (800 frames)", "view": "waveform and spectrogram"},
        "video": dict.fromkeys(("inspect", "view", "bench"), "not a file that Stoker reads"),
    }[kind]
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")  # --endpoint must win
    server = Store(tmp_path)
    try:
        for command, text in found.items():
            more = ("-o", tmp_path / "out.png") if command == "view" else ()
            assert "port 2" in stoker(command, f"s3://bucket/{name}", *more, "--endpoint", "http://127.0.0.1:2", code=1)
            assert text in stoker(command, f"s3://bucket/{name}", *more, "--endpoint", server.url, code=int(kind == "video"))
    finally:
        server.close()


def test_the_bench_says_what_bounds_a_store(store, tmp_path):
    store.set("latency_ms=5&jitter_ms=5")
    command = ("bench", "s3://photos/a b/train", "--seconds", "0.2", "--batch", "4", "--quiet")
    report = json.loads(stoker(*command, "--json"))
    assert report["store"]["bound"] in ("cores", "rate limit", "latency", "network")
    assert (
        report["counters"]["storage_requests"] > 0
        and report["counters"]["storage_latency_ms_p95"] >= report["counters"]["storage_latency_ms"] > 0
    )
    report = json.loads(stoker(*command, "--json", "--cache", tmp_path / "cache"))["counters"]
    assert report["cache_misses"] >= 21 and report["cache_hits"] > 0


def test_the_doctor_asks_a_store(store, monkeypatch):
    def ask(uri, code, *options):
        report = json.loads(stoker("doctor", "--storage", uri, "--json", *options, code=code))
        return report["storage"], [a["text"] for a in report["advice"] if a["problem"]]

    report, problems = ask("s3://photos/a b/train", 0)
    assert (
        report["answers"] and report["listed"] and report["keys"] == "the environment" and report["endpoint"] == store.url and not problems
    )
    assert report["answer_ms"] > 0 and report["region"] == "us-east-1"
    assert ask("s3://nope/x", 1)[1][0].startswith("s3://nope/x: the server answers 404 NoSuchBucket")
    assert "403" in ask("s3://photos/a b/train", 1, "--anonymous")[1][0]
    assert "stoker.Storage(fetch=" in ask("az://photos/a", 1)[1][0]
    report, problems = ask(f"{store.url}/photos/list.txt", 1)  # requests over plain http are not signed, and this server refuses them
    assert "403 AccessDenied" in problems[0] and f"{store.url}/photos/list.txt: " in problems[0] and not report["keys"]
    assert not report["listed"] and "credentials" not in problems[0]
    plain = Store(store.root.parent, key="")
    try:
        report, problems = ask(f"{plain.url}/photos/list.txt", 0)
        assert report["answers"] and not problems and not report["keys"] and not report["listed"] and report["answer_ms"] > 0
    finally:
        plain.close()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "sEcReT-but-another")
    report, problems = ask("s3://photos/a b/train", 1)
    assert "SignatureDoesNotMatch" in problems[0] and "sEcReT" not in json.dumps(report) + problems[0] and abs(report["clock_s"]) < 100
    assert "Failed to connect" in ask("s3://photos/x", 1, "--endpoint", "http://127.0.0.1:1")[1][0]


class EmptyFirstPages(BaseHTTPRequestHandler):
    """Every listing of this bucket begins with an empty page that announces more pages, as S3 does for deleted keys."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        asked = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        if "list-type" not in asked:
            body = "x"
        elif "continuation-token" not in asked:
            body = "<IsTruncated>true</IsTruncated><NextContinuationToken>more</NextContinuationToken>"
        elif "prefix" in asked:
            body = "<IsTruncated>false</IsTruncated><Contents><Key>a/1.jpg</Key><Size>1</Size></Contents>"
        else:
            body = "<IsTruncated>false</IsTruncated><CommonPrefixes><Prefix>a/</Prefix></CommonPrefixes>"
        data = f"<ListBucketResult>{body}</ListBucketResult>".encode() if "list-type" in asked else body.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def test_a_listing_that_begins_with_an_empty_page(monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), EmptyFirstPages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{server.server_port}")

    @pipeline_def(batch_size=1, num_threads=1, device_id=None)
    def files():
        return fn.readers.file(file_root="s3://bucket", name="reader")

    pipe = files()
    assert pipe.epoch_size("reader") == 1
    assert pipe.run()[0].at(0).tobytes() == b"x"
    server.shutdown()
    server.server_close()
