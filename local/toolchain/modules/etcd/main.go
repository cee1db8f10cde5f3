// The etcd server. Its own module cannot be installed from outside (it has replace directives), its package can.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
