"""Files on the disk: opened safely, put in place whole, never mixed up, and locked."""
