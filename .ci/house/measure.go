package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// rooms are the packages of the library.
var rooms = []string{"actor", "shard", "journal", "executor", "lock"}

// source is a parsed file.
type source struct {
	path  string
	lines int
	file  *ast.File
}

// house is all that is measured.
type house struct {
	fset    *token.FileSet
	sources []source

	lines, comments, widest, largest int
	functions                        []int // their lines
	names                            map[string]int
	methods                          map[string]map[string]int // by directory and type: by file
	fields                           map[string]int            // of structs of executor
}

func measure() ([]figure, error) {
	h := &house{fset: token.NewFileSet(), names: make(map[string]int), methods: make(map[string]map[string]int), fields: make(map[string]int)}
	for _, room := range rooms {
		if err := filepath.WalkDir(room, h.visit); err != nil {
			return nil, err
		}
	}
	for i := range h.sources {
		h.count(&h.sources[i])
	}
	up, arrows, err := h.arrows("executor")
	if err != nil {
		return nil, err
	}
	flat, flatLines := h.flat("executor")
	readme, readmeLines := size("README.md")
	_, doc := size("executor/doc.go")
	ci, _ := filepath.Glob(".ci/run")
	_, ciLines := size(ci[0])
	slices.Sort(h.functions)
	all := 0
	for _, n := range h.names {
		all += n
	}
	most, spread := h.widestType()
	return []figure{
		{"lines of the library, without tests", h.lines},
		{"lines of the largest file", h.largest},
		{"columns of the longest line", h.widest},
		{"lines of a function, p50", h.functions[len(h.functions)/2]},
		{"lines of a function, p99", h.functions[len(h.functions)*99/100]},
		{"lines of a function, the longest", h.functions[len(h.functions)-1]},
		{"lines without a comment, of 1000", 1000 - 1000*h.comments/h.lines},
		{"executor: files", flat},
		{"executor: lines", flatLines},
		{"executor/internal: lines of the largest package", h.largestBelow("executor/internal")},
		{"executor: arrows between files that run back up, of 1000", 1000 * up / max(arrows, 1)},
		{"methods of one type, the most", most},
		{"files that hold the methods of one type, the most", spread},
		{"exported names, all rooms", all},
		{"exported names, executor", h.names["executor"]},
		{"fields of executor.QueueConfig", h.fields["QueueConfig"]},
		{"fields of executor.Config", h.fields["Config"]},
		{"bytes of README.md", readme},
		{"lines of README.md", readmeLines},
		{"lines of executor/doc.go", doc},
		{"lines of .ci/run", ciLines},
	}, nil
}

// visit parses a file, if it is one of the library.
func (h *house) visit(path string, entry fs.DirEntry, err error) error {
	switch {
	case err != nil:
		return err
	case entry.IsDir() && entry.Name() == "testdata":
		return fs.SkipDir
	case entry.IsDir() && strings.HasSuffix(path, "test") && filepath.Base(filepath.Dir(path)) == "internal":
		return fs.SkipDir
	case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(h.fset, path, data, parser.ParseComments)
	if err != nil {
		return err
	}
	lines := strings.Count(string(data), "\n")
	for line := range strings.Lines(string(data)) {
		h.widest = max(h.widest, columns(line))
	}
	h.sources = append(h.sources, source{path, lines, file})
	return nil
}

// columns counts a tab as four.
func columns(line string) int {
	line = strings.TrimRight(line, "\n")
	return len([]rune(line)) + 3*strings.Count(line, "\t")
}

// count adds the figures of a file.
func (h *house) count(s *source) {
	h.lines += s.lines
	if filepath.Base(s.path) != "doc.go" {
		h.largest = max(h.largest, s.lines)
	}
	for _, group := range s.file.Comments {
		h.comments += h.fset.Position(group.End()).Line - h.fset.Position(group.Pos()).Line + 1
	}
	dir := filepath.Dir(s.path)
	public := s.file.Name.Name != "main" && !strings.Contains("/"+filepath.ToSlash(dir)+"/", "/internal/")
	for _, d := range s.file.Decls {
		exported := h.declared(s, dir, d)
		if public {
			h.names[dir] += exported
		}
	}
}

// declared notes a declaration and returns how many exported names it brings.
func (h *house) declared(s *source, dir string, d ast.Decl) (exported int) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		h.functions = append(h.functions, h.fset.Position(d.End()).Line-h.fset.Position(d.Pos()).Line+1)
		if d.Recv == nil {
			return one(d.Name)
		}
		receiver := receiverOf(d.Recv.List[0].Type)
		of := h.methods[dir+"."+receiver]
		if of == nil {
			of = make(map[string]int)
			h.methods[dir+"."+receiver] = of
		}
		of[s.path]++
		if ast.IsExported(receiver) {
			return one(d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				exported += one(spec.Name)
				if body, ok := spec.Type.(*ast.StructType); ok && dir == "executor" {
					h.fields[spec.Name.Name] = body.Fields.NumFields()
				}
			case *ast.ValueSpec:
				for _, name := range spec.Names {
					exported += one(name)
				}
			}
		}
	}
	return exported
}

func one(name *ast.Ident) int {
	if name.IsExported() {
		return 1
	}
	return 0
}

func receiverOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverOf(e.X)
	case *ast.IndexExpr:
		return receiverOf(e.X)
	case *ast.IndexListExpr:
		return receiverOf(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// widestType returns the most methods of a type, and the most files that hold those of one.
func (h *house) widestType() (methods, files int) {
	for _, of := range h.methods {
		n := 0
		for _, in := range of {
			n += in
		}
		methods, files = max(methods, n), max(files, len(of))
	}
	return methods, files
}

func (h *house) flat(dir string) (files, lines int) {
	for i := range h.sources {
		if s := &h.sources[i]; filepath.Dir(s.path) == dir {
			files++
			lines += s.lines
		}
	}
	return files, lines
}

// largestBelow returns the lines of the largest package below a directory.
func (h *house) largestBelow(dir string) (most int) {
	lines := make(map[string]int)
	for i := range h.sources {
		if s := &h.sources[i]; strings.HasPrefix(filepath.ToSlash(s.path), dir+"/") {
			lines[filepath.Dir(s.path)] += s.lines
			most = max(most, lines[filepath.Dir(s.path)])
		}
	}
	return most
}

func size(path string) (bytes, lines int) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, 0
	}
	return len(data), strings.Count(string(data), "\n")
}
