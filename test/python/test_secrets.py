# SPDX-License-Identifier: Apache-2.0
"""URLs, passwords, keys and tokens contain marked secrets and pass through readers, sources and failures: no output and no file shows a secret."""

import io
import json
import os
import pickle
import subprocess
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from stoker import Loader, Pipeline, Storage, fn, imread
from stoker.errors import StokerError, safe_text
from storage import BUILD

MARK = "T0PsEcReT"
QUERY = f"X-Amz-Credential={MARK}1&X-Amz-Signature={MARK}2&sig={MARK}3#{MARK}4"


def tar(n=6):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        for i in range(n):
            for ending in ("jpg", "cls"):
                info = tarfile.TarInfo(f"{i}.{ending}")
                info.size = 600
                t.addfile(info, io.BytesIO(bytes(600)))
    return out.getvalue()


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
        elif path == "/cut.bin":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"x")
            self.close_connection = True
            return
        elif path == "/moved":
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
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def leaks(*told):
    return [t for t in told if MARK in str(t) or "\x1b" in str(t)]


def told_of(error):
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
    """Makes many kinds of reads fail, and returns the texts of their errors."""
    told = []

    def fails(what, do):
        try:
            do()
        except (StokerError, OSError, ValueError) as e:
            told.extend(told_of(e))
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
        with pipe:
            pass
        pipe.build()
        told.extend([repr(pipe), pipe.explain() if hasattr(pipe, "explain") else ""])
        try:
            pipe.run()
        finally:
            told.append(repr(store.counters()))
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
    return told


def test_failures_tell_no_secret(url, capfd):
    told = failures(url)
    out = capfd.readouterr()
    assert len(told) > 200 and not leaks(*told), leaks(*told)[:3]
    assert not leaks(out.out, out.err)


def test_what_is_written_and_skipped(url, tmp_path, capfd):
    """Bad samples, states, a trace, a cache and the indexes of tars contain no secret."""
    p = Pipeline(
        2, 1, None, timeout=30, storage=Storage(retries=0, cache=tmp_path / "cache"), on_error="skip", trace=str(tmp_path / "trace.json")
    )
    with p:
        p.set_outputs(
            *fn.readers.file(files=[f"{url}/{n}?{QUERY}" for n in ("a.bin", "status/404/b.jpg", "c.bin", "status/404/d.jpg")], name="r")
        )
    p.build()
    p.run()
    told = [
        repr(p),
        repr(p.bad_samples()),
        json.dumps(p.counters()),
        repr(p.checkpoint()),
    ]
    assert "status/404/b.jpg" in told[1]
    p.close()
    loader = Loader([f"{url}/well.tar?{QUERY}"], 2, storage=Storage(retries=0, cache=tmp_path / "cache"), on_error="skip")
    told += [repr(loader)]
    try:
        list(loader)
    except StokerError as e:
        told += told_of(e)
    told += [repr(loader.state_dict()), repr(pickle.dumps(loader.state_dict()))]
    loader.close()
    for file in [f for f in tmp_path.rglob("*") if f.is_file()]:
        assert MARK.encode() not in file.read_bytes(), file
        assert MARK not in str(file)
    out = capfd.readouterr()
    assert not leaks(*told, out.out, out.err), leaks(*told, out.out, out.err)[:3]


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
def test_proxies(monkeypatch, proxy, via):
    proxy = proxy.format(MARK)
    for scheme in ("http", "https"):
        if via == "environment":
            monkeypatch.setenv(f"{scheme}_proxy", proxy)
        try:
            store = Storage(retries=0, connect_timeout=2, **({"proxy": proxy} if via == "setting" else {}))
            read(f"{scheme}://example.invalid/x.jpg", store)
        except StokerError as e:
            assert not leaks(*told_of(e), repr(store)), told_of(e)
        else:
            raise AssertionError("it cannot be read")


def test_the_command(url, tmp_path):
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
    ):
        done = subprocess.run(
            [BUILD / "cli" / "stoker", *command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
        )
        assert not leaks(done.stdout, done.stderr), (command[0], done.stdout, done.stderr)


def test_representations():
    endpoint = f"https://me:{MARK}@store.example:9000"
    keys = {"access_key": f"{MARK}a", "secret_key": f"{MARK}b", "session_token": f"{MARK}c"}
    store = Storage(**keys, proxy=f"http://me:{MARK}@h:1")
    assert not leaks(repr(store), str(store), str(store.counters()))
    try:
        told = repr(Storage(endpoint=endpoint))
    except StokerError as e:
        told = str(e)
    assert not leaks(told)


def test_control_characters_are_shown_as_text(url, tmp_path):
    with pytest.raises(StokerError) as e:
        read(f"{url}/status/500/a.jpg", Storage(retries=0))
    assert "\n" not in str(e.value) and "\x1b" not in str(e.value) and "[31m" in str(e.value)
    name = tmp_path / "a\x1b[2J\nb.jpg"
    name.write_bytes(b"no image")
    with pytest.raises(StokerError) as e:
        imread(name)
    assert "\x1b" not in str(e.value) and "a\\x1b[2J" in str(e.value)


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        ("http://h/a.jpg?sig=x: the server answers 404", "http://h/a.jpg: the server answers 404"),
        ("(https://h/a#b), then", "(https://h/a), then"),
        ("s3://bucket/a?b#c@d: it ends", "s3://bucket/a?b#c@d: it ends"),
        ("http://me:pw@h:80/x", "http://h:80/x"),
        ("http://me:p/w@h:80/x", "http://h:80/x"),
        ("http://token@h/x", "http://h/x"),
        ("http://h:80/a@b.jpg", "http://h:80/a@b.jpg"),
        ("HTTP://H/x%3FX-Amz-Signature%3Dabc", "HTTP://H/x"),
        ("https%3A%2F%2Fh%2Fx%3FX-Amz-Signature%3Dabc%26b", "https%3A%2F%2Fh%2Fx%3FX-Amz-Signature%3D%26b"),
        ("az://c/x?sig=abc, as", "az://c/x, as"),
        ("a&signature=abc&b", "a&signature=&b"),
        ("say http://NAME:PASSWORD@HOST:PORT in https_proxy", "say http://NAME:PASSWORD@HOST:PORT in https_proxy"),
        ("a\x1bb\x7f\x85\u00e9", "a\\x1bb\\x7f\\x85\u00e9"),
        ("plain, as C:\\x or a:b@c = d", "plain, as C:\\x or a:b@c = d"),
    ],
)
def test_the_functions_agree(text, safe):
    """Compares the package's own function with the library's."""
    assert safe_text(text) == safe
    assert safe_text(safe) == safe
    assert str(StokerError(text)) == safe
