#!/bin/sh
# Writes the programs of `qpid-jms` to `build/java` for Java EE. A file that is as it was keeps its time, so that Maven
# compiles only what has changed.
set -eu
mkdir -p build/java
for file in ../qpid-jms/src/*.java; do
    there=build/java/$(basename "$file")
    sed 's/^import jakarta\.jms\./import javax.jms./' "$file" > "$there.new"
    if cmp -s "$there.new" "$there"; then rm "$there.new"; else mv "$there.new" "$there"; fi
done
