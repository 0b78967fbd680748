# SPDX-License-Identifier: Apache-2.0
"""The conda recipe, the Dockerfile and the page of installation agree with pyproject.toml. A wheel has the tags of its module, and holds the licence
texts."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import wheel_backend

ROOT = wheel_backend.ROOT
PROJECT = wheel_backend.project()
CONDA_NAMES = {"torch": "pytorch"}


def requirement(text: str) -> tuple[str, str]:
    name, least = re.fullmatch(r"([\w-]+) ?>=([\d.]+)", text).groups()
    return CONDA_NAMES.get(name, name), least


def test_the_conda_recipe_agrees_with_the_project():
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())
    assert recipe["context"]["version"] == PROJECT["version"]
    assert recipe["package"]["name"] == PROJECT["name"]
    assert recipe["about"]["license"] == PROJECT["license"] and recipe["about"]["summary"] == PROJECT["description"]
    extras = {requirement(p) for packages in PROJECT["optional-dependencies"].values() for p in packages}
    assert {requirement(p) for p in recipe["requirements"]["run_constraints"]} == extras
    assert f"python {PROJECT['requires-python']}" in recipe["requirements"]["run"]
    for source in recipe["source"]:
        path = (ROOT / "packaging" / "conda" / source["path"]).resolve()
        assert path.exists() or path == ROOT / "dist"  # `make release` makes the folder dist
    glibc = next(r for r in recipe["requirements"]["run"] if r.startswith("__glibc"))
    assert f'GLIBC = "{requirement(glibc)[1]}"' in (ROOT / "tools" / "release" / "toolchain.py").read_text()
    for test in recipe["tests"]:
        for line in test.get("script", []):
            assert line.split()[0] in PROJECT["scripts"]


def test_the_conda_package_fits_every_python():
    """The recipe is version_independent. Otherwise the files would be in lib/python3.X of the Python that built the package, which no other Python searches."""
    text = (ROOT / "packaging" / "conda" / "recipe.yaml").read_text()
    (build,) = re.findall(r"^build:\n((?:  .*\n)+)", text, re.MULTILINE)
    assert "  python:\n    version_independent: true\n" in build


def test_the_dockerfile_installs_this_version():
    text = (ROOT / "packaging" / "docker" / "Dockerfile").read_text()
    lines = [line for line in re.sub(r"\\\n", " ", text).splitlines() if line and not line.startswith("#")]
    instructions = [line.split(maxsplit=1) for line in lines]
    assert {name for name, _ in instructions} <= {"ARG", "COPY", "ENV", "FROM", "RUN", "WORKDIR"}
    assert [name for name, _ in instructions][:2] == ["ARG", "FROM"], "the base can be replaced by --build-arg BASE=..."
    arguments = dict(rest.split("=", 1) for name, rest in instructions if name == "ARG")
    assert re.fullmatch(r"pytorch/pytorch:\d+\.\d+\.\d+-cuda[\d.]+-cudnn\d+-runtime", arguments["BASE"])
    least = next(requirement(p)[1] for p in PROJECT["optional-dependencies"]["torch"] if p.startswith("torch"))
    named = re.search(r":(\d+)\.(\d+)", arguments["BASE"]).groups()
    assert tuple(map(int, named)) >= tuple(map(int, least.split(".")))
    assert {*re.findall(r"stoker(?:\[\w+\])?(?:-|==)(\d+\.\d+\.\d+)", text)} == {PROJECT["version"]}
    (install,) = (rest for name, rest in instructions if name == "RUN" and "stoker==" in rest)
    assert "--no-index" in install.split("&&")[0], "a package of this name on PyPI is somebody else's"
    assert re.findall(r'"(numpy[^"]*)"', install) == PROJECT["optional-dependencies"]["numpy"]
    (copied,) = (rest.split()[0] for name, rest in instructions if name == "COPY")
    for machine in ("x86_64", "aarch64"):  # a release has wheels for these machines
        assert Path(f"dist/stoker-{PROJECT['version']}-cp311-abi3-manylinux_2_17_{machine}.whl").match(copied)


@pytest.mark.parametrize(
    ("module", "tag"),
    [
        ("_core.abi3.so", "cp311-abi3"),
        ("_core.cpython-313t-x86_64-linux-gnu.so", "cp313-cp313t"),
        ("_core.cpython-314t-aarch64-linux-gnu.so", "cp314-cp314t"),
    ],
)
def test_a_wheel_is_for_the_pythons_that_load_its_module(module, tag):
    assert wheel_backend.python_tag(Path("stoker") / module) == tag


@pytest.mark.parametrize("module", ["_core.so", "_core.cpython-313-x86_64-linux-gnu.so", "_core.abi3.so.p"])
def test_a_module_of_another_name_is_refused(module):
    with pytest.raises(SystemExit, match=re.escape(f"{module} is no name of a module")):
        wheel_backend.python_tag(Path(module))


def test_a_build_with_two_modules_makes_a_wheel_of_each(tmp_path):
    """A wheel that held both modules would get the tag of the one that every CPython loads."""
    (abi3 := tmp_path / "_core.abi3.so").touch()
    assert (wheel_backend.modules(tmp_path), wheel_backend.modules(tmp_path, threaded=True)) == ([abi3], [])
    (threaded := tmp_path / "_core.cpython-314t-x86_64-linux-gnu.so").touch()
    assert (wheel_backend.modules(tmp_path), wheel_backend.modules(tmp_path, threaded=True)) == ([abi3], [threaded])
    abi3.unlink()
    assert wheel_backend.modules(tmp_path) == wheel_backend.modules(tmp_path, threaded=True) == [threaded]


@pytest.mark.parametrize(
    ("python", "meson", "wanted"),
    [((3, 11), "1.0.1", []), ((3, 12), "1.0.1", ["meson>=1.3"]), ((3, 13), "1.3.0", []), ((3, 13), "1.12.1", []), ((3, 13), "2.0.rc1", [])],
)
def test_an_old_meson_is_replaced_for_a_new_python(monkeypatch, tmp_path, python, meson, wanted):
    monkeypatch.setattr(wheel_backend.shutil, "which", lambda command: command)
    monkeypatch.setattr(wheel_backend, "run", lambda *command: f"{meson}\n")
    monkeypatch.setattr(wheel_backend.sys, "version_info", python)
    assert wheel_backend.get_requires_for_build_wheel() == wanted
    monkeypatch.setattr(wheel_backend, "THREADED", "cp313t")
    monkeypatch.setattr(wheel_backend, "need_packages", lambda: None)
    monkeypatch.setattr(wheel_backend, "ROOT", tmp_path)
    monkeypatch.setattr(wheel_backend.subprocess, "run", lambda *_, **__: SimpleNamespace(returncode=0))
    if wanted:
        with pytest.raises(SystemExit, match=r"older than 1\.3.*\n.*-m pip wheel --no-deps --wheel-dir dist "):
            wheel_backend.build(tmp_path / "build", [])
    else:
        wheel_backend.build(tmp_path / "build", [])


def test_a_wheel_holds_the_licence_the_notice_and_the_text_of_each_part(tmp_path):
    (text := tmp_path / "COPYING").write_text("Permission is hereby granted")
    wheel_backend.write_dist_info(tmp_path, [wheel_backend.Part("other", "1.2", "MIT", [text])], "cp311-abi3-linux_x86_64")
    (info,) = tmp_path.glob("stoker-*.dist-info")
    names = sorted(path.name for path in (info / "licenses").iterdir())
    assert names == sorted(re.findall(r"^License-File: (.*)$", (info / "METADATA").read_text(), re.M)) == ["LICENSE", "NOTICE", "other.txt"]
    assert {*PROJECT["license-files"]} < {*names}
    assert (info / "licenses" / "NOTICE").read_text() == (ROOT / "NOTICE").read_text()
    assert "hereby granted" in (info / "licenses" / "other.txt").read_text()


def test_the_page_of_installation_agrees_with_the_project():
    page = (ROOT / "doc" / "install.md").read_text()
    needs, contains = (page.split(f"## What a {title}\n")[1].split("\n## ")[0] for title in ("run needs", "build contains"))
    rows = {row.split("|")[1].strip(): row for row in (needs + contains).splitlines() if row.startswith("|")}
    least = dict(requirement(p) for packages in PROJECT["optional-dependencies"].values() for p in packages)
    assert f"| {PROJECT['requires-python'].removeprefix('>=')} |" in rows["CPython"]
    assert f"| {least['numpy']} |" in rows["NumPy"] and f"| {least['pytorch']} |" in rows["PyTorch"]
    assert {*re.findall(r"`stoker\[(\w+)\]`", page)} == {*PROJECT["optional-dependencies"]}
    (driver,) = re.findall(r"install NVIDIA's driver (\d+) or newer", (ROOT / "src/gpu/driver.c").read_text())
    assert f"| {driver};" in rows["NVIDIA's driver"]
    release = (ROOT / "tools/release/release.py").read_text()
    kinds = {machine: re.search(rf'"{machine}": "([\d,]+)"', release)[1].split(",") for machine in ("x86_64", "aarch64")}
    shown = re.findall(r"\d+\.\d", rows["kernels for GPUs"].split("CUDA")[0])
    assert {kind.replace(".", "") for kind in shown} == {*kinds["aarch64"]} and {*kinds["aarch64"]} - {*kinds["x86_64"]} == {"87"}
    glibc = re.search(r'GLIBC = "([\d.]+)"', (ROOT / "tools/release/toolchain.py").read_text())[1]
    assert f"| glibc {glibc} " in rows["Linux"]
    curl = re.search(r"libcurl', version: '>=([\d.]+)", (ROOT / "meson.build").read_text())[1]
    assert f"| {curl}, " in rows["`libcurl.so.4`"]
