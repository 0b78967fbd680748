# SPDX-License-Identifier: Apache-2.0
"""Ranks of a process group for tests: processes of torchrun, or forks of one program that has imported torch, which gloo joins over loopback."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from support import run_script

# Runs torchrun on this machine, like --standalone but with an address, since a machine may not resolve its own name or "localhost". Without
# --log-dir, torchrun leaves an empty folder among the temporary files.
TORCHRUN = ["-m", "torch.distributed.run", "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0", "--local-addr=127.0.0.1"]

_PARENT = """
import datetime, json, os, socket, sys, tempfile, traceback
import torch, torch.distributed as dist
import stoker.loader
from stoker import Loader, transforms as T

WORLD, TIMEOUT = int(sys.argv[1]), float(sys.argv[2])
ARGS = sys.argv[4:]
SMALL = dict(transforms=[T.Resize((16, 16))], fields=("image", "label", "index"))

def gathered(value):
    values = [None] * WORLD
    dist.all_gather_object(values, value)
    return values

def error(kind, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except kind as e:
        return str(e)
    raise SystemExit("no error")

free = socket.socket()
free.bind(("127.0.0.1", 0))
port = free.getsockname()[1]
free.close()
outputs = [tempfile.TemporaryFile("w+") for _ in range(WORLD)]
children = []
for RANK in range(WORLD):
    child = os.fork()
    if child == 0:
        os.dup2(outputs[RANK].fileno(), 1)
        os.dup2(outputs[RANK].fileno(), 2)
        sys.stdout.reconfigure(line_buffering=True)  # no output is lost if the rank is killed or calls os._exit
        code = 1
        try:
            torch.set_num_threads(1)
            dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=RANK, world_size=WORLD,
                                    timeout=datetime.timedelta(seconds=TIMEOUT))
            exec(compile(sys.argv[3], "<rank>", "exec"))
            dist.barrier()
            code = 0
        except SystemExit as e:
            print(e)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    children.append(child)
codes = {}
for _ in children:
    pid, status = os.wait()
    codes[pid] = os.waitstatus_to_exitcode(status)
for f in outputs:
    f.seek(0)
print("RANKS" + json.dumps([[codes[pid], f.read()] for pid, f in zip(children, outputs)]))
"""


@dataclass
class Ended:
    code: int
    output: str


def launch(body: str, *args: object, world: int = 2, timeout: float = 30, **env: str) -> list[Ended]:
    """Runs the code `body` on each rank, with RANK, WORLD, ARGS and the helpers of _PARENT. Returns the exit code and the output of each rank, in their order.
    timeout: seconds that the process group waits for a rank."""
    import json

    done = run_script(_PARENT, str(world), str(timeout), textwrap.dedent(body), *map(str, args), timeout=100, **env)
    assert "RANKS" in done.stdout, f"{done.stdout}\n{done.stderr}"
    return [Ended(*r) for r in json.loads(done.stdout.split("RANKS", 1)[1])]


def all_well(ended: list[Ended]) -> None:
    assert [e.code for e in ended] == [0] * len(ended), "\n".join(f"rank {i}: {e.code}\n{e.output}" for i, e in enumerate(ended))
