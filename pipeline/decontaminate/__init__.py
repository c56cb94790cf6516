"""The stage `decontaminate`: find evaluation items in the training documents, and drop what holds them."""
