#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes what a release consists of, in a folder: the wheel for all Linuxes from glibc 2.28 on, and the sdist.

The wheel's libraries are built from pinned sources (libraries.toml), its C code by Zig's clang against an old glibc (toolchain.py), its kernels by CUDA
12.9 (nvcc.py), so that drivers from 525 on run them. The same commit gives the same bytes. Libraries that were built once are kept in build-release.

usage: release.py DIST
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "release")]
FOLDER = ROOT / "build-release"
LARGEST = 15 << 20
GLIBC = 28  # the newest minor version that the wheel may need


def python_headers() -> Path:
    """A folder beside which the compiler finds what Debian's pyconfig.h includes, which lies among the system's own headers."""
    folder = FOLDER / "include"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    name = Path(sysconfig.get_path("include")).name
    if multiarch and (Path("/usr/include") / multiarch / name).exists():
        (folder / multiarch).mkdir()
        (folder / multiarch / name).symlink_to(Path("/usr/include") / multiarch / name)
    return folder


def native_file(toolchain: Path) -> Path:
    path = FOLDER / "native.ini"
    flags = f"'-isystem', '{python_headers()}'"
    path.write_text(
        f"[binaries]\nc = '{toolchain}/cc'\nar = '{toolchain}/ar'\nranlib = '{toolchain}/ranlib'\nnvcc = '{toolchain}/nvcc'\npython3 = '{sys.executable}'\n"
        f"[built-in options]\nc_args = [{flags}]\nprefer_static = true\nbuildtype = 'release'\n"
    )
    return path


def build(toolchain: Path, prefixes: list[Path]) -> Path:
    """The library, the command and the Python module."""
    from libraries import step

    nvcc = toolchain / "nvcc"
    nvcc.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/tools/release/nvcc.py" "$@"\n')
    nvcc.chmod(0o755)
    folder = FOLDER / "build"
    shutil.rmtree(folder, ignore_errors=True)
    path = ":".join(str(p / "lib" / "pkgconfig") for p in prefixes)
    env = {"PATH": os.environ["PATH"], "HOME": str(FOLDER), "PKG_CONFIG_LIBDIR": path, "LC_ALL": "C"}
    options = [
        "-Dtests=disabled",
        "-Dpython=enabled",
        "-Dcuda=enabled",
        "-Dgpu_archs=all",
        "-Dcurl=enabled",
        "-Dwebp=enabled",
        "-Dnvtx=enabled",
    ]
    step("release: configuring", "meson", "setup", folder, "--native-file", native_file(toolchain), *options, cwd=ROOT, env=env)
    jobs = os.environ.get("JOBS", "2")
    step(
        "release: the library, its kernels and the Python module", "nice", "-n", "19", "ninja", "-C", folder, "-j", jobs, cwd=ROOT, env=env
    )
    return folder


def check(wheel: Path) -> None:
    """What the wheel promises: how old a glibc may be, how large it is, and that it shows none of its parts' symbols."""
    if wheel.stat().st_size > LARGEST:
        raise SystemExit(f"release: {wheel.name} has {wheel.stat().st_size} bytes, more than {LARGEST}")
    shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True, check=True).stdout
    print(shown.strip(), file=sys.stderr)
    needs = re.search(r'consistent with\s+the following platform tag: "manylinux_2_(\d+)_x86_64"', " ".join(shown.split()))
    if not needs or int(needs[1]) > GLIBC:
        raise SystemExit(f"release: {wheel.name} is not for manylinux_2_{GLIBC}")
    public = set((ROOT / "tools" / "symbols.txt").read_text().split()) | {"PyInit__core", "PyInit__batching"}
    with tempfile.TemporaryDirectory() as scratch:
        shutil.unpack_archive(wheel, scratch, "zip")
        for binary in Path(scratch).rglob("*.so*"):
            table = subprocess.run(["nm", "-D", "--defined-only", binary], capture_output=True, text=True, check=True).stdout
            names = {line.split()[-1].split("@")[0] for line in table.splitlines() if " A " not in line}
            strange = {n for n in names - public if not (binary.name.startswith("libcurl") and n.startswith("curl_"))}
            if strange:
                raise SystemExit(f"release: {binary.name} shows symbols that are not its own: {', '.join(sorted(strange)[:8])}")
            if str(ROOT).encode() in binary.read_bytes():
                raise SystemExit(f"release: {binary.name} names a folder of this machine")


def main() -> None:
    import libraries
    import toolchain
    import wheel_backend

    dist = Path(sys.argv[1]).resolve()
    FOLDER.mkdir(exist_ok=True)
    tools = toolchain.make(FOLDER)
    builder = libraries.Builder(FOLDER, tools, toolchain.identity(), int(os.environ.get("JOBS", "2")))
    parts, prefixes = [], []
    for library in libraries.libraries().values():
        prefixes.append(builder.build(library))
        texts = sorted((prefixes[-1] / "licences").iterdir())
        parts.append(wheel_backend.Part(library.name, library.upstream, library.licence, texts, library.sha256))
    parts.append(wheel_backend.Part("zig-compiler-rt", importlib.metadata.version("ziglang"), "MIT", [toolchain.licence()]))
    folder = build(tools, prefixes)
    with tempfile.TemporaryDirectory() as scratch:
        own_curl = builder.done["curl"] / "lib" / "libcurl-stoker.so"
        wheel = wheel_backend.make_wheel(Path(scratch), folder, dist, parts, [own_curl])
    check(wheel)
    print(wheel)
    print(dist / wheel_backend.build_sdist(str(dist)))


if __name__ == "__main__":
    main()
