package main

import (
	"errors"
	"fmt"

	"github.com/strandjobs/strand/journal"
)

// contents opens a journal and returns what waits in it or lies in its morgue.
func contents(dir string) (in found, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	l, err := journal.Open(dir, journal.Config{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	in = found{}
	for queue, number := range l.Queues() {
		var e journal.Entry
		for _, ref := range l.Pending(number) {
			if ref.Read(&e); e.Kind == journal.KindEnqueued {
				err = errors.Join(err, in.add(queue, &e))
			}
		}
		for b, failed := range l.Morgue(number) {
			if failed != nil {
				return nil, failed
			}
			err = errors.Join(err, in.add(queue, &b.Entry))
		}
	}
	return in, err
}

func (in found) add(queue string, e *journal.Entry) error {
	number, err := readPayload(e.Payload)
	if err != nil {
		return fmt.Errorf("payload at position %d of %s/%s: %w", e.Position, queue, e.ID, err)
	}
	name := queue + " " + string(e.ID)
	if in[name] == nil {
		in[name] = map[uint64]bool{}
	}
	in[name][number] = true
	return nil
}
