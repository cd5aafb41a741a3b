"""Device kernels: what replaces the body of a custom operator on a Trainium target."""
