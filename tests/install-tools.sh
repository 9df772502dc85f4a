#!/bin/sh
# Installs the programs that the demo or the test suite runs, and nothing that is there already.
#   tests/install-tools.sh demo|test
# On Debian and Ubuntu by apt, as root or through sudo; elsewhere it says exactly what is missing.
set -eu

case "${1:-}" in
demo) wanted="git buildah docker-registry" ;;
test) wanted="git buildah docker-registry skopeo openssl htpasswd qemu-aarch64-static qemu-ppc64le-static qemu-s390x-static pgrep gpg gpg-agent ssh ssh-keygen sshd" ;;
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
[ -n "$missing" ] || exit 0

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
echo "Installing$packages" >&2
$sudo apt-get update -qq
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
