# Steps on the built programs alone, and what they need of Debian. Wants $target and $weir.

# What the tests in network namespaces, in Mininet, of the dissector and of the report run: Debian's, installed if we may.
debian_packages() {
    local -A package=(
        [ip]=iproute2 [tc]=iproute2 [ping]=iputils-ping [tshark]=tshark [python3]=python3-venv
        [mn]=mininet [ethtool]=ethtool [chromium]=chromium [valgrind]=valgrind
    )
    local tool missing=()
    for tool in "${!package[@]}"; do
        command -v "$tool" >/dev/null || missing+=("${package[$tool]}")
    done
    ((${#missing[@]})) || return 0
    echo "installing ${missing[*]}"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

packet_tests() {
    local program tests=$target/packet-tests status=0
    python3 p4src/tests/make_stf.py "$tests" || return 1
    for program in p4src/build/*.json; do
        local name
        name=$(basename "$program" .json)
        if [[ -d $tests/$name ]]; then
            "$weir" stf --quiet "$program" "$tests/$name"/*.stf || status=1
        fi
    done
    return $status
}

# The examples of the crate p4runtime: the reader gets the cells of a register of a switch that the controller has set
# up, and an error of the small server, which has no registers.
p4runtime_examples() {
    local at=127.0.0.1:9601 reader=$target/debug/examples/read_register status=0 switch server
    "$weir" switch --no-p4 --thrift-addr 127.0.0.1 --thrift-port 9602 -- --grpc-server-addr $at & switch=$!
    "$target/debug/examples/server" & server=$!
    sleep 1
    "$weir" controller apply --topology <(echo '{kind: star, hosts: 2}') --program p4src/build/hpcc.json --switch s1=$at &&
        [[ $("$reader" $at queue_bytes | grep -c '^queue_bytes\[[0-9]*\] = 0$') == 512 ]] &&
        ! "$reader" $at no_such_register || status=1
    [[ $("$reader" 127.0.0.1:9559 queue_bytes 2>&1) == *Unimplemented* ]] || status=1
    kill $switch $server
    wait $switch $server
    return $status
}
