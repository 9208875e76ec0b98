"""The command line: each command parses, calls public functions, and prints."""
