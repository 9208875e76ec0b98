"""The network that a recipe trains: ours by its sizes, or one of the literature with its own objective."""

from pathlib import Path

import torch
from torch import nn

from allfocus.errors import InputError
from allfocus.network.checkpoint import build_network, load_network
from allfocus.rivals.learning import OBJECTIVES
from allfocus.training.recipe import Recipe


def build_trainee(recipe: Recipe, start: Path | None = None) -> nn.Module:
    """Returns the recipe's network with the weights in `start`, or with some that follow from its seed.

    Raises:
        InputError: `start` holds another network, or one of other sizes.
    """
    config = recipe.network_config
    if start is not None and config is not None:
        network, _ = load_network(start)
        if network.config != config:
            raise InputError(f"{start}: holds a network of other sizes than the recipe; start from one that fits")
        return network.train()
    # The caller's random state is left alone.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.seed)
        if config is not None:
            return build_network(config)
        objective = OBJECTIVES[recipe.network]()
    if start is not None:
        objective.start_from(start)
    return objective
