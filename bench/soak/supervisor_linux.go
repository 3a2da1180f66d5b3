//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A child puts a seccomp filter on itself that has the kernel ask its supervisor
// about some of its calls, and sends the descriptor for that to its parent. No
// privilege is needed, and other calls cost next to nothing.

var callNumbers = map[string]int{
	"fdatasync": unix.SYS_FDATASYNC, "pwrite64": unix.SYS_PWRITE64, "ftruncate": unix.SYS_FTRUNCATE, "fsync": unix.SYS_FSYNC,
	"openat": unix.SYS_OPENAT, "mmap": unix.SYS_MMAP, "renameat": unix.SYS_RENAMEAT, "unlinkat": unix.SYS_UNLINKAT,
}

var callNames = func() map[int]string {
	names := make(map[int]string)
	for name, number := range callNumbers {
		names[number] = name
	}
	return names
}()

// Structures of linux/seccomp.h.
type (
	seccompData struct {
		nr      int32
		arch    uint32
		pointer uint64
		args    [6]uint64
	}
	seccompNotification struct {
		id    uint64
		pid   uint32 // a thread's
		flags uint32
		data  seccompData
	}
	seccompResponse struct {
		id    uint64
		value int64
		errno int32 // negative
		flags uint32
	}
)

// supervisionSocket is where a child finds the socket to its supervisor.
const supervisionSocket = 3

// superviseMe has every call of this process that a supervisor is interested in
// wait for the answer of the parent.
func superviseMe() error {
	// no_new_privs is a thread's own until the filter is on all of them.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	filter := notifyFilter()
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH)
	install := func(flags uintptr) (int, unix.Errno) {
		fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&program)))
		return int(fd), errno
	}
	fd, errno := install(flags | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if errno == unix.EINVAL { // before Linux 5.19 a signal may interrupt a call that waits
		fd, errno = install(flags)
	}
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	err := unix.Sendmsg(supervisionSocket, []byte{0}, unix.UnixRights(fd), nil, 0)
	return errors.Join(err, unix.Close(fd), unix.Close(supervisionSocket))
}

// notifyFilter asks about the supervised calls, and lets all others pass, as well
// as each mmap of no file.
func notifyFilter() []unix.SockFilter {
	const number, descriptor = 0, 16 + 4*8 // offsets in seccompData
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	// unless skips the next n instructions when what was loaded is not k.
	unless := func(k uint32, n uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: n}
	}
	filter := []unix.SockFilter{load(number)}
	for _, name := range supervisedCalls {
		nr := uint32(callNumbers[name])
		if name == "mmap" {
			filter = append(filter, unless(nr, 4), load(descriptor), unless(1<<32-1, 1), answer(unix.SECCOMP_RET_ALLOW), answer(unix.SECCOMP_RET_USER_NOTIF))
			continue
		}
		filter = append(filter, unless(nr, 1), answer(unix.SECCOMP_RET_USER_NOTIF))
	}
	return append(filter, answer(unix.SECCOMP_RET_ALLOW))
}

// attach prepares a child; begin follows when it has started.
func (s *supervisor) attach(cmd *exec.Cmd) (begin func(), err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	theirs := os.NewFile(uintptr(pair[1]), "supervisor")
	cmd.ExtraFiles = []*os.File{theirs} // descriptor 3
	return func() {
		err := theirs.Close()
		go func() { // ends with the child
			defer close(s.done)
			err := errors.Join(err, s.supervise(pair[0]))
			s.mu.Lock()
			defer s.mu.Unlock()
			s.fault = err
		}()
	}, nil
}

func (s *supervisor) supervise(socket int) error {
	listener, err := receive(socket)
	if err = errors.Join(err, unix.Close(socket)); err != nil {
		return fmt.Errorf("no descriptor from the child: %w", err)
	}
	defer unix.Close(listener)
	for {
		ready := []unix.PollFd{{Fd: int32(listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err == unix.EINTR {
			continue
		} else if err != nil {
			return err
		}
		if ready[0].Revents&unix.POLLIN == 0 {
			return nil // the last thread is gone
		}
		if err := s.answer(listener); err != nil {
			return err
		}
	}
}

func receive(socket int) (fd int, err error) {
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return 0, fmt.Errorf("%d messages: %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return 0, err
	}
	return fds[0], nil
}

// answer decides about one call.
func (s *supervisor) answer(listener int) error {
	var n seccompNotification
	if gone, err := control(listener, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); gone || err != nil {
		return err
	}
	response := seccompResponse{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	c := call{name: callNames[int(n.data.nr)]}
	var err error
	if c.path, err = pathOf(&n, c.name); err != nil {
		return err
	}
	if !s.ours(c.path) {
		_, err := control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&response))
		return err
	}
	e := s.judge(c)
	if e.resume != nil {
		<-e.resume
	}
	switch {
	case e.kill:
		s.note(c, e)
		return unix.Kill(int(n.pid), unix.SIGKILL) // a thread's number stands for its process, too
	case e.errno != 0:
		response.errno, response.flags = -int32(e.errno), 0
	}
	gone, err := control(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&response))
	if !gone && err == nil {
		s.note(c, e)
	}
	return err
}

// control makes a call on the listener. gone: the thread that waited for it does not any
// more.
func control(listener int, request uintptr, argument unsafe.Pointer) (gone bool, err error) {
	for {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), request, uintptr(argument))
		switch errno {
		case 0:
			return false, nil
		case unix.EINTR:
		case unix.ENOENT:
			return true, nil
		default:
			return false, errno
		}
	}
}

// pathOf finds out which file a call is about; "" for one that is gone.
func pathOf(n *seccompNotification, name string) (string, error) {
	switch name {
	case "openat", "renameat", "unlinkat":
		name, err := textAt(int(n.pid), uintptr(n.data.args[1]))
		if err != nil || name == "" || filepath.IsAbs(name) {
			return name, err
		}
		dir, err := linkAt(n.pid, n.data.args[0])
		return filepath.Join(dir, name), err
	case "mmap":
		return linkAt(n.pid, n.data.args[4])
	}
	return linkAt(n.pid, n.data.args[0])
}

func linkAt(pid uint32, fd uint64) (string, error) {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, int32(fd)))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return "", nil
	}
	return path, err
}

// textAt reads the string at an address of a child that waits. It reads no
// further than the page: the next one may not be there.
func textAt(pid int, at uintptr) (string, error) {
	var text []byte
	for !bytes.Contains(text, []byte{0}) && len(text) < 4096 {
		part := make([]byte, 4096-(at+uintptr(len(text)))%4096)
		remote := []unix.RemoteIovec{{Base: at + uintptr(len(text)), Len: len(part)}}
		got, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &part[0], Len: uint64(len(part))}}, remote, 0)
		if err == unix.ESRCH {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("memory of the child: %w", err)
		}
		text = append(text, part[:got]...)
	}
	text, _, _ = bytes.Cut(text, []byte{0})
	return string(text), nil
}

// lacksSupervisor says why calls can't be supervised here.
var lacksSupervisor = sync.OnceValue(func() string {
	available := uint32(unix.SECCOMP_RET_USER_NOTIF)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&available)))
	if errno != 0 {
		return fmt.Sprintf("the kernel does not ask others about system calls: seccomp: %v", errno)
	}
	return ""
})
