"""The CSV files of a run: losses as it goes, validation figures now and then."""

import csv
from pathlib import Path


class RunLog:
    """Appends to ``log.csv`` and ``validation.csv``; on resuming, rows after the checkpoint are dropped first."""

    def __init__(self, run: Path, first: int) -> None:
        self.losses = run / "log.csv"
        self.validations = run / "validation.csv"
        for path in (self.losses, self.validations):
            _cut(path, first)

    def write_loss(self, iteration: int, seconds: float, loss: float, rate: float, speed: float) -> None:
        """Appends one row to ``log.csv``."""
        _append(
            self.losses,
            {
                "iteration": iteration,
                "seconds": round(seconds, 2),
                "loss": f"{loss:.6f}",
                "learning_rate": f"{rate:.3e}",
                "images_per_second": round(speed, 1),
            },
        )

    def write_validation(self, iteration: int, figures: dict[str, float]) -> None:
        """Appends one row to ``validation.csv``."""
        _append(self.validations, {"iteration": iteration} | {name: f"{value:.4f}" for name, value in figures.items()})


def _append(path: Path, row: dict[str, object]) -> None:
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(row))
        if new:
            writer.writeheader()
        writer.writerow(row)


def _cut(path: Path, first: int) -> None:
    if not path.exists():
        return
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        names = list(reader.fieldnames or [])
        rows = [row for row in reader if int(row["iteration"]) <= first]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
