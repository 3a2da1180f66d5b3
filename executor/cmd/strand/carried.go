package main

import (
	"fmt"
	"iter"
	"strconv"
	"unicode/utf8"

	"github.com/strandjobs/strand/journal"
)

// failed is one failed attempt of a job.
type failed struct {
	Attempt int    `json:"attempt"`
	At      moment `json:"at"`
	Error   text   `json:"error"`
}

// failures are the last ones of a job, oldest first, of which last is the text of
// the newest.
func failures(h journal.History, last string) (list []failed) {
	for _, f := range h.Failures(last) {
		list = append(list, failed{f.Attempt, moment(f.At), text(f.Text)})
	}
	return list
}

// metadata is that of a payload in JSON; export has it without loss.
func metadata(m journal.Metadata) map[string]text {
	pairs := make(map[string]text)
	for key, value := range m.All() {
		if !utf8.ValidString(key) {
			key = strconv.QuoteToASCII(key) // or two keys could become one
		}
		pairs[key] = text(value)
	}
	return pairs
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

func (s *section) end() error {
	if s.t == nil {
		return nil
	}
	return s.t.end()
}

// history prints the failures of a job that is alive.
func (c *call) history(list []failed) error {
	s := &section{call: c, heading: "failures", titles: []string{"ATTEMPT", "AT", "ERROR"}}
	for _, f := range list {
		s.row(strconv.Itoa(f.Attempt), c.dueText(int64(f.At)), showPayload(f.Error, c.Bool("full")))
	}
	return s.end()
}

// histories prints the failures of payloads in the morgue.
func (c *call) histories(dead iter.Seq2[journal.Buried, error]) error {
	s := &section{call: c, heading: "their failures", titles: []string{"POSITION", "ATTEMPT", "AT", "ERROR"}}
	for b, err := range dead {
		if err != nil {
			return err
		}
		for _, f := range failures(b.History, b.Reason) {
			s.row(fmt.Sprint(b.Entry.Position), strconv.Itoa(f.Attempt), c.dueText(int64(f.At)), showPayload(f.Error, c.Bool("full")))
		}
	}
	return s.end()
}

// pairs prints the metadata of payloads.
func (c *call) pairs(heading string, entries iter.Seq2[*journal.Entry, error]) error {
	s := &section{call: c, heading: heading, titles: []string{"POSITION", "KEY", "VALUE"}}
	for e, err := range entries {
		if err != nil {
			return err
		}
		for key, value := range e.Metadata.All() {
			s.row(fmt.Sprint(e.Position), show([]byte(key)), showPayload([]byte(value), c.Bool("full")))
		}
	}
	return s.end()
}
