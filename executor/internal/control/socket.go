package control

import (
	"errors"
	"path/filepath"
)

// errNoSocket says why there can't be a socket; the text has the path or the system.
var errNoSocket = errors.New("it can't be made")

// path is that of the socket in the directory of a journal.
func path(dir string) string { return filepath.Join(dir, "control.sock") }
