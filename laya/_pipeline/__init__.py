"""From questions and states to token batches, and from logits to answers. NumPy only: no torch, no hooks."""
