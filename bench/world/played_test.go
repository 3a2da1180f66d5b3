package world

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// within are names that executortest and inspect.Act call for a world.
const within = `Inspector.RetryNow Inspector.Cancel Inspector.Delete Inspector.KillFailed
	Inspector.DeleteFailed Inspector.Requeue Inspector.DeleteDead Inspector.Pause`

// A claim is no word: each name that a feature claims is used in the code of the worlds, as what
// the compiler takes it for.
func TestEveryClaimIsPlayed(t *testing.T) {
	used := usedNames(t)
	for name := range strings.FieldsSeq(within) {
		require.False(t, used[name], "%s is used here, too", name)
		used[name] = true
	}
	var words []string
	for _, f := range features {
		for name := range strings.FieldsSeq(f.claims) {
			if !used[name] {
				words = append(words, f.name+" claims "+name)
			}
		}
	}
	require.Empty(t, words, "no world plays these")
}

// usedNames are the functions, constants, methods and fields that the code of the worlds uses.
func usedNames(t *testing.T) map[string]bool {
	t.Helper()
	fset, files := token.NewFileSet(), []*ast.File(nil)
	all, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, name := range all {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		require.NoError(t, err)
		files = append(files, f)
	}
	info := &types.Info{
		Uses: make(map[*ast.Ident]types.Object), Selections: make(map[*ast.SelectorExpr]*types.Selection), Types: make(map[ast.Expr]types.TypeAndValue),
	}
	_, err = (&types.Config{Importer: compiled(t, fset)}).Check("world", fset, files, info)
	require.NoError(t, err)

	used := make(map[string]bool)
	for _, o := range info.Uses {
		if o.Pkg() != nil && o.Parent() == o.Pkg().Scope() {
			used[prefix(o.Pkg().Name())+o.Name()] = true
		}
	}
	for _, s := range info.Selections {
		used[typeName(s.Recv())+"."+s.Obj().Name()] = true
		if f, ok := s.Obj().(*types.Func); ok { // it may be a method of what is embedded
			used[typeName(f.Signature().Recv().Type())+"."+f.Name()] = true
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if literal, ok := n.(*ast.CompositeLit); ok {
				for _, e := range literal.Elts {
					if field, ok := e.(*ast.KeyValueExpr); ok {
						used[fmt.Sprint(typeName(info.Types[literal].Type), ".", field.Key)] = true
					}
				}
			}
			return true
		})
	}
	return used
}

func typeName(of types.Type) string {
	if p, ok := of.(*types.Pointer); ok {
		of = p.Elem()
	}
	if n, ok := types.Unalias(of).(*types.Named); ok && n.Obj().Pkg() != nil {
		return prefix(n.Obj().Pkg().Name()) + n.Obj().Name()
	}
	return ""
}

// compiled imports what this test was compiled with.
func compiled(t *testing.T, fset *token.FileSet) types.Importer {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", fmt.Sprint("-race=", oneIn > 1), "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".")
	list.Stderr = t.Output()
	out, err := list.Output()
	require.NoError(t, err)
	files := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
}
