// Package quota divides what a limit allows among the processes of a cluster. It is plain data: no
// clock, no goroutine, no lock. For each key of a limit all processes have one [Row], which they read
// and change in turns, each for itself.
//
//	jobs ──▶ limit.Table ──ask──▶ Row.Agree ──answer──▶ permits, starts ──▶ jobs
//
// # What is promised
//
//   - The permits of all processes that live are no more than Concurrent, if each holds no more than
//     it was given, and begins no job above that.
//   - Each process that wants permits has its share of them: as many as it wants, or as the others
//     have that want more. Who has one more, or any, where they don't divide is decided by lot, anew
//     each [turn], and for all keys alike: so a job that needs several has them all in the turn of
//     its process.
//   - No half-open window as long as Per + [Grace] has the times of more than Rate + Burst − 1 starts,
//     by the formula of package limit. A process begins no job before its time, and none later than
//     Grace after it, unless the answer took longer: so no window as long as Per sees more. The
//     price is a pace that is slower by Grace in Per.
//   - A row that says nothing is none.
//
// # What is not
//
// A start that was not used is lost, unless it was the last one that was given, and its return is heard of.
// Which process gets the next one is a matter of who asks. While processes differ in the law of a key, as in a deploy,
// the fastest one counts. Census (goroutines, timers): none.
package quota

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"time"
)

const (
	// Grace is how long after its time a start may be used.
	Grace = 100 * time.Millisecond

	turn   = int64(time.Second)            // of a process
	retry  = int64(50 * time.Millisecond)  // for permits that others have
	ahead  = int64(200 * time.Millisecond) // how long before their times starts are given
	starts = 1000                          // at a time, at most
)

// Row is what all processes know of a key. Times are those of their common clock.
type Row struct {
	Next   int64   `json:"next,omitempty"`   // the pace, as in package limit
	Paused int64   `json:"paused,omitempty"` // until then
	Said   int64   `json:"said,omitempty"`   // when somebody has last said so
	Shares []Share `json:"shares,omitempty"` // whose turn it is first
}

// Share is that of a process.
type Share struct {
	Process string `json:"process"`
	Permits int    `json:"permits"`
	Wants   int    `json:"wants"`
}

// Ask is what a process wants of a key.
type Ask struct {
	Concurrent      int   // of the limit; 0: any number
	Interval, Ahead int64 // of its pace; 0: none

	Holds  int // permits that it has still
	Wants  int // jobs that run, or wait for one
	Starts int // of jobs that wait, beside those it was given
	Uses   int // permits that jobs have, or will have at the starts that it was given
	Unused int // of the last ones that it was given, which were to begin before After
	After  int64
	Pauses Pause
}

// Pause is one that a process knows, and others don't.
type Pause struct {
	New   bool
	For   int64 // from now; not above 0: it has ended, or is over
	Age   int64 // how long ago it was said: what was said later counts
	Least bool  // a longer one stays
}

// Answer is what it gets. Times are from now.
type Answer struct {
	Permits int
	Share   int     // what it has of permits while others want more; it gives back the rest when it can
	Anew    int64   // when shares are others; 0: there is enough for all
	Starts  []int64 // times of jobs
	After   int64   // what tells whether anybody has been given one since
	Paused  int64
	Retry   int64 // when to ask again for what it did not get
}

// Agree answers a process, and forgets those that don't live.
func (r *Row) Agree(now int64, self string, lives func(process string) bool, a Ask) (to Answer) {
	r.Said = min(r.Said, now) // or the clock was set back, and nothing would be news
	if p := a.Pauses; p.New && now-p.Age >= r.Said {
		if r.Said = now - p.Age; !p.Least || r.Paused < now+p.For {
			r.Paused = now + p.For
		}
	}
	if to.Paused = max(r.Paused-now, 0); to.Paused == 0 {
		r.Paused = 0 // nor is what is over anything then
	}
	r.Shares = slices.DeleteFunc(r.Shares, func(s Share) bool { return s.Process != self && !lives(s.Process) })
	r.permit(now, self, a, &to)
	if a.Concurrent > 0 { // a start without a permit would be lost
		a.Starts = min(a.Starts, to.Permits-a.Uses)
	}
	if a.Interval > 0 {
		r.start(now, a, &to)
	}
	return to
}

// permit gives permits.
func (r *Row) permit(now int64, self string, a Ask, to *Answer) {
	is := func(s Share) bool { return s.Process == self }
	if a.Concurrent == 0 || a.Wants == 0 && a.Holds == 0 {
		r.Shares = slices.DeleteFunc(r.Shares, is)
		return
	}
	i := slices.IndexFunc(r.Shares, is)
	if i < 0 {
		i, a.Holds = len(r.Shares), 0 // what it held is others': it was taken for dead
		r.Shares = append(r.Shares, Share{Process: self})
	}
	r.Shares[i].Permits, r.Shares[i].Wants = a.Holds, min(a.Wants, a.Concurrent)
	free, wanted := a.Concurrent+a.Holds, 0
	for _, s := range r.Shares {
		free -= s.Permits
		wanted += s.Wants
	}
	if wanted > a.Concurrent { // or the order is nothing that counts
		to.Anew = turn - now%turn
		drawn := func(s Share) string { // the lowest one is first
			sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(s.Process), uint64(now/turn)))
			return string(sum[:])
		}
		slices.SortFunc(r.Shares, func(a, b Share) int { return cmp.Compare(drawn(a), drawn(b)) })
		i = slices.IndexFunc(r.Shares, is)
	}
	to.Share = r.divide(a.Concurrent)[self]
	to.Permits = max(a.Holds, min(to.Share, free))
	r.Shares[i].Permits = to.Permits
	if to.Permits < r.Shares[i].Wants {
		to.Retry = retry
	}
}

// divide returns the shares of all.
func (r *Row) divide(permits int) map[string]int {
	of := make(map[string]int, len(r.Shares))
	short := slices.DeleteFunc(slices.Clone(r.Shares), func(s Share) bool { return s.Wants == 0 })
	for permits > 0 && len(short) > 0 {
		each := max(permits/len(short), 1)
		short = slices.DeleteFunc(short, func(s Share) bool {
			more := min(each, s.Wants-of[s.Process], permits)
			of[s.Process] += more
			permits -= more
			return of[s.Process] == s.Wants
		})
	}
	return of
}

// start gives starts of the near future.
func (r *Row) start(now int64, a Ask, to *Answer) {
	if a.Unused > 0 && r.Next == a.After { // as if they had not been given
		r.Next -= int64(a.Unused) * a.Interval
	}
	// No later than where a start that is given now would leave it: another law, or a clock that was ahead, did.
	r.Next = min(r.Next, now+ahead+a.Ahead+a.Interval)
	defer func() { to.After = r.Next }()
	for range min(a.Starts, starts) {
		at := max(now, r.Paused, r.Next-a.Ahead)
		if at > now+ahead {
			to.Retry = max(retry, at-now-ahead/2)
			return
		}
		r.Next = max(r.Next, at) + a.Interval
		to.Starts = append(to.Starts, at-now)
	}
}

// Stored is a row as it is kept; without a State there is none.
type Stored struct {
	State []byte    // text
	Until time.Time // it may be forgotten then, if it has not changed
}

// stays is how long a row of processes is kept, which ask anew before that.
const stays = 3 * time.Hour

// Read reads a row.
func (s Stored) Read() (r Row, err error) {
	if len(s.State) > 0 {
		err = json.Unmarshal(s.State, &r)
	}
	return r, err
}

// Stored returns the row as it is to be kept.
func (r *Row) Stored(now time.Time) Stored {
	until := time.Unix(0, max(r.Next, r.Paused))
	if len(r.Shares) > 0 {
		until = now.Add(stays)
	} else if !until.After(now) {
		return Stored{}
	}
	state, _ := json.Marshal(r) // numbers and names can be written
	return Stored{State: state, Until: until}
}

// Processes are those of a cluster.
type Processes struct {
	Self string // tells this one from others
	Rows Rows
}

// Rows lets change see the rows of keys as all processes know them, and replaces them by what it
// returns, for all or none; it is called again after a failure that left them as they were. now is
// by one clock for all processes, lives says which of them may run jobs.
type Rows func(ctx context.Context, keys []string, change func(now time.Time, lives func(process string) bool, rows []Stored) ([]Stored, error)) error
