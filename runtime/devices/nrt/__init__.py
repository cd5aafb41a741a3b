"""Neuron cores, through the Neuron runtime's C library."""
