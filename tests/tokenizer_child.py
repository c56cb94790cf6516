"""One child for all imports of a test process, which would start one each: importing transformers
takes a second."""

import json
import resource
import subprocess
import sys
from contextlib import contextmanager

_CHILD = "clozeline.pipeline.tokenize.published.auto_tokenizer"


@contextmanager
def lasting_child():
    """Yield a stand-in for `importing.describe_in_child`, and end its process."""
    children = []

    def ask(request):
        if not children or children[-1].poll() is not None:
            pipe = subprocess.PIPE
            command = [sys.executable, "-m", _CHILD]
            child = subprocess.Popen(
                command, cwd="/", stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
            )
            # a test may have limited what this process writes, to be a full disk
            hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
            resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (hard, hard))
            children.append(child)

        child = children[-1]

        try:
            child.stdin.write(json.dumps(request) + "\n")
            child.stdin.flush()
            return child.stdout.readline()
        except BaseException:
            child.kill()  # its answer would be read as that of the next request
            raise

    try:
        yield ask
    finally:
        for child in children:
            child.kill()  # a process that a test leaked may hold its pipe open
            child.communicate()
