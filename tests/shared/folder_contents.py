"""What lies in a folder, for tests that it stays as it is."""

from pathlib import Path


def contents(folder: Path) -> dict[str, bytes]:
    """Each file below a folder, by its name as seen from there."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
