"""`python -m benchmarks NAME ...`: run a benchmark; without a name, all of them at small size."""

import sys

from benchmarks import arrays, seal, tpch, tweets

BENCHMARKS = {
    "tpch": tpch.main,
    "arrays": arrays.main,
    "tweets": tweets.main,
    "seal": seal.main,
}

if __name__ == "__main__":
    names = sys.argv[1:2] or list(BENCHMARKS)
    for name in names:
        if name not in BENCHMARKS:
            sys.exit(f"no benchmark named {name!r}; there is {', '.join(BENCHMARKS)}")
        BENCHMARKS[name](sys.argv[2:])
