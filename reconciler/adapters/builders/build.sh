#!/bin/sh
# Builds one image for one architecture with stock buildah (1.28 or later), and pushes it.
#
# The one build script of every builder: a local process and a Kubernetes Job run this same text, so an image does not
# depend on where it was built. Everything comes in through the environment and files, nothing through arguments:
#
#   BUILD_ARCH           Go's name of the architecture
#   BUILD_IMAGE          repository:tag to push to
#   BUILD_CONTEXT        folder with exactly the files that the build may see
#   BUILD_CONTAINERFILE  the text to build
#   BUILD_IGNOREFILE     the ignore rules; may be empty
#   BUILD_ANNOTATIONS    file: one KEY=VALUE per line, for the manifest
#   BUILD_BASES          file: one "REPOSITORY@DIGEST NAME" per line; NAME is what the Containerfile says
#   BUILD_CONFIGS        (optional) folder with what the image `configs` is built from before: Containerfile, context
#   BUILD_DIGESTFILE     file to write the pushed manifest's digest to
#   BUILD_STORAGE        empty folder of this build alone, for images and temporary files
#   BUILD_DRIVER         storage driver: vfs, overlay
#   BUILD_ISOLATION      how RUN is isolated: chroot, rootless, oci
#   BUILD_AUTHFILE       credentials for registries; empty when there are none
#   BUILD_PUSH_AUTHFILE  credentials for BUILD_IMAGE's repository; empty when they are the same. Bases may need them too
#   BUILD_VOLUMES        file: one "SOURCE:TARGET" per line, which RUN sees and the image does not get; empty for none
#   CONTAINERS_REGISTRIES_CONF  (optional) registries.conf to use instead of the machine's
#
# How it ended is told by the exit status:
#
#   0   pushed; the digest is in BUILD_DIGESTFILE
#   10  the definition cannot be built: the same text will fail again
#   20  buildah does not work on this machine
#   21  a base image could not be pulled
#   22  disk, memory or network failed while building
#   23  the image could not be pushed
set -eu
umask 022 # modes of what RUN creates are part of the image

say() { printf '==> %s\n' "$1"; }
fail() {
    printf '==> %s\n' "$2"
    exit "$1"
}

# buildah leaves temporary files in TMPDIR when it is killed: they go with the storage folder.
mkdir -p "$BUILD_STORAGE/tmp"
TMPDIR=$BUILD_STORAGE/tmp
export TMPDIR
if [ -n "$BUILD_AUTHFILE" ]; then
    REGISTRY_AUTH_FILE=$BUILD_AUTHFILE
    export REGISTRY_AUTH_FILE
fi

tool() {
    buildah --root "$BUILD_STORAGE/root" --runroot "$BUILD_STORAGE/run" --storage-driver "$BUILD_DRIVER" "$@"
}
pull_with() { tool pull --quiet --platform "linux/$BUILD_ARCH" --retry 3 ${2:+--authfile "$2"} "docker://$1"; }
pull() { pull_with "$1" "" || { [ -n "$BUILD_PUSH_AUTHFILE" ] && pull_with "$1" "$BUILD_PUSH_AUTHFILE"; }; }

tool info >/dev/null || fail 20 "buildah cannot work on this machine"

# Bases are pulled here, by digest, and then found under the names that the Containerfile uses. The build itself may
# not pull at all: a tag that moves meanwhile, or a reference that nobody resolved, cannot get in. (--build-context
# could pin too, but buildah compares its names before it expands ARG.)
while read -r pinned name; do
    say "pulling $pinned"
    image=$(pull "$pinned") || fail 21 "cannot pull $pinned"
    case $name in
    *@*) # a name with a digest is found by that digest, which must lead to the same image
        [ "$name" = "$pinned" ] || [ "$(pull "$name")" = "$image" ] || fail 21 "$name is not $pinned" ;;
    *) tool tag "$image" "$name" || fail 21 "cannot name $pinned $name" ;;
    esac
done <"$BUILD_BASES"

set --
while IFS= read -r annotation; do
    set -- "$@" --annotation "$annotation"
done <"$BUILD_ANNOTATIONS"
if [ -n "$BUILD_VOLUMES" ]; then
    while IFS= read -r volume; do
        set -- "$@" --volume "$volume"
    done <"$BUILD_VOLUMES"
fi

# buildah raises nofile and nproc for RUN; without CAP_SYS_RESOURCE (bit 24) it may only lower them. Before 1.39 it
# goes to 32768 processes first, so more than that cannot be asked for.
capabilities=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
hard() { sed -n "s/^Max $1  *[a-z0-9]*  *\([0-9][0-9]*\) .*/\1/p" /proc/self/limits; }
if [ $((0x$capabilities >> 24 & 1)) -eq 0 ]; then
    files=$(hard 'open files')
    processes=$(hard processes)
    [ -z "$files" ] || set -- "$@" --ulimit "nofile=$files:$files"
    [ "${processes:-32768}" -lt 32768 ] || processes=32768
    set -- "$@" --ulimit "nproc=$processes:$processes"
fi

# Fixed time and no builder version in the image: the same inputs give the same digest. History stays: bootc refuses
# to list the layers of an image without it. No layer cache: buildah's misses changes in bind-mounted files.
say "building $BUILD_IMAGE"
mkfifo "$TMPDIR/output"
tail -c 16384 <"$TMPDIR/output" >"$TMPDIR/tail" &
keeper=$!
image_of() {
    tool build --isolation "$BUILD_ISOLATION" --platform "linux/$BUILD_ARCH" --format oci \
        --pull=never --layers=false --timestamp 0 --identity-label=false "$@"
}
# The image that FROM configs means is a build of its own, so that nothing of its context is seen by the one after it.
configs() {
    [ -n "${BUILD_CONFIGS:-}" ] || return 0
    mkdir -p "$BUILD_CONFIGS/context"
    image_of "$@" --ignorefile /dev/null --tag localhost/configs:latest \
        --file "$BUILD_CONFIGS/Containerfile" "$BUILD_CONFIGS/context"
}
{
    {
        configs "$@" &&
            image_of "$@" --ignorefile "$BUILD_IGNOREFILE" --iidfile "$TMPDIR/image" \
                --file "$BUILD_CONTAINERFILE" "$BUILD_CONTEXT"
    } || echo $? >"$TMPDIR/status"
} 2>&1 | tee "$TMPDIR/output"
# On a full disk the words that would tell cannot be kept either, and then their loss tells.
wait "$keeper" || fail 22 "no space left on device"

ended() { tail -n 15 "$TMPDIR/tail" | grep -Eqi "$1"; }
if [ -e "$TMPDIR/status" ]; then
    status=$(cat "$TMPDIR/status")
    # On a full disk, neither the status nor the last lines may have made it into their files.
    { [ -n "$status" ] && [ -s "$TMPDIR/tail" ] && head -c 65536 /dev/zero >"$TMPDIR/probe"; } ||
        fail 22 "no space left on device"
    ended 'no space left on device|disk quota exceeded' && fail 22 "no space left on device"
    head -c 1048576 /dev/zero >"$TMPDIR/probe" || fail 22 "no space left on device"
    [ "$status" -lt 128 ] || fail 22 "buildah was killed"
    ended 'cannot allocate memory|exit status 137|signal: killed' && fail 22 "out of memory, or killed"
    ended 'setting supplemental groups|setting "RLIMIT_' && fail 20 "this machine does not let buildah run programs"
    ended 'could not resolve host|failure in name resolution|connection (refused|reset|timed out)|i/o timeout|tls handshake timeout|network is unreachable|no route to host' &&
        fail 22 "the network failed"
    fail 10 "the definition cannot be built"
fi
[ -s "$TMPDIR/image" ] || fail 22 "buildah did not say which image it built"

say "pushing $BUILD_IMAGE"
tool push --quiet --retry 3 ${BUILD_PUSH_AUTHFILE:+--authfile "$BUILD_PUSH_AUTHFILE"} --digestfile "$BUILD_DIGESTFILE" "$(cat "$TMPDIR/image")" "docker://$BUILD_IMAGE" ||
    fail 23 "cannot push to $BUILD_IMAGE"
say "pushed $BUILD_IMAGE"
