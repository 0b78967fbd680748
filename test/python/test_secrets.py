# SPDX-License-Identifier: Apache-2.0
"""No message and no file shows a secret. The tests put marked secrets into URLs, passwords, keys and tokens, use them, and search all output for the mark."""

import json
import os
import pickle
import re
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from stoker import Audio, Loader, Pipeline, Storage, VideoDecoder, audioread, fn, imread, view
from stoker.errors import StokerError, safe_text
from storage import BUILD
from support import NO_AWS, tar_of

MARK = "T0PsEcReT"
QUERY = f"X-Amz-Credential={MARK}1&X-Amz-Signature={MARK}2&sig={MARK}3#{MARK}4"


def tar(n=6):
    return tar_of((f"{i}.{ending}", bytes(600)) for i in range(n) for ending in ("jpg", "cls"))


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        path, _, query = self.path.partition("?")
        status, body = 200, b"no image"
        if path.startswith("/status/"):
            status = int(path.split("/")[2])
            body = f"<Error><Code>Denied</Code><Message>\x1b[31mat {self.path}\nmore</Message></Error>".encode()
        elif path == "/cut.tar":
            body = tar()[:3000]
        elif path == "/well.tar":
            body = tar()
        elif path == "/bad.tar":
            body = b"x" * 5000
        elif path == "/list.txt":
            body = f"http://127.0.0.1:{self.server.server_port}/status/404/a.jpg?{query} 0\n".encode()
        elif path.startswith("/cut.bin"):
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"x")
            self.close_connection = True
            return
        elif path.startswith("/moved"):
            self.send_response(302)
            self.send_header("Location", f"http://me:{MARK}@127.0.0.1:1/?{query}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        ranged = self.headers.get("Range")
        if status == 200 and ranged:
            a, _, b = ranged[6:].partition("-")
            a, b = int(a), min(int(b or len(body) - 1), len(body) - 1)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {a}-{b}/{len(body)}")
            body = body[a : b + 1]
        else:
            self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def url(monkeypatch, tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    for name, value in NO_AWS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def leaks(*texts):
    return [t for t in texts if MARK in str(t) or "\x1b" in str(t)]


def texts_of(error):
    return [str(error), repr(error), repr(error.args), repr(error.__dict__), str(error.__cause__), str(error.__context__)]


def read(uri, store):
    p = Pipeline(1, 1, None, timeout=30, storage=store)
    with p:
        p.set_outputs(fn.decoders.image(fn.readers.file(files=[uri])[0]))
    p.build()
    try:
        p.run()
    finally:
        p.close()


def failures(url):
    """Makes reads of many kinds fail, and returns the texts of their errors."""
    texts = []

    def fails(what, do):
        try:
            do()
        except (StokerError, OSError, ValueError) as e:
            texts.extend(texts_of(e))
        else:
            raise AssertionError(f"{what} did not fail")

    paths = [
        "status/403/a.jpg",
        "status/404/a.jpg",
        "status/500/a.jpg",
        "status/400/a b.jpg",
        "status/407/a.jpg",
        "status/301/a.jpg",
        "cut.bin",
        "moved",
        "image.jpg",
    ]
    store = Storage(retries=1, answer_timeout=5)

    def run(pipe):
        pipe.build()
        explained = pipe.explain()
        assert "readers" in explained
        texts.extend([repr(pipe), explained])
        try:
            pipe.run()
        finally:
            texts.append(repr(store.counters()))
            pipe.close()

    def reader(make, **more):
        p = Pipeline(1, 1, None, timeout=30, storage=store, **more)
        with p:
            out = make()
            p.set_outputs(*out) if isinstance(out, (list, tuple)) else p.set_outputs(out)
        return p

    for path in paths:
        uri = f"{url}/{path}?{QUERY}"
        fails(path, lambda uri=uri: run(reader(lambda: fn.decoders.image(fn.readers.file(files=[uri])[0]))))
        fails(path, lambda uri=uri: imread(uri))
        fails(path, lambda uri=uri: list(Loader([(uri, 0)], 1, storage=store)))
        fails(path, lambda uri=uri: run(reader(lambda: fn.readers.numpy(files=[uri]))))
    for path in ("cut.tar", "bad.tar", "status/404/a.tar", "status/500/a.tar", "well.tar"):
        uri = f"{url}/{path}?{QUERY}"
        fails(path, lambda uri=uri: list(Loader([uri], 2, storage=store)))
        fails(path, lambda uri=uri: run(reader(lambda: fn.decoders.image(fn.readers.webdataset(paths=[uri], ext=["jpg"])[0]))))
        fails(path, lambda uri=uri: run(reader(lambda: fn.readers.tfrecord(path=[uri], features={"a": None})["a"])))
    for bad in (
        f"http://me:{MARK}@127.0.0.1:1/a.jpg",
        f"http://me:pa/{MARK}@127.0.0.1:1/a.jpg",
        f"ftp://me:{MARK}@h/a.jpg",
        f"az://c/a.jpg?sig={MARK}",
    ):
        fails(bad, lambda bad=bad: run(reader(lambda: fn.readers.file(files=[bad])[0])))
        fails(bad, lambda bad=bad: list(Loader(bad, 2, storage=store)))
    fails("list", lambda: run(reader(lambda: fn.readers.file(file_list=f"{url}/list.txt?{QUERY}")[0])))
    fails("folder", lambda: run(reader(lambda: fn.readers.file(file_root=f"{url}/folder?{QUERY}")[0])))
    fails("coco", lambda: run(reader(lambda: fn.readers.coco(file_root=".", annotations_file=f"{url}/image.jpg?{QUERY}")[0])))
    return texts


def test_failures_tell_no_secret(url, capfd):
    texts = failures(url)
    out = capfd.readouterr()
    assert len(texts) > 200 and not leaks(*texts), leaks(*texts)[:3]
    assert not leaks(out.out, out.err)


def test_failures_of_videos_sounds_and_tables_tell_no_secret(url, capfd, monkeypatch):
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", url)
    texts, store = [], Storage(retries=0, answer_timeout=5)

    def fails(do):
        with pytest.raises((StokerError, OSError, ValueError)) as e:
            do()
        texts.extend(texts_of(e.value))

    def run(output):
        pipe = Pipeline(1, 1, None, timeout=30, storage=store)
        with pipe:
            pipe.set_outputs(output())
        try:
            pipe.run()
        finally:
            texts.extend([repr(pipe), repr(store.counters())])
            pipe.close()

    for path in ("status/403/a", "status/500/a", "cut.bin", "moved", "image"):
        video, sound, table = (f"{url}/{path}.{ending}?{QUERY}" for ending in ("mp4", "wav", "parquet"))
        fails(lambda video=video: VideoDecoder(video, storage=store))
        fails(lambda video=video: run(lambda: fn.readers.video(filenames=[video], sequence_length=1, device="cpu")))
        name = np.frombuffer(video.encode(), np.uint8)
        fails(lambda name=name: run(lambda: fn.io.video.frame(name, np.int64(0))))
        fails(lambda video=video: list(Loader([(video, 0)], 1, storage=store, frames=2)))
        if path not in ("status/500/a", "cut.bin"):  # audioread would request these two many times before it fails
            fails(lambda sound=sound: audioread(sound))
        fails(lambda sound=sound: run(lambda: fn.decoders.audio(fn.readers.file(files=[sound])[0])[0]))
        fails(lambda sound=sound: list(Loader([(sound, 0)], 1, storage=store, fields={"audio": Audio(rate=8000)})))
        fails(lambda table=table: list(Loader(table, 1, storage=store)))
        fails(lambda path=path: list(Loader(f"gs://b/{path}", 1, storage=store)))
    assert len(texts) > 200 and not leaks(*texts, *capfd.readouterr())


def test_uris_are_refused_where_paths_are_meant(tmp_path, monkeypatch, capfd):
    """A URI is not read as a path on this machine, since messages would then contain its query."""
    monkeypatch.chdir(tmp_path)
    texts = []

    def made(**settings):
        pipe = Pipeline(1, 1, None, **settings)
        with pipe:
            pipe.set_outputs(fn.random.uniform())
        pipe.build()
        return pipe

    pipe = made()
    uses = [
        lambda uri: Storage(cache=uri).core(),
        lambda uri: made(trace=uri),
        lambda uri: made(checkpoint=uri),
        lambda uri: Pipeline.deserialize(filename=uri),
        lambda uri: Loader.from_csv(uri, 1),
        pipe.checkpoint,
        lambda uri: pipe.serialize(filename=uri),
        pipe.save_graph_to_dot_file,
        lambda uri: view(np.zeros((1, 8, 8, 3), np.uint8)).save(uri),
    ]
    for uri in (f"https://127.0.0.1:1/a?{QUERY}", f"s3://b/a?{QUERY}", f"file:///a/b?{QUERY}", f"gs://b/a?{QUERY}"):
        for use in uses:
            with pytest.raises((StokerError, OSError), match=r"URI|a path on this machine") as e:
                use(uri)
            texts += texts_of(e.value)
    pipe.close()
    assert not leaks(*texts, *capfd.readouterr())
    assert not list(tmp_path.iterdir())


def test_a_timeout_and_a_closed_pipeline_print_no_secret(url, tmp_path, capfd):
    """Messages about requests in flight name their objects without secrets."""
    texts = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        uri = f"http://127.0.0.1:{silent.getsockname()[1]}/slow.jpg?{QUERY}"
        store = Storage(retries=0, answer_timeout=60)
        p = Pipeline(1, 1, None, timeout=0.3, storage=store, trace=str(tmp_path / "trace.json"))
        with p:
            p.set_outputs(fn.readers.file(files=[uri])[0])
        p.build()
        with pytest.raises(StokerError) as e:
            p.run()
        texts += [*texts_of(e.value), p.explain(), repr(p), repr(p.counters()), repr(store)]
        p.close()
        with pytest.raises(StokerError) as e:
            read(uri, Storage(retries=0, answer_timeout=0.3))
        texts += texts_of(e.value)
    assert any("slow.jpg" in t for t in texts)
    assert not leaks(*texts, (tmp_path / "trace.json").read_text(), *capfd.readouterr())


# Counts the profile's secrets in those pages of its process that a core file would contain. It copies the pages to memory that core files leave out,
# so that it does not find its own copies.
IN_CORE = """
import gc, mmap, re, sys, time
from stoker import Pipeline, Storage, fn
p = Pipeline(2, 1, None, timeout=30, storage=Storage(retries=0, proxy=sys.argv[3]))
with p:
    p.set_outputs(fn.readers.file(files=["s3://b/1", "s3://b/2"])[0])
p.build()
for _ in range(3):
    assert p.run()[0].at(0).tobytes() == b"no image"
if sys.argv[1] == "closed":
    p.close()
    del p
    gc.collect()
time.sleep(0.5)  # the requests under way hold their headers
mark = sys.argv[2][::-1].encode()
pattern = re.compile(mark[:5] + b"(?=" + mark[5:] + b"(key|token|proxy))")
room = mmap.mmap(-1, 64 << 20)
room.madvise(mmap.MADV_DONTDUMP)
found = dumped = 0
for block in re.split(r"(?m)^(?=[0-9a-f]+-[0-9a-f]+ )", open("/proc/self/smaps").read())[1:]:
    begin, end = (int(x, 16) for x in block.split()[0].split("-"))
    flags = re.search("VmFlags: (.*)", block)[1].split()
    if not {"rd", "wr"} <= set(flags) or "dd" in flags or end - begin > len(room):
        continue
    with open("/proc/self/mem", "rb", 0) as memory:
        memory.seek(begin)
        n = memory.readinto(memoryview(room)[: end - begin])
    dumped += n
    found += sum(1 for _ in pattern.finditer(memoryview(room)[:n]))
print(found, dumped > 1 << 20)
"""


@pytest.mark.parametrize("when", ["running", "closed"])
def test_core_files_hold_no_keys(url, tmp_path, when):
    """No page that a core file of the process would contain has the keys of a profile, and the keys are erased when the pipeline has ended."""
    keys = f"aws_access_key_id = AKIA\naws_secret_access_key = {MARK}key\naws_session_token = {MARK}token\n"
    (tmp_path / "credentials").write_text(f"[default]\n{keys}")
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("AWS_")},
        **NO_AWS,
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_REGION": "r",
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-c", IN_CORE, when, MARK[::-1], "http://h:1"], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.split() == ["0", "True"], (done.stdout, done.stderr)


def test_files_and_bad_samples_hold_no_secret(url, tmp_path, capfd):
    """Bad samples, states, a trace, a cache and indexes of tars contain no secret."""
    p = Pipeline(
        2, 1, None, timeout=30, storage=Storage(retries=0, cache=tmp_path / "cache"), on_error="skip", trace=str(tmp_path / "trace.json")
    )
    with p:
        p.set_outputs(
            *fn.readers.file(files=[f"{url}/{n}?{QUERY}" for n in ("a.bin", "status/404/b.jpg", "c.bin", "status/404/d.jpg")], name="r")
        )
    p.build()
    p.run()
    texts = [
        repr(p),
        repr(p.bad_samples()),
        json.dumps(p.counters()),
        repr(p.checkpoint()),
    ]
    assert "status/404/b.jpg" in texts[1]
    p.close()
    loader = Loader([f"{url}/well.tar?{QUERY}"], 2, storage=Storage(retries=0, cache=tmp_path / "cache"), on_error="skip")
    texts += [repr(loader)]
    try:
        list(loader)
    except StokerError as e:
        texts += texts_of(e)
    texts += [repr(loader.state_dict()), repr(pickle.dumps(loader.state_dict()))]
    loader.close()
    for file in [f for f in tmp_path.rglob("*") if f.is_file()]:
        assert MARK.encode() not in file.read_bytes(), file
        assert MARK not in str(file)
    out = capfd.readouterr()
    assert not leaks(*texts, out.out, out.err), leaks(*texts, out.out, out.err)[:3]


@pytest.mark.parametrize("via", ["setting", "environment"])
@pytest.mark.parametrize(
    "proxy",
    [
        "me:{}@127.0.0.1:1:1:1",
        "http://me:{}@127.0.0.1:99999",
        "http://me:{}@[::1",
        "http://me:{}@ho st:1",
        "http://me:{} x@h",
        "ftp://me:{}@h:1",
        "http://me:a/{}@h:1",
    ],
)
def test_messages_hide_the_password_of_a_proxy(monkeypatch, proxy, via):
    proxy = proxy.format(MARK)
    for scheme in ("http", "https"):
        if via == "environment":
            monkeypatch.setenv(f"{scheme}_proxy", proxy)
        try:
            store = Storage(retries=0, connect_timeout=2, **({"proxy": proxy} if via == "setting" else {}))
            read(f"{scheme}://example.invalid/x.jpg", store)
        except StokerError as e:
            assert not leaks(*texts_of(e), repr(store)), texts_of(e)
        else:
            raise AssertionError("the file was read, although no proxy can be reached")


def test_the_command(url, tmp_path):
    (tmp_path / "list.txt").write_text(f"{url}/image.jpg?{QUERY} 0\n{url}/status/404/a.jpg?{QUERY} 1\n")
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": MARK,
        "AWS_SESSION_TOKEN": MARK,
        "AWS_ENDPOINT_URL_S3": url,
        "AWS_REGION": "r",
    }
    for command in (
        ["inspect", f"{url}/well.tar?{QUERY}"],
        ["inspect", f"{url}/image.jpg?{QUERY}"],
        ["inspect", f"{url}/status/500/a.jpg?{QUERY}"],
        ["index", f"{url}/bad.tar?{QUERY}", "-o", "out.stoker"],
        ["index", f"{url}/well.tar?{QUERY}", "-o", "well.stoker"],
        ["doctor", "--storage", f"{url}/image.jpg?{QUERY}"],
        ["doctor", "--storage", f"{url}/status/403/image.jpg?{QUERY}"],
        ["doctor", "--storage", f"http://me:{MARK}@127.0.0.1:1/image.jpg"],
        ["doctor", "--storage", "s3://bucket/status/403"],
        ["view", f"{url}/image.jpg?{QUERY}", "-o", "out.png"],
        ["pack", f"{url}/folder?{QUERY}", "-o", "packed"],
        ["pack", "s3://bucket/status/403", "-o", "packed"],
        ["cache", "warm", "list.txt", "--cache", "cache"],
        ["cache", "verify", "cache"],
        ["cache", "list", "cache"],
    ):
        done = subprocess.run(
            [BUILD / "cli" / "stoker", *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
        )
        assert not leaks(done.stdout, done.stderr), (command[0], done.stdout, done.stderr)
    for file in [f for name in ("cache", "packed") for f in (tmp_path / name).rglob("*") if f.is_file()]:
        assert MARK.encode() not in file.read_bytes(), file


def test_arguments_of_the_command_are_not_repeated_with_their_secrets(url, tmp_path):
    """Passes a URL where none belongs: instead of a command, of each command's arguments, and of each option's value."""
    command = str(BUILD / "cli" / "stoker")

    def output(*words):
        done = subprocess.run([command, *words], cwd=tmp_path, capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
        return done.stdout + done.stderr

    names = re.findall(r"^  ([a-z-]+) +[a-z]", output("--help").partition("exit codes")[0], re.MULTILINE)
    assert {"pack-video", "top", "doctor", "view"} < set(names)
    checked = 0
    for given in (f"{url}/status/403/a?{QUERY}", f"HTTP://me:{MARK}@127.0.0.1:1/a"):
        calls = [[given], [f"--{given}"]]
        for name in names:
            options = re.findall(r"--([a-z-]+) [A-Z]", output(name, "--help"))
            calls += [[name, given], [name, *[given] * 4], *([name, "none", f"--{o}={given}"] for o in options)]
        for call in calls:
            assert not leaks(output(*call)), call
        checked += len(calls)
    assert checked > 150


@pytest.mark.parametrize("scheme", ["s3", "gs"])
@pytest.mark.parametrize(
    "given",
    [
        f"ID:{MARK}@{MARK}/x@bucket",
        f"ID:{MARK}/{MARK}@bucket",
        f"ID%3A{MARK}/{MARK}@bucket",
        f"ID:{MARK}/{MARK}%40bucket",
        f"ID:a?{MARK}@bucket",
    ],
)
def test_credentials_before_a_bucket_are_in_no_message(monkeypatch, scheme, given):
    """Messages show no part of the credentials, whether they are about an object or about a listing."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "GCS_KEY", "GCS_SECRET"):
        monkeypatch.setenv(name, "none")
    store = Storage(endpoint="http://127.0.0.1:1", retries=0)
    for name, read_it in (
        ("a.jpg", lambda uri: list(Loader([uri], 1, storage=store))),
        ("", lambda uri: list(Loader(uri, 1, storage=store))),
        ("a.tar", lambda uri: list(Loader(uri, 1, storage=store))),
        ("*.tar", lambda uri: list(Loader(uri, 1, storage=store))),
        ("a.parquet", lambda uri: list(Loader.from_parquet(uri, 1, storage=store))),
        ("a.csv", lambda uri: list(Loader.from_csv(uri, 1, storage=store))),
    ):
        with pytest.raises((StokerError, OSError)) as e:
            read_it(f"{scheme}://{given}/d/{name}")
        assert not leaks(str(e.value), repr(e.value)) and scheme in str(e.value), str(e.value)


def test_long_credentials_are_removed_before_a_text_is_cut():
    command = str(BUILD / "cli" / "stoker")
    uri = f"ftp://me:{MARK}{'x' * 5000}@h/k"
    for words in (["doctor", "--storage", uri], [uri], ["inspect", uri], ["view", uri]):
        done = subprocess.run([command, *words], capture_output=True, text=True, timeout=100, stdin=subprocess.DEVNULL)
        assert done.returncode in (1, 2) and not leaks(done.stdout + done.stderr), words[0]


def test_repr_and_pickles_hold_no_secret():
    endpoint = f"https://me:{MARK}@store.example:9000"
    keys = {"access_key": f"{MARK}a", "secret_key": f"{MARK}b", "session_token": f"{MARK}c"}
    store = Storage(**keys, proxy=f"http://me:{MARK}@h:1")
    assert not leaks(repr(store), str(store), str(store.counters()))
    try:
        text = repr(Storage(endpoint=endpoint))
    except StokerError as e:
        text = str(e)
    assert not leaks(text)


def test_control_characters_are_shown_as_text(url, tmp_path):
    with pytest.raises(StokerError) as e:
        read(f"{url}/status/500/a.jpg", Storage(retries=0))
    assert "\n" not in str(e.value) and "\x1b" not in str(e.value) and "[31m" in str(e.value)
    name = tmp_path / "a\x1b[2J\nb.jpg"
    name.write_bytes(b"no image")
    with pytest.raises(StokerError) as e:
        imread(name)
    assert "\x1b" not in str(e.value) and "a\\x1b[2J" in str(e.value)


SAFE = [
    ("http://h/a.jpg?sig=x: the server answers 404", "http://h/a.jpg: the server answers 404"),
    ("(https://h/a#b), then", "(https://h/a), then"),
    ("s3://bucket/a?b#c@d: it ends", "s3://bucket/a?b#c@d: it ends"),
    ("s3://id:key@bucket/a, gs://key@c/a@b", "s3://bucket/a, gs://c/a@b"),
    ("file://a@b/c", "file://a@b/c"),
    ("s3://ID:ab/cd+S@bucket/k", "s3://bucket/k"),
    ("s3://u%3As%40bucket/k", "s3://bucket/k"),
    ("s3://id:a@b/c@bucket/k", "s3://bucket/k"),
    ("s3://ID:ab/cd%40bucket/k", "s3://bucket/k"),
    ("gs://ID%3Aab/cd@bucket/k", "gs://bucket/k"),
    ("s3://id:key@bucket/a%40b", "s3://bucket/a%40b"),
    ("http://me%3Ap/w@h:80/x", "http://h:80/x"),
    ("http://me:p/w%40h:80/x", "http://h:80/x"),
    ("http://h:80/a%40b.jpg", "http://h:80/a%40b.jpg"),
    ("http://me:pw@h:80/x", "http://h:80/x"),
    ("http://me:p/w@h:80/x", "http://h:80/x"),
    ("http://token@h/x", "http://h/x"),
    ('http://u:p"w@h/x?sig=a: no', "http://h/x: no"),
    ("http://u:p'@h/x?sig=a'b&c, or", "http://h/x, or"),
    ('"http://h/x?sig=ab"cd", then', '"http://h/x", then'),
    ("s3://id:se cret@bucket/k, and", "s3://bucket/k, and"),
    ('gs://id:se" cret@bucket/k', "gs://bucket/k"),
    ("http://u:p w@h/x?sig=1 and", "http://h/x and"),
    ("http://u:p/w x@h:80/x", "http://h:80/x"),
    ("http://h:80 and me@h", "http://h:80 and me@h"),
    ("s3://b:c/k: ask me@h", "s3://b:c/k: ask me@h"),
    ("http://u:p or http://h/a@b", "http://u:p or http://h/a@b"),
    ("'http://h/a','http://h/b?c'>d", "'http://h/a','http://h/b'>d"),
    ("a&signature=ab'cd'&b", "a&signature=&b"),
    ("http://h:80/a@b.jpg", "http://h:80/a@b.jpg"),
    ("http://[::1]:80/a@b", "http://[::1]:80/a@b"),
    ("no option --http://token@h/x", "no option --http://h/x"),
    ("--s3://b/k?a#b", "--s3://b/k?a#b"),
    ("HTTP://H/x%3FX-Amz-Signature%3Dabc", "HTTP://H/x"),
    ("https%3A%2F%2Fh%2Fx%3FX-Amz-Signature%3Dabc%26b", "https%3A%2F%2Fh%2Fx%3FX-Amz-Signature%3D%26b"),
    ("az://c/x?sig=abc, as", "az://c/x, as"),
    ("a&signature=abc&b", "a&signature=&b"),
    ("say http://NAME:PASSWORD@HOST:PORT in https_proxy", "say http://NAME:PASSWORD@HOST:PORT in https_proxy"),
    *(
        (text.format("t" * 200), safe)  # the @ of a long URL was cut off together with the end of the token before it
        for text, safe in [
            ("http://me:{}", "http://"),
            ("http://{}: no", "http:// no"),
            ("http://me:p/{}, or", "http:// or"),
            ("s3://ID:{}", "s3://"),
            ("gs://ID:a/{}", "gs://"),
            ("socks5://me:{}", "socks5://"),
        ]
    ),
    ("a\x1bb\x7f\x85\u00e9", "a\\x1bb\\x7f\\x85\u00e9"),
    ("plain, as C:\\x or a:b@c = d", "plain, as C:\\x or a:b@c = d"),
]


@pytest.mark.parametrize(("text", "safe"), SAFE)
def test_the_functions_agree(text, safe):
    """The functions of the package and of the library that remove secrets from a text give the same result."""
    assert safe_text(text) == safe
    assert safe_text(safe) == safe
    assert str(StokerError(text)) == safe


@pytest.mark.parametrize(("text", "safe"), [case for case in SAFE if case[0].isprintable() and not case[0].startswith("-")])
def test_the_command_repeats_what_the_library_would(text, safe):
    done = subprocess.run([str(BUILD / "cli" / "stoker"), text], capture_output=True, text=True, timeout=100)
    assert done.returncode == 2 and f'no command "{safe}"' in done.stderr
