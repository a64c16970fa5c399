"""How the choice of the network is made: planning/network.py is its door."""
