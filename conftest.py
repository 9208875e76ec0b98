"""Without PyTorch, the tests and the examples of what is made of it are left out, and the first lines say so."""

from importlib.util import find_spec

NEED_TORCH = (
    "src/allfocus/network",
    "src/allfocus/rivals",
    "src/allfocus/training",
    "tests/end_to_end/test_training.py",
    "tests/properties/test_inter_image_shuffle.py",
    "tests/properties/test_stack_network.py",
    "tests/unit/network",
    "tests/unit/training",
)
collect_ignore = [] if find_spec("torch") else list(NEED_TORCH)


def pytest_report_header() -> str | None:
    """A line of what is left out."""
    return f"left out, because the extra train is not installed: {', '.join(NEED_TORCH)}" if collect_ignore else None
