package executor_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// vocabulary is the table of keys in the guide.
func vocabulary(t *testing.T) map[string]bool {
	text, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## What is logged\n")
	require.True(t, found)
	section, _, found = strings.Cut(section, "\n## ")
	require.True(t, found)
	known := make(map[string]bool)
	for line := range strings.Lines(section) {
		keys, meaning, found := strings.Cut(line, "  ")
		if !found {
			continue
		}
		require.NotEmpty(t, strings.TrimSpace(meaning), line)
		for key := range strings.SplitSeq(keys, ", ") {
			require.False(t, known[key], "%s is there twice", key)
			known[key] = true
		}
	}
	return known
}

// TestLogsHaveOneVocabulary: each key of a line is in the table, and the other way
// round. A key is written where it is used, as the first argument of a function of slog.
func TestLogsHaveOneVocabulary(t *testing.T) {
	known, used := vocabulary(t), make(map[string]bool)
	makers := []string{"Any", "Bool", "Duration", "Float64", "Group", "GroupAttrs", "Int", "Int64", "String",
		"Time", "Uint64"}
	writers := []string{"Debug", "DebugContext", "Info", "InfoContext", "Warn", "WarnContext", "Error",
		"ErrorContext", "Log", "With"}
	files := token.NewFileSet()
	check := func(n ast.Node) bool {
		if literal, ok := n.(*ast.CompositeLit); ok && isSlog(literal.Type, "Attr") && len(literal.Elts) > 0 {
			assert.Fail(t, "an attribute without a function of slog", "%s", files.Position(n.Pos()))
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		function, ok := call.Fun.(*ast.SelectorExpr)
		switch {
		case !ok:
		case isSlog(function, makers...):
			key := literal(call.Args[0])
			assert.True(t, known[key], "%s: the key %q is not in the table of README.md", files.Position(n.Pos()), key)
			used[key] = true
		case isOf("http", function, "Error"): // an answer
		case slices.Contains(writers, function.Sel.Name) && len(call.Args) > 0:
			args := call.Args
			switch function.Sel.Name {
			case "With":
			case "Log": // a context, a level, a message
				args = args[min(3, len(args)):]
			default: // a message
				args = args[1:]
			}
			for _, arg := range args {
				assert.Empty(t, literal(arg), "%s: a key without a function of slog", files.Position(arg.Pos()))
			}
		}
		return true
	}
	for _, dir := range []string{".", "../actor", "../journal", "../lock", "../shard"} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch name := d.Name(); {
			case err != nil:
				return err
			case d.IsDir() && (name == "cmd" || name == "testdata" || strings.HasSuffix(name, "test")):
				return fs.SkipDir // programs, and what is for tests
			case d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(files, path, nil, 0)
			if err == nil {
				ast.Inspect(file, check)
			}
			return err
		}))
	}
	for key := range known {
		assert.True(t, used[key], "no line has the key %s of the table", key)
	}
}

// isSlog reports whether an expression is one of some names of package slog.
func isSlog(e ast.Expr, names ...string) bool { return isOf("slog", e, names...) }

func isOf(pkg string, e ast.Expr, names ...string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, ok := s.X.(*ast.Ident)
	return ok && from.Name == pkg && slices.Contains(names, s.Sel.Name)
}

// literal is the text of an expression, "" unless it is written there.
func literal(e ast.Expr) string {
	if b, ok := e.(*ast.BasicLit); ok && b.Kind == token.STRING {
		text, _ := strconv.Unquote(b.Value)
		return text
	}
	return ""
}
