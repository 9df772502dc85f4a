"""`python -m reconciler`."""

from reconciler.cli.app import main

if __name__ == "__main__":
    main()
