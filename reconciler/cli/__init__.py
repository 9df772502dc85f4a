"""The command line: the composition root, and the only place that prints, reads the environment, and exits."""
