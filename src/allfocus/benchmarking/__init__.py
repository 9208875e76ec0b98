"""What fusing costs: this package and the programs people use today, on the same rendered stacks."""
