//go:build !unix || solaris || aix

package control

import (
	"net"
	"runtime"
)

// Listen returns errNoSocket: there a socket has no mode that keeps others out.
func Listen(string) (net.Listener, error) {
	return nil, noSocket("there is none on %s", runtime.GOOS)
}
