package command

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/strandjobs/strand/executor/inspect"
)

// showKey shows a key of metadata. A process says one that is no UTF-8 in quotes.
func showKey(key string) string {
	if plain, err := strconv.Unquote(key); err == nil && !utf8.ValidString(plain) {
		return key
	}
	if !utf8.ValidString(key) {
		return strconv.QuoteToASCII(key)
	}
	return show([]byte(key))
}

// section is a table with a heading that comes with its first row.
type section struct {
	*call
	heading string
	titles  []string
	t       *table
}

func (s *section) row(cells ...string) {
	if s.t == nil {
		s.printf("\n%s:\n", s.heading)
		s.t = s.table(s.titles...)
	}
	s.t.row(cells...)
}

// history prints the failures of a job that is alive.
func (c *call) history(list []inspect.Failure) error {
	s := &section{call: c, heading: "failures", titles: []string{"ATTEMPT", "AT", "ERROR"}}
	for _, f := range list {
		s.row(strconv.Itoa(f.Attempt), c.dueText(f.At.UnixNano()), showPayload([]byte(f.Error), c.Bool("full")))
	}
	return s.t.end()
}

// histories prints the failures of payloads in the morgue.
func (c *call) histories(dead iter.Seq2[*grave, error]) error {
	s := &section{call: c, heading: "their failures", titles: []string{"POSITION", "ATTEMPT", "AT", "ERROR"}}
	for g, err := range dead {
		if err != nil {
			return err
		}
		for _, f := range g.Failures {
			s.row(fmt.Sprint(g.Position), strconv.Itoa(f.Attempt), c.dueText(f.At.UnixNano()), showPayload([]byte(f.Error), c.Bool("full")))
		}
	}
	return s.t.end()
}

// pairs prints the metadata of payloads.
func (c *call) pairs(heading string, payloads iter.Seq2[inspect.PayloadInfo, error]) error {
	s := &section{call: c, heading: heading, titles: []string{"POSITION", "KEY", "VALUE"}}
	for p, err := range payloads {
		if err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(p.Metadata)) {
			s.row(fmt.Sprint(p.Position), showKey(key), showPayload([]byte(p.Metadata[key]), c.Bool("full")))
		}
	}
	return s.t.end()
}
