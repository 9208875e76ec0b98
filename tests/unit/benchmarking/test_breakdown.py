"""The table of where time goes names functions by their places, which must not go stale when code moves."""

import importlib
from functools import reduce

import pytest
from scripts import load_script

STEPS = load_script("benchmarks/fuse_breakdown.py").STEPS


@pytest.mark.parametrize("place", [place for places in STEPS.values() for place in places])
def test_every_step_of_the_breakdown_is_a_function_of_ours(place):
    module, _, path = place.partition(":")
    assert callable(reduce(getattr, path.split("."), importlib.import_module(module)))
