# Sourced by the set-up scripts: installing a Debian package where that is allowed.
#
# PENSTOCK_APT=never keeps the scripts from ever installing a system package.

APT_SECONDS=600           # one apt-get run; a slow mirror, not a hung one
APT_LOCK_SECONDS=120      # unattended upgrades hold dpkg's lock on a fresh machine

say() { printf 'penstock: %s\n' "$*" >&2; }

# Sets AS_ROOT to the words that make a command run as root; fails where there are none.
become_root() {
  if [ "$(id -u)" = 0 ]; then
    AS_ROOT=(env)
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    AS_ROOT=(sudo -n env)
  else
    return 1
  fi
}

may_install_packages() {
  [ "${PENSTOCK_APT:-}" != never ] && command -v apt-get >/dev/null && become_root
}

apt_get() {
  timeout "$APT_SECONDS" "${AS_ROOT[@]}" DEBIAN_FRONTEND=noninteractive \
    apt-get -qq -o "DPkg::Lock::Timeout=$APT_LOCK_SECONDS" "$@" </dev/null
}

# install_package NAME: call may_install_packages first. Quiet, unless it fails.
install_package() {
  local log
  log=$(mktemp)
  # A fresh image has no package lists; a machine in use has, and its mirror may be out of reach.
  if apt_get install -y --no-install-recommends "$1" >"$log" 2>&1 ||
    { apt_get update >>"$log" 2>&1 && apt_get install -y --no-install-recommends "$1" >>"$log" 2>&1; }; then
    rm -f "$log"
    return 0
  fi
  tail -n 5 "$log" >&2
  rm -f "$log"
  return 1
}
