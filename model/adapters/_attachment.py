"""The adapters of a model, of which one at most is active."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from clozeline.errors import ConfigurationError
from clozeline.model.adapters._adapter import Adapter
from clozeline.model.families import ModelFamily
from clozeline.model.initialization import initialize_parameters
from clozeline.model.registries import ADAPTERS, AdapterComponent
from clozeline.registry import Component


class Adapters(nn.ModuleDict):
    """The adapters of a model by name.

    Args:
        family: the body that they change.
        vocab_size: number of ids of the tokenizer.
        chosen: the adapter that the model is built with; it is active.
    """

    def __init__(
        self, family: ModelFamily, vocab_size: int, chosen: AdapterComponent | None = None
    ) -> None:
        super().__init__()
        self._body = (family,)  # a tuple, as the body is a module of the model already
        self._vocab_size = vocab_size
        self.active: str | None = None
        if chosen is not None:
            self[chosen.name] = chosen.build(family)
            self.use(chosen.name)

    @property
    def positions(self) -> int:
        """Positions that the active adapter takes before those of a row."""
        (family,) = self._body
        if self.active is None:
            return 0
        return self.find(self.active).options.position_count(family.architecture)

    def find(self, name: str) -> Adapter:
        """Return an adapter by name; ConfigurationError: there is none of this name."""
        if name not in self:
            raise ConfigurationError(
                f"the model has no adapter '{name}'; it has {', '.join(self) or 'none'}"
            )
        adapter: Adapter = self[name]  # type: ignore[assignment]
        return adapter

    def use(self, name: str | None) -> None:
        """Activate an adapter instead of the previous one; None: compute without adapters."""
        adapter = None if name is None else self.find(name)
        if self.active is not None:
            self.find(self.active).detach()
        self.active = name
        if adapter is not None:
            adapter.attach(*self._body)

    def add(
        self, name: str, entry: AdapterComponent | Mapping[str, object] | str, *, seed: int = 0
    ) -> Adapter:
        """Add an adapter, initialized from the seed; `use` activates it.

        `entry` is the adapter's name, or its name and options.

        Raises:
            ConfigurationError: the name exists or contains a dot, or this model cannot have such an
                adapter.

        Example:
            >>> from clozeline.model.build import build_model
            >>> from clozeline.model.configuration.model_config import ModelConfig
            >>> sizes = {"dim": 4, "layers": 1, "attention_heads": 1, "ffn_dim": 8}
            >>> c = ModelConfig(family="encoder", heads={"masked_lm": 1.0}, **sizes)
            >>> model = build_model(c, 9, {})
            >>> adapter = model.adapters.add("sst2", {"name": "lora", "rank": 2})
            >>> model.adapters.use("sst2")
            >>> sum(parameter.numel() for parameter in adapter.parameters())  # 2 maps, 2 x (4 + 4)
            32
        """
        if not name or "." in name or hasattr(self, name):
            known = ", ".join(self) or "none"
            raise ConfigurationError(
                f"adapter '{name}': expected a new name without dots; the model has: {known}"
            )

        (family,) = self._body
        config = entry if isinstance(entry, Component) else ADAPTERS.resolve(entry)
        adapter = config.build(family)
        self[name] = adapter
        initialize_parameters(adapter, family.config, seed, prefix=f"adapters.{name}.")
        adapter.initialize_from(family, self._vocab_size, seed)
        adapter.to(family.tokens.weight).train(family.training)
        return adapter

    @torch.no_grad()
    def merge(self, name: str) -> dict[str, Tensor]:
        """Merge an adapter into the weights of the body and deactivate it; return the old weights.

        `model.family.load_state_dict(before, strict=False)` undoes the merge exactly.

        Raises:
            ConfigurationError: the adapter's computation cannot be written into weights.
        """
        (family,) = self._body
        merged = self.find(name).merge(family)
        before = {key: family.get_parameter(key).clone() for key in merged}
        for key, tensor in merged.items():
            family.get_parameter(key).copy_(tensor)
        if self.active == name:
            self.use(None)
        return before
