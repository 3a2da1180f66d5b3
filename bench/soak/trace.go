package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
)

// call is one system call of a child, as strace tells it.
type call struct {
	name   string
	path   string // of the file, or the first one
	second string // the new name of a rename
	data   []byte
	offset int64 // of a write; the size of a truncate
	cuts   bool  // of an open: what is there goes
	failed bool
	forced bool // the failure was injected
}

// lacksStrace says why system calls can't be traced here.
var lacksStrace = sync.OnceValue(func() string {
	if runtime.GOOS != "linux" {
		return "system calls are traced on Linux only"
	}
	if _, err := exec.LookPath("strace"); err != nil {
		return "strace is not installed"
	}
	if out, err := exec.Command("strace", "-f", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		return fmt.Sprintf("strace may not trace here: %v: %s", err, out)
	}
	return ""
})

// straceArgs is the command that records the calls of a child in a file, with
// all that they write.
func straceArgs(file string, more ...string) []string {
	args := []string{
		"strace", "-f", "-y", "-xx", "-s", "8388608", "-e", "signal=none", "-o", file, "--seccomp-bpf",
		"-e", "trace=openat,rename,renameat,renameat2,unlinkat,pwrite64,pwritev2,write,ftruncate,fsync,fdatasync,mmap",
	}
	return append(args, more...)
}

// readTrace returns the calls on dir, its parent and its files, and the writes to
// standard output, in order. A call that others interrupted stands where it began,
// except that a sync stands where it ended.
func readTrace(file, dir string) (calls []call, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	begun := map[string]*call{} // by thread; their place in calls is taken
	var order []*call
	lines := bufio.NewScanner(f)
	lines.Buffer(make([]byte, 1<<20), 64<<20)
	for lines.Scan() {
		thread, text, _ := strings.Cut(lines.Text(), " ")
		text = strings.TrimLeft(text, " ")
		if strings.HasPrefix(text, "<... ") {
			if c := begun[thread]; c != nil {
				delete(begun, thread)
				c.result(text)
				if isSync(c.name) {
					order = append(order, c)
				}
			}
			continue
		}
		c := parseCall(text)
		if c == nil || (c.path != "stdout" && c.path != dir && c.path != filepath.Dir(dir) && filepath.Dir(c.path) != dir) {
			continue
		}
		if strings.HasSuffix(text, "<unfinished ...>") {
			begun[thread] = c
			if isSync(c.name) {
				continue
			}
		} else {
			c.result(text)
		}
		order = append(order, c)
	}
	for _, c := range order {
		calls = append(calls, *c)
	}
	return calls, lines.Err()
}

func isSync(name string) bool { return name == "fsync" || name == "fdatasync" }

// parseCall reads what stands before the result.
func parseCall(text string) *call {
	name, args, ok := strings.Cut(text, "(")
	if !ok {
		return nil
	}
	c := &call{name: name}
	strs, rest := quoted(args)
	fd, _, _ := strings.Cut(args, "<")
	switch name {
	case "openat", "unlinkat":
		if len(strs) > 0 {
			c.path = below(args, strs[0])
		}
	case "rename", "renameat", "renameat2":
		if len(strs) > 1 {
			c.name, c.path, c.second = "rename", below(args, strs[0]), below(args, strs[1])
		}
	case "mmap":
		c.path = bracketed(args)
	case "write":
		if fd == "1" {
			c.path = "stdout"
		} else {
			c.path = bracketed(args)
		}
	default:
		c.path = bracketed(args)
	}
	if len(strs) > 0 {
		c.data = []byte(strs[0])
	}
	// pwrite64(fd, data, length, offset) and ftruncate(fd, size)
	numbers := strings.FieldsFunc(rest, func(r rune) bool { return r == ',' || r == ' ' || r == ')' })
	if name == "pwrite64" && len(numbers) > 2 {
		c.offset, _ = strconv.ParseInt(numbers[2], 10, 64)
	}
	if name == "ftruncate" && len(numbers) > 1 {
		c.offset, _ = strconv.ParseInt(numbers[1], 10, 64)
	}
	if name == "openat" && !strings.Contains(rest, "O_CREAT") {
		c.name = "open"
	}
	c.cuts = strings.Contains(rest, "O_TRUNC")
	return c
}

// below completes a name that is relative to the directory of the first
// descriptor.
func below(args, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(bracketed(args), name)
}

// quoted decodes the strings of the arguments and returns what is left.
func quoted(args string) (strs []string, rest string) {
	for {
		before, after, ok := strings.Cut(args, `"`)
		rest += before
		if !ok {
			return strs, rest
		}
		var text string
		text, args, _ = strings.Cut(after, `"`)
		strs = append(strs, unhex(text))
	}
}

// bracketed returns the path of the first descriptor.
func bracketed(args string) string {
	_, after, ok := strings.Cut(args, `<\x`)
	if !ok {
		return ""
	}
	text, _, _ := strings.Cut(after, ">")
	return unhex(`\x` + text)
}

// unhex decodes "\x2f\x74".
func unhex(text string) string {
	b := make([]byte, 0, len(text)/4)
	for ; len(text) >= 4; text = text[4:] {
		b = append(b, digit(text[2])<<4|digit(text[3]))
	}
	return string(b)
}

func digit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

func (c *call) result(text string) {
	if i := strings.LastIndex(text, ") = "); i >= 0 {
		text = text[i:]
	} else if i := strings.LastIndex(text, " = "); i >= 0 { // padded with spaces
		text = text[i:]
	}
	c.failed = strings.Contains(text, "= -1 ")
	c.forced = strings.Contains(text, "(INJECTED)")
}
