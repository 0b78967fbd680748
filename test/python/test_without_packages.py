# SPDX-License-Identifier: Apache-2.0
"""If NumPy or PyTorch is not installed, functions that need it fail at once with advice to install it. Everything else works without them."""

import pytest
from support import run_script

# Hides the packages of argv[1] from Python, as if they were not installed.
HIDE = """
import importlib.machinery, sys

hidden = set(sys.argv[1].split(","))
find = importlib.machinery.PathFinder.find_spec

class Path(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, *rest):
        return None if name.partition(".")[0] in hidden else find(name, *rest)

sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Path
"""
ALL = "numpy,torch,torchvision,jax,cupy,PIL"

# A call of each function, and the beginning of its message.
WITHOUT_NUMPY = {
    "stoker.imread('x.jpg')": "imread makes NumPy arrays, and NumPy is not installed: pip install numpy",
    "stoker.imdecode(b'x')": "imdecode makes NumPy arrays, and NumPy is not installed: pip install numpy",
    "stoker.audioread('x.wav')": "audioread makes NumPy arrays, and NumPy is not installed: pip install numpy",
    "stoker.audiodecode(b'x')": "audiodecode makes NumPy arrays, and NumPy is not installed: pip install numpy",
    "stoker.AudioDecoder('x.wav')": "AudioDecoder makes NumPy arrays, and NumPy is not installed: pip install numpy",
    "stoker.VideoDecoder('x.mp4')": "VideoDecoder makes NumPy arrays, and NumPy is not installed: pip install numpy",
    "stoker.view(stoker.tensors.TensorListCPU)": "No module named 'numpy'; this part of Stoker needs it: pip install numpy",
}
WITHOUT_TORCH = {
    "stoker.Loader('.', 2)": "Loader makes torch tensors, and torch is not installed: pip install torch; without it, a Pipeline",
    "stoker.Loader.from_lerobot('x', 2)": "Loader.from_lerobot makes torch tensors, and torch is not installed: pip install torch",
    "stoker.DataLoader": "No module named 'torch'; this part of Stoker needs it: pip install torch",
    "stoker.batching.RaggedBatch": "No module named 'torch'; this part of Stoker needs it: pip install torch",
    "__import__('stoker.plugin.pytorch')": "No module named 'torch'; this part of Stoker needs it: pip install torch",
    "stoker.to_device([1], 'cuda')": "No module named 'torch'; this part of Stoker needs it: pip install torch",
}


@pytest.mark.parametrize(("calls", "hidden"), [(WITHOUT_NUMPY, ALL), (WITHOUT_TORCH, "torch,torchvision"), (WITHOUT_TORCH, ALL)])
def test_the_message_says_how_to_install(calls, hidden):
    lines = ["import stoker"]
    for call in calls:
        lines += ["try:", f"    {call}", f"    print({call!r}, 'ran')", "except ModuleNotFoundError as e:", "    print(e.name, str(e))"]
    done = run_script(HIDE + "\n".join(lines), hidden, timeout=120)
    assert done.returncode == 0, done.stderr
    for (call, message), said in zip(calls.items(), done.stdout.splitlines(), strict=True):
        name, _, text = said.partition(" ")
        assert name == ("numpy" if calls is WITHOUT_NUMPY else "torch") and text.startswith(message), (call, said)


def test_pipelines_run_without_packages(tmp_path):
    """A Pipeline needs neither NumPy nor torch. If another package does not find NumPy, Python's own message appears."""
    (tmp_path / "other.py").write_text("import numpy\n")
    program = """
from stoker import Pipeline, fn

with Pipeline(2, 1, None) as pipeline:
    pipeline.set_outputs(fn.random.uniform(range=[0, 1], shape=[3]))
print(pipeline.run()[0].shape())
sys.path.insert(0, sys.argv[2])
try:
    import other
except ModuleNotFoundError as e:
    print(e)
"""
    done = run_script(HIDE + program, ALL, str(tmp_path), timeout=120)
    assert done.stdout.splitlines() == ["[(3,), (3,)]", "No module named 'numpy'"], done.stdout + done.stderr
