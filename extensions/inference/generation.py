"""Generate continuations of texts with a run's model.

Prompts have the special tokens of its training rows.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.generation.decoding import Continuation, Decoding
from clozeline.pipeline.row_form import RowForm
from clozeline.pipeline.shards.manifest import ObjectiveRecord
from clozeline.pipeline.text.language_codes import LanguageTable
from clozeline.pipeline.text.normal_form import NormalForm, normalize_field
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.tools.runs.inference.generated_text import find_end_ids, read_allowed, text_before
from clozeline.train.checkpoint.trained_model import TrainedModel
from clozeline.train.configuration.checkpoint import StepChoice


@config_class
class Settings(Decoding):
    """Options of text generation."""

    samples: Annotated[int, Field(ge=1, le=4096)] = 1
    """Number of continuations: samples, or the best of a beam."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Texts that end a continuation, which is cut before the first of them."""
    ban: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Texts whose token sequences are forbidden, with and without a space before; other tokens can
    still spell them."""
    allowed: tuple[Annotated[str, Field(min_length=1)], ...] | Path | None = None
    """The only continuations, as a list or as a file with one per line; what comes out is one of
    them, up to blanks."""
    language: str | None = None
    """Language of the text and its continuations; needed by models whose rows end with language
    tokens (mBART)."""
    normalize: NormalForm = "prose"
    """Stored form of TEXT and the texts above, as `clean.normalize` of the training data; none
    leaves them."""
    step: StepChoice = None
    """Step of the checkpoint; null = the newest complete one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.allowed is not None and (self.mode == "unmask" or self.stop):
            named_keys = (
                "mode=unmask fills masks"
                if self.mode == "unmask"
                else "stop would cut an allowed text"
            )
            raise ValueError(f"allowed: {named_keys}; remove one of the two keys")


def continuations(trained: TrainedModel, text: str, settings: Settings) -> list[Continuation]:
    """Return the continuations of a text, in which special tokens may be written as their pieces.

    The first set of the training says how rows start, and whether a prefix is read in both
    directions.
    """
    from clozeline.model.generation.generate import generate, generate_beams
    from clozeline.model.generation.rules import AllowedSequences

    objective = trained.objectives[0]
    tokenizer = trained.tokenizer
    text = normalize_field(settings.normalize, text)
    blanks = text[len(text.rstrip()) :] if settings.allowed is not None else ""
    language = find_language_token(objective, settings.language)
    prompt, start = split_prompt(
        objective, prompt_ids(tokenizer, objective, text.removesuffix(blanks)), language
    )
    banned = tokenizer.encode(
        [
            form
            for each in read_allowed(settings.ban, settings.normalize)
            for form in (each, f" {each}")
        ]
    )

    stop = read_allowed(settings.stop, settings.normalize)

    def has_stop(ids: list[int]) -> bool:
        text = tokenizer.decode_part(ids)
        return text_before(stop, text) != text

    ends = find_end_ids(tokenizer)
    allowed = None
    if settings.allowed is not None:
        texts = [blanks + each for each in read_allowed(settings.allowed, settings.normalize)]
        allowed = AllowedSequences(_encode_allowed(trained, text.removesuffix(blanks), texts), ends)

    rules: dict[str, Any] = {
        "end_ids": ends,
        "allowed": allowed,
        "banned": [encoding.ids.tolist() for encoding in banned if len(encoding.ids)],
        "finishes": has_stop if settings.stop else None,
        "decoder_start": start,
        "prefix": trained.reads_prefix,
    }
    if settings.mode == "beam":
        return generate_beams(trained.model, [prompt], settings, **rules)[0][: settings.samples]
    return generate(trained.model, [prompt] * settings.samples, settings, **rules)


def _encode_allowed(trained: TrainedModel, text: str, allowed: Sequence[str]) -> list[list[int]]:
    """Return the tokens of each allowed text.

    They are those after the prompt, or the answer to it.
    """
    tokenizer = trained.tokenizer
    objective = trained.objectives[0]
    if not objective.continues_text:
        return [_encode_with_pieces(tokenizer, each.strip()) for each in allowed]
    prompt = prompt_ids(tokenizer, objective, text)
    joined = [prompt_ids(tokenizer, objective, text + each) for each in allowed]
    for ids, each in zip(joined, allowed, strict=True):
        if ids[: len(prompt)] != prompt:
            raise ConfigurationError(
                f"allowed: '{each}' shares a token with the end of TEXT; begin it with a blank"
            )

    return [ids[len(prompt) :] for ids in joined]


def blank_after(tokenizer: Tokenizer, text: str) -> str:
    """Return the space between a prompt and its continuation.

    The last token of the prompt stands for it.

    Example: `low</w>` ends its word, so "low" is continued after a space.
    """
    ids = _encode_with_pieces(tokenizer, text)
    ends = bool(ids) and tokenizer.decode_part(ids[-1:]).endswith(" ")
    return " " if ends and not text[-1:].isspace() else ""


def prompt_ids(tokenizer: Tokenizer, objective: ObjectiveRecord, text: str) -> list[int]:
    """Return the tokens of a text with the special tokens of the training rows around them."""
    ids = _encode_with_pieces(tokenizer, text)
    tail = () if objective.continues_text else objective.frame.tail
    ids = [*objective.frame.head, *ids, *tail]
    if not ids:
        raise ConfigurationError("TEXT: expected at least one token, got none; begin with a word")
    return ids


def parts_note(tokenizer: Tokenizer, frame: RowForm) -> str:
    """Return what to know of a mixture whose parts frame a text in several ways, else ""."""
    frames = dict.fromkeys(
        " ".join([*map(tokenizer.piece, form.head), "TEXT", *map(tokenizer.piece, form.tail)])
        for form in frame.each
    )
    if len(frames) == 1:
        return ""
    return (
        f"was trained on rows of several forms: {', '.join(frames)}; TEXT gets the special "
        "tokens that all of them have, write others into it"
    )


def split_prompt(
    objective: ObjectiveRecord, prompt: list[int], language: int | None = None
) -> tuple[list[int], list[int]]:
    """Return the row of a prompt, or that of the encoder, and the ids that its decoder begins with.

    Example (T5): [The <extra_0> of a book </s>], [<pad>]
    """
    if objective.architecture == "decoder":
        return prompt, []
    frame = objective.frame
    first = cast(int, frame.decoder_start) if language is None else language
    if frame.continues_text:
        return [*frame.tail], [first, *prompt]
    return prompt if language is None else [*prompt, language], [first]


def find_language_token(objective: ObjectiveRecord, language: str | None) -> int | None:
    """Return the id that ends the prompt and starts the decoder.

    None for rows without language tokens.

    Raises:
        ConfigurationError: the language is needed, unknown, or given although rows have no language
            tokens.
    """
    tokens = LanguageTable(objective.frame.language_tokens)

    if not objective.frame.language_tokens:
        if language is not None:
            raise ConfigurationError(
                f"language: the rows of {objective.label} have no language tokens; remove the key"
            )
        return None

    if language is None or language not in tokens:
        got = language or "none"
        raise ConfigurationError(
            f"language: expected the language of TEXT, one of {', '.join(tokens)}, got {got}"
        )

    return tokens[language]


def _special_pieces(tokenizer: Tokenizer) -> dict[str, int]:
    special = tokenizer.vocabulary.special.nonzero()[0]
    return {tokenizer.decode([int(token)]): int(token) for token in special}


def _encode_with_pieces(tokenizer: Tokenizer, text: str) -> list[int]:
    specials = _special_pieces(tokenizer)
    parts = re.split(f" ?({'|'.join(map(re.escape, specials))})", text)
    ids: list[int] = []
    for number, part in enumerate(parts):
        ids += [specials[part]] if number % 2 else tokenizer.encode([part])[0].ids.tolist()
    return ids
