//go:build unix

package child

import (
	"os"
	"os/exec"
	"syscall"
)

// setGroup makes a child and what it starts killable together.
func setGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Kill kills the child, with all processes that it has started, as kill -9 does.
func (p *Process) Kill() { _ = syscall.Kill(-p.Cmd.Process.Pid, syscall.SIGKILL) }

// Die kills this process, as kill -9 does.
func Die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
