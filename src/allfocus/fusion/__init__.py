"""Many frames -> one picture: one method per file, the table of methods in `methods`."""
