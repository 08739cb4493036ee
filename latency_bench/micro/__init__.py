"""Parts of the program, each measured alone and without a server."""
