//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/journal"
	"github.com/strandjobs/strand/journal/postgres/internal/pgtest"
)

// right is one that a role is given.
type right struct{ what, on string }

// rightsOf returns those that the documentation of the package lists for a role.
func rightsOf(t *testing.T, role string) (rights []right) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	commas := regexp.MustCompile(`, (?:[A-Z]|strand)`)
	split := func(s string) (parts []string) {
		for {
			at := commas.FindStringIndex(s)
			if at == nil {
				return append(parts, s)
			}
			parts, s = append(parts, s[:at[0]]), s[at[0]+2:]
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^//\tGRANT (.*) ON (.*) TO `+role+`;$`).FindAllStringSubmatch(string(text), -1) {
		for _, on := range split(m[2]) {
			for _, what := range split(m[1]) {
				rights = append(rights, right{what, strings.Replace(on, "strand", "{schema}", 1)})
			}
		}
	}
	require.NotEmpty(t, rights)
	return rights
}

// role makes one with some rights, and returns the URL for it.
func (c *nodes) role(s *pgtest.Server, rights []right) (url string) {
	c.t.Helper()
	name := fmt.Sprint("role_", schemas.Add(1))
	var sql strings.Builder
	sql.WriteString("CREATE ROLE " + name + " LOGIN")
	for _, r := range rights {
		sql.WriteString("; GRANT " + r.what + " ON " + r.on + " TO " + name)
	}
	s.Exec(c.t, in(c.schema, sql.String()))
	return strings.Replace(c.url, "postgres@", name+"@", 1)
}

// statements are all that a node makes, by their names, with arguments for which each goes
// all ways it can. Partition 0 has a row in the inbox, 7, and one that was taken.
var (
	nobody  = make([]byte, 16)
	tokens  = []string{"00000000-0000-0000-0000-000000000007", "00000000-0000-0000-0000-000000000008"}
	storing = map[string][]any{
		"commit":     {0, 0, 0, nobody, 1, nobody, []int64{5}, []int16{1, 1}, [][]byte{{1}, {2}}, [][]byte{{1}, nil}, []int64{1, 0}, []int64{7}},
		"commitWith": {0, 0, 0, nobody, 1, nobody, nil, nil, nil, nil, nil, nil, []int{0}, []string{"q"}, [][]byte{{1}}, tokens[:1]},
		"follow":     {[]int{0}, []string{"q"}, [][]byte{{1}}, tokens[:1]},
		"putPart":    {0, 1, 1, nobody}, "ask": {0, 0}, "tail": {0}, "scan": {0}, "read": {0, 1, 0, 1, 1},
		"get": {0, 1, nobody}, "values": {0, 1, nobody, 1}, "sides": {0},
	}
	leasing = map[string][]any{
		"renew": {tokens[0], "name", 1000, []int{0}, []int{1}}, "view": {[]int{1}}, "leave": {tokens[0]}, "acquire": {0, tokens[0], 1},
		"release": {0, tokens[0], 0}, "page": {0, 0, nil, []string{"q"}}, "unknown": {0, []string{}}, "split": {0, 0, 7, [][]byte{{1}, {2}}},
		"lock": {[][]byte{{1}}}, "alive": {}, "known": {[][]byte{{1}}}, "know": {[][]byte{{2}}, []string{"{}"}, []string{"infinity"}},
		"refuse": {0, 7, "why", 0}, "sweep": {}, "nodes": {}, "stats": {}, "held": {0},
		"hear": {0, 0, 7, tokens[0]}, "answer": {0, 0, []int64{7}, tokens[1:], []string{"{}"}},
	}
	calling = map[string][]any{"put": {[]int{0, 0}, []string{"q", "q"}, [][]byte{{1}, {2}}, tokens, "infinity"}, "withdraw": {tokens}, "answers": {tokens}, "recall": {tokens[0]}, "notify": {"c", []string{"h"}}}
	writing = map[string][]any{"insert": {0, "q", nobody}, "insertHint": {0, "q", nobody, "c", "h"}}
)

// missing calls statements, each in a transaction that is rolled back, and returns of what the
// role has not all rights, as the server says it.
func (c *nodes) missing(conn *pgx.Conn, statements texts, which ...map[string][]any) (of []string) {
	c.t.Helper()
	for _, calls := range which {
		for name, args := range calls {
			tx, err := conn.Begin(c.t.Context())
			require.NoError(c.t, err)
			_, err = tx.Exec(c.t.Context(), statements[name], append([]any{pgx.QueryExecModeSimpleProtocol}, args...)...)
			require.NoError(c.t, tx.Rollback(c.t.Context()))
			refused, _ := errors.AsType[*pgconn.PgError](err)
			switch {
			case refused != nil && refused.Code == "42501":
				of = append(of, refused.Message)
			default:
				require.NoError(c.t, err, name)
			}
		}
	}
	return of
}

// The rights that the documentation lists are enough for all statements of nodes, callers and
// writers, and each of them is needed: without it the server says of what it is.
func TestEachRightIsNeeded(t *testing.T) {
	third(t, 0)
	t.Parallel()
	s := pgtest.Start(t)
	c := newCluster(t, s.URL(), 1, time.Second)
	s.Exec(t, in(c.schema, `INSERT INTO {schema}.inbox (number, partition, queue, calls, token) OVERRIDING SYSTEM VALUE VALUES (7, 0, 'q', '', '`+tokens[0]+`');
		INSERT INTO {schema}.taken (token, answer) VALUES ('`+tokens[1]+`', '{"Epoch":0,"Partition":0}')`))
	settling := texts{"read": in(c.schema, settleRead), "write": in(c.schema, settleWrite)}
	settled := map[string][]any{"read": {}, "write": {[]int{1}, "name"}}
	node := c.node(c.url).texts
	for name := range node { // none was forgotten
		known := name == "channel"
		for _, calls := range []map[string][]any{storing, leasing, calling, writing} {
			known = known || calls[name] != nil
		}
		require.True(t, known, name)
	}
	for role, call := range map[string]func(*pgx.Conn) []string{
		"node": func(conn *pgx.Conn) []string {
			return slices.Concat(c.missing(conn, node, storing, leasing, calling), c.missing(conn, settling, settled))
		},
		"caller": func(conn *pgx.Conn) []string {
			return slices.Concat(c.missing(conn, node, calling), c.missing(conn, settling, settled))
		},
		"writer": func(conn *pgx.Conn) []string { return c.missing(conn, node, writing) },
		"reader": func(conn *pgx.Conn) []string {
			err := Look(t.Context(), conn.Config().ConnString(), c.config(), func(Stats, []*journal.View) error { return nil })
			if err == nil {
				return nil
			}
			return []string{err.Error()}
		},
	} {
		rights := rightsOf(t, role)
		require.Empty(t, call(connect(t, c.role(s, rights))), role)
		for i, r := range rights {
			missing := call(connect(t, c.role(s, slices.Delete(slices.Clone(rights), i, i+1))))
			require.NotEmpty(t, missing, "a %s does without %v", role, r)
			for _, text := range missing {
				object := r.on[strings.LastIndexAny(r.on, " .")+1:]
				if object == "{schema}" {
					object = c.schema
				}
				require.Contains(t, text, object, "%s %v", role, r)
			}
		}
	}
}

// With them a node, a program that only enqueues, and a transaction do their work; what is
// missing is in the error of who needs it.
func TestRolesWithTheirRights(t *testing.T) {
	third(t, 1)
	t.Parallel()
	s := pgtest.Start(t)
	c := newCluster(t, s.URL(), 4, time.Second)
	var log lockedText
	n, caller := c.start(c.role(s, rightsOf(t, "node"))), c.node(c.role(s, rightsOf(t, "caller")), func(cfg *Config) { cfg.Executor.Logger = log.logger() })
	c.serving(n)
	writer := connect(t, c.role(s, rightsOf(t, "writer")))
	want := make(map[string]int)
	for i := range 60 {
		id := fmt.Sprint("id-", i%10)
		want[id]++
		switch i / 10 % 3 {
		case 0:
			_, err := n.q.Enqueue(t.Context(), id, want[id])
			require.NoError(t, err)
		case 1:
			_, err := caller.q.Enqueue(t.Context(), id, want[id])
			require.NoError(t, err)
		default:
			require.NoError(t, pgx.BeginFunc(t.Context(), writer, func(tx pgx.Tx) error { return EnqueueTx(t.Context(), tx, caller.q, id, want[id]) }))
		}
	}
	c.await(want)
	require.NoError(t, caller.q.Wait(t.Context(), caller.put(t, "later", 1, executor.In(300*time.Millisecond))))
	require.NoError(t, n.front.Stop(t.Context()))

	without := func(role string, what, on string) string {
		return c.role(s, slices.DeleteFunc(rightsOf(t, role), func(r right) bool { return r.what == what && r.on == on }))
	}
	for on, says := range map[string]string{"SCHEMA {schema}": "permission denied for schema " + c.schema, "{schema}.version": "permission denied for table version"} {
		what := map[bool]string{true: "USAGE", false: "SELECT"}[on == "SCHEMA {schema}"]
		for _, role := range []string{"node", "caller"} {
			_, err := Open(t.Context(), without(role, what, on), c.config())
			require.ErrorContains(t, err, says)
		}
	}
	poor := c.node(without("caller", "INSERT", "{schema}.inbox"))
	_, err := poor.q.Enqueue(t.Context(), "a", 1)
	require.ErrorContains(t, err, "permission denied for table inbox")
	_, err = poor.Stats(t.Context())
	require.ErrorContains(t, err, "permission denied for table node")
	tx, err := connect(t, without("writer", "INSERT", "{schema}.inbox")).Begin(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, EnqueueTx(t.Context(), tx, caller.q, "a", 1), "permission denied for table inbox")
	for what, on := range map[string]string{"INSERT": "{schema}.block", "UPDATE": "{schema}.lease", "DELETE": "{schema}.inbox"} {
		poor := c.start(without("node", what, on))
		_, err := caller.q.Enqueue(t.Context(), "b", 1)
		require.NoError(t, err)
		table := on[strings.Index(on, ".")+1:]
		require.Eventually(t, func() bool {
			return poor.front.Err() != nil && strings.Contains(poor.front.Err().Error(), "permission denied for table "+table)
		},
			time.Minute, 5*time.Millisecond, table)
		ended, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_ = poor.front.Stop(ended)
		cancel()
	}
	require.NoError(t, caller.front.Stop(t.Context()))
	require.Empty(t, log.lines("="), "it was no candidate, and has nothing to leave")
}
