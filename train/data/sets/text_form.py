"""Find the special tokens around texts in training rows, for tokenizers and prompts."""

from collections.abc import Sequence
from typing import Final

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.shards.manifest import ObjectiveRecord
from clozeline.pipeline.tasks.readers import is_task
from clozeline.pipeline.tasks.task_rows import FRAMES
from clozeline.pipeline.tasks.task_rows import SpecialTokens as TaskFrame
from clozeline.pipeline.tokenize.published.exporting import END, Blanks, ExportTemplate, TextForm
from clozeline.train.data.sets.recorded_sets import RecordedSet

_MASKED_INPUT: Final = ("mass", "masked_encoder_decoder")
"""Objectives of encoder-decoders whose inputs are those of BERT."""
_FRAMES: Final = {
    **FRAMES,
    "xlnet": TaskFrame("encoder", (), ("sep",), ("sep", "cls"), segments=True),
}
"""Option `frame` of objectives → special tokens: as in tasks, and `a [SEP] b [SEP] [CLS]` of
permuted_lm."""


def text_form(config: ModelConfig, recorded: Sequence[RecordedSet]) -> TextForm:
    """Return how a tokenizer must read texts for a model with these training sets, if known."""
    first = recorded[0] if recorded else None
    frame = None if first is None else frame_of(first)
    if frame is None:
        frame = (
            ExportTemplate()
            if config.architecture == "decoder"
            else END
            if config.position.kind == "t5"
            else None
        )

    return TextForm(
        frame=frame,
        start="bos" if first is None else role_before_texts(first),
        max_length=_row_length(config, recorded),
        cuts_texts=first is not None and is_task(first.objective),
        blanks="kept" if first is None else _blanks_of(first.objective),
        type_ids=config.type_vocab_size > 1,
    )


def frame_of(trained_on: RecordedSet) -> ExportTemplate | None:
    """Return the special tokens around texts in training rows; None: the tokenizer adds them.

    A decoder that generates texts writes the last special tokens itself.
    """
    objective = trained_on.objective
    options = trained_on.objective.options
    if (name := options.get("frame")) is not None:
        rows = _FRAMES[name].without_pad(trained_on.tokenizer.special_ids)
        frame = ExportTemplate(rows.head, rows.between, rows.tail)
    elif objective.architecture == "decoder":
        frame = ExportTemplate(("bos",) if options.get("add_bos") else ())
    elif objective.architecture == "encoder" or objective.name in _MASKED_INPUT:
        return None
    else:
        role = first_role(objective)
        frame = END._replace(head=() if role is None else (role,))

    return frame._replace(tail=()) if reads_prompts(objective) else frame


def reads_prompts(objective: ObjectiveRecord) -> bool:
    """Return whether the model continues a text: texts are then prompts, without an end."""
    return objective.architecture == "decoder" and "lm" in objective.heads


def role_before_texts(trained_on: RecordedSet) -> str | None:
    """Return the role of the special token before a text in training rows.

    Return None if there is none, or if the model is an encoder, whose tokenizer adds all special
    tokens.
    """
    objective = trained_on.objective
    frame = frame_of(trained_on)
    if objective.architecture == "encoder":
        return None
    if frame is not None and frame.head:
        return frame.head[0]
    return (
        first_role(objective)
        if objective.architecture == "decoder" and not is_task(objective)
        else None
    )


def first_role(objective: ObjectiveRecord) -> str | None:
    """Return the role of the special token before a text in training rows, or None.

    It is [CLS] for an encoder, `source_head` of an encoder-decoder, `<s>` if rows start with it,
    and `</s>` for packed rows, where it precedes each document.
    """
    options = objective.options
    if objective.architecture == "encoder":
        return "cls"
    if objective.architecture == "encoder_decoder":
        head = str(options.get("source_head", "none"))
        return None if head == "none" else head
    if options.get("add_bos"):
        return "bos"
    follows = options.get("grouping", "packed") == "packed" and options.get("cross_documents", True)
    separator = str(options.get("separator", "eos"))
    return separator if follows and separator != "none" else None


def _blanks_of(objective: ObjectiveRecord) -> Blanks:
    """Return what the rows of a task do with the blanks of a text; other rows keep them."""
    heads = objective.heads if is_task(objective) else ()
    if "tagging" in heads:
        return "single"
    return "stripped" if set(heads) & {"classification", "regression", "similarity"} else "kept"


def _row_length(config: ModelConfig, recorded: Sequence[RecordedSet]) -> int | None:
    """Return the most tokens of a row, with special tokens, in training.

    Return None if no set is recorded and positions have no limit.
    """
    # `max_length` of an objective is the length of each text if rows hold several
    lengths = [
        int(trained_on.objective.options.get("max_length", trained_on.max_length))
        for trained_on in recorded
    ]
    bounds = [max(lengths)] if lengths else []
    if config.position.limit is not None:
        bounds.append(config.position.limit)
    return min(bounds, default=None)
