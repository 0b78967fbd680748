# SPDX-License-Identifier: Apache-2.0
"""What `datasets` writes about columns: files in which a label has different meanings, or sounds different rates, are not joined."""

import json

import numpy as np
import pytest
from sound_files import wav
from stoker import Audio, Loader
from stoker.errors import InvalidArgumentError
from stoker.loader.sources import _table_pack
from stoker.loader.sources._table import inspect
from tables import jpeg, pa, write

VALUE = {"dtype": "int64", "_type": "Value"}


def classes(*names):
    return {"names": list(names), "_type": "ClassLabel"}


# Features of a column of labels in two files, and what the error says; None: the Loader joins them.
LABELS = {
    "other order": (
        classes("cat", "dog"),
        classes("dog", "cat"),
        r"'label' are, from number 0 on, \['dog', 'cat'\], and in .*a.parquet \['cat', 'dog'\]",
    ),
    "one more": (classes("cat"), classes("cat", "dog"), r"from number 1 on, \['dog'\], and in .*a.parquet \[\]"),
    "many": (
        classes(*map(str, range(2000))),
        classes(*map(str, range(1000)), *["x"] * 1000),
        r"from number 1000 on, \['x', .{90,100}, and in",
    ),
    "in a list": (
        {"_type": "List", "feature": classes("cat", "dog")},
        {"_type": "List", "feature": classes("dog", "cat")},
        "the classes of the column 'label' are",
    ),
    "in a struct": (
        {"feature": {"kind": [classes("cat")]}, "x": VALUE},
        {"feature": {"kind": [classes("dog")]}, "x": VALUE},
        "the classes of the column 'label.feature.kind' are",
    ),
    "the same": (classes("cat", "dog"), classes("cat", "dog"), None),
    "no names": (classes("cat", "dog"), VALUE, None),
    "no names first": (VALUE, classes("cat", "dog"), None),
    "no features": (classes("cat", "dog"), None, None),
}


@pytest.mark.parametrize("case", LABELS)
def test_files_whose_labels_have_other_classes_are_refused(tmp_path, case):
    first, second, said = LABELS[case]
    for name, feature in (("a", first), ("b", second)):
        features = {"x": VALUE} | ({"label": feature} if feature else {})
        write(tmp_path / f"{name}.parquet", {"label": pa.array([0, 1]), "x": [1, 2]}, features=features)
    assert inspect([f"{tmp_path}/*.parquet"])["alike"] == (said is None)
    if said is None:
        assert [b.label.tolist() for b in Loader(tmp_path, 4)] == [[0, 1, 0, 1]]
        return
    with pytest.raises(InvalidArgumentError, match=rf"b.parquet: .*{said}.*: write the files again"):
        Loader(tmp_path, 4)
    assert [b.x.tolist() for b in Loader(tmp_path, 4, fields=("x",))] == [[1, 2, 1, 2]]


def test_two_files_after_one_without_features(tmp_path):
    write(tmp_path / "a.parquet", {"label": [0]})
    for name in ("cat", "dog"):
        write(tmp_path / f"{name}.parquet", {"label": [0]}, features={"label": classes(name)})
    with pytest.raises(InvalidArgumentError, match=r"dog.parquet: .* \['dog'\], and in .*cat.parquet \['cat'\]"):
        Loader(tmp_path, 1)


@pytest.mark.parametrize("form", ["parquet", "saved"])
def test_packing_refuses_other_classes(tmp_path, rng, form, capsys):
    folder = tmp_path / "in"
    folder.mkdir()
    names = [f"{name}.{'parquet' if form == 'parquet' else 'arrow'}" for name in ("cat", "dog")]
    for name in names:
        features = {"image": {"_type": "Image"}, "label": classes(name[:3])}
        path = write(folder / f"{name[:3]}.parquet", {"image": pa.array([jpeg(rng)]), "label": pa.array([0])}, features=features)
        if form == "saved":
            table = pa.parquet.read_table(path)
            path.unlink()
            with pa.OSFile(str(folder / name), "wb") as f, pa.ipc.new_stream(f, table.schema) as out:
                out.write_table(table)
    if form == "saved":
        (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    assert _table_pack.main([str(folder), "-o", str(tmp_path / "out")]) == 1
    error = capsys.readouterr().err
    assert f"{names[1]}: the classes of the column 'label' are, from number 0 on, ['dog'], and in" in error
    assert not (tmp_path / "out").exists()


def test_sounds_of_two_rates_need_a_rate_of_the_user(tmp_path, rng):
    sound = wav(np.int16(rng.integers(-999, 999, (1600, 1))), 16000)
    for rate in (8000, 16000):
        write(tmp_path / f"{rate}.parquet", {"audio": pa.array([sound])}, features={"audio": {"_type": "Audio", "sampling_rate": rate}})
    with pytest.raises(InvalidArgumentError, match=r"'audio' have the rate 8000 in Hz, and in .*16000.parquet 16000: .*Audio\(rate=...\)"):
        Loader(tmp_path, 2, fields={"audio": Audio()})
    (batch,) = Loader(tmp_path, 2, fields={"audio": Audio(rate=4000)})
    assert batch.audio.shape == (2, 400)
