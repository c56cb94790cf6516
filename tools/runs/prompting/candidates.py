"""Words of a label in their prompt, as tokens of a row, and the log-probabilities that a model gives them.

A prompt and a word are encoded as one text, so that the word's tokens are those that it has there. Blanks before the
word belong to it: moving one across the boundary changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from torch import Tensor

from clozeline.errors import ConfigurationError
from clozeline.model.build import Model
from clozeline.model.scoring.answers import answer_log_likelihoods
from clozeline.model.scoring.batches import TOKENS
from clozeline.model.scoring.causal import log_likelihoods
from clozeline.model.scoring.masked import log_likelihoods_under_masks, positions_to_mask
from clozeline.pipeline.shards.manifest import ObjectiveFacts
from clozeline.pipeline.tokenize.tokenizers import Encoding, Tokenizer
from clozeline.tools.runs.prompting.template import Prompt

Masks: TypeAlias = Literal["left_to_right", "independent"]
"""of a word of several tokens: each is predicted with the later ones masked, or with all of them masked"""


@dataclass(frozen=True)
class Candidate:
    """A word in its prompt."""

    ids: tuple[int, ...]
    """tokens that the model reads; of an encoder-decoder, the encoder"""
    places: tuple[int, ...]
    """of the word's tokens, in `ids`, or in `answer`"""
    answer: tuple[int, ...] = ()
    """tokens that the decoder of an encoder-decoder writes"""

    @property
    def length(self) -> int:
        """Tokens of the longer row."""
        return max(len(self.ids), len(self.answer))


class Scorer(Protocol):
    """A way to ask a model for a word."""

    def candidate(self, prompt: Prompt, word: str) -> Candidate:
        """Return a word in its prompt."""
        ...

    def scores(self, candidates: Sequence[Candidate]) -> list[Tensor]:
        """Return the natural log-probability of each token of each word, fp64."""
        ...


class Causal:
    """The word continues the prompt; what follows it is not read.

    Args:
        model: a decoder, or an encoder that reads from the left.
        tokenizer: of its ids.
        first: token before a text; None: nothing.
        tokens: places of a batch.
    """

    def __init__(self, model: Model, tokenizer: Tokenizer, first: int | None, tokens: int = TOKENS) -> None:
        self._model, self._tokenizer, self._tokens = model, tokenizer, tokens
        self._head = () if first is None else (first,)

    def candidate(self, prompt: Prompt, word: str) -> Candidate:
        """Return a word after its prompt."""
        text = prompt.before + word
        encoding = self._tokenizer.encode([text])[0]
        places = [place + len(self._head) for place in _places(text, prompt, word, encoding)]
        if not places[0]:
            raise ConfigurationError("example: expected text before {label}: nothing precedes the word")
        return Candidate((*self._head, *encoding.ids.tolist()), tuple(places))

    def scores(self, candidates: Sequence[Candidate]) -> list[Tensor]:
        """Return the log-probability of each token of the words."""
        found = log_likelihoods(self._model, [one.ids for one in candidates], tokens=self._tokens)
        return [row[[place - 1 for place in one.places]] for row, one in zip(found, candidates, strict=True)]


class Cloze:
    """The word is masked in a text that goes on after it (arXiv 2001.07676).

    Args:
        model: a masked language model.
        tokenizer: of its ids.
        masks: of a word of several tokens.
        previous: read the prediction of a place at the one before.
        tokens: places of a batch.
    """

    def __init__(
        self, model: Model, tokenizer: Tokenizer, masks: Masks, *, previous: bool = False, tokens: int = TOKENS
    ) -> None:
        self._model, self._tokenizer, self._masks = model, tokenizer, masks
        self._previous, self._tokens = previous, tokens
        names = ("cls", "sep", "mask")
        self._cls, self._sep, self._mask = (tokenizer.vocabulary.id_of(name, "a cloze prompt") for name in names)

    def candidate(self, prompt: Prompt, word: str) -> Candidate:
        """Return a word between its texts, framed."""
        text = f"{prompt.before}{word}{prompt.after}"
        encoding = self._tokenizer.encode([text])[0]
        places = tuple(place + 1 for place in _places(text, prompt, word, encoding))
        return Candidate((self._cls, *encoding.ids.tolist(), self._sep), places)

    def scores(self, candidates: Sequence[Candidate]) -> list[Tensor]:
        """Return the log-probability of each token of the words."""
        places = [one.places for one in candidates]
        if self._masks == "independent":
            hidden = [[[*scored]] * len(scored) for scored in places]
        else:
            hidden = [positions_to_mask(scored, [0] * len(scored)) for scored in places]
        rows = [one.ids for one in candidates]
        return log_likelihoods_under_masks(
            self._model, rows, places, hidden, self._mask, previous=self._previous, tokens=self._tokens
        )


class Answer:
    """The word is what an encoder-decoder writes: after the prompt, or in the place of a sentinel.

    A model of span corruption reads the text with a sentinel for the word, and writes the sentinel and the word. Any
    other reads the prompt, and writes the word and the end token, which counts as one of its tokens.

    Args:
        model: an encoder-decoder.
        tokenizer: of its ids.
        objective: of its training.
        tokens: places of a batch.
    """

    def __init__(self, model: Model, tokenizer: Tokenizer, objective: ObjectiveFacts, tokens: int = TOKENS) -> None:
        self._model, self._tokenizer, self._tokens = model, tokenizer, tokens
        vocabulary, label = tokenizer.vocabulary, objective.label
        self._end = vocabulary.id_of("eos", label)
        head = objective.options.get("source_head", "none")
        self._head = () if head == "none" else (vocabulary.id_of(head, label),)
        self._sentinel = vocabulary.sentinels[0] if objective.name == "span_corruption" else None
        if objective.frame.decoder_start is None:
            raise ConfigurationError(f"{label}: its rows have no token that the decoder reads first")
        self._start = objective.frame.decoder_start

    def candidate(self, prompt: Prompt, word: str) -> Candidate:
        """Return a prompt for the encoder, and a word for the decoder."""
        if self._sentinel is None:
            source, answer = (
                one.ids.tolist() for one in self._tokenizer.encode([prompt.before.rstrip(), word.strip()])
            )
            if not answer:
                raise ConfigurationError(f"labels: the tokenizer has no token for '{word}'")
            return Candidate(self._framed(source), tuple(range(len(answer) + 1)), (*answer, self._end))
        text = f"{prompt.before}{word}{prompt.after}"
        encoding = self._tokenizer.encode([text])[0]
        places, ids = _places(text, prompt, word, encoding), encoding.ids.tolist()
        source = [*ids[: places[0]], self._sentinel, *ids[places[-1] + 1 :]]
        answer = [self._sentinel, *(ids[place] for place in places)]
        return Candidate(self._framed(source), tuple(range(1, len(answer))), tuple(answer))

    def _framed(self, source: Sequence[int]) -> tuple[int, ...]:
        return (*self._head, *source, self._end)

    def scores(self, candidates: Sequence[Candidate]) -> list[Tensor]:
        """Return the log-probability of each token of the words."""
        rows, answers = [one.ids for one in candidates], [one.answer for one in candidates]
        found = answer_log_likelihoods(self._model, rows, answers, self._start, tokens=self._tokens)
        return [row[list(one.places)] for row, one in zip(found, candidates, strict=True)]


def _places(text: str, prompt: Prompt, word: str, encoding: Encoding) -> list[int]:
    """Return the tokens that hold the word and the blanks before it, or a part of them."""
    first, end = len(prompt.before.rstrip()), len(f"{prompt.before}{word}".rstrip())
    starts = [*encoding.starts.tolist(), len(text)]
    found = [
        place
        for place, start in enumerate(starts[:-1])
        if start < end and (start >= first or text[first : _next(starts, place)].strip())
    ]
    if not found:
        raise ConfigurationError(f"labels: the tokenizer has no token for '{word}' after '{prompt.before[-20:]}'")
    return found


def _next(starts: Sequence[int], place: int) -> int:
    """Return the character at which the next piece begins that is not a part of the same character."""
    return next((start for start in starts[place + 1 :] if start > starts[place]), starts[-1])
