// Command coredns is CoreDNS with what a cluster's own names need, and nothing else of its forty plugins: those that
// speak to clouds would take most of the time to build.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func init() {
	// In the order in which a query passes through them.
	dnsserver.Directives = []string{"ready", "errors", "cache", "kubernetes"}
}

func main() {
	coremain.Run()
}
