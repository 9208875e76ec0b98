"""The networks, in torch: the selective scan, the blocks built on it, both networks, and their weights on disk."""
