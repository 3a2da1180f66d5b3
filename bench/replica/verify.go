package main

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// verdict is what a comparison of the target with a tree found.
type verdict struct {
	differences []string // empty: they are the same
	submodules  int      // recorded in the tree, and not in the target
}

// verify compares the target with the last tree: name, kind, executable bit and
// content of everything, and that there is nothing else.
func verify(repo *repository, root *os.Root) (v verdict, err error) {
	listing, err := repo.ask("ls-tree", "-r", "-z", "--full-tree", repo.head)
	if err != nil {
		return v, err
	}
	expected := make(map[string]bool) // names of files, links and directories
	for entry := range strings.SplitSeq(strings.TrimSuffix(listing, "\x00"), "\x00") {
		if entry == "" { // the empty tree
			continue
		}
		meta, name, _ := strings.Cut(entry, "\t")
		fields := strings.Fields(meta) // mode, type, blob
		if len(fields) != 3 {
			return v, fmt.Errorf("unexpected output of git ls-tree: %q", entry)
		}
		if fields[0] == modeSubmodule {
			v.submodules++
			continue
		}
		for at := name; at != "."; at = path.Dir(at) {
			expected[at] = true
		}
		if err := compare(root, name, fields[0], fields[2]); err != nil {
			v.differences = append(v.differences, fmt.Sprintf("%q: %v", name, err))
		}
	}
	err = fs.WalkDir(root.FS(), ".", func(name string, _ fs.DirEntry, err error) error {
		if err == nil && name != "." && !expected[name] {
			v.differences = append(v.differences, fmt.Sprintf("%q: it is in the target and not in the tree", name))
		}
		return err
	})
	return v, err
}

// compare returns how a file or link differs from its entry in the tree.
func compare(root *os.Root, name, mode, blob string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	if (mode == modeSymlink) != (info.Mode().Type() == fs.ModeSymlink) || (mode != modeSymlink && !info.Mode().IsRegular()) {
		return fmt.Errorf("it is a %v and should have mode %s", info.Mode(), mode)
	}
	var content io.Reader
	size := info.Size()
	if mode == modeSymlink {
		link, err := root.Readlink(name)
		if err != nil {
			return err
		}
		content, size = strings.NewReader(link), int64(len(link))
	} else {
		if hasExecutable && isExecutable(mode) != (info.Mode()&0o100 != 0) {
			return fmt.Errorf("it is a %v and should have mode %s", info.Mode(), mode)
		}
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		content = f
	}
	return compareBlob(content, size, blob)
}

// compareBlob computes the name that git gives to a content: the hash of
// "blob SIZE NUL" and the bytes. Its length tells which hash it is.
func compareBlob(content io.Reader, size int64, blob string) error {
	want, err := hex.DecodeString(blob)
	if err != nil {
		return err
	}
	var h hash.Hash
	switch len(want) {
	case sha1.Size:
		h = sha1.New()
	case sha256.Size:
		h = sha256.New()
	default:
		return errors.New("unknown kind of hash " + blob)
	}
	fmt.Fprintf(h, "blob %d\x00", size)
	if _, err := io.Copy(h, content); err != nil {
		return err
	}
	if sum := h.Sum(nil); !bytes.Equal(sum, want) {
		return fmt.Errorf("its content is %x and should be %s", sum, blob)
	}
	return nil
}
