"""The config.json of a model type and our configuration, both ways."""

from collections.abc import Iterable, Mapping, Set
from typing import Any, ClassVar, Final, NoReturn

from pydantic import ValidationError

from clozeline.configuration.config import adapter_of, flatten
from clozeline.errors import ConfigurationError
from clozeline.model.checkpoints._conversion.classes import Classes
from clozeline.model.checkpoints._conversion.config_keys import nested
from clozeline.model.checkpoints._conversion.tables import ACTIVATIONS, Keys, Table, Tensors, Values
from clozeline.model.checkpoints._conversion.task_heads import read_head, write_head
from clozeline.model.configuration.head import ClassifierOptions
from clozeline.model.configuration.model_config import ModelConfig

_OF_DECODER: Final = ("decoder_dim", "decoder_attention_heads", "decoder_ffn_dim")


class Configuration:
    """Tables of keys. What a table cannot express is a method that a type overrides."""

    fixed: ClassVar[Mapping[str, Any]] = {}
    """Our keys, dotted, with the value of every model of the type."""
    table: ClassVar[Table] = {}
    """Our other keys, dotted, and theirs, or theirs with its default; one without a default is
    required. Where several of ours share one of theirs, the first is written."""
    more_defaults: ClassVar[Mapping[str, Any]] = {}
    """Defaults of their keys that the table lacks, or that differ from those of the parent."""
    supported: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Their keys that could select another computation, and the supported values; the first is
    written."""
    activations: ClassVar[Mapping[str, str]] = ACTIVATIONS
    """Their names of activations and ours; the first of several is written."""
    extra_keys: ClassVar[Set[str]] = frozenset()
    """Their keys that no table lists, because a method reads them."""
    layout: ClassVar[tuple[str, ...]] = ()
    """Their keys that select names of tensors: an export has its own values, whatever a model was
    published with."""
    # made of the tables above
    fields: ClassVar[Mapping[str, str]] = {}
    activation: ClassVar[str | None] = None
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        """Add the entries of the parent's tables to those of a type; a key that is fixed is not read."""
        parent: type[Configuration] = cls.__mro__[1]
        cls.table = {**parent.table, **cls.table}
        cls.more_defaults = {**parent.more_defaults, **cls.more_defaults}
        cls.extra_keys = parent.extra_keys | cls.extra_keys
        names = {
            ours: entry[0] if isinstance(entry, tuple) else entry
            for ours, entry in cls.table.items()
        }
        cls.fields = {ours: theirs for ours, theirs in names.items() if ours not in cls.fixed}
        unread = {*names.values()} - {*cls.fields.values()}
        usual = (
            dict(entry for entry in cls.table.values() if isinstance(entry, tuple))
            | cls.more_defaults
        )
        cls.defaults = {key: value for key, value in usual.items() if key not in unread}
        cls.activation = cls.fields.pop("activation", None)

    def __init__(self, model_type: str, classes: Classes) -> None:
        self.model_type = model_type
        self.classes = classes

    def read(self, plain: Keys, tensors: Tensors) -> ModelConfig:
        """Return our configuration; only types with an ambiguous config.json look at the tensors.

        Raises:
            ConfigurationError: a key is missing, has a wrong value, or asks for a computation that
                we do not have.
        """
        self.refuse_other_values(plain, self.supported)
        given = {**self.defaults, **plain}
        if missing := sorted(set(self.fields.values()) - given.keys()):
            raise ConfigurationError(
                f"config.json of type {self.model_type}: expected the keys {', '.join(missing)}, "
                "got none"
            )
        flat = dict(self.fixed) | {ours: given[theirs] for ours, theirs in self.fields.items()}
        if (key := self.activation) is not None:
            flat["activation"] = self.read_activation(given.get(key), key, self.activations)
        extra = self.read_extra(plain, tensors)
        ending = self.classes.task_of(plain)
        if ending is None:
            heads = self.classes.heads_in(tensors)
            flat |= {
                f"heads.{head}": {"weight": 1.0, **self.classes.head_options} for head in heads
            }
        else:
            extra = {key: value for key, value in extra.items() if not key.startswith("heads.")}
            task = self.classes.tasks[ending]
            task = task._replace(options={**task.options, **self.task_options(ending, plain)})
            name, options = read_head(ending, task, plain, flat.get("dropout.hidden", 0.0))
            flat[f"heads.{name}"] = options
        try:
            return adapter_of(ModelConfig).validate_python(nested(flat | extra))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            self.refuse(".".join(map(str, first["loc"])) or "model", first["msg"])

    def write(
        self, config: ModelConfig, vocab_size: int, token_ids: Mapping[str, object]
    ) -> Values:
        """Return the content of config.json, without the classes, for a token table of `vocab_size` rows."""
        flat = flatten(adapter_of(type(config)).dump_python(config, mode="json"))
        flat |= {"head_dim": config.head_width, "kv_heads": config.key_value_heads}
        flat |= {"decoder_layers": config.decoder_depth, "emb_dim": config.embedding_width}
        flat |= {"out_dim": config.output_width, "share.groups": config.layer_groups}
        flat |= {key: flat[key] or flat[key.removeprefix("decoder_")] for key in _OF_DECODER}
        # their keys: the fixed ones, those of the table, the activation, what methods add, and the
        # task head's
        plain: dict[str, object] = {key: values[0] for key, values in self.supported.items()}
        for ours, theirs in reversed(list(self.fields.items())):
            plain[theirs] = flat[ours]
        if self.activation is not None:
            plain[self.activation] = self.activation_name(config) or config.activation
        plain |= self.write_extra(config)
        if task := self.classes.task(config):
            head = config.heads[task[0]]
            assert isinstance(head, ClassifierOptions), (
                "classes of transformers have no other task heads"
            )
            plain |= write_head(task[1], head, config.dropout.hidden) | self.task_keys(config, head)
        ids = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None} | dict(token_ids)
        return {"model_type": self.model_type, "vocab_size": vocab_size, **plain, **ids}

    def vocab_size(self, plain: Keys) -> int:
        """Return the rows of the token table."""
        rows = plain.get("vocab_size")
        if not isinstance(rows, int) or isinstance(rows, bool) or not 1 <= rows < 2**31:
            raise ConfigurationError(
                f"config.json: vocab_size: expected a number of rows, got {rows!r}"
            )
        return rows

    @property
    def keys_read(self) -> set[str | None]:
        """Their keys that the tables or a method read."""
        return {
            *self.fields.values(),
            *self.supported,
            *self.extra_keys,
            *self.defaults,
            self.activation,
        }

    # -- what a type overrides
    # --------------------------------------------------------------------------------------

    def read_extra(self, plain: Keys, tensors: Tensors) -> Values:
        """Return our dotted keys that no table gives."""
        return {}

    def write_extra(self, config: ModelConfig) -> Values:
        """Return their keys that no table gives."""
        return {}

    def keys_from(self, names: Iterable[str]) -> Values:
        """Return their keys that depend on which tensors a folder holds."""
        return {}

    def task_options(self, ending: str, plain: Keys) -> Values:
        """Return keys of a task head that config.json decides, besides labels and dropout."""
        return {}

    def task_keys(self, config: ModelConfig, head: ClassifierOptions) -> Values:
        """Return their keys that such a head decides."""
        return {}

    # -- values
    # -----------------------------------------------------------------------------------------------------

    def refuse(self, key: str, why: str) -> NoReturn:
        """Refuse a key of config.json."""
        raise ConfigurationError(f"config.json of type {self.model_type}: {key}: {why}")

    def refuse_other_values(self, plain: Keys, supported: Mapping[str, tuple[object, ...]]) -> None:
        """Refuse values that select a computation our families do not have; the message lists all of them."""
        if other := [
            key for key, values in supported.items() if key in plain and plain[key] not in values
        ]:
            wrong = "; ".join(
                f"{key}: expected {supported[key][0]!r}, got {plain[key]!r}" for key in other
            )
            where = (
                f"config.json of type {self.model_type} asks for a computation that is not built"
            )
            raise ConfigurationError(f"{where}: {wrong}")

    def read_activation(self, name: Any, key: str, activations: Mapping[str, str]) -> str:
        """Return our name of an activation; refuse one without counterpart."""
        if name not in activations:
            self.refuse(key, f"expected one of {', '.join(activations)}, got {name!r}")
        return activations[name]

    def activation_name(self, config: ModelConfig) -> str | None:
        """Return their first name of the model's activation, None if there is none."""
        return next(
            (theirs for theirs, ours in self.activations.items() if ours == config.activation), None
        )
