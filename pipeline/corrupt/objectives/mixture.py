"""Mixture: apply one of several objectives to each sample (UL2, UniLM)."""

from collections.abc import Mapping
from dataclasses import field
from operator import itemgetter
from typing import Annotated, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.columns import Feature
from clozeline.configuration.config import config_class
from clozeline.pipeline.corrupt.config import NamedObjective, inline_options
from clozeline.pipeline.corrupt.objectives import Objective, RandomKeys, Skip
from clozeline.pipeline.group.groupings import GroupingSpec, MinimumRow
from clozeline.pipeline.group.groupings._grouping import MOST_PARTS
from clozeline.pipeline.kernels.rates import shares
from clozeline.pipeline.registries import OBJECTIVES
from clozeline.pipeline.row_form import RowForm, join_forms
from clozeline.pipeline.rows import Example, ExampleBatch, Ragged, Sample, SampleBatch, ShardRow
from clozeline.pipeline.vocabulary import Vocabulary

# Heads that read one label per row from a separate column, which parts may lack.
_ROW_HEADS: Final = frozenset({"sentence"})
# Columns of labels; a batch has the labels of one of them, or every next token.
_LABELS: Final = frozenset({"target_ids", "label_positions", "prediction_order"})
# Facts of rows that cannot differ within a batch.
_BATCH_FACTS: Final = {"padding_side", "decoder_start", "predict_from", "restarts_segments"}


@config_class
class PartEntry(NamedObjective):
    """One part of a mixture; the options of its objective are keys of the same mapping."""

    weight: Annotated[float, Field(gt=0)] = 1.0
    """share of the samples, relative to the other parts"""


def _ul2() -> list[PartEntry]:
    """Return UL2's R, X and S denoisers with 512 tokens of input and of target.

    See arXiv 2205.05131, table 1.
    """
    # noise density and mean span length of each span denoiser
    spans = {
        "R1": (0.15, 3.0),
        "R2": (0.15, 8.0),
        "X1": (0.5, 3.0),
        "X2": (0.5, 8.0),
        "X3": (0.15, 64.0),
        "X4": (0.5, 64.0),
    }

    parts = [
        PartEntry(
            label=label,
            objective=OBJECTIVES.resolve(
                {
                    "name": "span_corruption",
                    "mode": label[0],
                    "noise_density": density,
                    "mean_noise_span_length": mean,
                    "target_length": 512,
                }
            ),
        )
        for label, (density, mean) in spans.items()
    ]

    suffix = {
        "name": "prefix_lm",
        "architecture": "encoder_decoder",
        "mode": "S",
        "suffix_rate": 0.25,
    }

    return [*parts, PartEntry(label="S", objective=OBJECTIVES.resolve(suffix))]


class Mixture(Objective):
    """One of several objectives for each sample: UL2 (arXiv 2205.05131), UniLM (arXiv 1905.03197).

    The grouping draws the part of a sample from its uid, and cuts the sample to the length of this
    part. The column `part` stores its index. The label of a part keys its draws. All parts share
    architecture, batch layout, grouping, heads and place of labels; some may also label sentence
    pairs (`sentence`). An example has the features of all parts; a feature that its part lacks is
    empty. The default is UL2's seven parts with equal weights.

    Prompts and exported tokenizers put the special tokens around a text that all parts have: write
    a mode token of one part into the text. Scores read a text as rows of the first part that
    prepares them.

    Example (span_corruption in mode R, part 0; prefix_lm in mode S, part 1; x = The puppies are
    frolicking outside):
        part 0  <R> The puppies <extra_0> outside </s>  ->  <extra_0> are frolicking </s>
        part 1  <S> The puppies are frolicking </s>     ->  outside </s>
    """

    draws_by_label = False
    architectures = ("encoder_decoder", "decoder", "encoder")
    heads: ClassVar[tuple[str, ...]] = ("lm", "masked_lm", "sentence")

    @config_class
    class Options:
        parts: Annotated[
            list[Annotated[PartEntry, inline_options(PartEntry)]],
            Field(min_length=1, max_length=MOST_PARTS),
        ] = field(default_factory=_ul2)
        """Objectives with their options, `label` and `weight`"""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        super().__init__(options, vocabulary, label)
        self.parts = [self._build(entry, vocabulary) for entry in options.parts]
        self.reads_words = any(part.reads_words for part in self.parts)
        labels = [part.label for part in self.parts]
        if len(set(labels)) < len(labels):
            raise self.refuse_options(
                f"parts {labels}: give each part another `label`, because it keys the draws"
            )

        # refuse parts that cannot share a batch or a sample set
        first = self.parts[0]
        specs = [part.grouping for part in self.parts]
        # a batch cannot tell rows with absent weights from rows without weights
        weights = [
            any(feature.role.use == "weight" for feature in part.features) for part in self.parts
        ]
        shared: dict[str, list[object]] = {
            "architecture": [part.architecture for part in self.parts],
            "batch layout": [part.form.model_dump(include=_BATCH_FACTS) for part in self.parts],
            "heads": [
                tuple(head for head in part.heads if head not in _ROW_HEADS) for part in self.parts
            ],
            "type of loss": [
                "with weights" if weighted else "without weights" for weighted in weights
            ],
            "place of labels": [
                [feature.name for feature in part.features if feature.name in _LABELS]
                or "the next tokens"
                for part in self.parts
            ],
            "grouping": [(spec.name, spec.separator, spec.options) for spec in specs],
        }

        for property_name, values in shared.items():
            for part, value in zip(self.parts, values, strict=True):
                if value != values[0]:
                    raise self.refuse_options(
                        f"parts must share one {property_name}: '{first.label}' has {values[0]}, "
                        f"'{part.label}' has {value}"
                    )

        # one grouping for all parts, which draws the part of each row
        lengths = [spec.length for spec in specs]
        self.architecture = first.architecture
        if all(part.shares == first.shares for part in self.parts):
            self.shares = first.shares
        self.draws_evenly = all(part.draws_evenly for part in self.parts)
        heads = dict.fromkeys(head for part in self.parts for head in part.heads)
        self.heads = tuple(heads)  # type: ignore[misc]
        self.minimum = MinimumRow(
            min(p.minimum.tokens for p in self.parts), min(p.minimum.sentences for p in self.parts)
        )
        rates = shares([entry.weight for entry in options.parts])
        mixed = (("parts", tuple(zip(lengths, rates, strict=True))),) if len(lengths) > 1 else ()
        grouping_options = tuple(sorted((*specs[0].options, *mixed), key=itemgetter(0)))
        self.grouping = GroupingSpec(
            specs[0].name, max(lengths), specs[0].separator, grouping_options
        )

        # the features of all parts, in order of first appearance
        features: dict[str, Feature] = {}

        for feature in (feature for part in self.parts for feature in part.features):
            known = features.setdefault(feature.name, feature)
            if (known.dtype, known.role) != (feature.dtype, feature.role):
                raise self.refuse_options(
                    f"parts disagree on the feature '{feature.name}': {known} and {feature}"
                )

        self.features = tuple(features.values())

    @property
    def form(self) -> RowForm:
        return join_forms([part.form for part in self.parts])

    @property
    def reads_sentences(self) -> bool:
        return any(part.reads_sentences for part in self.parts)

    def longest_example(self, content: int) -> int:
        return max(part.longest_example(min(content, part.content_length)) for part in self.parts)

    def _build(self, entry: PartEntry, vocabulary: Vocabulary) -> Objective:
        if entry.objective.type is Mixture:
            raise self.refuse_options(
                "a mixture cannot be a part of a mixture; list its parts instead"
            )

        part: Objective = entry.build(vocabulary)

        if any(name == "parts" or name == "sources" for name, _ in part.grouping.options):
            raise self.refuse_options(
                f"part '{part.label}' consists of parts itself; list those instead"
            )

        if any(feature.name == "document_starts" for feature in part.features):
            raise self.refuse_options(
                f"part '{part.label}': a part of a mixture cannot have cross_documents: false"
            )

        return part

    def _rows(self, samples: SampleBatch) -> list[NDArray[np.intp]]:
        """Return the row indices of each part."""
        of_part = samples.fixed["part"]
        if len(of_part) and int(of_part.max()) >= len(self.parts):
            raise ValueError(
                f"objective '{self.label}': a sample names part {int(of_part.max())}, but there "
                f"are {len(self.parts)} parts; group the samples for this mixture"
            )
        return [np.flatnonzero(of_part == part) for part in range(len(self.parts))]

    def add_skip_reasons(self, samples: SampleBatch, skips: NDArray[np.uint8]) -> NDArray[np.uint8]:
        for part, rows in zip(self.parts, self._rows(samples), strict=True):
            chosen = rows[skips[rows] == Skip.NONE]
            if len(chosen):
                skips[chosen] = part.skip_codes(samples.take(chosen))
        return skips

    def corrupt_rows(self, samples: SampleBatch, random_keys: RandomKeys) -> Mapping[str, Ragged]:
        """Let each part corrupt its rows, then restore the order of the rows."""
        rows = self._rows(samples)
        pieces: dict[str, list[Ragged]] = {feature.name: [] for feature in self.features}

        for part, chosen in zip(self.parts, rows, strict=True):
            part_keys = RandomKeys(
                random_keys.seed, random_keys.uids[chosen], random_keys.variants[chosen]
            )
            columns = part.make_columns(samples.take(chosen), part_keys) if len(chosen) else {}
            for feature in self.features:
                # a feature that the part lacks is empty
                dtype = (
                    self.vocabulary.id_dtype if feature.dtype == "ids" else np.dtype(feature.dtype)
                )
                empty = Ragged(np.empty(0, dtype), np.zeros(len(chosen) + 1, np.int64))
                pieces[feature.name].append(columns.get(feature.name, empty))

        order = np.argsort(np.concatenate(rows), kind="stable")
        return {name: Ragged.concatenate(columns).take(order) for name, columns in pieces.items()}

    def _part_of(self, example: Example) -> tuple[Objective, Example]:
        part = self.parts[int(example.fixed["part"])]
        return part, ShardRow(
            example.fixed, {feature.name: example[feature.name] for feature in part.features}
        )

    def add_special_tokens(self, ids: NDArray[np.generic]) -> NDArray[np.generic]:
        return self.parts[0].add_special_tokens(ids)

    def original(self, sample: Sample, example: Example) -> NDArray[np.generic]:
        part, part_example = self._part_of(example)
        return part.original(sample, part_example)

    def _restore(self, example: Example) -> NDArray[np.generic]:
        part, part_example = self._part_of(example)
        return part.restore(part_example)

    def count_unused_tokens(self, samples: SampleBatch, examples: ExampleBatch) -> int:
        pairs = zip(self.parts, self._rows(samples), strict=True)
        return sum(
            part.count_unused_tokens(samples.take(rows), examples.take(rows))
            for part, rows in pairs
        )

    def tally(self, examples: ExampleBatch) -> dict[str, object]:
        parts = np.bincount(examples.fixed["part"], minlength=len(self.parts)).tolist()
        return {"parts": {part.label: rows for part, rows in zip(self.parts, parts, strict=True)}}
