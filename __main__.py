"""``python -m deepinfer_neuron`` is the ``deepinfer-neuron`` command."""

from .cli.app import main

main()
