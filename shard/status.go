package shard

// Status is what a person wants to know about an id.
type Status struct {
	Known     bool // it has something to do; otherwise the other fields but Newest are zero
	Running   bool // handed to a worker; what follows is of the payloads that wait
	Parked    bool
	Paused    bool // by itself
	Halted    bool
	Due       int64 // Unix ns
	Retry     int   // −1 new, 0 failed once, …
	LastError string
	Payloads  int // that wait, or failed and wait to be retried

	Newest *float64 // the score of the newest version that was done, under MergeSupersede; nil: none is known

	Runs, Concurrency int // of the shard: what counts against its Config.Concurrency, and that
}

// Status describes an id.
func (c *looks) Status(id string) (s Status) {
	if ran := c.rested.byID[id].ran; ran.at != 0 {
		s.Newest = &ran.score
	}
	l := c.lanes.find([]byte(id))
	if l == nil {
		return s
	}
	held := c.held[id]
	s = Status{
		Known: true, Newest: s.Newest, Running: l.item() != nil, Parked: held&^HoldPause != 0, Paused: held&HoldPause != 0, Halted: l.halted,
		Due: l.due, Retry: l.retry(), Payloads: l.n(),
		Runs: len(c.runs) - c.exempt, Concurrency: c.cfg.Concurrency,
	}
	if p := l.past(); p != nil {
		s.LastError = p.err
		s.Payloads += len(p.held)
	}
	return s
}
