//go:build !unix

package main

import "os/exec"

func setGroup(*exec.Cmd) {}

func (p *process) kill() { _ = p.cmd.Process.Kill() }
