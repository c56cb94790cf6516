"""Composition: apply several denoising corruptions to each sample in sequence (BART)."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Annotated, Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from clozeline.configuration.config import config_class, to_plain
from clozeline.pipeline.corrupt.objectives import Draws
from clozeline.pipeline.corrupt.objectives._denoising import DenoisingPair, PairOptions, TokenRows
from clozeline.pipeline.rows import ExampleBatch, Ragged
from clozeline.pipeline.vocabulary import Vocabulary
from clozeline.registry import Chosen, OneOf, choose

_OBJECTIVES: Final = "clozeline.pipeline.corrupt.objectives"


class Composition(DenoisingPair):
    """BART's combination (arXiv 1910.13461 §2.2, §5): steps in sequence; the target is the uncorrupted original.

    The name of a step keys its draws, so adding one step never changes the draws of another; rates count the tokens of
    the step's own input. A step that cannot apply (one sentence, one token) leaves the row unchanged. Features:
    `input_ids`, `target_ids`, and the noise of each step, prefixed with its name: `text_infilling_span_starts`.

    Example (order 1, 0, then the span success . Hard; without special tokens):
        target   Hard work leads to success . Success brings happiness .
        step 1   Success brings happiness . Hard work leads to success .
        input    Success brings [MASK] work leads to success .
    """

    draws_by_label: ClassVar[bool] = False

    @config_class
    class Options(PairOptions):
        steps: Annotated[list[Annotated[Chosen, OneOf(_OBJECTIVES)]], Field(min_length=1)] = field(
            default_factory=lambda: [choose(_OBJECTIVES, name) for name in ("sentence_reordering", "text_infilling")]
        )
        """Denoising objectives with their options, except those of rows and grouping: structure, then deletion or
        reordering, then masking or infilling"""

    options: Options

    def __init__(self, options: Options, vocabulary: Vocabulary, label: str | None = None) -> None:
        self.isolates = all(getattr(chosen.type, "isolates", False) for chosen in options.steps)
        super().__init__(options, vocabulary, label)
        self.steps: Sequence[DenoisingPair] = [self._step(chosen, vocabulary) for chosen in options.steps]
        names = [step.label for step in self.steps]
        ranks = [step.composition_rank for step in self.steps]
        if len(set(names)) < len(names):
            raise self.refuse_options(f"steps {names}: each may occur once")
        if ranks != sorted(ranks):
            raise self.refuse_options(
                f"steps {names} must come in the order structure, deletion or reordering, masking or infilling"
            )
        noise = [(step.label, feature) for step in self.steps for feature in step.noise_features]
        self.noise_features = tuple(replace(feature, name=f"{label}_{feature.name}") for label, feature in noise)

    def _step(self, chosen: Chosen, vocabulary: Vocabulary) -> DenoisingPair:
        if not issubclass(chosen.type, DenoisingPair) or issubclass(chosen.type, Composition):
            raise self.refuse_options(f"'{chosen.name}' is not a denoising objective and cannot be a step")
        defaults, options = to_plain(PairOptions()), to_plain(chosen.options)
        changed = sorted(key for key in defaults if options[key] != defaults[key])
        if changed:
            raise self.refuse_options(f"step '{chosen.name}': give {', '.join(changed)} to the composition, not a step")
        step: DenoisingPair = chosen.build(vocabulary, chosen.name)
        return step

    @staticmethod
    def _noise_of(step: DenoisingPair, noise: Mapping[str, Any]) -> dict[str, Any]:
        return {feature.name: noise[f"{step.label}_{feature.name}"] for feature in step.noise_features}

    def noise(self, text: TokenRows, draws: Draws) -> tuple[Ragged, dict[str, Ragged]]:
        """Run the steps, each on the ids and sentence starts of the previous one."""
        noise: dict[str, Ragged] = {}
        for step in self.steps:
            ids, step_noise = step.noise(text, draws)
            noise |= {f"{step.label}_{name}": column for name, column in step_noise.items()}
            if step is self.steps[-1]:
                return ids, noise
            documents = text.document_starts
            if documents is not None:
                documents = step.documents_after(documents, text, step_noise)
            text = TokenRows(ids, step.starts_after(text, step_noise), documents)
        raise AssertionError("a composition has steps")

    def documents_after(self, documents: Ragged, text: TokenRows, noise: Mapping[str, Ragged]) -> Ragged:
        """Return the starts after all steps; of isolating steps only the last one changes the number of tokens."""
        for step in self.steps:
            documents = step.documents_after(documents, text, self._noise_of(step, noise))
        return documents

    def tally(self, examples: ExampleBatch) -> dict[str, Any]:
        passed = {step.label: step.count_unchanged(self._noise_of(step, examples.columns)) for step in self.steps}
        return {"passed_through": {label: rows for label, rows in passed.items() if rows}}

    def starts_after(self, text: TokenRows, noise: Mapping[str, Ragged]) -> Ragged:
        raise NotImplementedError("a composition is never a step")

    def undo(self, content: NDArray[np.int64], noise: Mapping[str, NDArray[Any]], length: int) -> NDArray[np.int64]:
        for step in reversed(self.steps):
            content = step.undo(content, self._noise_of(step, noise), length)
        return content
