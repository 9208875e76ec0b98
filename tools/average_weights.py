"""The mean of two weights of one network, which can be better than either: their errors differ.

Run: python tools/average_weights.py FIRST SECOND -o WEIGHTS.safetensors [--share 0.5]
FIRST and SECOND are weights of a run (`weights.safetensors`), or its whole state (`state.safetensors`), of which the
running average counts. `--share` is that of SECOND. What the mean says about itself is what SECOND does, and of which
iterations it is the mean. Both must have come to their end: weights in between, while the rate is high, have no mean.
"""

import argparse
from pathlib import Path
from typing import Any

from allfocus.errors import AllfocusError, InputError
from allfocus.network.checkpoint import build_network, load_network, read_tensors, save_network
from allfocus.training.recipe import recipe_from_dictionary

AVERAGE = "average/"


def main() -> None:
    """Writes the mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--share", type=float, default=0.5)
    arguments = parser.parse_args()
    try:
        average_weights(arguments.first, arguments.second, arguments.output, share=arguments.share)
    except AllfocusError as error:
        parser.exit(2, f"{error}\n")


def average_weights(first: Path, second: Path, output: Path, *, share: float = 0.5) -> None:
    """Writes the mean of two weights of one network.

    Args:
        first: a file of weights, or of a run's state.
        second: the other.
        output: a new file.
        share: of the second, 0 to 1.

    Raises:
        InputError: they are of networks that differ, the share is none, the output exists, or its folder does not.
    """
    if not 0 <= share <= 1:
        raise InputError(f"a share is from 0 to 1; found {share:g}")
    if output.exists():
        raise InputError(f"{output}: exists")
    if not output.parent.is_dir():
        raise InputError(f"{output.parent}: no such folder")
    (one, said_of_one), (other, said_of_other) = read_weights(first), read_weights(second)
    if one.config != other.config:
        raise InputError(f"{first} and {second}: their networks have different sizes")
    own = one.state_dict()
    other.load_state_dict({name: own[name].lerp(value, share) for name, value in other.state_dict().items()})
    iterations = [
        number for said in (said_of_one, said_of_other) for number in said.get("mean_of", [said["iteration"]])
    ]
    save_network(output, other, {**said_of_other, "mean_of": iterations})


def read_weights(path: Path) -> tuple[Any, dict[str, Any]]:
    """Returns the network with the weights of a file, and what the file says of where they come from."""
    tensors, header = read_tensors(path)
    if "recipe" not in header:
        network, header = load_network(path)
        return network, header["provenance"]
    averages = {name.removeprefix(AVERAGE): own for name, own in tensors.items() if name.startswith(AVERAGE)}
    if not averages:
        raise InputError(f"{path}: the state of a run that keeps no running average")
    recipe = recipe_from_dictionary(header["recipe"])
    network = build_network(recipe.stack_network if recipe.network == "ips" else recipe.paper_network)
    network.load_state_dict(averages)
    return network, {
        "recipe": header["recipe"],
        "iteration": header["iteration"],
        "seconds": round(header["seconds"], 1),
    }


if __name__ == "__main__":
    main()
