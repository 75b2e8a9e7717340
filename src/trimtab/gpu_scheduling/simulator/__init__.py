"""The compiled engine of GPU scheduling: machines, gangs and the speed at which jobs run, as plain arrays.

`state` draws the arrays, `events` moves time, `placing` gives and takes machines, `speeds` says how fast a
job runs, `replay` are the compiled doors and `simulator` the Python face.
"""
