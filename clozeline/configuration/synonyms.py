"""Names of options in other libraries, with the recipe key of the same meaning."""

from collections.abc import Mapping
from typing import Final

LENGTH_NAMES: Final = (
    "max_length max_len max_seq_length max_seq_len seq_length seq_len sequence_length block_size context_length"
)
MASK_NAMES: Final = "mlm_probability mask_prob mask_probability masking_rate mlm_prob"


def by_name(names_of: Mapping[str, str]) -> dict[str, str]:
    """Return the key of each name: names stand between spaces, by the key that they mean."""
    return {name: key for key, names in names_of.items() for name in names.split()}


MASK_SYNONYMS: Final[Mapping[str, str]] = by_name({"'mask_rate'": MASK_NAMES})
"""Names of an option of objectives that mask."""

_TRAINING: Final = "it in `clozeline train`: a recipe of the pipeline makes shards, and trains nothing"

_WORDS: Final = {
    "'corrupt.max_length', tokens of a row (of span_corruption: corrupt.input_length)": LENGTH_NAMES,
    "'corrupt.mask_rate'": f"mask_rate {MASK_NAMES}",
    "'corrupt.variants'": "dupe_factor num_variants",
    "'train_tokenizer.size', or 'tokenizer.path' for a tokenizer that exists": "vocab_size vocabulary_size",
    "'tokenizer.path'": "tokenizer_name tokenizer_path tokenizer_name_or_path",
    "'input'": "inputs input_file input_files input_dir input_path data data_dir data_path dataset dataset_name "
    "train_file files path source",
    "'output'": "output_dir output_path out out_dir outdir outputs",
    "'executor.workers'": "workers num_workers nproc num_proc processes num_processes preprocessing_num_workers jobs",
    "'executor.name'": "backend",
    "'clean.language'": "language languages lang",
    "'clean.filters'": "filters filter",
    "'input', such as input='{path: FILE, text_key: COLUMN}'": "text_key text_column text_field column field",
    "'heldout.fraction'": "heldout_fraction val_fraction validation_split validation_fraction test_size dev_fraction",
    "'plan.shard_bytes'": "shard_size max_shard_size shard_bytes",
    "'dedup', such as dedup={}": "deduplicate deduplication",
    "'decontaminate', such as decontaminate={against: FILES}": "decontamination contamination",
    "'seed'": "random_seed",
    _TRAINING: "batch_size lr learning_rate epochs num_epochs num_train_epochs steps max_steps warmup_steps "
    "gradient_accumulation_steps weight_decay optimizer schedule model fp16 bf16 precision",
}

SYNONYMS: Final[Mapping[str, str]] = by_name(_WORDS)
"""Last word of an unknown key, and for a message the key to use, in quotes, with what is to be known of it."""
