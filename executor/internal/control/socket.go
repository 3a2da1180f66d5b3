package control

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Name is that of the socket in the directory of a journal.
const Name = "control.sock"

// nursery is the directory in that one in which the socket is made.
const nursery = "control.new"

// ErrNoSocket says why there can't be a socket; the text has the path or the system.
var ErrNoSocket = errors.New("it can't be made")

func path(dir string) string { return filepath.Join(dir, Name) }

func noSocket(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrNoSocket, fmt.Errorf(format, args...))
}
