"""The command line: a file for each command, and the tables it prints."""
