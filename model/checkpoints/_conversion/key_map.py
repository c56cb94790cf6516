"""The two-way map of a model type: config.json to ModelConfig, and tensor names, both ways.

A map is data: tables of keys and names. What a table cannot express is a method that the type overrides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, TypeAlias

from pydantic import ValidationError
from torch import Tensor

from clozeline.configuration.config import adapter_of, flatten
from clozeline.errors import ConfigurationError, WeightsError
from clozeline.model.checkpoints._conversion.config_keys import differences, nested
from clozeline.model.checkpoints._conversion.tables import ACTIVATIONS, HeadedClass, Reshaped, Slice, Target
from clozeline.model.checkpoints._conversion.task_heads import (
    Task,
    endings,
    heads_of,
    read_head,
    write_head,
)
from clozeline.model.checkpoints._conversion.tensor_names import Renaming
from clozeline.model.configuration.head import ClassifierOptions, HeadOptions
from clozeline.model.configuration.model_config import ModelConfig


class Problems(NamedTuple):
    """Why a type cannot hold a model."""

    reasons: list[str]
    """our keys, each with the value that the type has; empty: it can"""
    is_complete: bool = True
    """false: its class refused a key, and nothing after that is known"""


Keys: TypeAlias = Mapping[str, Any]
"""Content of config.json."""
Tensors: TypeAlias = Mapping[str, Tensor]
"""Tensors of a file by their names."""
_AUTO: Final = {
    "LMHeadModel": "ForCausalLM",
    **dict.fromkeys(("WithLMHeadModel", "LMHead"), "ForMaskedLM"),
    **dict.fromkeys(("ForConditionalGeneration", "MTModel"), "ForSeq2SeqLM"),
}
"""Ends of auto classes that differ from the end of the class they load."""
_OF_DECODER: Final = ("decoder_dim", "decoder_attention_heads", "decoder_ffn_dim")
_LAYER: Final = re.compile(r"(?<=layers\.)\d+(?=\.)")


class KeyMap:
    """A model type of config.json. Subclasses fill the tables; `{i}` in a name is the layer index."""

    model_type: ClassVar[str]
    stem: ClassVar[str]
    """Start of the names of its classes in transformers."""
    class_ends: ClassVar[Mapping[tuple[str, ...], str]] = {("lm",): "ForCausalLM"}
    """Ends of the names of its classes with pretraining heads, by these heads; the usual class first."""
    bare_end: ClassVar[str | None] = "Model"
    """End of the name of the class without heads; None if there is none for the encoder alone."""
    read_only: ClassVar[str | None] = None
    """Reason why the type is imported and not exported; None: both."""
    base: ClassVar[str] = ""
    """Prefix of the body in the headed class; the bare one saves without it."""
    tasks: ClassVar[Mapping[str, Task]] = {}
    """Task heads of its classes, by the ending of the class: `ForSequenceClassification`."""
    marks: ClassVar[Mapping[str, str]] = {}
    """Heads that a file may hold, each with the end of a tensor name that identifies it; empty: the usual heads."""
    head_options: ClassVar[Mapping[str, Any]] = {}
    """Keys of the heads, besides their weights, that every model of the type has."""
    projections: ClassVar[tuple[str, ...]] = ("linear",)
    """Forms of our next-token head that its class has."""
    pooled: ClassVar[bool] = False
    """The class without a head has a pooler, which our bodies do not have: it is only kept for an export."""
    shares: ClassVar[bool] = False
    """The type is made for layers that share weights."""
    body: ClassVar[tuple[str, ...]] = ("family.",)
    """Prefixes of our parameters that the class without a head has."""
    fixed: ClassVar[Mapping[str, Any]]
    """Our keys, dotted, with the value of every model of the type."""
    fields: ClassVar[Mapping[str, str]]
    """Our keys, dotted, and theirs; where several of ours share one of theirs, the first is written."""
    defaults: ClassVar[Mapping[str, Any]] = {}
    """Values of their keys if config.json omits them; other keys are required."""
    only: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """Their keys that could select another computation, and the supported values; the first is written."""
    activation: ClassVar[str | None] = "hidden_act"
    """Their key of the activation; None: methods read it."""
    activations: ClassVar[Mapping[str, str]] = ACTIVATIONS
    """Their names of activations and ours; the first of several is written."""
    also_read: ClassVar[tuple[str, ...]] = ()
    """Their keys that no table lists, because a method reads them."""
    layout: ClassVar[tuple[str, ...]] = ()
    """Their keys that select names of tensors: an export has its own values, whatever a model was published with."""
    modules: ClassVar[Mapping[str, str | Slice | Reshaped]]
    """Our modules, or complete parameter names, and theirs."""
    transposed: ClassVar[tuple[str, ...]] = ()
    """Last parts of their modules whose weight is stored [in, out]."""
    left_out: ClassVar[tuple[str, ...]] = ()
    """Patterns of parameters that no head of ours has: skipped and reported."""
    buffers: ClassVar[tuple[str, ...]] = ()
    """Patterns of buffers without learned values: skipped."""
    other_prefixes: ClassVar[tuple[str, ...]] = ()
    """Prefixes that some classes or programs put before every name."""
    other_names: ClassVar[Mapping[str, str]] = {}
    """Starts of names in some files, and ours for the same tensors; the first match counts."""
    only_trained: ClassVar[tuple[str, ...]] = ()
    """Patterns of parameters of our body that only training reads: an export of the body omits them."""
    training_key: ClassVar[str] = ""
    """Our key that adds these parameters."""

    def variants(self) -> tuple[KeyMap, ...]:
        """Return the maps of classes of the type in another family: the encoder alone, or a causal encoder."""
        return ()

    def is_written_by(self, plain: Keys) -> bool:
        """Return whether a class of this variant wrote config.json."""
        return True

    # -- config.json ------------------------------------------------------------------------------------------------

    def read_config(self, plain: Keys, tensors: Tensors) -> ModelConfig:
        """Return our configuration; only types with an ambiguous config.json look at the tensors.

        Raises:
            ConfigurationError: a key is missing, has a wrong value, or asks for a computation that we do not have.
        """
        self.refuse_other_values(plain, self.only)
        given = {**self.defaults, **plain}
        if missing := sorted(set(self.fields.values()) - given.keys()):
            raise ConfigurationError(
                f"config.json of type {self.model_type}: expected the keys {', '.join(missing)}, got none"
            )
        flat = dict(self.fixed) | {ours: given[theirs] for ours, theirs in self.fields.items()}
        if (key := self.activation) is not None:
            flat["activation"] = self.read_activation(given.get(key), key, self.activations)
        more = self.more_of_ours(plain, tensors)
        ending = self.task_of(plain)
        if ending is None:
            flat |= {f"heads.{head}": {"weight": 1.0, **self.head_options} for head in self.heads_in(tensors)}
        else:
            more = {key: value for key, value in more.items() if not key.startswith("heads.")}
            options = {**self.tasks[ending].options, **self.task_options(ending, plain)}
            task = self.tasks[ending]._replace(options=options)
            name, options = read_head(ending, task, plain, flat.get("dropout.hidden", 0.0))
            flat[f"heads.{name}"] = options
        try:
            return adapter_of(ModelConfig).validate_python(nested(flat | more))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            self.refuse(".".join(map(str, first["loc"])) or "model", first["msg"])

    def write_config(self, config: ModelConfig, vocab_size: int, token_ids: Mapping[str, Any]) -> dict[str, Any]:
        """Return the content of config.json, without the classes, for a token table of `vocab_size` rows."""
        flat = flatten(adapter_of(type(config)).dump_python(config, mode="json"))
        flat |= {"head_dim": config.head_width, "kv_heads": config.key_value_heads}
        flat |= {"decoder_layers": config.decoder_depth, "emb_dim": config.embedding_width}
        flat |= {"out_dim": config.output_width, "share.groups": config.layer_groups}
        flat |= {key: flat[key] or flat[key.removeprefix("decoder_")] for key in _OF_DECODER}
        # their keys: the fixed ones, those of the table, the activation, what methods add, and the task head's
        plain: dict[str, Any] = {key: values[0] for key, values in self.only.items()}
        for ours, theirs in reversed(list(self.fields.items())):
            plain[theirs] = flat[ours]
        if self.activation is not None:
            plain[self.activation] = self.activation_name(config) or config.activation
        plain |= self.more_of_theirs(config)
        if task := self.task(config):
            head = config.heads[task[0]]
            assert isinstance(head, ClassifierOptions), "classes of transformers have no other task heads"
            plain |= write_head(task[1], head, config.dropout.hidden) | self.task_keys(config, head)
        ids = {"pad_token_id": None, "bos_token_id": None, "eos_token_id": None} | dict(token_ids)
        return {"model_type": self.model_type, "vocab_size": vocab_size, **plain, **ids}

    def refuse(self, key: str, why: str) -> NoReturn:
        """Refuse a key of config.json."""
        raise ConfigurationError(f"config.json of type {self.model_type}: {key}: {why}")

    def refuse_other_values(self, plain: Keys, only: Mapping[str, tuple[Any, ...]]) -> None:
        """Refuse values that select a computation our families do not have; the message lists all of them."""
        if other := [key for key, values in only.items() if key in plain and plain[key] not in values]:
            wrong = "; ".join(f"{key}: expected {only[key][0]!r}, got {plain[key]!r}" for key in other)
            where = f"config.json of type {self.model_type} asks for a computation that is not built"
            raise ConfigurationError(f"{where}: {wrong}")

    def read_activation(self, name: Any, key: str, activations: Mapping[str, str]) -> str:
        """Return our name of an activation; refuse one without counterpart."""
        if name not in activations:
            self.refuse(key, f"expected one of {', '.join(activations)}, got {name!r}")
        return activations[name]

    @property
    def keys_read(self) -> set[str | None]:
        """Their keys that the tables or a method read."""
        return {*self.fields.values(), *self.only, *self.also_read, *self.defaults, self.activation}

    def more_of_ours(self, plain: Keys, tensors: Tensors) -> dict[str, Any]:
        """Return our dotted keys that no table gives."""
        return {}

    def more_of_theirs(self, config: ModelConfig) -> dict[str, Any]:
        """Return their keys that no table gives."""
        return {}

    def activation_name(self, config: ModelConfig) -> str | None:
        """Return their first name of the model's activation, None if there is none."""
        return next((theirs for theirs, ours in self.activations.items() if ours == config.activation), None)

    def task_options(self, ending: str, plain: Keys) -> dict[str, Any]:
        """Return keys of a task head that config.json decides, besides labels and dropout."""
        return {}

    def task_keys(self, config: ModelConfig, head: ClassifierOptions) -> dict[str, Any]:
        """Return their keys that such a head decides."""
        return {}

    def task(self, config: ModelConfig) -> tuple[str, Task] | None:
        """Return the only head of a model and its table entry, None if the type has no such task head."""
        (name, *others) = config.heads
        entry = self.tasks.get(endings().get(name, ""))
        return None if others or entry is None else (name, entry)

    def task_class(self, ending: str) -> HeadedClass:
        """Return the class of transformers with a task head."""
        name = f"{self.stem}{ending}{self.tasks[ending].suffix}"
        return HeadedClass((heads_of(ending)[0],), name, f"AutoModel{ending}")

    def task_of(self, plain: Keys) -> str | None:
        """Return the ending of the class with a task head that wrote config.json, None for any other class."""
        written = plain.get("architectures") or [""]
        return next((ending for ending in self.tasks if self.task_class(ending).name == written[0]), None)

    def heads_in(self, tensors: Iterable[str]) -> tuple[str, ...]:
        """Return the heads of which a file holds tensors; those of the usual class if it holds none."""
        ends = tuple(tensors)
        return tuple(head for head, mark in self.marks.items() if any(n.endswith(mark) for n in ends)) or self.heads

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads of the usual class."""
        return next(iter(self.class_ends))

    @property
    def classes(self) -> tuple[HeadedClass, ...]:
        """The classes of transformers with pretraining heads, the usual one first."""
        ends = self.class_ends.items()
        return tuple(HeadedClass(heads, f"{self.stem}{end}", f"AutoModel{_AUTO.get(end, end)}") for heads, end in ends)

    @property
    def bare(self) -> str | None:
        """The class without heads."""
        return None if self.bare_end is None else f"{self.stem}{self.bare_end}"

    def class_with(self, heads: Iterable[str]) -> HeadedClass:
        """Return the class of transformers with these heads; refuse heads that no class has together."""
        chosen = set(heads)
        if len(chosen) == 1 and (ending := endings().get(min(chosen), "")) in self.tasks:
            return self.task_class(ending)
        if fitting := next((headed for headed in self.classes if set(headed.heads) == chosen), None):
            return fitting
        known = " or ".join(" and ".join(headed.heads) for headed in self.classes) or "none"
        raise ConfigurationError(
            f"model.heads: a model of type {self.model_type} has the heads {known}, this one {' and '.join(heads)}: "
            "export some of them, or the body alone"
        )

    def has_class(self, heads: Iterable[str]) -> bool:
        """Return whether a class of transformers has these heads."""
        try:
            self.class_with(heads)
        except ConfigurationError:
            return False
        return True

    def vocab_size(self, plain: Keys) -> int:
        rows = plain.get("vocab_size")
        if not isinstance(rows, int) or isinstance(rows, bool) or not 1 <= rows < 2**31:
            raise ConfigurationError(f"config.json: vocab_size: expected a number of rows, got {rows!r}")
        return rows

    def problems(self, config: ModelConfig, token_ids: Mapping[str, Any]) -> Problems:
        """Return the reasons why the type cannot hold a model; only the body is compared."""
        if config.family != self.fixed["family"]:
            return Problems([f"model.family: expected {self.fixed['family']}, got {config.family}"])
        known, ids = [], {key: value for key, value in token_ids.items() if value is not None}
        if self.activation is not None and self.activation_name(config) is None:
            names = list(dict.fromkeys(self.activations.values()))
            known.append(f"model.activation: expected {' or '.join(names)}, got {config.activation}")
            config = replace(config, activation=names[0])  # type: ignore[arg-type]  # to find what else differs
        try:
            back = self.read_config(self.write_config(config, 8, ids), {})
        except ConfigurationError as error:
            return Problems([*known, str(error)], is_complete=False)
        pairs = differences(config, back).items()
        return Problems([*known, *(f"model.{key}: expected {there}, got {here}" for key, (here, there) in pairs)])

    def likeness(self, config: ModelConfig, token_ids: Mapping[str, Any]) -> tuple[bool, ...]:
        """Return how well the type suits a model whose body it can hold: larger is better."""
        has_class = set(config.heads) in [set(headed.heads) for headed in self.classes]
        if (theirs := self.task_head(config, token_ids)) is not None:
            [head] = config.heads.values()
            has_class = has_class or not head.differences(theirs, config.architecture)
        return self.has_transforms_of(config), has_class, self.shares == (config.layer_groups < config.layers)

    def has_transforms_of(self, config: ModelConfig) -> bool:
        """Return whether the type's heads transform the states where the model's do."""
        transform = self.head_options.get("transform", True)
        heads = config.heads.values()
        equal = all(head.transform == transform and head.projection in self.projections for head in heads)
        return self.task(config) is not None or equal

    def task_head(self, config: ModelConfig, token_ids: Mapping[str, Any]) -> HeadOptions | None:
        """Return the only head of a model as the type's class computes it, None if the type has no such task head."""
        if (task := self.task(config)) is None:
            return None
        ids = {key: value for key, value in token_ids.items() if value is not None}
        plain = {**self.write_config(config, 8, ids), "architectures": [self.task_class(endings()[task[0]]).name]}
        return self.read_config(plain, {}).heads.get(task[0])

    # -- names of tensors -------------------------------------------------------------------------------------------

    def ties(self, config: ModelConfig) -> dict[str, str]:
        """Return further names of a tensor in a file, {other name: name}; by default that of a tied projection."""
        projection, table = f"heads.{self.heads[0]}.projection.weight", "family.tokens.weight"
        targets = self.targets(config, (projection, table)) if config.tied else {}
        return {targets[projection].name: targets[table].name} if targets else {}

    def tensors_of_class(self, tensors: Tensors, config: ModelConfig) -> dict[str, Tensor]:
        """Return the tensors of a file in the layouts of the class."""
        return dict(tensors)

    def unread_copies(self, config: ModelConfig) -> dict[str, str]:
        """Return tensors that the class saves but never reads, and the tensors they are written as copies of."""
        return {}

    def names_to_keep(self, names: Iterable[str], config: ModelConfig, *, body_alone: bool) -> set[str]:
        """Return those of some tensors that our model does not read but the class saves, bare or with heads."""
        if body_alone:
            return {name for name in names if self.pooled and name.startswith(f"{self.base}pooler.")}
        return set(names) & {*self.copies(config), *self.constants_in_class(config, 1)}

    def keys_from(self, names: Iterable[str]) -> dict[str, Any]:
        """Return their keys that depend on which tensors a folder holds."""
        return {}

    def constants(self, config: ModelConfig, vocab_size: int) -> dict[str, Tensor]:
        """Return constant tensors that the class saves and our model lacks; a file's own may differ by rounding."""
        return {}

    def names(self, config: ModelConfig) -> Mapping[str, str | Slice | Reshaped]:
        """Return our modules, or complete parameter names, and theirs; `modules` unless a switch changes names."""
        return self.modules

    def targets(self, config: ModelConfig, ours: Iterable[str]) -> dict[str, Target]:
        """Return where our parameters are stored in theirs; raise a WeightsError for one that the map does not know."""
        names, task = self.names(config), self.task(config)
        if task is None:
            return {name: self._target(name, names) for name in ours}
        targets = {name: self._target(name, {**names, **task[1].modules(task[0])}) for name in ours}
        return {name: target._replace(name=self._in_task(target.name, config)) for name, target in targets.items()}

    def _in_task(self, name: str, config: ModelConfig) -> str:
        """Return the name of a tensor of the body in the class with the model's task head."""
        task = self.task(config)
        before, now = task[1].body if task else ("", "")
        own = task is not None and name.rpartition(".")[0] in task[1].modules("").values()
        return now + name.removeprefix(before) if name.startswith(before) and not own else name

    def ties_in_class(self, config: ModelConfig) -> dict[str, str]:
        """Return `ties` by the names in the class with the model's heads."""
        return {self._in_task(copy, config): self._in_task(name, config) for copy, name in self.ties(config).items()}

    def copies(self, config: ModelConfig) -> dict[str, str]:
        """Return `unread_copies` of the class with the model's heads; those with task heads lack the projection."""
        return {} if self.task(config) else self.unread_copies(config)

    def constants_in_class(self, config: ModelConfig, vocab_size: int) -> dict[str, Tensor]:
        """Return `constants` of the class with the model's heads."""
        return {} if self.task(config) else self.constants(config, vocab_size)

    def _target(self, name: str, names: Mapping[str, str | Slice | Reshaped]) -> Target:
        numbers = _LAYER.findall(name)
        template = _LAYER.sub("{i}", name)
        module, _, kind = template.rpartition(".")
        is_complete = template in names
        if (theirs := names.get(template if is_complete else module)) is None:
            raise WeightsError(f"{name}: a model of type {self.model_type} has no such parameter")
        text, part, of, groups, sizes = theirs if isinstance(theirs, Slice) else (theirs, 0, 1, 1, ())
        text, shape = text if isinstance(text, Reshaped) else (text, None)
        turned = kind == "weight" and f".{text}".endswith(tuple(f".{end}" for end in self.transposed))
        text = text.replace("{i}", numbers[0]) if numbers else text
        return Target(text if is_complete else f"{text}.{kind}", part, sizes or (1,) * of, groups, turned, shape)

    def renaming(self, expected: Mapping[str, Any], config: ModelConfig) -> Renaming:
        """Return the mapping from the names of a file, legacy ones included, to those of `expected`."""
        known = {*expected, *self.ties_in_class(config), *self.copies(config)}
        return Renaming(known, self.base, self.other_prefixes, self.left_out, self.buffers, self.other_names)
