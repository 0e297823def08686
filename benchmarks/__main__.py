"""`python -m benchmarks` is `incidence bench`."""

import sys

from incidence.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
