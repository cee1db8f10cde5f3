"""Ready engines, a folder for each, which is run with `python -m`."""
