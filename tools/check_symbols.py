#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the symbols that the built library exports and needs.

- libstoker.so exports exactly tools/symbols.txt, which is exactly what include/stoker declares with STK_API;
- symbols shared between files are called stk_...;
- nothing is global: no writable or zeroed data except GLOBALS, and nothing that runs at load time;
- the library needs no other library than those in NEEDED (no CUDA runtime, no driver);
- files of src, of the command and of the Python module do not call each other in a circle;
- a file of src calls only its own layer and those before it, and a file of src/exec calls only files of src/exec that come after it in EXEC_ORDER. Includes
  cannot show this, because the headers of these files are shared.

usage: check_symbols.py BUILD_DIR [--update]
"""

import re
import subprocess
import sys
from pathlib import Path

from check_includes import listed

ROOT = Path(__file__).resolve().parent.parent
SYMBOLS = ROOT / "tools" / "symbols.txt"
NEEDED = {"libc.so", "libm.so", "libjpeg.so", "libspng.so", "libjansson.so", "libz.so", "libwebp.so", "libdeflate.so", "ld-linux-x86-64.so"}
# Writable globals that are permitted: (object, name), and the reason.
GLOBALS = {
    ("src_base_memory.c.o", "alloc_count"): "a counter for the tests: how often anything was allocated in the process",
    ("src_base_memory.c.o", "fault_at"): "fault injection, only in builds for tests",
    ("src_io_cache_disk.c.o", "open_disks"): "files with locks that a forked child closes: functions of pthread_atfork get no argument",
    ("nvtx.c.o", "nvtxGlobals_v3"): "NVTX's own: where the tool that listens has put its functions",
}

# Files of src/exec: each calls only files that come after it.
EXEC_ORDER = (
    "pipeline watch report state changes deliver resident schedule chain drain held_batches open resident_run engine batch device fetch context "
    "describe decode_side feed fetch_ahead pin_workers submit device_memory device_trace by_frame pass call failures frames fetch_read inflight "
    "survey orders"
).split()
# Calls that may break the order: (caller, called file, function). With them, files below the engine notify it that something has arrived.
UP = {
    ("exec_fetch_read", "exec_engine", "stk__on_bytes"),
    ("exec_feed", "exec_engine", "stk__on_fed"),
    ("exec_device", "exec_engine", "stk__on_gpu_done"),
}
DECLARATION = re.compile(r"^STK_API\b[^;{]*?\b(stk_\w+)\s*\(", re.M)
WRITABLE = re.compile(r"^\.(t?data|t?bss)(?!\.rel\.ro)")  # constant tables of pointers go to .data.rel.ro


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(library: Path) -> set[str]:
    lines = output("nm", "-D", "--defined-only", str(library)).splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if line.split()[-2] != "A"}


def declared() -> set[str]:
    found = set()
    for header in (ROOT / "include" / "stoker").glob("*.h"):
        found |= set(DECLARATION.findall(header.read_text()))
    return found


def check_exports(library: Path, listed: set[str]) -> list[str]:
    have, wanted = exported(library), declared()
    faults = [f"exported but not in tools/symbols.txt: {s}" for s in sorted(have - listed)]
    faults += [f"in tools/symbols.txt but not exported: {s}" for s in sorted(listed - have)]
    faults += [f"declared with STK_API but not exported: {s}" for s in sorted(wanted - have)]
    faults += [f"exported but in no public header: {s}" for s in sorted(have - wanted)]
    return faults


def check_needed(library: Path) -> list[str]:
    names = re.findall(r"\(NEEDED\).*\[(.*?)\]", output("readelf", "-d", str(library)))
    return [f"libstoker needs {n}" for n in names if n.split(".so")[0] + ".so" not in NEEDED]


def check_objects(archive: Path) -> list[str]:
    """Returns a message for each fault of an object file: a symbol for other files that is not called stk_..., writable data outside of GLOBALS, or a
    constructor."""
    faults, member = [], "?"
    for line in output("objdump", "-t", str(archive)).splitlines():
        head = re.match(r"^(\S+):\s+file format", line)
        if head:
            member = Path(head.group(1)).name
            continue
        parts = re.match(r"^[0-9a-f]+ (.{7}) (\S+)\s+([0-9a-f]+)(?: \.hidden)? (\S+)$", line)
        if not parts:
            continue
        flags, section, size, name = parts.groups()
        if "d" in flags or section in ("*UND*", "*ABS*"):
            continue
        if "g" in flags and not name.startswith("stk_"):
            faults.append(f"{member}: {name} is shared between files but not called stk_...")
        writable = int(size, 16) and (WRITABLE.match(section) or section == "*COM*")
        if writable and (member, name) not in GLOBALS:
            faults.append(f"{member}: {name} is writable global storage ({section})")
    for line in output("objdump", "-h", str(archive)).splitlines():
        if re.search(r"\s\.(init_array|ctors|fini_array|dtors)\b", line):
            faults.append(f"something runs at load time: {line.split()[1]}")
    return faults


def calls_between_files(objects: list[Path]) -> dict[tuple[str, str], set[str]]:
    """Returns, for each pair (a, b) of files, the symbols of b that a uses. Leaves out the calls in UP. Files are named like their objects."""
    owner: dict[str, str] = {}
    needs: list[tuple[str, str]] = []
    for path in sorted(objects):
        name = path.name.removeprefix(".._").removeprefix("src_").removesuffix(".c.o")
        for line in output("nm", str(path)).splitlines():
            kind, symbol = line.split()[-2:]
            if kind == "U":
                needs.append((name, symbol))
            elif kind in "TDRB":
                owner[symbol] = name
    calls: dict[tuple[str, str], set[str]] = {}
    for name, symbol in needs:
        if owner.get(symbol, name) != name and (name, owner[symbol], symbol) not in UP:
            calls.setdefault((name, owner[symbol]), set()).add(symbol)
    return calls


def check_circles(calls: dict[tuple[str, str], set[str]]) -> list[str]:
    """Removes files that call no other file, or that no other file calls, until there are no such files. Reports the remaining calls: they are in a circle, or
    connect two circles."""
    left = set(calls)
    while True:
        callers, called = {a for a, _ in left}, {b for _, b in left}
        ends = (callers ^ called) & (callers | called)
        if not ends:
            break
        left = {(a, b) for a, b in left if a not in ends and b not in ends}
    return [f"in a circle of files: {a} calls {b} ({', '.join(sorted(calls[a, b]))})" for a, b in sorted(left)]


def check_layers(calls: dict[tuple[str, str], set[str]]) -> list[str]:
    """Checks that no file of src calls a later layer. Includes cannot show this for public functions, since public headers belong to no layer."""
    order = {name: i for i, name in enumerate(listed(ROOT / "meson.build", "layers"))}
    up = sorted((a, b) for a, b in calls if order[a.split("_")[0]] < order[b.split("_")[0]])
    return [f"{a} calls {b}, of a layer above it ({', '.join(sorted(calls[a, b]))})" for a, b in up]


def check_exec(calls: dict[tuple[str, str], set[str]]) -> list[str]:
    """Checks that each file of src/exec calls only files that come after it in EXEC_ORDER."""
    place = {f"exec_{name}": i for i, name in enumerate(EXEC_ORDER)}
    files = {f for pair in calls for f in pair if f.startswith("exec_")}
    unknown = sorted(files - set(place))
    if unknown:
        return [f"{n}.c has no place in EXEC_ORDER (tools/check_symbols.py)" for n in unknown]
    back = sorted((a, b) for a, b in calls if a in place and b in place and place[a] > place[b])
    return [f"{a}.c calls {b}.c, which is before it (EXEC_ORDER in tools/check_symbols.py)" for a, b in back]


def main() -> int:
    build = Path(sys.argv[1])
    library = build / "libstoker.so"
    if "--update" in sys.argv:
        SYMBOLS.write_text("\n".join(sorted(exported(library))) + "\n")
        print(f"wrote {SYMBOLS.relative_to(ROOT)}")
        return 0
    listed = set(SYMBOLS.read_text().split())
    faults = check_exports(library, listed) + check_needed(library)
    for archive in sorted(build.glob("libstoker-*.a")):
        faults += check_objects(archive)
    calls = calls_between_files([p for library in ("internal", "avx2") for p in (build / f"libstoker-{library}.a.p").glob("src_*.c.o")])
    faults += check_circles(calls) + check_layers(calls) + check_exec(calls)
    for program in ("cli/stoker.p", "python/stoker/_core.abi3.so.p"):
        faults += check_circles(calls_between_files(list((build / program).glob("*.c.o"))))
    print("\n".join(faults) if faults else f"symbols: {len(listed)} exported, as listed and declared; nothing global")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
