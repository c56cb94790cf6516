"""Configuration of a distillation, students with its losses, and teachers in memory."""

import torch

from clozeline.configuration.config import to_data, validate
from clozeline.extensions.compression.distillation.losses.cosine import CosineLoss
from clozeline.extensions.compression.distillation.student import Teacher
from clozeline.model.heads._head import LabelHead
from clozeline.train.configuration.config import frozen
from clozeline.train.registries import TRAINING_KEYS
from tests.extensions.compression.distillation.pairs import batch, loss, model, pair
from tests.refusals import refused
from tests.train.synthetic import tiny

TEACHER = {"teacher": "runs/teacher"}


def test_a_configuration_is_read_again_as_it_was_written():
    config = tiny(
        distil={**TEACHER, "losses": [{"name": "states", "layers": {1: 2, 0: 0}}, "attention"]}
    )
    again = validate(type(config), to_data(config), "again")

    assert again == config
    assert frozen(again) == frozen(config)

    assert not {"distil.teacher", "distil.start"} & frozen(config).keys()


def test_without_a_teacher_in_memory_only_stored_scores_are_left():
    distil = tiny(distil={"losses": ["cosine", "scores"], "start": {"layers": [0, 2]}}).part(
        TRAINING_KEYS.load_class("distil")
    )
    assert [loss.name for loss in distil.active] == ["scores"]
    assert distil.start_from is None


def test_a_loss_is_named_once():
    with refused("losses: expected one or more, each once, got scores, scores"):
        tiny(distil={**TEACHER, "losses": ["scores", "scores"]})


CHOSEN = [loss("scores", weight=5.0), loss("states", weight=0.5), loss("embeddings")]


def test_a_student_has_the_names_and_losses_of_its_model():
    alone = model(2, dim=12)
    names = [name for name, _ in alone.named_parameters()]
    expected = alone.eval()(batch())["masked_lm"].total
    student, teacher = pair(alone, model(), *CHOSEN)
    new = [name for name, _ in student.new_parameters()]

    assert new == ["distillation.states.project.weight", "distillation.embeddings.project.weight"]
    assert [name for name, _ in student.named_parameters()] == [*names, *new]
    assert student.num_parameters() == alone.num_parameters()

    tensors = batch()
    found = student.eval()({**tensors, **teacher(tensors)})

    assert torch.equal(found["masked_lm"].total, expected)
    assert list(found) == ["masked_lm", "distil/scores", "distil/states", "distil/embeddings"]
    assert student.loss_weights == {
        "masked_lm": 1.0,
        "distil/scores": 5.0,
        "distil/states": 0.5,
        "distil/embeddings": 1.0,
    }
    assert student.layer_maps == {"states": {"1": 1, "2": 2, "3": 3}, "embeddings": {"0": 0}}


def test_a_teacher_computes_what_is_compared_alone():
    """Neither heads whose labels a batch lacks nor logits that nothing reads."""
    heads = {"masked_lm": 1.0, "classification": {"classes": 2}}

    for wanted, left in (({"logits_masked_lm"}, ["masked_lm"]), ({"state_0"}, [])):
        teacher = Teacher(model(heads=heads), wanted)
        assert list(teacher.model.heads) == left
        assert teacher(batch()).keys() == {f"teacher_{name}" for name in wanted}


def test_a_teacher_has_the_type_of_the_students_weights():
    teacher = Teacher(model(), {"state_3", "attention_2"}).to(torch.device("cpu"), "bf16")
    found = teacher(batch())
    assert found["teacher_state_3"].dtype == torch.bfloat16
    assert found["teacher_attention_2"].dtype == torch.float32


def test_a_teacher_computes_logits_without_a_loss(monkeypatch):
    """Those of the labels, written out; the chunks of a head do not matter."""
    source = model(heads={"masked_lm": {"label_chunk": 3}}).eval()
    tensors = batch()
    with torch.no_grad():
        states = source.family(tensors).flatten(0, 1)
        expected = source.heads["masked_lm"].logits(states[tensors["label_index"]])

    monkeypatch.setattr(LabelHead, "forward", None)

    torch.testing.assert_close(
        Teacher(source, {"logits_masked_lm"})(tensors),
        {"teacher_logits_masked_lm": expected},
        rtol=0.0,
        atol=1e-6,
    )


def test_several_teachers_are_their_mean():
    """Also in what they cost; and only the scores can be a mean."""
    models = [model(), model(), model()]
    wanted = {"logits_masked_lm"}
    with torch.no_grad():
        for place, one in enumerate(models):
            for parameter in one.parameters():
                parameter.add_(0.1 * place)
    alone = [Teacher(one, wanted)(batch())["teacher_logits_masked_lm"] for one in models]
    found = Teacher(models[0], wanted, *models[1:])(batch())["teacher_logits_masked_lm"]

    assert not torch.allclose(alone[0], alone[1])
    torch.testing.assert_close(found, torch.stack(alone).mean(0))

    with refused("further: needs a teacher, and the loss scores alone"):
        tiny(distil={"teacher": "a", "further": ["b"], "losses": ["scores", "cosine"]})


class Glances(CosineLoss):
    """A loss that reads layers."""

    reads_attention = True


def test_a_loss_of_ones_own_says_what_it_reads():
    losses = [{"name": f"{__name__}:Glances"}]
    with refused(r"distil.losses=.*Glances: .*compile=true"):
        tiny(compile=True, distil={"teacher": "elsewhere", "losses": losses})
