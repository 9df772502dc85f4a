"""One module per subcommand: options, help, and the call into the engine."""
