//go:build !linux || !(amd64 || arm64)

package main

import (
	"errors"
	"os/exec"
)

func superviseMe() error { return errors.ErrUnsupported }

func (s *supervisor) attach(*exec.Cmd) (begin func(), err error) { return nil, errors.ErrUnsupported }

func lacksSupervisor() string { return "system calls are supervised on Linux only, on amd64 and arm64" }
