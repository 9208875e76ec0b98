"""Many stacks on many machines, and planes larger than any memory: on Dask, which is imported where it is needed."""
