"""Errors of the model package: what was expected, what was found, where, and what to do.

The exit codes are the table that all commands share: 64 configuration, 65 a batch or weights
that contradict themselves.
"""

from __future__ import annotations


class ModelError(Exception):
    """Root of the errors that the model package raises on purpose."""

    exit_code = 1


class ConfigurationError(ModelError):
    """A model configuration, or its combination with a vocabulary, is wrong."""

    exit_code = 64


class BatchError(ModelError):
    """A batch lacks a tensor that the model reads, or holds values that the model has no room for."""

    exit_code = 65


class WeightsError(ModelError):
    """Weights of a checkpoint are damaged, incomplete, contradict each other, or belong to another model."""

    exit_code = 65
