from clozeline.model.checkpoints import export_checkpoint, map_of_type, read_checkpoint
from tests.model.checkpoints.published import edit_config, saved

READS_LEFT_PADDING = False


def options(draw, found):
    """Without a tie the class has three token tables, which is not built."""
    return {"decoder_start_token_id": 2, "tie_word_embeddings": True}


def test_its_norms_come_first_and_last(tmp_path):
    saved(tmp_path, "mbart")
    edit_config(tmp_path, normalize_before=True)
    config = read_checkpoint(tmp_path).config
    assert (config.norm_place, config.final_norm) == ("pre", True)
    reasons = map_of_type("bart").problems(config, {})
    assert [reason.split(":")[0] for reason in reasons] == ["norm_place", "final_norm"]


def test_ids_of_languages_go_along(tmp_path):
    saved(tmp_path, "mbart")
    edit_config(tmp_path, forced_bos_token_id=9)
    export = export_checkpoint(read_checkpoint(tmp_path))
    assert export.generation["forced_bos_token_id"] == export.config["forced_bos_token_id"] == 9
