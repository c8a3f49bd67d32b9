"""A fake of Ray for tests: a task runs when its result is requested, and the worker of the run with seed 13 dies."""

from types import SimpleNamespace


class RayError(Exception):
    pass


class RayTaskError(RayError):
    def __init__(self, cause):
        self.cause = cause


exceptions = SimpleNamespace(RayError=RayError, RayTaskError=RayTaskError)
ObjectRef = list


def is_initialized():
    return False


def init(**_):
    print("output of Ray")


def shutdown():
    pass


class Reference:
    def __init__(self, call):
        self.call = call


def remote(**options):
    assert options == {"num_cpus": 1, "max_retries": 3}
    return lambda function: SimpleNamespace(remote=lambda task: Reference(lambda: _work(function, task)))


def _work(function, task):
    if task["seed"] == 13:
        raise RayError("its node died\nand more")
    try:
        return function(task)
    except Exception as error:
        raise RayTaskError(error) from error


def wait(references):
    # In another order than that of the sweep.
    return references[-1:], references[:-1]


def get(reference):
    return reference.call()


def cancel(_reference, force):
    assert force
