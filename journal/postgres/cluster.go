package postgres

import (
	_ "embed"
	"fmt"
	"hash/fnv"
	"strings"
	"time"
	"unicode/utf8"
)

//go:embed statements.sql
var statementsSQL string

// texts are statements by their names, with that of the schema in them, and its channel.
type texts map[string]string

// textsFor returns them for a schema that was made at that time, with so many partitions: who does not know does
// without those of callers, and without view and renew.
func textsFor(schema string, made time.Time, partitions int) texts {
	at := "timestamptz '" + made.Format("2006-01-02 15:04:05.999999-07:00") + "'"
	same := fmt.Sprintf("(made = %s AND version = %d AND division = ", at, schemaVersion)
	words := strings.NewReplacer("{written}", fmt.Sprintf("{schema}.same(%s, %d, %d)", at, partitions, schemaVersion),
		"{same}", same+"$1)", "{same5}", same+"$5)", "{longest}", "interval '61 minutes'", "{end}", "(SELECT * FROM {schema}.tail WHERE partition = $1 ORDER BY number DESC LIMIT 1)")
	all := texts{"channel": channelOf(schema)}
	for _, statement := range strings.Split(statementsSQL, "\n\n-- ")[1:] {
		head, text, _ := strings.Cut(statement, "\n")
		name, _, _ := strings.Cut(head, ":")
		all[name] = in(schema, words.Replace(text))
	}
	return all
}

// channelOf is what the nodes of a schema listen on. The name of a schema may be as long as
// a name can be.
func channelOf(schema string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(schema)) // does not fail
	return fmt.Sprintf("strand_%016x", h.Sum64())
}

// validText reports whether the server can have s in a text.
func validText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }
