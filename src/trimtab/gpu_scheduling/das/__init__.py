"""DAS: order and placement by two agents that learn (Xing et al., KDD'23), and our own form of it."""
