package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/strandjobs/strand/executor"
)

// event is what happens to an order.
type event struct {
	Kind  string `json:"kind"` // created, paid, shipped or cancelled
	Cents int    `json:"cents,omitempty"`
}

// accepted is an event as it waits.
type accepted struct {
	event
	// ID is the same however often the event comes, and no other's: as Job.Position is only within one journal. In one that
	// was restored from a copy, or begun anew, positions come again.
	ID string `json:"id"`
}

// mail is what a customer is told.
type mail struct {
	Order string
	Text  string
}

type service struct {
	x      *executor.Executor
	db     *store
	orders *executor.Queue[accepted]
	mails  *executor.Queue[mail]
	smtp   *executor.Limit
}

// newService registers what runs in the background.
func newService(x *executor.Executor, db *store) (s *service, err error) {
	s = &service{x: x, db: db}
	// The mail server takes a hundred a second, and ten at a time.
	if s.smtp, err = executor.NewLimit(x, "smtp", executor.LimitConfig{Concurrent: 10, Rate: 100}); err != nil {
		return nil, err
	}
	s.mails, err = executor.Handle(x, "mails", s.send, executor.QueueConfig[mail]{
		Timeout:    10 * time.Second,
		MaxRetries: 3,
		RetryIn:    func(n int) time.Duration { return time.Second << n },
		Conditions: executor.Conditions[mail]{Limits: []executor.LimitOf[mail]{{Limit: s.smtp}}},
	})
	if err != nil {
		return nil, err
	}
	s.orders, err = executor.Handle(x, "orders", s.apply, executor.QueueConfig[accepted]{
		Timeout: 10 * time.Second,
		RetryIn: func(n int) time.Duration { return min(100*time.Millisecond<<n, time.Hour) },
	})
	return s, err
}

// apply writes an event down. Events of one order come one after the other, in the order in which they were accepted,
// and each until this has returned nil; after a crash one may come again, with the same id.
func (s *service) apply(ctx context.Context, job executor.Job[accepted]) error {
	if job.Payload.ID == "" { // by hand, past receive
		return executor.Cancel(errors.New("the event has no id"))
	}
	err := s.db.apply(ctx, job.ID, job.Payload)
	if errors.Is(err, errImpossible) {
		return executor.Cancel(err) // to the morgue, for a person to look at; the order goes on without it
	}
	if err != nil || job.Payload.Kind != "shipped" {
		return err // another one is tried again
	}
	// In the commit of this job's success: once, however often it runs.
	return s.mails.FollowUp(job, "mail-"+job.ID, mail{Order: job.ID, Text: "is on its way"})
}

// send stands for a mail server that has bad days.
func (s *service) send(ctx context.Context, job executor.Job[mail]) error {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	h := fnv.New32a()
	fmt.Fprint(h, job.ID)
	switch n := h.Sum32(); {
	case n%499 == 0: // nobody has that address
		return executor.Cancel(fmt.Errorf("550 no such mailbox, for order %s", job.Payload.Order))
	case n%97 == 0 && job.Attempt == 1:
		return fmt.Errorf("421 try again later, for order %s", job.Payload.Order)
	case n%211 == 0: // fails until it is buried
		return fmt.Errorf("451 mailbox of order %s is locked", job.Payload.Order)
	}
	return nil
}
