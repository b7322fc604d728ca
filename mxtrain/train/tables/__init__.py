"""Training of nets with tables: their rows on the way to micro-batches, and gradients on the way back."""
