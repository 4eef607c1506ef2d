# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# What stoker needs on Debian 12, written once for tests/run and trainer/demo:
#
#     . tests/deps.sh
#     deps_install build            # to build and run stoker
#     deps_install build tests      # and to test it
#
# One package a line: set, package, reason. `torch` is optional: tests use it where it is installed.
deps_table='
build gcc                 C compiler
build libc6-dev           C library headers
build meson               build system
build ninja-build         build system
build pkg-config          finds libraries
build libuv1-dev          event loop of stokerd
build libprotobuf-c-dev   protocol messages in C
build protobuf-c-compiler protocol messages in C
build protobuf-compiler   protocol messages
build libpng-dev          PNG decoder
build libjpeg62-turbo-dev JPEG decoder
build zlib1g-dev          IDX files in gzip
build libxxhash-dev       fingerprint of an index
build libseccomp-dev      system call filter of the workers
build libsystemd-dev      readiness, watchdog, socket activation
build libglib2.0-dev      parser of stokerd.conf
build libopenblas-dev     stoker-train on the CPU
build dataset-fashion-mnist  the default data set
tests git                 lists of files in the checkout
tests libcmocka-dev       unit tests
tests clang               fuzzers
tests libclang-rt-14-dev  fuzzers and sanitizers
tests clang-format        form of the C files
tests python3-pytest      integration tests
tests python3-pytest-xdist  several integration tests at once
tests python3-protobuf    the protocol as Google reads it
tests python3-numpy       reference for batches
tests python3-pil         reference for images
tests python3-xxhash      reference for digests
tests systemd             systemd-analyze, systemd-socket-activate
tests util-linux          setpriv
tests procps              kill, in the service unit
torch python3-torch       reference for order and losses
torch python3-torchvision reference for transforms
'

# Packages of the sets named that dpkg does not know as installed, one a line.
deps_missing()
{
	local set package reason

	for set in "$@"; do
		while read -r _ package reason; do
			dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null |
				grep -qx installed || echo "$package  ($reason)"
		done < <(grep "^$set " <<<"$deps_table")
	done
}

# Install what is missing. Says what and why; silent when nothing is. 1 = could not.
deps_install()
{
	local missing packages output

	if ! command -v dpkg-query >/dev/null; then
		echo "This is no Debian: install by hand what tests/deps.sh lists." >&2
		return 0
	fi
	missing=$(deps_missing "$@")
	[ -z "$missing" ] && return 0
	mapfile -t packages < <(cut -d' ' -f1 <<<"$missing")
	if [ "$(id -u)" != 0 ]; then
		echo "Packages are missing. As root: apt-get install ${packages[*]}" >&2
		return 1
	fi
	echo "Installing from Debian:"
	sed 's/^/  /' <<<"$missing"
	# What apt and dpkg say matters only when they fail.
	output=$(
		exec </dev/null 2>&1
		export DEBIAN_FRONTEND=noninteractive
		apt-get update -qq &&
			apt-get install -y -qq --no-install-recommends -o Acquire::Retries=3 \
				-o DPkg::Lock::Timeout=300 "${packages[@]}"
	) && return 0
	tail -n 40 <<<"$output" >&2
	return 1
}
