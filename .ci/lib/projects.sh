# Steps on projects that `weir new` writes: an own scheme, an own experiment, own telemetry. Wants $target and $logs.

# own TEMPLATE: a project that `weir new TEMPLATE` writes, as a user gets it, with the workspace's versions and target, and
# its tests. Sets $folder to the project and $own to its program. Weir's crates are built again in any case, as paths
# from another workspace: there without the checks that the workspace's tests have (Cargo.toml). One build for tests and
# program has one set of features, so it happens once.
own() {
    local template=$1 name=own_$1 here=$PWD made
    made=$(realpath "$target")/debug/weir
    folder=$target/$name
    own=$target/debug/$name
    rm -rf "$folder" && (cd "$target" && "$made" new "$template" "$name" --weir "$here") || return 1
    # With the testkit in every project, as a scheme has it: cargo compiles a crate that only macros use with other flags
    # than one that programs use too, and then all that depends on it again. The same holds for what only the
    # workspace's tests and its Python package need.
    grep -q '^weir-testkit = ' "$folder/Cargo.toml" ||
        sed -i "/^\[dev-dependencies\]$/a weir-testkit = { path = \"$here/testkit\" }" "$folder/Cargo.toml" || return 1
    cat >>"$folder/Cargo.toml" <<-'END' || return 1

	[target.'cfg(all())'.dev-dependencies]
	bolero = "0.13"
	num-bigint = { version = "0.5", default-features = false, features = ["std"] }
	END
    tests_of "$folder"
}

# tests_of FOLDER: builds a package outside the workspace, and runs its tests.
tests_of() {
    local arguments=(--offline --manifest-path "$1/Cargo.toml" --target-dir "$target")
    cargo build --quiet --all-targets "${arguments[@]}" && cargo test "${arguments[@]}"
}

# An own scheme. The quickstart gives the same bytes as the build with checks, whose digest weir/tests/it/quickstart.rs
# expects. At last, the change that the tutorial makes to the scheme, under the same tests.
own_scheme() {
    local folder own
    own scheme &&
        "$own" schemes own_scheme &&
        "$own" run "$folder/join.yaml" --out "$logs/own-scheme" | tee "$logs/own-scheme.out" &&
        grep -q '^ own_scheme-half ' "$logs/own-scheme.out" &&
        grep -q '^# own_scheme with weir .*: `own_scheme run run.yaml` repeats this run\.$' "$logs/own-scheme/run.yaml" &&
        "$own" run "$logs/own-scheme/run.yaml" --quiet --out "$logs/own-scheme-again" &&
        cmp <(grep '"digest"' "$logs"/own-scheme/summary.json) <(grep '"digest"' "$logs"/own-scheme-again/summary.json) &&
        "$own" run experiments/quickstart.yaml --out "$logs/unchecked" | tee "$logs/unchecked.out" &&
        grep -qxF "Digest $(cat weir/tests/it/quickstart.digest)" "$logs/unchecked.out" &&
        sed -n '/^```diff$/,/^```$/{/^```/d; s/aimd/own_scheme/g; s/Aimd/OwnScheme/g; p}' docs/tutorials/scheme.md |
        patch --batch --directory "$folder" --strip 1 &&
        tests_of "$folder"
}

# An own workload, topology and chart.
own_experiment() {
    local folder own
    own experiment &&
        "$own" run "$folder/ring.yaml" --out "$logs/own-experiment" &&
        grep -q 'Finished flows' "$logs/own-experiment/report.html" &&
        "$own" controller verify --topology "$folder/ring.yaml" --program p4src/build/ecn.json
}

# Own telemetry records, and a scheme that reads them.
own_telemetry() {
    local folder own
    own telemetry &&
        "$own" stf --quiet "$folder/build/own_telemetry.json" "$folder"/tests/*.stf &&
        "$own" run "$folder/waits.yaml" --out "$logs/own-telemetry"
}
