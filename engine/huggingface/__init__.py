"""A decoder of the ``transformers`` package as a decode step whose requests each have a row of the caches."""
