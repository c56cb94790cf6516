from clozeline.model.checkpoints import map_for, map_of_type, read_checkpoint
from tests.model.checkpoints.published import saved


def options(draw, found):
    return {"max_position_embeddings": 20, "pad_token_id": draw.choice([0, 1, 3]), "type_vocab_size": 1}


def test_it_is_roberta_by_another_name(tmp_path):
    saved(tmp_path / "a", "xlm-roberta")
    checkpoint = read_checkpoint(tmp_path / "a")
    assert map_of_type("roberta").problems(checkpoint.config, checkpoint.token_ids) == []
    assert map_for(checkpoint.config, checkpoint.token_ids).model_type == "roberta"
    assert map_for(checkpoint.config, checkpoint.token_ids, "xlm-roberta").classes[0].name == "XLMRobertaForMaskedLM"
