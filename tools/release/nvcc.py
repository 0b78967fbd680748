#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stands in for nvcc 12.9 in src/gpu/images/meson.build, with NVIDIA's Python packages: NVRTC makes PTX, and ptxas makes machine code. There is no package of
nvcc 12 itself. Code from CUDA 12 runs on drivers from 525 on; code from CUDA 13 needs 580.

usage: nvcc.py --version
       nvcc.py -ptx -arch=compute_75 [flags] -MD -MF DEPENDENCIES -MT TARGET -o OUT.ptx IN.cu
       nvcc.py -cubin -arch=sm_75 -o OUT.cubin IN.ptx
       nvcc.py -M              prints the path of NVTX's header
       nvcc.py -fsyntax-only IN.cu...      checks whether NVRTC accepts the sources
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
KEPT = ROOT / "build-release" / "kernels"

# Replacements for the parts of system headers that kernels use, since NVRTC does not find those headers.
HEADERS = {
    **{f"{name}.h": "" for name in "assert float limits math stdarg stdbool stdio stdlib string".split()},
    "stddef.h": "#define offsetof(type, member) ((size_t) &((type *)0)->member)\n",
    "stdint.h": """
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long int64_t, intptr_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned uint32_t;
typedef unsigned long uint64_t, uintptr_t;
#define INT8_MIN (-128)
#define INT8_MAX 127
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define INT64_MIN (-INT64_MAX - 1)
#define INT64_MAX 9223372036854775807L
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295u
#define UINT64_MAX 18446744073709551615ul
#define SIZE_MAX UINT64_MAX
#define INT32_C(x) x
#define INT64_C(x) x##l
#define UINT32_C(x) x##u
#define UINT64_C(x) x##ul
""",
}
CONSTANTS = ["-DINFINITY=__int_as_float(0x7f800000)", "-DNAN=__int_as_float(0x7fc00000)"]
HEADERS = {name: "#pragma once\n" + text for name, text in HEADERS.items()}
# NVRTC refuses functions without __device__, which are host functions. -default-device makes them device functions; those that no kernel calls are dropped.
OPTIONS = [*CONSTANTS, "-default-device"]
FOLDERS = [f"-I{ROOT / 'include'}", f"-I{ROOT / 'src'}"]


def package(name: str) -> Path:
    spec = importlib.util.find_spec(f"nvidia.{name}")
    if not spec or not spec.submodule_search_locations:
        raise SystemExit(f"release: no nvidia.{name} in this Python: tools/setup.sh release kernels installs it")
    return Path(spec.submodule_search_locations[0])


def version(name: str) -> str:
    package(name)
    return importlib.metadata.version(f"nvidia-{name.replace('_', '-')}-cu12")


def texts(items: list[str]) -> ctypes.Array:
    return (ctypes.c_char_p * len(items))(*[i.encode() for i in items])


def compile_to_ptx(source: Path, options: list[str]) -> bytes:
    nvrtc = ctypes.CDLL(str(package("cuda_nvrtc") / "lib" / "libnvrtc.so.12"))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    names = texts(list(HEADERS))
    if nvrtc.nvrtcCreateProgram(
        ctypes.byref(program), source.read_bytes(), source.name.encode(), len(HEADERS), texts(list(HEADERS.values())), names
    ):
        raise SystemExit(f"release: NVRTC takes no program {source}")
    failed = nvrtc.nvrtcCompileProgram(program, len(options), texts(options))
    nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetProgramLog(program, log)
    if failed:
        raise SystemExit(f"{source}:\n{log.value.decode()}")
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    ptx = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx.value


def write(out: Path, data: bytes) -> None:
    out.write_bytes(data)


def assemble(source: Path, arch: str, out: Path) -> None:
    if subprocess.run([package("cuda_nvcc") / "bin" / "ptxas", "-O3", arch, "-o", out, source]).returncode:
        raise SystemExit(f"release: ptxas takes no {source}")


def kept(out: Path, parts: list[str], make: Callable[[], None]) -> None:
    """Makes `out`, or copies the result of an earlier call with equal inputs. parts: all inputs of `out` except this file's text."""
    key = hashlib.sha256("\0".join([Path(__file__).read_text(), *parts]).encode()).hexdigest()
    copy = KEPT / (key + out.suffix)
    if copy.exists():
        shutil.copyfile(copy, out)
        return
    make()
    KEPT.mkdir(parents=True, exist_ok=True)
    scratch = KEPT / f"{key}.{os.getpid()}"
    shutil.copyfile(out, scratch)
    scratch.rename(copy)


def included(source: Path, seen: dict[Path, str]) -> dict[Path, str]:
    """Returns a file of the project and all project files that it includes, with their texts."""
    seen[source] = source.read_text()
    for name in re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', seen[source], re.M):
        for folder in (source.parent, ROOT / "src", ROOT / "include"):
            path = (folder / name).resolve()
            if path.exists() and path not in seen:
                included(path, seen)
    return seen


def main() -> int:
    args = sys.argv[1:]
    if args == ["--version"]:
        release = version("cuda_nvrtc")
        print(f"NVRTC and ptxas: Cuda compilation tools, release {release.rpartition('.')[0]}, V{release}")
        return 0
    if "-M" in args:
        print(package("nvtx") / "include" / "nvtx3" / "nvToolsExt.h")
        return 0
    if args and args[0] == "-fsyntax-only":
        for name in args[1:]:
            source = Path(name).resolve()
            compile_to_ptx(source, [*OPTIONS, "-arch=compute_75", "-std=c++17", "-fdevice-syntax-only", *FOLDERS, f"-I{source.parent}"])
        return 0
    out, source = Path(args[args.index("-o") + 1]), Path(args[-1])
    if "-cubin" in args:
        arch = next(a for a in args if a.startswith("-arch="))
        kept(out, [version("cuda_nvcc"), arch, source.read_text()], lambda: assemble(source, arch, out))
        return 0
    options = [a for a in args if a.startswith(("-arch=", "-std=", "-fmad="))] + OPTIONS
    folders = [a for a in args if a.startswith("-I")] + [f"-I{source.parent}"]
    files = included(source.resolve(), {})
    parts = [version("cuda_nvrtc"), *options] + [f"{path.relative_to(ROOT)}\n{text}" for path, text in files.items()]
    kept(out, parts, lambda: write(out, compile_to_ptx(source, options + folders)))
    Path(args[args.index("-MF") + 1]).write_text(f"{out}: {' '.join(str(path) for path in files)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
