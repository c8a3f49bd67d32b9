# Steps that cargo does: builds, lints, tests, documentation.

format() {
    cargo fmt --all --check -- --color never
}

# Lets cargo build for `make test`, which builds once: clippy's driver compiles, so that lints take no pass of their own
# (.ci/rustc). What only later builds and debuggers need, incremental compilation and line tables, would take a quarter
# of the time.
build_once() {
    export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=false CLIPPY_DRIVER RUSTC_WORKSPACE_WRAPPER=$PWD/.ci/rustc
    CLIPPY_DRIVER=$(rustc --print sysroot)/bin/clippy-driver
}

# All that the steps run, in one build: the same features for all, so that nothing is compiled twice.
build() {
    cargo build --workspace --locked --all-targets
}

# The warnings of rustc and clippy in the build above, which cargo repeats for what was built before.
lints() {
    ! grep -E '^(warning|error): .* generated [0-9]+ warning' "$logs/build.log"
}

# What `make run` builds: the program without what only real networks need.
virtual_time() {
    cargo check -p weir-fabric --no-default-features --locked --quiet
}

# Unit tests and those that compute: without root, a network or a clock. With `i*` instead of `it`, the one that counts
# instructions is among them. The proto crate's comparison has a step of its own.
computing_tests() {
    cargo test --workspace --locked --no-fail-fast --lib --test "${1:-it}" -- --skip every_fact_is_the_published_one
}

# Tests of whole programs, in network namespaces and in Mininet: most of their time they wait. One "test" is the process
# that others start.
waiting_tests() {
    cargo test --workspace --locked --no-fail-fast --test '[!i]*' -- --skip serve_until_the_input_ends
}

# Documentation without warnings, and its examples (.ci/rustdoc does the former).
docs() {
    RUSTDOC=$PWD/.ci/rustdoc cargo test --workspace --locked --no-fail-fast --doc
}

# The crates as they would be published; `make packages` compiles what is in them.
crates() {
    cargo publish --dry-run --workspace --no-verify --allow-dirty --locked --quiet
}

# Prints `-p NAME` for the crate in the folder $1 and for each crate of the workspace that depends on it.
dependents() {
    local id
    id=$(cargo pkgid --offline --manifest-path "$1/Cargo.toml") || return 1
    cargo tree --workspace --offline --prefix none --format '{p}' --invert "$id" |
        sed -n "s|^\([^ ]*\) v[^ ]* .*($PWD.*|-p \1|p; s|^\([^ ]*\) v[^ ]* ($PWD.*|-p \1|p" | sort -u
}
