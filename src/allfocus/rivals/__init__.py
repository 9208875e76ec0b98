"""Networks of the literature, rebuilt from their papers to be compared with: one method per file, in torch."""
