"""Names of options in other libraries, with the training key of the same meaning."""

from collections.abc import Mapping
from typing import Final

from clozeline.configuration.synonyms import LENGTH_NAMES, MASK_NAMES, by_name

_ROWS: Final = "'data.global_batch', rows of one optimizer step over all ranks"
_MICRO: Final = "'data.micro_batch', rows of one forward pass on one rank"
_ACCUMULATION: Final = (
    "'data.global_batch' and 'data.micro_batch': each rank accumulates the gradients of global_batch / (ranks x "
    "micro_batch) forward passes"
)
_EPOCHS: Final = "'steps': an epoch is rows of the set / data.global_batch steps, which --dry-run prints"
_LENGTH: Final = (
    "'model.position.maximum' for what the model can read; rows have the length that they were made with: give "
    "corrupt.max_length to `clozeline pipeline`"
)
_SHARDS: Final = "'data.shards', the manifest.json of a set that `clozeline pipeline` made of your texts"
_VOCABULARY: Final = "'data.shards': the tokenizer is that of the shards; choose it in `clozeline pipeline`"
_MASKS: Final = (
    "'data.corrupt', such as data.corrupt={name: masked_lm, mask_rate: 0.15} over a sample set; in finished shards it "
    "is decided: give corrupt.mask_rate to `clozeline pipeline`"
)
_PLACES: Final = "no key: start one process per device by `deepspeed $(clozeline where train/main.py)` or torchrun"

_WORDS: Final = {
    _ROWS: "batch_size train_batch_size global_batch_size total_batch_size effective_batch_size batch",
    _MICRO: "per_device_train_batch_size per_device_eval_batch_size per_gpu_train_batch_size micro_batch_size "
    "train_micro_batch_size_per_gpu device_batch_size eval_batch_size",
    _ACCUMULATION: "gradient_accumulation_steps gradient_accumulation accumulation_steps grad_accum "
    "accumulate_grad_batches",
    _EPOCHS: "epochs epoch num_epochs num_train_epochs n_epochs max_epochs",
    "'steps'": "max_steps num_steps train_steps total_steps num_train_steps max_iters num_iterations iterations",
    _LENGTH: f"{LENGTH_NAMES} max_position_embeddings n_positions",
    "'optimizer.learning_rate'": "lr learning_rate max_lr peak_lr peak_learning_rate base_lr",
    "'schedule.final', as a share of the peak": "min_lr end_lr lr_end",
    "'optimizer.weight_decay'": "weight_decay wd",
    "'optimizer.betas', such as optimizer.betas=[0.9,0.95]": "adam_beta1 adam_beta2 beta1 beta2 adam_betas",
    "'optimizer.eps'": "adam_epsilon adam_eps epsilon",
    "'optimizer.layer_decay'": "layerwise_lr_decay llrd",
    "'optimizer.name'": "optim optimizer_name optimizer_type",
    "'schedule.name'": "lr_scheduler_type lr_scheduler lr_schedule scheduler",
    "'schedule.warmup', in steps": "warmup warmup_steps num_warmup_steps warmup_ratio lr_warmup_steps",
    "'gradient_clipping'": "max_grad_norm clip_grad_norm grad_clip gradient_clip_val clip_grad",
    "'precision', fp32 or bf16": "fp16 bf16 mixed_precision dtype torch_dtype amp",
    "'activation_checkpointing'": "gradient_checkpointing",
    "'compile'": "torch_compile",
    "'output'": "output_dir save_dir out_dir run_dir logging_dir checkpoint_dir",
    "'checkpoint.every', in steps": "save_steps save_interval save_every save_strategy checkpoint_every",
    "'checkpoint.keep_last'": "save_total_limit",
    "'evaluate.every', in steps": "eval_steps eval_interval eval_every eval_strategy evaluation_strategy",
    "'log.every', in steps": "logging_steps log_interval log_every log_every_n_steps",
    "'log.tracker'": "report_to logger",
    "'resume'": "resume_from_checkpoint",
    "'early_stop.patience', with early_stop.metric": "early_stopping patience early_stopping_patience",
    "'model.init_from'": "model_name_or_path model_name model_path pretrained pretrained_model init_checkpoint "
    "load_from",
    _SHARDS: "train_file train_data train_path dataset dataset_name dataset_path data_dir data_path input input_file",
    "'data.heldout'": "validation_file validation_data valid_data eval_file eval_data eval_dataset dev_file",
    "'data.io_threads'": "num_workers dataloader_num_workers workers",
    "'model.dim'": "hidden_size d_model n_embd embed_dim embedding_dim model_dim",
    "'model.layers'": "num_layers num_hidden_layers n_layer n_layers depth",
    "'model.attention_heads'": "num_heads num_attention_heads n_head n_heads",
    "'model.kv_heads'": "num_key_value_heads n_kv_heads",
    "'model.ffn_dim'": "intermediate_size d_ff ffn_hidden_size ffn_size",
    "'model.activation'": "hidden_act activation_function",
    "'model.position.theta'": "rope_theta rope_base",
    "'model.tied'": "tie_word_embeddings tie_embeddings",
    _VOCABULARY: "vocab_size tokenizer tokenizer_name tokenizer_path",
    _MASKS: f"mask_rate {MASK_NAMES}",
    "'seed', and 'data.seed' for the order of the data": "random_seed data_seed",
    "'zero.stage'": "zero_stage zero_optimization deepspeed",
    _PLACES: "device devices gpus num_gpus n_gpu ngpus nproc_per_node",
}

SYNONYMS: Final[Mapping[str, str]] = by_name(_WORDS)
"""Last word of an unknown key, and for a message the key to use, in quotes, with what is to be known of it."""
