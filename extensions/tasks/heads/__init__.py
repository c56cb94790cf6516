"""Heads that labeled data alone trains, each with what it means outside the model."""
