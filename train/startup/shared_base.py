"""Load several adapter runs over one base model, with a single copy of its weights."""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model, build_heads
from clozeline.model.checkpoints.checkpoint import parameter_shapes
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.heads import Heads
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.startup.initial_weights import config_without_adapter

_BODY_PREFIX = "family."


class SharedBase:
    """A base model with the adapters and heads of the runs that were trained on it.

    Args:
        runs: name → run, at least one.

    Raises:
        ConfigurationError: a run has no adapter, or another base model than the first run.
    """

    def __init__(self, runs: Mapping[str, Path]) -> None:
        self._heads: dict[str | None, tuple[ModelConfig, Heads]] = {}
        self._runs = dict(runs)
        for name, run in runs.items():
            self._add(name, run)
        self.use(None)

    def use(self, name: str | None) -> Model:
        """Return the model with the adapter and heads of a run, in evaluation mode.

        None: the base model with its heads. Every call returns the same object.
        """
        if name not in self._heads:
            raise ConfigurationError(f"no run '{name}'; the runs are: {', '.join(self._runs)}")
        self.model.use_heads(*self._heads[name])
        self.model.adapters.use(name)
        return self.model.eval()

    def _add(self, name: str, run: Path) -> None:
        opened = TrainedModel.open(run).checkpoint
        config = opened.config
        rows = opened.vocab_size
        weights = opened.tensors
        if config.adapter is None or config.init_from is None:
            raise ConfigurationError(f"{run} trained no adapter: open it with TrainedModel.open")

        # build the base model of the first run
        if None not in self._heads:
            source = TrainedModel.open(config.init_from, quantized=False)
            base = config_without_adapter(source, str(run), config.adapter)
            tensors = source.checkpoint.tensors
            self.model = Model(base, rows)
            with torch.no_grad():
                for key, parameter in self.model.family.named_parameters():
                    parameter.copy_(weights[f"{_BODY_PREFIX}{key}"])
            complete = all(
                key in tensors for key in parameter_shapes(base, rows) if key.startswith("heads.")
            )
            self._heads[None] = self._build_heads(base, tensors) if complete else (base, Heads({}))

        self._refuse_other_body(run, rows, weights)

        # add the adapter and the heads of the run
        adapter = self.model.adapters.add(name, config.adapter)
        prefix = f"adapters.{config.adapter.name}."
        of_adapter = {
            key.removeprefix(prefix): weights[key] for key in weights if key.startswith(prefix)
        }
        adapter.load_state_dict(of_adapter)
        self._heads[name] = self._build_heads(config, weights)

    def _build_heads(
        self, config: ModelConfig, weights: Mapping[str, Tensor]
    ) -> tuple[ModelConfig, Heads]:
        """Build heads with their weights; tied heads use the model's table."""
        heads = build_heads(config, self.model.family, self.model.vocab_size)
        table = self.model.family.tokens.weight
        with torch.no_grad():
            for name, parameter in heads.named_parameters(prefix="heads"):
                if parameter is not table:
                    parameter.copy_(weights[name])
        return config, heads

    def _refuse_other_body(self, run: Path, rows: int, weights: Mapping[str, Tensor]) -> None:
        ours = {
            f"{_BODY_PREFIX}{name}": parameter
            for name, parameter in self.model.family.named_parameters()
        }
        theirs = {name: tensor for name, tensor in weights.items() if name.startswith(_BODY_PREFIX)}
        equal = {
            name for name in ours.keys() & theirs.keys() if torch.equal(ours[name], theirs[name])
        }
        differing = sorted((ours.keys() | theirs.keys()) - equal)
        if rows != self.model.vocab_size or differing:
            difference = (
                f"{differing[0]} differs"
                if differing
                else f"its vocabulary has {rows} ids, not {self.model.vocab_size}"
            )
            raise ConfigurationError(
                f"{run} has another base model than {next(iter(self._runs.values()))}: "
                f"{difference}; load only runs together that share model.init_from"
            )
