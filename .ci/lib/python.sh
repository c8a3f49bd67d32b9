# Steps with packages from PyPI, each in an environment of its own. Wants $target, $logs and $weir.

# environment NAME PACKAGE...: sets $python to the interpreter of a virtual environment with these packages. One pip
# serves all, and compiles nothing ahead: both would take longer than what runs in them.
environment() {
    local venv=$target/venv-$1 pip=$target/venv-pip
    shift
    if [[ $* != "$(cat "$venv/packages" 2>/dev/null)" ]]; then
        flock "$target" bash -c '[[ -x $0/bin/pip ]] || python3 -m venv "$0"' "$pip" && python3 -m venv --clear --without-pip "$venv" &&
            "$pip/bin/pip" --python "$venv/bin/python3" install --quiet --no-compile --disable-pip-version-check "$@" &&
            echo "$*" >"$venv/packages" || return 1
    fi
    python=$(realpath "$venv")/bin/python3
}

# Sets $python to an interpreter with p4lang's shell for P4Runtime, whose old dependencies are built with a setuptools
# that still has pkg_resources, and a Thrift client.
shell_environment() {
    PIP_CONSTRAINT=$PWD/.ci/pip-constraints environment p4runtime-shell p4runtime-shell thriftpy2
}

# The Python package's tests, and the notebooks, on the module of the tests' build: a wheel would compile all that it
# needs once more, with fewer features. (`make packages` builds the wheel and tries it.)
python_package() {
    local python package=$target/python/weir wanted
    mapfile -t wanted < <(python3 -c '
import tomllib
print(*tomllib.load(open("python/pyproject.toml", "rb"))["project"]["optional-dependencies"]["test"], sep="\n")')
    environment python "${wanted[@]}" ipykernel matplotlib nbclient || return 1
    rm -rf "$package" && mkdir -p "$package" && cp python/weir/* "$package" &&
        cp "$target/debug/lib_weir.so" "$package/_weir.abi3.so" || return 1
    export WEIR PYTHONPATH
    WEIR=$(realpath "$weir") PYTHONPATH=$(realpath "$target/python")
    "$python" -m pytest -q python/tests && "$python" .ci/run-notebooks.py examples/notebooks/*.ipynb
}

# P4Runtime clients that others wrote against `weir switch`. They want different versions of protobuf.
p4runtime_clients() {
    local python status=0
    shell_environment && WEIR=$weir "$python" switch/tests/clients/shell.py || status=1
    environment finsy finsy && WEIR=$weir "$python" switch/tests/clients/finsy_client.py || status=1
    return $status
}

# Two switches in real time, one of them BMv2 where that is installed.
live_comparison() {
    local python bmv2=()
    if command -v simple_switch_grpc >/dev/null; then bmv2=(--bmv2 simple_switch_grpc); fi
    shell_environment && "$python" switch/tests/live/compare.py --weir "$weir" --jobs 4 "${bmv2[@]}"
}

# Our .proto files against those that p4lang publishes on PyPI.
published_protos() {
    local python
    environment p4runtime p4runtime &&
        PYTHON=$python cargo test --locked --workspace --test it every_fact_is_the_published_one -- --ignored
}

# The schema for editors accepts every experiment and finds what is wrong.
experiment_schema() {
    local python
    environment schema jsonschema pyyaml && "$weir" schema >"$logs/weir.schema.json" &&
        "$python" .ci/check-schema.py "$logs/weir.schema.json" experiments/*.yaml examples/own-p4/*.yaml
}

# Misspelled words in code and documentation; .codespellrc has the exceptions.
spelling() {
    local python
    environment codespell codespell && "$python" -m codespell_lib
}
