"""What the results of a batch are called."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image as Picture

from allfocus.batch.result_names import VALUES, check_template, name_result
from allfocus.batch.stacks import Stack
from allfocus.errors import InputError


def test_the_template_by_default_is_the_name_of_the_stack():
    stack = Stack("a: odd/name.", (Path("x.png"),))
    assert name_result("{stack}", stack, "ips") == "a: odd/name."


def test_date_and_time_are_those_of_the_first_frame(tmp_path):
    exif = Picture.Exif()
    exif[0x0132] = "2024:05:01 12:30:05"
    Picture.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "1.jpg", exif=exif)
    Picture.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "2.jpg")
    dated, other = (Stack("s", (tmp_path / name,)) for name in ("1.jpg", "2.jpg"))
    assert name_result("{date} {time}/{name}", dated, "ips") == "2024-05-01 12-30-05/s"
    assert name_result("{date}/{name}", other, "ips") == "undated/s"


def test_a_network_of_ones_own_is_called_by_its_file():
    assert name_result("{method}", Stack("s", (Path("a.png"),)), "/some/where/mine.onnx") == "mine"


@pytest.mark.parametrize("name", VALUES)
def test_every_place_can_stand_alone(name):
    check_template(f"{{{name}}}")
    assert name_result(f"{{{name}}}/x", Stack("a/b", (Path("c.png"), Path("d.png"))), "ips").endswith("/x")


@pytest.mark.parametrize(
    "template",
    ["", "/{name}", "../{name}", "{name}/", "{unknown}", "{}", "{name", "a:{name}", "aux", "{name}. ", "{0}"],
)
def test_a_template_that_leads_elsewhere_or_nowhere_is_refused(template):
    with pytest.raises(InputError) as caught:
        check_template(template)
    assert caught.value.code == "bad-option"
