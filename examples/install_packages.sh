# Sourced by quickstart.sh and tests/run.sh: the Debian packages that Keel needs, those that its tests need beside
# them, and a function that installs what is missing: install_packages PACKAGE...

keel_packages=(
  g++ cmake ninja-build pkg-config
  libeigen3-dev libtbb-dev libxtensor-dev libcxxopts-dev libhwy-dev
  nlohmann-json3-dev libfmt-dev libspdlog-dev zlib1g-dev libssl-dev libprotozero-dev
  doctest-dev librapidcheck-dev
)
# The tests that open a page in a browser, that let system calls fail, that import ONNX's own test models, and of ranks;
# without these they are skipped.
keel_test_packages=(chromium libpng-dev strace libonnx-testdata libgloo-dev)

install_packages() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "This is not Debian: make sure that these packages' contents are installed:"
    echo "  $*"
    return 0
  fi
  local missing=() package
  for package in "$@"; do
    if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
      missing+=("$package")
    fi
  done
  if [ ${#missing[@]} -eq 0 ]; then
    return 0
  fi
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      echo "These packages are missing and neither root nor sudo is at hand to install them:" >&2
      echo "  apt-get install ${missing[*]}" >&2
      return 1
    fi
    as_root=(sudo)
  fi
  echo "Installing ${missing[*]}"
  "${as_root[@]}" apt-get -qq update
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends \
    -o Dpkg::Use-Pty=0 install "${missing[@]}" >/dev/null
}
