"""Find a checkpoint's files, check them, and read what they say."""
