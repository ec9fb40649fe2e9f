#!/bin/sh
# The SDK's source package brings the SDK's own tests; only they are used, the SDK itself is the one that is installed.
set -eu
version=$(sed -n 's/^azure-servicebus==//p' requirements.txt)
target=build/azure_servicebus-$version
[ -d "$target/tests" ] && exit 0
rm -rf build
mkdir build
"${VIRTUAL_ENV:?}/bin/python" -m pip download --quiet --no-deps --no-binary azure-servicebus --dest build "azure-servicebus==$version"
tar --extract --gzip --directory build --file "build/azure_servicebus-$version.tar.gz"
[ -d "$target/tests" ]
