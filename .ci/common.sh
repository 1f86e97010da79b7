# SPDX-License-Identifier: Apache-2.0
# What tests/run and examples/run share. Sourced, from the root of the project.

mkdir -p build/logs
passed=0
failed=0

# step NAME COMMAND...: runs it, its output in build/logs/NAME.log; on failure shows the end of it.
step() {
    local name=$1 log=build/logs/$1.log start=$SECONDS
    shift
    printf '%-34s' "$name"
    mkdir -p build/logs
    if "$@" >"$log" 2>&1; then
        printf 'ok      %4d s\n' $((SECONDS - start))
        return 0
    fi
    printf 'FAILED  %4d s   (%s)\n' $((SECONDS - start)) "$log"
    grep -nE 'error:|ERROR|FAILED:' "$log" | head -n 15 | sed 's/^/    /'
    tail -n 15 "$log" | sed 's/^/    /'
    return 1
}

die() {
    printf '%s\n' "$*" >&2
    exit 1
}

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@"; }
apt_install() {
    apt_get install -y --no-install-recommends "$@" ||
        { apt_get update && apt_get install -y --no-install-recommends "$@"; }
}

# install STEP PACKAGE...
install() {
    local name=$1
    shift
    command -v apt-get >/dev/null ||
        die "Missing: $*. These are Debian's names; without apt-get, please install them yourself."
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
        die "Missing: $*. There is no sudo here; as root: apt-get install $*"
    step "$name" apt_install "$@" || die "Could not install: $*."
}

# need_commands COMMAND:PACKAGE...: installs the packages of the commands that are not there.
need_commands() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
    done
    [ ${#missing[@]} = 0 ] || install install-tools "${missing[@]}"
}

# need_headers HEADER:PACKAGE...: the same for headers; asks the compiler, so g++ must be there.
need_headers() {
    local pair missing
    missing=$(
        {
            for pair in "$@"; do
                printf '#if !__has_include(<%s>)\n%s\n#endif\n' "${pair%%:*}" "${pair#*:}"
            done
            printf '%s\n' '#if __has_include(<boost/version.hpp>)' '#include <boost/version.hpp>' \
                '#if BOOST_VERSION < 108100' 'libboost1.81-dev' '#endif' '#endif'
        } | g++ -std=c++20 -x c++ -E -P - | grep -E '^lib|^zlib' | tr -d ' ' | sort -u
    )
    # shellcheck disable=SC2086
    [ -z "$missing" ] || install install-libraries $missing
}

# need_libraries NAME:PACKAGE...: the same for what the linker wants.
need_libraries() {
    local pair file missing=()
    for pair in "$@"; do
        file=lib${pair%%:*}.so
        [ "$(g++ -print-file-name="$file")" != "$file" ] || missing+=("${pair#*:}")
    done
    [ ${#missing[@]} = 0 ] || install install-test-libraries "${missing[@]}"
}

# What tests/cluster starts on this machine.
need_clusters() {
    need_commands slurmctld:slurmctld slurmd:slurmd srun:slurm-client munged:munge ip:iproute2 \
        glusterd:glusterfs-server mount.glusterfs:glusterfs-client
}

# Where CUDA is but no NCCL: sets CAIRN_NCCL to what lies in .cache/nccl, or, with `fetch`, to
# PyPI's wheel, which is put there: 305 MB, once. Without CUDA there is nothing to do.
find_nccl() { # [fetch]
    local cuda=${CUDA_PATH:-/usr/local/cuda} major
    [ -z "${CAIRN_NCCL:-}" ] && [ -e "$cuda/include/cuda_runtime_api.h" ] || return 0
    if echo '#include <nccl.h>' | g++ -I"$cuda/include" -x c++ -fsyntax-only - 2>/dev/null; then
        return 0
    fi
    if [ ! -e .cache/nccl/nvidia/nccl/include/nccl.h ]; then
        [ "${1:-}" = fetch ] || return 0
        major=$(printf '#include <cuda_runtime_api.h>\nCUDART_VERSION' |
            g++ -I"$cuda/include" -x c++ -E -P - | tail -n 1)
        python3 -c 'import ensurepip, venv' 2>/dev/null || install install-venv python3-venv
        step nccl fetch_nccl "nvidia-nccl-cu$((major / 1000))" || return 1
    fi
    export CAIRN_NCCL=$PWD/.cache/nccl/nvidia/nccl
}
fetch_nccl() { # PACKAGE
    python3 -m venv .cache/nccl-pip &&
        .cache/nccl-pip/bin/pip install --quiet --no-deps --target .cache/nccl "$1" &&
        rm -rf .cache/nccl-pip
}

# As many compilers at once as there are cores, and 1.5 GB of memory for each.
jobs_here() {
    local cores memory limit of=/sys/fs/cgroup
    cores=$(nproc)
    memory=$(awk '/MemAvailable/ { print int($2 / 1500000) }' /proc/meminfo)
    # A container (of cgroup v2) may have less. What its limit counts of the cache of files can be
    # reclaimed.
    if limit=$(cat $of/memory.max 2>/dev/null) && [ "$limit" != max ]; then
        limit=$((limit - $(cat $of/memory.current) + $(awk '/^(in)?active_file / { n += $2 } END { print n }' $of/memory.stat)))
        limit=$((limit / 1536000000))
        memory=$((limit < memory ? limit : memory))
    fi
    echo $((memory < 1 ? 1 : memory < cores ? memory : cores))
}

# configure DIR COMPILER OPTION...: sets a build folder up, or brings an old one up to date.
configure() {
    local dir=$1 compiler=$2
    shift 2
    if command -v ccache >/dev/null; then compiler="ccache $compiler"; fi
    if [ -f "$dir/build.ninja" ]; then
        CXX=$compiler meson setup --reconfigure "$dir" "$@" && return
        echo "--- once more, from scratch"
        CXX=$compiler meson setup --wipe "$dir" "$@"
    else
        CXX=$compiler meson setup "$dir" "$@"
    fi
}

# A program is one translation unit: its files share what takes long to compile.
unity=(-Dunity=on -Dunity_size=99)

# The optimised build that both scripts leave in build/.
configure_release() {
    # An old folder does not learn by itself of a new default, which relocatable is.
    configure build g++ -Dbuildtype=release -Dwerror=true -Dtools=enabled -Dexamples=enabled \
        -Dpkgconfig.relocatable=true "${unity[@]}" "$@"
}
