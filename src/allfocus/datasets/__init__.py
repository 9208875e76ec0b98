"""Benchmark sets as people have them on disk: one set a file, :mod:`allfocus.datasets.catalogue` finds them by name.

Nothing is downloaded and nothing is cropped. Where a set is missing, the error says what it is and where to get it.
"""
