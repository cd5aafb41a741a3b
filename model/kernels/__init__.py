"""Custom operators of the decode step: each is opaque to capture and carries its contract, body and decomposition."""
