package command

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What no executor writes is not imported: the line is named, and the value.
func TestImportRefuses(t *testing.T) {
	const queue = `{"type":"queue","name":"q","number":1}`
	state := func(retry string) string {
		return `{"type":"state","queue":"q","id":"i","position":2,"due":"2001-02-03T04:05:06Z","retry":` + retry + `}`
	}
	payload := func(id, more string) string {
		return fmt.Sprintf(`{"type":"payload","queue":"q","id":%q,"position":1,"due":"2001-02-03T04:05:06Z","score":1,"payload":"p"%s}`, id, more)
	}
	for want, line := range map[string]string{
		"":                       payload("i", ""),
		"an empty id":            payload("", ""),
		`metadata "\xffa" makes`: payload("i", `,"metadata":{"base64":"/2E="}`),
		"retry 2147483646 is not between -1 and 2147483645": state("2147483646"),
		"retry -2 is not":         state("-2"),
		`history "nonsense" make`: strings.Replace(state("1"), `"retry"`, `"history":"nonsense","retry"`, 1),
	} {
		dir := filepath.Join(t.TempDir(), "new")
		lines := []string{`{"type":"export","version":3,"epoch":1,"next":9}`, queue, line, `{"type":"end","lines":3}`}
		out, errs, status := strand(t, strings.Join(lines, "\n"), "import", dir)
		if want == "" {
			require.Equal(t, fine, status, errs)
			continue
		}
		require.Equal(t, noClear, status, out)
		require.Contains(t, errs, "line 3 of the export: "+want)
		require.NoDirExists(t, dir)
	}
}

// A file without both meta pages is damaged, like one without another page, and every
// command says what to do.
func TestWithoutMetas(t *testing.T) {
	dir := damaged(t, office(t), func(b []byte) []byte { clear(b[:8192]); return b })
	untouched(t, dir)
	for _, command := range []string{"inspect", "jobs", "replay", "export", "morgue"} {
		_, errs, status := strand(t, "", command, dir)
		require.Equal(t, isHurt, status, errs)
		require.Contains(t, errs, "both meta pages")
		require.Contains(t, errs, "strand salvage")
	}
	must(t, "", "salvage", dir, filepath.Join(t.TempDir(), "saved"))
}
