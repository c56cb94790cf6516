from __future__ import annotations

import pytest
import torch

from clozeline.model.heads._head import LabelHead
from clozeline.train.compression.distillation.teacher import Teacher
from tests.train.compression.distillation.pairs import DROPOUT, batch, model


def test_two_passes_are_equal_and_leave_the_random_stream_alone() -> None:
    teacher = Teacher(model(dropout=DROPOUT).train(), {"state_3", "logits_masked_lm", "attention_1"})
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first, second = teacher(batch()), teacher(batch())
    assert torch.equal(before, torch.get_rng_state())
    assert first.keys() == {"teacher_state_3", "teacher_logits_masked_lm", "teacher_attention_1"}
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not any(tensor.requires_grad for tensor in first.values())


def test_a_teacher_computes_what_is_compared_alone() -> None:
    """Neither heads whose labels a batch lacks nor logits that nothing reads."""
    heads = {"masked_lm": 1.0, "classification": {"classes": 2}}
    for wanted, left in (({"logits_masked_lm"}, ["masked_lm"]), ({"state_0"}, ["masked_lm", "classification"])):
        teacher = Teacher(model(heads=heads), wanted)
        assert list(teacher.model.heads) == left
        assert teacher(batch()).keys() == {f"teacher_{name}" for name in wanted}


def test_a_teacher_has_the_type_of_the_students_weights() -> None:
    teacher = Teacher(model(), {"state_3", "attention_2"}).to(torch.device("cpu"), "bf16")
    found = teacher(batch())
    assert found["teacher_state_3"].dtype == torch.bfloat16
    assert found["teacher_attention_2"].dtype == torch.float32


def test_a_teacher_computes_logits_without_a_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the labels, written out; the chunks of a head do not matter."""
    source, tensors = model(heads={"masked_lm": {"label_chunk": 3}}).eval(), batch()
    with torch.no_grad():
        states = source.family(tensors).flatten(0, 1)
        expected = source.heads["masked_lm"].logits(states[tensors["label_index"]])
    monkeypatch.setattr(LabelHead, "forward", None)
    torch.testing.assert_close(
        Teacher(source, {"logits_masked_lm"})(tensors), {"teacher_logits_masked_lm": expected}, rtol=0.0, atol=1e-6
    )
