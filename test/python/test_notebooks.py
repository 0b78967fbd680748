# SPDX-License-Identifier: Apache-2.0
"""The notebooks run from top to bottom, each in a process of its own, and hold no outputs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import import_torchvision

NOTEBOOKS = Path(__file__).resolve().parents[2] / "examples" / "notebooks"
pytestmark = pytest.mark.timeout(300)

# Runs a notebook like Jupyter: one namespace, the source of each cell known to linecache, the last expression shown.
RUN = """
import ast, json, linecache, sys

if "torchvision" in sys.argv[1]:
    from support import import_torchvision
    import_torchvision()
space = {"__name__": "__main__"}
for number, cell in enumerate(json.load(open(sys.argv[1]))["cells"]):
    if cell["cell_type"] != "code":
        continue
    text, name = "".join(cell["source"]), f"<cell {number}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    tree = ast.parse(text)
    shown = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), space)
    if shown is not None:
        value = eval(compile(shown, name, "eval"), space)
        for form in ("_repr_html_", "_repr_png_"):
            if hasattr(value, form):
                assert getattr(value, form)()
                print(f"cell {number}: {form}")
"""


def test_there_are_notebooks():
    assert len(list(NOTEBOOKS.glob("*.ipynb"))) == 5


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda p: p.stem)
def test_a_notebook_runs(path, tmp_path):
    pytest.importorskip("torch")
    if "torchvision" in path.stem:
        import_torchvision()
    cells = json.loads(path.read_text())["cells"]
    assert all(not c.get("outputs") and c.get("execution_count") is None for c in cells)
    before = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    env = {
        **os.environ,
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([*before, str(Path(__file__).parent)]),
        "OMP_NUM_THREADS": "2",
    }
    done = subprocess.run([sys.executable, "-c", RUN, str(path)], capture_output=True, text=True, timeout=240, env=env, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "_repr_" in done.stdout or path.stem == "4_slow_run"
