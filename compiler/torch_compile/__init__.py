"""The Dynamo backend."""
