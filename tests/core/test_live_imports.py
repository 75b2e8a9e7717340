"""What runs live imports neither numba nor jax, not even by way of a package: the linter does not see these.

Whoever imports `simulator.something` runs `simulator/__init__.py` first, and with it the whole engine.
"""

import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

CONTRACTS = Path(__file__).parents[2] / ".importlinter"
WALK = """
import importlib, pkgutil, sys
live, forbidden = (argument.split() for argument in sys.argv[1:])
def walk(name):
    module = importlib.import_module(name)
    if found := sorted(set(forbidden) & set(sys.modules)):
        sys.exit(f"{name} imports {', '.join(found)}")
    for part in pkgutil.iter_modules(getattr(module, "__path__", [])):
        walk(f"{name}.{part.name}")
for name in live:
    walk(name)
print(len(live))
"""


def test_what_runs_live_loads_no_engine() -> None:
    contracts = ConfigParser()
    contracts.read(CONTRACTS)
    listed = contracts["importlinter:contract:live"]
    command = [sys.executable, "-c", WALK, listed["source_modules"], listed["forbidden_modules"]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10
