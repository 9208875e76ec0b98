"""Numbers for fused pictures: one metric a file, ``catalogue`` lists them, ``scoring`` scores with them.

Plain numpy in float64; needs nothing else. Every function takes the fused picture first, then the sources (or the
reference), and returns one number.
"""
