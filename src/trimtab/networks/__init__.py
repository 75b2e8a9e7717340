"""Parts of networks: pure functions of parameters and arrays that run on numpy and on JAX alike.

Every function takes the array module it shall work with (`numpy` or `jax.numpy`). What is trained with
JAX is thereby served with numpy alone, by the same lines of code.
"""
