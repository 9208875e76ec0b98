"""The studio: fuse, inspect and retouch in the browser, and the same over HTTP."""
