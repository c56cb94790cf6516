"""Files of a new project."""
