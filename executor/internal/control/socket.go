package control

import (
	"errors"
	"fmt"
	"path/filepath"
)

// socketName is that of the socket in the directory of a journal.
const socketName = "control.sock"

// nursery is the directory in that one in which the socket is made, and born its name there.
const (
	nursery = "control.new"
	born    = "s"
)

// errNoSocket says why there can't be a socket; the text has the path or the system.
var errNoSocket = errors.New("it can't be made")

func path(dir string) string { return filepath.Join(dir, socketName) }

func noSocket(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errNoSocket, fmt.Errorf(format, args...))
}
