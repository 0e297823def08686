"""The engine: which bags entries write to and read from, and the sums over them."""
