"""Fusing on an NVIDIA GPU gives the picture that a CPU gives."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from allfocus.fusion.learned import fuse_ips  # noqa: E402 (torch may be missing)
from allfocus.scenes.rendering import render_scene  # noqa: E402


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here")
@pytest.mark.parametrize("options", [{}, {"hard": True}, {"prefer": "near"}])
def test_the_gpu_agrees_with_the_cpu(options):
    scene = render_scene("desk", frames=4, size=(401, 601), bit_depth=16)
    expected, found = (fuse_ips(scene.frames, device=device, **options) for device in ("cpu", "cuda"))
    # bfloat16 has 8 bits of precision, so an even choice may turn.
    assert np.mean(np.abs(found.image - expected.image).max(axis=2) > 1 / 255) < 0.02
    assert np.mean(found.decision != expected.decision) < 0.02
    assert np.abs(found.depth - expected.depth).mean() < 1e-2
    assert np.abs(found.confidence - expected.confidence).mean() < 1e-2
