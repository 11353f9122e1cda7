import os

# Several small OpenMP jobs on few cores crawl when their threads spin while they wait.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")
# What tests compare, also with the processes that they start, must not depend on whether the CPU has bfloat16.
os.environ["SMLSTM_PRECISION"] = "float32"

from hypothesis import HealthCheck, settings

# No deadline: machines are shared, and no test asserts on wall-clock time.
settings.register_profile(
    "smlstm",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("smlstm")
