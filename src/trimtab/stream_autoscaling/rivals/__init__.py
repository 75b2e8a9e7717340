"""The learned rivals of SURE's table, each as an encoder of history: same features, actions and heads.

Compact and after their papers; where a published network has weights for every single vertex, these have
none, because one policy serves jobs of different sizes. What that changes is said in each file.
"""
