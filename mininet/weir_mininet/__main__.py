"""`python3 -m weir_mininet serve REQUESTS REPLIES` (file descriptors), or `clean`."""

import os
import sys


def main() -> int:
    if os.geteuid() != 0:
        print("error: Mininet needs root; run this with sudo", file=sys.stderr)
        return 2
    from . import serve  # imports Mininet

    if sys.argv[1:] == ["clean"]:
        return serve.clean()
    if len(sys.argv) == 4 and sys.argv[1] == "serve":
        return serve.serve(int(sys.argv[2]), int(sys.argv[3]))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
