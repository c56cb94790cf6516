"""Elastic weight consolidation: important weights change less (arXiv 1612.00796)."""

from functools import cached_property
from typing import Any

import torch
from pydantic import Field
from safetensors import SafetensorError, safe_open
from torch import Tensor

from clozeline.configuration.config import LocalPath, config_class
from clozeline.errors import ConfigurationError, IntegrityError
from clozeline.train.optim.regularizers import Anchored, Regularizer


class Ewc(Regularizer):
    """The penalty `strength` / 2 x F (w - a)² for the weights a of an earlier run.

    F is the diagonal of the Fisher information. `clozeline fisher` measures F and writes both.
    Weights that the file lacks, and weights with F = 0, are free.
    """

    @config_class
    class Options:
        """Options of elastic weight consolidation."""

        fisher: LocalPath
        """File that `clozeline fisher` wrote."""
        strength: float = Field(default=100.0, ge=0.0)
        """Factor of F, ≥ 0; depends on the scale of F."""

    options: Options

    def anchor(self, name: str, weight: Tensor, start: int, *, fresh: bool) -> Anchored:
        if fresh and f"fisher/{name}" not in self._names:
            return Anchored(torch.zeros_like(weight), torch.zeros_like(weight))
        anchor = self._read(f"weight/{name}", weight, start)
        fisher = self._read(f"fisher/{name}", weight, start)
        return Anchored(anchor, fisher * self.options.strength)

    @cached_property
    def _file(self) -> Any:
        path = self.options.fisher
        if not path.is_file():
            raise ConfigurationError(
                f"regularizer.fisher: {path} is not a file; `clozeline fisher RUN output={path}` "
                "writes it"
            )

        try:
            return safe_open(path, framework="pt")
        except (OSError, SafetensorError) as error:
            raise IntegrityError(
                f"{path}: {error}; write it again with clozeline fisher"
            ) from error

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self._file.keys())

    def _read(self, key: str, weight: Tensor, start: int) -> Tensor:
        where = f"regularizer.fisher: {self.options.fisher}"
        stop = start + len(weight)

        if key not in self._names:
            raise ConfigurationError(
                f"{where} has no {key}; measure the run that this run starts from"
            )

        values: Tensor = self._file.get_tensor(key).flatten()[start:stop]

        if len(values) != len(weight):
            raise ConfigurationError(
                f"{where}: {key} ends before element {stop}: it is of another model"
            )

        return values.to(weight)
