# SPDX-License-Identifier: Apache-2.0
"""Mistakes of newcomers: each message says what is wrong, where, and what to do. doc/troubleshooting.md quotes real messages."""

import copy
import errno
import os
import pickle
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

import stoker  # noqa: E402
from stoker import DataLoader, Loader, Pipeline, fn, imdecode, imread, pipeline_def, types  # noqa: E402
from stoker import transforms as T  # noqa: E402
from stoker.errors import InvalidArgumentError, NotFoundError, StokerError  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
COMMAND = Path(os.environ.get("STOKER_BUILD", "build")).resolve() / "cli" / "stoker"
SMALL = [T.Resize((8, 8))]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    root = tmp_path_factory.mktemp("data")
    for name in ("ok/a", "ok/b", "flat", "empty", "without/a", "clips/a"):
        (root / name).mkdir(parents=True)
    for k in range(4):
        Image.new("RGB", (40, 30 + k)).save(root / "ok" / "ab"[k % 2] / f"{k}.jpg")
        Image.new("RGB", (40, 30)).save(root / "flat" / f"{k}.jpg")
    (root / "clips/a/1.mp4").touch()
    (root / "robots/data").mkdir(parents=True)
    (root / "robots/meta").mkdir()
    (root / "robots/meta/info.json").write_text('{"codebase_version": "v3.0"}')
    (root / "pipes.csv").write_text("path|label\nok/a/0.jpg|1\n")
    (root / "spaces.csv").write_text("path label\nok/a/0.jpg 1\n")
    (root / "unnamed.csv").write_text("a/0.jpg,1\na/2.jpg,0\n")
    (root / "text.jpg").write_text("hello")
    (root / "t.parquet").write_bytes(b"PAR1" + bytes(40) + b"PAR1")
    (root / "moving.gif").write_bytes(b"GIF89a" + bytes(20))
    return root


def first(loader):
    return next(iter(loader))


def in_pipeline(make):
    @pipeline_def(batch_size=2, num_threads=1, device_id=None)
    def definition():
        return make()

    return definition().run()


def files(data):
    return fn.readers.file(file_root=str(data / "ok"))


class Gives(torch.utils.data.Dataset):
    """Four samples, which a function of the index makes."""

    def __init__(self, make):
        self.make = make

    def __len__(self):
        return 4

    def __getitem__(self, i):
        return self.make(i)


# mistake: (the wrong call, a pattern that its message must match)
WRONG = {
    "missing folder": (lambda d: Loader("/no/such/folder", 4), "/no/such/folder: .*No such file or directory"),
    "empty folder": (lambda d: Loader(d / "empty", 4), "the folder is empty; it should hold a folder of files for each class"),
    "flat folder": (lambda d: Loader(d / "flat", 4), "holds 4 images but no class folders"),
    "class without images": (
        lambda d: Loader(d / "without", 4),
        "a class folder without images: remove it, or give a list of files and labels",
    ),
    "clips of images": (
        lambda d: Loader(d / "ok", 4, frames=4),
        r"without videos.*endings seen: \.jpg.*images are read by a Loader without frames",
    ),
    "sounds of images": (
        lambda d: Loader(d / "ok", 4, fields={"audio": stoker.Audio(rate=8000), "label": None}),
        r"without sounds.*endings seen: \.jpg.*images are read by a Loader without frames or an Audio field",
    ),
    "image of a video": (
        lambda d: imdecode(b"\0\0\0\x20ftypisom" + bytes(100)),
        r"it is a video \(MP4\); read clips of it with Loader\(frames=N\)",
    ),
    "image of a sound": (lambda d: imdecode(b"fLaC\0\0\0\x22" + bytes(100)), r"it is a sound \(FLAC\).*Audio\(\.\.\.\)"),
    "file for folder": (lambda d: Loader(d / "ok/a/0.jpg", 4), "a file, not a folder of class folders; files are given as a list"),
    "misspelt": (lambda d: Loader(d / "ok", batchsize=4), "there is no argument 'batchsize'; did you mean 'batch_size'?"),
    "text for number": (lambda d: Loader(d / "ok", "4"), "a batch size is a whole number, not '4'"),
    "device": (lambda d: Loader(d / "ok", 4, device="gpu0"), "device is 'cpu', 'cuda' or 'cuda:N', not 'gpu0'"),
    "dtype": (lambda d: Loader(d / "ok", 4, dtype="flaot32"), "'flaot32' is not a type of elements: use"),
    "class for object": (
        lambda d: Loader(d / "ok", 4, transforms=[T.Resize]),
        "a transform is an object, and Resize is a class: Resize(...)",
    ),
    "several sizes": (
        lambda d: first(Loader(d / "ok", 4, bucket_by=[0, 1, 2, 3])),
        "samples of one batch differ in shape.*resize or pad them",
    ),
    "on_error": (lambda d: Loader(d / "ok", 4, on_error="ignore"), "^Loader: on_error is 'raise', 'skip' or 'replace', not 'ignore'"),
    "threads": (lambda d: Loader(d / "ok", 4, num_threads=0), "^Loader: num_threads is at least 1, not 0"),
    "prefetch": (lambda d: Loader(d / "ok", 4, prefetch=0), "^Loader: prefetch is at least 1, not 0"),
    "fields": (lambda d: first(Loader(d / "ok", 4, fields=["image", "labels"], transforms=SMALL)), "no 'labels'; did you mean 'label'?"),
    "numbers": (lambda d: Loader([1, 2, 3], 2), "holds paths, or pairs of a path and a target.*not 1"),
    "lengths": (lambda d: Loader((np.zeros((4, 8, 8, 3), np.uint8), np.arange(3)), 2), "4 images and 3 targets: give one target for each"),
    "floats": (lambda d: first(Loader((np.zeros((4, 8, 8, 3)), np.arange(4)), 2)), "images in an array are uint8, and these are float64"),
    "index": (lambda d: Loader(d / "ok", 4)[0], "a Loader gives batches in a loop, not by index"),
    "loader in DataLoader": (lambda d: first(DataLoader(Loader(d / "ok", 4, transforms=SMALL))), r"loader\.as_dataloader\(\)"),
    "view of a loader": (lambda d: stoker.view(Loader(d / "ok", 4)), r"view\(next\(iter\(loader\)\)\) shows one"),
    "imdecode of a path": (lambda d: imdecode("x.jpg"), r"imread\(path\) reads a file"),
    "imread of a text": (lambda d: imread(d / "text.jpg"), 'not a JPEG, PNG, WebP, TIFF, BMP or PNM.*starts with "hello"'),
    "imread of a GIF": (lambda d: imread(d / "moving.gif"), "it is a GIF; convert it to PNG"),
    "operator's name": (lambda d: fn.resze, 'did you mean "resize"'),
    "operator's argument": (lambda d: in_pipeline(lambda: fn.resize(fn.decoders.image(files(d)[0]), sizes=3)), "did you mean 'size'"),
    "operator's value": (
        lambda d: in_pipeline(lambda: fn.resize(fn.decoders.image(files(d)[0]), size="big")),
        "takes a list of numbers, not 'big'",
    ),
    "operator's device": (
        lambda d: in_pipeline(lambda: fn.decoders.image(files(d)[0], device="cuda")),
        "'cpu', 'gpu' or 'mixed', not 'cuda'",
    ),
    "all outputs of a reader": (
        lambda d: in_pipeline(lambda: fn.decoders.image(files(d))),
        "the input is a list of 2 nodes, and the operator is called for each: name the one",
    ),
    "no outputs": (lambda d: in_pipeline(lambda: None), "returned nothing: it returns the nodes to be delivered"),
    "pipeline's argument": (lambda d: Pipeline(2, 1, None, prefetch=3), "did you mean 'prefetch_queue_depth'"),
    "name": (lambda d: stoker.Laoder, "did you mean 'Loader'"),
    "type": (lambda d: types.FLAOT, "did you mean 'FLOAT'"),
    "transform's name": (lambda d: T.RandomResizeCrop, "did you mean 'RandomResizedCrop'"),
    "interpolation": (lambda d: T.Resize(8, interpolation="cubic2"), "'cubic2' is not known; there are nearest"),
    "call on a path": (lambda d: T.Resize(3)("a.jpg"), "an image is an array .*, not str"),
    "call on a batch": (
        lambda d: T.Resize(3)(np.zeros((2, 8, 8, 3), np.uint8)),
        r"not one of shape \(2, 8, 8, 3\); a Loader takes batches",
    ),
    "state": (
        lambda d: Loader(d / "ok", 4).load_state_dict({}),
        r"this is no state of a Loader, but an empty dict: give what its state_dict\(\) returned",
    ),
    "transform as text": (
        lambda d: Loader(d / "ok", 4, transforms="Resize"),
        "a transform is an object of .*, or a function, not 'Resize'",
    ),
    "field": (lambda d: first(Loader(d / "ok", 4, transforms=SMALL)).images, "the batch has no 'images'; its fields are image, label"),
    "view of a path": (lambda d: stoker.view("cat.jpg"), r"it draws images, not their names: view\(imread\('cat.jpg'\)\)"),
    "image that was not decoded": (
        lambda d: in_pipeline(lambda: fn.resize(files(d)[0], size=8)),
        "must be an image .*; the bytes of a file are decoded first, by decoders.image",
    ),
    "mirror without decoding": (lambda d: in_pipeline(lambda: fn.flip(files(d)[0])), "decoded first, by decoders.image"),
    "advise": (lambda d: stoker.advise(3), "something to iterate over, such as a Loader or a DataLoader, not int"),
    "transforms by position": (
        lambda d: Loader(d / "ok", 4, SMALL, shuffle=True),
        r"positional arguments.*; give the others by name, as transforms=\.\.\.$",
    ),
    "all threads": (lambda d: Loader(d / "ok", 4, num_threads="all"), '^Loader: num_threads is "auto" or a whole number, not'),
    "name of a sound's kind": (
        lambda d: Loader(d / "ok", 4, fields={"audio": "Audio"}),
        r"stoker\.Audio\(\.\.\.\), stoker\.Video\(\.\.\.\), list",
    ),
    "one transform in Compose": (lambda d: T.Compose(T.Resize(3)), r"^Compose: transforms is a list, as \[Resize\(256\), .*not Resize\("),
    "single samples": (
        lambda d: in_pipeline(lambda: fn.external_source(source=[1, 2])),
        "external_source: a batch is a list of samples or one array, not int; a source of single samples takes batch=False",
    ),
    "class of another case": (lambda d: stoker.Dataloader, "did you mean 'DataLoader'"),
    "robots": (
        lambda d: Loader(d / "robots", 4),
        r"holds a LeRobot data set.*: Loader\.from_lerobot\('.*robots', batch_size, \.\.\.\) reads it",
    ),
    "a DataLoader": (
        lambda d: Loader(torch.utils.data.DataLoader([torch.zeros(8, 8)] * 4, 4), 2),
        r"the source is a DataLoader, which gives batches: give what it loads, as Loader\(loader\.dataset, batch_size",
    ),
    "a Loader": (lambda d: Loader(Loader(d / "ok", 4), 2), r"the source is a Loader already: use it as it is, or Loader\.mix"),
    "home": (lambda d: Loader("~/no-such-photographs", 4), r"only a shell replaces ~ .* os\.path\.expanduser\('~/no-such-photographs'\)"),
    "batch by name": (
        lambda d: first(Loader(d / "ok", 4, transforms=SMALL))["image"],
        r"fields are image, label: read one as batch\.image; collate_fn=lambda batch: batch\._asdict\(\) makes dicts",
    ),
    "three in a row": (
        lambda d: Loader([("a.jpg", 0), ("b.jpg", 0, 1)], 2),
        r"not \('b.jpg', 0, 1\), its entry 1; several targets are one vector",
    ),
    "paths among pairs": (lambda d: Loader([("a.jpg", 0), "b.jpg"], 2), "pairs of a path and a target, and this one holds both"),
    "CSV as source": (
        lambda d: Loader(d / "pipes.csv", 2),
        r"'.*pipes\.csv' is a table: Loader\.from_csv\('.*pipes\.csv', batch_size, path=COLUMN, targets=COLUMNS\) reads it",
    ),
    "CSV with pipes": (
        lambda d: Loader.from_csv(d / "pipes.csv", 2),
        r"has '\|' between its columns.*pandas\.read_csv\(.*, sep='\|'\) reads",
    ),
    "CSV with spaces": (lambda d: Loader.from_csv(d / "spaces.csv", 2), "has ' ' between its columns"),
    "CSV without names": (
        lambda d: Loader.from_csv(d / "unnamed.csv", 2),
        "no column 'path'; its first line names a/0.jpg, 1: path= names the column of paths",
    ),
    "URI of a Dataset": (
        lambda d: first(Loader(Gives(lambda i: ("http://127.0.0.1:9/a.jpg?key=secret", i)), 2)),
        r"the image is a URI, http://127\.0\.0\.1:9/a\.jpg, where a path .*\[\(URI, target\), \.\.\.\]",
    ),
    "sample from the end": (
        lambda d: first(Loader(d / "ok", 4, sampler=[0, -1], transforms=SMALL)),
        "sampler: it gave the sample -1; samples are numbered from 0",
    ),
    "sample of a batch from the end": (
        lambda d: list(Loader([(str(d / "ok/a/0.jpg"), 0)] * 4, batch_sampler=[[0, -1], [1, 2]], transforms=SMALL)),
        "batch_sampler: it gave the sample -1; samples are numbered from 0",
    ),
    "huge sample": (
        lambda d: first(Loader(d / "ok", 4, sampler=[2**70], transforms=SMALL)),
        "sampler: it gives whole numbers, the ids of samples",
    ),
    "numbers without an image": (
        lambda d: first(Loader(Gives(lambda i: torch.tensor(i)), 2)),
        r"an image of type int64: .* \(in dataset\[0\]\)",
    ),
    "ids that are none": (
        lambda d: first(Loader(d / "ok", 4, sampler=lambda epoch: None, transforms=SMALL)),
        "the function of the epoch returns the ids of its samples, not NoneType",
    ),
    "sampler that fails": (
        lambda d: first(Loader(d / "ok", 4, sampler=lambda epoch: (int("x") for _ in range(3)), transforms=SMALL)),
        r"^invalid literal for int\(\)",
    ),
    "bytes as a path": (lambda d: Loader(bytes(d / "ok"), 3), r"a path is a str or a Path, not bytes: os\.fsdecode"),
    "empty path": (lambda d: Loader("", 3), "the source is an empty text; give the path of a folder"),
    "URI": (lambda d: Loader("s3:/bucket/x", 3), "URIs are written as in s3://bucket/prefix"),
}


@pytest.mark.parametrize("name", WRONG)
def test_the_message_says_what_to_do(name, data):
    call, message = WRONG[name]
    with pytest.raises(Exception, match=message) as caught:
        call(data)
    assert "Traceback" not in str(caught.value) and "stoker._" not in str(caught.value)


def test_a_column_of_paths_may_have_a_name_of_two_words(data, tmp_path):
    table = tmp_path / "words.csv"
    table.write_text(f"File path\n{data}/ok/a/0.jpg\n")
    (batch,) = Loader.from_csv(table, 2, path="File path", transforms=SMALL, fields=("path",))
    assert batch.path == [str(data / "ok/a/0.jpg")]
    with pytest.raises(InvalidArgumentError, match="did you mean 'File path'") as caught:  # path= is "path" by default
        Loader.from_csv(table, 2)
    assert "between its columns" not in str(caught.value)


def test_folders_of_splits_are_noticed(tmp_path, capfd):
    data = tmp_path
    for name in ("train/a", "train/b", "val/a"):
        (data / "splits" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(data / "splits" / name / "0.jpg")
    loader = Loader(data / "splits", 2, transforms=SMALL)
    assert loader.classes == ["train", "val"] and len(list(loader)) == 2
    assert "splits: its classes are train, val, as with ImageFolder: did you mean" in capfd.readouterr().err
    (data / "trains/train").mkdir(parents=True)
    (data / "trains/test").mkdir()
    for name in ("train", "test"):  # classes that happen to have such names hold no folders
        Image.new("RGB", (8, 8)).save(data / "trains" / name / "0.jpg")
    assert len(list(Loader(data / "trains", 2, transforms=SMALL))) == 1
    assert "did you mean" not in capfd.readouterr().err


def test_troubleshooting_quotes_real_messages(data, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    calls = [call for call, _ in WRONG.values()]
    calls.append(lambda d: Loader("s3://bucket-of-nobody/train", 4, storage=stoker.Storage(endpoint="http://127.0.0.1:9")))
    said = []
    for call in calls:
        with pytest.raises(Exception) as caught:
            call(data)
        said.append(str(caught.value))
    # The command must report a missing driver for the GPU; with a driver, it runs.
    env = {**os.environ, "LD_LIBRARY_PATH": ""}
    done = subprocess.run(
        [COMMAND, "bench", data / "ok", "--device", "cuda", "--seconds", "0.1"], capture_output=True, text=True, env=env, timeout=120
    )
    said.append(done.stderr)
    quoted = re.findall(r"^### `(.+)`$", (ROOT / "doc/troubleshooting.md").read_text(), re.M)
    assert len(quoted) >= 12
    for quote in quoted:
        if "CUDA" in quote and done.returncode == 0:
            continue
        assert any(quote in text for text in said), quote


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["inspct"], 2, 'did you mean "inspect"'),
        (["INSPECT"], 2, 'did you mean "inspect"'),
        (["pack", "{}/ok", "-o", "{}/ok"], 1, "whose folders are classes: name a folder outside of it"),
        (["pack", "{}/ok", "-o", "{}/ok/new/tars"], 1, "whose folders are classes: name a folder outside of it"),
        (["--jsn"], 2, "the command comes first"),
        (["inspect"], 2, "DIR is missing"),
        (["inspect", "/no/such"], 1, "/no/such: no such file or folder"),
        (["inspect", "file:/no/such.wav"], 1, "URIs of local files are written as in file:///data/train"),
        (["inspect", "{}/t.parquet"], 1, 'it is a Parquet table; read it with Loader("x.parquet", ...) of the Python package'),
        (["inspect", "{}/clips"], 1, "endings seen: .mp4 (1); videos are read by Loader(frames=N)"),
        (
            ["inspect", "{}/clips/a"],
            1,
            "holds 1 file but no class folders with images (ROOT/CLASS/FILE is what is read); videos are read by",
        ),
        (["pack", "{}/clips", "-o", "{}/tars"], 1, "there is no image in it, and only images are packed"),
        (["pack", "{}/ok", "-o", "/no/such/tars"], 1, "the folder around it does not exist: make that first (mkdir -p)"),
        (
            ["index", "{}/ok", "-o", "/no/such/x"],
            1,
            "/no/such/x: cannot write the index: its folder does not exist: make it first (mkdir -p)",
        ),
        (["index", "{}/ok", "-o", "{}/ok"], 1, "this is a folder; give the name of a file"),
        (["index", "{}/ok", "-o", "{}/text.jpg/x"], 1, "cannot write the index: a file has the name of its folder; give another name"),
        (
            ["pack", "{}/clips/a", "-o", "{}/tars"],
            1,
            "no class folders (ROOT/CLASS/FILE is what is read): for files without classes give the list of the files",
        ),
        (["explain", "{}/ok", "--batch-size", "3"], 2, "did you mean --batch?"),
        (["inspect", "/dev/null"], 1, "/dev/null: a FIFO, a socket or a device: give a file or a folder"),
        (["inspect", "{}/empty"], 1, "the folder is empty; it should hold"),
        (["inspect", "{}/text.jpg"], 1, 'starts with "hello"'),
        (["inspect", "{}/moving.gif"], 1, "it is a GIF; convert it to PNG"),
        (["inspect", "{}/ok", "--jsn"], 2, "did you mean --json"),
        (["inspect", "{}/ok", "--threads", "x"], 2, 'takes a whole number from 1 to 4096, not "x"'),
        (["inspect", "{}/ok", "{}/ok"], 2, "one folder at a time"),
        (["bench", "{}/ok", "--device", "gpu"], 2, "--device is the number of a GPU, cuda, cuda:N or cpu"),
        (["bench", "{}/ok", "--seconds"], 2, "--seconds needs a value"),
        (["bench", "{}/ok", "--seconds", "-1"], 2, "from 0.1 to 3600"),
        (["view", "{}/ok", "-o", "x.bmp"], 2, "the name of a PNG"),
        (["view", "{}/ok", "-o", "/no/such/x.png"], 1, "/no/such/x.png: cannot write the file: there is no folder /no/such: make it first"),
        (["pack", "{}/ok"], 2, "say where the tars go"),
        (["pack", "{}/ok", "-o", "{}/tars", "--shard-size", "big"], 2, "is a size with its unit, as 256MB or 1GiB"),
        (["pack", "{}/ok", "-o", "{}/tars", "--shard-size", "5"], 2, "--shard-size 5 is 5 bytes: add the unit that you mean, as in 5MB"),
        (["bench", "{}/ok", "--cache", "{}/c", "--cache-limit", "200"], 2, "--cache-limit 200 is 200 bytes: add the unit that you mean"),
        (["index", "{}/text.jpg"], 1, "a file, not a folder of class folders"),
        (["run", "/no/such.json"], 1, "no such file or folder"),
        (["explain", "{}/text.jpg"], 1, "neither a folder of images nor a pipeline"),
        (["run", "{}/text.jpg"], 1, "neither a folder of images nor a pipeline"),
        (["run", "{}/text.jpg"], 1, "give one that Pipeline.serialize wrote, or a folder, tar, index or s3:// prefix"),
        (["inspect", "nuscenes"], 2, "name the folder of the data set, as in `stoker inspect nuscenes ROOT`"),
        (["bench", "{}/ok", "--ca-bundle", "/no/such.pem"], 1, "ca_bundle: /no/such.pem: cannot read it: No such file or directory"),
        (["bench", "file:/no/such"], 1, "URIs of local files are written as in file:///data/train"),
        (["ops", "resze"], 1, 'did you mean "resize"'),
        (["ops", "RESIZE"], 1, 'did you mean "resize"'),
        (["cache", "list", "{}/ok"], 1, "it is not a Stoker cache"),
        (["cache", "warm", "{}/ok", "--cache", "{}/cache"], 1, "lies on this host"),
        (["top", "abc"], 2, "is not the id of a process"),
        (["completion", "tcsh"], 2, "there are bash, zsh and fish"),
        (["doctor", "x"], 2, 'too many arguments, from "x" on'),
        (["bench", "{}/ok", "a.jpg", "b.jpg"], 2, 'too many arguments, from "a.jpg" on'),
    ],
)
def test_the_command_says_what_to_do(arguments, code, message, data):
    given = [argument.replace("{}", str(data)) for argument in arguments]
    done = subprocess.run([COMMAND, *given], capture_output=True, text=True, timeout=120)
    assert done.returncode == code and message in done.stderr, (done.returncode, done.stderr)
    assert done.stderr.startswith("stoker")


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [
        (Gives(lambda i: (Image.new("RGB", (8, 8)), i)), "<lambda> is not made by def, and only such functions are read"),
        ([(torch.zeros(3), 1)], "the data set is a list, not an object of a class of yours"),
        (iter([1, 2]), "the data set is a list_iterator, not an object of a class of yours"),
    ],
)
def test_a_data_loader_says_why_a_data_set_runs_in_python(dataset, reason):
    assert DataLoader(dataset, 2).explain().endswith(reason)


@pytest.mark.parametrize("word", ["--version", "-V", "version"])
def test_the_version_in_three_ways(word):
    done = subprocess.run([COMMAND, word], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"stoker {stoker.__version__}\n")


@pytest.mark.parametrize(
    "indices",
    [np.array([True, False, False, True]), torch.tensor([True, False, False, True]), [True, False, True], np.array([0.0, 3.0]), [1.7]],
)
def test_a_mask_is_no_list_of_ids(indices, data):
    class DatasetFolder(torch.utils.data.Dataset):
        """Has the attributes of torchvision's class. A Loader lists its samples without calling its Python code."""

        transform = target_transform = None

        def __init__(self):
            self.samples = self.imgs = [(str(data / "ok/a/0.jpg"), k) for k in range(4)]

        def __len__(self):
            return len(self.samples)

        def __getitem__(self, i):
            return self.samples[i]

        def loader(self, path):
            return Image.open(path)

    DatasetFolder.__module__ = DatasetFolder.loader.__module__ = "torchvision.datasets.folder"
    DatasetFolder.loader.__name__ = "default_loader"
    subset = torch.utils.data.Subset(DatasetFolder(), [3, 0])
    assert [batch.label.tolist() for batch in Loader(subset, 2)] == [[3, 0]]
    subset.indices = indices
    with pytest.raises(TypeError, match=r"the indices of a Subset are the ids of samples .*numpy\.flatnonzero\(mask\)"):
        Loader(subset, 2)


def removed_table(folder):
    pq = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    path = str(folder / "gone.parquet")
    pq.write_table(pa.table({"x": [1.0, 2.0]}), path)
    with Loader(path, 1) as loader:
        os.remove(path)
        try:
            first(loader)
        except FileNotFoundError as e:
            assert e.filename == path
            raise


def gone(uri, *_):
    raise FileNotFoundError(uri)


def dangling_link(folder):
    link = folder / "dangling.jpg"
    link.unlink(missing_ok=True)
    link.symlink_to("nowhere.jpg")
    first(Loader([link], 4))


@pytest.mark.parametrize(
    "call",
    [
        lambda d: Loader(d / "none", 4),
        lambda d: Loader("~/no-such-folder", 4),
        lambda d: Loader(d / "none.tar", 4),
        lambda d: Loader(str(d / "none-*.tar"), 4),
        lambda d: first(Loader([d / "none.jpg"], 4)),
        lambda d: first(Loader([d / "text.jpg" / "none.jpg"], 4)),
        lambda d: first(Loader([d / "none" / "/".join(["x" * 200] * 7)], 4)),  # so long that the message is cut
        lambda d: first(Loader(["mem://none.jpg"], 4, storage=stoker.Storage(fetch=gone))),
        lambda d: in_pipeline(lambda: fn.readers.video(filenames=[str(d / "none.mp4")], sequence_length=1)),
        lambda d: in_pipeline(lambda: fn.readers.video(filenames=[str(d / f"none{k}.mp4") for k in range(3)], sequence_length=1)),
        lambda d: in_pipeline(lambda: fn.readers.numpy(file_root=d / "ok", file_filter="*.npy")),
        lambda d: in_pipeline(lambda: fn.readers.file(file_list=d / "none.txt")),
        lambda d: in_pipeline(lambda: fn.readers.webdataset(paths=d / "none.tar", ext=["jpg"])),
        dangling_link,
        lambda d: imread(d / "none.jpg"),
        lambda d: stoker.audioread(d / "none.wav"),
        lambda d: stoker.VideoDecoder(d / "none.mp4"),
        lambda d: Loader.from_lerobot(d / "none", 4),
        lambda d: Loader(d / "none.parquet", 4),
        lambda d: Loader(str(d / "none-*.parquet"), 4),
        removed_table,
    ],
)
def test_errors_of_missing_files_are_also_those_of_python(call, data):
    for kind in (FileNotFoundError, LookupError, NotFoundError):
        with pytest.raises(kind) as caught:
            call(data)
    error = caught.value
    assert error.errno == errno.ENOENT and error.filename == (error.uri or None)
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error) and str(again) == str(error) and (again.code, again.uri) == (error.code, error.uri)
        assert (again.errno, again.filename) == (error.errno, error.filename)


def test_missing_things_that_are_no_files(data):
    """The names of these files look like messages about missing files."""
    folder = data / "a: No such file or directory"
    folder.mkdir()
    (folder / "none.json").write_text('{"images": [], "annotations": [], "categories": []}')
    with tarfile.open(folder / "the server answers 404.tar", "w") as tar:
        tar.add(data / "text.jpg", "a.txt")
    pipe = Pipeline(1, 1, None)
    with pipe:
        pipe.set_outputs(*fn.readers.file(file_root=data / "ok"))
    for call in (
        lambda: in_pipeline(lambda: fn.readers.coco(file_root=folder, annotations_file=folder / "none.json")[0]),
        lambda: in_pipeline(
            lambda: fn.readers.webdataset(paths=folder / "the server answers 404.tar", ext=["jpg"], missing_component_behavior="error")
        ),
        lambda: pipe.reader_meta(": no such file"),
        lambda: fn.no_such_file(),
    ):
        with pytest.raises((StokerError, AttributeError)) as caught:
            call()
        assert not isinstance(caught.value, FileNotFoundError), caught.value
    said = "no CUDA driver: libcuda.so.1: cannot open shared object file: No such file or directory; leave the device out"
    assert type(stoker.errors.from_status("NOT_FOUND", said, "", "", -1, -1, -1, False)) is NotFoundError


def test_bad_samples_that_are_missing_files(data):
    """The library reads the files on its own threads. The reader's message names the list, and ends in the operator and the line that made it."""
    (data / "list.txt").write_text(f"{data}/ok/a/0.jpg 0\n{data}/none.jpg 1\n{data}/text.jpg 2\n{data}/ok/b/1.jpg 3\n")

    @pipeline_def(batch_size=4, num_threads=2, device_id=None, on_error="skip", max_errors=3)
    def definition():
        return fn.decoders.image(fn.readers.file(file_list=data / "list.txt")[0])

    pipe = definition()
    pipe.run()
    missing, damaged = pipe.bad_samples()
    assert isinstance(missing, FileNotFoundError) and missing.filename == f"{data}/none.jpg" and "list.txt names it" in str(missing)
    assert not isinstance(damaged, FileNotFoundError) and "text.jpg" in str(damaged)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x.json", r"manifest of sounds .* list of \(path, target\)"),
        ("x.H5", "__getitem__ .* h5py"),
        ("x.npz", r"Loader\(\(arrays\['x'\], arrays\['y'\]\)"),
        ("x.npy", r"Loader\(\(numpy.load\(path\), targets\)"),
        ("x.tfrecord", r"fn\.readers\.tfrecord"),
        ("x.zip", "unpack it"),
    ],
)
def test_files_of_other_kinds_are_refused_with_advice(name, said, tmp_path):
    (tmp_path / name).write_bytes(b"?" * 20)
    with pytest.raises(InvalidArgumentError, match=rf"{name}: a file, not a folder of class folders; .*{said}"):
        Loader(tmp_path / name, 4)
    (tmp_path / "folder.zip" / "a").mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(tmp_path / "folder.zip" / "a" / "0.png")
    assert len(Loader(tmp_path / "folder.zip", 1)) == 1


@pytest.mark.parametrize("name", ["i.json", "i.jsonl", "i.npy", "i.npz", "i.zip", "i.h5", "i.tfrecord", "i"])
def test_indexes_of_any_name_are_read(data, name, tmp_path):
    ran = subprocess.run([COMMAND, "index", data / "ok", "-o", tmp_path / name], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    of_index, of_folder = (list(Loader(source, 2, fields=("path", "label"))) for source in (tmp_path / name, data / "ok"))
    assert [list(batch.path) for batch in of_index] == [list(batch.path) for batch in of_folder]
    assert [batch.label.tolist() for batch in of_index] == [batch.label.tolist() for batch in of_folder]


def test_unknown_arguments_may_be_meant_as_those_of_a_dataloader(data):
    for name, meant in (
        ("num_worker", "num_workers"),
        ("prefetch_facto", "prefetch_factor"),
        ("max_error", "max_errors"),
        ("num_thread", "num_threads"),
    ):
        with pytest.raises(TypeError, match=f"did you mean '{meant}'"):
            Loader(data / "ok", 4, **{name: 2})


def test_ranks_of_the_environment_are_named(data, monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RANK", "1")
    with pytest.raises(InvalidArgumentError, match=r"RANK is 1, WORLD_SIZE is not set\. Set both"):
        Loader(data / "ok", 2)
    Loader(data / "ok", 2, shard=None).close()
    monkeypatch.setenv("WORLD_SIZE", "2")
    for text in ("x", "0", "1.5"):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", text)
        with pytest.raises(InvalidArgumentError, match=f"LOCAL_WORLD_SIZE in the environment is '{text}'"):
            Loader(data / "ok", 2)
        Loader(data / "ok", 2, num_threads=2).close()
    for text in ("", "2"):
        monkeypatch.setenv("LOCAL_WORLD_SIZE", text)
        Loader(data / "ok", 2).close()


@pytest.mark.parametrize(
    ("example", "arguments"), [("python/dali_pipeline.py", ["--help"]), ("python/dali_pipeline.py", []), ("nuscenes/from_videos.py", [])]
)
def test_examples_say_what_they_take(example, arguments):
    done = subprocess.run([sys.executable, ROOT / "examples" / example, *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and done.stderr.startswith("usage: "), done.stderr
