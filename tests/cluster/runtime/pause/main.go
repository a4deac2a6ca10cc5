// What holds a pod's namespaces open: it waits until it is told to end.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGINT, syscall.SIGTERM)
	<-ends
}
