"""Score words as the answers of prompts, by a model as its training prepared it.

A prompt and a word are encoded as one text, so that the word gets the tokens it has in that text.
Blanks before the word belong to it: moving one across the boundary changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.extensions.evaluation.prompting.template import LabelPrompt
from clozeline.model.scoring.batches import TOKENS, has_prediction_order
from clozeline.model.scoring.causal import answer_log_likelihoods, log_likelihoods
from clozeline.model.scoring.masked import permuted_log_likelihoods, pseudo_log_likelihoods
from clozeline.pipeline.row_form import PartForm
from clozeline.pipeline.shards.manifest import ObjectiveRecord
from clozeline.pipeline.tokenize.tokenizers import Encoding
from clozeline.tools.runs.inference.text_likelihoods import (
    choose_prepared,
    list_prepared_scores,
)
from clozeline.train.checkpoint.trained_model import TrainedModel

Mode: TypeAlias = Literal["cloze", "causal", "answer"]
"""cloze: a masked model fills the word in; causal: a decoder continues with it; answer: an
encoder-decoder outputs it"""
Masks: TypeAlias = Literal["left_to_right", "independent"]
"""for a word of several tokens: each token is predicted with the later ones masked, or with all of
them masked"""


@dataclass(frozen=True)
class Candidate:
    """A word in its prompt."""

    ids: tuple[int, ...]
    """token ids that the model reads; of an encoder-decoder, its encoder"""
    positions: tuple[int, ...]
    """positions of the word's tokens, in `ids` or in `answer`"""
    answer: tuple[int, ...] = ()
    """tokens that the decoder of an encoder-decoder generates"""

    @property
    def length(self) -> int:
        """Number of tokens of the longer row."""
        return max(len(self.ids), len(self.answer))


@dataclass(frozen=True)
class _ModelScorer:
    """A model, and how it scores words: `candidate` encodes one, and `scores` returns its tokens'.

    They are natural log-probabilities, fp64 [tokens] per word.
    """

    trained: TrainedModel
    form: PartForm
    """what its training rows look like"""
    masks: Masks
    tokens: int
    """maximum number of positions of a batch, which changes only the rounding"""


class Causal(_ModelScorer):
    """Scores a word as the continuation of the prompt; what follows it is not read.

    A decoder that was trained on prefixes reads the prompt in both directions.
    """

    def candidate(self, prompt: LabelPrompt, word: str) -> Candidate:
        """Encode a word after its prompt."""
        text = prompt.before + word
        encoding = self.trained.tokenizer.encode([text])[0]
        head = self.form.before_text
        positions = [token + len(head) for token in _word_tokens(text, prompt, word, encoding)]
        if not positions[0]:
            raise ConfigurationError(
                "example: expected text before {label}: nothing precedes the word"
            )
        return Candidate((*head, *encoding.ids.tolist()), tuple(positions))

    def scores(self, candidates: Sequence[Candidate]) -> list[Tensor]:
        """Return the log-probability of each token of the words."""
        prefixes = [candidate.positions[0] for candidate in candidates]
        log_probabilities = log_likelihoods(
            self.trained.model,
            [candidate.ids for candidate in candidates],
            tokens=self.tokens,
            prefixes=prefixes if self.trained.reads_prefix else (),
        )
        return [
            row[[position - 1 for position in candidate.positions]]
            for row, candidate in zip(log_probabilities, candidates, strict=True)
        ]


class Cloze(_ModelScorer):
    """Scores a word masked in a text that continues after it (arXiv 2001.07676).

    A family that predicts in a given order (XLNet) masks nothing, and predicts in that of the
    positions.
    """

    def candidate(self, prompt: LabelPrompt, word: str) -> Candidate:
        """Encode a word between its texts, with special tokens."""
        text = f"{prompt.before}{word}{prompt.after}"
        encoding = self.trained.tokenizer.encode([text])[0]
        head = self.form.head
        positions = [token + len(head) for token in _word_tokens(text, prompt, word, encoding)]
        return Candidate((*head, *encoding.ids.tolist(), *self.form.tail), tuple(positions))

    def scores(self, candidates: Sequence[Candidate]) -> list[Tensor]:
        """Return the log-probability of each token of the words."""
        model = self.trained.model
        if has_prediction_order(model):
            return [
                permuted_log_likelihoods(model, candidate.ids, candidate.positions)
                for candidate in candidates
            ]

        positions = [candidate.positions for candidate in candidates]
        independent = (
            [[[*scored]] * len(scored) for scored in positions]
            if self.masks == "independent"
            else None
        )

        return pseudo_log_likelihoods(
            model,
            [candidate.ids for candidate in candidates],
            positions,
            self.trained.tokenizer.vocabulary.id_of("mask", "a cloze prompt"),
            words=[[0] * len(scored) for scored in positions],
            masked=independent,
            previous=self.form.predict_from == "previous",
            tokens=self.tokens,
        )


class Answer(_ModelScorer):
    """Score a word as the output of an encoder-decoder.

    The word comes after the prompt, or instead of a sentinel.

    A span-corruption model reads the text with a sentinel instead of the word, and generates the
    sentinel and the word. Any other model reads the prompt, and generates the word and the end
    token, which counts as one of its tokens.
    """

    def candidate(self, prompt: LabelPrompt, word: str) -> Candidate:
        """Encode a prompt for the encoder, and a word for the decoder."""
        tokenizer = self.trained.tokenizer
        vocabulary = tokenizer.vocabulary
        if not self.form.has_sentinels:
            sides = tokenizer.encode([prompt.before.rstrip(), word.strip()])
            source, answer = (encoding.ids.tolist() for encoding in sides)
            if not answer:
                raise ConfigurationError(f"labels: the tokenizer has no token for '{word}'")
            return Candidate(
                self._add_special_tokens(source),
                tuple(range(len(answer) + 1)),
                (*answer, vocabulary.id_of("eos", "an answer")),
            )

        text = f"{prompt.before}{word}{prompt.after}"
        encoding = tokenizer.encode([text])[0]
        positions = _word_tokens(text, prompt, word, encoding)
        ids = encoding.ids.tolist()
        sentinel = vocabulary.sentinels[0]
        source = [*ids[: positions[0]], sentinel, *ids[positions[-1] + 1 :]]
        answer = [sentinel, *(ids[token] for token in positions)]
        return Candidate(
            self._add_special_tokens(source), tuple(range(1, len(answer))), tuple(answer)
        )

    def _add_special_tokens(self, source: Sequence[int]) -> tuple[int, ...]:
        return (*self.form.head, *source, *self.form.tail)

    def scores(self, candidates: Sequence[Candidate]) -> list[Tensor]:
        """Return the log-probability of each token of the words."""
        start = self.form.decoder_start
        if not isinstance(start, int):
            raise ConfigurationError(
                f"{self.trained.folder}: its rows have no separate token that the decoder reads "
                "first"
            )

        rows = [candidate.ids for candidate in candidates]
        answers = [candidate.answer for candidate in candidates]
        log_probabilities = answer_log_likelihoods(
            self.trained.model, rows, answers, start, tokens=self.tokens
        )
        return [
            row[list(candidate.positions)]
            for row, candidate in zip(log_probabilities, candidates, strict=True)
        ]


Scorer: TypeAlias = Causal | Cloze | Answer
_SCORERS: Final[dict[Mode, type[Scorer]]] = {"cloze": Cloze, "causal": Causal, "answer": Answer}


def _word_tokens(text: str, prompt: LabelPrompt, word: str, encoding: Encoding) -> list[int]:
    """Return the indices of the tokens that overlap the word and the blanks before it."""
    first = len(prompt.before.rstrip())
    end = len(f"{prompt.before}{word}".rstrip())
    starts = [*encoding.starts.tolist(), len(text)]
    # start of the next piece that does not belong to the same character
    nexts = [
        next((later for later in starts[token + 1 :] if later > start), len(text))
        for token, start in enumerate(starts[:-1])
    ]
    tokens = [
        token
        for token, (start, following) in enumerate(zip(starts, nexts, strict=False))
        if start < end and (start >= first or text[first:following].strip())
    ]
    if not tokens:
        raise ConfigurationError(
            f"labels: the tokenizer has no token for '{word}' after '{prompt.before[-20:]}'"
        )

    return tokens


def list_prepared_modes(objective: ObjectiveRecord, form: PartForm) -> tuple[Mode, ...]:
    """Return the modes that training on rows of an objective, of a form, prepares."""
    if objective.architecture == "encoder_decoder":
        return ("answer",) if "lm" in objective.heads and not form.continues_text else ()
    kinds = list_prepared_scores(objective, form)
    if "causal" in kinds:
        return ("causal",)
    return ("cloze",) if kinds else ()


def open_scorer(
    trained: TrainedModel, mode: Mode | None, masks: Masks = "left_to_right", tokens: int = TOKENS
) -> tuple[Scorer, Mode]:
    """Return a scorer of words and its mode, by default the first that the training prepared."""
    ready = {
        mode: form
        for objective in reversed(trained.objectives)
        for form in reversed(objective.frame.each)
        for mode in list_prepared_modes(objective, form)
    }

    known: list[Mode] = [mode for mode in get_args(Mode) if mode in ready]
    nothing = (
        "after which a prompt has no answer: expected a run of a masked, causal or text-to-text "
        "objective"
    )
    chosen = choose_prepared(trained, "mode", mode, known, nothing)
    return _SCORERS[chosen](trained, ready[chosen], masks, tokens), chosen
