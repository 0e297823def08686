"""Products: several tensors multiplied entry by entry, and summed over the nodes they share."""
