"""One stack of files: what it can be told, what is planned, its frames, and the way from files to files."""
