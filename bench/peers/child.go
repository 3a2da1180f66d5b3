package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/strandjobs/strand/bench/peers/peer"
)

// childVariable tells a process that it is a child, and what to do.
const childVariable = "STRAND_PEERS_TASK"

// errHung is the end of a case that takes too long.
var errHung = errors.New("it did not end in time")

// order is what a child is told.
type order struct {
	task
	N   int
	Dir string
}

// inChild measures t in a process of its own, so that its memory is its own,
// and so that one that hangs can be ended with the server it has started. An
// error is in the outcome, too.
func (t task) inChild(ctx context.Context, parent string) (outcome, error) {
	p := byName(t.Peer)
	o := t.begin()
	if missing := p.Needs(); missing != "" {
		o.Skipped = "apt-get install " + missing
		return o, nil
	}
	if t.Shape == inTurn && !p.Holds {
		o.Skipped = "it takes no more jobs than it has workers or room in its channels"
		return o, nil
	}
	result, err := t.child(ctx, parent)
	if err != nil {
		o.Failed = err.Error()
		return o, err
	}
	return result, nil
}

// begin is an outcome that has yet to come.
func (t task) begin() outcome {
	p := byName(t.Peer)
	return outcome{task: t, Promise: p.Promise, Version: version(p.Module)}
}

func (t task) child(ctx context.Context, parent string) (o outcome, err error) {
	dir, err := os.MkdirTemp(parent, "case-")
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	self, err := os.Executable()
	if err != nil {
		return o, err
	}
	what, err := json.Marshal(order{t, t.N, dir})
	if err != nil {
		return o, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 40*time.Second+10*t.Target, errHung)
	defer cancel()
	var out, errOut bytes.Buffer
	command := exec.CommandContext(ctx, self)
	command.Env = append(os.Environ(), childVariable+"="+string(what))
	command.Stdout, command.Stderr, command.WaitDelay = &out, &errOut, 5*time.Second
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	group := func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.Cancel = group
	err = command.Run()
	if command.Process != nil {
		_ = group() // a server that was left behind; usually there is none
	}
	if cause := context.Cause(ctx); cause != nil {
		return o, cause
	}
	if err != nil {
		return o, fmt.Errorf("%w: %s", err, gist(errOut.Bytes()))
	}
	if err := json.Unmarshal(out.Bytes(), &o); err != nil {
		return o, fmt.Errorf("%w in %q", err, gist(out.Bytes()))
	}
	return o, nil
}

// gist is what is worth reading of what a child has said: how it begins, as a
// panic does, and how it ends.
func gist(text []byte) []byte {
	const most = 300 // of each end
	text = bytes.TrimSpace(text)
	if len(text) <= 2*most {
		return text
	}
	return slices.Concat(text[:most], []byte(" … "), text[len(text)-most:])
}

// childMain reports whether this process is a child, after its work. What its
// peer prints goes to stderr.
func childMain() bool {
	what, is := os.LookupEnv(childVariable)
	if !is {
		return false
	}
	out := os.Stdout
	os.Stdout = os.Stderr
	o, err := obey(what)
	if err == nil {
		err = json.NewEncoder(out).Encode(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

func obey(what string) (outcome, error) {
	var o order
	if err := json.Unmarshal([]byte(what), &o); err != nil {
		return outcome{}, err
	}
	t := o.task
	t.N, t.Dir = o.N, o.Dir
	p := byName(t.Peer)
	if p == nil {
		return outcome{}, fmt.Errorf("no peer %q", t.Peer)
	}
	return t.carryOut(context.Background(), p)
}

func byName(name string) *peer.Peer {
	for _, p := range slices.Concat(peer.All(), peer.OnPostgres()) {
		if p.Name == name {
			return &p
		}
	}
	return nil
}
