"""Build example sets for fine-tuning and evaluation from labeled task files, one set per split."""
