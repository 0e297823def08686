"""How fast it is: `./run bench [NAME ...]`. Ratios inside one run, never timed tests."""
