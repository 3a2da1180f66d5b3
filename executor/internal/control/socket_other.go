//go:build !unix || solaris || aix

package control

import (
	"fmt"
	"net"
	"runtime"
)

// Listen returns errNoSocket: there a socket has no mode that keeps others out.
func Listen(string) (net.Listener, error) {
	return nil, fmt.Errorf("%w: there is none on %s", errNoSocket, runtime.GOOS)
}
