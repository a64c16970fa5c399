"""What is wrong in a text of settings, line by line, and the text as it should be."""
