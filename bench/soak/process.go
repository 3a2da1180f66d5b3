package main

import (
	"os"

	"github.com/strandjobs/strand/bench/child"
)

// startLife starts a child, with a command before it if there is one, and has
// every line of it heard.
func startLife(l life, hear func(line string) error, before ...string) (*child.Process, error) {
	p, err := newProcess(l, before...)
	if err != nil {
		return nil, err
	}
	return p, p.Start(hear)
}

// startSupervised is startLife with a supervisor.
func startSupervised(l life, s *supervisor, hear func(line string) error) (*child.Process, error) {
	l.Supervised = true
	p, err := newProcess(l)
	if err != nil {
		return nil, err
	}
	begin, err := s.attach(p.Cmd)
	if err != nil {
		return nil, err
	}
	defer begin()
	return p, p.Start(hear)
}

func newProcess(l life, before ...string) (*child.Process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := append(before, program)
	p, err := child.New([]string{l.environment()}, args[0], args[1:]...)
	if err == nil {
		giveMounts(l, p.Cmd)
	}
	return p, err
}
