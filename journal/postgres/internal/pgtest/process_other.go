//go:build unix && !linux

package pgtest

import (
	"os/exec"
	"syscall"
)

func attributes(who *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: who}
}

func startLocked(c *exec.Cmd, ended chan struct{}) error {
	if err := c.Start(); err != nil {
		return err
	}
	go func() { _ = c.Wait(); close(ended) }()
	return nil
}
