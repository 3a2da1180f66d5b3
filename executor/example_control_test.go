//go:build unix

package executor_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/strandjobs/strand/executor"
)

// A service that can be looked at without stopping it:
//
//	strand status jobs.strand
//	strand running jobs.strand -stack
//	strand explain jobs.strand orders order-42
func ExampleConfig_controlSocket() {
	parent, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "jobs.strand")
	x, err := executor.Open(dir, executor.Config{ControlSocket: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err) // executor.ErrConfig says why there can't be one
		return
	}
	socket, _ := os.Lstat(filepath.Join(dir, "control.sock"))
	fmt.Println(socket.Mode())
	_ = x.Stop(context.Background())
	_, err = os.Lstat(filepath.Join(dir, "control.sock"))
	fmt.Println(os.IsNotExist(err))
	// Output:
	// Srw-------
	// true
}
