"""Continuations of texts by the model of a run: settings, and prompts framed like the rows of training."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from model.config import STRICT
from model.generate import Continuation, Decoding, generate
from pipeline.errors import ConfigurationError
from pipeline.shards import Manifest
from pipeline.shards.manifest import ObjectiveFacts
from pipeline.tokenizers import Tokenizer
from tools.lib.trained_model import TrainedModel

__all__ = ["Settings", "continuations", "prompt_ids"]


@dataclass(frozen=True, kw_only=True, config=STRICT)
class Settings(Decoding):
    """Keys of the command line."""

    samples: Annotated[int, Field(ge=1, le=4096)] = 1
    """Continuations of the text; more than one differ only where tokens are drawn."""
    step: Annotated[int, Field(ge=0)] | None = None
    """Step of the checkpoint; null = the newest whole one."""


def continuations(trained: TrainedModel, manifest: Manifest, text: str, settings: Settings) -> list[Continuation]:
    """Return the continuations of a text.

    Args:
        trained: the model and its tokenizer.
        manifest: of examples that the model was trained on. It says how rows begin, and whether a prefix is read in
            both directions.
        text: special tokens may be written as their pieces.
        settings: choice of tokens, and number of continuations.
    """
    objective = manifest.objective
    assert objective is not None, "a manifest of examples"
    prompt = prompt_ids(trained.tokenizer, objective, text)
    return generate(
        trained.model,
        [prompt] * settings.samples,
        settings,
        end_ids={trained.tokenizer.vocabulary.id_of("eos", "generate")},
        decoder_start=objective.frame.decoder_start,
        prefix="prefix_length" in {column.name for column in manifest.columns},
    )


def prompt_ids(tokenizer: Tokenizer, objective: ObjectiveFacts, text: str) -> list[int]:
    """Return the tokens of a text, framed like the rows that the model was trained on.

    Raises:
        ConfigurationError: there is no token.
    """
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
