#!/bin/sh
# Installs the programs that the demo or the test suite runs, and nothing that is there already.
#   tests/install-tools.sh demo|test
# On Debian and Ubuntu by apt, as root or through sudo; elsewhere it says exactly what is missing.
set -eu

case "${1:-}" in
demo) wanted="git buildah docker-registry" ;;
test) wanted="git buildah docker-registry skopeo openssl htpasswd qemu-aarch64-static qemu-ppc64le-static qemu-s390x-static pgrep gpg gpg-agent ssh ssh-keygen sshd etcd jq debootstrap" ;;
*) echo "usage: $0 demo|test" >&2; exit 2 ;;
esac

package_of() {
  case "$1" in
  htpasswd) echo apache2-utils ;;
  qemu-*) echo qemu-user-static ;;
  pgrep) echo procps ;;
  gpg | gpg-agent) echo gnupg ;;
  ssh | ssh-keygen) echo openssh-client ;;
  sshd) echo openssh-server ;;
  etcd) echo etcd-server ;;
  *) echo "$1" ;;
  esac
}

PATH="$PATH:/usr/sbin:/usr/local/sbin" # where sshd is, and not every account looks

missing="" packages=""
for program in $wanted; do
  if ! command -v "$program" >/dev/null 2>&1; then
    missing="$missing $program"
    case " $packages " in *" $(package_of "$program") "*) ;; *) packages="$packages $(package_of "$program")" ;; esac
  fi
done
python=${PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
  echo "Python 3.11 or newer is needed; '$python' is not. Name another with PYTHON=…" >&2
  exit 1
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  missing="$missing python3-venv" packages="$packages python3-venv"
fi

# Go builds Kubernetes where there is none (tests/controlplane). Before 1.21 it does not fetch the toolchain that this
# needs, so an older one is not worth installing: the tests that need a cluster then skip, and say why.
needs_go() {
  [ "$1" = test ] && ! command -v go >/dev/null 2>&1 && ! command -v kube-scheduler >/dev/null 2>&1 &&
    ! [ -x "${KUBEBUILDER_ASSETS:-/nonexistent}/kube-scheduler" ]
}
go_from_apt() {
  version=$(apt-cache policy golang-go 2>/dev/null | sed -n 's/^ *Candidate: \([0-9]*:\)\{0,1\}1\.\([0-9]*\).*/\2/p')
  if [ "${version:-0}" -ge 21 ]; then echo golang-go; fi
}
go_missing="There is no Go 1.21 or newer; install it, or the tests that need a Kubernetes cluster will not run."
if [ -z "$missing" ]; then
  needs_go "$1" || exit 0
  if [ -z "$(go_from_apt)" ]; then
    echo "$go_missing" >&2
    exit 0
  fi
fi

if ! command -v apt-get >/dev/null 2>&1; then
  echo "Missing on this machine:$missing" >&2
  echo "Install them with your package manager (Debian's names:$packages), then run this again." >&2
  exit 1
fi
sudo=""
if [ "$(id -u)" != 0 ]; then
  if ! command -v sudo >/dev/null 2>&1; then
    echo "Missing:$missing. Become root, or run: apt-get install$packages" >&2
    exit 1
  fi
  sudo="sudo"
fi
$sudo apt-get update -qq
if needs_go "$1"; then
  go=$(go_from_apt)
  if [ -n "$go" ]; then packages="$packages $go"; else echo "$go_missing" >&2; fi
fi
[ -n "$packages" ] || exit 0
echo "Installing$packages" >&2
# crun is what buildah runs RUN with; buildah only recommends it.
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages crun ca-certificates >/dev/null
case "$missing" in *" sshd"*)
  # The tests start one of their own, on loopback. The package's must not open this machine to the network.
  if command -v systemctl >/dev/null 2>&1; then
    $sudo systemctl disable --now ssh.service ssh.socket >/dev/null 2>&1 || true
    echo "The ssh service that came with openssh-server is switched off; tests do not use it." >&2
  fi
  ;;
esac
case "$missing" in *" etcd"*)
  if command -v systemctl >/dev/null 2>&1; then
    $sudo systemctl disable --now etcd.service >/dev/null 2>&1 || true
    echo "The etcd service that came with etcd-server is switched off; tests do not use it." >&2
  fi
  ;;
esac
