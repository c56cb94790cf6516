"""Generate continuations of texts with a run's model, from prompts with the special tokens of its training rows."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from clozeline.configuration.config import config_class
from clozeline.errors import ConfigurationError
from clozeline.model.generation.decoding import Continuation, Decoding
from clozeline.model.generation.generate import beams, generate
from clozeline.pipeline.shards.manifest import ObjectiveFacts
from clozeline.pipeline.tokenize.tokenizers import Tokenizer
from clozeline.tools.runs.inference.trained_model import TrainedModel


@config_class
class Settings(Decoding):
    """Options of text generation."""

    samples: Annotated[int, Field(ge=1, le=4096)] = 1
    """Number of continuations: samples, or the best of a beam."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Texts that end a continuation, which is cut before the first of them."""
    ban: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Texts whose token sequences are forbidden, with and without a space before; other tokens can still spell them."""
    step: Annotated[int, Field(ge=0)] | None = None
    """Step of the checkpoint; null = the newest complete one."""


def continuations(trained: TrainedModel, text: str, settings: Settings) -> list[Continuation]:
    """Return the continuations of a text, in which special tokens may be written as their pieces.

    The first set of the training says how rows start, and whether a prefix is read in both directions.
    """
    trained_on = trained.sets[0]
    objective = trained_on.objective
    tokenizer = trained.tokenizer
    prompt = prompt_ids(tokenizer, objective, text)
    banned = tokenizer.encode([form for text in settings.ban for form in (text, f" {text}")])

    def has_stop(ids: list[int]) -> bool:
        return any(each in tokenizer.decode_part(ids) for each in settings.stop)

    rules: dict[str, Any] = {
        "end_ids": {number for name, number in tokenizer.vocabulary.specials.items() if name == "eos"},
        "banned": [encoding.ids.tolist() for encoding in banned if len(encoding.ids)],
        "finishes": has_stop if settings.stop else None,
        "decoder_start": objective.frame.decoder_start,
        "prefix": "prefix_length" in trained_on.columns,
    }
    if settings.mode == "beam":
        return beams(trained.model, [prompt], settings, **rules)[0][: settings.samples]
    return generate(trained.model, [prompt] * settings.samples, settings, **rules)


def text_of(tokenizer: Tokenizer, continuation: Continuation, stop: Sequence[str]) -> str:
    """Return the text of a continuation, cut before the first stop string."""
    text = tokenizer.decode_part(continuation.ids)
    return text[: min((text.find(each) for each in stop if each in text), default=len(text))]


def prompt_ids(tokenizer: Tokenizer, objective: ObjectiveFacts, text: str) -> list[int]:
    """Return the tokens of a text with the special tokens of the training rows around them."""
    vocabulary = tokenizer.vocabulary
    specials = {tokenizer.decode([int(token)]): int(token) for token in vocabulary.special.nonzero()[0]}
    parts = re.split(f" ?({'|'.join(map(re.escape, specials))})", text)
    ids: list[int] = []
    for number, part in enumerate(parts):
        ids += [specials[part]] if number % 2 else tokenizer.encode([part])[0].ids.tolist()
    head = objective.options.get("source_head", "bos" if objective.options.get("add_bos") else "none")
    if head != "none":
        ids = [vocabulary.id_of(head, objective.label), *ids]
    if objective.architecture == "encoder_decoder":
        ids.append(vocabulary.id_of("eos", objective.label))
    if not ids:
        raise ConfigurationError("TEXT: expected at least one token, got none; begin with a word")
    return ids
