"""Continue texts, fill masks, and write vectors of texts with a trained model."""
