"""Task heads in the classes of transformers: their tensors and their keys of config.json."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

from clozeline.errors import ConfigurationError
from clozeline.extension_list import HIDE
from clozeline.model.checkpoints.checkpoint import Checkpoint
from clozeline.model.configuration.head import (
    ClassifierOptions,
    default_labels,
    module_name,
)
from clozeline.model.registries import HEADS


@cache
def endings() -> Mapping[str, str]:
    """Return the ending of the transformers class for each of our heads that declares one."""
    classes = HEADS.classes()
    return {
        name: head_class.class_ending
        for name, head_class in classes.items()
        if head_class.class_ending and "class_ending" in vars(head_class)
    }


def heads_of(ending: str) -> list[str]:
    """Return the heads that a class of transformers may have, the usual one first."""
    return [head for head, class_ending in endings().items() if class_ending == ending]


class TaskHeadNames(NamedTuple):
    """A task head in the classes of one model type."""

    out: str
    """name of the linear map onto the classes"""
    dense: str | None = None
    """name of the linear map before `out`"""
    norm: str | None = None
    """name of the norm after `dense`"""
    options: Mapping[str, Any] = {}
    """keys of our head that every such model has"""
    dropout: str | None = None
    """key of the dropout before the classes; None: the body's dropout, or none"""
    default_dropout: float | None = None
    """dropout if config.json lacks the key `dropout`; None: the body's dropout"""
    twice: bool = False
    """whether the same dropout is also applied before `dense`"""
    body: tuple[str, str] = ("", "")
    """start of the body's tensor names in other classes, and in this class"""
    suffix: str = ""
    """end of the class's name, after the ending that classes of this task have"""

    def modules(self, head: str) -> dict[str, str]:
        """Return our modules, each with its name in the transformers class."""
        parts = {"out": self.out, "dense": self.dense, "norm": self.norm}
        return {f"heads.{head}.classifier.{part}": name for part, name in parts.items() if name}


def read_head(
    ending: str, task: TaskHeadNames, config_json: Mapping[str, Any], hidden_dropout: float
) -> tuple[str, dict[str, Any]]:
    """Return the name of our head and its keys, from the type's table and config.json.

    Raises:
        ConfigurationError: labels are not numbered from 0, or the loss is not supported.
    """
    options: dict[str, Any] = {"weight": 1.0, **task.options}

    if task.dropout is not None:
        options["dropout"] = config_json.get(task.dropout, task.default_dropout)
        if task.twice:
            options["input_dropout"] = (
                hidden_dropout if options["dropout"] is None else options["dropout"]
            )
    # several of our heads have the same class: labels and problem type decide between them
    for name in heads_of(ending):
        keys = HEADS.load_class(name).keys_of_class(
            partial(label_names, config_json), config_json.get("problem_type")
        )
        if keys is not None:
            return name, options | keys

    if not heads_of(ending) and (hidden := {*HEADS.find_hidden().values()}):
        raise ConfigurationError(
            f"config.json: architectures: no head of {ending} is there: {HIDE} hides "
            f"{', '.join(sorted(hidden))}, leave it out there"
        )

    raise ConfigurationError(
        f"config.json: problem_type: no head of {ending} supports "
        f"{config_json.get('problem_type')!r}"
    )


def write_head(
    task: TaskHeadNames, head: ClassifierOptions, hidden_dropout: float
) -> dict[str, object]:
    """Return the keys of config.json that describe a head."""
    keys: dict[str, object] = {}
    if task.dropout is not None:
        inherited = None if task.default_dropout is None else hidden_dropout
        keys[task.dropout] = inherited if head.dropout is None else head.dropout
    if head.class_count:
        keys |= label_keys(head.labels or default_labels(head.class_count))
    if head.problem_type is not None:
        keys["problem_type"] = head.problem_type
    return keys


def fold_heads(checkpoint: Checkpoint) -> Checkpoint:
    """Return the model with heads as classes have them; see `Head.in_class`.

    A head that extends one of ours, and has its scores, becomes that one.
    """
    heads = {}
    tensors = dict(checkpoint.tensors)
    for name, options in checkpoint.config.heads.items():
        own = HEADS.load_class(name)
        kind: Any = next(each for each in reversed(own.__mro__) if "target" in vars(each))
        has_others = (kind.logits, kind.scores) != (own.logits, own.scores)
        if has_others or kind.key() in checkpoint.config.heads:
            kind = own
        place = f"heads.{module_name(kind.key())}."
        tensors = {
            key.replace(f"heads.{module_name(name)}.", place): tensor
            for key, tensor in tensors.items()
        }
        heads[kind.key()], changed = kind.in_class(options, tensors, place)
        tensors |= changed
    return replace(checkpoint, config=replace(checkpoint.config, heads=heads), tensors=tensors)


def label_note(config_json: Mapping[str, Any]) -> list[str]:
    """Return a note if label2id is not the reverse of id2label."""
    if "id2label" not in config_json or "label2id" not in config_json:
        return []
    if config_json["label2id"] == {
        label: int(number) for number, label in config_json["id2label"].items()
    }:
        return []
    return ["label2id of config.json was not read: it is not the reverse of id2label"]


def label_keys(labels: tuple[str, ...]) -> dict[str, object]:
    """Return the keys of config.json that name the labels."""
    names = {str(number): label for number, label in enumerate(labels)}
    return {"id2label": names, "label2id": {label: number for number, label in enumerate(labels)}}


def label_names(config_json: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the labels of config.json, in order.

    Raises:
        ConfigurationError: labels are not numbered from 0.
    """
    names = config_json.get("id2label")
    if names is None:
        return default_labels(int(config_json.get("num_labels", 2)))
    if not isinstance(names, Mapping) or sorted(map(str, names)) != sorted(
        map(str, range(len(names)))
    ):
        raise ConfigurationError(
            f"config.json: id2label: expected names of the numbers 0, 1, 2 ..., got {names!r}"
        )
    return tuple(str(names[str(number)]) for number in range(len(names)))
