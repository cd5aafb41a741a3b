"""The search for the smallest program that still fails."""
