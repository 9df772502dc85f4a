"""The pure core: values in, values out. No clock, environment, file, network, process or randomness."""
