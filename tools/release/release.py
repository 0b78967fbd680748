#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the files of a release in a folder: wheels for all Linuxes from glibc 2.17 on, x86-64 and aarch64, and the sdist.

A wheel's libraries are built from pinned sources (libraries.toml), its C code by Zig's clang against an old glibc (toolchain.py), its kernels by CUDA
12.9 (nvcc.py), so that drivers from 525 on run them. The same commit gives the same bytes. build-release/ keeps the built libraries for later runs.

With FREE_THREADED_PYTHON=COMMAND, the command of a free-threaded CPython with its headers, wheels for that version are made too. They hold the same library.

usage: release.py DIST [MACHINE...]        MACHINE: x86_64 or aarch64 (default: both)
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tools" / "release")]
FOLDER = ROOT / "build-release"
LARGEST = 21_000_000  # maximum size of a wheel in bytes
JOBS = int(os.environ.get("JOBS") or os.cpu_count() or 1)
THREADED = os.environ.get("FREE_THREADED_PYTHON", "")  # the command of a free-threaded CPython, or ""
# Licences that a wheel may contain. The GPL is excluded. The LGPL is allowed for FFmpeg, whose libraries users can replace, since they are loaded at run time.
LICENCES = {"Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-2-Clause", "BSD-3-Clause", "IJG", "MIT", "Zlib", "curl", "libpng-2.0"}
LICENCES |= {"LGPL-2.1-or-later"}
LGPL = "GNU LESSER GENERAL PUBLIC LICENSE\n                       Version 2.1"
COMMANDS = "cmake make meson nasm ninja patchelf perl pkg-config readelf sed strip tar".split()
# Compute capabilities. The last one is also built as PTX, for later GPUs. Ada (89) runs the code for 86; code made for 89 has the same bytes. The wheel for
# Arm also has code for Orin (87), which other GPUs of its generation cannot run, and code for server cards, Grace and Spark.
GPUS = {"x86_64": "75,80,86,90,120,100", "aarch64": "75,80,86,87,90,120,100"}


def python_headers(machine: str) -> Path:
    """Makes and returns a folder for -isystem. Debian's pyconfig.h includes a file of the target machine, which this folder provides as a link to this
    machine's file. That is enough, because the limited API needs only values that are the same on all 64-bit Linuxes."""
    folder = FOLDER / "include" / machine
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    own = Path("/usr/include") / (sysconfig.get_config_var("MULTIARCH") or "") / Path(sysconfig.get_path("include")).name
    if (own / "pyconfig.h").exists():
        (folder / f"{machine}-linux-gnu").mkdir()
        (folder / f"{machine}-linux-gnu" / own.name).symlink_to(own)
    return folder


def threaded_headers() -> str:
    """Returns the folder of headers of the given free-threaded CPython; "" if none was given. Ends the program if THREADED is not the
    command of such a CPython, or if its headers are missing."""
    if not THREADED:
        return ""
    asked = "import sysconfig; print(sysconfig.get_config_var('Py_GIL_DISABLED'), sysconfig.get_path('include'))"
    try:
        said = subprocess.run([THREADED, "-c", asked], capture_output=True, text=True).stdout.strip()
    except OSError as e:
        raise SystemExit(f"release: FREE_THREADED_PYTHON={THREADED} cannot be run: {e}") from None
    threaded, _, folder = said.partition(" ")
    if threaded != "1":
        raise SystemExit(
            f"release: FREE_THREADED_PYTHON={THREADED} is no free-threaded CPython: give one that was configured with --disable-gil"
        )
    if not all((Path(folder) / name).exists() for name in ("Python.h", "pyconfig.h")):  # a build folder of CPython has no pyconfig.h there
        raise SystemExit(f"release: FREE_THREADED_PYTHON={THREADED} has no headers in {folder}: install its development files")
    return folder


def simde() -> Path:
    """Returns the folder of SIMDe's headers, which implement AVX2's intrinsics with NEON. Ends the program if they are not installed."""
    folder = Path(sysconfig.get_path("purelib")) / "cmeel.prefix" / "include"
    if not (folder / "simde" / "x86" / "avx2.h").exists():
        raise SystemExit("release: no cmeel-simde in this Python: make release installs it")
    return folder


def machine_file(machine: str, toolchain: Path, prefixes: list[Path]) -> Path:
    """Writes a meson file for the toolchain and returns its path. It is always a cross file, so that meson does not look for libraries of this machine."""
    commands: dict[str, object] = (
        {"c": toolchain / "cc"} | {name: toolchain / name for name in ("ar", "ranlib", "nvcc")} | {"python3": sys.executable}
    )
    commands |= {
        "pkgconfig": "pkg-config",
        "pkg-config": "pkg-config",
    }  # the key is pkgconfig in meson before 1.3, and pkg-config in later versions
    compile_args = ["-isystem", str(python_headers(machine)), "-ffunction-sections", "-fdata-sections"]
    compile_args += ["-isystem", str(simde())] if machine == "aarch64" else []
    sections: dict[str, dict[str, object]] = {
        "binaries": commands,
        "properties": {"pkg_config_libdir": [str(p / "lib" / "pkgconfig") for p in prefixes]},
        "built-in options": {"c_args": compile_args, "c_link_args": ["-Wl,--gc-sections"], "prefer_static": True, "buildtype": "release"},
        "host_machine": {"system": "linux", "cpu_family": machine, "cpu": machine, "endian": "little"},
    }
    path = FOLDER / f"{machine}.ini"
    path.write_text("".join(f"[{name}]\n" + "".join(f"{k} = {value(v)}\n" for k, v in rows.items()) for name, rows in sections.items()))
    return path


def nvtx() -> tuple[str, Path]:
    """Returns the version of NVTX, whose headers mark ranges for profilers, and the path of its licence."""
    package = importlib.metadata.distribution("nvidia-nvtx-cu12")
    (text,) = (f for f in package.files or [] if f.name == "License.txt")
    return package.version, Path(str(text.locate()))


def value(x: object) -> str:
    """Formats a value in meson's syntax."""
    return str(x).lower() if isinstance(x, bool) else str(x) if isinstance(x, list) else f"'{x}'"


def build(machine: str, toolchain: Path, identity: str, prefixes: list[Path]) -> Path:
    """Builds the library, the command and the Python module. Returns the build folder."""
    from libraries import step

    nvcc = toolchain / "nvcc"
    nvcc.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/tools/release/nvcc.py" "$@"\n')
    nvcc.chmod(0o755)
    env = {"PATH": os.environ["PATH"], "HOME": str(FOLDER), "LC_ALL": "C"}
    options = ["-Dtests=disabled", "-Dcuda=enabled", f"-Dgpu_archs={GPUS[machine]}"]
    options += [f"-Dfree_threaded_headers={headers}"] if (headers := threaded_headers()) else []
    options += [f"-D{part}=enabled" for part in ("python", "curl", "ffmpeg", "webp", "libdeflate", "nvtx", "simde")]
    file = machine_file(machine, toolchain, prefixes)
    # The folder's name depends on the configuration, so an interrupted build can continue.
    made = "\n".join([identity, file.read_text(), *options])
    folder = FOLDER / f"build-{machine}-{hashlib.sha256(made.encode()).hexdigest()[:12]}"
    if not (folder / "build.ninja").exists():
        shutil.rmtree(folder, ignore_errors=True)
        step(f"release: configuring for {machine}", "meson", "setup", folder, "--cross-file", file, *options, cwd=ROOT, env=env)
    step(
        f"release: the library, its kernels and the Python module for {machine}", "ninja", "-C", folder, "-j", str(JOBS), cwd=ROOT, env=env
    )
    return folder


def check(wheel: Path) -> None:
    """Checks a wheel: the oldest glibc, the size, that its binaries are hardened and use CPython's stable ABI (which a free-threaded CPython lacks), that it
    exports no symbols of bundled libraries, and the licences. Ends the program if a check fails."""
    import toolchain

    if wheel.stat().st_size > LARGEST:
        raise SystemExit(f"release: {wheel.name} has {wheel.stat().st_size} bytes, more than {LARGEST}")
    shown = subprocess.run([sys.executable, "-m", "auditwheel", "show", wheel], capture_output=True, text=True, check=True).stdout
    print(shown.strip(), file=sys.stderr)
    needs = re.search(r'consistent with\s+the following platform tag: "manylinux_2_(\d+)_(x86_64|aarch64)"', " ".join(shown.split()))
    if not needs or f"2.{needs[1]}" != toolchain.GLIBC:
        raise SystemExit(f"release: {wheel.name} is not for glibc {toolchain.GLIBC}")
    for command in (["tools/check_hardening.py"], *([["-m", "abi3audit", "--strict"]] if "-abi3-" in wheel.name else [])):
        if subprocess.run([sys.executable, *command, wheel], stdout=sys.stderr, cwd=ROOT).returncode:
            raise SystemExit(f"release: {wheel.name} is not as it has to be")
    with tempfile.TemporaryDirectory() as scratch:
        shutil.unpack_archive(wheel, scratch, "zip")
        check_symbols(Path(scratch))
        check_licences(Path(scratch))


# For each beginning of the file name of a library in the wheel, a pattern for the beginnings of the symbols that it may export. FFmpeg's libraries also export
# the names of their symbols' versions.
OWN_SYMBOLS = {
    "libcurl-stoker": "curl_",
    "libav": r"(av|ff)|LIBAV\w+_STOKER_\d+$",
    "libswresample": r"swr|swri?_|LIBSWRESAMPLE_STOKER_\d+$",
}


def check_symbols(stage: Path) -> None:
    public = set((ROOT / "tools" / "symbols.txt").read_text().split()) | {"PyInit__core", "PyInit__batching"}
    for binary in stage.rglob("*.so*"):
        table = subprocess.run(["readelf", "-W", "--dyn-syms", binary], capture_output=True, text=True, check=True).stdout
        names = set(re.findall(r" (?:GLOBAL|WEAK) +DEFAULT +\d+ ([^\s@]+)", table))
        own = next((begin for library, begin in OWN_SYMBOLS.items() if binary.name.startswith(library)), None)
        strange = {n for n in names - public if not (own and re.match(own, n))}
        if strange:
            raise SystemExit(f"release: {binary.name} shows symbols that are not its own: {', '.join(sorted(strange)[:8])}")
        if str(ROOT).encode() in binary.read_bytes():
            raise SystemExit(f"release: {binary.name} names a folder of this machine")


def check_licences(stage: Path) -> None:
    (info,) = stage.glob("*.dist-info")
    named = re.findall(r"^License-Expression: (.*)$", (info / "METADATA").read_text(), re.M)
    strange = {term for row in named for term in row.split(" AND ")} - LICENCES
    if strange or not named:
        raise SystemExit(f"release: the wheel's licences are {' '.join(named) or 'unknown'}: {', '.join(sorted(strange))} may not be in it")
    for path in (info / "licenses").iterdir():
        text = path.read_text()
        lesser = (
            text.startswith(f"{path.stem}: LGPL-2.1-or-later\n") and LGPL in text
        )  # the LGPL's text mentions the GPL, because it lets a user choose the GPL instead
        if re.search(r"general\s+public\s+licen[cs]e", text, re.I) and not lesser:
            raise SystemExit(
                f"release: {path.name} speaks of the GNU General Public License: read it, and leave that library out or name another licence of it"
            )


def make_wheels(machine: str, dist: Path) -> list[Path]:
    """Makes the wheel for one kind of machine, and if a free-threaded CPython was given, a second one for that."""
    import libraries
    import toolchain
    import wheel_backend

    tools = toolchain.make(FOLDER, machine)
    builder = libraries.Builder(FOLDER, machine, tools, toolchain.identity(machine), JOBS)
    parts, prefixes = [], []
    for library in libraries.libraries().values():
        prefixes.append(builder.build(library))
        texts = sorted((prefixes[-1] / "licences").iterdir())
        parts.append(wheel_backend.Part(library.name, library.upstream, library.licence, texts, library.sha256))
    parts.append(wheel_backend.Part("zig-compiler-rt", importlib.metadata.version("ziglang"), "MIT", [toolchain.licence()]))
    version, text = nvtx()
    parts.append(wheel_backend.Part("nvtx", version, "Apache-2.0 WITH LLVM-exception", [text]))
    if machine == "aarch64":
        parts.append(
            wheel_backend.Part("simde", importlib.metadata.version("cmeel-simde"), "MIT", [ROOT / "tools" / "release" / "simde.txt"])
        )
    folder = build(machine, tools, builder.identity, prefixes)
    wheels = []
    for threaded in (False, True) if THREADED else (False,):
        with tempfile.TemporaryDirectory() as scratch:
            wheels.append(wheel_backend.make_wheel(Path(scratch), folder, dist, parts, libraries.shared(builder), threaded))
        check(wheels[-1])
    return wheels


def need(machines: Sequence[str]) -> None:
    """Ends the program if commands are missing or the given CPython has a GIL. Without this check, the release would fail after an hour."""
    missing = [name for name in COMMANDS if not shutil.which(name)]
    missing += [f"{m}-linux-gnu-strip" for m in machines if m != os.uname().machine and not shutil.which(f"{m}-linux-gnu-strip")]
    if missing:
        raise SystemExit(
            f"release: commands are missing: {', '.join(missing)}; tools/setup.sh build wheel release kernels installs them, as make release does"
        )
    threaded_headers()


def main() -> None:
    import toolchain
    import wheel_backend

    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(toolchain.MACHINES) or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    machines = sys.argv[2:] or toolchain.MACHINES
    need(machines)
    dist = Path(sys.argv[1]).resolve()
    FOLDER.mkdir(exist_ok=True)
    for machine in machines:
        print(*make_wheels(machine, dist), sep="\n")
    print(dist / wheel_backend.build_sdist(str(dist)))


if __name__ == "__main__":
    main()
