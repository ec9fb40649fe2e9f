#!/bin/sh
# Builds the program that plays the cases. Everything it needs is in this folder: nothing is asked of a network.
set -eu
cd "$(dirname "$0")"
export GOFLAGS=-mod=mod GOPROXY=off GOTOOLCHAIN=local GONOSUMDB='*' GOWORK=off
export GOPATH="$PWD/build/gopath" GOCACHE="$PWD/build/cache"
cd src
exec go build -o ../build/suite .
