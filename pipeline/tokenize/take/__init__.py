"""The stage that takes a published tokenizer instead of training one."""
