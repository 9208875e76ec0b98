"""Lets ``python -m allfocus.cli`` stand for the ``allfocus`` command."""

from allfocus.cli.start import main

main()
