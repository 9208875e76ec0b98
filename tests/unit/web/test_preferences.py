"""What the studio remembers: options of the last time, and presets."""

import json
from typing import Any

import pytest

from allfocus.stack.options import FuseOptions
from allfocus.stack.presets import PRESETS
from allfocus.web.preferences import Preferences
from allfocus.web.refusals import Refusal


def test_options_and_presets_outlast_a_restart(tmp_path):
    kept = Preferences(tmp_path)
    assert kept.show()["options"] is None
    kept.remember(FuseOptions(method="dsift", align=False))
    kept.keep_preset("My lab", FuseOptions(prefer="far"))
    again = Preferences(tmp_path).show()
    assert (again["options"]["method"], again["options"]["align"]) == ("dsift", False)
    own = [preset for preset in again["presets"] if preset["own"]]
    assert [(preset["name"], preset["options"]["prefer"]) for preset in own] == [("My lab", "far")]
    Preferences(tmp_path).delete_preset("My lab")
    assert not any(preset["own"] for preset in Preferences(tmp_path).show()["presets"])


def test_the_presets_that_come_along_can_be_fused_with_and_not_replaced(tmp_path):
    assert list(PRESETS) == ["macro", "microscope", "landscape"]
    assert all(preset.options != FuseOptions() for preset in PRESETS.values())
    kept = Preferences(tmp_path)
    for name in ("macro", "Landscape", "..", "\x00"):
        with pytest.raises(Refusal):
            kept.keep_preset(name, FuseOptions())
    with pytest.raises(Refusal):
        kept.delete_preset("macro")


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"options": 7, "presets": {}}', '{"options": {"align": "evil"}, "presets": {}}', "[" * 99999,
     '{"options": null, "presets": {"x": {"prefer": "sideways"}}}'],
)  # fmt: skip
def test_a_damaged_file_is_passed_over(tmp_path, content, caplog):
    (tmp_path / "preferences.json").write_text(content)
    assert not any(preset["own"] for preset in Preferences(tmp_path).show()["presets"])
    assert "cannot be used" in caplog.text


def test_options_of_another_version_are_left_out(tmp_path):
    values = {"method": "dsift", "of the future": 1}
    (tmp_path / "preferences.json").write_text(json.dumps({"options": values, "presets": {}}))
    assert Preferences(tmp_path).show()["options"]["method"] == "dsift"


def test_presets_are_kept_over_http(client: Any) -> None:
    assert client.put("/api/presets/mine", json={"method": "dsift"}).status_code == 200
    assert client.put("/api/presets/macro", json={}).status_code == 409
    assert client.put("/api/presets/mine", json={"evil": 1}).status_code == 400
    assert client.put("/api/preferences/options", json={"align": False}).json()["options"]["align"] is False
    assert client.delete("/api/presets/mine").status_code == 200
    assert client.delete("/api/presets/mine").status_code == 404
