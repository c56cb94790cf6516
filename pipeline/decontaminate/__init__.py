"""The stage `decontaminate`: find evaluation items in the training documents, and remove or label what holds them."""
