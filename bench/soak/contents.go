package main

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/strandjobs/strand/journal"
)

// contents opens a journal and returns what waits in it or lies in its morgue.
func contents(dir string) (in found, err error) {
	waiting, dead, err := split(dir)
	return waiting.with(dead), err
}

// with has all of another found, too.
func (in found) with(more found) found {
	for name, numbers := range more {
		if in[name] == nil {
			in[name] = map[uint64]bool{}
		}
		maps.Copy(in[name], numbers)
	}
	return in
}

// split is contents with the morgue apart.
func split(dir string) (waiting, dead found, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	l, err := journal.Open(dir, journal.Config{WALBytes: smallWAL})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	return gather(l.Queues(), l.PendingPages, func(queue uint32) iter.Seq2[journal.Buried, error] { return l.Morgue(queue, 0) })
}

// view is contents of a journal that is not opened for that.
func view(dir string) (in found, err error) {
	v, err := journal.OpenView(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	waiting, dead, err := gather(v.Queues(), v.PendingPages, func(queue uint32) iter.Seq2[journal.Buried, error] { return v.Morgue(queue) })
	return waiting.with(dead), err
}

func gather(queues map[string]uint32, pages func(uint32) [][]journal.Ref, morgue func(uint32) iter.Seq2[journal.Buried, error]) (waiting, dead found, err error) {
	waiting, dead = found{}, found{}
	for queue, number := range queues {
		var e journal.Entry
		for _, ref := range slices.Concat(pages(number)...) {
			if err := ref.Read(&e); err != nil {
				return nil, nil, err
			}
			if e.Kind == journal.KindEnqueued {
				err = errors.Join(err, waiting.add(queue, &e))
			}
		}
		for b, failed := range morgue(number) {
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
