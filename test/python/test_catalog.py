# SPDX-License-Identifier: Apache-2.0
"""Functions of operators: signatures, documentation, stubs, and errors for wrong names and types."""

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import stoker
from stoker import _core, fn, ops, pipeline_def, types
from stoker._catalog import operators
from stoker.errors import InvalidArgumentError
from stoker.tools.stubs import stubs

ROOT = Path(__file__).resolve().parents[2]
VISIBLE = sorted(name for name, op in operators().items() if not op.hidden and name not in ("external_source", "python_function"))


def lookup(name):
    found = fn
    for part in name.split("."):
        found = getattr(found, part)
    return found


@pytest.mark.parametrize("name", VISIBLE)
def test_every_operator_has_a_signature_and_a_docstring(name):
    function, op = lookup(name), operators()[name]
    signature = inspect.signature(function)
    for arg in op.args:
        assert signature.parameters[arg.name].kind is inspect.Parameter.KEYWORD_ONLY
        assert arg.doc, f"{name}: argument {arg.name} has no documentation"
        assert arg.name in function.__doc__
    assert {"device", "name"} <= set(signature.parameters)
    summary = function.__doc__.split("\n\n")[0]
    assert summary.endswith("."), summary
    assert function.__name__ == name.rpartition(".")[2]


def test_stubs_are_python_and_complete():
    text = stubs()
    trees = {name: ast.parse(body) for name, body in text.items()}
    defined = {}
    for name, tree in trees.items():
        if name.startswith("ops/"):
            continue
        group = name.removeprefix("fn/").removesuffix("__init__.pyi").replace("/", ".")
        defined.update({group + node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)})
    for name in VISIBLE:
        given = {a.arg for a in defined[name].args.kwonlyargs}
        assert {a.name for a in operators()[name].args} <= given
    assert "class File(Operator)" in text["ops/readers/__init__.pyi"] and "import readers as readers" in text["fn/__init__.pyi"]


def test_legacy_names():
    for op in operators().values():
        if op.alias:
            assert lookup(op.alias).__doc__ == lookup(op.name).__doc__


def test_import_of_groups():
    import stoker.fn.readers as readers
    from stoker.fn import decoders

    assert readers.file is fn.readers.file
    assert decoders.image is fn.decoders.image


def test_groups_list_what_they_have():
    assert "video_resize" in dir(fn.readers) and "inputs" in dir(fn.experimental) and dir(fn.experimental.inputs) == ["video"]
    assert "VideoResize" in dir(ops.readers)
    for name in re.findall(r'"([\w.]+)"', (ROOT / "src/op/dali_names.h").read_text()):
        group, _, last = name.rpartition(".")
        if group in ("", *fn._family.groups) and hasattr(fn._family.groups.get(group, fn), last):
            assert last in dir(fn._family.groups.get(group, fn)), name
            known = name in operators() or any(op.alias == name for op in operators().values())
            assert known or "not in Stoker" not in _core.explain_missing(name), name  # `stoker ops NAME` prints it


def build(define, **kwargs):
    return pipeline_def(batch_size=2, num_threads=1, device_id=None, **kwargs)(define)()


def test_an_unknown_operator_suggests_the_nearest():
    with pytest.raises(AttributeError, match="resize"):
        fn.resise  # noqa: B018
    with pytest.raises(AttributeError):
        fn.readers.flie  # noqa: B018


@pytest.mark.essential
def test_an_unknown_argument_suggests_the_nearest_and_names_the_line(tree):
    def define():
        data, _ = fn.readers.file(file_root=str(tree))
        return fn.resize(fn.decoders.image(data), siez=20)

    with pytest.raises(TypeError, match=r"resize at test_catalog.py:\d+: there is no argument 'siez'; did you mean 'size'\?") as caught:
        build(define)
    assert isinstance(caught.value, stoker.StokerError)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"resize_x": "wide"}, "argument 'resize_x' takes a number, not 'wide'"),
        ({"interp_type": 17}, "argument 'interp_type' takes one of"),
        ({"antialias": "yes"}, "argument 'antialias' takes True or False"),
        ({"dtype": "complex"}, "'complex' is not a type"),
        ({"mode": "sideways", "size": 10}, "sideways"),
        ({"size": "ten"}, "argument 'size' takes a list of numbers"),
        ({"size": {50, 30}}, "argument 'size' takes a list of numbers, not a set, whose order means nothing: {"),
        ({"size": frozenset([50, 30])}, "argument 'size' takes a list of numbers, not a frozenset"),
        ({"size": {50: "h", 30: "w"}}, "argument 'size' takes a list of numbers, not a dict, "),
        ({"size": {50: "h", 30: "w"}.keys()}, "argument 'size' takes a list of numbers, not a dict_keys, "),
        ({"size": {"h": 50, "w": 30}.values()}, "argument 'size' takes a list of numbers, not a dict_values, "),
        ({"size": [{50, 30}]}, "argument 'size' takes a list of numbers, not {"),
        ({"size": [[50], [30, 20]]}, r"argument 'size' takes one list or rows of equal length, not \[\[50\], \[30, 20\]\]"),
        ({"size": [[50], 30]}, "argument 'size' takes one list or rows of equal length"),
        ({"size": 10**400}, "argument 'size': 1000+... is beyond floating-point numbers"),
    ],
)
def test_wrong_values_name_operator_argument_and_line(tree, arguments, match):
    def define():
        data, _ = fn.readers.file(file_root=str(tree))
        return fn.resize(fn.decoders.image(data), **arguments)

    with pytest.raises((TypeError, ValueError), match=match) as caught:
        build(define)
    text = str(caught.value) + getattr(caught.value, "op", "")
    assert "resize" in text and "test_catalog.py:" in text


@pytest.mark.parametrize(("number", "shown"), [(2**63, "9223372036854775808"), (-(2**70), "-1180591620717411303424"), (1e30, r"1e\+30")])
def test_whole_numbers_end_at_64_bits(tree, number, shown):
    for name, value in ("vertical", number), ("horizontal", [number]):

        def define(name=name, value=value):
            data, _ = fn.readers.file(file_root=str(tree))
            return fn.flip(fn.decoders.image(data), **{name: value})

        with pytest.raises(TypeError, match=f"flip at test_catalog.py:.* argument '{name}': {shown} is beyond whole numbers of 64 bits"):
            build(define)
    with pytest.raises(TypeError, match=r"reductions.sum at .*argument 'axes': "):
        build(lambda: fn.reductions.sum(fn.readers.file(file_root=str(tree))[0], axes=[0, number]))


def test_a_node_where_one_value_is_for_all(tree):
    def define():
        data, _ = fn.readers.file(file_root=str(tree))
        return fn.resize(fn.decoders.image(data), size=20, antialias=fn.random.coin_flip())

    with pytest.raises(TypeError, match="'antialias' is the same for all samples"):
        build(define)


def test_positional_arguments_are_inputs(tree):
    def define():
        data, _ = fn.readers.file(file_root=str(tree))
        return fn.flip(fn.decoders.image(data), 1, 0)

    with pytest.raises(TypeError, match="takes 1 inputs, 3 were given"):
        build(define)


def test_two_operators_of_one_name():
    def define():
        a = fn.random.coin_flip(name="flip")
        return a, fn.random.coin_flip(name="flip")

    with pytest.raises(InvalidArgumentError, match="already an operator named 'flip'"):
        build(define)


def test_numpy_values_are_taken(tree):
    import numpy as np

    def define():
        data, _ = fn.readers.file(file_root=str(tree))
        image = fn.resize(fn.decoders.image(data), size=np.array([20, 30]), interp_type=types.INTERP_CUBIC)
        return fn.crop_mirror_normalize(image, mean=np.float32([1, 2, 3]), std=np.ones(3), mirror=np.int64(1))

    pipe = build(define)
    assert pipe.run()[0].as_array().shape == (2, 3, 20, 30)


def test_the_reference_of_operators_is_current():
    """doc/operators.md is what `make docs` writes now."""
    root = Path(__file__).resolve().parents[2]
    command = Path(os.environ.get("STOKER_BUILD", "build")).resolve() / "cli" / "stoker"
    tables = subprocess.run([command, "ops", "--json"], capture_output=True, check=True).stdout
    made = subprocess.run([sys.executable, root / "tools" / "operator_pages.py"], input=tables, capture_output=True, check=True).stdout
    assert made.decode() == (root / "doc" / "operators.md").read_text(), "run `make docs`"


def test_the_table_of_operators_is_current():
    """doc/operator-table.md is what `make docs` writes now: it lists all types that the library accepts, and no others."""
    pytest.importorskip("numpy")
    root = Path(__file__).resolve().parents[2]
    command = Path(os.environ.get("STOKER_BUILD", "build")).resolve() / "cli" / "stoker"
    tables = subprocess.run([command, "ops", "--json"], capture_output=True, check=True, timeout=60).stdout
    env = {**os.environ, "PYTHONPATH": str(Path(os.path.abspath(stoker.__file__)).parents[1])}
    made = subprocess.run([sys.executable, root / "tools/operator_table.py"], input=tables, capture_output=True, timeout=110, env=env)
    assert made.returncode == 0, made.stderr.decode()
    written = (root / "doc/operator-table.md").read_text().splitlines()
    differ = sorted({*made.stdout.decode().splitlines()} ^ {*written})
    assert not differ, f"run make docs: {differ}"
    rows = {row.split("]")[0][3:]: row for row in written if row.startswith("| [")}
    assert "| uint8, float32 |" in rows["water"] and "| NVDEC |" in rows["decoders.video"] and "| yes |  |" in rows["shapes"]
