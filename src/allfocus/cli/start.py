"""Where the ``allfocus`` command starts: as little as possible happens before Ctrl-C is taken care of."""

import sys

from allfocus.cli.interruption import ending_at_once


def main() -> None:
    """Run the command with the arguments of this process and leave with its exit code."""
    with ending_at_once():
        from allfocus.cli.main import run
    sys.exit(run(sys.argv[1:]))
