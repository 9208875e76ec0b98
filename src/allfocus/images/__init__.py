"""Pixels in memory and on disk: the first and the last step of every run."""
