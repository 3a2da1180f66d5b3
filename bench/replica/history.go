package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/strandjobs/strand/executor"
)

// Change is the payload of a job: what one commit did to one path.
type Change struct {
	Commit int    // index on the first-parent line, 0 is the oldest; also the score
	Mode   string // after the commit; absent when the path was removed
	Old    string // blob before the commit; zeros when there was none
	New    string // blob after the commit
	Path   []byte // any bytes but NUL; empty for the mark of the feed
	Fed    int    // mark: how many events were enqueued up to here
	Probe  bool   // mark: tell those who wait
}

// Modes of a tree entry. Regular files may have older modes: only their
// executable bit counts.
const (
	modeAbsent    = "000000"
	modeSymlink   = "120000"
	modeSubmodule = "160000"
)

// history is what happened on the first-parent line, oldest first.
type history struct {
	commits []string
	events  []Change
	paths   []string       // in the order in which they appeared
	number  map[string]int // index into paths
	touched [][]int        // by path number: indexes of the commits that changed it
}

// readHistory reads everything up to the commit that is replicated. With the
// first parent as the only one, the changes of all commits, merges included,
// add up to the last tree.
func readHistory(r *repository) (*history, error) {
	log := r.command("log", "--first-parent", "-m", "--reverse", "--raw", "--no-renames", "--no-abbrev", "-z",
		"--no-ext-diff", "--no-relative", "--no-notes", "--format=%H", r.head, "--")
	var said bytes.Buffer
	log.Stderr = &said
	out, err := log.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := log.Start(); err != nil {
		return nil, err
	}
	h := &history{number: make(map[string]int)}
	err = h.parse(bufio.NewReaderSize(out, 1<<16))
	if err != nil {
		_ = log.Process.Kill()
	}
	if exit := log.Wait(); err == nil && exit != nil {
		err = fmt.Errorf("%w: %s", exit, bytes.TrimSpace(said.Bytes()))
	}
	if err != nil {
		return nil, fmt.Errorf("reading the history: %w", err)
	}
	return h, nil
}

// parse reads fields that end with NUL: a commit, then for each change
// ":oldmode newmode oldblob newblob status" and the path. Git puts a newline
// before the first change of a commit and empty fields between commits. What
// follows a change is its path, so no path can be taken for something else.
func (h *history) parse(in *bufio.Reader) error {
	for {
		field, err := in.ReadString(0)
		if err == io.EOF && strings.Trim(field, "\n") == "" {
			return nil
		}
		if err != nil {
			return err
		}
		field = strings.TrimSuffix(strings.TrimPrefix(field, "\n"), "\x00")
		if !strings.HasPrefix(field, ":") {
			if field != "" {
				h.commits = append(h.commits, field)
			}
			continue
		}
		path, err := in.ReadString(0)
		if err != nil {
			return err
		}
		parts := strings.Fields(field)
		if len(parts) != 5 || len(h.commits) == 0 {
			return fmt.Errorf("unexpected output of git log: %q", field)
		}
		h.add(parts, strings.TrimSuffix(path, "\x00"))
	}
}

func (h *history) add(parts []string, path string) {
	n, known := h.number[path]
	if !known {
		n = len(h.paths)
		h.number[path] = n
		h.paths = append(h.paths, path)
		h.touched = append(h.touched, nil)
	}
	commit := len(h.commits) - 1
	h.touched[n] = append(h.touched[n], commit)
	h.events = append(h.events, Change{Commit: commit, Mode: parts[1], Old: parts[2], New: parts[3], Path: []byte(path)})
}

// markID is the id of the feed's mark. Git allows no NUL in a path, so ids
// with one are free.
const markID = "\x00fed"

// jobID is the id of a change: its path, so that changes of one path run in
// order. A path that is too long keeps its beginning and gets a hash of the
// whole, after a NUL, so that it equals no other.
func jobID(c Change) string {
	if len(c.Path) == 0 {
		return markID
	}
	if len(c.Path) <= executor.MaxIDBytes {
		return string(c.Path)
	}
	hash := sha256.Sum256(c.Path)
	suffix := "\x00" + hex.EncodeToString(hash[:])
	return string(c.Path[:executor.MaxIDBytes-len(suffix)]) + suffix
}
