"""`python -m adjudge`: the command line."""

from adjudge.cli.main import main

if __name__ == "__main__":
    main()
