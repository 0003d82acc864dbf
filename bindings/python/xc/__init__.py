"""xc: run models at once on vendor kernels, and faster while they run.

    import numpy as np, xc
    session = xc.Session("model.onnx")
    [y] = session.run([np.zeros((1, 784), np.float32)])
    print(session.explain())

Settings not given as arguments are read from the environment (XC_JIT=off, ...); `xc.options()` lists
them. Arrays returned by `run` share memory with the session's pool; they are ordinary NumPy arrays that
live as long as you keep them. Any number of threads may run one session at once.
"""

from xc._core import Call, Engine, Error, Operators, Port, Session, options, runtime_version

__version__ = runtime_version()
__all__ = ["Call", "Engine", "Error", "Operators", "Port", "Session", "options", "runtime_version"]
