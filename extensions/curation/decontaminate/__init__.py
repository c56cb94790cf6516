"""The stage `decontaminate`: drop training documents that contain evaluation items."""
