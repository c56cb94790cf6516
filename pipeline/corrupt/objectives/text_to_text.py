"""Text-to-text tasks: read a source text in a template, write a target text (T5)."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Annotated, Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.arrays import Int64
from clozeline.columns import IDS, UNDO, Feature
from clozeline.configuration.config import Positive, config_class
from clozeline.errors import TokenizerMissingError
from clozeline.pipeline.corrupt.objectives import Objective, RandomKeys, Skip
from clozeline.pipeline.corrupt.objectives._denoising import SourceHead
from clozeline.pipeline.group.groupings import GroupingSpec, MinimumRow
from clozeline.pipeline.group.groupings._grouping import MOST_PARTS
from clozeline.pipeline.kernels.ragged import add_special_tokens, scalars
from clozeline.pipeline.kernels.rates import shares_to_keep, task_weights
from clozeline.pipeline.kernels.sampling import offsets_of
from clozeline.pipeline.rows import Example, Ragged, Sample, SampleBatch, segments
from clozeline.pipeline.tokenize.tokenizers import load_tokenizer
from clozeline.pipeline.vocabulary import Vocabulary

_SOURCE_FIELD: Final = "{source}"


@config_class
class TextToTextTask:
    """One task: the pairs of one input."""

    source: str | None = None
    """`source` of the input that has the pairs; none, for a single task: all pairs"""
    template: str = _SOURCE_FIELD
    """text around the placeholder `{source}`: `Translate from Chinese to English: {source}`"""
    examples: Positive | None = None
    """number of pairs of the input, which determines the task's rate; none, for all tasks: use all
    pairs"""
    weight: Annotated[float, Field(gt=0)] | None = None
    """rate of the task relative to others, instead of the rate that follows from `examples`"""

    def __post_init__(self) -> None:
        if self.template.count(_SOURCE_FIELD) != 1:
            raise ValueError(f"template {self.template!r}: expected {_SOURCE_FIELD} once")
        if self.weight is not None and self.examples is None:
            raise ValueError(
                "weight needs `examples`: the share of pairs to take is the rate divided by their "
                "number"
            )


class TextToText(Objective):
    """Text-to-text tasks of T5 (arXiv 1910.10683 §2.4, §3.5.2): source in a template, and target.

    Nothing is corrupted. If tasks have `examples`, the rate of a task is min(examples, cap) to the
    power of 1 / temperature, or its `weight`. To reach these rates, pairs are dropped by their uid;
    the task with the highest rate per pair keeps all of its pairs. The template is tokenized
    separately and never truncated. Features: `input_ids` and `target_ids`, each with `</s>`, and
    `task`.

    Example (template `Translate from Chinese to English: {source}`):
        input   Translate from Chinese to English: 你好! </s>
        target  Hello! </s>
    """

    architectures = ("encoder_decoder",)
    heads = ("lm",)
    min_redrawn_share = 0.0
    minimum = MinimumRow(tokens=1)

    @config_class
    class Options:
        tasks: Annotated[list[TextToTextTask], Field(min_length=1, max_length=MOST_PARTS)] = field(
            default_factory=lambda: [TextToTextTask()]
        )
        """Tasks, one for each input"""
        input_length: Annotated[int, Field(ge=2)] = 512
        """Most tokens in an input, template and `</s>` included; longer sources are truncated."""
        target_length: Annotated[int, Field(ge=2)] = 512
        """Most tokens in a target, `</s>` included; pairs with longer targets are skipped."""
        cap: Positive = 1 << 19
        """Most examples of a task that count for its rate."""
        temperature: Annotated[float, Field(ge=1)] = 1.0
        """1: rates proportional to examples; higher: more equal rates (T5: 2 with a cap of
        2,097,152)."""
        source_head: SourceHead = "none"
        """Special token in front of the input, before the template."""
        decoder_start: Literal["pad", "bos", "eos", "cls"] = "pad"
        """First token of the decoder's input; added when batches are built, never stored."""

        def __post_init__(self) -> None:
            sources = [task.source for task in self.tasks]
            if len(sources) > 1 and (None in sources or len(set(sources)) < len(sources)):
                raise ValueError(
                    f"tasks of the sources {sources}: with several tasks, each needs another source"
                )
            if any(
                len({getattr(task, key) is None for task in self.tasks}) > 1
                for key in ("examples", "weight")
            ):
                raise ValueError("give `examples`, and `weight`, to all tasks or to none")

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self._eos = self.last_token = self.id_of("eos")
        self.decoder_start = self.id_of(options.decoder_start)

        # the tokens of each template, the head in front, and the most tokens of a source in it
        if options.source_head != "none":
            self.front = (self.id_of(options.source_head),)
        self._templates = self._encode(
            [part for task in options.tasks for part in task.template.split(_SOURCE_FIELD)]
        )
        template_tokens = self._templates.lengths.reshape(-1, 2).sum(axis=1)
        self._lengths = options.input_length - 1 - template_tokens

        for task, tokens, length in zip(options.tasks, template_tokens, self._lengths, strict=True):
            if length < 1:
                raise self.refuse_options(
                    f"the template {task.template!r} has {tokens} tokens and fills input_length "
                    f"{options.input_length}; raise it, or shorten the template"
                )

        # the grouping cuts sources and takes the share of each task
        longest = self.make_grouping("parallel", max(2, int(self._lengths.max()))).length
        grouping: dict[str, object] = {
            "length": longest,
            "cut": "source",
            "target_length": options.target_length - 1,
        }

        if options.tasks[0].source is not None:
            names = [task.source for task in options.tasks]
            grouping["sources"] = list(
                zip(names, self._lengths.tolist(), self.shares_to_take(), strict=True)
            )

        self.grouping = GroupingSpec.of("parallel", grouping)

        self.features = (
            Feature("input_ids", "ids", IDS, "template and source, </s>"),
            Feature("target_ids", "ids", IDS, "target, </s>"),
            Feature("task", "uint16", UNDO, "index of the task in the configuration"),
        )

    def shares_to_take(self) -> tuple[int, ...]:
        """Return the share of each task's pairs that are used, in parts per million."""
        options = self.options
        weights = [task.weight for task in options.tasks if task.weight is not None]
        counts = [task.examples or 1 for task in options.tasks]
        return shares_to_keep(
            task_weights(counts, options.cap, options.temperature, weights), counts
        )

    def _encode(self, texts: list[str]) -> Ragged:
        ids: list[Sequence[int]] = [[] for _ in texts]
        if any(texts):
            if self.vocabulary.folder is None:
                missing = "a template needs a tokenizer, but this vocabulary was loaded without one"
                raise self.refuse_options(missing, TokenizerMissingError)
            encoded = load_tokenizer(self.vocabulary.folder).encode(texts)
            ids = [
                encoding.ids.tolist() if text else []
                for text, encoding in zip(texts, encoded, strict=True)
            ]
        ids[::2] = [[*self.front, *before] for before in ids[::2]]
        return Ragged.from_lists(ids, self.vocabulary.id_dtype)

    def _tasks(self, samples: SampleBatch) -> Int64:
        if len(self.options.tasks) == 1:
            return np.zeros(len(samples), np.int64)
        return samples.fixed["part"].astype(np.int64)

    def add_skip_reasons(self, samples: SampleBatch, skips: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Skip pairs without a target, and pairs with a source or target that is too long."""
        sources = samples.columns["ids"].lengths
        targets = samples.columns["target_ids"].lengths
        skips[(skips == Skip.NONE) & (targets == 0)] = Skip.EMPTY
        long = (sources > self._lengths[self._tasks(samples)]) | (
            targets >= self.options.target_length
        )
        skips[(skips == Skip.NONE) & long] = Skip.TOO_LONG
        return skips

    def corrupt_rows(self, samples: SampleBatch, random_keys: RandomKeys) -> Mapping[str, Ragged]:
        """Add templates and special tokens; nothing is random."""
        tasks = self._tasks(samples)
        ids = samples.columns["ids"]
        inputs = add_special_tokens(ids, None, self._eos)
        if len(self._templates.values):
            inputs = self._fill_templates(inputs, tasks)
        targets = add_special_tokens(samples.columns["target_ids"], None, self._eos)
        return {"input_ids": inputs, "target_ids": targets, "task": scalars(tasks, np.uint16)}

    def _fill_templates(self, rows: Ragged, tasks: Int64) -> Ragged:
        """Put each source into its template; `</s>` stays last."""
        # four pieces per row: template before, source, template after, </s>
        pool = np.concatenate((rows.values, self._templates.values))
        begins = len(rows.values) + self._templates.offsets[:-1].reshape(-1, 2)[tasks]
        sizes = self._templates.lengths.reshape(-1, 2)[tasks]
        starts = np.stack(
            (begins[:, 0], rows.offsets[:-1], begins[:, 1], rows.offsets[1:] - 1), axis=1
        )
        lengths = np.stack(
            (sizes[:, 0], rows.lengths - 1, sizes[:, 1], np.ones_like(tasks)), axis=1
        )
        return Ragged(
            segments(pool, starts.reshape(-1), lengths.reshape(-1)), offsets_of(lengths.sum(axis=1))
        )

    def original(self, sample: Sample, example: Example) -> NDArray[np.generic]:
        return np.concatenate(
            (self.add_special_tokens(sample["ids"]), self.add_special_tokens(sample["target_ids"]))
        )

    def _restore(self, example: Example) -> NDArray[np.generic]:
        """Remove the template; check that it and `</s>` are there."""
        task = int(example["task"][0])
        inputs = example["input_ids"]
        targets = example["target_ids"]
        if not 0 <= task < len(self.options.tasks):
            raise ValueError(f"task {task} of {len(self.options.tasks)} does not exist")
        before = self._templates[2 * task]
        after = self.add_special_tokens(self._templates[2 * task + 1])
        source = inputs[len(before) : len(inputs) - len(after)]
        fits = np.array_equal(np.concatenate((before, source, after)), inputs)
        if not fits or targets[-1:].tolist() != [self._eos]:
            raise ValueError(f"expected the template of task {task}, and </s> in both texts")
        return np.concatenate((self.add_special_tokens(source), targets))
