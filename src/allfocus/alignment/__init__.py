"""Frames onto one grid: the step between reading a stack and fusing it."""
