#!/bin/sh
# Prepares .venv for the Makefile:
#   demo    makes it and installs ncclrun        torch    sees to it that it has torch, numpy and scikit-learn
#   dev     the same with the tools of tests     system   installs the system's packages that the tests need (as root)
#   nccl    sees to it that it has NCCL itself, which tests/topologies ask for its choice (no GPU is needed for that), and
#           the libraries of other versions in .venv/nccl
set -eu
cd "$(dirname "$0")/.."
python=.venv/bin/python

say() { echo "setup: $*" >&2; }

packages() {
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        say "please install: $*"
        return 1
    fi
    say "installing $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq </dev/null
    apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2
}

# Every Python of at least 3.10 that PATH has.
pythons() {
    for name in python3 python python3.10 python3.11 python3.12 python3.13 python3.14 /usr/bin/python3; do
        "$name" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo "$name"
    done
    return 0
}

has() { "$1" -c "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))" $2 2>/dev/null; }

# The first with a torch, else the first.
best_python() {
    for name in $(pythons); do
        if has "$name" torch; then
            echo "$name"
            return
        fi
    done
    pythons | head -n 1
}

venv() {
    if "$python" -m pip --version >/dev/null 2>&1; then
        return
    fi
    base=$(best_python)
    if [ -z "$base" ]; then
        say "ncclrun needs Python 3.10 or later here, and PATH has none"
        exit 1
    fi
    # Debian's python3 comes without what venv needs.
    if ! "$base" -m venv --clear .venv >/dev/null 2>&1; then
        packages python3-venv
        "$base" -m venv --clear .venv
    fi
    command -v "$base" >.venv/made-by
}

# Writes down where the torch of the Python that made .venv is: the directory comes last on the path, after what .venv has
# of its own. While packages are installed it is out of sight, or pip would count what is there as ours.
borrow_torch() {
    base=$(cat .venv/made-by)
    if has "$base" torch; then
        "$base" -c 'import importlib.util as u, os; print(os.path.dirname(os.path.dirname(u.find_spec("torch").origin)))' \
            >"$(borrowed)"
        say "using the torch of $base"
    fi
}

borrowed() { "$python" -c 'import sysconfig; print(sysconfig.get_path("purelib") + "/borrowed-torch.pth")'; }

install() {
    venv
    rm -f "$(borrowed)"
    "$python" -m pip install -q "$@"
}

torch() {
    if ! has "$python" torch; then
        borrow_torch
    fi
    if ! has "$python" torch; then
        say "installing torch, which takes a while"
        "$python" -m pip install -q torch==2.13.0 numpy scikit-learn
    elif ! has "$python" "numpy sklearn"; then
        "$python" -m pip install -q numpy scikit-learn
    fi
}

# Without what it depends on: the CUDA libraries are 3 GB, and nobody calls them here.
nccl() {
    if ! has "$python" nvidia.nccl; then
        say "installing NCCL (300 MB)"
        "$python" -m pip install -q --no-deps nvidia-nccl-cu12==2.27.5 || [ -z "${CI-}" ]
    fi
    for version in 2.18.3 2.23.4 2.29.7 2.32.3; do
        nccl_library "$version" || [ -z "${CI-}" ]
    done
}

# Of another version the library alone, which tests/nccl ask how it reads its settings; it comes into its place whole.
nccl_library() {
    place=.venv/nccl/$1
    if [ -e "$place/libnccl.so.2" ]; then
        return
    fi
    say "fetching NCCL $1 (200 to 320 MB)"
    rm -rf "$place.part"
    mkdir -p "$place.part" &&
        "$python" -m pip download -q --no-deps -d "$place.part" "nvidia-nccl-cu12==$1" &&
        "$python" -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[2]).extract("nvidia/nccl/lib/libnccl.so.2", sys.argv[1])' \
            "$place.part" "$place.part"/*.whl &&
        mkdir -p "$place" &&
        mv "$place.part/nvidia/nccl/lib/libnccl.so.2" "$place/" &&
        rm -rf "$place.part"
}

system() {
    PATH=$PATH:/usr/sbin:/sbin
    wanted=
    for pair in sshd:openssh-server ssh:openssh-client ip:iproute2 nft:nftables sudo:sudo; do
        command -v "${pair%%:*}" >/dev/null || wanted="$wanted ${pair##*:}"
    done
    # Without root the tests that need these say so and are skipped.
    if [ -n "$wanted" ]; then
        # shellcheck disable=SC2086  # several words are several packages
        packages $wanted || [ "$(id -u)" != 0 ]
    fi
}

case ${1-} in
demo) install -e . ;;
dev) install -e '.[dev]' ;;
torch) torch ;;
nccl) nccl ;;
system) system ;;
*)
    say "usage: tools/setup.sh demo|dev|torch|nccl|system"
    exit 2
    ;;
esac
