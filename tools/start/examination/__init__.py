"""Checks of a machine, and the findings that they return."""
