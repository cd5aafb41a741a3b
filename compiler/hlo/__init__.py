"""Modules in the formats that Neuron compilers read."""
