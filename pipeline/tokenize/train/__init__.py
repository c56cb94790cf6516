"""The stage `train_tokenizer`: train a tokenizer on a sample of the documents."""
