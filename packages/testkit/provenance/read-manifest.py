"""Reads manifests by the C2PA project's own library: argv is the trusted authority (PEM) and files; prints JSON lines."""
import json
import sys

import c2pa

with open(sys.argv[1], encoding="utf-8") as pem:
    trust = {"trust": {"trust_anchors": pem.read()}, "verify": {"verify_trust": True}}
context = c2pa.Context(c2pa.Settings.from_dict(trust))
for path in sys.argv[2:]:
    try:
        print(json.dumps({"read": json.loads(c2pa.Reader(path, context=context).json())}))
    except c2pa.C2paError as error:
        print(json.dumps({"error": str(error)}))
