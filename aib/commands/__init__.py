"""One file a command: reads the options, calls the library, prints."""
