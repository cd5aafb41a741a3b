"""What a program computes: its values in a real run, in float64 and in eager PyTorch, and what differs."""
