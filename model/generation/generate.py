"""Continue prompts token by token with a decoder or an encoder-decoder."""

from collections.abc import Callable, Collection, Sequence

from clozeline.model.build import Model
from clozeline.model.decoding.sampling import draw, probabilities, uniform
from clozeline.model.generation.beam import beam_search
from clozeline.model.generation.decoding import Continuation, Decoding
from clozeline.model.generation.incremental_decoder import IncrementalDecoder
from clozeline.model.generation.rules import (
    AllowedSequences,
    GrowingRow,
    Rules,
    check_allowed_lengths,
    check_next_tokens,
)


def generate(
    model: Model,
    prompts: Sequence[Sequence[int]],
    decoding: Decoding,
    *,
    end_ids: Collection[int] = (),
    banned: Sequence[Sequence[int]] = (),
    finishes: Callable[[list[int]], bool] | None = None,
    decoder_start: int | Sequence[int] | None = None,
    prefix: bool = False,
    rows: Sequence[int] | None = None,
    allowed: AllowedSequences | None = None,
) -> list[Continuation]:
    """Continue each prompt; a row's continuation does not depend on the other rows.

    Args:
        model: in evaluation mode, with a next-token head.
        prompts: token ids, one list per row, of any length; for an encoder_decoder, the inputs of
            the encoder.
        decoding: how tokens are chosen; a beam search returns the best continuation.
        end_ids: tokens that end a row.
        banned: forbidden token sequences.
        finishes: whether a row ends with these new tokens, for example because their text holds a
            stop string.
        decoder_start: first id, or ids, of each row of an encoder_decoder's decoder.
        prefix: whether the tokens of a prompt read each other in both directions, for decoders
            trained on prefixes.
        rows: index of each row for its random draws; None: 0, 1, 2 ...
        allowed: the only sequences of new tokens that may be written; each row ends with one of
            `end_ids`.

    Raises:
        ConfigurationError: the model cannot generate, is in training mode, or `decoder_start` does
            not fit it.
        BatchError: a prompt is empty, or longer than the position table; scores are not numbers; or
            every token is banned.
    """
    if not prompts:
        return []
    rules = Rules(decoding, end_ids, banned, finishes, allowed)
    decoder, growing = _read_prompts(model, prompts, rules, decoder_start, prefix)
    if decoding.mode == "beam":
        return [best for best, *_ in beam_search(decoder, growing, rules)]
    return _decode_by_token(decoder, growing, rules, rows or range(len(prompts)))


def generate_beams(
    model: Model,
    prompts: Sequence[Sequence[int]],
    decoding: Decoding,
    *,
    end_ids: Collection[int] = (),
    banned: Sequence[Sequence[int]] = (),
    finishes: Callable[[list[int]], bool] | None = None,
    decoder_start: int | Sequence[int] | None = None,
    prefix: bool = False,
    allowed: AllowedSequences | None = None,
) -> list[list[Continuation]]:
    """Return the finished beams of each prompt, at most `width`, best first.

    The arguments are those of `generate`.
    """
    if not prompts:
        return []
    rules = Rules(decoding, end_ids, banned, finishes, allowed)
    return beam_search(*_read_prompts(model, prompts, rules, decoder_start, prefix), rules)


def _read_prompts(
    model: Model,
    prompts: Sequence[Sequence[int]],
    rules: Rules,
    decoder_start: int | Sequence[int] | None,
    prefix: bool,
) -> tuple[IncrementalDecoder, list[GrowingRow]]:
    max_tokens = rules.decoding.max_tokens
    decoder = IncrementalDecoder(model, prompts, decoder_start, prefix, max_tokens)
    growing = [
        GrowingRow.start(number, prompt, max_tokens, decoder.limit)
        for number, prompt in enumerate(decoder.prompts)
    ]
    check_allowed_lengths(rules, growing)
    return decoder, growing


def _decode_by_token(
    decoder: IncrementalDecoder, rows: list[GrowingRow], rules: Rules, numbers: Sequence[int]
) -> list[Continuation]:
    """Decode one token per step; rows that have ended leave the batch."""
    continuations: dict[int, Continuation] = {}
    decoding = rules.decoding

    while True:
        scores = rules.adjust(decoder.scores, rows)
        check_next_tokens(scores.max(-1).values, rows)
        # the next token of each row [B]
        if decoding.mode == "greedy":
            tokens = scores.argmax(-1)
        else:
            distribution = probabilities(
                scores, decoding.temperature or 1.0, decoding.top_k, decoding.top_p
            )
            step = len(rows[0].ids)
            tokens = draw(
                distribution, [uniform(decoding.seed, numbers[row.number], step) for row in rows]
            )

        log_probabilities = decoder.scores.log_softmax(-1).gather(1, tokens[:, None])[:, 0]
        for row, token, gain in zip(rows, tokens.tolist(), log_probabilities.tolist(), strict=True):
            row.ids.append(token)
            row.score += gain
            if (stop := rules.stop_of(row, row.ids)) is not None:
                continuations[row.number] = Continuation(
                    row.ids[:-1] if stop == "end" else row.ids, stop, row.score
                )
        # rows that have ended leave the batch
        growing_rows = [index for index, row in enumerate(rows) if row.number not in continuations]
        if not growing_rows:
            return [continuations[number] for number in range(len(continuations))]
        if len(growing_rows) < len(rows):
            decoder.select(growing_rows)
        rows = [rows[index] for index in growing_rows]
        decoder.add([row.ids[-1] for row in rows])
