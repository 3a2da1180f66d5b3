package main

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// blobs hands out the contents of blobs, from one "git cat-file --batch" per
// worker. Starting a git for every blob would cost a hundred times the read.
type blobs struct {
	repo *repository
	idle chan *reader // as many as there are workers; nil: not started yet
}

// reader is one running git. It belongs to one worker at a time.
type reader struct {
	git *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func newBlobs(r *repository, workers int) *blobs {
	b := &blobs{repo: r, idle: make(chan *reader, workers)}
	for range workers {
		b.idle <- nil
	}
	return b
}

// copyTo writes a blob to w. After an error the git that was asked is thrown
// away: what is left in its pipe is not known.
func (b *blobs) copyTo(w io.Writer, blob string) (err error) {
	r := <-b.idle
	defer func() {
		if err != nil && r != nil {
			r.close()
			r = nil
		}
		b.idle <- r
	}()
	if r == nil {
		if r, err = b.start(); err != nil {
			return err
		}
	}
	return r.copyTo(w, blob)
}

func (b *blobs) start() (*reader, error) {
	r := &reader{git: b.repo.command("cat-file", "--batch")}
	in, err := r.git.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := r.git.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.in, r.out = in, bufio.NewReaderSize(out, 1<<16)
	if err := r.git.Start(); err != nil {
		return nil, fmt.Errorf("git cat-file: %w", err)
	}
	return r, nil
}

// copyTo asks for a blob. The answer is "name type size\n", the bytes, "\n".
func (r *reader) copyTo(w io.Writer, blob string) error {
	if _, err := io.WriteString(r.in, blob+"\n"); err != nil {
		return fmt.Errorf("git cat-file: %w", err)
	}
	header, err := r.out.ReadString('\n')
	if err != nil {
		return fmt.Errorf("git cat-file: %w", err)
	}
	var name, kind string
	var size int64
	if n, _ := fmt.Sscan(header, &name, &kind, &size); n != 3 || kind != "blob" {
		return fmt.Errorf("git cat-file: %s", strings.TrimSpace(header))
	}
	if _, err := io.CopyN(w, r.out, size); err != nil {
		return fmt.Errorf("blob %s: %w", blob, err)
	}
	_, err = r.out.Discard(1)
	return err
}

func (r *reader) close() {
	_ = r.in.Close()
	_ = r.git.Process.Kill()
	_ = r.git.Wait()
}

// close ends all of them. No worker may be copying.
func (b *blobs) close() {
	for range cap(b.idle) {
		if r := <-b.idle; r != nil {
			r.close()
		}
	}
}
