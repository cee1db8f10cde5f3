#!/bin/sh
# Swaps a face between two pictures: photo-swap.sh BASE.jpg FACE.jpg OUT.jpg, with BASE and KEY in the environment.
set -eu
[ $# -eq 3 ] || { echo "usage: $0 BASE.jpg FACE.jpg OUT.jpg" >&2; exit 2; }
: "${BASE:?the address of the API}" "${KEY:?an API key}"

# Prints the answer of the API. Fails with the message of the service when it refuses the call.
call() {
  answer=$(curl -sS -w '\n%{http_code}' -H "Authorization: Bearer $KEY" "$@")
  body=${answer%
*}
  case ${answer##*
} in
    2*) printf '%s' "$body" ;;
    *) echo "refused: $(printf '%s' "$body" | field message)" >&2; return 1 ;;
  esac
}

# Prints a text field of a flat JSON document. With jq installed, use jq -r .NAME instead.
field() { sed -n "s/.*\"$1\" *: *\"\([^\"]*\)\".*/\1/p"; }

# A pipe would hide that a call failed, so each answer is kept before a field of it is read.
image=$(call -F "file=@$1" "$BASE/uploads")
face=$(call -F "file=@$2" "$BASE/uploads")
image_key=$(printf '%s' "$image" | field file_key)
face_key=$(printf '%s' "$face" | field file_key)

# The same Idempotency-Key sent twice makes one job and one charge.
idempotency_key=$(date +%s)-$$
submitted=$(call -H 'Content-Type: application/json' -H "Idempotency-Key: $idempotency_key" \
  -d "{\"image_key\": \"$image_key\", \"face_key\": \"$face_key\"}" "$BASE/face-swap-image")
job=$(printf '%s' "$submitted" | field id)
echo "submitted $job"

while :; do
  record=$(call "$BASE/jobs/$job")
  case $(printf '%s' "$record" | field status) in
    succeeded) break ;;
    failed) echo "failed: $(printf '%s' "$record" | field message)" >&2; exit 1 ;;
  esac
  # A key may make 60 requests a minute.
  sleep 2
done
curl -sSf -o "$3" "$(printf '%s' "$record" | field output_url)"
echo "written to $3"
