# SPDX-License-Identifier: Apache-2.0
"""Tables at URLs with signatures: no message shows a signature, and a run is resumed with URLs that were signed again."""

import itertools
import json
import re
import traceback
from types import SimpleNamespace

import pytest
from stoker import Loader
from stoker._files import without_signature
from stoker.errors import StateError
from stoker.loader.sources import _table_pack
from stoker.loader.sources._table import Table, partitions_of
from stoker.loader.sources._table_files import shown_name
from tables import pa, served, write

SECRET = "sEcReT"
# Tables whose second row cannot be read, or that are refused: the columns, and what the message says.
FAULTY = {
    "null": ({"i": [0, None]}, r"/t.parquet\[row group 0, row 1\], column 'i': it is null"),
    "too large": ({"f": [0.0, 1e300]}, r"/t.parquet\[row group 0, row 1\], column 'f': floats are float32"),
    "no image": ({"image": [b"xx", b"yyyy"]}, r"/t.parquet\[row group 0, row [01]\]: not a JPEG"),
    "lists": ({"l": [[[1, 2], [3]], [[1]]]}, r"/t.parquet\[row group 0, row 0\], column 'l'"),
    "no form": ({"m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}, r"/t.parquet has no column that has a form"),
}


@pytest.fixture
def url(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with served(tmp_path) as url:
        yield url


def signed(url, signature=SECRET):
    return f"{url}?X-Amz-Credential=a%2F{signature}&X-Amz-Signature={signature}"


@pytest.mark.parametrize("end", ["raise", "skip"])
@pytest.mark.parametrize("fault", FAULTY)
def test_messages_about_rows_name_the_row_and_show_no_query(url, tmp_path, capfd, fault, end):
    columns, said = FAULTY[fault]
    write(tmp_path / "t.parquet", columns)
    texts = []
    if end == "skip" and fault in ("null", "too large", "lists"):
        with Loader(signed(f"{url}/t.parquet"), 1, on_error="skip", max_errors=1) as loader:
            assert len(list(loader)) == 1
            (bad,) = loader.pipeline.bad_samples()
            texts += [repr(loader), repr(loader.state_dict()), *traceback.format_exception(bad)]
        assert re.search(said, str(bad))
    else:
        with pytest.raises(Exception, match=said) as e:
            list(Loader(signed(f"{url}/t.parquet"), 1))
        texts += traceback.format_exception(e.value)
    assert SECRET not in "".join([*texts, *capfd.readouterr()])


def test_queries_are_no_partitions(url, tmp_path):
    write(tmp_path / "y=1" / "t.parquet", {"i": [0, 1]})
    write(tmp_path / "y=2" / "t.parquet", {"i": [2, 3]})
    batch = next(iter(Loader([signed(f"{url}/y={k}/t.parquet") + "&x=/z=3/q" for k in (1, 2)], 4)))
    assert batch._fields == ("i", "y") and batch.y.tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize("shuffle", [False, True, "groups"])
def test_a_run_is_resumed_with_urls_that_were_signed_again(url, tmp_path, shuffle):
    for name in "ab":
        write(tmp_path / f"{name}.parquet", {"i": list(range(20))}, 5)

    def make(signature, names="ab"):
        return Loader([signed(f"{url}/{name}.parquet", signature) for name in names], 4, shuffle=shuffle, seed=1)

    first = make("one")
    begun = [b.i.tolist() for b in itertools.islice(first, 3)]
    state = first.state_dict()
    again = make("two")
    again.load_state_dict(state)
    assert begun + [b.i.tolist() for b in again] == [b.i.tolist() for b in make("three")]
    with pytest.raises(StateError, match=r"another data set|other files"):
        make("two", "ba").load_state_dict(state)
    old = Table([signed(f"{url}/{name}.parquet", "one") for name in "ab"]).digest(old=True)  # as earlier versions saved it
    state = json.loads(json.dumps(state).replace(first._run.source._digest(), old))
    assert old in json.dumps(state) and old != first._run.source._digest()
    make("one").load_state_dict(state)
    with pytest.raises(StateError):
        make("two").load_state_dict(state)


# URLs, and what stays of their queries.
QUERIES = {
    "S3": ("X-Amz-Algorithm=A&X-Amz-Expires=9&x-amz-signature=b&versionId=3", "?versionId=3"),
    "S3, version 2": ("AWSAccessKeyId=a&Expires=9&Signature=b%3D", ""),
    "Google": ("X-Goog-Algorithm=A&generation=7&X-Goog-Signature=b", "?generation=7"),
    "Google, version 2": ("GoogleAccessId=a&Expires=9&Signature=b", ""),
    "Azure": ("sv=2024&st=1&se=2&sr=b&sp=r&spr=https&skoid=3&sktid=4&skt=5&ske=6&sks=b&skv=7&sig=c&snapshot=8", "?snapshot=8"),
    "CloudFront": ("response-content-type=x&Expires=9&Policy=p_&Signature=s~&Key-Pair-Id=K", "?response-content-type=x"),
    "none": ("file=a/b.parquet&sp=train&policy=3&expires=0", "?file=a/b.parquet&sp=train&policy=3&expires=0"),
    "no key": ("1", "?1"),
}


@pytest.mark.parametrize("case", QUERIES)
def test_only_signatures_are_left_out_of_urls(case):
    query, kept = QUERIES[case]
    assert without_signature(f"HTTPS://h/a.parquet?{query}") == f"HTTPS://h/a.parquet{kept}"
    for name in (f"az://h/b?{query}", f"/c?{query}", "http://h/d"):
        assert without_signature(name) == name


def test_a_run_does_not_go_on_with_a_file_that_only_the_query_tells_apart(url, tmp_path):
    write(tmp_path / "get.parquet", {"i": list(range(8))})

    def make(file, signature):
        return Loader(f"{signed(f'{url}/get.parquet', signature)}&file={file}", 4, shuffle=False)

    first = make("a/train.parquet", "one")
    assert next(iter(first)).i.tolist() == [0, 1, 2, 3]
    state = first.state_dict()
    again = make("a/train.parquet", "two")
    again.load_state_dict(state)
    assert [b.i.tolist() for b in again] == [[4, 5, 6, 7]]
    for file in ("a/val.parquet", "b/train.parquet"):
        with pytest.raises(StateError, match="another data set"):
            make(file, "one").load_state_dict(state)


@pytest.mark.parametrize("scheme", ["s3", "az", "http"])
def test_question_marks_in_keys_are_no_queries(scheme):
    """Only in names of http does a query end the path. In other stores, folders after a question mark are partitions."""
    names = [f"{scheme}://b/which?/y={y}/a.parquet" for y in (1, 2)]
    files = [SimpleNamespace(name=name, schema=pa.schema({"x": pa.int64()})) for name in names]
    assert partitions_of(files) == ({} if scheme == "http" else {"y": dict(zip(names, (1, 2), strict=True))})
    assert shown_name(names[0]) == (names[0] if scheme == "s3" else f"{scheme}://b/which")
    assert shown_name(f"{scheme}://me:{SECRET}@b/a.parquet") == f"{scheme}://b/a.parquet"


def test_packing_goes_on_with_urls_that_were_signed_again(url, tmp_path, capfd):
    write(tmp_path / "t.parquet", {"image": [b"xx", b"yy"], "label": [0, 1]})
    marks = {
        _table_pack._Packing([signed(f"{url}/t.parquet", name)], {"output": str(tmp_path / "out"), "quiet": True})._mark()
        for name in ("one", "two")
    }
    assert len(marks) == 1
