# SPDX-License-Identifier: Apache-2.0
"""The table of settings, and the results that depend on it: serialize(), the documentation and the signatures."""

import inspect
import json
import pydoc
import time

import numpy as np
import pytest
from stoker import Loader, Pipeline, fn, types
from stoker._settings import SETTINGS, ByName, PassedOn, Settings, table

KEPT = [name for name, setting in SETTINGS.items() if setting.kept]
# Values for settings for which neither `not default` nor 7 is valid. Settings about outputs describe the outputs of the pipeline that make() makes.
OTHERS = {
    "device_id": 0,
    "on_error": "replace",
    "decode": "cores",
    "py_start_method": "spawn",
    "max_errors": 0.25,
    "timeout": 2.5,
    "memory_limit": 2**20,
    "output_dtype": [types.INT32, None],
    "output_ndim": (1, 1),
    "output_layout": [None, ""],
}


def other(name):
    """Returns a value that differs from the setting's default."""
    default = SETTINGS[name].default
    return OTHERS.get(name, not default if isinstance(default, bool) else 7)


def make(**given):
    pipe = Pipeline(**{"batch_size": 3, "num_threads": 1, "device_id": None, "seed": 5, **given})
    with pipe:
        pipe.set_outputs(types.Constant([1, 2], dtype=types.INT32, shape=[2]), fn.random.uniform(range=[0.0, 1.0], shape=[4]))
    return pipe


def values(settings):
    return {name: getattr(settings, name) for name in KEPT}


def test_settings_of_one_run_are_not_kept():
    meant = {name for name, setting in SETTINGS.items() if setting.meant}
    assert meant - set(KEPT) == {"checkpoint", "trace", "max_batch_size", "py_callback_pickler", "storage"}


def needed(name):
    """Returns the settings without which this one is refused."""
    return {"on_error": "skip"} if name == "max_errors" else {}


@pytest.mark.parametrize("name", KEPT)
def test_a_setting_survives_json(name):
    given = {"batch_size": 3, "seed": 5, **needed(name), name: other(name)}
    settings = Settings(given)
    assert getattr(settings, name) != getattr(Settings({"batch_size": 3, "seed": 5}), name), "the example is the default"
    again = Settings(Settings.from_json(json.loads(json.dumps(settings.as_json()))))
    assert again.as_json() == json.loads(json.dumps(settings.as_json()))
    assert again.core_arguments() == settings.core_arguments()


@pytest.mark.parametrize("name", [n for n in KEPT if n != "device_id"])
def test_a_setting_survives_serialize(name):
    pipe = make(**{**needed(name), name: other(name)})
    again = Pipeline.deserialize(pipe.serialize())
    want, got = values(pipe._settings), values(again._settings)
    assert json.dumps(got) == json.dumps(want)
    assert got[name] != SETTINGS[name].check(name, SETTINGS[name].default) if name != "batch_size" else got[name] == 7
    assert again.serialize() == pipe.serialize()
    assert again._started()._timeout == pipe._started()._timeout
    assert len(again.run()[0]) == pipe.batch_size


def test_all_settings_survive_together_and_arguments_go_before_them():
    given = {name: other(name) for name in KEPT if name != "device_id"}
    data = make(**given).serialize()
    assert json.dumps(values(Pipeline.deserialize(data)._settings)) == json.dumps(values(make(**given)._settings))
    assert Pipeline.deserialize(data, timeout=None, strict=True)._settings.timeout is None


def test_the_documentation_shows_each_setting():
    shown = pydoc.plain(pydoc.render_doc(Pipeline))
    for name, setting in SETTINGS.items():
        assert name in shown
        if setting.meant:
            assert setting.doc and f"{name}: {setting.doc[:30]}" in shown, name
    assert set(SETTINGS) <= set(inspect.signature(Pipeline).parameters)
    for name in table(PassedOn):
        assert name in Loader.__doc__ and name in inspect.signature(Loader).parameters
    assert "{settings}" not in Pipeline.__doc__ + Loader.__doc__


def test_defaults_are_those_of_the_signature():
    parameters = inspect.signature(Pipeline).parameters
    assert {n: parameters[n].default for n in SETTINGS} == {n: s.default for n, s in SETTINGS.items()}
    spelled = {n: parameters[n].default for n in table(ByName) if SETTINGS[n].meant and n != "max_batch_size"}
    pipe = make(**spelled)
    assert pipe._settings.core_arguments() == make()._settings.core_arguments()


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"batch_size": 2**40}, "batch_size is at most 1048576, not 1099511627776"),
        ({"batch_size": True}, "batch_size is a whole number, not True"),
        ({"read_requests": 2**31 - 1}, "read_requests is at most 1048576, not 2147483647"),
        ({"read_requests": False}, "read_requests is a whole number, not False"),
        ({"max_batches": ""}, "max_batches is a whole number, not ''"),
        ({"prefetch_queue_depth": {"cpu_size": 2**31}}, r"prefetch_queue_depth\['cpu_size'\] is at most 1024"),
        ({"read_bytes": "1G"}, "read_bytes is a number of bytes, .*, not '1G'; G could be GB .* or GiB"),
        ({"read_bytes": "8 EB"}, "read_bytes is a number of bytes, .*, not '8 EB'"),
        ({"held_limit": "9000000000000GB"}, "held_limit is at most 9223372036854775807"),
        ({"memory_limit": 1.5}, "memory_limit is a whole number, not 1.5"),
        ({"timeout": float("nan")}, "timeout is at least 0, not nan"),
        ({"timeout": -1e300}, "timeout is at least 0"),
        ({"timeout": -(10**400)}, "timeout is at least 0"),
        ({"timeout": "never"}, "timeout is a number, not 'never'"),
        ({"timeout": True}, "timeout is a number, not True"),
        ({"timeout": np.True_}, "timeout is a number, not .*True"),
        ({"max_errors": np.True_}, "max_errors is a number, not .*True"),
        ({"strict": 2}, "strict is True or False, not 2"),
        ({"strict": "no"}, "strict is True or False, not 'no'"),
        ({"strict": []}, r"strict is True or False, not \[\]"),
        ({"strict": np.ones(2)}, r"strict is True or False, not array\(\[1"),
        ({"num_threads": 2**40}, "num_threads is at most"),
        ({"device_id": 2**40}, "device_id is at most"),
        ({"prefetch_queue_depth": 2**40}, "prefetch_queue_depth is at most"),
        ({"read_requests": 2**40}, "read_requests is at most"),
        ({"memory_limit": 2**63}, "memory_limit is at most"),
        ({"seed": 1.5}, "seed is a whole number, not 1.5"),
        ({"seed": "1"}, "seed is a whole number, not '1'"),
        ({"seed": 2**64}, "seed is at most 18446744073709551615"),
        ({"max_errors": 1.5}, "max_errors is a share of an epoch, below 1, or a whole number of samples, not 1.5"),
        ({"max_errors": 10**400}, "max_errors is a share"),
    ],
)
def test_values_that_do_not_fit_are_refused_by_name(given, match):
    with pytest.raises((TypeError, ValueError), match=f"Pipeline: {match}"):
        make(**given)


@pytest.mark.parametrize("timeout", [None, float("inf"), 1e300, 2.0**63, 2**63, 10**400, 2**31])
def test_a_time_that_is_as_good_as_none_waits(timeout):
    """A timeout that is huge, infinite or None waits, also after serialize(). It must not overflow into a time in the past, which would end the wait at
    once."""
    pipe = Pipeline(batch_size=1, num_threads=1, device_id=None, timeout=timeout)
    with pipe:
        pipe.set_outputs(fn.external_source(lambda: time.sleep(0.3) or [0], batch=True))
    again = Pipeline.deserialize(json.dumps(json.loads(make(timeout=timeout).serialize(), parse_constant=pytest.fail)))
    assert len(pipe.run()[0]) == 1
    assert again._settings.timeout == pipe._settings.timeout


def test_sizes_are_numbers_or_texts_with_a_unit():
    for given, want in {
        "1GB": 10**9,
        "1.5 GiB": 3 * 2**29,
        "200mb": 2 * 10**8,
        2e9: 2 * 10**9,
        "7": 7,
        "8388607TiB": 8388607 * 2**40,
    }.items():
        for name in ("memory_limit", "gpu_memory_limit", "held_limit", "read_bytes"):
            assert getattr(Settings({"batch_size": 1, name: given}), name) == want


def test_values_at_the_bounds_are_taken():
    for given in ({"seed": 2**64 - 1}, {"seed": -(2**63)}, {"max_errors": 2.0}, {"max_errors": 1}, {"memory_limit": 2**40}):
        make(**needed(*given), **given).build()
