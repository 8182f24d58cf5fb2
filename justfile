# One command per task; `just` lists them. See CONTRIBUTING.md.

default:
    @just --list

# Everything that CI checks.
ci:
    .ci/run

# Formatting, lints, documentation, words, links.
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets --locked -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
    .ci/words --comments
    .ci/book-links --check

# Builds, lints and tests one crate and every crate that depends on it, without .NET processes: `just crate delivery`.
crate NAME:
    #!/usr/bin/env bash
    set -euo pipefail
    dependents=$(cargo tree --locked --workspace --invert {{NAME}} --edges normal,build,dev --prefix none --format '{p}')
    mapfile -t packages < <(awk 'NF { print "--package=" $1 }' <<<"$dependents" | sort -u)
    cargo clippy --locked --all-targets "${packages[@]}" -- -D warnings
    GCWATCH_SKIP_LIVE=all cargo test --locked "${packages[@]}"

# The documentation as a book, into target/book (needs mdbook 0.4 or later: cargo install mdbook).
book *ARGS:
    mdbook build {{ARGS}}

# All tests; fetches .NET runtimes once.
test *ARGS:
    tests/run {{ARGS}}

# Tests without .NET processes.
test-quick:
    GCWATCH_SKIP_LIVE=all cargo test --workspace --locked

# Writes generated pages, schemas and golden files.
golden:
    GCWATCH_UPDATE_GOLDEN=1 GCWATCH_SKIP_LIVE=all cargo test --workspace --locked
    git diff --stat

# Changes each threshold of the shipped rules and says which changes no test notices; one family, or all of them.
mutate FAMILY="":
    GCWATCH_MUTATE={{FAMILY}} cargo test --locked -p rule-language --test mutations -- --ignored --nocapture

# Benches, in the profile `dist`.
bench:
    cargo bench --workspace

# Fuzzes all targets for an hour, and prints how often each ran.
fuzz-hour:
    fuzz/run

# Fuzzes one target for a minute; `cargo fuzz list` names them.
fuzz TARGET:
    cargo fuzz run {{TARGET}} --sanitizer none -- -max_total_time=60 -rss_limit_mb=2048

# What is installed, into target/dist: static binary, packages, image, chart, checksums (deploy/README.md).
dist *ARGS:
    cargo xtask dist {{ARGS}}

# Programs, packages, a registry on loopback, and what a user pulls from it (docs/releasing.md).
release-test *ARGS:
    tests/release/run {{ARGS}}

# Prints the version, or writes a new one into every place that has it.
version NEW="":
    cargo xtask version {{NEW}}

# Workflows, versions, addresses: what a release rests on.
release-check:
    tests/deploy/build actionlint
    tests/deploy/run workflows
    cargo xtask check

# What the published libraries changed since a tag or commit, and whether their version may (needs cargo-semver-checks).
semver SINCE:
    cargo semver-checks --baseline-rev {{SINCE}} -p nettrace -p dotnet-diagnostics -p clr-gc -p clr-evidence -p clr-heap

# Licences, duplicates, advisories (needs cargo-deny).
deny:
    cargo deny check
