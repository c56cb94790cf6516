"""Columns of an objective must be read, or be named as ignored."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from clozeline.errors import ConfigurationError
from clozeline.model.configuration.head import HeadConfig
from clozeline.pipeline.rows import ROW
from clozeline.train.data.sets.model_fit import refuse_unread, unread_lines
from tests.shard_sets import roles_of

MASKED = ("input_ids", "label_positions", "label_ids")


def manifest(
    *columns: str, heads: tuple[str, ...] = ("masked_lm",), architecture: str = "encoder", name: str = "masked_lm"
) -> Any:
    frame = SimpleNamespace(decoder_start=0, padding_side="right", predict_from="same")
    facts = {"name": "toy", "head": heads[0], "labels": [], "metrics": []}
    objective = SimpleNamespace(
        architecture=architecture, heads=heads, frame=frame, options={"task": facts}, name=name, label=name
    )
    roles = {**roles_of(columns), **({"mood": ROW} if "mood" in columns else {})}
    tokenizer = SimpleNamespace(special_ids={"pad": 0, "mask": 1})
    return SimpleNamespace(objective=objective, roles=roles, tokenizer=tokenizer, name="set")


def model(
    *targets: str,
    architecture: str = "encoder",
    types: int = 0,
    languages: int = 0,
    streams: bool = False,
    pool: str | None = None,
) -> Any:
    named = {name: name for name in targets}
    family = "xlnet" if streams else "encoder"
    heads = {name: HeadConfig(pool=pool) for name in targets}
    return SimpleNamespace(targets=named, architecture=architecture, type_vocab_size=types, languages=languages,
                           family=family, heads=heads)  # fmt: skip


@pytest.mark.parametrize(
    ("columns", "heads", "unread"),
    [
        (("segment_starts", "sentence_label"), ("masked_lm", "sentence"), ["segment_starts", "sentence_label"]),
        (("span_starts", "span_lengths"), ("masked_lm", "span_boundary"), ["span_starts", "span_lengths"]),
        (("crop_start", "crop_length"), ("masked_lm", "corrective", "similarity"),
         ["crop_start", "crop_length", "corrective"]),
        ((), ("masked_lm", "token"), ["token"]),
        (("languages",), ("masked_lm",), ["languages"]),
        (("mood",), ("masked_lm",), ["mood"]),
    ],
)  # fmt: skip
def test_unread_columns_are_named(columns: tuple[str, ...], heads: tuple[str, ...], unread: list[str]) -> None:
    found = manifest(*MASKED, *columns, heads=heads)
    with pytest.raises(ConfigurationError) as caught:
        refuse_unread(found, model("masked_lm"), ["other"], "data.shards: x")
    assert str(caught.value).endswith(f"data.ignore=[{', '.join(['other', *unread])}]")
    refuse_unread(found, model("masked_lm"), unread, "data.shards: x")


@pytest.mark.parametrize("head", ["classification", "regression", "span", "multiple_choice"])
def test_segments_of_a_task_may_stay_unread(head: str) -> None:
    """A body without segment embeddings tells two texts apart by [SEP]; one line says so, and no key is asked for."""
    pair = manifest("input_ids", "segment_starts", heads=(head,), name="task")
    refuse_unread(pair, model(head), [], "x")
    (line,) = unread_lines([pair, pair], model(head))
    assert "segment_starts" in line
    assert "model.type_vocab_size" in line
    assert unread_lines([pair], model(head, types=2)) == []
    assert unread_lines([manifest(*MASKED, "segment_starts")], model("masked_lm", types=2)) == []
    with pytest.raises(ConfigurationError, match=r"data\.ignore=\[languages\]"):
        refuse_unread(
            manifest("input_ids", "segment_starts", "languages", heads=(head,), name="task"), model(head), [], "x"
        )


def test_what_is_read_or_kept_for_inversion_passes() -> None:
    refuse_unread(manifest(*MASKED, "segment_starts"), model("masked_lm", types=2), [], "x")
    refuse_unread(manifest(*MASKED, "segment_starts"), model("masked_lm", streams=True), [], "x")
    pair = manifest("input_ids", "segment_starts", "label", heads=("classification",))
    refuse_unread(pair, model("classification", pool="pair"), [], "x")
    refuse_unread(manifest("input_ids", "prediction_order"), model("masked_lm", streams=True), [], "x")
    refuse_unread(manifest(*MASKED, "segment_starts", "languages"), model("masked_lm", languages=2), [], "x")
    pairs = manifest(*MASKED, "sentence_label", heads=("masked_lm", "sentence"))
    refuse_unread(pairs, model("masked_lm", "sentence"), [], "x")
    noise = ("input_ids", "target_ids", "span_starts", "span_lengths", "step_rotation", "task")
    denoising = manifest(*noise, heads=("lm",), architecture="encoder_decoder")
    refuse_unread(denoising, model("lm", architecture="encoder_decoder"), [], "x")
