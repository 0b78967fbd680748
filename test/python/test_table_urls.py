# SPDX-License-Identifier: Apache-2.0
"""Tables at URLs with signatures: no message shows a signature."""

import re
import traceback

import pytest
from stoker import Loader
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
