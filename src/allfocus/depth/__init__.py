"""Where in the stack each pixel is in focus, measured between the frames, with a standard error."""
