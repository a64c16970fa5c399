"""What runs on the hosts: standard library alone, Python 3.8 and later, sent over stdin."""
