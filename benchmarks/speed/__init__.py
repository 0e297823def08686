"""How fast the library is, in ratios that anyone can repeat: `incidence bench`.

Every benchmark interleaves its variants in rounds, so that a busy machine slows all of them alike,
and reports ratios inside one run: against a lower bound made of the best rates of the same run,
against the usual compositions, against peers.
"""
