"""Squeeze and communicate: the formula by hand, machines that are not there, numpy = JAX."""

import jax.numpy as jnp
import numpy as np
import pytest

from trimtab.networks.squeeze_and_communicate import communicated, new_communication, squeezed


def test_the_formula_by_hand() -> None:
    parameters = {
        "message": {"weights": np.array([[2.0]]), "bias": np.array([1.0])},
        "gate_of_job": {"weights": np.array([[1.0]]), "bias": np.array([-1.0])},
        "gate_of_message": {"weights": np.array([[0.5]])},
    }
    message = 2.0 * 1.5 + 1.0
    for job in (-3.0, 0.0, 2.0):
        gate = 1 / (1 + np.exp(-(job + 0.5 * message - 1.0)))
        wanted = gate * message + (1 - gate) * job
        found = communicated(parameters, np.array([[[job]]]), np.array([[1.5]]), np)
        assert found.item() == pytest.approx(wanted)


def test_only_machines_that_are_there_count() -> None:
    machines = np.array([[[2.0, 4.0], [4.0, 8.0], [np.inf, np.nan]], [[9.0, 9.0]] * 3])
    real = np.array([[True, True, False], [False] * 3])
    assert squeezed(machines, real, np).tolist() == [[3.0, 6.0], [0.0, 0.0]]


def test_at_first_jobs_stay_nearly_what_they_were_and_numpy_is_jax() -> None:
    random = np.random.default_rng(0)
    parameters = new_communication(random, 8)
    jobs, machines = random.normal(size=(2, 5, 8)).astype(np.float32), np.zeros((2, 8), np.float32)
    heard = communicated(parameters, jobs, machines, np)
    assert np.corrcoef(heard.ravel(), jobs.ravel())[0, 1] > 0.95
    machines = random.normal(size=(2, 8)).astype(np.float32)
    ours = communicated(parameters, jobs, machines, np)
    theirs = communicated(parameters, jnp.asarray(jobs), jnp.asarray(machines), jnp)
    assert ours == pytest.approx(np.asarray(theirs), abs=1e-6)
