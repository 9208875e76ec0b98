"""The name of a method as benchmarks take it with `--method`: a wrong one is told before anything is rendered."""

import argparse

import allfocus


def check_method(name: str) -> str:
    """The name as it was given; meant as the `type` of an option, so that the parser tells what is wrong and ends.

    Raises:
        ArgumentTypeError: there is no such method, or it cannot run with what is installed.
    """
    try:
        from allfocus.fusion.method_choice import require_method
    except ImportError:  # An older version, which tells it when it fuses.
        return name
    try:
        require_method(name)
    except allfocus.AllfocusError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return name
