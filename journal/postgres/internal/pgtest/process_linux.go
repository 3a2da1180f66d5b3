package pgtest

import (
	"os/exec"
	"runtime"
	"syscall"
)

// attributes have the system end the process when we end, however we do.
func attributes(who *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: who, Pdeathsig: syscall.SIGINT}
}

// startLocked starts a process from a thread that lives as long as it does: Pdeathsig is
// sent when the thread ends.
func startLocked(c *exec.Cmd, ended chan struct{}) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := c.Start()
		started <- err
		if err == nil {
			_ = c.Wait()
			close(ended)
		}
	}()
	return <-started
}
