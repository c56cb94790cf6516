"""The classes of transformers of a model type: their names and their heads."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from clozeline.extensions.published.conversion.tables import HeadedClass
from clozeline.extensions.published.conversion.task_heads import TaskHeadNames, endings, heads_of
from clozeline.model.configuration.model_config import ModelConfig

_AUTO: Final = {
    "LMHeadModel": "ForCausalLM",
    **dict.fromkeys(("WithLMHeadModel", "LMHead"), "ForMaskedLM"),
    **dict.fromkeys(("ForConditionalGeneration", "MTModel"), "ForSeq2SeqLM"),
}
"""Endings of auto classes that differ from the ending of the class that they load."""


@dataclass(frozen=True)
class Classes:
    """The classes of a model type."""

    prefix: str
    """start of the names of the classes, such as `Bert`"""
    head_classes: Mapping[tuple[str, ...], str] = field(
        default_factory=lambda: {("lm",): "ForCausalLM"}
    )
    """endings of the classes with pretraining heads, by these heads; the usual class first"""
    base_class: str | None = "Model"
    """ending of the class without heads; None: no class is an encoder by itself"""
    tasks: Mapping[str, TaskHeadNames] = field(default_factory=dict)
    """task heads, by the ending of the class: `ForSequenceClassification`"""
    task_prefix: str | None = None
    """start of the names of the classes with task heads; None: `prefix`"""
    head_tensors: Mapping[str, str] = field(default_factory=dict)
    """heads that a file may have, each with the end of a tensor name that identifies it; empty: the
    usual heads"""
    head_options: Mapping[str, Any] = field(default_factory=dict)
    """keys of the heads, in addition to their weights, that every model of the type has"""
    projections: tuple[str, ...] = ("linear",)
    """forms of our next-token head that the class supports"""
    headless: tuple[str, ...] = ()
    """heads that our model gets if no class has a pretraining head"""
    loader: str | None = None
    """auto class of the classes with pretraining heads; None: the usual one for their ending"""
    shares_layers: bool = False
    """whether the type is made for layers that share weights"""

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads of the usual class."""
        return next(iter(self.head_classes), self.headless)

    @property
    def with_heads(self) -> tuple[HeadedClass, ...]:
        """The classes with pretraining heads, the usual class first."""
        return tuple(
            HeadedClass(
                heads, f"{self.prefix}{end}", self.loader or f"AutoModel{_AUTO.get(end, end)}"
            )
            for heads, end in self.head_classes.items()
        )

    @property
    def body_class(self) -> str | None:
        """The class without heads."""
        return None if self.base_class is None else f"{self.prefix}{self.base_class}"

    def task(self, config: ModelConfig) -> tuple[str, TaskHeadNames] | None:
        """Return the only head of a model and its entry in `tasks`; None: it has no such entry."""
        (name, *others) = config.heads
        entry = self.tasks.get(endings().get(name, ""))
        return None if others or entry is None else (name, entry)

    def task_class(self, ending: str) -> HeadedClass:
        """Return the class with a task head."""
        name = f"{self.task_prefix or self.prefix}{ending}{self.tasks[ending].suffix}"
        return HeadedClass(tuple(heads_of(ending)[:1]), name, f"AutoModel{ending}")

    def task_of(self, config_json: Mapping[str, Any]) -> str | None:
        """Return the ending of the task-head class that wrote config.json, or None."""
        written = config_json.get("architectures") or [""]
        return next(
            (ending for ending in self.tasks if self.task_class(ending).name == written[0]), None
        )

    def heads_in(self, tensors: Iterable[str]) -> tuple[str, ...]:
        """Return the heads that have tensors in a file, by default those of the usual class."""
        names = tuple(tensors)
        present = [
            head
            for head, end in self.head_tensors.items()
            if any(name.endswith(end) for name in names)
        ]
        return tuple(present) or self.heads

    def find(self, heads: Iterable[str]) -> HeadedClass | None:
        """Return the class with exactly these heads, or None."""
        chosen = set(heads)
        if len(chosen) == 1 and (ending := endings().get(min(chosen), "")) in self.tasks:
            return self.task_class(ending)
        return next((headed for headed in self.with_heads if set(headed.heads) == chosen), None)
