//go:build tools

// Package tools pins the command that is built from this module.
package tools

import _ "github.com/nats-io/nats-server/v2"
