"""The stage that learns a tokenizer from a sample of the documents."""
