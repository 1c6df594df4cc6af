"""`python -m privboost` is the command line."""

from privboost.cli import main

main()
