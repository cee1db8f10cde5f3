// Command etcd is the etcd server. Its own module has replace directives, so only its package can be used from outside.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
