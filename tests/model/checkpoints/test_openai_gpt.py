from clozeline.model.checkpoints import map_of_type, read_checkpoint
from tests.model.checkpoints.published import saved


def test_its_gelu_is_the_approximation_and_its_width_is_fixed(tmp_path):
    theirs = saved(tmp_path, "openai-gpt", afn="gelu")
    config = read_checkpoint(tmp_path).config
    assert (config.activation, config.ffn_dim) == ("gelu_tanh", 4 * theirs.config.n_embd)
    assert map_of_type("gpt2").problems(config, {}) != []
