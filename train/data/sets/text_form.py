"""Find the special tokens around texts in training rows, for tokenizers and prompts."""

from collections.abc import Sequence

from clozeline.model.configuration.model_config import ModelConfig
from clozeline.pipeline.set_kinds import kind_of
from clozeline.pipeline.shards.manifest import ObjectiveRecord
from clozeline.pipeline.tokenize.published.exporting import END, ExportTemplate, TextForm
from clozeline.train.data.sets.recorded_sets import RecordedSet


def text_form(config: ModelConfig, recorded: Sequence[RecordedSet]) -> TextForm:
    """Return how a tokenizer must read texts for a model with these training sets, if known."""
    first = recorded[0] if recorded else None
    frame = None if first is None else frame_of(first)
    kind = None if first is None else kind_of(first.objective)
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
        start="bos" if first is None else token_before_texts(first),
        max_length=_row_length(config, recorded),
        cuts_texts=kind is not None,
        blanks="kept" if kind is None else kind.blanks,
        type_ids=config.type_vocab_size > 1,
    )


def frame_of(trained_on: RecordedSet) -> ExportTemplate | None:
    """Return the special tokens around texts in training rows; None: the tokenizer adds them.

    A decoder that generates texts writes the last special tokens itself.
    """
    form = trained_on.objective.frame
    if reads_prompts(trained_on.objective):
        return ExportTemplate(form.head, form.between)
    role = trained_on.tokenizer.special_ids.get
    if not form.between and (form.head, form.tail) == ((role("cls"),), (role("sep"),)):
        return None
    return ExportTemplate(form.head, form.between or form.tail, form.tail)


def reads_prompts(objective: ObjectiveRecord) -> bool:
    """Return whether the model continues a text: texts are then prompts, without an end."""
    return objective.architecture == "decoder" and "lm" in objective.heads


def token_before_texts(trained_on: RecordedSet) -> int | None:
    """Return the special token before a text in training rows.

    Return None if there is none, or if the tokenizer adds all special tokens, as for an encoder.
    """
    before = trained_on.objective.frame.before_text
    is_added = trained_on.objective.architecture == "encoder" or frame_of(trained_on) is None
    return None if is_added or not before else before[0]


def _row_length(config: ModelConfig, recorded: Sequence[RecordedSet]) -> int | None:
    """Return the most tokens of a row, with special tokens, in training.

    Return None if no set is recorded and positions have no limit.
    """
    # the longest row of a set is longer than a text if rows hold several
    lengths = [
        trained_on.objective.frame.longest_input or trained_on.max_length for trained_on in recorded
    ]
    bounds = [max(lengths)] if lengths else []
    if config.position.limit is not None:
        bounds.append(config.position.limit)
    return min(bounds, default=None)
