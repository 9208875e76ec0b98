"""The folder of a training run: its recipe, the checkpoint that it goes on from, and the weights that it gives."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from allfocus.errors import InputError, OutputError, TrainingError
from allfocus.network.checkpoint import read_tensors, save_network, save_tensors
from allfocus.rivals.learning import OBJECTIVES, Objective, trained_tensors
from allfocus.training.photos import PhotoBank
from allfocus.training.recipe import Recipe, recipe_from_dictionary
from allfocus.training.stepping import Stepper

STATE_FILE = "state.safetensors"
WEIGHTS_FILE = "weights.safetensors"


class RunFiles:
    """The files of one run, and the recipe that they belong to."""

    def __init__(self, path: Path, recipe: Recipe) -> None:
        self.path = path
        self.weights = path / WEIGHTS_FILE
        self.previews = path / "previews"
        self._state = path / STATE_FILE
        self._recipe = recipe

    def make(self) -> None:
        """Makes the folder and writes the recipe; raises OutputError where that cannot be done."""
        content = json.dumps(dataclasses.asdict(self._recipe), indent=2) + "\n"
        try:
            self.previews.mkdir(parents=True, exist_ok=True)
            (self.path / "recipe.json").write_text(content, encoding="utf-8")
        except OSError as error:
            raise OutputError(f"{self.path}: cannot be made the folder of a run ({error.strerror})") from error

    def read_checkpoint(self) -> tuple[dict[str, Tensor], int, float]:
        """Returns the tensors of the last checkpoint, the iterations done, and the seconds spent.

        Raises:
            InputError: there is none, or it belongs to a network of other sizes than the recipe's.
        """
        tensors, header = read_tensors(self._state, others=OBJECTIVES)
        stored, own = recipe_from_dictionary(header["recipe"]), self._recipe
        if (stored.network, stored.stack_network, stored.paper_network) != (
            own.network,
            own.stack_network,
            own.paper_network,
        ):
            raise InputError(
                f"{self._state}: holds a network of other sizes than the recipe; resume with the recipe it had"
            )
        return tensors, int(header["iteration"]), float(header["seconds"])

    def save(self, stepper: Stepper, bank: PhotoBank, *, iteration: int, seconds: float) -> None:
        """Writes weights and checkpoint.

        Raises:
            TrainingError: some of it is no longer a number; the last checkpoint is kept.
        """
        recipe, state = dataclasses.asdict(self._recipe), stepper.state()
        # The loss is looked at in reports only, and a finite one can have an infinite gradient: what is no longer a
        # number must not replace the last checkpoint.
        if broken := [name for name, tensor in state.items() if not bool(tensor.isfinite().all())]:
            raise TrainingError(
                f"{self.path}: {len(broken)} tensors are not finite after iteration {iteration}, the first is "
                f"{broken[0]}; lower optimizer.learning_rate ({self._recipe.optimizer.learning_rate:g}), then resume "
                "from the last checkpoint"
            )
        provenance: dict[str, Any] = {
            "recipe": recipe,
            "iteration": iteration,
            "seconds": round(seconds, 1),
            "photos": len(bank.names),
            "torch": torch.__version__,
            "device": torch.cuda.get_device_name() if bank.device.type == "cuda" else "cpu",
        }
        with stepper.averaged() as averaged:
            if isinstance(averaged, Objective):
                header = {"kind": self._recipe.network, "config": {}, "provenance": provenance}
                save_tensors(self.weights, trained_tensors(averaged), header)
            else:
                save_network(self.weights, averaged, provenance)
        # Last, because it is what a resumed run starts from.
        save_tensors(self._state, state, {"iteration": iteration, "seconds": seconds, "recipe": recipe})
