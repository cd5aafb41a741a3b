"""What this machine has, and what to do about what it lacks."""
