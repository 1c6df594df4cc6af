"""`python -m privboost` is the command line."""

from privboost.cli.main import main

main()
