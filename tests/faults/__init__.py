"""Faults under real runs on the test cluster: each is made, and what must be seen after it is looked for."""
