"""A cluster of test hosts on one Linux machine: network namespaces, an sshd each, and ways to break them."""
