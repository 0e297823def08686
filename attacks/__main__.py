"""`python -m attacks`: the jobs."""

import sys

from attacks import main

sys.exit(main(sys.argv[1:]))
