package main

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// ownMounts says how a child gets a mount table of its own, if it can.
var ownMounts = sync.OnceValue(func() *syscall.SysProcAttr {
	for _, attr := range []*syscall.SysProcAttr{
		{Setpgid: true, Unshareflags: syscall.CLONE_NEWNS},
		{
			Setpgid: true, Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		},
	} {
		try := exec.Command("mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", os.TempDir())
		copied := *attr
		if try.SysProcAttr = &copied; try.Run() == nil {
			return attr
		}
	}
	return nil
})

// giveMounts has a child that makes a small disk mount it, where that is allowed.
func giveMounts(l life, cmd *exec.Cmd) {
	if attr := ownMounts; (l.Mode == tinyMode || l.Mode == crowdMode) && attr() != nil {
		copied := *attr()
		cmd.SysProcAttr = &copied
		cmd.Env = append(cmd.Env, mountVariable+"=1")
	}
}

// mountVariable tells the child that it may mount.
const mountVariable = "STRAND_SOAK_MOUNT"

// smallDisk makes dir a file system of so many bytes, or lets no file grow beyond
// that: now and then, and where nothing can be mounted. The function that it
// returns makes room.
func smallDisk(dir string, size int) (more func() error, err error) {
	if os.Getenv(mountVariable) != "" && size%4 > 0 {
		err = syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size))
		return func() error {
			return syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m")
		}, err
	}
	limit := syscall.Rlimit{Cur: uint64(size), Max: 1 << 40}
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return nil, err
	}
	limit.Cur = uint64(size)
	return func() error {
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit.Max, Max: limit.Max})
	}, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
}

func lacksSmallDisk() string { return "" }
