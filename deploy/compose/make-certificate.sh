#!/bin/sh
# Makes a certificate for local use that no browser trusts, if CERTIFICATE does not exist. Put your own there for
# anything else: the chain and the private key in one PEM file.
set -eu
: "${CERTIFICATE:=/certificates/doorbuster.pem}"
if [ -f "$CERTIFICATE" ]; then exit 0; fi
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 365 -subj "/CN=${HOST_NAME:-localhost}" \
  -addext "subjectAltName=DNS:${HOST_NAME:-localhost},IP:127.0.0.1" -keyout "$CERTIFICATE.key" -out "$CERTIFICATE.crt"
cat "$CERTIFICATE.crt" "$CERTIFICATE.key" > "$CERTIFICATE.new"
rm "$CERTIFICATE.key" "$CERTIFICATE.crt"
chmod 644 "$CERTIFICATE.new"
mv "$CERTIFICATE.new" "$CERTIFICATE"
