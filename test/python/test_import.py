# SPDX-License-Identifier: Apache-2.0
"""The cost of importing stoker and of a first batch; names of modules and types; classes of errors; the symbols that the extension exports."""

import pickle
import subprocess

import pytest


@pytest.mark.essential
def test_import_brings_neither_torch_nor_numpy(script):
    done = script("""
        import sys
        before = set(sys.modules)
        import stoker, stoker.fn, stoker.types, stoker.math, stoker.transforms
        from stoker import pipeline_def, Pipeline, DataNode, Loader
        heavy = [m for m in sys.modules if m.partition(".")[0] in ("torch", "numpy", "PIL", "nvidia")]
        heavy += [m for m in ("concurrent.futures", "ctypes", "difflib", "hashlib", "logging", "random", "signal", "socket") if m in sys.modules and m not in before]
        print(heavy, len(set(sys.modules) - before))
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[] "), done.stdout


@pytest.mark.essential
def test_a_first_batch_needs_no_pictures_docs_or_other_operators(script, tmp_path):
    done = script(f"""
        import sys
        before = set(sys.modules)
        from pathlib import Path
        from stoker import fn, pipeline_def, _catalog
        Path({str(tmp_path / "a.bin")!r}).write_bytes(b"abc")

        @pipeline_def(batch_size=1, num_threads=1, device_id=None)
        def program():
            data, label = fn.readers.file(files=[{str(tmp_path / "a.bin")!r}])
            return data, label

        made = program()
        made.build()
        assert len(made.run()) == 2
        unused = ["decimal", "fractions", "textwrap", "zlib", "stoker._sheet", "stoker._html", "stoker._fetched"]
        print([m for m in unused if m in sys.modules and m not in before], _catalog._op.cache_info().currsize)
    """)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["[]", "1"], done.stdout


def test_texts_are_filled_as_textwrap_fills_them():
    import random
    import textwrap

    from stoker._signatures import filled

    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    for _ in range(500):
        words = [draw.choice("ab-c") * draw.randint(1, 12) for _ in range(draw.randint(0, 40))]
        text = " " * (draw.randint(0, 4) if words else 0) + " ".join(words)
        width, following = draw.randint(20, 60), " " * draw.randint(0, 4)
        expected = textwrap.fill(text, width, subsequent_indent=following, break_on_hyphens=False)
        assert filled(text, width, following) == expected, f"seed {seed}: {text!r}, {width}"


def test_modules_have_dalis_names():
    import stoker.backend
    import stoker.fn as fn
    import stoker.math
    import stoker.plugin.base_iterator
    import stoker.plugin.pytorch as torch_plugin
    import stoker.tensors
    import stoker.types as types
    from stoker import Pipeline, pipeline_def
    from stoker.data_node import DataNode
    from stoker.pipeline import Pipeline as Pipeline2
    from stoker.pipeline import pipeline_def as pipeline_def2

    assert Pipeline is Pipeline2 and pipeline_def is pipeline_def2
    assert stoker.DataNode is DataNode
    assert types.TensorListCPU is stoker.backend.TensorListCPU is stoker.tensors.TensorListCPU
    assert torch_plugin.LastBatchPolicy is stoker.plugin.base_iterator.LastBatchPolicy
    assert torch_plugin.GenericIterator is torch_plugin.DALIGenericIterator
    assert fn.image_decoder.__doc__ == fn.decoders.image.__doc__
    assert int(types.FLOAT) == 9 and int(types.INTERP_LANCZOS3) == 3 and int(types.YCbCr) == 3
    assert callable(pipeline_def)


def test_kinds_of_fields_are_in_the_package():
    import stoker.loader

    assert stoker.Video is stoker.loader.Video and {"Audio", "Video"} <= {*dir(stoker)}


def test_unknown_attribute_of_the_package():
    import stoker

    with pytest.raises(AttributeError, match="no attribute 'Piepline'"):
        stoker.Piepline  # noqa: B018


@pytest.mark.parametrize(
    ("given", "name"),
    [("float32", "FLOAT"), ("half", "FLOAT16"), (float, "FLOAT"), (int, "INT32"), (bool, "BOOL"), (9, "FLOAT"), ("bfloat16", "BFLOAT16")],
)
def test_types_from_what_users_write(given, name):
    from stoker import types

    assert types.to_dtype(given) is types.DALIDataType[name]


def test_types_from_torch_and_numpy():
    import numpy as np
    import torch
    from stoker import types

    assert types.to_dtype(torch.bfloat16) is types.BFLOAT16
    assert types.to_dtype(np.uint8) is types.to_dtype(np.dtype("uint8")) is types.UINT8
    assert types.to_numpy_type(types.FLOAT) is np.float32
    with pytest.raises(TypeError, match="complex128"):
        types.to_dtype("complex128")


def test_errors_are_what_python_calls_them():
    from stoker import errors

    for status, kind in [
        ("INVALID", ValueError),
        ("IO", OSError),
        ("NOT_FOUND", LookupError),
        ("NO_MEMORY", MemoryError),
        ("TIMEOUT", TimeoutError),
    ]:
        error = errors.from_status(status, "text", "op", "uri", 3, 1, -1, False)
        assert isinstance(error, kind) and isinstance(error, RuntimeError) and str(error) == "text; op" and error.sample == 3, status
        assert str(errors.from_status(status, "text; op", "op", "uri", 3, 1, -1, False)) == "text; op", "the operator is named twice"
        assert pickle.loads(pickle.dumps(error)).args == error.args


def test_the_extension_exports_only_its_modules():
    import stoker._core

    done = subprocess.run(["nm", "-D", "--defined-only", stoker._core.__file__], capture_output=True, text=True, check=True)
    names = [line.split()[-1] for line in done.stdout.splitlines()]
    assert "PyInit__core" in names and all(n.startswith("PyInit_") for n in names), names
