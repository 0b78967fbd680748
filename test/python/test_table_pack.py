# SPDX-License-Identifier: Apache-2.0
"""`stoker pack` of tables: the tars contain every row's bytes and values; an error names values that a tar cannot store; no incomplete pack remains."""

import io
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from stoker import Loader
from stoker import transforms as T
from storage import Store
from tables import IMAGES, jpeg, pa, pq, rows_of, write, write_table

CLASSES = {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": [f"class {i}" for i in range(100)]}}


def pack(*arguments, code=0, **more):
    command = [sys.executable, "-m", "stoker", "pack", *map(str, arguments)]
    environment = dict(more.pop("env", os.environ))
    environment["PYTHONPATH"] = os.pathsep.join(os.path.abspath(p) for p in environment.get("PYTHONPATH", "").split(os.pathsep) if p)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, **more)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def members(folder):
    """Returns the members of all tars, by name. Checks that no name occurs twice."""
    found = {}
    for path in sorted(Path(folder).glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                assert member.name not in found
                found[member.name] = tar.extractfile(member).read()
    return found


def one(tmp_path, columns, **more):
    """Packs a table with these columns, and returns the members of the tars by name."""
    pack(write(tmp_path / "t.parquet", columns, **more), "-o", tmp_path / "out")
    return members(tmp_path / "out")


def test_json_is_packed_as_json(tmp_path, rng):
    if not hasattr(pa, "json_"):
        pytest.skip("this pyarrow has no type for JSON")
    values = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a": [1, null]}', '"word"', None]))
    nested = pa.StructArray.from_arrays([values], ["x"])
    found = one(tmp_path, {"image": [jpeg(rng)] * 3, "info": values, "nested": nested})
    assert {name: json.loads(data) for name, data in found.items() if name.endswith(".json")} == {
        "000000000.info.json": {"a": [1, None]},
        "000000000.nested.json": {"x": {"a": [1, None]}},
        "000000001.info.json": "word",
        "000000001.nested.json": {"x": "word"},
        "000000002.nested.json": {"x": None},
    }


def test_every_row_is_packed_and_read_again(tmp_path, rng):
    table = write_table(tmp_path / "in", rng, features=CLASSES)
    facts = json.loads(pack(table, "-o", tmp_path / "out", "--shard-size", "16KB", "--json").stdout)
    assert facts["samples"] == 64 and facts["tars"] > 3 and facts["kept"] == 0
    assert all(p.stat().st_size <= 16000 for p in (tmp_path / "out").glob("*.tar"))
    found = members(tmp_path / "out")
    rows = [row for f in sorted(table.glob("*.parquet")) for row in pq.read_table(f).to_pylist()]
    for i, row in enumerate(rows):
        key = f"{i:09d}"
        assert found.pop(f"{key}.jpg") == row["image"]["bytes"]
        assert found.pop(f"{key}.cls") == b"%d" % row["label"]
        assert found.pop(f"{key}.caption.txt").decode() == row["caption"]
    assert not found
    components = {"image": "jpg", "label": "cls", "caption": "caption.txt"}
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()}
    small = [T.Resize((8, 8))]
    batches = list(Loader.from_tars(str(tmp_path / "out" / "shards-*.tar"), 8, components=components, transforms=small))
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "out").iterdir()} == before  # the indexes that pack made are used
    fields = {"image": "Image", "label": None, "caption": None}
    wanted = list(Loader.from_parquet(str(table / "*.parquet"), 8, fields=fields, transforms=small))
    assert len(batches) == len(wanted) == 8
    for a, b in zip(batches, wanted, strict=True):
        assert (a.image == b.image).all() and (a.label == b.label).all() and a.caption == b.caption
    assert Loader(str(tmp_path / "out"), 8, transforms=small).classes == CLASSES["label"]["names"]


def test_the_same_table_gives_the_same_bytes(tmp_path, rng):
    table = write_table(tmp_path / "in", rng)
    for name in ("a", "b"):
        pack(table, "-o", tmp_path / name, "--shard-size", "20KB")
    a, b = ({p.name: p.read_bytes() for p in (tmp_path / n).glob("*.tar")} for n in ("a", "b"))
    assert a == b
    assert f"{len(a)} of them were there already" in pack(table, "-o", tmp_path / "a", "--shard-size", "20KB").stdout
    assert "another source or other options" in pack(table, "-o", tmp_path / "a", "--shard-size", "30KB", code=1).stderr


def test_forms_of_columns(tmp_path, rng):
    images = [jpeg(rng) for _ in range(3)]
    numbers = np.float64([0.1, 1 / 3, 2e300])
    columns = {
        "jpg": pa.array([{"bytes": b, "path": "x.png"} for b in images], IMAGES),
        "mask": pa.array([{"bytes": b"\x89PNG\r\n\x1a\n0", "path": None}, None, {"bytes": b"?", "path": "m.xyz"}], IMAGES),
        "txt": ["a", None, "\u00e9"],
        "json": pa.array([{"a": [1, None]}, {"a": None}, None]),
        "cls": pa.array([3, -1, None], pa.int8()),
        "flag": [True, False, None],
        "score": pa.array(numbers),
        "time": pa.array([1, 2, None], pa.timestamp("us", "Europe/Paris")),
        "box": pa.array([[0.1, 2], [], None], pa.list_(pa.float64())),
        "grid": pa.array([[[1, 2], [3, 4]]] * 3, pa.list_(pa.list_(pa.uint8(), 2), 2)),
        "boxes": pa.array([[[1, 2, 3, 4]], [], []], pa.list_(pa.list_(pa.float32(), 4))),
        "raw bytes": pa.array([b"\0\1", b"", None]),
        "kind": pa.array(["u", "v", "u"]).dictionary_encode(),
        "big": pa.array(["x", "y", "z"], pa.large_string()),
    }
    done = pack(write(tmp_path / "t.parquet", columns), "-o", tmp_path / "out", "--image", "jpg")
    found = members(tmp_path / "out")
    assert [found[f"00000000{i}.jpg"] for i in range(3)] == images
    first = {name.partition(".")[2]: data for name, data in found.items() if name.startswith("000000000.")}
    assert first.pop("mask.png") == b"\x89PNG\r\n\x1a\n0" and found["000000002.mask.xyz"] == b"?"
    assert (first.pop("txt"), found["000000002.txt"], first.pop("kind.txt"), first.pop("big.txt")) == (b"a", "\u00e9".encode(), b"u", b"x")
    assert json.loads(first.pop("json")) == {"a": [1, None]}
    assert (first.pop("cls"), found["000000001.cls"], first.pop("flag.json"), first.pop("time.json")) == (b"3", b"-1", b"true", b"1")
    assert [json.loads(found[f"00000000{i}.score.json"]) for i in range(3)] == numbers.tolist()
    box, grid, boxes = (np.load(io.BytesIO(first.pop(f"{name}.npy"))) for name in ("box", "grid", "boxes"))
    assert box.dtype == np.float64 and box.tolist() == [0.1, 2] and grid.dtype == np.uint8 and grid.tolist() == [[1, 2], [3, 4]]
    assert np.load(io.BytesIO(found["000000001.box.npy"])).shape == (0,)
    assert boxes.shape == (1, 4) and np.load(io.BytesIO(found["000000001.boxes.npy"])).shape == (0, 4)
    assert first.pop("raw_bytes.bin") == b"\0\1" and found["000000001.raw_bytes.bin"] == b""
    del first["jpg"], first["score.json"]
    assert not first
    assert {n.partition(".")[2] for n in found if n.startswith("000000002.")} == {
        *("jpg", "mask.xyz", "txt", "score.json", "grid.npy", "boxes.npy", "kind.txt", "big.txt")
    }
    for name in ("mask", "txt", "json", "cls", "flag", "time", "box", "raw bytes"):
        assert f"column '{name}': 1 of the rows have no value" in done.stderr, name


def test_columns_that_the_user_names(tmp_path, rng):
    columns = {**rows_of(rng, 3), "kind": pa.array([7, 8, 9]), "second": pa.array([jpeg(rng)] * 3)}
    table = write(tmp_path / "t.parquet", columns)
    pack(table, "-o", tmp_path / "out", "--image=second", "--label", "kind", "--columns", "caption")
    found = members(tmp_path / "out")
    assert {n.partition(".")[2] for n in found} == {"jpg", "cls", "caption.txt"} and len(found) == 9
    assert found["000000000.jpg"] == columns["second"][0].as_py() and found["000000002.cls"] == b"9"


def test_folders_of_partitions(tmp_path, rng):
    for year in (2023, 2024):
        write(tmp_path / "in" / "set=a b" / f"year={year}" / "p.parquet", rows_of(rng, 2, year))
    pack(tmp_path / "in", "-o", tmp_path / "out")
    found = members(tmp_path / "out")
    assert [found[f"00000000{i}.year.json"] for i in range(4)] == [b"2023", b"2023", b"2024", b"2024"]
    assert not any(".set." in n for n in found)


def test_paths_are_read(tmp_path, rng):
    (tmp_path / "a.jpg").write_bytes(jpeg(rng))
    made = pa.array([{"bytes": None, "path": str(tmp_path / "a.jpg")}], IMAGES)
    assert one(tmp_path, {"image": made}) == {"000000000.jpg": (tmp_path / "a.jpg").read_bytes()}
    gone = write(tmp_path / "gone.parquet", {"image": pa.array([{"bytes": None, "path": str(tmp_path / "b.jpg")}], IMAGES)})
    said = pack(gone, "-o", tmp_path / "more", code=1).stderr
    assert "gone.parquet[row group 0, row 0], column 'image': No such file or directory" in said


REFUSED = {
    "a null image": (
        {"image": pa.array([{"bytes": b"\xff\xd8\xff", "path": None}, None], IMAGES)},
        "row group 0, row 1], column 'image': it is null",
    ),
    "no image": (
        {"image": pa.array([{"bytes": b"words", "path": None}] * 2, IMAGES)},
        "row 0], column 'image': it is no image, sound or video",
    ),
    "no column": ({"a": ["x", "y"]}, r"no column of images or sounds \(a\)"),
    "a map": (
        {"m": pa.array([[("k", 1)]] * 2, pa.map_(pa.string(), pa.int64()))},
        "column 'm' holds map<string, int64.*>, which a tar cannot hold",
    ),
    "a decimal": ({"d": pa.array([1, 2], pa.decimal128(5, 2))}, r"column 'd' holds decimal128\(5, 2\), which a tar"),
    "uneven lists": (
        {"u": pa.array([[[1], [1, 2]]] * 2, pa.list_(pa.list_(pa.int64())))},
        "row 0], column 'u': its lists have different lengths",
    ),
    "a null in a list": ({"u": pa.array([[1], [None]], pa.list_(pa.int64()))}, "row 1], column 'u': a number in its list is null"),
    "nan": ({"f": [0.5, float("nan")]}, "row 1], column 'f': it holds nan, which JSON cannot hold"),
    "two names": ({"a b": ["x"] * 2, "a_b": ["y"] * 2}, "'a b' and 'a_b' would both become files named NUMBER.a_b.txt"),
    "a long name": ({"a" * 99: ["x"] * 2}, "too long for names in a tar"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_tar_cannot_hold_is_refused_by_name(tmp_path, rng, case):
    columns, said = REFUSED[case]
    if "image" not in columns and case != "no column":
        columns = {"image": pa.array([jpeg(rng)] * 2), **columns}
    refused = pack(write(tmp_path / "t.parquet", columns), "-o", tmp_path / "out", code=1).stderr
    assert re.search(said, refused), refused
    assert not (tmp_path / "out").exists() and not list(tmp_path.rglob("*.tar"))


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((), 2, "say where the tars go"),
        (("-o", "x", "--seed", "1"), 2, "--seed: rows of tables are packed in their order"),
        (("-o", "x", "--shard-size", "big"), 2, "--shard-size is a size with its unit"),
        (("-o", "x", "--shard-size", "256"), 2, "--shard-size 256 is 256 bytes: add the unit that you mean, as in 256MB"),
        (("-o", "x", "--threads", "0"), 2, "--threads takes a whole number from 1 to 64"),
        (("-o", "x", "--label", "caption"), 1, "--label: the column 'caption' holds string"),
        (("-o", "x", "--columns", "no"), 1, "--columns: the table has no column 'no'; it has image, label, caption"),
        (("-o", "x", "hf://datasets/a/b.parquet"), 2, "huggingface.co"),
        (("-o", "s3://b/x"), 2, "a local folder"),
        (("-o", "t.parquet"), 1, "t.parquet: it is a file, and the tars need a folder"),
        (("-o", "x", "--bad"), 2, "no option --bad"),
        (("-o", "x", "no-*.parquet"), 1, "no-"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, rng, arguments, code, said):
    table = write(tmp_path / "t.parquet", rows_of(rng, 2))
    assert said in pack(table, *arguments, code=code, cwd=tmp_path).stderr
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_files_that_differ_are_refused(tmp_path, rng):
    write(tmp_path / "in" / "a.parquet", rows_of(rng, 2))
    write(tmp_path / "in" / "b.parquet", {**rows_of(rng, 2), "more": ["x", "y"]})
    assert "it has a column 'more', which" in pack(tmp_path / "in", "-o", tmp_path / "out", code=1).stderr
    write(tmp_path / "in" / "b.parquet", {**rows_of(rng, 2), "label": ["x", "y"]})
    assert "the column 'label' holds string, and in" in pack(tmp_path / "in", "-o", tmp_path / "out", code=1).stderr


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_run_leaves_no_half_pack_and_continues(tmp_path, rng, how):
    table = write(tmp_path / "t.parquet", rows_of(rng, 300), group=7)
    pack(table, "-o", tmp_path / "whole", "--shard-size", "8KB")
    wanted = {p.name: p.read_bytes() for p in (tmp_path / "whole").glob("*.tar")}
    out, half = tmp_path / "out", tmp_path / "out.part"
    program = (
        "import sys, threading\n"
        "from stoker.loader.sources import _table_pack as p\n"
        "end, ended = p._Writer.end, []\n"
        "def slow(self):\n"
        "    end(self)\n"
        "    ended.append(1)\n"
        "    if len(ended) == 3:\n"
        "        print('here', flush=True)\n"
        "        threading.Event().wait()\n"
        "p._Writer.end = slow\n"
        f"sys.exit(p.main([{str(table)!r}, '-o', {str(out)!r}, '--shard-size', '8KB']))\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "here\n"
        second = pack(table, "-o", out, "--shard-size", "8KB", code=1).stderr
        assert "another run of this command writes it" in second
        run.send_signal(how)
        said = run.communicate(timeout=120)[1]
    assert run.returncode == (-how if how == signal.SIGKILL else 130), said
    assert how == signal.SIGKILL or "rows packed: start the command again to continue" in said
    assert not out.exists() and len(list(half.glob("*.tar"))) == 3
    (half / "shards-000003.tar.0123456789abcdef.part").write_bytes(b"half")
    assert "another source or with other options" in pack(table, "-o", out, "--shard-size", "9KB", code=1).stderr
    assert "; 3 of them were there already" in pack(table, "-o", out, "--shard-size", "8KB").stdout
    assert not half.exists() and {p.name: p.read_bytes() for p in out.glob("*.tar")} == wanted
    assert not list(out.glob("*.part"))


def test_uris_of_local_files_are_paths(tmp_path, rng):
    write(tmp_path / "in" / "t.parquet", rows_of(rng, 5))
    pack(f"file://{tmp_path}/in", "-o", f"file://localhost{tmp_path}/out")
    assert (tmp_path / "out" / "shards-000000.tar").is_file()
    command = [sys.executable, "-m", "stoker", "inspect"]
    said = [subprocess.run([*command, f"{s}{tmp_path}/in"], capture_output=True, text=True, timeout=300) for s in ("", "file://")]
    assert said[0].stdout == said[1].stdout and said[0].stdout.startswith("5 rows in 1 file"), said
    assert "file://host/out: tars are written to a local folder" in pack(tmp_path / "in", "-o", "file://host/out", code=2).stderr


def test_tars_that_are_missing_later_are_reported(tmp_path, rng):
    table, out = write(tmp_path / "t.parquet", rows_of(rng, 60), group=7), tmp_path / "out"
    pack(table, "-o", out, "--shard-size", "8KB")
    tars = sorted(out.glob("*.tar"))
    assert len(tars) > 3 and f"{len(tars)} of them were there already" in pack(table, "-o", out, "--shard-size", "8KB").stdout
    for tar in (tars[-1], tars[1]):
        tar.rename(tmp_path / "away")
        assert "some are missing or damaged now: remove this folder" in pack(table, "-o", out, "--shard-size", "8KB", code=1).stderr
        (tmp_path / "away").rename(tar)
    pack(table, "-o", out, "--shard-size", "8KB")


@pytest.mark.parametrize("how", ["link", "files", "left"])
def test_other_files_where_tars_are_made_are_neither_removed_nor_packed(tmp_path, rng, how):
    """The tars are made in DIR.part. If that is a link or contains other files, nothing is packed or removed. The remains of a killed run are removed."""
    table = write(tmp_path / "t.parquet", rows_of(rng, 5))
    folder, part = tmp_path / "elsewhere", tmp_path / "out.part"
    folder.mkdir()
    (part.symlink_to(folder) if how == "link" else folder.rename(part))
    if how == "left":
        (part / f"shards-000000.tar.{'0' * 16}.part").write_bytes(b"half")  # a killed run leaves such a file
        pack(table, "-o", tmp_path / "out")
        assert len(members(tmp_path / "out")) == 5 * len(rows_of(rng, 1)) and not list((tmp_path / "out").glob("*.part"))
        return
    names = {"film.mp4.part", "shards-000000.tar.x.part", "notes.txt"}
    for name in names:
        (part / name).write_text("precious")
    said = pack(table, "-o", tmp_path / "out", code=1).stderr
    assert ("no folder of this user" if how == "link" else "such as film.mp4.part") in said
    assert set(os.listdir(part)) == names and not (tmp_path / "out").exists()


@pytest.mark.parametrize("how", ["noise", "cut", "empty", "other rows", "link"])
def test_tars_of_an_interrupted_run_that_are_not_whole(tmp_path, rng, how):
    """An incomplete tar in DIR.part is refused by name, and never becomes part of the pack. A link in its place is replaced."""
    table, out, part = write(tmp_path / "t.parquet", rows_of(rng, 20)), tmp_path / "out", tmp_path / "out.part"
    pack(table, "-o", out, "--shard-size", "8KB")
    wanted = {p.name: p.read_bytes() for p in out.glob("*.tar")}
    out.rename(part)
    for path in list(part.iterdir()):
        if path.name not in ("packing.txt", "shards-000000.tar", "shards-000001.tar"):
            path.unlink()
    tar = part / "shards-000001.tar"
    whole = tar.read_bytes()
    with tarfile.open(tar) as opened:
        half_row = opened.getmembers()[1].offset  # a cut here ends between two files of one row, which is no fault of a tar
    if how == "link":
        tar.rename(tmp_path / "precious.tar")
        tar.symlink_to(tmp_path / "precious.tar")
        pack(table, "-o", out, "--shard-size", "8KB")
        assert not (out / tar.name).is_symlink() and (tmp_path / "precious.tar").read_bytes() == whole
        assert {p.name: p.read_bytes() for p in out.glob("*.tar")} == wanted
        return
    other = (part / "shards-000000.tar").read_bytes()
    tar.write_bytes({"noise": bytes(range(256)) * 8, "cut": whole[:half_row], "empty": b"", "other rows": other}[how])
    said = pack(table, "-o", out, "--shard-size", "8KB", code=1).stderr
    assert f"{tar}: it is not the tar that an interrupted run has completed: remove {part}" in said and not out.exists()


def test_a_link_to_nothing_in_the_place_of_the_tars(tmp_path, rng):
    (tmp_path / "out").symlink_to(tmp_path / "absent")
    said = pack(write(tmp_path / "t.parquet", rows_of(rng, 2)), "-o", tmp_path / "out", code=1).stderr
    assert "it is a link to a folder that does not exist" in said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out", "t.parquet"]


@pytest.mark.parametrize("how", ["offsets", "end"])
def test_damage_that_arrow_does_not_find(tmp_path, rng, how):
    """Packing reports damage that Arrow accepts: wrong offsets of values, and a stream that is cut between two batches."""
    table = pa.table({"image": [jpeg(rng) for _ in range(4)], "label": [0, 1, 2, 3]})
    with pa.BufferOutputStream() as f:
        with pa.ipc.new_stream(f, table.schema) as out:
            out.write_table(table, max_chunksize=2)
        whole = f.getvalue().to_pybytes()
    if how == "end":
        damaged, said = whole[:-8], "its stream has no end: it is damaged or cut short"
    else:
        first = table["image"].chunk(0)
        offsets = np.array([0, len(first[0].as_py()), len(first[0].as_py()) + len(first[1].as_py())], np.int32).tobytes()
        assert whole.count(offsets) == 1
        damaged = whole.replace(offsets, np.array([0, -5, 7], np.int32).tobytes())
        said = "[record batch 0]: Column 0"
    folder = tmp_path / "saved"
    folder.mkdir()
    (folder / "data.arrow").write_bytes(damaged)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data.arrow"}]}))
    got = pack(folder, "-o", tmp_path / "out", code=1).stderr
    assert f"{folder / 'data.arrow'}" in got and said in got, got
    assert not (tmp_path / "out").exists()


def test_buffers_of_offsets_of_odd_lengths(tmp_path, rng):
    """A table is packed even if its buffer of offsets is longer than needed, also by less than one offset."""
    images = [jpeg(rng) for _ in range(2)]
    folder = tmp_path / "saved"
    folder.mkdir()
    with pa.BufferOutputStream() as f:
        with pa.ipc.new_stream(f, pa.schema([("image", pa.binary())])) as out:
            out.write_table(pa.table({"image": images}))
        whole = f.getvalue().to_pybytes()
    lengths = struct.pack("<qq", 0, 12)  # position of the buffer of offsets in the body, and its size in bytes
    assert whole.count(lengths) == 1
    (folder / "data.arrow").write_bytes(whole.replace(lengths, struct.pack("<qq", 0, 13)))
    (folder / "state.json").write_text(json.dumps({"_data_files": FILES}))
    pack(folder, "-o", tmp_path / "out")
    assert list(members(tmp_path / "out").values()) == images


def test_a_saved_file_that_is_cut_while_it_is_packed(tmp_path, rng, script):
    """The command reports an error. (A process that reads a truncated file through a mapping would die by SIGBUS.)"""
    folder = tmp_path / "saved"
    folder.mkdir()
    table = pa.table({"image": [jpeg(rng) for _ in range(40)]})
    with pa.OSFile(str(folder / "data.arrow"), "wb") as f, pa.ipc.new_stream(f, table.schema) as out:
        out.write_table(table, max_chunksize=1)
    (folder / "state.json").write_text(json.dumps({"_data_files": FILES}))
    program = """
        import os, sys
        from stoker.loader.sources import _table_pack as p

        saved, out = sys.argv[1:]
        end = p._Writer.end

        def cut_after(self):
            end(self)
            os.truncate(os.path.join(saved, "data.arrow"), 2000)

        p._Writer.end = cut_after
        sys.exit(p.main([saved, "-o", out, "--shard-size", "8KB", "-q"]))
    """
    done = script(program, str(folder), str(tmp_path / "out"))
    assert done.returncode == 1 and "the file was replaced while it was packed" in done.stderr, (done.returncode, done.stderr)
    assert not (tmp_path / "out").exists()


FILES = [{"filename": "data.arrow"}]
STATES = {
    "nested": ("[" * 100_000, 1, "state.json: maximum recursion"),
    "no object": ("[]", 1, "it does not name the files of the data set"),
    "no names": ({"_data_files": 5}, 1, "it does not name the files of the data set"),
    "another folder": ({"_data_files": [{"filename": "../saved/data.arrow"}]}, 1, "it lists '../saved/data.arrow', which is no name"),
    "a zero byte": ({"_data_files": [{"filename": "a\0b"}]}, 1, "which is no name of a file in this folder"),
    "a number": ({"_data_files": [{"filename": 3}]}, 1, "it lists 3, which is no name"),
    "columns": ({"_data_files": FILES, "_format_columns": 3}, 0, ""),
}


@pytest.mark.parametrize("case", STATES)
def test_a_state_of_datasets_that_is_damaged(tmp_path, rng, case):
    state, code, said = STATES[case]
    folder = tmp_path / "saved"
    folder.mkdir()
    features = {"label": {"_type": "ClassLabel", "names": 5}}  # no list of names
    table = pa.table({"image": [jpeg(rng)], "label": [0]})
    table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    with pa.OSFile(str(folder / "data.arrow"), "wb") as f, pa.ipc.new_stream(f, table.schema) as out:
        out.write_table(table)
    (folder / "state.json").write_text(state if isinstance(state, str) else json.dumps(state))
    got = pack(folder, "-o", tmp_path / "out", code=code).stderr
    assert said in got and "Traceback" not in got


def test_a_saved_folder_of_datasets(tmp_path, rng):
    """Packs a folder as save_to_disk of `datasets` writes it. The test writes it by hand, so that the package is not needed. A truncated file is named."""
    columns = rows_of(rng, 10)
    schema = pa.table(columns).schema.with_metadata({"huggingface": json.dumps({"info": {"features": CLASSES}})})
    folder = tmp_path / "saved" / "train"
    folder.mkdir(parents=True)
    for k in range(2):
        part = pa.table(columns, schema).slice(5 * k, 5)
        with pa.OSFile(str(folder / f"data-0000{k}-of-00002.arrow"), "wb") as f, pa.ipc.new_stream(f, schema) as out:
            out.write_table(part, max_chunksize=3)
    names = [{"filename": f"data-0000{k}-of-00002.arrow"} for k in range(2)]
    (folder / "state.json").write_text(json.dumps({"_data_files": names, "_format_columns": None}))
    (tmp_path / "saved" / "dataset_dict.json").write_text(json.dumps({"splits": ["train"]}))
    said = pack(tmp_path / "saved", "-o", tmp_path / "out", code=1).stderr
    assert f"pack each one, as {folder}" in said
    pack(folder, "-o", tmp_path / "out")
    found = members(tmp_path / "out")
    assert len(found) == 30
    for i in range(10):
        assert found[f"00000000{i}.jpg"] == columns["image"][i].as_py()["bytes"] and found[f"00000000{i}.cls"] == b"%d" % i
    for every in (False, True):
        state = {"_data_files": names, "_format_columns": ["image"], "_output_all_columns": every}
        (folder / "state.json").write_text(json.dumps(state))
        pack(folder, "-o", tmp_path / f"every-{every}")
        assert len(members(tmp_path / f"every-{every}")) == (30 if every else 10)
    (folder / "data-00001-of-00002.arrow").write_bytes(b"cut")
    assert "data-00001-of-00002.arrow: " in pack(folder, "-o", tmp_path / "more", code=1).stderr


def test_a_saved_folder_that_datasets_wrote(tmp_path, rng):
    datasets = pytest.importorskip("datasets")
    made = datasets.Dataset.from_dict(
        {"image": [{"bytes": jpeg(rng), "path": None} for _ in range(6)], "label": [5, 4, 3, 2, 1, 0]},
        datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=list("abcdef"))}),
    )
    made = made.select([4, 2, 0])
    made.save_to_disk(str(tmp_path / "saved"))
    pack(tmp_path / "saved", "-o", tmp_path / "out")
    found = members(tmp_path / "out")
    raw = made.cast_column("image", datasets.Image(decode=False))
    assert [found[f"00000000{i}.jpg"] for i in range(3)] == [r["image"]["bytes"] for r in raw]
    assert [found[f"00000000{i}.cls"] for i in range(3)] == [b"1", b"3", b"5"]
    assert (tmp_path / "out" / "classes.txt").read_text().split() == list("abcdef")


def test_folders_of_classes_are_for_the_program(tmp_path, rng):
    """The Python code passes folders of classes to the C program, even if a class is named like a partition. The C program refuses tables and their
    options."""
    from stoker.loader.sources import _table_pack

    (tmp_path / "in" / "a=1").mkdir(parents=True)
    (tmp_path / "in" / "a=1" / "x.jpg").write_bytes(jpeg(rng))
    assert not _table_pack.asked([str(tmp_path / "in"), "-o", str(tmp_path / "out")])
    program = Path(os.environ.get("STOKER_BUILD", "build")).resolve() / "cli" / "stoker"

    def said(source, *arguments, code):
        command = [program, "pack", source, "-o", tmp_path / "out", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ | {"LD_PRELOAD": ""})
        assert done.returncode == code
        return done.stderr

    assert "--image, --label and --columns are for tables" in said(tmp_path / "in", "--label", "a", code=2)
    assert "tables are packed by the command of the Python package" in said("x/train-*.parquet", code=1)


def test_a_full_disk_leaves_no_tar(tmp_path, rng, monkeypatch, capsys):
    from stoker.loader.sources import _table_pack

    table = write(tmp_path / "t.parquet", rows_of(rng, 20))
    monkeypatch.setattr(os, "fsync", lambda fd: (_ for _ in ()).throw(OSError(28, os.strerror(28))))
    assert _table_pack.main([str(table), "-o", str(tmp_path / "out")]) == 1
    assert f"{tmp_path / 'out'}: No space left" in capsys.readouterr().err
    assert not (tmp_path / "out").exists() and not list(tmp_path.rglob("*.tar*"))


def test_tables_in_a_store(tmp_path, rng):
    columns = rows_of(rng, 12)
    write(tmp_path / "store" / "bucket" / "t" / "a.parquet", columns)
    server = Store(tmp_path / "store")
    plain = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}
    environment = {**plain, **server.environment, "XDG_CACHE_HOME": str(tmp_path / "caches")}
    endpoint = environment.pop("AWS_ENDPOINT_URL_S3")
    try:
        pack("s3://bucket/t/*.parquet", "-o", tmp_path / "out", "--endpoint", endpoint, env=environment)
    finally:
        server.close()
    found = members(tmp_path / "out")
    assert [found[f"{i:09d}.jpg"] for i in range(12)] == [image["bytes"].as_py() for image in columns["image"]]
