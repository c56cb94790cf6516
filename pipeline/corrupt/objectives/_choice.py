"""What a user chooses to corrupt in one text, where an objective would draw at random."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.errors import ConfigurationError
from clozeline.pipeline.rows import Ragged

MASK: Final = "mask"
KEEP: Final = "keep"
WORD: Final = "another word"
ANSWER: Final = "yes or no"
"""what a user can choose for tokens, and for pairs of sentences: see `PossibleChoices`"""


@dataclass(frozen=True, slots=True)
class PossibleChoices:
    """What a user can choose for an objective.

    Args:
        example: a choice as the user writes it.
        roles: what a chosen token can become, and `ANSWER` for pairs of sentences. The first is the
            default; no default if it is `WORD`.
    """

    example: str
    roles: tuple[str, ...] = ()
    unit: Literal["token", "sentence"] = "token"
    """what the numbers count"""


@dataclass(frozen=True, slots=True)
class ChosenSpan:
    """Tokens `first` to `last` of a text, from 1, and what becomes of them; none if last < first.

    `token` is the id of the other word if the role is `WORD`.
    """

    first: int
    last: int
    role: str = ""
    token: int = -1

    @property
    def size(self) -> int:
        """Return the number of its tokens."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        if not self.size:
            return f"before {self.first}"
        return str(self.first) if self.size == 1 else f"{self.first}-{self.last}"


def one_row(values: NDArray[Any]) -> Ragged:
    """Return the values as those of a batch of one row."""
    return Ragged(values, np.array([0, len(values)]))


class Choice:
    """What becomes of which tokens of one text, or their order; they count from 1.

    Args:
        spans: the chosen tokens, in the order of the user.
        follows: the answer to "does B follow A?" for pairs of sentences; None: it is drawn.
        choices: what the objective can do.

    Raises:
        ConfigurationError: the objective cannot do it; so do the methods.
    """

    def __init__(
        self, spans: Sequence[ChosenSpan], follows: bool | None, choices: PossibleChoices
    ) -> None:
        self.spans = tuple(spans)
        self.follows = follows
        self._choices = choices
        roles = [role for role in choices.roles if role != ANSWER]
        if follows is not None and ANSWER not in choices.roles:
            raise self._refuse("only pairs of sentences have the answer yes or no")
        for span in spans:
            if span.role and span.role not in roles:
                possible = f"here a token becomes: {', '.join(roles)}" if roles else "numbers alone"
                raise self._refuse(f"token {span} cannot become {span.role}; {possible}")

    @property
    def names_tokens(self) -> bool:
        """Return whether it has numbers of tokens."""
        return self._choices.unit == "token" and len(self.spans) > 0

    def _refuse(self, message: str) -> ConfigurationError:
        example = self._choices.example
        return ConfigurationError(f"choose: {message}. Write, for example, choose='{example}'")

    def _sorted(self, count: int) -> list[ChosenSpan]:
        """Return the spans in order, after checking that they lie in the text and apart."""
        spans = sorted(self.spans, key=lambda span: (span.first, span.last))
        for span in spans:
            if not 1 <= span.first <= span.last + 1 <= count + 1:
                raise self._refuse(
                    f"token {span} is not in the text, which has tokens 1 to {count}"
                )
        for before, after in pairwise(spans):
            if after.first <= before.last:
                raise self._refuse(f"{before} and {after} overlap")
        return spans

    def tokens(self, count: int) -> Int64:
        """Return the indices of the chosen tokens, ascending, in a text of `count` tokens."""
        spans = self._sorted(count)
        if empty := [span for span in spans if not span.size]:
            raise self._refuse(f"'{empty[0]}' is no token; only text infilling has empty spans")
        if not spans:
            raise self._refuse("expected one token or more")
        return np.concatenate([np.arange(span.first - 1, span.last) for span in spans])

    def fragment(self, count: int) -> Int64:
        """Return the same as `tokens`, after checking that the tokens follow one another."""
        chosen = self.tokens(count)
        if len(chosen) <= chosen[-1] - chosen[0]:
            raise self._refuse("expected one fragment, whose tokens follow one another")
        return chosen

    def some_tokens(self, count: int) -> Int64:
        """Return the same as `tokens`, after checking that one token is not chosen."""
        chosen = self.tokens(count)
        if len(chosen) == count:
            raise self._refuse("one token or more must stay")
        return chosen

    def token_spans(self, count: int) -> tuple[Int64, Int64]:
        """Return the starts and sizes of the spans; a token that stays is between two of them."""
        spans = self._sorted(count)
        for before, after in pairwise(spans):
            if after.first == before.last + 1:
                raise self._refuse(f"{before} and {after} touch; a token must stay between them")
        starts = np.array([span.first - 1 for span in spans], np.int64)
        sizes = np.array([span.size for span in spans], np.int64)
        if not spans or sizes.sum() >= count:
            raise self._refuse("expected one span or more, and a token that stays")
        return starts, sizes

    def replace(self, tokens: Int64, ids: NDArray[Any], mask: int) -> NDArray[Any]:
        """Return what the ids of the chosen tokens become; `tokens` are their indices."""
        spans = {number: span for span in self.spans for number in range(span.first, span.last + 1)}
        new = [
            token if spans[number + 1].role == KEEP else self._new_id(spans[number + 1], mask)
            for number, token in zip(tokens.tolist(), ids.tolist(), strict=True)
        ]
        return np.array(new, ids.dtype)

    def replace_spans(self, mask: int) -> Int64:
        """Return the id that replaces each span, in the order of `token_spans`."""
        spans = sorted(self.spans, key=lambda span: (span.first, span.last))
        return np.array([self._new_id(span, mask) for span in spans], np.int64)

    def _new_id(self, span: ChosenSpan, mask: int) -> int:
        role = span.role or self._choices.roles[0]
        if role == WORD and not span.role:
            raise self._refuse(f"token {span}: write the word that replaces it")
        return mask if role == MASK else span.token

    def order(self, count: int, what: str) -> Int64:
        """Return an order of all `count` parts of the text, as indices."""
        order = self.part_of_order(count, what)
        if len(order) < count:
            raise self._refuse(f"expected all {what} from 1 to {count}, in their new order")
        if (order == np.arange(count)).all():
            raise self._refuse("this is the order of the text; expected another one")
        return order

    def part_of_order(self, count: int, what: str) -> Int64:
        """Return an order of some of the `count` parts of the text, as indices."""
        order = [number - 1 for span in self.spans for number in range(span.first, span.last + 1)]
        if not order or not set(order) <= set(range(count)):
            raise self._refuse(f"the text has {what} 1 to {count}")
        if len(set(order)) < len(order):
            raise self._refuse(f"name each of the {what} once")
        return np.array(order, np.int64)

    def number(self, lowest: int, highest: int, what: str) -> int:
        """Return the only number of the choice; `what` says what it means."""
        if len(self.spans) != 1 or self.spans[0].size != 1:
            raise self._refuse(f"expected one number, {what}")
        number = self.spans[0].first
        if not lowest <= number <= highest:
            raise self._refuse(f"expected {what}, from {lowest} to {highest}; got {number}")
        return number
