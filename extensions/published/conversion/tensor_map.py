"""Map the tensors of a model type to our parameters: names and layouts, both ways."""

import re
from collections.abc import Iterable, Mapping, Set
from typing import ClassVar, Final

from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.tables import Names, Reshaped, Slice, Target
from clozeline.extensions.published.conversion.tensor_files import Renaming
from clozeline.model.configuration.model_config import ModelConfig

_LAYER_INDEX: Final = re.compile(r"(?<=layers\.)\d+(?=\.)")


class TensorMap:
    """Tables of names; `{i}` in a name is the layer index.

    A type overrides a method for what a table cannot express.
    """

    base: ClassVar[str] = ""
    """Prefix of the body in a class with a head; the class without heads saves without it."""
    pooled: ClassVar[bool] = False
    """Whether the class without a head has a pooler, which our bodies do not have: it is only
    stored so that an export contains it again."""
    body: ClassVar[tuple[str, ...]] = ("family.",)
    """Prefixes of our parameters that the class without a head has."""
    modules: ClassVar[Names]
    """Our modules, or complete parameter names, and their names in the checkpoint."""
    transposed: ClassVar[tuple[str, ...]] = ()
    """Last parts of modules in the checkpoint whose weight is stored as [in, out]."""
    skipped: ClassVar[Set[str]] = frozenset()
    """Patterns of parameters that none of our heads has; an import skips and reports them."""
    buffers: ClassVar[Set[str]] = frozenset()
    """Patterns of buffers without learned values; an import skips them."""
    other_prefixes: ClassVar[tuple[str, ...]] = ()
    """Prefixes that some classes or programs put before every name."""
    other_names: ClassVar[Mapping[str, str]] = {}
    """Starts of names in some files, each with the current start; the first match counts."""
    only_trained: ClassVar[Set[str]] = frozenset()
    """Patterns of parameters of our body that only training reads: an export of the body omits
    them."""
    training_key: ClassVar[str] = ""
    """Our configuration key that adds the parameters in `only_trained`."""

    def __init__(self, model_type: str, classes: Classes) -> None:
        self.model_type = model_type
        self.classes = classes

    # -- methods that a type overrides ------------------------------------------------------------

    def names(self, config: ModelConfig) -> Names:
        """Return our modules or parameters, each with its name in the checkpoint."""
        return self.modules

    def ties(self, config: ModelConfig) -> dict[str, str]:
        """Return second names of tensors in a file, by default that of a tied projection.

        {second name: name}
        """
        projection = f"heads.{self.classes.heads[0]}.projection.weight"
        table = "family.tokens.weight"
        targets = self.targets(config, (projection, table)) if config.tied else {}
        return {targets[projection].name: targets[table].name} if targets else {}

    def tensors_of_class(
        self, tensors: Mapping[str, Tensor], config: ModelConfig
    ) -> dict[str, Tensor]:
        """Return the tensors of a file in the layouts of the class."""
        return dict(tensors)

    def unread_copies(self, config: ModelConfig) -> dict[str, str]:
        """Return tensors that the class saves but never reads, and the tensors that they copy."""
        return {}

    def names_to_keep(
        self, names: Iterable[str], config: ModelConfig, *, body_alone: bool
    ) -> set[str]:
        """Return the tensors that the class saves, but our model does not read."""
        if body_alone:
            return {
                name for name in names if self.pooled and name.startswith(f"{self.base}pooler.")
            }
        return set(names) & {*self.copies(config), *self.constants_in_class(config, 1)}

    def constants(self, config: ModelConfig, vocab_size: int) -> dict[str, Tensor]:
        """Return constant tensors that the class saves and our model lacks.

        The tensors of a file may differ by rounding.
        """
        return {}

    def targets(self, config: ModelConfig, ours: Iterable[str]) -> dict[str, Target]:
        """Return where the checkpoint stores our parameters.

        Raises:
            ConfigurationError: the map does not know a parameter.
        """
        names = self.names(config)
        task = self.classes.task(config)
        if task is None:
            return {name: self._target(name, names) for name in ours}
        targets = {name: self._target(name, {**names, **task[1].modules(task[0])}) for name in ours}
        return {
            name: target._replace(name=self._in_task(target.name, config))
            for name, target in targets.items()
        }

    # -- names in the class with the model's heads ------------------------------------------------

    def ties_in_class(self, config: ModelConfig) -> dict[str, str]:
        """Return `ties` by the names in the class with the model's heads."""
        return {
            self._in_task(copy, config): self._in_task(name, config)
            for copy, name in self.ties(config).items()
        }

    def copies(self, config: ModelConfig) -> dict[str, str]:
        """Return `unread_copies` of the class with the model's heads; none for a task head."""
        return {} if self.classes.task(config) else self.unread_copies(config)

    def constants_in_class(self, config: ModelConfig, vocab_size: int) -> dict[str, Tensor]:
        """Return `constants` of the class with the model's heads."""
        return {} if self.classes.task(config) else self.constants(config, vocab_size)

    def renaming(self, expected: Mapping[str, object], config: ModelConfig) -> Renaming:
        """Return the mapping from names of a file, also legacy ones, to `expected` names."""
        known_names = {*expected, *self.ties_in_class(config), *self.copies(config)}
        return Renaming(
            known_names,
            self.base,
            self.other_prefixes,
            self.skipped,
            self.buffers,
            self.other_names,
        )

    def _in_task(self, name: str, config: ModelConfig) -> str:
        """Return the name of a tensor of the body in the class with the model's task head."""
        task = self.classes.task(config)
        before, now = task[1].body if task else ("", "")
        in_head = task is not None and name.rpartition(".")[0] in task[1].modules("").values()
        return now + name.removeprefix(before) if name.startswith(before) and not in_head else name

    def _target(self, name: str, names: Names) -> Target:
        # look up the module, or the complete parameter name, with {i} as the layer index
        numbers = _LAYER_INDEX.findall(name)
        template = _LAYER_INDEX.sub("{i}", name)
        module, _, leaf = template.rpartition(".")
        is_complete = template in names
        if (published := names.get(template if is_complete else module)) is None:
            raise ConfigurationError(
                f"{name}: a model of type {self.model_type} has no such parameter; export the body "
                "alone"
            )
        # find the part of a fused tensor and its layout, and put the layer index back
        published_name, part, parts, groups, sizes = (
            published if isinstance(published, Slice) else (published, 0, 1, 1, ())
        )
        published_name, shape = (
            published_name if isinstance(published_name, Reshaped) else (published_name, None)
        )
        transposed = leaf == "weight" and f".{published_name}".endswith(
            tuple(f".{end}" for end in self.transposed)
        )
        published_name = published_name.replace("{i}", numbers[0]) if numbers else published_name
        return Target(
            published_name if is_complete else f"{published_name}.{leaf}",
            part,
            sizes or (1,) * parts,
            groups,
            transposed,
            shape,
        )
