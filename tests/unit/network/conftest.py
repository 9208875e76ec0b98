"""One thread, because on tensors this small more threads only cost."""

import pytest


@pytest.fixture(autouse=True)
def _one_thread(one_thread):
    pass
