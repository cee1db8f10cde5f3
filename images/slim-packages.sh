#!/bin/sh
# Removes from node_modules what Node.js does not run: sources, declarations, maps, tests, documents, parts of packages
# for other runtimes (bare-*) and builds for other platforms. Packages that npm put below a workspace, because the top has
# another version of them, are copied to nested/, which an image lays over its tree.
set -eu
cd node_modules
case "$(uname -m)" in aarch64) cpu=arm64 ;; *) cpu=x64 ;; esac
rm -rf .bin .package-lock.json bare-* swagger-ui-dist/*-es-* swagger-ui-dist/swagger-ui.js
find . -type f \( -name '*.map' -o -name '*.ts' -o -name '*.cts' -o -name '*.mts' -o -name '*.tsx' -o -name '*.flow' \
  -o -iname 'readme*.md' -o -iname 'changelog*' -o -iname 'history.md' \) -delete
# These folders are removed only at the top of a package, because deeper ones may contain code.
find . -type d \( -name test -o -name tests -o -name __tests__ -o -name docs -o -name benchmark -o -name benchmarks \
  -o -name example -o -name examples \) \
  -regex '\(.*/node_modules\|\.\)/\(@[^/]*/\)?[^@/][^/]*/[^/]*' -prune -exec rm -rf {} +
# The same decoder three times more: in JavaScript, and as bundles.
rm -rf libheif-js/libheif libheif-js/libheif-wasm/*-bundle.*
if [ -d onnxruntime-node ]; then
  find onnxruntime-node/bin/*/* -maxdepth 0 ! -name linux -exec rm -rf {} +
  find onnxruntime-node/bin/*/linux/* -maxdepth 0 ! -name "$cpu" -exec rm -rf {} +
fi
find . -depth -type d -empty -delete
cd ..
mkdir nested
find . \( -path ./node_modules -o -path ./nested \) -prune -o -type d -name node_modules -prune -exec cp -r --parents {} nested ';'
