# SPDX-License-Identifier: Apache-2.0
"""gs:// with a replacement of Google's servers on loopback: listings, ranges, and every kind of credentials. No secret is printed."""

import base64
import json
import os
import shutil
import subprocess
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

import pytest
from stoker import Loader, Storage
from stoker import transforms as T
from stoker.errors import StokerError
from storage import KEYS, Store, stoker
from storage import hashes as run

SMALL = [T.Resize((8, 8))]


class Google:
    """The XML API of a store, its token endpoint, and the metadata server, on one port. token: the bearer token that requests for objects must have, or None.
    `seen` has the Authorization header of each such request, `asked` the forms and paths of requests for a token."""

    def __init__(self, root, token="ya29.tOkEn", lifetime=3600):
        self.root, self.token, self.lifetime, self.seen, self.asked = root, token, lifetime, [], []
        self.failures = 0  # number of the next requests for a token that get a 503
        outer = self

        class Door(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status, body, **headers):
                self.send_response(status)
                for name, value in {"Content-Length": len(body), **headers}.items():
                    self.send_header(name.replace("_", "-"), str(value))
                self.end_headers()
                self.wfile.write(body)

            def give_token(self):
                self.answer(200, json.dumps({"access_token": outer.token, "expires_in": outer.lifetime, "token_type": "Bearer"}).encode())

            def do_POST(self):
                form = dict(urllib.parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
                outer.asked.append(form)
                if outer.failures:
                    outer.failures -= 1
                    return self.answer(503, b"")
                good = form.get("refresh_token") == "1//refresh" or "assertion" in form
                return self.give_token() if good else self.answer(400, b'{"error": "invalid_grant"}')

            def do_GET(self):
                path, _, query = self.path.partition("?")
                if path.startswith("/computeMetadata"):
                    outer.asked.append(path)
                    if outer.failures:
                        outer.failures -= 1
                        return self.answer(503, b"")
                    return self.give_token() if self.headers["Metadata-Flavor"] == "Google" else self.answer(403, b"")
                outer.seen.append(self.headers["Authorization"])
                if outer.token is not None and self.headers["Authorization"] != f"Bearer {outer.token}":
                    return self.answer(401, b"<Error><Code>AuthenticationRequired</Code></Error>")
                asked = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
                if "list-type" in asked:
                    return self.answer(200, outer.page(urllib.parse.unquote(path).strip("/"), asked))
                file = outer.root / urllib.parse.unquote(path).lstrip("/")
                if not file.is_file():
                    return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
                data, etag = file.read_bytes(), f'"{file.stat().st_mtime_ns}"'
                if wanted := self.headers["Range"]:
                    first, last = wanted.removeprefix("bytes=").split("-")
                    part = data[int(first) : int(last) + 1 if last else None]
                    where = f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"
                    return self.answer(206, part, Content_Range=where, ETag=etag)
                return self.answer(200, data, ETag=etag)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        self.url = f"http://{self.host}"

    def page(self, bucket, asked):
        """Returns one page of a listing: at most three keys and prefixes, and the token of the next page."""
        prefix, delimiter, after = (
            asked["prefix"],
            asked.get("delimiter", ""),
            asked.get("start-after", asked.get("continuation-token", "")),
        )
        keys = sorted(p.relative_to(self.root / bucket).as_posix() for p in (self.root / bucket).rglob("*") if p.is_file())
        entries = {}
        for key in (k for k in keys if k.startswith(prefix)):
            head, slash, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            entries.setdefault(prefix + head + slash if slash else key, not slash)
        names = [n for n in sorted(entries) if n > after and not (after.endswith("/") and n.startswith(after))]
        out = []
        for name in names[:3]:
            quoted = escape(urllib.parse.quote(name))
            size = (self.root / bucket / name).stat().st_size if entries[name] else 0
            out.append(
                f"<Contents><Key>{quoted}</Key><Size>{size}</Size></Contents>"
                if entries[name]
                else f"<CommonPrefixes><Prefix>{quoted}</Prefix></CommonPrefixes>"
            )
        more = f"<NextContinuationToken>{escape(names[2])}</NextContinuationToken>" if len(names) > 3 else ""
        truncated = "true" if more else "false"
        return f"<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{truncated}</IsTruncated>{''.join(out)}{more}</ListBucketResult>".encode()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def root(tree, tmp_path_factory):
    root = tmp_path_factory.mktemp("google")
    shutil.copytree(tree, root / "photos" / "a b" / "train")
    return root


@pytest.fixture(autouse=True)
def environment(monkeypatch, tmp_path):
    for name in [n for n in os.environ if n.startswith(("AWS_", "GOOGLE_", "GCS_", "CLOUDSDK_", "GCE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.fixture
def google(root):
    server = Google(root)
    yield server
    server.close()


def first_image(google, key="a b/train/class0/000.jpg", **more):
    loader = Loader([(f"gs://photos/{key}", 0)], 1, transforms=SMALL, storage=Storage(endpoint=google.url, **more))
    return next(iter(loader))


@pytest.mark.essential
def test_a_tree_in_a_bucket_of_googles(google, tree, monkeypatch):
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", google.token)
    storage = Storage(endpoint=google.url)
    assert run("gs://photos/a b/train", epochs=2, storage=storage) == run(tree, epochs=2)
    assert set(google.seen) == {f"Bearer {google.token}"}


def test_hmac_keys_sign(root, tree, monkeypatch):
    store = Store(root)
    try:
        monkeypatch.setenv("GCS_KEY", KEYS["AWS_ACCESS_KEY_ID"])
        monkeypatch.setenv("GCS_SECRET", KEYS["AWS_SECRET_ACCESS_KEY"])
        assert run("gs://photos/a b/train", storage=Storage(endpoint=store.url)) == run(tree)
        monkeypatch.setenv("GCS_SECRET", "wrong")
        with pytest.raises(StokerError, match="SignatureDoesNotMatch"):
            run("gs://photos/a b/train", storage=Storage(endpoint=store.url))
    finally:
        store.close()


def test_an_emulator_needs_no_keys(root, tree, monkeypatch):
    server = Google(root, token=None)
    try:
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", server.host)
        assert run("gs://photos/a b/train") == run(tree)
        assert set(server.seen) == {None}
    finally:
        server.close()


def test_globs_of_tables(root, google, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    import numpy as np
    from tables import all_labels, write_table

    write_table(root / "photos" / "table", np.random.default_rng(1), (9, 9, 9, 9))
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", google.token)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    loader = Loader("gs://photos/table/*.parquet", 6, transforms=SMALL, fields=("image", "label"), storage=Storage(endpoint=google.url))
    assert all_labels(loader) == list(range(36))


def test_the_metadata_server(google, monkeypatch):
    monkeypatch.delenv("NO_GCE_CHECK")
    monkeypatch.setenv("GCE_METADATA_HOST", google.host)
    first_image(google)
    assert google.asked == ["/computeMetadata/v1/instance/service-accounts/default/token"]


def test_issuers_that_fail_for_a_moment_are_asked_again(google, tmp_path, monkeypatch):
    user = {"type": "authorized_user", "client_id": "id", "client_secret": "s", "refresh_token": "1//refresh"}
    credentials(tmp_path, monkeypatch, **user, token_uri=f"{google.url}/token")
    google.failures = 2
    first_image(google)
    assert len(google.asked) == 3
    google.failures = 99
    with pytest.raises(StokerError, match=r"token endpoint fails \(status 503\): try again later"):
        first_image(google)
    assert len(google.asked) == 7
    credentials(tmp_path, monkeypatch, **user, token_uri="http://127.0.0.1:1/token")
    with pytest.raises(StokerError, match="token endpoint does not answer: check the network"):
        first_image(google)
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.delenv("NO_GCE_CHECK")
    monkeypatch.setenv("GCE_METADATA_HOST", google.host)
    with pytest.raises(StokerError, match=r"metadata server fails \(status 503\): try again later"):
        first_image(google)
    google.failures = 2
    first_image(google)


def credentials(tmp_path, monkeypatch, **fields):
    path = tmp_path / "credentials.json"
    path.write_text(json.dumps(fields))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    return path


def test_a_users_file(google, tmp_path, monkeypatch):
    user = {"client_id": "id", "client_secret": "s&cret", "refresh_token": "1//refresh", "token_uri": f"{google.url}/token"}
    credentials(tmp_path, monkeypatch, type="authorized_user", **user)
    first_image(google)
    assert google.asked == [{"grant_type": "refresh_token", "client_id": "id", "client_secret": "s&cret", "refresh_token": "1//refresh"}]
    credentials(tmp_path, monkeypatch, type="authorized_user", **{**user, "refresh_token": "oLd-RefreSh"})
    with pytest.raises(StokerError, match=r"refuses the user's refresh token.*400") as e:
        first_image(google)
    assert "oLd-RefreSh" not in str(e.value) and "s&cret" not in str(e.value)


def test_the_file_that_gcloud_writes(google, tmp_path):
    user = {
        "type": "authorized_user",
        "client_id": "id",
        "client_secret": "s",
        "refresh_token": "1//refresh",
        "token_uri": f"{google.url}/token",
    }
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "application_default_credentials.json").write_text(json.dumps(user))
    first_image(google)


@pytest.fixture(scope="module")
def private_key(tmp_path_factory):
    openssl = shutil.which("openssl")
    if not openssl:
        pytest.skip("there is no openssl to make a key")
    folder = tmp_path_factory.mktemp("keys")
    subprocess.run(
        [openssl, "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", "key.pem"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    subprocess.run([openssl, "pkey", "-in", "key.pem", "-pubout", "-out", "public.pem"], cwd=folder, check=True, capture_output=True)
    return folder


def test_a_service_accounts_file(google, tmp_path, monkeypatch, private_key):
    fields = {"client_email": "robot@project.iam", "private_key_id": "k1", "token_uri": f"{google.url}/token"}
    credentials(tmp_path, monkeypatch, type="service_account", private_key=(private_key / "key.pem").read_text(), **fields)
    before = int(time.time())
    first_image(google)
    (form,) = google.asked
    assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
    head, body, signature = form["assertion"].split(".")

    def decoded(part):
        return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))

    assert json.loads(decoded(head)) == {"alg": "RS256", "typ": "JWT", "kid": "k1"}
    said = json.loads(decoded(body))
    assert said["iss"] == "robot@project.iam" and said["aud"] == f"{google.url}/token" and said["scope"].endswith("devstorage.read_only")
    assert before <= said["iat"] <= time.time() and said["exp"] == said["iat"] + 3600
    (tmp_path / "signature").write_bytes(decoded(signature))
    (tmp_path / "text").write_text(f"{head}.{body}")
    verify = ["openssl", "dgst", "-sha256", "-verify", str(private_key / "public.pem"), "-signature", "signature", "text"]
    assert subprocess.run(verify, cwd=tmp_path, capture_output=True, check=True).stdout.strip() == b"Verified OK"
    credentials(tmp_path, monkeypatch, type="service_account", private_key="-----BEGIN PRIVATE KEY-----\nnOnSeNsE\n", **fields)
    with pytest.raises(StokerError, match="private key in the service account's file") as e:
        first_image(google)
    assert "nOnSeNsE" not in str(e.value)


def test_tokens_that_end_are_renewed(root, monkeypatch):
    server = Google(root, lifetime=2)
    try:
        monkeypatch.delenv("NO_GCE_CHECK")
        monkeypatch.setenv("GCE_METADATA_HOST", server.host)
        storage = Storage(endpoint=server.url)
        for _ in range(2):
            next(iter(Loader([("gs://photos/a b/train/class0/000.jpg", 0)], 1, transforms=SMALL, storage=storage)))
        assert len(server.asked) >= 2
    finally:
        server.close()


@pytest.mark.parametrize(
    "fields, said",
    [({"type": "external_account"}, "external_account"), ({"type": "service_account"}, "a field is missing"), ({}, "a field is missing")],
)
def test_files_that_are_not_understood(google, tmp_path, monkeypatch, fields, said):
    credentials(tmp_path, monkeypatch, **fields)
    with pytest.raises(StokerError, match=said):
        first_image(google)


def test_messages_say_what_to_do(google, monkeypatch):
    with pytest.raises(StokerError, match=r"GCS_KEY.*GOOGLE_APPLICATION_CREDENTIALS.*anonymous=True"):
        first_image(google)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", "/none/such.json")
    with pytest.raises(StokerError, match="cannot be read"):
        first_image(google)
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "wRoNg")
    with pytest.raises(StokerError, match=r"the token, from the environment .a token., begins or ends with a blank or a line break") as e:
        monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "wRoNg\n")
        first_image(google)
    assert "wRoNg" not in str(e.value)
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", "wRoNg")
    with pytest.raises(StokerError, match="401") as e:
        first_image(google, retries=0)
    assert "wRoNg" not in str(e.value)
    with pytest.raises(StokerError, match="404 NoSuchKey"):
        monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", google.token)
        first_image(google, "none.jpg")
    with pytest.raises(StokerError, match="Azure's containers are not read"):
        Loader([("az://container/a.jpg", 0)], 1, transforms=SMALL).pipeline.run()


def test_a_users_function_still_reads_gs(root):
    asked = []

    def fetch(uri, offset, length):
        asked.append(uri)
        data = (root / uri.removeprefix("gs://")).read_bytes()
        return data[offset : None if length is None else offset + length]

    loader = Loader([("gs://photos/a b/train/class0/000.jpg", 0)], 1, transforms=SMALL, storage=Storage(fetch=fetch))
    next(iter(loader))
    assert asked


def test_doctor_asks_google(google, monkeypatch):
    monkeypatch.setenv("GOOGLE_OAUTH_ACCESS_TOKEN", google.token)
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "")
    said = stoker("doctor", "--storage", "gs://photos/a b/", "--endpoint", google.url)
    assert google.url in said and "the environment" in said
