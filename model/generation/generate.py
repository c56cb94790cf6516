"""Continuation of prompts, token by token, by a decoder or an encoder-decoder."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from torch import Tensor

from clozeline.model.build import Model
from clozeline.model.decoding.sampling import draw, probabilities, uniform
from clozeline.model.generation.beam import beam_search
from clozeline.model.generation.decoding import Continuation, Decoding
from clozeline.model.generation.incremental_decoder import IncrementalDecoder
from clozeline.model.generation.rules import Row, Rules, refuse_dead_ends


def generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    decoding: Decoding,
    *,
    end_ids: Collection[int] = (),
    banned: Sequence[Sequence[int]] = (),
    finishes: Callable[[list[int]], bool] | None = None,
    decoder_start: int | None = None,
    prefix: bool = False,
    rows: Sequence[int] | None = None,
) -> list[Continuation]:
    """Continue each prompt; a row's continuation does not depend on the other rows.

    Args:
        model: in evaluation mode, with a head for next tokens.
        prompts: token ids, one list a row, of any lengths; of an encoder_decoder the inputs of the encoder.
        decoding: choice of tokens, and their number; of a beam search the best continuation is returned.
        end_ids: tokens that end a row.
        banned: sequences of tokens that may not come.
        finishes: whether a row ends with these new tokens, such as when their text holds a stop string.
        decoder_start: id that opens the rows of an encoder_decoder's decoder.
        prefix: whether the tokens of a prompt read each other in both directions, as a decoder learns from prefixes.
        rows: number of each row in its draws, from 0; None: 0, 1, 2 ...

    Raises:
        ConfigurationError: the model cannot generate, is in training mode, or `decoder_start` does not fit it.
        BatchError: a prompt is empty, or longer than the position table; scores are not numbers, or the rules ban every
            token.
    """
    if not prompts:
        return []
    rules = Rules(decoding, end_ids, banned, finishes)
    reading, growing = _begin(model, prompts, decoding, decoder_start, prefix)
    if decoding.mode == "beam":
        return [found[0] for found in beam_search(reading, growing, rules)]
    return _decode_by_token(reading, growing, rules, rows or range(len(prompts)))


def beams(
    model: Model,
    prompts: Sequence[Sequence[int]],
    decoding: Decoding,
    *,
    end_ids: Collection[int] = (),
    banned: Sequence[Sequence[int]] = (),
    finishes: Callable[[list[int]], bool] | None = None,
    decoder_start: int | None = None,
    prefix: bool = False,
) -> list[list[Continuation]]:
    """Return the finished beams of each prompt, at most `width`, the best first; arguments are those of `generate`."""
    if not prompts:
        return []
    rules = Rules(decoding, end_ids, banned, finishes)
    return beam_search(*_begin(model, prompts, decoding, decoder_start, prefix), rules)


def _begin(
    model: Model, prompts: Sequence[Sequence[int]], decoding: Decoding, decoder_start: int | None, prefix: bool
) -> tuple[IncrementalDecoder, list[Row]]:
    reading = IncrementalDecoder(model, prompts, decoder_start, prefix, decoding.max_tokens)
    numbered = enumerate(reading.prompts)
    return reading, [Row.of(number, prompt, decoding.max_tokens, reading.limit) for number, prompt in numbered]


def _decode_by_token(
    reading: IncrementalDecoder, rows: list[Row], rules: Rules, numbers: Sequence[int]
) -> list[Continuation]:
    """Return continuations whose tokens are chosen one at a time; a row that has ended is read no more."""
    found: dict[int, Continuation] = {}
    while True:
        scores = rules.adjust(reading.scores, rows)
        refuse_dead_ends(scores.max(-1).values, rows)
        tokens = _choose(scores, rules.decoding, [numbers[row.number] for row in rows], len(rows[0].ids))
        gained = reading.scores.log_softmax(-1).gather(1, tokens[:, None])[:, 0]
        for row, token, gain in zip(rows, tokens.tolist(), gained.tolist(), strict=True):
            row.ids.append(token)
            row.score += gain
            if (stop := rules.stop_of(row, row.ids)) is not None:
                found[row.number] = Continuation(row.ids[:-1] if stop == "end" else row.ids, stop, row.score)
        kept = [at for at, row in enumerate(rows) if row.number not in found]
        if not kept:
            return [found[number] for number in range(len(found))]
        if len(kept) < len(rows):
            reading.select(kept)
        rows = [rows[at] for at in kept]
        reading.add([row.ids[-1] for row in rows])


def _choose(scores: Tensor, decoding: Decoding, rows: Sequence[int], step: int) -> Tensor:
    """Return the next token of each row, [B]."""
    if decoding.mode == "greedy":
        return scores.argmax(-1)
    distribution = probabilities(scores, decoding.temperature or 1.0, decoding.top_k, decoding.top_p)
    return draw(distribution, [uniform(decoding.seed, row, step) for row in rows])
