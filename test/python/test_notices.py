# SPDX-License-Identifier: Apache-2.0
"""Notices go through a logger, so that a program can silence or collect them."""

import pytest
from support import run_script

PROGRAM = """
    import logging
    {setup}
    from stoker import Pipeline, fn
    from stoker._where import notice
    pipe = Pipeline(1, 1, None)
    with pipe:
        pipe.set_outputs(fn.random.uniform(range=[0.0, 1.0]))
    pipe.run()
    notice("twice")
    notice("twice")
"""
UNKNOWN = "the environment variable STOKER_FUZE is set, and nothing reads it; did you mean STOKER_FUSE?"


@pytest.mark.parametrize(
    ("setup", "want"),
    [
        ("", f"stoker: {UNKNOWN}\nstoker: twice\n"),
        ("logging.getLogger('stoker').setLevel(logging.ERROR)", ""),
        ("logging.basicConfig(level='DEBUG')", f"stoker: {UNKNOWN}\nstoker: twice\n"),
        ("logging.getLogger('stoker').addHandler(logging.NullHandler()); logging.getLogger('stoker').propagate = False", ""),
        (
            "import sys; h = logging.StreamHandler(); h.setFormatter(logging.Formatter('%(name)s %(levelname)s %(message)s')); "
            "logging.getLogger('stoker').addHandler(h)",
            f"stoker WARNING {UNKNOWN}\nstoker WARNING twice\n",
        ),
    ],
)
def test_notices_are_logged(setup, want):
    assert run_script(PROGRAM.format(setup=setup), STOKER_FUZE="0").stderr == want


def test_a_line_of_the_data_loader_has_one_prefix():
    pytest.importorskip("torch")
    program = """
        from stoker import DataLoader
        from stoker._where import notice
        notice("before") if {before} else None
        next(iter(DataLoader([1, 2], 2)))
    """
    want = "stoker.DataLoader: all of it runs in Python, in this thread, as with torch's DataLoader: "
    for before in (False, True):
        text = run_script(program.format(before=before), STOKER_QUIET="0").stderr
        lines = [line for line in text.splitlines() if line != "stoker: before"]
        assert len(lines) == 1 and lines[0].startswith(want), text
