package executor_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const proofs = "../bench/PROOFS.md"

var (
	// strong words make a sentence a promise, or a row has to say why it is none.
	strong    = regexp.MustCompile(`(?i)\b(never|always|nothing|nobody|at once)\b`)
	fenced    = regexp.MustCompile("(?s)```.*?```")
	paragraph = regexp.MustCompile(`\n(\s*\n|\s*- |\s*\d+\. |\||\t)`)
	endOfOne  = regexp.MustCompile(`[.:;!?] `)
)

// proof is a row of the table: words of a sentence, and who notices when it is not
// true any more.
type proof struct{ place, words, tests string }

// TestStrongSentencesHaveProofs: each sentence with a strong word, of README, of a
// package comment or of what is said about an exported identifier, has a row, and
// each row is about a sentence that is there.
func TestStrongSentencesHaveProofs(t *testing.T) {
	said := map[string][]string{"README.md": strongOnes(fenced.ReplaceAllString(readme(t), ""))}
	for _, room := range []string{"actor", "shard", "journal", "lock", "executor", "executor/cron", "executor/executortest", "executor/dashboard"} {
		for _, comment := range exportedComments(t, room) {
			said[room] = append(said[room], strongOnes(comment)...)
		}
	}
	used := map[string]bool{}
	for _, p := range proofTable(t) {
		meant := slices.DeleteFunc(slices.Clone(said[p.place]), func(s string) bool { return !strings.Contains(s, p.words) })
		for _, s := range meant {
			used[p.place+"\n"+s] = true
		}
		slices.Sort(meant)
		assert.NotEmpty(t, meant, "%s: %s does not say so (any more): %s", proofs, p.place, p.words)
		assert.LessOrEqual(t, len(slices.Compact(meant)), 1, "%s: %s says so more than once: %s", proofs, p.place, p.words)
	}
	for place, sentences := range said {
		require.NotEmpty(t, sentences, place)
		for _, s := range sentences {
			assert.True(t, used[place+"\n"+s], "%s: no test is named in %s for: %s", place, proofs, s)
		}
	}
}

func TestProofsAreTestsThatThereAre(t *testing.T) {
	there := map[string][]string{} // by directory
	for _, p := range proofTable(t) {
		if strings.HasPrefix(p.tests, "no promise: ") {
			continue
		}
		for test := range strings.SplitSeq(p.tests, ", ") {
			room, name, found := strings.Cut(strings.Trim(test, "`"), " ")
			require.True(t, found, "%s: want a directory and a test: %s", p.words, test)
			if room == "bench/soak" {
				text, err := os.ReadFile("../bench/soak/doc.go")
				require.NoError(t, err)
				assert.Contains(t, string(text), "//   - "+name+":", p.words)
				continue
			}
			if there[room] == nil {
				there[room] = strings.Fields(testsIn(t, filepath.Join("..", room)))
			}
			assert.True(t, slices.Contains(there[room], name), "%s: %s has no %s", p.words, room, name)
		}
	}
}

// strongOnes returns the sentences of a text that have a strong word.
func strongOnes(text string) (all []string) {
	for _, part := range paragraph.Split(text, -1) {
		for _, s := range endOfOne.Split(strings.Join(strings.Fields(part), " "), -1) {
			if strong.MatchString(s) {
				all = append(all, strings.TrimSpace(s))
			}
		}
	}
	return all
}

// exportedComments returns what go doc -all shows of a room: the package comment,
// and those of all that is exported, down to fields and the methods of interfaces.
func exportedComments(t *testing.T, room string) (all []string) {
	t.Helper()
	p := docOf(t, filepath.Join("..", room))
	values, funcs := slices.Concat(p.Consts, p.Vars), p.Funcs
	all = append(all, p.Doc)
	types := p.Types
	dirs, err := filepath.Glob(filepath.Join("..", room, "internal", "*"))
	require.NoError(t, err)
	for _, dir := range dirs { // of what is inside, the types that the room gives its name to
		types = append(types, slices.DeleteFunc(docOf(t, dir).Types, func(inside *doc.Type) bool {
			return !slices.ContainsFunc(p.Types, func(alias *doc.Type) bool { return standsFor(alias, inside.Name) })
		})...)
	}
	for _, typ := range types {
		all = append(all, typ.Doc)
		all = append(all, commentsIn(typ.Decl)...)
		values = slices.Concat(values, typ.Consts, typ.Vars)
		funcs = slices.Concat(funcs, typ.Funcs, typ.Methods)
	}
	for _, v := range values {
		all = append(all, v.Doc)
		all = append(all, commentsIn(v.Decl)...)
	}
	for _, f := range funcs {
		all = append(all, f.Doc)
	}
	return all
}

// standsFor reports whether a type is an alias of one of this name in another package.
func standsFor(alias *doc.Type, name string) bool {
	of, ok := alias.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.SelectorExpr)
	return ok && of.Sel.Name == name
}

// docOf reads the comments of the package in a directory.
func docOf(t *testing.T, dir string) *doc.Package {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var files []*ast.File
	set := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		require.NoError(t, err)
		files = append(files, file)
	}
	p, err := doc.NewFromFiles(set, files, dir)
	require.NoError(t, err)
	return p
}

func commentsIn(decl ast.Node) (all []string) {
	ast.Inspect(decl, func(n ast.Node) bool {
		if c, is := n.(*ast.CommentGroup); is {
			all = append(all, c.Text())
		}
		return true
	})
	return all
}

func proofTable(t *testing.T) (all []proof) {
	t.Helper()
	text, err := os.ReadFile(proofs)
	require.NoError(t, err)
	place := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if title, is := strings.CutPrefix(line, "## "); is {
			place = title
		}
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if strings.HasPrefix(line, "| ") && len(cells) == 2 && cells[0] != "sentence" {
			all = append(all, proof{place, cells[0], cells[1]})
		}
	}
	require.NotEmpty(t, all, proofs)
	return all
}
