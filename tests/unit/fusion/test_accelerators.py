"""Accelerators: which one is taken, that it is compared with the processor first, and what is told when it is not used.

The processor itself stands in for an accelerator, so that sessions, graphs and comparisons are the real ones.
"""

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import allfocus
from allfocus.errors import InputError
from allfocus.fusion import accelerators, inference
from allfocus.fusion.accelerators import (
    ACCELERATORS,
    Accelerator,
    DeviceVerdict,
    cache_file,
    compare,
    probe,
    remembered,
)
from allfocus.fusion.devices import DEVICES
from allfocus.fusion.inference import choose_device, fallback_notices, judge_device, run_level
from allfocus.network.contract import INPUTS
from allfocus.stack.options import describe_options

# Of onnxruntime, because the processor is named twice where it stands in for something else.
pytestmark = pytest.mark.filterwarnings("ignore:Duplicate provider")


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """Nothing is known, and nothing of it stays."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(inference, "_FALLBACKS", [])
    caches = (inference._session, inference._is_worth_it)
    for kept in caches:
        kept.cache_clear()
    yield
    for kept in caches:
        kept.cache_clear()


@pytest.fixture
def stand_in(monkeypatch):
    """Makes the processor an accelerator called openvino; what it says can be spoilt."""

    def install(spoil=None):
        one = Accelerator("openvino", ("CPUExecutionProvider",), "nothing", serial=True)
        monkeypatch.setitem(ACCELERATORS, "openvino", one)
        monkeypatch.setattr(accelerators, "nvidia_is_there", lambda: False)
        if spoil is None:
            return
        honest = inference._open_session

        def open_session(device, *arguments):
            session = honest(device, *arguments)
            return session if device == "cpu" else Spoilt(session, spoil)

        monkeypatch.setattr(inference, "_open_session", open_session)

    return install


class Spoilt:
    """A session whose logits are changed."""

    def __init__(self, session, spoil):
        self._session, self._spoil = session, spoil

    def run(self, names, inputs):
        logits, *others = self._session.run(names, inputs)
        return [self._spoil(logits), *others]


def always(monkeypatch, **values):
    """Makes every comparison come out with these times."""
    honest = inference.compare

    def timed(*arguments):
        found = honest(*arguments)
        return DeviceVerdict(found.problem, found.difference, **values)

    monkeypatch.setattr(inference, "compare", timed)


def test_the_names_of_devices_are_those_of_accelerators():
    assert list(DEVICES) == ["auto", "cpu", *ACCELERATORS]
    assert list(describe_options()["device"].choices) == list(DEVICES)


def test_an_accelerator_that_is_right_and_fast_is_taken_and_remembered(stand_in, monkeypatch):
    stand_in()
    always(monkeypatch, seconds=0.1, cpu_seconds=0.2)
    assert choose_device("auto") == "openvino"
    assert fallback_notices() == []
    assert cache_file().is_file()
    monkeypatch.setattr(inference, "compare", lambda *arguments: pytest.fail("it was compared before"))
    assert judge_device("openvino").known
    with pytest.raises(pytest.fail.Exception):
        judge_device("openvino", fresh=True)


def test_one_that_is_slower_is_not_taken_and_that_is_told_once(stand_in, monkeypatch, caplog):
    stand_in()
    always(monkeypatch, seconds=0.3, cpu_seconds=0.2)
    with caplog.at_level(logging.WARNING, "allfocus"):
        assert choose_device("auto") == "cpu"
    assert "slower than the processor: 0.30 s" in caplog.text
    assert len(fallback_notices()) == 1
    inference._is_worth_it.cache_clear()
    monkeypatch.setattr(inference, "_FALLBACKS", [])
    assert choose_device("auto") == "cpu"
    assert fallback_notices() == []


def test_a_gpu_of_nvidia_need_not_be_fast_on_small_stacks_but_right(monkeypatch):
    assert [one.name for one in ACCELERATORS.values() if not one.timed] == ["cuda"]
    verdicts = {"right": DeviceVerdict(seconds=0.3, cpu_seconds=0.2), "wrong": DeviceVerdict("differs")}
    for kind, expected in (("right", True), ("wrong", False)):
        monkeypatch.setattr(inference, "_judge", lambda *arguments, kind=kind, **options: verdicts[kind])
        assert judge_device("cuda").is_worth_it == judge_device("cuda-onnx").is_worth_it == expected
    assert not verdicts["right"].is_worth_it


def raise_error(logits):
    raise RuntimeError("out of everything\nand more")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda logits: -logits, "differ from those of the processor"),
        (lambda logits: logits * np.nan, "not all numbers"),
        (lambda logits: logits[..., ::2], "other shapes"),
        (raise_error, r"it failed \(out of everything\)"),
    ],
)
def test_one_that_is_wrong_gives_way_to_the_processor_even_when_asked_for(stand_in, small_stack, spoil, words):
    stand_in(spoil)
    assert choose_device("openvino") == "openvino"
    expected = allfocus.fuse(small_stack, device="cpu")
    found = allfocus.fuse(small_stack, device="openvino")
    np.testing.assert_array_equal(found.image, expected.image)
    assert fallback_notices()
    for sentence in fallback_notices():
        assert sentence.startswith("the network runs on the processor, not on openvino: ")
        assert re.search(words, sentence)


def test_small_differences_of_arithmetic_are_no_fault(stand_in):
    stand_in(lambda logits: logits + np.float32(1e-3) * np.sin(np.arange(logits.size)).reshape(logits.shape))
    assert judge_device("openvino").is_right


def test_the_run_that_fails_in_the_middle_is_finished_on_the_processor(stand_in, monkeypatch):
    stand_in()
    inputs = probe((32, 48))
    expected = run_level(inputs["frames"], None, device="cpu", threads=1)

    class Dying:
        def run(self, names, inputs):
            raise RuntimeError("no more memory on the device")

    honest = inference._session

    def session(device, *arguments, **options):
        return Dying() if device != "cpu" else honest(device, *arguments, **options)

    monkeypatch.setattr(inference, "_session", session)
    found = run_level(inputs["frames"], None, device="openvino", threads=1)
    np.testing.assert_array_equal(found.logits, expected.logits)
    assert fallback_notices() == [
        "a part was done on the processor, because openvino failed: no more memory on the device"
    ]


def test_the_notice_reaches_whoever_fuses_files(stand_in, stack_folder, tmp_path):
    stand_in(lambda logits: -logits)
    heard = []
    result = allfocus.fuse_files(stack_folder, tmp_path / "o.png", device="openvino", notice=heard.append)
    assert any("not on openvino" in sentence for sentence in heard)
    assert any("not on openvino" in sentence for sentence in result.notices)


def test_a_provider_that_is_not_installed_is_refused_before_any_work_with_the_package_that_has_it(
    stack_folder, tmp_path
):
    missing = next(one for one in ACCELERATORS.values() if one.provider is None and one.name != "cuda")
    heard = []
    with pytest.raises(InputError, match=missing.name) as caught:
        allfocus.fuse_files(stack_folder, tmp_path / "o.png", device=missing.name, notice=heard.append)
    assert caught.value.code == "no-gpu"
    assert caught.value.hints[0] == missing.install
    assert heard == []


@pytest.mark.parametrize("method", ["ips-paper"])
def test_a_method_of_torch_does_not_pretend_to_run_elsewhere(method):
    pytest.importorskip("torch", reason="needs the extra train")
    with pytest.raises(InputError, match="runs in torch") as caught:
        allfocus.fuse([np.zeros((8, 8), np.float32)] * 2, method=method, device="openvino")
    assert caught.value.code == "method-cannot"


@pytest.mark.parametrize("content", [b"no json", b"[]", b'{"a": 1}', b""])
def test_what_is_remembered_may_be_damaged(stand_in, content):
    stand_in()
    cache_file().parent.mkdir(parents=True, exist_ok=True)
    cache_file().write_bytes(content)
    assert judge_device("openvino").is_right


def test_a_folder_that_cannot_be_written_costs_only_time(stand_in, monkeypatch, tmp_path):
    stand_in()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert judge_device("openvino").is_right


def test_another_network_is_judged_by_itself():
    verdicts = iter([DeviceVerdict("wrong"), DeviceVerdict()])
    assert not remembered("openvino", "context", b"one", lambda: next(verdicts)).is_right
    assert remembered("openvino", "context", b"two", lambda: next(verdicts)).is_right
    assert not remembered("openvino", "context", b"one", lambda: next(verdicts)).is_right


def test_the_probe_tells_a_decision_from_its_opposite():
    """Otherwise a wrong accelerator would pass."""
    session = inference._open_session("cpu", 1, None, "whole")

    def run(sign):
        return lambda: lambda inputs: [sign * session.run(None, inputs)[0]]

    assert compare(run(1), run(1), INPUTS[:2]).difference == 0
    assert compare(run(-1), run(1), INPUTS[:2]).difference > 0.2


def test_doctor_tells_what_is_used_and_why(run_command, tmp_path):
    import json

    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    done = run_command("doctor", environment=environment)
    assert done.returncode == 0, done.stderr
    assert "cpu        used" in done.stdout or "works" in done.stdout
    found = json.loads(run_command("doctor", "--json", environment=environment).stdout)
    assert found["providers"] == onnxruntime.get_available_providers()
    assert sum(state["used"] for state in found["devices"].values()) == 1
    assert set(found["extras"]) >= {"web", "batch", "train", "raw"}
    for extra, state in found["extras"].items():
        assert state["install"] == f"pip install 'allfocus[{extra}]'"
        assert state["present"] == all(state["packages"].values())
    assert Path(found["places"]["accelerators"]).is_relative_to(tmp_path)


@pytest.mark.skipif("OpenVINOExecutionProvider" not in onnxruntime.get_available_providers(), reason="no OpenVINO here")
def test_openvino_gives_what_the_processor_gives(small_stack):
    expected, found = (allfocus.fuse(small_stack, device=device).image for device in ("cpu", "openvino"))
    assert fallback_notices() == []
    assert np.abs(found - expected).max() < 0.01


def test_python_hears_of_a_fall_back_without_asking(tmp_path):
    code = "from allfocus.fusion import inference; inference._tell('the network runs on the processor')"
    search = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(Path(allfocus.__file__).parents[1]))))
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": search},
        check=False,
    )
    assert done.stderr == "the network runs on the processor\n"
