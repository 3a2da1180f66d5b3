package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/importer"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// arrows returns how many pairs of files of a package there are of which one uses what
// the other declares, and how many of those run back up in an order of the files that has
// few of them.
func (h *house) arrows(dir string) (up, all int, err error) {
	var files []*ast.File
	for i := range h.sources {
		if filepath.Dir(h.sources[i].path) == dir {
			files = append(files, h.sources[i].file)
		}
	}
	uses := make(map[*ast.Ident]types.Object)
	exports, err := exportsOf("./" + dir)
	if err != nil {
		return 0, 0, err
	}
	config := types.Config{Importer: importer.ForCompiler(h.fset, "gc", exports), Error: func(error) {}} // files for other systems declare twice
	_, _ = config.Check(dir, h.fset, files, &types.Info{Uses: uses})
	edges := make(map[string]map[string]bool)
	for use, object := range uses {
		from, to := h.fset.Position(use.Pos()).Filename, h.fset.Position(object.Pos()).Filename
		if from == to || filepath.Dir(to) != dir {
			continue
		}
		if edges[from] == nil {
			edges[from] = make(map[string]bool)
		}
		if !edges[from][to] {
			edges[from][to] = true
			all++
		}
	}
	place := make(map[string]int)
	for i, file := range inOrder(edges) {
		place[file] = i
	}
	for from, to := range edges {
		for t := range to {
			if place[from] > place[t] {
				up++
			}
		}
	}
	return up, all, nil
}

// exportsOf builds what a package imports, and says where that is.
func exportsOf(pkg string) (func(path string) (io.ReadCloser, error), error) {
	list := exec.Command("go", "list", "-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}", pkg)
	list.Stderr = os.Stderr
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	where := make(map[string]string)
	for line := range bytes.Lines(output) {
		path, file, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		where[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(where[path]) }, nil
}

// inOrder puts files that use others before those, as far as it goes: a file that nothing
// left uses comes next, one that uses nothing left comes last, and where there is neither,
// the one with the most uses beyond those of itself. (P. Eades, X. Lin, W. F. Smyth: A fast
// and effective heuristic for the feedback arc set problem, 1993.)
func inOrder(edges map[string]map[string]bool) []string {
	out, in := make(map[string]int), make(map[string]int)
	for from, to := range edges {
		for t := range to {
			out[from]++
			in[t]++
			in[from] += 0
			out[t] += 0
		}
	}
	var front, back []string
	for len(out) > 0 {
		left := make([]string, 0, len(out))
		for file := range out {
			left = append(left, file)
		}
		slices.Sort(left)
		next := slices.MaxFunc(left, func(a, b string) int { return cmp.Compare(rank(out[a], in[a]), rank(out[b], in[b])) })
		if out[next] == 0 {
			back = append(back, next)
		} else {
			front = append(front, next)
		}
		for t := range edges[next] {
			in[t]--
		}
		for from := range out {
			if edges[from][next] {
				out[from]--
			}
		}
		delete(out, next)
	}
	slices.Reverse(back)
	return append(front, back...)
}

// rank is higher for what is to be placed sooner.
func rank(out, in int) int {
	const sure = 1 << 20
	switch {
	case out == 0:
		return 2 * sure
	case in == 0:
		return sure
	}
	return out - in
}
