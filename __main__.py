"""``python -m deepinfer_neuron`` is the ``deepinfer-neuron`` command."""

from .cli import main

main()
