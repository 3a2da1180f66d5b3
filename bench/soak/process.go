package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// process is a child that lives one life.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout io.ReadCloser
	stderr bytes.Buffer
	heard  chan error // what the listener found, when the child's last line was read
	dead   chan error
}

// childProgram returns the path of the program that children run: this one,
// unless a test says otherwise.
var childProgram = os.Executable

// startLife starts a child, with a command before it if there is one, and has
// every line of it heard.
func startLife(l life, hear func(line string) error, before ...string) (*process, error) {
	p, err := newProcess(l, before...)
	if err != nil {
		return nil, err
	}
	return p, p.start(hear)
}

// startSupervised is startLife with a supervisor.
func startSupervised(l life, s *supervisor, hear func(line string) error) (*process, error) {
	l.Supervised = true
	p, err := newProcess(l)
	if err != nil {
		return nil, err
	}
	begin, err := s.attach(p.cmd)
	if err != nil {
		return nil, err
	}
	defer begin()
	return p, p.start(hear)
}

func newProcess(l life, before ...string) (*process, error) {
	program, err := childProgram()
	if err != nil {
		return nil, err
	}
	args := append(before, program)
	p := &process{cmd: exec.Command(args[0], args[1:]...), heard: make(chan error, 1), dead: make(chan error, 1)}
	p.cmd.Env = append(os.Environ(), l.environment(), "GORACE=halt_on_error=1")
	p.cmd.Stderr = &p.stderr
	setGroupFor(l, p.cmd)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.stdout, err = p.cmd.StdoutPipe()
	return p, err
}

func (p *process) start(hear func(line string) error) error {
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go p.listen(hear) // ends with the child
	return nil
}

// listen reads to the end even after a broken promise: a child must not block
// on its lines.
func (p *process) listen(hear func(string) error) {
	var first error
	lines := bufio.NewScanner(p.stdout)
	for lines.Scan() {
		if err := hear(lines.Text()); err != nil && first == nil {
			first = err
		}
	}
	p.heard <- first
	p.dead <- p.cmd.Wait()
}

// wait waits for the child to end by itself, with the exit code 0.
func (p *process) wait(limit time.Duration) error {
	broken, died := p.end(limit)
	if broken == nil && died != nil {
		broken = fmt.Errorf("the child ended with %w: %s", died, p.lastWords())
	}
	return broken
}

// end waits for the child to end, however it does. After the limit it is
// killed, and that is a broken promise.
func (p *process) end(limit time.Duration) (broken, died error) {
	late := time.AfterFunc(limit, p.kill)
	broken, died = <-p.heard, <-p.dead
	if !late.Stop() && broken == nil {
		broken = fmt.Errorf("the child did not end within %v: %s", limit, p.lastWords())
	}
	return broken, died
}

// killed kills the child and returns what its lines have shown.
func (p *process) killed() error {
	p.kill()
	broken, _ := <-p.heard, <-p.dead
	if broken == nil && p.crashed() {
		broken = fmt.Errorf("the child crashed: %s", p.lastWords())
	}
	return broken
}

// crashed reports whether the child ended through a bug before it was killed.
func (p *process) crashed() bool {
	s := p.stderr.String()
	return strings.Contains(s, "panic:") || strings.Contains(s, "fatal error:") || strings.Contains(s, "DATA RACE")
}

func (p *process) lastWords() string {
	s := p.stderr.String()
	if len(s) > 4000 {
		s = s[:2000] + "\n...\n" + s[len(s)-2000:]
	}
	return s
}
