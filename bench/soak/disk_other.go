//go:build !linux

package main

import (
	"errors"
	"os/exec"
)

func giveMounts(life, *exec.Cmd) {}

func smallDisk(string, int) (func() error, error) { return nil, errors.New("Linux only") }

func lacksSmallDisk() string { return "small file systems are made on Linux only" }
