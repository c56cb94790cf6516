from clozeline.model.checkpoints import map_for, map_of_type, read_checkpoint
from tests.model.checkpoints.published import saved


def options(draw, found):
    """The ids of the published vocabulary, whose first pieces are `<s>` and `</s>`."""
    return {"max_position_embeddings": 20, "pad_token_id": 1, "bos_token_id": 5, "eos_token_id": 6}


def test_it_is_roberta_by_another_name(tmp_path):
    saved(tmp_path, "camembert", type_vocab_size=1)
    checkpoint = read_checkpoint(tmp_path)
    assert map_of_type("roberta").problems(checkpoint.config, checkpoint.token_ids) == []
    assert map_for(checkpoint.config, checkpoint.token_ids).model_type == "roberta"
    assert map_for(checkpoint.config, checkpoint.token_ids, "camembert").classes[0].name == "CamembertForMaskedLM"
    assert (checkpoint.token_ids["bos_token_id"], checkpoint.token_ids["eos_token_id"]) == (5, 6)
