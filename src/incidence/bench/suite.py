BENCHMARKS: dict = {}


def run_suite(): ...
