#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a .cu file into a C++ file for the emulated driver: kernels.py IN.cu OUT.cpp OUT.d COMPILER...

Takes the names of the kernels from the preprocessed text, because macros make some of them. Each kernel gets an entry in the linker section stk_kernels,
which driver.c reads.
"""

import re
import subprocess
import sys
from pathlib import Path

source, out, depfile, *compiler = sys.argv[1:]
path = Path(source).resolve()
text = subprocess.run(
    [*compiler, "-DSTK_LIST_KERNELS", "-include", "cuda_cpp.h", "-x", "c++", "-E", "-MD", "-MF", depfile, "-MT", out, str(path)],
    check=True,
    capture_output=True,
    text=True,
).stdout
names = re.findall(r"STK_LISTED_KERNEL\s+void\s+(\w+)\s*\(", text)
if not names:
    sys.exit(f"{source} has no kernels")
lines = ["/* Made by test/cuda/kernels.py. */", '#include "cuda_cpp.h"', f'#include "{path}"']
for name in names:
    lines.append(f'static const emulated_kernel describe_{name} = stk__kernel<{name}>::describe("{path.stem}", "{name}");')
    lines.append(f'__attribute__((section("stk_kernels"), used)) static const emulated_kernel *const entry_{name} = &describe_{name};')
Path(out).write_text("\n".join(lines) + "\n", encoding="utf-8")
