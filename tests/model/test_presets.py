"""Every model of configs/models has the number of parameters of the publication's own code, to the
unit."""

from dataclasses import replace

import pytest
import torch
from pydantic import TypeAdapter

from clozeline.model.build import Model
from clozeline.model.configuration.model_config import ModelConfig
from clozeline.model.configuration.sizes import all_sizes, read_size
from tests.matrices import mark_slow_but

BERT_HEAD = 768 * 768 + 768 + 2 * 768 + 30522
BERT_LARGE_HEAD = 1024 * 1024 + 1024 + 2 * 1024 + 30522
ELMO_DIRECTION = 2 * 512 * 4 * 4096 + 4 * 4096 + 4096 * 512
ELMO_CHARACTERS = 262 * 16 + 16 * (32 + 64 + 192 + 512 + 1280 + 3072 + 7168) + 2048
ELMO = ELMO_CHARACTERS + 2 * (2 * 2048 * 2048 + 2 * 2048) + 2048 * 512 + 512 + 4 * ELMO_DIRECTION
TINY_HEAD = 312 * 312 + 312 + 2 * 312 + 30522
T5_ENCODER = 12 * (4 * 768 * 768 + 2 * 768 * 3072 + 2 * 768) + 768
# Generator, discriminator, and the embeddings that are in both: 31,036 rows and a norm.
ELECTRA = {
    "electra_small": (13_546_682, 13_549_057, 31_038 * 128),
    "electra_base": (33_740_602, 109_483_009, 31_038 * 768),
    "electra_large": (51_295_290, 335_142_913, 31_038 * 1024),
}
# Vocabulary, parameters. BERT and TinyBERT: the published count without its pooler, with the
# masked-LM head.
EXPECTED = {
    "bert_base": (30522, 109_482_240 - (768 * 768 + 768) + BERT_HEAD),
    "bert_large": (30522, 335_141_888 - (1024 * 1024 + 1024) + BERT_LARGE_HEAD),
    "bert_tiny": (30522, 4_385_920 - (128 * 128 + 128) + 128 * 128 + 128 + 2 * 128 + 30522),
    "distilbert": (30522, 66_985_530),
    "mobilebert": (30522, 36_860_220),
    "bert_multilingual_base": (119547, 178_566_653),
    "tinybert_4": (30522, 14_350_248 - (312 * 312 + 312) + TINY_HEAD),
    "tinybert_6": (30522, 66_955_008 - (768 * 768 + 768) + BERT_HEAD),
    "albert_base": (30000, 11_813_810),
    "albert_large": (30000, 17_847_474),
    "albert_xlarge": (30000, 59_021_490),
    "albert_xxlarge": (30000, 223_158_450),
    "megatron_bert_345m": (29056, 334_723_458),
    "megatron_bert_3_9b": (30592, 3_869_260_674),
    "rembert": (250300, 993_263_548),
    "gpt2_small": (50257, 124_439_808),
    "gpt2_medium": (50257, 354_823_168),
    "gpt2_large": (50257, 774_030_080),
    "gpt2_xl": (50257, 1_557_611_200),
    "gpt1": (40478, 116_534_784),
    "gpt3_125m": (50257, 125_226_240),
    "gpt3_350m": (50257, 355_871_744),
    "gpt3_760m": (50257, 760_300_032),
    "gpt3_2_7b": (50257, 2_651_553_280),
    "gpt3_6_7b": (50257, 6_658_404_352),
    "gpt3_175b": (50257, 174_604_259_328),
    "llama1_7b": (32000, 6_738_415_616),
    "llama1_13b": (32000, 13_015_864_320),
    "llama1_33b": (32000, 32_528_943_616),
    "llama1_65b": (32000, 65_285_660_672),
    "llama2_7b": (32000, 6_738_415_616),
    "llama2_13b": (32000, 13_015_864_320),
    "llama2_70b": (32000, 68_976_648_192),
    "llama3_8b": (128256, 8_030_261_248),
    "llama3_70b": (128256, 70_553_706_496),
    "llama3_1_70b": (128256, 70_553_706_496),
    "llama3_1_405b": (128256, 405_853_388_800),
    "llama3_1_8b": (128256, 8_030_261_248),
    "llama3_2_1b": (128256, 1_235_814_400),
    "llama3_2_3b": (128256, 3_212_749_824),
    "modernbert_base": (50368, 149_655_232),
    "modernbert_large": (50368, 395_881_664),
    "llama_tiny": (
        4000,
        2 * 4000 * 256 + 4 * (256 * (2 * 256 + 2 * 128) + 3 * 256 * 688 + 2 * 256) + 256,
    ),
    "t5_small": (32128, 60_506_624),
    "t5_base": (32128, 222_903_552),
    "t5_base_shared": (32128, 222_903_552 - T5_ENCODER),
    "t5_large": (32128, 737_668_096),
    "t5_3b": (32128, 2_851_598_336),
    "t5_11b": (32128, 11_307_321_344),
    "t5_v1_1_small": (32128, 76_961_152),
    "t5_v1_1_base": (32128, 247_577_856),
    "t5_v1_1_large": (32128, 783_150_080),
    "t5_v1_1_xl": (32128, 2_849_757_184),
    "t5_v1_1_xxl": (32128, 11_135_332_352),
    "bart_base": (50265, 139_420_416),
    "bart_large": (50265, 406_291_456),
    "mbart_large": (250027, 610_851_840),
    "xlnet_base": (32000, 116_750_336),
    "xlnet_large": (32000, 360_300_800),
    "roberta_base": (50265, 124_697_433),
    "roberta_large": (50265, 355_412_057),
    "xlm_r_base": (250002, 278_295_186),
    "xlm_r_large": (250002, 560_142_482),
    "unilm_large": (
        28996,
        (28996 + 512 + 6 + 2) * 1024 + 24 * 12_596_224 + BERT_LARGE_HEAD - 30522 + 28996,
    ),
    "xlm_en_2048": (30145, 667_119_041),
    "xlm_xnli15_1024": (95000, 249_071_384),
    "xlm_100_1280": (200000, 571_696_960),
    "mass": (
        60000,
        60000 * 1024 + 6 * (12 * (1024**2 + 1024) + 2 * (8 * 1024**2 + 5 * 1024) + 10 * 1024),
    ),
    "deberta_base": (50265, 139_244_121),
    "deberta_large": (50265, 406_264_921),
    "deberta_v2_xlarge": (128100, 887_085_156),
    "deberta_v2_xxlarge": (128100, 1_567_041_636),
    "deberta_v3_xsmall": (128100, 70_958_820),
    "deberta_v3_small": (128100, 142_024_548),
    "deberta_v3_base": (128100, 184_551_780),
    "deberta_v3_large": (128100, 435_191_908),
    **{name: (30522, sum(parts) - shared) for name, (*parts, shared) in ELECTRA.items()},
    # 93.6 M in the paper (arXiv 1802.05365), without the softmax: a matrix and a bias of 800,000
    # words.
    "elmo": (800_000, ELMO + 800_000 * 513),
    # 24 M in the paper (arXiv 1708.02182) with the 10,000 words of the Penn treebank.
    "awd_lstm": (10_000, 4 * (1150 * 1551 + 1150 * 2301 + 400 * 1551) + 10_000 * 401),
}


def load(name):
    return TypeAdapter(ModelConfig).validate_python(read_size(name))


def test_every_preset_has_its_count_and_a_multiple_of_64_rows():
    """Matrix kernels want that.

    The rows that pad a table are never predicted, and exports do not have them.
    """
    assert set(all_sizes()) == set(EXPECTED)
    for name, (vocabulary, _) in EXPECTED.items():
        multiple = load(name).vocab_multiple
        assert -(-vocabulary // multiple) * multiple % 64 == 0, name


@pytest.mark.parametrize("name", mark_slow_but([*EXPECTED][::3], EXPECTED))
def test_parameter_counts(name):
    vocabulary, parameters = EXPECTED[name]
    with torch.device("meta"):
        model = Model(replace(load(name), vocab_multiple=1), vocabulary)
    assert model.num_parameters() == parameters
