# SPDX-License-Identifier: Apache-2.0
"""The `stoker` command: its exit codes, its JSON, its messages, its pictures, and the completion of its options in shells."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import tarfile
import time
import zlib
from pathlib import Path

import numpy as np
import pytest
import stopping
from PIL import Image
from sound_files import pcm16
from stoker import Loader, Pipeline, fn
from stoker import _files as stoker_files
from stoker.errors import CorruptError, InvalidArgumentError
from stoker.loader.sources._files import IMAGE_ENDINGS
from support import SEED, hostile_jpeg, png_chunk, run_script, tar_of

COMMAND = Path(os.environ.get("STOKER_BUILD", "build")).resolve() / "cli" / "stoker"
pytestmark = pytest.mark.essential


def stoker(*arguments, code=0, **environment):
    env = {**os.environ, **environment}
    env.pop("LD_PRELOAD", None)  # LD_PRELOAD may name a sanitizer for Python, but the command is linked with its own
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done


def picture(seed, width, height):
    """Returns a picture of smooth colours, which depend on the seed."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / max(width, height)
    waves = [np.sin(x * rng.uniform(2, 9) + y * rng.uniform(2, 9) + rng.uniform(0, 6)) for _ in range(3)]
    return Image.fromarray((np.stack(waves, -1) * 100 + 128).astype(np.uint8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("photos")
    for i in range(20):
        path = root / f"class{i % 2}" / f"{i:02d}.jpg"
        path.parent.mkdir(exist_ok=True)
        picture(i, 60 + i, 50).save(path, quality=90, progressive=i == 3)
    picture(20, 40, 30).convert("L").save(root / "class0" / "gray.png")
    return root


def test_captions_have_small_letters_and_escapes(tmp_path):
    """Captions below pictures show file names: Latin-1 characters unchanged, others as escapes."""
    from stoker._advise.glyphs import glyphs

    for name in ("Größe é.png", "中.png"):
        (tmp_path / "photos" / "Klasse ß").mkdir(parents=True, exist_ok=True)
        picture(1, 300, 300).save(tmp_path / "photos" / "Klasse ß" / name)
    stoker("view", tmp_path / "photos", "-o", tmp_path / "view.png")
    drawn = np.asarray(Image.open(tmp_path / "view.png").convert("L")) == 220
    for words in ("Größe é.png", "\\u4e2d.png"):
        rows = glyphs(words)
        wanted = np.zeros((13, 6 * len(rows)), bool)
        for k, letter in enumerate(rows):
            for y, bits in enumerate(letter):
                wanted[y, 6 * k : 6 * k + 5] = [bits >> (4 - j) & 1 for j in range(5)]
        windows = np.lib.stride_tricks.sliding_window_view(drawn, wanted.shape)
        assert (windows == wanted).all((2, 3)).any(), words


@pytest.fixture
def bad_folder(folder, tmp_path):
    (tmp_path / "a").mkdir()
    good = (folder / "class0" / "00.jpg").read_bytes()
    (tmp_path / "a" / "good.jpg").write_bytes(good)
    (tmp_path / "a" / "cut.jpg").write_bytes(good[: len(good) // 2])
    (tmp_path / "a" / "empty.jpg").write_bytes(b"")
    (tmp_path / "a" / "text.jpg").write_text("hello")
    return tmp_path


def test_wrong_commands_show_the_usage():
    assert "usage" in stoker(code=2).stderr
    assert stoker("frobnicate", code=2).stderr == 'stoker: no command "frobnicate" (stoker --help lists all)\n'
    for spelling in ("--version", "-V", "version"):
        assert stoker(spelling).stdout.startswith("stoker ")
    for command in ("bench", "inspect", "index", "view", "explain", "ops", "run", "doctor"):
        text = stoker(command, "--help").stdout
        assert "example:" in text and "--json" in text, command


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect"],
        ["inspect", "a", "b"],
        ["inspect", ""],
        ["inspect", "x", "--cache-limit", "5"],
        ["inspect", "x", "--cache", "y", "--cache-limit", "abc"],
        ["inspect", "x", "--endpoint", "nonsense"],
        ["view", "x", "--device", "gpu"],
        ["view", "x", "--output", ""],
        ["doctor", "--endpoint", "http://h"],
        ["doctor", "--cache", "x"],
        ["cache", "warm", "x"],
        ["cache", "list"],
        ["pack", "x"],
        ["view", "x", "--batch", "0"],
        ["view", "x", "--batch", "1.5"],
        ["view", "x", "--batch"],
        ["view", "x", "--nonsense"],
        ["doctor", "--json=1"],
        ["run", "x", "--threads=-1"],
    ],
)
def test_wrong_usage(arguments):
    done = stoker(*arguments, code=2)
    assert not done.stdout
    assert f"usage: stoker {arguments[0]}" in done.stderr


def test_mistakes_in_the_command_line_are_named():
    def first_line(*arguments):
        return stoker(*arguments, code=2).stderr.splitlines()[0]

    assert first_line("inspect") == "stoker inspect: DIR is missing" and first_line("run") == "stoker run: PIPELINE.json or DIR is missing"
    assert first_line("inspect", "") == first_line("cache", "list", "").replace("cache", "inspect") == "stoker inspect: the path is empty"
    assert first_line("inspect", "a", "b") == 'stoker inspect: one folder at a time; "nuscenes ROOT" is the only form with two arguments'
    assert first_line("view", "x", "--seed", "-1") == 'stoker view: --seed takes a whole number from 0 to 9000000000000000, not "-1"'
    assert first_line("bench", "x", "--seconds", "0") == 'stoker bench: --seconds takes a number from 0.1 to 3600, not "0"'
    assert first_line("help", "inspct") == first_line("inspct")
    assert first_line("bench", "x", "--secnods=3") == "stoker bench: no option --secnods; did you mean --seconds?"
    assert first_line("view", "x", "--col", "3") == "stoker view: no option --col; did you mean --columns?"
    assert first_line("view", "x", "--zebra") == "stoker view: no option --zebra"
    assert first_line("--jsn").startswith("stoker: no option --jsn before a command")
    for text in (" 7", "0x10", "7 ", "1e300", "nan", "inf", "1G", "True", "9223372036854775808"):
        assert (
            first_line("view", "x", "--seed", text) == f'stoker view: --seed takes a whole number from 0 to 9000000000000000, not "{text}"'
        )
        assert first_line("bench", "x", "--cache", "c", "--cache-limit", f"{text}?").endswith(f'as 200GB or 1.5TiB, not "{text}?"')
    assert "1000TB" in first_line("bench", "x", "--cache", "c", "--cache-limit", "9223372036854775807")


COMMANDS = ("bench", "cache", "inspect", "index", "view", "explain", "ops", "pack", "run", "doctor")


COMPLETE = """
. "$1"
COMP_WORDS=("${@:2}") COMP_CWORD=$(($# - 2))
_stoker
printf '%s\\n' "${COMPREPLY[@]}"
"""


def all_commands() -> list[str]:
    return re.findall(r"^  ([a-z][a-z-]*) ", stoker("--help").stdout.split("commands:")[1].split("exit codes")[0], re.M)


def all_options(command) -> list[str]:
    return re.findall(r"--[a-z-]+", "".join(re.findall(r"^  (?:-., |    )--.*?(?: |$)", stoker(command, "--help").stdout, re.M)))


def test_bash_completes_commands_options_and_files(folder, tmp_path):
    (script := tmp_path / "stoker.bash").write_text(stoker("completion", "bash").stdout)

    def completed(*words):
        env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        done = subprocess.run(
            ["bash", "-c", COMPLETE, "-", script, *words], capture_output=True, text=True, timeout=60, check=True, env=env
        )
        return done.stdout.split()

    commands = all_commands()
    assert {*commands} < {*completed("stoker", "")} and {"pack-video", "completion"} < {*commands} and len(commands) > 10
    assert completed("stoker", "insp") == ["inspect"]
    for command in commands:
        assert {*completed("stoker", command, "--")} == {*all_options(command), "--help"}, command
    assert str(folder) in completed("stoker", "inspect", f"{folder}"[:-1])


@pytest.mark.parametrize(
    ("shell", "check"), [("zsh", ["zsh", "-n"]), ("fish", ["fish", "-n"]), ("man", ["man", "--warnings", "-E", "UTF-8", "-l"])]
)
def test_completion_of_other_shells_and_the_manual(shell, check, tmp_path):
    text = stoker("completion", shell).stdout
    for command in ("bench", "completion", "view"):
        assert command in text
    assert all(name in text.replace("\\", "") for name in ("ca-bundle", "columns", "storage"))
    if not shutil.which(check[0]):
        pytest.skip(f"{check[0]} is not installed")
    (file := tmp_path / "script").write_text(text)
    env = {**os.environ, "MANPAGER": "cat"}
    env.pop("LD_PRELOAD", None)  # a sanitizer in LD_PRELOAD would report errors of these programs
    done = subprocess.run([*check, file], capture_output=True, text=True, timeout=60, env=env)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_option_is_completed_and_in_the_manual():
    zsh, fish, manual = (stoker("completion", shell).stdout for shell in ("zsh", "fish", "man"))
    sections = {section.split('"')[0].split()[0]: section for section in manual.replace("\\-", "-").split('.SS "stoker ')[1:]}
    for command in all_commands():
        (line,) = re.findall(rf"^\t{command}\) names=.*$", zsh, re.M)
        options = [o for o in all_options(command) if o != "--help"]
        assert options and options == re.findall(r" '(--[a-z-]+):", line), command
        assert options == ["--" + o for o in re.findall(rf"__fish_seen_subcommand_from {command}' -l ([a-z-]+) ", fish)], command
        assert options == re.findall(r"^(?:\\fB-.\\fR, )?\\fB(--[a-z-]+)\\fR", sections[command], re.M), command


def test_completion_of_an_unknown_shell():
    assert "there are bash, zsh and fish" in stoker("completion", "tcsh", code=2).stderr
    assert "scripts are not JSON" in stoker("completion", "bash", "--json", code=2).stderr


@pytest.mark.parametrize("columns", [None, 60, 100, 1, 10**9])
def test_help_fits_the_terminal(columns):
    """Lines of the help fit the terminal, from 40 to 120 columns wide. Parts that cannot be broken, such as the example, may be longer."""
    environment = {} if columns is None else {"COLUMNS": str(columns)}
    width = min(max(columns or 80, 40), 120)
    for arguments in (["--help"], *([c, "--help"] for c in COMMANDS)):
        lines = stoker(*arguments, **environment).stdout.split("\nexample:")[0].splitlines()
        assert not [line for line in lines if len(line) > width and " " in line[27:].strip()]
        assert max(map(len, lines)) > 0.5 * width or width > 80
    words = [" ".join(stoker("view", "--help", COLUMNS=str(c)).stdout.split()) for c in (40, 120)]
    assert words[0] == words[1]
    assert stoker("help", "inspect").stdout == stoker("inspect", "--help").stdout != stoker("help").stdout


@pytest.mark.parametrize("command", ["explain", "run", "view", "bench", "cache list"])
def test_missing_objects(command, tmp_path):
    missing = tmp_path / "missing"
    assert stoker(*command.split(), missing, code=1).stderr.endswith(f": {missing}: no such file or folder\n")
    assert stoker(*command.split(), "s3:/b/x", code=1).stderr.endswith("; URIs are written as in s3://bucket/prefix\n")


def test_a_scheme_that_is_not_listed_is_named_once(tmp_path):
    for scheme in ("ftp", "http"):
        assert stoker("inspect", f"{scheme}://127.0.0.1:1/x", code=1).stderr == (
            f"stoker inspect: {scheme}://127.0.0.1:1/x: only s3://, gs:// and local folders can be listed; give files and labels, a file_list, or "
            "stoker.Storage(fetch=..., list=...), or fetch= an fsspec filesystem\n"
        )
    missing = tmp_path / "none"
    assert stoker("inspect", f"file://{missing}", code=1).stderr == f"stoker inspect: {missing}: no such file or folder\n"


def test_one_of_each(folder, tmp_path):
    """Nouns are singular if a count is one, and small sizes are in bytes."""
    (tmp_path / "set" / "a").mkdir(parents=True)
    (tmp_path / "set" / "a" / "1.jpg").write_bytes((folder / "class0" / "00.jpg").read_bytes())
    assert "1 file in 1 class: 1 good" in stoker("inspect", tmp_path / "set").stdout
    assert re.search(r": 1 file in 1 class; the index has \d+ bytes\n", stoker("index", tmp_path / "set", "-o", tmp_path / "i").stdout)
    assert "1 sample in 1 tar, " in stoker("pack", tmp_path / "set", "-o", tmp_path / "tars").stdout
    assert "1 sample in 1 batch, " in stoker("run", tmp_path / "set", "-b", 1, "-n", 1).stdout


def test_pack_counts_what_it_wrote(folder, tmp_path):
    """The reported counts are the numbers of samples, files and bytes in the tars. A second run, which finds the tars, reports the same counts, and so does a
    run that finds only some of them."""
    given, out = tmp_path / "set", tmp_path / "tars"
    for k in range(5):
        target = given / f"c{k % 2}" / f"{k}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((folder / "class0" / "00.jpg").read_bytes())
    (given / "c0" / "0.txt").write_text("belongs to 0.jpg")
    (given / "c1" / "notes.txt").write_text("belongs to no image")
    size = 1 + max(p.stat().st_size for p in given.rglob("*.jpg"))
    whole = None
    for kept in [0, "all", 1]:
        facts = json.loads(stoker("pack", given, "-o", out, "--shard-size", f"{size * 2 + 5000}B", "--json").stdout)
        tars = sorted(out.glob("*.tar"))
        members = []
        for path in tars:
            with tarfile.open(path) as tar:
                members += tar.getnames()
        assert facts["samples"] == sum(m.endswith(".jpg") for m in members) == 5
        assert facts["tars"] == len(tars) > 1
        assert facts["bytes"] == sum(t.stat().st_size for t in tars)
        assert facts["files"] == len([m for m in members if not m.endswith(".cls")]) == 6 and facts["left_out"] == 1
        assert sum(m.endswith(".txt") for m in members) == 1
        assert facts["kept"] == (len(tars) if kept == "all" else kept)
        whole = whole or {t.name: t.read_bytes() for t in tars}
        assert {t.name: t.read_bytes() for t in tars} == whole
        if kept == "all":
            for t in tars[1:]:
                t.unlink()
    said = stoker("pack", given, "-o", out, "--shard-size", f"{size * 2 + 5000}B").stdout
    assert (
        f"5 samples in {len(tars)} tars, " in said
        and f"; {len(tars)} of them were there already; left out 1 file that is not an image" in said
    )


def test_doctor_says_what_the_build_leaves_out():
    lines = (COMMAND.parents[1] / "left-out.txt").read_text().split("\n")
    done = subprocess.run(
        [COMMAND, "doctor", "--json"], capture_output=True, text=True, timeout=120
    )  # without `check`, whose exit code is 1 if something is wrong with the machine
    said = [item["text"] for item in json.loads(done.stdout)["advice"]]
    assert [text for text in said if text.startswith("this build leaves out: ")] == [
        f"this build leaves out: {line}" for line in lines if line
    ]


def test_options_and_arguments_mix(folder):
    one = json.loads(stoker("run", folder, "--json", "--batch=4", "-t", "2", "--steps", "3").stdout)
    two = json.loads(stoker("run", "--steps=3", "--batch", "4", "-j", "--threads=1", "--", folder).stdout)
    assert (one["batches"], one["samples"]) == (two["batches"], two["samples"]) == (3, 12)


def test_inspect_good(folder):
    facts = json.loads(stoker("inspect", folder, "--json").stdout)
    assert (facts["files"], facts["good"], facts["classes"]) == (21, 21, 2)
    assert (facts["jpeg"], facts["png"], facts["progressive"], facts["gray"]) == (20, 1, 1, 1)
    assert (facts["min_width"], facts["max_width"], facts["min_height"]) == (40, 79, 30)
    assert facts["bad"] == []


def test_inspect_counts(folder, tmp_path):
    """`stoker inspect` counts classes, sizes and skipped files, even in a folder without classes."""
    facts = json.loads(stoker("inspect", folder, "--json").stdout)
    paths = sorted(folder.glob("*/*.*"))
    sizes = [Image.open(p).size for p in paths]
    by_class = {c.name: len(list(c.iterdir())) for c in folder.iterdir()}
    assert facts["by_class"] == by_class and sum(by_class.values()) == 21
    fewest, most = min(sizes, key=lambda s: s[0] * s[1]), max(sizes, key=lambda s: s[0] * s[1])
    assert [tuple(facts[k].values()) for k in ("smallest", "largest")] == [fewest, most]
    counts = {b["shorter_side_from"]: b["files"] for b in facts["sizes"]}
    for start, n in counts.items():
        assert n == sum(start <= min(s) < max(2 * start, 32) for s in sizes)
    assert sum(counts.values()) == 21 and facts["skipped"] == 0
    for p in paths[:4]:
        (tmp_path / p.name).write_bytes(p.read_bytes())
    (tmp_path / "notes.txt").touch()
    facts = json.loads(stoker("inspect", tmp_path, "--json").stdout)
    assert (facts["files"], facts["good"], facts["classes"], facts["by_class"], facts["skipped"]) == (4, 4, 0, {}, 1)
    text = stoker("inspect", folder).stdout
    assert (
        f"{fewest[0]} x {fewest[1]} (the smallest) to {most[0]} x {most[1]} (the largest)" in text and "####" in text and "class0: " in text
    )
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "a.jpg").write_bytes(paths[0].read_bytes())
    (tmp_path / "class" / "a.txt").touch()
    assert "skipped       1 file that is no image: .txt (1); 4 images next to the class folders" in stoker("inspect", tmp_path).stdout
    os.mkfifo(tmp_path / "class" / "b.jpg")
    (tmp_path / "class" / "c.jpg").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "class" / "no-image")
    assert "; 2 FIFOs, sockets or devices with the name of a file to read\n" in stoker("inspect", tmp_path).stdout


def test_a_folder_without_images_says_so(tmp_path):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "a.txt").touch()
    said = stoker("inspect", tmp_path, code=1).stderr
    assert f"{tmp_path}: no file in its 1 class folder matches an image's ending; endings seen: .txt (1)" in said
    (tmp_path / "class" / "a.txt").unlink()
    os.mkfifo(tmp_path / "class" / "a.jpg")
    assert f"{tmp_path}: its 1 class folder holds no images but 1 FIFO, socket or device" in stoker("inspect", tmp_path, code=1).stderr


def test_inspect_says_what_loader_refuses(folder, tmp_path):
    """`stoker inspect` names every class without images and every link to a folder above it, and inspects the rest."""
    image = (folder / "class0" / "00.jpg").read_bytes()
    for name in ("a", "b", "c[*]", "d", "e", "f"):
        (tmp_path / "set" / name).mkdir(parents=True)
    for path in ("a/1.jpg", "d/1.jpg", "e/1.jpg"):
        (tmp_path / "set" / path).write_bytes(image)
    (tmp_path / "set" / "d" / "loop").symlink_to(".")
    (tmp_path / "set" / "f" / "below").mkdir()
    (tmp_path / "set" / "f" / "below" / "1.jpg").write_bytes(image)
    facts = json.loads(stoker("inspect", tmp_path / "set", "--json", code=1).stdout)
    assert (facts["files"], facts["good"], facts["bad"]) == (3, 3, []) and "loader_files" not in facts
    without = ": a class folder without images: remove it, or give a list of files and labels"
    back = ": a link that leads back to a folder which holds it: remove it"
    assert facts["loader_problems"] == [f"{tmp_path}/set/{n}" for n in (f"b{without}", f"c[*]{without}", f"d/loop{back}")]
    text = stoker("inspect", tmp_path / "set", code=1).stdout
    assert (
        text.count("  Loader would refuse this folder: ") == 3 and f"  Loader would refuse this folder: {tmp_path}/set/b{without}\n" in text
    )
    with pytest.raises(InvalidArgumentError) as refused:
        Loader(tmp_path / "set", batch_size=1)
    assert facts["loader_problems"][0] in str(refused.value)
    for path in ("b", "c[*]"):
        (tmp_path / "set" / path).rmdir()
    (tmp_path / "set" / "d" / "loop").unlink()
    facts = json.loads(stoker("inspect", tmp_path / "set", "--json").stdout)
    assert (facts["files"], facts["loader_files"], facts["loader_problems"]) == (4, 4, [])
    stoker("index", tmp_path / "set", "-o", tmp_path / "i")
    assert json.loads(stoker("inspect", tmp_path / "i", "--json").stdout)["loader_files"] == 4
    assert "Loader " not in stoker("inspect", folder).stdout


def test_nested_folders_are_read_as_loader_reads_them(folder, tmp_path):
    """All commands read the files below a class folder, and only those with the endings that Loader reads. So inspect names a bad file there."""
    image, set = (folder / "class0" / "00.jpg").read_bytes(), tmp_path / "set"
    for path in ("a/0.jpg", "a/s/1.jpg", "b/x/y/2.jpg", "c/3.jpg"):
        (set / path).parent.mkdir(parents=True, exist_ok=True)
        (set / path).write_bytes(image)
    (set / "a" / "no.pnm").write_bytes(b"P6 garbage")
    loader = Loader(set, batch_size=4)
    assert len(loader) == 1
    facts = json.loads(stoker("inspect", set, "--json").stdout)
    assert (facts["good"], facts["loader_files"], facts["bad"], facts["by_class"]) == (4, 4, [], {"a": 2, "b": 1, "c": 1})
    assert json.loads(stoker("run", set, "-b", "1", "--json").stdout)["samples"] == 4
    drawn = json.loads(stoker("view", set, "-o", tmp_path / "v.png", "-b", "4", "--json").stdout)["samples"]
    assert {Path(sample["uri"]).relative_to(set).as_posix() for sample in drawn} == {"a/0.jpg", "a/s/1.jpg", "b/x/y/2.jpg", "c/3.jpg"}
    (set / "a" / "s" / "bad.jpg").write_bytes(b"garbage")
    facts = json.loads(stoker("inspect", set, "--json", code=1).stdout)
    assert (facts["good"], facts["files"], [Path(b["uri"]).name for b in facts["bad"]]) == (4, 5, ["bad.jpg"])
    with pytest.raises(CorruptError):
        list(Loader(set, batch_size=5))
    (set / "a" / "s" / "bad.jpg").unlink()
    (set / "empty").mkdir()  # Loader refuses this; other readers do not
    done = stoker("run", set)
    sounds = tmp_path / "sounds"
    for path in ("a/0.wav", "a/s/1.WAV", "b/x/2.wav"):
        (sounds / path).parent.mkdir(parents=True, exist_ok=True)
        (sounds / path).write_bytes(pcm16(np.random.default_rng(SEED), 8000))
    assert json.loads(stoker("run", sounds, "-b", "1", "--json").stdout)["samples"] == 3
    assert f"Loader would refuse this folder, which is read without its subfolders here: {set}/empty: a class folder" in done.stderr


def test_inspect_and_loader_take_the_same_endings(folder, tmp_path):
    """`stoker inspect` and Loader both use ImageFolder's list of endings."""
    (tmp_path / "a").mkdir()
    for ending in ("jpg", "JPEG", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp", "pbm", "pnm", "gif", "txt", "jp2"):
        (tmp_path / "a" / f"1.{ending}").write_bytes((folder / "class0" / "00.jpg").read_bytes())
    facts = json.loads(stoker("inspect", tmp_path, "--json").stdout)
    assert facts["loader_files"] == len(Loader(tmp_path, batch_size=1)) == len(IMAGE_ENDINGS) == facts["files"]
    assert "  skipped       5 files" in stoker("inspect", tmp_path).stdout


def test_names_that_are_no_utf8(folder, tmp_path):
    """The JSON of inspect and view contains names of files and classes that are not UTF-8, so that os.fsencode gives their bytes."""
    bad = [b"a\xff\xfe", b"\xe4\xf6", b"\xed\xa0\x80", b"\xf4\x90\x80\x80\xc3", b"\xc0\x80"]
    names = [*bad, b"\x01ff", b"\\u0001ff", "клас".encode(), b'"\n\\']
    root = os.fsencode(tmp_path)
    for name in names:
        os.mkdir(os.path.join(root, name))
        with open(os.path.join(root, name, name + b".jpg"), "wb") as f:
            f.write((folder / "class0" / "00.jpg").read_bytes())
        with open(os.path.join(root, name, b"bad" + name + b".jpg"), "wb") as f:
            f.write(b"hello")
    printed = stoker("inspect", tmp_path, "--json", code=1).stdout
    facts = json.loads(printed)
    assert sorted(map(os.fsencode, facts["by_class"])) == sorted(names) and set(facts["by_class"].values()) == {1}
    assert len({b["uri"] for b in facts["bad"]}) == 9 and all(os.path.exists(b["uri"]) for b in facts["bad"])
    assert printed.isascii() is False and '"a\\udcff\\udcfe": 1' in printed
    for name in names:
        os.unlink(os.path.join(root, name, b"bad" + name + b".jpg"))
    facts = json.loads(stoker("view", tmp_path, "--json", "-b", "9", "-o", tmp_path / "v.png").stdout)
    assert len({s["uri"] for s in facts["samples"]}) == 9 and all(os.path.exists(s["uri"]) for s in facts["samples"])


def test_what_was_meant(folder):
    assert 'no command "inspct"; did you mean "inspect"?' in stoker("inspct", folder, code=2).stderr
    assert "did you mean" not in stoker("nonsense", code=2).stderr
    for command in ("explain", "run"):
        assert "/dev/null is neither a folder of images nor a pipeline" in stoker(command, "/dev/null", code=1).stderr
    assert "STOKER_FUZE is set, and nothing reads it; did you mean STOKER_FUSE?" in stoker("explain", folder, STOKER_FUZE="0").stderr
    assert not stoker("explain", folder, STOKER_FUSE="0", STOKER_TEST_SEED="1").stderr


@pytest.mark.parametrize(
    ("name", "value", "valid"),
    [
        ("STOKER_FUSE", "off", "0 or 1"),
        ("STOKER_AFFINITY", "no", "0 or 1"),
        ("STOKER_CPU", "C", "c"),
        ("STOKER_JPEG", "turbo", "libjpeg-turbo or stoker"),
        ("STOKER_DECODE", "GPU", "auto or gpu or cores"),
        ("STOKER_MAX_IMAGE_SIZE", "1e9", "a whole number from 0 to 9223372036854775807"),
        ("STOKER_MAX_IMAGE_SIZE", "500M", "a whole number"),
        ("STOKER_MAX_JPEG_SCANS", "-1", "a whole number"),
        ("STOKER_MAX_JPEG_SCANS", "4294967297", "a whole number"),
        ("STOKER_POISON", "0xa5", "a whole number from 0 to 255"),
    ],
)
def test_settings_of_unknown_values_are_refused(folder, name, value, valid):
    """The command refuses environment variables with unknown values, and names the valid ones. It does not read a part of a value, such as the 1 of 1e9."""
    text = stoker("explain", folder, code=1, **{name: value}).stderr
    assert f'the environment variable {name} is "{value}"; it ' in text and valid in text
    assert not stoker("explain", folder, **{name: ""}).stderr


def test_bench_never_says_that_nothing_takes_time(folder):
    text = stoker("bench", folder, "--seconds", "0.2", "-t", "1", "-b", "8", "--size", "16").stdout
    number, unit = re.search(r"takes ([\d.]+) (m?s) on these cores", text).groups()
    assert float(number) > 0 and unit in ("s", "ms")


def test_inspect_bad(bad_folder):
    facts = json.loads(stoker("inspect", bad_folder, "--json", code=1).stdout)
    assert (facts["files"], facts["good"]) == (4, 1)
    found = {Path(b["uri"]).name: b["message"] for b in facts["bad"]}
    assert sorted(found) == ["cut.jpg", "empty.jpg", "text.jpg"]
    assert "hello" in found["text.jpg"] and "empty" in found["empty.jpg"]
    text = stoker("inspect", bad_folder, code=1).stdout
    assert "1 good, 3 would fail" in text


def test_inspect_of_files_that_ask_for_much(folder, tmp_path):
    """inspect names files that would need gigabytes for coefficients, bytes or pixels. It needs little memory itself, since the file's header or size is enough
    to find this."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "coefficients.jpg").write_bytes(hostile_jpeg(16384, 16384))
    with open(tmp_path / "a" / "sparse.jpg", "wb") as f:
        f.truncate(3 << 30)
    head = b"\0\0\0\rIHDR" + (100_000).to_bytes(4) * 2 + b"\x08\x02\0\0\0"
    (tmp_path / "a" / "large.png").write_bytes(
        b"\x89PNG\r\n\x1a\n" + head + zlib.crc32(head[4:]).to_bytes(4) + b"\0\0\0\0IEND\xae\x42\x60\x82"
    )
    (tmp_path / "a" / "good.jpg").write_bytes((folder / "class0" / "00.jpg").read_bytes())
    # Starts the command from a small process, because a parent's memory at the start counts as its child's.
    launcher = """
        import resource, subprocess, sys
        done = subprocess.run(sys.argv[1:], stdout=subprocess.PIPE)
        print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, done.stdout.decode())
        sys.exit(done.returncode)
    """
    done = run_script(launcher, str(COMMAND), "inspect", str(tmp_path), "--json", LD_PRELOAD="")
    assert done.returncode == 1, done.stderr
    peak, _, report = done.stdout.partition(" ")
    # sparse.jpg has 3 GB, coefficients.jpg needs 1.6 GB, and large.png 30 GB. A sanitizer's own memory fits into this limit of 1 GiB.
    assert int(peak) < 1 << 20, f"{peak} KiB"
    facts = json.loads(report)
    assert (facts["files"], facts["good"]) == (4, 1)
    found = {Path(b["uri"]).name: b["message"] for b in facts["bad"]}
    assert "memory_limit" in found["coefficients.jpg"] and "memory_limit" in found["sparse.jpg"]
    assert "STOKER_MAX_IMAGE_SIZE" in found["large.png"]
    assert "not a JPEG" in stoker("inspect", tmp_path / "a" / "sparse.jpg", code=1).stderr


def test_inspect_of_a_long_header(folder, tmp_path):
    """inspect finds the size of an image whose header is longer than the 64 KiB that it reads first."""
    data = (folder / "class0" / "00.jpg").read_bytes()
    segment = b"\xff\xe5" + (60_002).to_bytes(2) + b"x" * 60_000
    (tmp_path / "long.jpg").write_bytes(data[:2] + 7 * segment + data[2:])
    assert "60 x 50" in stoker("inspect", tmp_path / "long.jpg").stdout


def test_inspect_of_a_header_at_the_end(tmp_path):
    """The directory of a TIFF, and the orientation of a PNG or WebP, may follow the pixels. inspect then reads the whole file."""
    pixels = Image.fromarray(np.random.default_rng(SEED).integers(0, 256, (200, 300, 3), np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    pixels.save(tmp_path / "a.webp", lossless=True, exif=exif)
    pixels.save(tmp_path / "a.png")
    pixels.save(tmp_path / "a.tif")
    data = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(data[:-12] + png_chunk(b"eXIf", exif.tobytes()[6:]) + data[-12:])
    data = bytearray((tmp_path / "a.tif").read_bytes())
    at = struct.unpack_from("<I", data, 4)[0]
    directory = data[at : at + 2 + 12 * struct.unpack_from("<H", data, at)[0] + 4]
    data[4:8] = struct.pack("<I", len(data))
    data[at : at + len(directory)] = bytes(len(directory))  # the directory's long values stay in their places
    (tmp_path / "a.tif").write_bytes(data + directory)
    for name in ("a.webp", "a.png", "a.tif"):
        assert (tmp_path / name).stat().st_size > 100_000
        with Image.open(tmp_path / name) as image:
            orientation = image.getexif().get(0x0112, 1)
        assert "300 x 200, 3 channels of 8 bits" in (said := stoker("inspect", tmp_path / name).stdout)
        assert said.splitlines()[0].endswith(f"EXIF orientation {orientation}")
        assert "1 file: 1 good, 0 would fail" in said


def test_inspect_nothing(tmp_path):
    assert "missing" in stoker("inspect", tmp_path / "missing", code=1).stderr
    stoker("inspect", tmp_path, code=1)


def test_inspect_file(folder, bad_folder):
    assert "60 x 50" in stoker("inspect", folder / "class0" / "00.jpg").stdout
    assert "hello" in stoker("inspect", bad_folder / "a" / "text.jpg", code=1).stderr
    assert "cut.jpg" in stoker("inspect", bad_folder / "a" / "cut.jpg", code=1).stdout


def test_view_shows_the_pictures(folder, tmp_path):
    """Each picture in the sheet shows the pixels of its file, cut to the reported window, and mirrored if that is reported, above a caption."""
    out = tmp_path / "sheet.png"
    facts = json.loads(stoker("view", folder, "-o", out, "--batch", "6", "--columns", "3", "--size", "64", "--json").stdout)
    assert (facts["rows"], facts["columns"], len(facts["samples"])) == (2, 3, 6)
    sheet = np.asarray(Image.open(out))
    width, height = (sheet.shape[1] - 4) // 3, (sheet.shape[0] - 4) // 2
    assert width >= 68 and height > 68 + 20 and (sheet[:4] == 32).all()
    for i, sample in enumerate(facts["samples"]):
        y, x = 4 + i // 3 * height, 4 + i % 3 * width
        cell, caption = sheet[y : y + 64, x : x + 64].astype(float), sheet[y + 64 : y + height - 4, x : x + width - 4]
        source = Image.open(sample["uri"]).convert("RGB")
        assert (sample["width"], sample["height"]) == source.size
        left, top, w, h = (sample[f"crop_{n}"] for n in ("x", "y", "width", "height"))
        assert 0 <= left < left + w <= source.size[0] and 0 <= top < top + h <= source.size[1]
        want = np.asarray(source.resize((64, 64), Image.Resampling.BILINEAR, (left, top, left + w, top + h)), dtype=float)
        want = want[:, ::-1] if sample["flipped"] else want
        assert np.abs(cell - want).mean() < 3, sample  # large windows are decoded at a smaller scale
        assert 100 < (caption == 220).all(2).sum() < caption[..., 0].size / 2
    assert len({s["flipped"] for s in facts["samples"]}) == 2


def test_view_crosses_out_what_fails(bad_folder, tmp_path):
    """In place of a file that cannot be decoded, the sheet has a cross and the file's name; the other pictures are drawn."""
    out = tmp_path / "sheet.png"
    done = stoker("view", bad_folder, "-o", out, "-b", "6", "-c", "3", "-s", "64", "--json", code=1)
    facts = json.loads(done.stdout)
    tiles = sorted(facts["samples"] + facts["bad"], key=lambda t: t["cell"])
    assert [t["cell"] for t in tiles] == list(range(6)) and [t["position"] for t in tiles] == [0, 1, 2, 3, 0, 1]
    assert all(("message" in t) == (Path(t["uri"]).name != "good.jpg") for t in tiles)
    sheet = np.asarray(Image.open(out))
    width, height = (sheet.shape[1] - 4) // 3, (sheet.shape[0] - 4) // 2
    for t in tiles:
        y, x = 4 + t["cell"] // 3 * height, 4 + t["cell"] % 3 * width
        cross = np.where((np.eye(64) + np.eye(64)[::-1] > 0)[..., None], 220, 96)
        assert (sheet[y : y + 64, x : x + 64] == cross).all() == ("message" in t)
        assert (sheet[y + 64 : y + 78, x : x + width] == 220).any()
    text = stoker("view", bad_folder, "-o", out, "-b", "8", code=1).stderr
    assert text.count("text.jpg") == 1 and text.endswith(f"; `stoker inspect {bad_folder}` finds all bad files\n")
    assert "hello" in stoker("view", bad_folder / "a" / "text.jpg", "-o", out, code=1).stderr
    for command in ("bench", "run"):
        assert stoker(command, bad_folder, code=1).stderr.endswith(f"; `stoker inspect {bad_folder}` finds all bad files\n")


def test_view_writes_whole_captions(tmp_path):
    """The cells of a sheet are wide enough for the longest caption."""
    (tmp_path / "a").mkdir()
    picture(0, 120, 130).resize((12032, 2024)).save(tmp_path / "a" / "1.jpg")
    out = tmp_path / "v.png"
    facts = json.loads(stoker("view", tmp_path, "-o", out, "-b", "4", "-c", "2", "-s", "32", "--json").stdout)
    texts = ["{width}x{height} {crop_x},{crop_y}+{crop_width}x{crop_height}".format(**s) + " flip" * s["flipped"] for s in facts["samples"]]
    sheet = np.asarray(Image.open(out))
    width = (sheet.shape[1] - 4) // 2
    assert width - 4 == 6 * max(map(len, texts)) > 6 * 28


def test_view_refuses_what_it_would_not_do(folder, tmp_path):
    for name in ("v.jpg", "-", "v", ".png"):
        assert f'the name of a PNG, as view.png, not "{name}"' in stoker("view", folder, "-o", name, code=2).stderr
    out = tmp_path / "V.PNG"
    assert "samples of 8192 x 8192 take 3300" in stoker("view", folder, "-o", out, "-b", "4096", "-s", "8192", code=1).stderr
    assert not out.exists()
    stoker("view", folder, "-o", out, "-b", "2")
    assert Image.open(out).format == "PNG"


def test_view_does_not_write_into_its_source(folder, tmp_path):
    """A sheet replaces no file of the data set, and becomes none: neither in a class folder nor next to the images of a folder without classes."""
    tree, flat = tmp_path / "tree", tmp_path / "flat"
    shutil.copytree(folder, tree)
    shutil.copytree(folder / "class0", flat)
    single, link = flat / "gray.png", tmp_path / "link.png"
    link.symlink_to(single)
    before = {p: p.read_bytes() for p in (*tree.rglob("*.*"), *flat.iterdir())}
    for source, output in (
        (single, single),
        (single, link),
        (tree, tree / "class0" / "gray.png"),
        (tree, tree / "class1" / "new.png"),
        (flat, single),
        (flat, flat / "new.png"),
    ):
        assert f"{output}: the picture would be a file of {source} itself" in stoker("view", source, "-o", output, code=1).stderr
    assert {p: p.read_bytes() for p in (*tree.rglob("*.*"), *flat.iterdir())} == before
    stoker("view", tree, "-o", tree / "sheet.png", "-b", "2")  # files next to the class folders belong to no class
    stoker("view", single, "-o", flat / "sheet.png", "-b", "2")


def test_an_index_replaces_only_an_index(folder, tars, tmp_path):
    """A shell that expands `stoker index -o s-*.tar` names the first tar as the output, and that tar stays as it is."""
    tree, single = tmp_path / "tree", tmp_path / "one.tar"
    shutil.copytree(folder, tree)
    shutil.copy(next((tars / "both").glob("*.tar")), single)
    image = tree / "class0" / "00.jpg"
    for source, output in ((single, single), (tree, image), (tree, single), (single, image)):
        before = output.read_bytes()
        assert f"{output}: the file exists and is not an index" in stoker("index", source, "-o", output, code=1).stderr
        assert output.read_bytes() == before
    index = tmp_path / "index"
    index.touch()
    for source in (tree, single, single, tree):
        stoker("index", source, "-o", index)
    stoker("inspect", index)


def test_view_of_one_image_under_many_draws(folder, tmp_path):
    facts = json.loads(stoker("view", folder, "-o", tmp_path / "a.png", "--augment", "7", "--seed", "3", "--json").stdout)
    assert len(facts["samples"]) == 7 and len({s["uri"] for s in facts["samples"]}) == 1
    assert len({(s["crop_x"], s["crop_y"], s["crop_width"]) for s in facts["samples"]}) > 3


@pytest.fixture(scope="module")
def tars(folder, tmp_path_factory):
    """Writes a folder of two tars, a tar of samples without labels, one without images, and an index of the folder's two tars."""
    root = tmp_path_factory.mktemp("tars")
    (root / "both").mkdir()
    files = sorted(folder.rglob("*.jpg"))

    def write(path, members):
        path.write_bytes(tar_of(members))

    for k in range(2):
        part = files[10 * k : 10 * k + 10]
        write(
            root / "both" / f"s-{k}.tar",
            [m for i, f in enumerate(part) for m in ((f"{i}.jpg", f.read_bytes()), (f"{i}.cls", b"%d" % (30 * k)))],
        )
    write(root / "plain.tar", [m for i, f in enumerate(files[:3]) for m in ((f"{i}.jpg", f.read_bytes()), (f"{i}.txt", b"a"))])
    write(root / "none.tar", [("0.txt", b"a")])
    stoker("index", *sorted((root / "both").glob("*.tar")), "-o", root / "index.stoker")
    return root


def test_tars_and_their_indexes_are_data_sets(folder, tars, tmp_path):
    """The command accepts tars and their indexes as data sets, like Loader."""
    for source in (tars / "both", tars / "both" / "s-{0..1}.tar", tars / "both" / "s-*.tar", tars / "index.stoker"):
        found = json.loads(stoker("inspect", source, "--json").stdout)
        assert (found["files"], found["good"], found["classes"], found["by_class"]) == (20, 20, 2, {"0": 10, "30": 10})
    found = json.loads(stoker("inspect", tars / "plain.tar", "--json").stdout)
    assert (
        found["files"] == found["good"] == 3
        and found["by_class"] == {}
        and "3 samples: 3 good" in stoker("inspect", tars / "plain.tar").stdout
    )
    for source, label in ((tars / "both", "0"), (tars / "index.stoker", "0"), (tars / "plain.tar", None)):
        view = json.loads(stoker("view", source, "--batch", 4, "--augment", 4, "-o", tmp_path / "v.png", "--json").stdout)
        assert len({s["uri"] for s in view["samples"]}) == 1 and view["samples"][0]["uri"].endswith(":0.jpg")
        width, height = Image.open(sorted(folder.rglob("*.jpg"))[0]).size
        assert all((s["width"], s["height"], s.get("label")) == (width, height, label and int(label)) for s in view["samples"])
        assert "readers.webdataset" in stoker("explain", source).stdout
    image = sorted(folder.rglob("*.jpg"))[0].read_bytes()
    (tmp_path / "UPPER.TAR").write_bytes(tar_of([(f"{k}.{end}", data) for k in range(3) for end, data in (("JPG", image), ("CLS", b"7"))]))
    assert json.loads(stoker("inspect", tmp_path / "UPPER.TAR", "--json").stdout)["by_class"] == {"7": 3}, "the case does not matter"
    assert "20 samples" in stoker("bench", tars / "both", "--seconds", 0.1, "-q").stdout
    for command in ("inspect", "view", "bench"):
        assert "have no image; they have txt" in stoker(command, tars / "none.tar", code=1).stderr


def test_view_cannot_write(folder, tmp_path):
    said = stoker("view", folder, "-o", "/nonexistent/x.png", code=1).stderr
    assert "/nonexistent/x.png: cannot write the file: there is no folder /nonexistent: make it first (mkdir -p)" in said
    (tmp_path / "x.png").mkdir()
    assert "x.png: cannot write the file: this is a folder" in stoker("view", folder, "-o", tmp_path / "x.png", code=1).stderr


def test_inspect_prints_the_notice_of_a_tar_once(tars, tmp_path):
    whole = next(iter(sorted((tars / "both").glob("*.tar")))).read_bytes().rstrip(b"\0")
    (tmp_path / "a.tar").write_bytes(whole + bytes(-len(whole) % 512))
    assert stoker("inspect", tmp_path / "a.tar").stderr.count("without the blocks of zeros") == 1


def test_view_names_the_first_try_of_a_file(tmp_path):
    """The pipeline of a single image repeats it in each epoch, and gives up in a later one."""
    (tmp_path / "a.jpg").symlink_to("a.jpg")  # a link to itself, which cannot be opened
    assert "Too many levels of symbolic links; sample 0 of epoch 0, readers.file" in stoker("view", tmp_path / "a.jpg", code=1).stderr


def test_a_link_to_a_folder_is_not_replaced(folder, tmp_path):
    (tmp_path / "data").symlink_to(folder)
    assert "data: cannot write the index: this is a folder" in stoker("index", folder, "-o", tmp_path / "data", code=1).stderr
    (tmp_path / "x.png").symlink_to(folder)
    assert "x.png: cannot write the file: this is a folder" in stoker("view", folder, "-o", tmp_path / "x.png", code=1).stderr
    with pytest.raises(IsADirectoryError):
        stoker_files.write(tmp_path / "data", "text")
    assert (tmp_path / "data").is_symlink() and (tmp_path / "x.png").is_symlink()


def test_uris_of_local_files(folder, tars, tmp_path):
    """Every command takes file:// URIs for paths, also of files that it opens by itself."""
    sound = tmp_path / "s.wav"
    sound.write_bytes(pcm16(np.random.default_rng(SEED), 800, rate=8000))
    for source in (folder, tars / "both", tars / "index.stoker", sound, sorted(folder.rglob("*.jpg"))[0]):
        for uri in (f"file://{source}", f"file://localhost{source}"):
            assert stoker("inspect", uri).stdout == stoker("inspect", source).stdout
    found = json.loads(stoker("pack", f"file://{folder}", "-o", f"file://{tmp_path}/packed", "--json").stdout)
    assert found["samples"] == 21 and (tmp_path / "packed" / "shards-000000.tar").is_file()
    assert "files of another host are not read" in stoker("inspect", "file://other/host", code=1).stderr


@pytest.mark.parametrize("arguments", [("view", "-o", "v.png"), ("run", "-e", "100000")])
def test_ctrl_c_ends_with_its_code(folder, tmp_path, arguments):
    """Neither command ends before the signal comes: `view` waits for a server that does not answer."""
    name, *more = arguments
    server = stopping.Silent()
    source = f"{server.url}/x.jpg" if name == "view" else folder
    with subprocess.Popen([COMMAND, name, source, *more], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as run:
        status = Path(f"/proc/{run.pid}/status")
        while run.poll() is None and not int(re.search(r"SigCgt:\s*(\w+)", status.read_text())[1], 16) & 1 << signal.SIGINT - 1:
            time.sleep(0.01)  # until the command catches the signal
        run.send_signal(signal.SIGINT)
        said = run.communicate(timeout=120)[1]
    assert run.returncode == 130 and "interrupted" in said and not list(tmp_path.iterdir())


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_ctrl_c_in_the_warm_up_of_bench_is_reported(folder, more):
    """If Ctrl-C comes before the first round, the report contains what was measured until then."""
    for delay in (0.1, 0.4, 1, 4, 16):  # repeated if the machine is so busy that the command had not begun to measure
        with subprocess.Popen([COMMAND, "bench", folder, "--seconds", "3600", *more], stdout=subprocess.PIPE, text=True) as run:
            status = Path(f"/proc/{run.pid}/status")
            while not int(re.search(r"SigCgt:\s*(\w+)", status.read_text())[1], 16) & 1 << signal.SIGINT - 1:
                time.sleep(0.01)
            time.sleep(delay)
            run.send_signal(signal.SIGINT)
            said = run.communicate(timeout=120)[0]
        assert run.returncode == 130
        if said:
            break
    if more:
        found = json.loads(said)
        assert found["interrupted"] and found["rounds"] == 0 and found["stoker"]["images_per_s"] is None and "samples" in found["counters"]
    else:
        assert re.fullmatch(rf"Interrupted before the first round .*\n{folder}: the warm-up made \d+ images? in \d+\.\d s\.\n", said)


def test_checksum_is_the_same_for_all_threads(folder):
    def checksum(*arguments, **environment):
        return json.loads(stoker("run", folder, "--steps", "6", "-b", "8", "--checksum", "--json", *arguments, **environment).stdout)[
            "checksum"
        ]

    reference = checksum("-t", "1")
    assert checksum("-t", "3") == reference
    assert checksum("-t", "2", STOKER_FUSE="0") == reference
    assert checksum("-t", "2", STOKER_CPU="c") == reference
    assert checksum("-t", "2", "--seed", "5") != reference


def test_run_without_fusion_explains_more_steps(folder):
    fused, plain = stoker("explain", folder).stdout, stoker("explain", folder, STOKER_FUSE="0").stdout
    for op in ("decoders.image_random_crop", "resize", "crop_mirror_normalize"):
        assert op in fused and op in plain
    assert fused != plain
    assert json.loads(stoker("explain", folder, "--json").stdout)


def test_ops_lists_and_describes_operators():
    names = {op["name"] for op in json.loads(stoker("ops", "--json").stdout)}
    assert {"readers.file", "decoders.image", "resize", "crop_mirror_normalize"} <= names
    one = json.loads(stoker("ops", "resize", "--json").stdout)
    assert one["name"] == "resize" and any(a["name"] == "size" for a in one["args"])
    assert "did you mean" in stoker("ops", "resise", code=1).stderr
    assert not names & {"optical_flow", "experimental.inflate"}
    assert "exists in DALI, not in Stoker" in stoker("ops", "optical_flow", code=1).stderr
    assert "only Python has this name" in stoker("ops", "experimental.inflate", code=1).stderr
    assert "did you mean" not in stoker("ops", "", code=1).stderr


def test_doctor_reports_the_machine():
    facts = json.loads(stoker("doctor", "--json", STOKER_CPU="c").stdout)
    assert facts["kernels"] == "c" and facts["threads"] >= 1
    assert any("plain C" in a["text"] for a in facts["advice"])
    assert {"libjpeg-turbo", "libspng", "zlib", "jansson"} <= set(facts["libraries"])
    versions = json.loads(stoker("doctor", "--versions", "--json").stdout)
    assert versions["libraries"] == facts["libraries"] and versions["version"] == facts["version"] and "gpus" not in versions
    assert f"zlib               {zlib.ZLIB_RUNTIME_VERSION} " in stoker("doctor", "--versions").stdout
    shared = json.loads(stoker("doctor", "--json", LOCAL_WORLD_SIZE="2").stdout)
    assert shared["local_ranks"] == 2 and shared["threads"] <= max(1, facts["threads"] / 2)


def advice(facts):
    return " ".join(a["text"] for a in facts["advice"])


def test_doctor_reports_gpus(tmp_path):
    """doctor reports once why a driver cannot be loaded, and lists the GPUs of the emulated driver."""
    (tmp_path / "libcuda.so.1").write_text("no library")
    broken = json.loads(subprocess.run([COMMAND, "doctor", "--json"], env={"LD_LIBRARY_PATH": str(tmp_path)}, capture_output=True).stdout)
    assert (broken["cuda_driver"], broken["gpus"]) == (0, [])
    assert "libcuda.so.1" in broken["cuda_problem"] and "--device" in broken["cuda_problem"]
    text = subprocess.run([COMMAND, "doctor"], env={"LD_LIBRARY_PATH": str(tmp_path)}, capture_output=True, text=True).stdout
    assert text.count("libcuda.so.1") - broken["cuda_problem"].count("libcuda.so.1") == 0
    assert "driver" in advice(broken) and "without CUDA" not in advice(broken)
    assert bool(broken["cuda_archs"]) == (broken["cuda_needed"] > 0) == broken["cuda_built"]
    emulated = COMMAND.parent.parent / "test" / "cuda"
    if not (emulated / "libcuda.so.1").exists():
        pytest.skip("the emulated driver is not built")
    environment = {"LD_LIBRARY_PATH": str(emulated)}
    facts = json.loads(subprocess.run([COMMAND, "doctor", "--json"], env=environment, capture_output=True).stdout)
    assert facts["cuda_driver"] >= 12000 and facts["cuda_problem"] == ""
    assert [set(g) for g in facts["gpus"]] == [{"name", "pci", "cpus", "memory", "capability", "processors"}] * len(facts["gpus"]) != []
    assert ("no CUDA kernels" in advice(facts)) == (not facts["cuda_built"])
    text = subprocess.run([COMMAND, "doctor"], env=environment, capture_output=True, text=True).stdout
    assert all(f"{g['name']}, {g['memory'] / 2**30:.1f} GiB, sm_{g['capability']}" in text for g in facts["gpus"])


@pytest.mark.parametrize("arguments", [["ops", "--json"], ["--version"], ["--help"], ["ops", "--help"], ["help", "ops"]])
def test_full_disk_is_a_failure(arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run([COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == f"stoker {arguments[0]}: the output could not be written: No space left on device\n"


@pytest.mark.parametrize("arguments", [["view"], ["pack"], ["index"]])
def test_a_file_beyond_the_limit_of_the_shell_is_a_failure(folder, tmp_path, arguments):
    """The limit of `ulimit -f` stops a command with a message, and without a half-written file."""
    limited = ["sh", "-c", 'ulimit -f 0; exec "$@"', "-", COMMAND]
    if subprocess.run([*limited, "--version"], capture_output=True, timeout=120).returncode == -signal.SIGXFSZ:
        pytest.skip("the command is linked with ThreadSanitizer, which itself writes a file when a program starts")
    done = subprocess.run([*limited, *arguments, folder, "-o", tmp_path / "out.png"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr.count("File too large")) == (1, 1), done
    assert not list(tmp_path.rglob("*.part"))


def test_an_index_that_is_kept_nowhere_is_a_failure(folder, tmp_path):
    """If the index cannot be stored, `index` has done nothing for later runs, and fails, unless -o names a file."""
    tar = tmp_path / "a.tar"
    tar.write_bytes(tar_of([("0.jpg", (folder / "class0" / "00.jpg").read_bytes()), ("0.cls", b"1")]))
    (tmp_path / "a.tar.stoker").mkdir()
    nowhere = {"XDG_CACHE_HOME": "/dev/null", "HOME": "/dev/null"}
    done = stoker("index", tar, code=1, **nowhere)
    assert done.stdout.startswith("not kept for 1 tar (-o FILE stores one index for all): 2 files in 1 tar")
    assert "could not be kept" in done.stderr
    assert json.loads(stoker("index", tar, "--json", code=1, **nowhere).stdout)["not_kept"] == 1
    assert json.loads(stoker("index", tar, "--json", XDG_CACHE_HOME=str(tmp_path / "kept")).stdout)["not_kept"] == 0
    stoker("index", tar, "-o", tmp_path / "all.stoker", **nowhere)
    assert [int(batch.label) for batch in Loader(tmp_path / "all.stoker", 1)] == [1]


def test_samples_of_tars_without_a_component_are_named_with_a_way_out(folder, tmp_path):
    """The message names a function with an argument that leaves such samples out, since the command and Loader have no such argument."""
    image = (folder / "class0" / "00.jpg").read_bytes()
    (tmp_path / "a.tar").write_bytes(tar_of([("0.jpg", image), ("0.cls", b"1"), ("1.jpg", image)]))
    for source in (tmp_path / "a.tar", tmp_path):
        assert re.search(
            r'begins with 1\.jpg has no component "cls"; missing_component_behavior="skip", an argument of Loader\.from_tars',
            stoker("inspect", source, code=1).stderr,
        )
    loader = Loader.from_tars(tmp_path / "a.tar", 1, missing_component_behavior="skip")
    assert [int(batch.label) for batch in loader] == [1]


@pytest.mark.parametrize("arguments", [["ops"], ["--version"]])
def test_a_closed_stdout_is_a_failure(arguments):
    done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "-", COMMAND, *arguments], stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith(f"stoker {arguments[0]}: the output could not be written")


def test_a_file_does_not_take_the_place_of_a_closed_stdout(folder, tmp_path):
    """If stdout is closed, the first file that is opened would get descriptor 1, and the command's output would go into it. The command must fail, and its
    picture must stay intact."""
    for closed, name in ((">&-", "out"), ("<&- >&- 2>&-", "all")):
        made = tmp_path / f"{name}.png"
        done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "-", COMMAND, "view", folder, "--output", made], timeout=120)
        assert done.returncode == 1  # the command fails because it cannot print its line about the picture
        assert Image.open(made).convert("RGB").size[0] > 100
        assert made.read_bytes()[-8:-4] == b"IEND"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"ops": 3}', "\x00\x01", "[" * 10000])
def test_damaged_pipelines(tmp_path, text):
    path = tmp_path / "pipeline.json"
    path.write_text(text)
    for command in ("run", "explain", "view"):
        assert f"stoker {command}: {path}: " in stoker(command, path, code=1).stderr


def test_bench_reports_the_shares_of_the_time(folder):
    facts = json.loads(stoker("bench", folder, "--json", "--seconds", "0.5", "-t", "1", "-b", "8", "--size", "32").stdout)
    assert facts["files"] == 21 and facts["rounds"] == 5
    assert all(s is None or s > 0 for s in facts["shares"]) and 0 <= facts["waited_for_cores"] <= 1
    assert facts["stoker"]["images_per_s"] > 0 and facts["libjpeg_turbo"]["images_per_s"] > 0


def test_bench_does_not_claim_the_steps_of_a_pipeline(folder, tmp_path):
    pipe = Pipeline(4, 1, None)
    with pipe:
        pipe.set_outputs(fn.readers.file(file_root=str(folder))[0])
    pipe.serialize(filename=str(tmp_path / "p.json"))
    said = stoker("bench", tmp_path / "p.json", "--seconds", "0.2").stdout
    assert "; the operators of the pipeline\n" in said and "flip" not in said


# ---- sounds ----


def test_inspect_sound(tmp_path):
    rng = np.random.default_rng(SEED)
    data = pcm16(rng, 32000, 2)
    (tmp_path / "a.wav").write_bytes(data)
    (tmp_path / "cut.wav").write_bytes(data[:64044])
    (tmp_path / "text.wav").write_text("not a sound")
    said = stoker("inspect", tmp_path / "a.wav")
    assert said.stdout == f"{tmp_path}/a.wav: wav, pcm, 2 channels of 16 bits, 16000 Hz, 2.000 s (32000 frames)\n"
    facts = json.loads(stoker("inspect", tmp_path / "a.wav", "--json").stdout)
    assert (facts["good"], facts["rate"], facts["channels"], facts["frames"], facts["seconds"]) == (True, 16000, 2, 32000, 2.0)
    said = stoker("inspect", tmp_path / "cut.wav", code=1)
    assert "1.000 s (16000 frames)" in said.stdout and "a truncated WAV: it ends at byte 64044" in said.stderr
    facts = json.loads(stoker("inspect", tmp_path / "cut.wav", "--json", code=1).stdout)
    assert not facts["good"] and facts["missing_frames"] == 16000
    said = stoker("inspect", tmp_path / "text.wav", code=1)
    assert "neither WAV nor FLAC" in said.stderr and not said.stdout
    assert "none.wav: no such file or folder" in stoker("inspect", tmp_path / "none.wav", code=1).stderr


def test_a_file_that_another_program_has_leased(files, tmp_path):
    """File servers like Samba and NFS take leases on files. The command waits until another program gives up its lease."""
    import fcntl
    import signal
    import threading

    path = tmp_path / "leased.jpg"
    shutil.copy(files[0], path)
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # the kernel sends SIGIO when another program opens the leased file
    fd = os.open(path, os.O_RDWR)
    try:
        try:
            fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError:
            pytest.skip("this file system has no leases")
        threading.Timer(0.5, fcntl.fcntl, (fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)).start()
        assert "leased.jpg" in stoker("inspect", path).stdout
    finally:
        os.close(fd)
        signal.signal(signal.SIGIO, before)
