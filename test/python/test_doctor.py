# SPDX-License-Identifier: Apache-2.0
"""`stoker doctor --storage` reports what it can read from a store, and each problem with its remedy."""

from __future__ import annotations

import calendar
import email.utils
import json
import os
import re
import subprocess
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import stoker
from stoker.errors import CorruptError, UnsupportedError
from storage import BUILD, KEYS
from support import NO_AWS

OBJECTS = {"train/a b/1.jpg": b"x" * 1000, "train/c/2.jpg": b"y"}


class Bucket(BaseHTTPRequestHandler):
    """A bucket named b. refuses: a function from a request to None, which allows it, or (status, the store's error code, more of the error, headers).
    late: seconds by which the bucket's clock is ahead."""

    protocol_version = "HTTP/1.1"
    refuses = staticmethod(lambda asked: None)
    late = 0.0

    def log_message(self, *_):
        pass

    def date_time_string(self, timestamp=None):
        return email.utils.formatdate(time.time() + self.late, usegmt=True)

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        asked = urllib.parse.parse_qs(url.query)
        self.listing = "list-type" in asked
        key = urllib.parse.unquote(url.path).removeprefix("/b/")
        fault = self.refuses(self)
        if fault is not None:
            status, code, more, headers = fault
            self.answer(status, f"<Error><Code>{code}</Code>{more}</Error>".encode(), headers)
        elif self.listing:
            prefix = asked.get("prefix", [""])[0]
            names = [urllib.parse.quote_plus(k) for k in OBJECTS if k.startswith(prefix) and url.path.rstrip("/") == "/b"]
            keys = "".join(f"<Contents><Key>{n}</Key><Size>1</Size></Contents>" for n in names)
            body = f"<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>{keys}</ListBucketResult>"
            self.answer(200, body.encode(), {})
        elif key in OBJECTS:
            self.answer(200, OBJECTS[key], {})
        else:
            self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>", {})

    def answer(self, status, body, headers):
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def doctor(monkeypatch):
    """Returns a function that runs the doctor on a Bucket. It returns the advice about problems, the facts about the store, and other advice, and asserts
    that the exit code is 1 if there are problems, otherwise 0."""
    servers = []

    def ask(uri="s3://b/train", refuses=lambda asked: None, late=0.0, path=""):
        kind = type("Told", (Bucket,), {"refuses": staticmethod(refuses), "late": late})
        servers.append(ThreadingHTTPServer(("127.0.0.1", 0), kind))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        where = {
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL_S3": f"http://127.0.0.1:{servers[-1].server_address[1]}{path}",
            "STOKER_S3_ADDRESSING": "path",
        }
        for name, value in {**KEYS, **NO_AWS, **where, "NO_PROXY": "127.0.0.1"}.items():
            monkeypatch.setenv(name, value)
        done = subprocess.run([BUILD / "cli/stoker", "doctor", "--storage", uri, "--json"], capture_output=True, text=True, timeout=60)
        report = json.loads(done.stdout)
        problems = [a["text"] for a in report["advice"] if a["problem"]]
        assert done.returncode == bool(problems)
        return problems, report["storage"], [a["text"] for a in report["advice"] if not a["problem"]]

    yield ask
    for server in servers:
        server.shutdown()
        server.server_close()


def denied(code, more="<Message>Why it is.</Message>", status=403, **headers):
    return status, code, more, headers


def test_what_can_be_read(doctor):
    for uri in ("s3://b/train", "s3://b/train/a b/1.jpg"):
        problems, report, _ = doctor(uri)
        assert not problems and report["listed"] and report["found"] and abs(report["clock_s"]) < 100


REFUSED = [
    (denied("AccessDenied"), r"AccessDenied, Why it is\.: check the credentials, and whether they may list the bucket \(s3:ListBucket\)"),
    (denied("SignatureDoesNotMatch"), r"check the access key and its secret"),
    (denied("InvalidAccessKeyId"), r"check the access key and its secret"),
    (denied("ExpiredToken", status=400), r"renew the session's credentials"),
    (denied("InvalidToken", status=400), r"renew the session's credentials"),
    (denied("RequestTimeTooSkewed"), r"set this machine's clock"),
    (denied("AuthorizationHeaderMalformed", status=400), r"check the region \(AWS_REGION"),
    (denied("PermanentRedirect", status=301), r"check the region .* and the endpoint"),
    (denied("IllegalLocationConstraintException", status=400), r"check the region .* and the endpoint"),
    (denied("NoSuchBucket", status=404), r"check the bucket's name and the endpoint"),
    (denied("SlowDown", status=503), r"the store limits its rate"),
]


@pytest.mark.parametrize("fault, says", REFUSED, ids=[fault[1] for fault, _ in REFUSED])
def test_a_refusal_comes_with_advice(doctor, fault, says):
    (problem,), report, _ = doctor(refuses=lambda asked: fault)
    assert re.search(says, problem) and problem.startswith(f"s3://b/train: the server answers {fault[0]} {fault[1]}"), problem
    assert not report["answers"]


def test_it_makes_no_cache(tmp_path):
    environment = {**os.environ, "AWS_NO_SIGN_REQUEST": "yes", "AWS_REGION": "us-east-1", "NO_PROXY": "127.0.0.1"}
    command = [BUILD / "cli/stoker", "doctor", "--storage", "s3://b/x", "--endpoint", "http://127.0.0.1:9", "--cache", tmp_path / "cache"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.returncode == 1 and "cannot be read" in done.stdout
    assert not (tmp_path / "cache").exists()


def test_a_long_message_keeps_the_way_out(doctor):
    """The advice follows even a long message of the store, and neither is cut. AWS's messages are long: they name the role, the action and the resource."""
    why = "User: arn:aws:sts::123456789012:assumed-role/" + "a-role-" * 30 + " is not authorized"
    (problem,), _, _ = doctor(refuses=lambda asked: denied("AccessDenied", f"<Message>{why}</Message>"))
    assert why in problem and problem.endswith("need no listing")


def test_objects_that_may_not_be_read(doctor):
    for uri in ("s3://b/train", "s3://b/train/a b/1.jpg"):
        (problem,), report, _ = doctor(uri, refuses=lambda asked: None if asked.listing else denied("AccessDenied"))
        assert problem.startswith("s3://b/train/a b/1.jpg: the server answers 403 AccessDenied") and "s3:GetObject" in problem
        assert report["listed"] and not report["answers"]
    (problem,), _, _ = doctor(refuses=lambda asked: None if asked.listing else denied("InvalidObjectState"))
    assert "it is archived" in problem


def test_a_bucket_that_may_not_be_listed(doctor):
    refuses = lambda asked: denied("AccessDenied") if asked.listing else None  # noqa: E731
    assert "s3:ListBucket" in doctor(refuses=refuses)[0][0]
    problems, report, advice = doctor("s3://b/train/c/2.jpg", refuses=refuses)
    assert not problems and report["found"] and not report["listed"] and any("the bucket cannot be listed" in a for a in advice)


@pytest.mark.parametrize("how", ["header", "body"])
def test_another_region_is_learned(doctor, how):
    """The doctor finds the region that a store names: AWS in a header, MinIO only in the error."""

    def refuses(asked):
        if "/eu-south-2/s3/" in asked.headers["Authorization"]:
            return None
        if how == "header":
            return denied("AuthorizationHeaderMalformed", status=400, **{"x-amz-bucket-region": "eu-south-2"})
        return denied("AuthorizationHeaderMalformed", "<Region>eu-south-2</Region>", status=400)

    problems, report, _ = doctor(refuses=refuses)
    assert not problems and report["answers"] and report["region"] == "eu-south-2"


@pytest.mark.parametrize("late", [3600.0, -86400.0])
def test_a_wrong_clock_is_reported_and_corrected(doctor, late):
    def refuses(asked):
        signed = calendar.timegm(time.strptime(asked.headers["x-amz-date"], "%Y%m%dT%H%M%SZ"))
        return denied("RequestTimeTooSkewed") if abs(signed - time.time() - late) > 900 else None

    problems, report, advice = doctor(refuses=refuses, late=late)
    assert not problems and report["answers"] and abs(report["clock_s"] - late) < 100
    assert any(("behind" if late > 0 else "ahead of") in a and "chrony" in a for a in advice)


def test_where_nothing_lies(doctor):
    for uri, path in (("s3://b/none", ""), ("s3://b/train/none.jpg", ""), ("s3://b/train", "/b")):
        (problem,), report, _ = doctor(uri, path=path)
        assert problem.startswith(f"{uri}: nothing is listed there: check the name, and the endpoint") and not report["found"]
    (problem,), _, _ = doctor(refuses=lambda asked: (200, "Hello", "", {}))
    assert problem.startswith("s3://b/train: the store's listing is not the XML of a listing: does this endpoint speak S3?")


def test_the_version_of_ffmpeg_is_listed():
    report = json.loads(subprocess.run([BUILD / "cli/stoker", "doctor", "--versions", "--json"], capture_output=True, check=True).stdout)
    try:
        stoker.VideoDecoder(b"no video")
    except UnsupportedError:
        assert "FFmpeg" not in report["libraries"]  # the build is without it, or it is not installed
    except CorruptError:
        assert report["libraries"]["FFmpeg"]
