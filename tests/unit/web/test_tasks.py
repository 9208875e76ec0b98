"""What the studio's worker does with single files."""

import numpy as np
import pytest

from allfocus.errors import InputError
from allfocus.images.image import Image
from allfocus.images.writing import write_image
from allfocus.web.intake_tasks import make_thumbnail


def test_the_studio_refuses_floating_point_beyond_0_to_1_and_says_who_takes_it(tmp_path):
    frame = np.linspace(0, 3000, 96, dtype=np.float32).reshape(8, 12)
    path = write_image(Image(frame, bit_depth=32), tmp_path / "own.tif")
    target = tmp_path / "thumbnails" / "own.jpg"
    with pytest.raises(
        InputError, match=r"run from 0 to 3000; the studio takes 0.*allfocus fuse, which takes any range"
    ):
        make_thumbnail(str(path), str(target), max_pixels=10**6, tell=lambda event: None)
    assert not target.exists()
    unit = write_image(Image(frame / np.float32(3000), bit_depth=32), tmp_path / "unit.tif")
    make_thumbnail(str(unit), str(target), max_pixels=10**6, tell=lambda event: None)
    assert target.read_bytes().startswith(b"\xff\xd8")
