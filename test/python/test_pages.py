# SPDX-License-Identifier: Apache-2.0
"""Runs the programs in the pages of doc/, except those that test_papers.py, test_getting_started.py, test_metrics.py and test_tables.py run.

A page's programs run in order, as a reader would type them. Only folders, addresses, devices, sizes of batches and counts of epochs are replaced. The first
program of a page also runs without replacements, in an empty folder and without the names of other programs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import stoker  # noqa: E402
from stoker import Loader  # noqa: E402
from stoker import transforms as T  # noqa: E402
from storage import KEYS, Store  # noqa: E402
from support import tar_of  # noqa: E402

DOC = Path(__file__).resolve().parents[2] / "doc"
SMALL = [T.RandomResizedCrop(16), T.RandomHorizontalFlip(), T.ToTensor()]
# Programs that these tests do not run: a line of the program, and what it needs or which test runs it.
LEFT_OUT = {
    "cost = class_cost(": "the code before",
    "from accvlab.batching_helpers import": "the code before",
    "dataset = wds.WebDataset(": "the code before, with one line after it, which test_from_others runs",
    "import stoker.video.accvlab as nvc": "test_video_accvlab.py runs these calls",
    "set_stream(torch.cuda.Stream(": "a GPU",
    "init_process_group(": "several processes",
    "lightning.Trainer(": "lightning; test_metrics.py runs it where it is installed",
    'learn.save("run")': "fastai",
    "web, 0.7": "test_mixture.py runs such mixtures",
    'Loader("tokens/*.parquet"': "test_tables.py runs such tables",
    "rand_augment.rand_augment(": "the body ends in ...",
    'Loader("clips/train"': "test_clips_with_sound.py runs such Loaders",
    "get_samples_played_in_range(": "test_clips_with_sound.py runs these calls",
}
ELSEWHERE = {"getting-started", "recipes", "from-dali", "from-torchvision", "audio", "structured", "tables", "metrics"}
HERE = {"batching", "from-others", "loader", "robots", "storage", "training", "video"}
FIRST = {"transforms", "image-formats"}  # pages whose only program is the first


def programs(page: str) -> Iterator[str]:
    """Yields the Python programs of a page: those in fences, and blocks that are indented by four spaces outside of lists and look like programs."""
    lines = (DOC / f"{page}.md").read_text().splitlines()
    at, in_list = 0, False
    while at < len(lines):
        line, end = lines[at], at + 1
        if line.startswith("```"):
            while not lines[end].startswith("```"):
                end += 1
            if line == "```python":
                yield "\n".join(lines[at + 1 : end]) + "\n"
            end += 1
        elif line.startswith("    ") and not lines[at - 1] and not in_list:
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end]):
                end += 1
            code = textwrap.dedent("\n".join(lines[at:end])).strip() + "\n"
            if re.search(r"^(import|from|video = ) ?", code, re.M):
                yield code
        elif line and not line.startswith(" "):
            in_list = bool(re.match(r"[-*] |\d+\. ", line))
        at = end


def left_out(code: str) -> bool:
    return any(line in code for line in LEFT_OUT)


def run(page: str, names: dict[str, Any], replaced: dict[str, str] | None = None) -> dict[str, Any]:
    count = 0
    for code in programs(page):
        if left_out(code):
            continue
        for old, new in (replaced or {}).items():
            code = code.replace(old, new)
        code = re.sub(r"(batch_size=|, |^    )(256|64|8)(?=[,)])", r"\g<1>4", code, flags=re.M)
        code = code.replace("[...]", "SMALL").replace('device="cuda"', 'device="cpu"').replace(".epoch, 90", ".epoch, 2")
        exec(compile(code, f"doc/{page}.md, program {count}", "exec"), names)
        count += 1
    assert count
    return names


def names_of(**more: Any) -> dict[str, Any]:
    return {"torch": torch, "stoker": stoker, "Loader": Loader, "T": T, "SMALL": SMALL, **more}


def test_every_page_with_programs_has_a_test() -> None:
    pages = {path.stem for path in DOC.glob("*.md") if any(programs(path.stem))}
    assert pages == ELSEWHERE | HERE | FIRST
    everything = [code for page in sorted(pages) for code in programs(page)]
    for line in LEFT_OUT:
        assert sum(line in code for code in everything) == 1, f"no program has this line any more: {line}"


@pytest.mark.parametrize("page", sorted(ELSEWHERE | HERE | FIRST))
def test_the_first_program_of_a_page_runs_as_it_stands(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = next(code for code in programs(page) if not left_out(code))
    if "ffmpeg" in first and not shutil.which("ffmpeg"):
        pytest.skip("there is no ffmpeg program")
    if "pyarrow" in first:
        pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__main__"}
    exec(compile(first, f"doc/{page}.md, the first program", "exec"), names)
    names.clear()  # breaks the cycle of a Storage, its functions, and the names that these refer to


def test_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = run("loader", names_of())
    assert names["images"].shape[1:] == (3, 224, 224) and names["labels"].dtype is torch.int64 and names["epoch"] == 1


def test_batching() -> None:
    names = run("batching", names_of())
    assert names["loss"].isfinite()
    assert torch.equal(names["polylines"].lengths(names["lanes"]), torch.tensor([8.0]))
    places = names["polylines"].interpolate(names["lanes"], torch.tensor([[0.5, 0.75]]), relative=True)
    assert torch.allclose(places, torch.tensor([[[4.0, 0.0], [4.0, 2.0]]]))


def test_training(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(3, 3))
    given = {
        "train": Loader(
            (np.zeros((400, 16, 16, 3), np.uint8), np.zeros(400, np.int64)), batch_size=1, transforms=[T.ToTensor()]
        ),  # one trial of advise takes 289 steps
        "step": lambda images, labels: torch.zeros(1),
        "model": model,
        "cross_entropy": torch.nn.functional.cross_entropy,
        "images": torch.rand(4, 3, 16, 16),
        "labels": torch.tensor([0, 1, 2, 0]),
    }
    names = run("training", names_of(**given), {'"data/train"': repr(str(tree)), 'autocast("cuda"': 'autocast("cpu"'})
    assert (tmp_path / "wait.json").exists() and (tmp_path / "wait.png").exists()
    assert names["loss"].isfinite() and next(iter(names["train"])).image.dtype is torch.bfloat16


@pytest.fixture
def store(tree: Path, files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Yields a store with the bucket of the pages: a folder of classes, and two tars with components of several kinds."""
    bucket = tmp_path / "store" / "bucket"
    shutil.copytree(tree, bucket / "train")
    array = tmp_path / "one.npy"
    np.save(array, np.arange(4, dtype=np.float32))
    for t in range(2):
        members: list[tuple[str, bytes]] = []
        for k in range(4):
            picture = files[4 * t + k].read_bytes()
            parts = {"jpg": picture, "cls": b"%d" % k, "txt": b"text", "json": b"{}", "npy": array.read_bytes(), "bin": b"\1\2"}
            members += [(f"{k}.{ending}", data) for ending, data in parts.items()]
        for name in (f"shards-{t:06d}.tar", f"train-{t:06d}.tar"):
            (bucket / name).write_bytes(tar_of(members))
    server = Store(tmp_path / "store")
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    server.close()


def test_storage(store: Store, tree: Path, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    pytest.importorskip("fsspec.implementations.memory")
    bucket = tmp_path / "store" / "bucket"

    def my_fetch(uri: str, offset: int, length: int | None) -> bytes:
        data = (bucket / uri.removeprefix("my://bucket/")).read_bytes()
        return data[offset : None if length is None else offset + length]

    def my_list(uri: str) -> list[tuple[str, int]]:
        return [(f"my://bucket/{p.relative_to(bucket)}", p.stat().st_size) for p in sorted(bucket.rglob("*")) if p.is_file()]

    class Blobs(fsspec.implementations.memory.MemoryFileSystem):
        @classmethod
        def _strip_protocol(cls, path: str) -> str:
            return super()._strip_protocol(path.removeprefix("az://"))

    memory = Blobs()
    for path in tree.glob("*/*.jpg"):
        memory.pipe(f"/container/train/{path.relative_to(tree)}", path.read_bytes())
    given = {
        "KEY": KEYS["AWS_ACCESS_KEY_ID"],
        "SECRET": KEYS["AWS_SECRET_ACCESS_KEY"],
        "adlfs": types.SimpleNamespace(AzureBlobFileSystem=lambda account_name: memory),
        "my_fetch": my_fetch,
        "my_list": my_list,
    }
    replaced = {
        "https://minio.example.org:9000": store.url,
        "000127": "000001",
        "/nvme/stoker": str(tmp_path / "cache"),
        "200GB": "1GB",
    }
    loaders: list[Loader] = []

    class Seen(Loader):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            loaders.append(self)

    names = names_of(**given)
    names["Loader"] = Seen
    replaced["from stoker import Loader, transforms as T"] = "from stoker import transforms as T"
    try:
        run("storage", names, replaced)
        counts = [sum(len(batch[1]) for batch in loader) for loader in loaders]
    finally:
        memory.rm("/container", recursive=True)
    names.clear()  # breaks the cycle of a Storage, its functions, and the names that these refer to
    assert sorted(counts) == [8, 8, 8, 8, 21, 21, 21, 21], counts
    assert any((tmp_path / "cache").iterdir())


def test_from_others(store: Store) -> None:
    (line,) = re.findall(r"^# after\n(loader = .*)\n", (DOC / "from-others.md").read_text(), re.M)
    names = names_of()
    exec(line.replace("[...]", "SMALL").replace("000127", "000001").replace("256", "4"), names)
    assert sum(len(labels) for _images, labels in names["loader"]) == 8


def test_robots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    names = run("robots", names_of(), {"train.epoch, 10": "train.epoch, 2"})
    count = len(names["task"])
    assert names["state"].shape == (count, 2, 4) and names["action"].shape == (count, 16, 2) and names["padded"].shape == (count, 16)
    assert names["mean"].shape == (2,) and names["std"].shape == (2,)


def test_video(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import videos

    if not shutil.which("ffmpeg"):
        pytest.skip("there is no ffmpeg program")
    film = tmp_path / "walk.mp4"
    videos.ffmpeg("-f lavfi -i", "testsrc2=size=96x64:rate=25:duration=13", videos.H264, film)
    for label in ("walk", "run"):
        (tmp_path / "train" / label).mkdir(parents=True)
        for k in range(2):
            shutil.copy(film, tmp_path / "train" / label / f"{k}.mp4")
    monkeypatch.chdir(tmp_path)
    places = {"/data/kinetics/train": str(tmp_path / "train"), "/data/train": str(tmp_path / "train")}
    names = run("video", names_of(), places)
    assert names["clips"] is not None and names["loss"].isfinite() and names["batch"].data.shape == (3, 3, 64, 96)
    clip, label = names["clips"]().run()
    assert clip.as_array().shape == (4, 16, 3, 224, 224) and len(label) == 4


# Examples that the test does not run: words of an example, and the reason.
EXAMPLES_LEFT_OUT = {"pack-video": "test_pack_video.py packs videos", ".parquet": "test_table_pack.py packs tables"}


def test_the_examples_of_the_commands_help(store: Store, tree: Path, tmp_path: Path) -> None:
    """Each `stoker COMMAND --help` ends with an example, which runs on a small data set."""
    command = Path(os.environ.get("STOKER_BUILD", "build")).resolve() / "cli" / "stoker"
    desk = tmp_path / "desk"
    (desk / "data").mkdir(parents=True)
    (desk / "data" / "train").symlink_to(tree)

    @stoker.pipeline_def(batch_size=4, num_threads=1, device_id=None)
    def define() -> Any:
        data, label = stoker.fn.readers.file(file_root=str(tree))
        return stoker.fn.resize(stoker.fn.decoders.image(data), size=(8, 8)), label

    (desk / "pipeline.json").write_bytes(define().serialize())
    places = {
        "/data/train": str(tree),
        "/nvme/stoker": "cache",
        "200GB": "1GB",
        "source <(stoker completion bash)": "stoker completion bash",
    }
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    environment["PATH"] = f"{command.parent}:{environment['PATH']}"

    def said(line: str) -> str:
        done = subprocess.run(["bash", "-c", line], cwd=desk, env=environment, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, f"{line}: {done.returncode} {done.stdout} {done.stderr}"
        return done.stdout

    commands = re.findall(r"^  ([a-z][a-z-]*) ", said("stoker --help").split("commands:")[1].split("exit codes")[0], re.M)
    examples = [(name, line) for name in commands for line in said(f"stoker {name} --help").split("\nexample:\n")[1].strip().splitlines()]
    assert len(commands) > 10 and {name for name, _ in examples} == set(commands)
    assert all(any(words in line for _, line in examples) for words in EXAMPLES_LEFT_OUT)
    for name, line in examples:
        assert f"stoker {name}" in line
        if any(words in line for words in EXAMPLES_LEFT_OUT):
            continue
        for old, new in places.items():
            line = line.replace(old, new)
        if name == "bench":
            line += " --seconds 0.5"
        if name in ("top", "doctor"):  # top runs until Ctrl-C; the exit status of doctor depends on the machine
            line = f"{line.partition('#')[0]} --steps 1 || true" if name == "top" else f"{line} || true"
        said(line)
    assert (desk / "batch.png").exists() and (desk / "report.json").exists() and list((desk / "packed").glob("*.tar"))
    assert sum(len(batch[1]) for batch in Loader(str(desk / "train.stoker"), 4, transforms=SMALL)) == 21


def test_the_commands_that_sentences_name_exist() -> None:
    """Every command that a sentence of the pages names as `stoker COMMAND` exists. (Functions of the Python package are named as `stoker.function`.)"""
    command = Path(os.environ.get("STOKER_BUILD", "build")).resolve() / "cli" / "stoker"
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    overview = subprocess.run([command, "--help"], env=environment, capture_output=True, text=True, timeout=200, check=True).stdout
    commands = set(re.findall(r"^  ([a-z][a-z-]*) ", overview.split("commands:")[1].split("exit codes")[0], re.M))
    pages = [*DOC.glob("*.md"), DOC.parent / "README.md"]
    named = {(page.name, word) for page in pages for word in re.findall(r"`stoker ([a-z][a-z-]*)", page.read_text())}
    assert len(named) > 30
    assert {(page, word) for page, word in named if word not in commands} == set()
