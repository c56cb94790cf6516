"""Lines about what stays in floating point, for models without a tied head."""

from clozeline.model.compression._quantization import describe_tables, quantize
from clozeline.registry import choose
from tests.model.compression.compressed_models import odd_checkpoint

FORMATS = "clozeline.model.quantization.formats"


def test_a_head_of_its_own_is_not_called_tied():
    line = describe_tables(odd_checkpoint(tied=False), choose(FORMATS, "int8").build())
    assert line == "left in fp32: norms, biases, heads, the token table"


def test_a_classifier_is_not_called_tied():
    checkpoint = odd_checkpoint(tied=True, heads={"classification": {"classes": 3}})
    assert describe_tables(checkpoint, choose(FORMATS, "int8").build()).endswith("heads, the token table")


def test_the_configuration_names_the_format():
    found = quantize(odd_checkpoint(), choose(FORMATS, "int8"))
    assert found.checkpoint.config.quantization.plain() == {"name": "int8", "embeddings": False, "stored": True}
