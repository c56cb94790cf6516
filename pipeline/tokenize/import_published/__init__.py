"""The stage `tokenizer`: import a published tokenizer instead of training one."""
