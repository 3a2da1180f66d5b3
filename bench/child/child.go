// Package child runs a process that says what it does in lines on its standard output,
// hears it to the end, and kills it when it is told to. What a line says was done before
// the next one was written: a pipe keeps what a process has written before its death.
package child

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

// longestLine is more than any child says in one.
const longestLine = 16 << 20

// Process is a child.
type Process struct {
	Cmd   *exec.Cmd // not started before Start
	Stdin io.Closer

	stdout io.ReadCloser
	stderr bytes.Buffer
	heard  chan error // what the listener found, when the child's last line was read
	dead   chan error
}

// New returns a process that is not started: a program with arguments, and what it has
// in its environment beside all that this process has.
func New(environment []string, program string, args ...string) (p *Process, err error) {
	p = &Process{Cmd: exec.Command(program, args...), heard: make(chan error, 1), dead: make(chan error, 1)}
	p.Cmd.Env = append(append(os.Environ(), environment...), "GORACE=halt_on_error=1")
	p.Cmd.Stderr = &p.stderr
	setGroup(p.Cmd)
	if p.Stdin, err = p.Cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.stdout, err = p.Cmd.StdoutPipe()
	return p, err
}

// Start starts the process and has every line of it heard. An error of hear is a broken
// promise, which Wait, End and Killed return.
func (p *Process) Start(hear func(line string) error) error {
	if err := p.Cmd.Start(); err != nil {
		return err
	}
	go p.listen(hear) // ends with the child
	return nil
}

// listen reads to the end even after a broken promise: a child must not block
// on its lines.
func (p *Process) listen(hear func(string) error) {
	var first error
	lines := bufio.NewScanner(p.stdout)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		if err := hear(lines.Text()); err != nil && first == nil {
			first = err
		}
	}
	p.heard <- first
	p.dead <- p.Cmd.Wait()
}

// Wait waits for the child to end by itself, with the exit code 0.
func (p *Process) Wait(limit time.Duration) error {
	broken, died := p.End(limit)
	if broken == nil && died != nil {
		broken = fmt.Errorf("the child ended with %w: %s", died, p.LastWords())
	}
	return broken
}

// End waits for the child to end, however it does. After the limit it is
// killed, and that is a broken promise.
func (p *Process) End(limit time.Duration) (broken, died error) {
	late := time.AfterFunc(limit, p.Kill)
	broken, died = <-p.heard, <-p.dead
	if !late.Stop() && broken == nil {
		broken = fmt.Errorf("the child did not end within %v: %s", limit, p.LastWords())
	}
	return broken, died
}

// Killed kills the child and returns what its lines have shown.
func (p *Process) Killed() error {
	p.Kill()
	broken, _ := <-p.heard, <-p.dead
	if broken == nil && p.Crashed() {
		broken = fmt.Errorf("the child crashed: %s", p.LastWords())
	}
	return broken
}

// Crashed reports whether the child ended through a bug before it was killed.
func (p *Process) Crashed() bool {
	s := p.stderr.String()
	return strings.Contains(s, "panic:") || strings.Contains(s, "fatal error:") || strings.Contains(s, "DATA RACE")
}

// LastWords are the beginning and the end of what the child has written to its standard
// error.
func (p *Process) LastWords() string {
	s := p.stderr.String()
	if len(s) > 4000 {
		s = s[:2000] + "\n...\n" + s[len(s)-2000:]
	}
	return s
}

// FastDir is where the files of children are. A file system in memory is as good as a
// disk for every question but how long it takes: nobody here pulls the plug.
func FastDir() string {
	const memory = "/dev/shm"
	if info, err := os.Stat(memory); err == nil && info.IsDir() {
		if f, err := os.CreateTemp(memory, "strand-"); err == nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
			return memory
		}
	}
	return os.TempDir()
}
