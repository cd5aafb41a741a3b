"""NEFF (Neuron Executable File Format) files: the compiled programs that the Neuron runtime loads."""
