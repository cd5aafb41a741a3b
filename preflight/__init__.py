"""What a Neuron compiler would refuse, found in a module before it is asked."""
