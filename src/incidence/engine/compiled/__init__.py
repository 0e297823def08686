"""Networks as one call each way. The folder can be deleted: everything works without it, slower."""
