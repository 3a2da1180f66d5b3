package tell

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor/events"
)

// Each kind of package events has a number: a kind without one could not be told.
func TestEachKindHasANumber(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../events/event.go", nil, 0)
	require.NoError(t, err)
	declared := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok {
			word, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			require.NotZero(t, numbers[events.Kind(word)], word)
			declared++
		}
		return true
	})
	require.Len(t, numbers, declared)
}
