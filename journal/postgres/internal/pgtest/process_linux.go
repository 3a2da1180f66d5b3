package pgtest

import "syscall"

// attributes have the system end the process when we end, however we do.
func attributes(who *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: who, Pdeathsig: syscall.SIGINT}
}
