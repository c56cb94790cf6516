"""Score words as the answers of prompts, by a model as its training prepared it.

A prompt and a word are encoded as one text, so that the word gets the tokens it has in that text.
Blanks before the word belong to it: moving one across the boundary changes nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, get_args

from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.extensions.evaluation.prompting.template import LabelPrompt
from clozeline.model.build import Model
from clozeline.model.scoring.batches import TOKENS
from clozeline.model.scoring.causal import answer_log_likelihoods, log_likelihoods
from clozeline.model.scoring.masked import pseudo_log_likelihoods
from clozeline.pipeline.row_form import PartForm
from clozeline.pipeline.shards.manifest import ObjectiveRecord
from clozeline.pipeline.tokenize.tokenizers import Encoding, Tokenizer
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


class Scorer(Protocol):
    """A way to score words with a model."""

    def candidate(self, prompt: LabelPrompt, word: str) -> Candidate:
        """Encode a word in its prompt."""
        ...

    def scores(self, candidates: Sequence[Candidate]) -> list[Tensor]:
        """Return the natural log-probability of each token of each word, fp64."""
        ...


class Causal:
    """Scores a word as the continuation of the prompt; what follows it is not read."""

    def __init__(
        self, model: Model, tokenizer: Tokenizer, head: tuple[int, ...], tokens: int = TOKENS
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._tokens = tokens
        self._head = head

    def candidate(self, prompt: LabelPrompt, word: str) -> Candidate:
        """Encode a word after its prompt."""
        text = prompt.before + word
        encoding = self._tokenizer.encode([text])[0]
        positions = [
            token + len(self._head) for token in _word_tokens(text, prompt, word, encoding)
        ]
        if not positions[0]:
            raise ConfigurationError(
                "example: expected text before {label}: nothing precedes the word"
            )
        return Candidate((*self._head, *encoding.ids.tolist()), tuple(positions))

    def scores(self, candidates: Sequence[Candidate]) -> list[Tensor]:
        """Return the log-probability of each token of the words."""
        rows = [candidate.ids for candidate in candidates]
        log_probabilities = log_likelihoods(self._model, rows, tokens=self._tokens)
        return [
            row[[position - 1 for position in candidate.positions]]
            for row, candidate in zip(log_probabilities, candidates, strict=True)
        ]


class Cloze:
    """Scores a word masked in a text that continues after it (arXiv 2001.07676).

    `previous`: a token is predicted at the previous position.
    """

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        masks: Masks,
        *,
        previous: bool = False,
        tokens: int = TOKENS,
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._masks = masks
        self._previous = previous
        self._tokens = tokens
        names = ("cls", "sep", "mask")
        self._cls, self._sep, self._mask = (
            tokenizer.vocabulary.id_of(name, "a cloze prompt") for name in names
        )

    def candidate(self, prompt: LabelPrompt, word: str) -> Candidate:
        """Encode a word between its texts, with special tokens."""
        text = f"{prompt.before}{word}{prompt.after}"
        encoding = self._tokenizer.encode([text])[0]
        positions = tuple(token + 1 for token in _word_tokens(text, prompt, word, encoding))
        return Candidate((self._cls, *encoding.ids.tolist(), self._sep), positions)

    def scores(self, candidates: Sequence[Candidate]) -> list[Tensor]:
        """Return the log-probability of each token of the words."""
        positions = [candidate.positions for candidate in candidates]
        independent = (
            [[[*scored]] * len(scored) for scored in positions]
            if self._masks == "independent"
            else None
        )

        return pseudo_log_likelihoods(
            self._model,
            [candidate.ids for candidate in candidates],
            positions,
            self._mask,
            words=[[0] * len(scored) for scored in positions],
            masked=independent,
            previous=self._previous,
            tokens=self._tokens,
        )


class Answer:
    """Score a word as the output of an encoder-decoder.

    The word comes after the prompt, or instead of a sentinel.

    A span-corruption model reads the text with a sentinel instead of the word, and generates the
    sentinel and the word. Any other model reads the prompt, and generates the word and the end
    token, which counts as one of its tokens.
    """

    def __init__(
        self,
        model: Model,
        tokenizer: Tokenizer,
        label: str,
        form: PartForm,
        tokens: int = TOKENS,
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._tokens = tokens
        vocabulary = tokenizer.vocabulary
        self._end = vocabulary.id_of("eos", label)
        self._form = form
        self._sentinel = vocabulary.sentinels[0] if form.has_sentinels else None

        if not isinstance(form.decoder_start, int):
            raise ConfigurationError(
                f"{label}: its rows have no separate token that the decoder reads first"
            )

        self._start = form.decoder_start

    def candidate(self, prompt: LabelPrompt, word: str) -> Candidate:
        """Encode a prompt for the encoder, and a word for the decoder."""
        if self._sentinel is None:
            sides = self._tokenizer.encode([prompt.before.rstrip(), word.strip()])
            source, answer = (encoding.ids.tolist() for encoding in sides)
            if not answer:
                raise ConfigurationError(f"labels: the tokenizer has no token for '{word}'")
            return Candidate(
                self._add_special_tokens(source),
                tuple(range(len(answer) + 1)),
                (*answer, self._end),
            )

        text = f"{prompt.before}{word}{prompt.after}"
        encoding = self._tokenizer.encode([text])[0]
        positions = _word_tokens(text, prompt, word, encoding)
        ids = encoding.ids.tolist()
        source = [*ids[: positions[0]], self._sentinel, *ids[positions[-1] + 1 :]]
        answer = [self._sentinel, *(ids[token] for token in positions)]
        return Candidate(
            self._add_special_tokens(source), tuple(range(1, len(answer))), tuple(answer)
        )

    def _add_special_tokens(self, source: Sequence[int]) -> tuple[int, ...]:
        return (*self._form.head, *source, *self._form.tail)

    def scores(self, candidates: Sequence[Candidate]) -> list[Tensor]:
        """Return the log-probability of each token of the words."""
        rows = [candidate.ids for candidate in candidates]
        answers = [candidate.answer for candidate in candidates]
        log_probabilities = answer_log_likelihoods(
            self._model, rows, answers, self._start, tokens=self._tokens
        )
        return [
            row[list(candidate.positions)]
            for row, candidate in zip(log_probabilities, candidates, strict=True)
        ]


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
        mode: (objective.label, form)
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
    label, form = ready[chosen]
    model = trained.model
    tokenizer = trained.tokenizer
    if chosen == "causal":
        return Causal(model, tokenizer, form.before_text, tokens), chosen
    if chosen == "answer":
        return Answer(model, tokenizer, label, form, tokens), chosen
    previous = form.predict_from == "previous"
    return Cloze(model, tokenizer, masks, previous=previous, tokens=tokens), chosen
