"""Programs that we compare ourselves with, and what we want to reach against them."""
