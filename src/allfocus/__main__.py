"""Lets ``python -m allfocus`` stand for the ``allfocus`` command."""

from allfocus.cli.start import main

if __name__ == "__main__":  # not where a new process only loads what this one was started with
    main()
