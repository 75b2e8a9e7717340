"""`python -m trimtab`: the command line, where its script is not on the path."""

import sys

from trimtab.cli.main import main

if __name__ == "__main__":  # workers of other processes import this file, too
    sys.exit(main())
