#!/bin/sh
# Brings the source of go-amqp into `build/go-amqp`, from the package of Debian 13 that carries it. apt checks its
# signature. Lists and cache are this folder's own: the machine's sources are neither asked nor changed.
set -eu
cd "$(dirname "$0")"
package=golang-github-azure-go-amqp-dev
version=1.0.2-2

[ -f "build/fetched-$version" ] && exit 0
rm -rf build/apt build/go-amqp
mkdir -p build/apt/lists/partial build/apt/cache/archives/partial build/apt/unpacked
keys=/usr/share/keyrings/debian-archive-keyring.gpg
# From wherever this machine takes its own packages.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Identifier: Packages' | grep '/debian/$' | head -n 1)
[ -n "$mirror" ] || { echo "apt knows no archive of Debian: run \`apt-get update\`" >&2; exit 1; }
echo "deb [signed-by=$keys] $mirror trixie main" > build/apt/sources.list
cat > build/apt/apt.conf <<END
Dir::Etc::SourceList "$PWD/build/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$PWD/build/apt/lists";
Dir::Cache "$PWD/build/apt/cache";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
APT::Sandbox::User "";
END
export APT_CONFIG="$PWD/build/apt/apt.conf"
apt-get --quiet --quiet update
(cd build/apt && apt-get --quiet --quiet download "$package=$version")
dpkg-deb --extract build/apt/"$package"_*.deb build/apt/unpacked
mv build/apt/unpacked/usr/share/gocode/src/github.com/Azure/go-amqp build/go-amqp
rm -rf build/apt
touch "build/fetched-$version"
