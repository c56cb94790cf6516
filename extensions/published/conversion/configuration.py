"""Convert the config.json of a model type to our configuration and back."""

import re
from collections.abc import Iterable, Mapping, Set
from typing import Any, ClassVar, Final, NoReturn

from pydantic import ValidationError

from clozeline.configuration.config import adapter_of, flatten
from clozeline.errors import ConfigurationError
from clozeline.extensions.published.conversion.classes import Classes
from clozeline.extensions.published.conversion.config_keys import nest_keys
from clozeline.extensions.published.conversion.tables import (
    ACTIVATIONS,
    Keys,
    Table,
    Tensors,
    Values,
)
from clozeline.extensions.published.conversion.task_heads import read_head, write_head
from clozeline.model.configuration.head import ClassifierOptions
from clozeline.model.configuration.model_config import ModelConfig

_KEYS_WITH_ENCODER_DEFAULT: Final = ("decoder_dim", "decoder_attention_heads", "decoder_ffn_dim")


class Configuration:
    """Tables of keys; a type overrides a method for what a table cannot express."""

    fixed: ClassVar[Mapping[str, Any]] = {}
    """Our keys, dotted, with the value of every model of the type."""
    table: ClassVar[Table] = {}
    """Our other keys, dotted, with the key of config.json, and its default unless it is required.
    If several of our keys share one, the first is written."""
    more_defaults: ClassVar[Mapping[str, Any]] = {}
    """Defaults of keys of config.json that are not in the table, or differ from the parent's."""
    supported: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Keys of config.json that could select another computation, with their supported values; the
    first is written."""
    activations: ClassVar[Mapping[str, str]] = ACTIVATIONS
    """Names of activations in config.json, each with our name; of several for one activation, the
    first is written."""
    extra_keys: ClassVar[Set[str]] = frozenset()
    """Keys of config.json that a method reads instead of a table."""
    layout: ClassVar[tuple[str, ...]] = ()
    """Keys of config.json that select names of tensors: an export writes its own values, whatever a
    model was published with."""
    # `__init_subclass__` computes these from the tables above
    fields: ClassVar[Mapping[str, str]] = {}
    activation: ClassVar[str | None] = None
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        """Add the entries of the parent's tables; a key that is fixed is not read."""
        parent: type[Configuration] = cls.__mro__[1]
        cls.table = {**parent.table, **cls.table}
        cls.more_defaults = {**parent.more_defaults, **cls.more_defaults}
        cls.extra_keys = parent.extra_keys | cls.extra_keys
        # the keys that are read, then their defaults
        names = {
            ours: entry[0] if isinstance(entry, tuple) else entry
            for ours, entry in cls.table.items()
        }
        cls.fields = {ours: key for ours, key in names.items() if ours not in cls.fixed}
        unread = {*names.values()} - {*cls.fields.values()}
        all_defaults = (
            dict(entry for entry in cls.table.values() if isinstance(entry, tuple))
            | cls.more_defaults
        )
        cls.defaults = {key: value for key, value in all_defaults.items() if key not in unread}

        cls.activation = cls.fields.pop("activation", None)

    def __init__(self, model_type: str, classes: Classes) -> None:
        self.model_type = model_type
        self.classes = classes

    def read(self, config_json: Keys, tensors: Tensors) -> ModelConfig:
        """Return our configuration; only types with an ambiguous config.json look at the tensors.

        Raises:
            ConfigurationError: a key is missing, has a wrong value, or asks for a computation that
                is not supported.
        """
        self.refuse_other_values(config_json, self.supported)
        values = {**self.defaults, **config_json}
        if missing := sorted(set(self.fields.values()) - values.keys()):
            raise ConfigurationError(
                f"config.json of type {self.model_type}: the keys {', '.join(missing)} are missing"
            )

        flat = dict(self.fixed) | {ours: values[key] for ours, key in self.fields.items()}
        if (key := self.activation) is not None:
            flat["activation"] = self.read_activation(values.get(key), key, self.activations)

        # the heads: the task head of the class that wrote config.json, or the heads with tensors
        extra = self.read_extra(config_json, tensors)
        ending = self.classes.task_of(config_json)
        if ending is None:
            heads = self.classes.heads_in(tensors)
            flat |= {
                f"heads.{head}": {"weight": 1.0, **self.classes.head_options} for head in heads
            }
        else:
            extra = {key: value for key, value in extra.items() if not key.startswith("heads.")}
            task = self.classes.tasks[ending]
            task = task._replace(options={**task.options, **self.task_options(ending, config_json)})
            name, options = read_head(ending, task, config_json, flat.get("dropout.hidden", 0.0))
            flat[f"heads.{name}"] = options

        try:
            return adapter_of(ModelConfig).validate_python(nest_keys(flat | extra))
        except ValidationError as error:
            # in the words of the file
            first = error.errors(include_url=False)[0]
            key = ".".join(map(str, first["loc"]))
            why = first["msg"].removeprefix("Value error, ")
            ours = "|".join(sorted(map(re.escape, self.fields), key=len, reverse=True))
            theirs = re.sub(
                rf"(?<![\w.])({ours})(?!\w|\.\w)",
                lambda match: self.fields[match[0]],
                f"{key}: {why}, got {first['input']!r}" if key else why,
            )
            raise ConfigurationError(f"config.json of type {self.model_type}: {theirs}") from error

    def write(
        self, config: ModelConfig, vocab_size: int, token_ids: Mapping[str, object]
    ) -> Values:
        """Return config.json without the classes, for a token table of `vocab_size` rows."""
        flat = flatten(adapter_of(type(config)).dump_python(config, mode="json"))
        flat |= {"head_dim": config.head_width, "kv_heads": config.key_value_heads}
        flat |= {"decoder_layers": config.decoder_depth, "emb_dim": config.embedding_width}
        flat |= {"out_dim": config.output_width, "share.groups": config.layer_groups}
        flat |= {
            key: flat[key] or flat[key.removeprefix("decoder_")]
            for key in _KEYS_WITH_ENCODER_DEFAULT
        }

        # keys with supported values, keys of the table, the activation, extra keys, the task head
        config_json: dict[str, object] = {key: values[0] for key, values in self.supported.items()}
        for ours, key in reversed(list(self.fields.items())):
            config_json[key] = flat[ours]
        if self.activation is not None:
            config_json[self.activation] = self.activation_name(config) or config.activation

        config_json |= self.write_extra(config)

        if task := self.classes.task(config):
            head = config.heads[task[0]]
            assert isinstance(head, ClassifierOptions), (
                "classes of transformers have no other task heads"
            )
            config_json |= write_head(task[1], head, config.dropout.hidden) | self.task_keys(
                config, head
            )

        ids = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None} | dict(token_ids)
        return {"model_type": self.model_type, "vocab_size": vocab_size, **config_json, **ids}

    def vocab_size(self, config_json: Keys) -> int:
        """Return the number of rows of the token table."""
        rows = config_json.get("vocab_size")
        if not isinstance(rows, int) or isinstance(rows, bool) or not 1 <= rows < 2**31:
            self.refuse("vocab_size", f"expected a number of rows, got {rows!r}")
        return rows

    @property
    def keys_read(self) -> set[str | None]:
        """Keys of config.json that the tables or a method read."""
        return {
            *self.fields.values(),
            *self.supported,
            *self.extra_keys,
            *self.defaults,
            self.activation,
        }

    # -- methods that a type overrides ------------------------------------------------------------

    def read_extra(self, config_json: Keys, tensors: Tensors) -> Values:
        """Return those of our dotted keys that no table has, from config.json and the tensors."""
        return {}

    def write_extra(self, config: ModelConfig) -> Values:
        """Return those keys of config.json that no table has, for a configuration."""
        return {}

    def keys_from_tensors(self, names: Iterable[str]) -> Values:
        """Return keys of config.json that depend on which tensors a folder has."""
        return {}

    def task_options(self, ending: str, config_json: Keys) -> Values:
        """Return keys of a task head that config.json decides, except for labels and dropout."""
        return {}

    def task_keys(self, config: ModelConfig, head: ClassifierOptions) -> Values:
        """Return keys of config.json that a task head decides."""
        return {}

    # -- values -----------------------------------------------------------------------------------

    def refuse(self, key: str, why: str) -> NoReturn:
        """Raise ConfigurationError for a key of config.json."""
        raise ConfigurationError(f"config.json of type {self.model_type}: {key}: {why}")

    def refuse_other_values(
        self, config_json: Keys, supported: Mapping[str, tuple[object, ...]]
    ) -> None:
        """Raise ConfigurationError for all values that select an unsupported computation."""
        if keys := [
            key
            for key, values in supported.items()
            if key in config_json and config_json[key] not in values
        ]:
            wrong = "; ".join(
                f"{key}: expected {supported[key][0]!r}, got {config_json[key]!r}" for key in keys
            )
            where = (
                f"config.json of type {self.model_type} asks for a computation that is not "
                "supported"
            )
            raise ConfigurationError(f"{where}: {wrong}")

    def read_activation(self, name: Any, key: str, activations: Mapping[str, str]) -> str:
        """Return our name of an activation, or raise ConfigurationError."""
        if name not in activations:
            self.refuse(key, f"expected one of {', '.join(activations)}, got {name!r}")
        return activations[name]

    def activation_name(self, config: ModelConfig) -> str | None:
        """Return the first name of the model's activation in config.json; None: it has no name."""
        return next(
            (name for name, ours in self.activations.items() if ours == config.activation), None
        )
