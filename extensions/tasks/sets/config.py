"""Options of `tasks`: a task and the layout of its rows."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from clozeline.configuration.config import Positive, config_class
from clozeline.configuration.described_keys import Common
from clozeline.extensions.tasks.registries import TaskReaderComponent
from clozeline.pipeline.text.code_switch_options import CodeSwitchConfig
from clozeline.pipeline.text.normal_form import NormalForm

if TYPE_CHECKING:  # help lists the keys without numpy
    from clozeline.extensions.tasks.readers import TaskReader
    from clozeline.pipeline.ingest.formats.limits import InputLimits
    from clozeline.pipeline.vocabulary import Vocabulary

FrameName: TypeAlias = Literal[
    "bert", "roberta", "t5", "t5_encoder", "bart", "gpt", "gpt1", "llama"
]


@config_class
class SimilarityConfig:
    """Selects the positive pairs."""

    positive: float | str | None = None
    """lowest score (4.0 in STS-B) or class (entailment in MNLI) of a positive pair. Models are
    trained on positive pairs. null: all pairs, for translations, or scores with
    `model.heads.similarity.negatives: none`"""


@config_class
class TasksConfig:
    """A task and the layout of its rows."""

    reader: Annotated[TaskReaderComponent, Common()]
    """reader of the files, and its task: {name: glue, task: sst2}"""
    frame: FrameName = "bert"
    """template of special tokens. For encoders: bert, `[CLS] a [SEP] b [SEP]` in two segments;
    roberta, `<s> a </s></s> b </s>`. For encoder-decoders: t5, `a </s> b </s>`; bart, `<s> a
    </s></s> b </s>`; t5_encoder, as t5 for its encoder alone. For decoders: gpt, `a </s> b </s>`;
    llama, `<s> a </s> b </s>`; gpt1, `<s> a [SEP] b [CLS]`"""
    normalize: NormalForm = "prose"
    """stored form of the texts, as in `clean.normalize`: `prose` composes accents and drops
    controls, blanks stay; `none` only makes valid Unicode"""
    max_length: Annotated[int, Field(ge=8, le=65_000), Common()] = 128
    """maximum tokens of a row, including special tokens; longer texts are truncated, in a pair the
    longer one first"""
    stride: Positive | None = None
    """tokens between the starts of two windows of a long text, for tagging and question answering;
    null: half of the length of a window, which is also the maximum"""
    split_off: dict[str, Annotated[float, Field(gt=0, lt=1)]] = field(default_factory=dict)
    """splits taken from the training file and their shares, for tasks without such files: {dev:
    0.1, test: 0.2}; no two splits share a document or a text"""
    disjoint: bool = False
    """reject rows of other splits that share a document or a text with a training row, as XQuAD
    does with SQuAD"""
    code_switch: CodeSwitchConfig | None = None
    """translate words of the training rows by dictionaries: {dictionaries: [en-de.txt, en-fr.txt]};
    null: none"""
    similarity: SimilarityConfig | None = None
    """encode the two texts of a pair separately, for the head similarity, and train on positive
    pairs: {positive: 4.0}; null: encode them in one row"""

    both_orders: bool = False
    """store a pair of a class or a score in both orders, whose states the head adds: GPT's rows of
    similarity tasks"""

    def __post_init__(self) -> None:
        if "train" in self.split_off or sum(self.split_off.values()) >= 1:
            raise ValueError(
                "split_off: expected splits other than train with shares below 1 in all, got "
                f"{self.split_off}"
            )

    def build_reader(self, limits: InputLimits) -> TaskReader:
        """Return the reader, whose texts are in the stored form."""
        reader: TaskReader = self.reader.build(limits)
        reader.form = self.normalize
        return reader

    def check_tokens(self, vocabulary: Vocabulary) -> None:
        """Raise ConfigurationError if the vocabulary lacks a special token of the template."""
        from clozeline.extensions.tasks.sets.task_rows import FRAMES

        FRAMES[self.frame].check(vocabulary)
