package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/strandjobs/strand/journal"
)

// contents opens a journal and returns what waits in it or lies in its morgue.
func contents(dir string) (in found, err error) {
	waiting, dead, err := split(dir)
	for name, numbers := range dead {
		if waiting[name] == nil {
			waiting[name] = map[uint64]bool{}
		}
		maps.Copy(waiting[name], numbers)
	}
	return waiting, err
}

// split is contents with the morgue apart.
func split(dir string) (waiting, dead found, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	l, err := journal.Open(dir, journal.Config{})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	waiting, dead = found{}, found{}
	for queue, number := range l.Queues() {
		var e journal.Entry
		for _, ref := range slices.Concat(l.PendingPages(number)...) {
			if err := ref.Read(&e); err != nil {
				return nil, nil, err
			}
			if e.Kind == journal.KindEnqueued {
				err = errors.Join(err, waiting.add(queue, &e))
			}
		}
		for b, failed := range l.Morgue(number, 0) {
			if failed != nil {
				return nil, nil, failed
			}
			err = errors.Join(err, dead.add(queue, &b.Entry))
		}
	}
	return waiting, dead, err
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
