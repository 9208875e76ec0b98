"""Training without focus stacks: sharp photos -> shuffled sources -> loss -> checkpoint, described by a recipe."""
