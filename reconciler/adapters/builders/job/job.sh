#!/bin/sh
# What a build's pod runs: gathers the inputs from where Kubernetes mounts them, then runs build.sh.
#
# Needs buildah, tar, gzip, sed, grep and coreutils. Everything comes in through the environment: the BUILD_ variables of build.sh, whose
# files all lie in JOB_WORK/build, and
#
#   JOB_INPUT        folder with build.sh and the build's small files; context.tar.gz if that is small
#   JOB_WORK         empty folder, writable
#   JOB_ARTIFACT     repository@digest of an image whose one file, context.tar.gz, holds what is not in JOB_INPUT; may be
#                    empty
#   JOB_PUSH_SECRET, JOB_PULL_SECRET  names of the Secrets with credentials; empty when the definition names none
#   JOB_NAMESPACE    where those Secrets should be, for people
#   JOB_SECRETS      folder with those Secrets as `push` and `pull`; empty folders when there are no such Secrets
#   JOB_TRUST        folder with more certificates to trust as ca-bundle.crt, which RUN sees in /run/secrets/trust; may be
#                    empty
#   JOB_EXTRAS       folder with `entitlement`, `rpm-gpg` and `yum.repos.d`, which RUN sees where RHEL has them; any may
#                    be empty
#   JOB_RESULT       file for the pushed manifest's digest
#
# How it ended is told by build.sh's exit status, and by one more: 24, a Secret with credentials is missing.
set -eu
umask 022

fail() {
    printf '==> %s\n' "$2"
    exit "$1"
}

if [ "${1:-}" = fetch ]; then # authfile or '', storage, target: this script calls itself
    auth=$2
    target=$4
    set -- --root "$3/root" --runroot "$3/run" --storage-driver vfs
    container=$(buildah "$@" from --quiet ${auth:+--authfile "$auth"} "docker://$JOB_ARTIFACT")
    cat "$(buildah "$@" mount "$container")/context.tar.gz" >"$target"
    buildah "$@" rm --all >/dev/null
    buildah "$@" rmi --all >/dev/null
    exit 0
fi

for program in buildah tar gzip sed grep tail tee; do
    command -v "$program" >/dev/null || fail 20 "the image that runs the build has no $program"
done

# A volume with an fsGroup hands its group on to what is made in it (set-group-ID), which must not get into an image.
files=$JOB_WORK/build
mkdir "$files"
chmod u=rwx,go=,g-s "$files"
HOME=$files/home
XDG_RUNTIME_DIR=$files/user
TMPDIR=$files/tmp
export HOME XDG_RUNTIME_DIR TMPDIR
mkdir -m 700 "$HOME" "$XDG_RUNTIME_DIR" "$TMPDIR" "$files/auth" "$files/extras"

# Credentials: a dockerconfigjson is what buildah reads; the older dockercfg lacks the outermost level.
credentials() { # kind, name of the Secret
    [ -n "$2" ] || return 0
    if [ -s "$JOB_SECRETS/$1/.dockerconfigjson" ]; then
        cat "$JOB_SECRETS/$1/.dockerconfigjson"
    elif [ -s "$JOB_SECRETS/$1/.dockercfg" ]; then
        printf '{"auths":'
        cat "$JOB_SECRETS/$1/.dockercfg"
        printf '}'
    elif [ -n "$(ls "$JOB_SECRETS/$1" 2>/dev/null)" ]; then
        fail 24 "the Secret $2 in namespace $JOB_NAMESPACE has neither .dockerconfigjson nor .dockercfg" >&2
    else
        fail 24 "the Secret $2 is missing in namespace $JOB_NAMESPACE" >&2
    fi >"$files/auth/$1.json"
    printf %s "$files/auth/$1.json"
}
BUILD_PUSH_AUTHFILE=$(credentials push "$JOB_PUSH_SECRET") || exit
BUILD_AUTHFILE=$(credentials pull "$JOB_PULL_SECRET") || exit
# Without a pull secret, bases may lie where the images go. With one, each is for its own.
[ -n "$BUILD_AUTHFILE" ] || BUILD_AUTHFILE=$BUILD_PUSH_AUTHFILE
[ "$BUILD_AUTHFILE" != "$BUILD_PUSH_AUTHFILE" ] || BUILD_PUSH_AUTHFILE=
export BUILD_AUTHFILE BUILD_PUSH_AUTHFILE

if [ -s "$JOB_TRUST/ca-bundle.crt" ]; then
    for own in /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/certs/ca-certificates.crt /etc/ssl/cert.pem; do
        [ -s "$own" ] && cat "$own" && break
    done >"$files/trust.crt"
    { echo && cat "$JOB_TRUST/ca-bundle.crt"; } >>"$files/trust.crt"
    SSL_CERT_FILE=$files/trust.crt
    export SSL_CERT_FILE
fi

for name in Containerfile ignore annotations bases registries.conf; do
    [ ! -e "$JOB_INPUT/$name" ] || cat "$JOB_INPUT/$name" >"$files/$name"
done
if [ -e "$files/registries.conf" ]; then
    CONTAINERS_REGISTRIES_CONF=$files/registries.conf
    export CONTAINERS_REGISTRIES_CONF
fi

# A large context comes as an image, so that nothing but buildah is needed to fetch it.
archive=$JOB_INPUT/context.tar.gz
if [ -n "$JOB_ARTIFACT" ]; then
    printf '==> fetching the build context\n'
    archive=$files/context.tar.gz
    # Without root, an image's files are only to be seen inside a user namespace.
    [ "$(id -u)" -eq 0 ] || set -- buildah unshare
    "$@" /bin/sh "$0" fetch "${BUILD_PUSH_AUTHFILE:-$BUILD_AUTHFILE}" "$files/fetch" "$archive" ||
        fail 21 "cannot pull the build context $JOB_ARTIFACT"
fi
tar -xzpf "$archive" --no-same-owner -C "$files" || fail 22 "cannot unpack the build context"

# RUN gets copies: what Kubernetes mounts consists of links, and programs write beside the files of some of these.
extra() {
    [ -n "$(ls "$1" 2>/dev/null)" ] || return 0 # not -A: Kubernetes' own links are there in any case
    cp -RL "$1" "$files/extras/$2"
    chmod -R u+rwX,go+rX "$files/extras/$2"
    printf '%s:%s\n' "$files/extras/$2" "$3" >>"$files/volumes"
}
: >"$files/volumes"
extra "$JOB_EXTRAS/entitlement" entitlement /etc/pki/entitlement
extra "$JOB_EXTRAS/rpm-gpg" rpm-gpg /etc/pki/rpm-gpg
extra "$JOB_EXTRAS/yum.repos.d" yum.repos.d /etc/yum.repos.d
extra /run/secrets/rhsm rhsm /run/secrets/rhsm
extra "$JOB_TRUST" trust /run/secrets/trust
if [ -s "$files/volumes" ]; then
    BUILD_VOLUMES=$files/volumes
    export BUILD_VOLUMES
fi

mkdir -m 700 "$BUILD_STORAGE"
status=0
/bin/sh "$JOB_INPUT/build.sh" || status=$?
[ "$status" -ne 0 ] || cat "$BUILD_DIGESTFILE" >"$JOB_RESULT"
exit "$status"
