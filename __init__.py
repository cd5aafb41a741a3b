"""Compile the decode step of a language model for AWS Trainium, replay it, and prove it right on any CPU."""
