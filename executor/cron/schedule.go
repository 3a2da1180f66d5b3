package cron

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	parser "github.com/netresearch/go-cron"

	"github.com/strandjobs/strand/executor"
	"github.com/strandjobs/strand/executor/internal/guard"
)

// Missed says what becomes of ticks that could not be fired: because no process
// ran, none led, or the clock was set forward. A tick is missed when it is two
// minutes late, and when it was due before the first leader began.
type Missed uint8

const (
	// MissedSkip fires none of them. The default.
	MissedSkip Missed = iota
	// MissedOnce fires the newest of them, or none if a tick is due on time now.
	MissedOnce
	// MissedAll fires all of them, oldest first: the newest thousand, if there are more.
	MissedAll
)

// Overlap says what a tick does while the job of an earlier one is not over.
type Overlap uint8

const (
	// OverlapParallel gives each tick an id of its own, like "report@2026-11-21T04:00:00Z": jobs
	// run side by side, and one that fails delays no other. The default.
	OverlapParallel Overlap = iota
	// OverlapQueue gives all ticks one id, the name of the schedule: jobs run one after another, in
	// order. What waits runs together, and equal payloads merge, as the queue says.
	OverlapQueue
	// OverlapSkip is OverlapQueue, and a tick is dropped while the job of an
	// earlier one waits, runs or is to be retried.
	OverlapSkip
)

const (
	grace      = 2 * time.Minute // so that setting the clock forward by a minute loses nothing
	maxCatchUp = 1000
	maxName    = 256
)

// Schedule is what Add takes.
type Schedule[T any] struct {
	// Name is unique in its Cron, and stays the same from one start to the next: it
	// names the offsets in the journal. From 1 to 256 bytes.
	Name string

	// Spec says when it ticks: five fields (minute, hour, day of month, month, day of week) as in
	// crontab(5), @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually, or "@every 90s"
	// in whole seconds. A range that ends before it begins goes round, which crontab(5) refuses: 22-2
	// of the hours are five of them, and FRI-MON are four days. A schedule needs a tick within nine
	// years. "CRON_TZ=Europe/Berlin " before it names the time zone.
	//
	// It follows the time zone. Where the clock is put forward, the readings in the gap do not exist;
	// where it is put back, some exist twice:
	//
	//   - A schedule with given hours ("30 2 * * *") ticks once for a reading that exists twice,
	//     the first time, and once for all its readings in a gap, at the first instant after it.
	//   - A schedule with all hours ("*/15 * * * *", @hourly) is about time that passes: it ticks at
	//     every reading as it comes. So it ticks through a doubled hour twice, and does not notice a gap.
	//
	// @every ticks at the whole multiples of its duration since 1970-01-01 UTC, so that its ticks are
	// the same after every start and in every process.
	Spec string

	// Zone is the time zone, unless Spec names one. Default UTC.
	Zone *time.Location

	// Queue gets a job for each tick. Needed; it belongs to the executor of the Cron.
	Queue *executor.Queue[T]

	// Payload makes the payload of a tick; it is told when the tick was due. It is
	// called on a goroutine of the schedule, under no lock. Needed.
	Payload func(tick time.Time) T

	Missed  Missed  // default MissedSkip
	Overlap Overlap // default OverlapParallel
}

// schedule is a Schedule without its type parameter.
type schedule struct {
	name, spec string
	table      timetable
	missed     Missed
	overlap    Overlap
	prepare    func(s *schedule, tick time.Time, exited func(error)) (send, error) // asks for the payload
	pending    func(ctx context.Context, id string) (bool, error)

	// Guarded by group.mu.
	progress *progress
	removed  bool
	next     time.Time // the first tick after since
	since    time.Time
	last     time.Time // the newest tick that was enqueued
	lost     time.Time // the newest tick that was not
	err      error     // of the last tick
}

// send enqueues a payload.
type send func(ctx context.Context, id string, options ...executor.Option) (executor.Receipt, error)

func pauseMark(name string) string { return "cron/pause/" + name }

// Add adds a schedule to c. Whether it is paused, and how far its ticks have come, is taken from
// the journal. It returns [executor.ErrConfig], also for a name that is taken, [executor.ErrClosed],
// [executor.ErrContext], or an error of the journal; then it is not added.
func Add[T any](ctx context.Context, c *Cron, s Schedule[T]) error {
	switch {
	case c == nil:
		return fmt.Errorf("%w: no Cron; New makes one", executor.ErrConfig)
	case s.Name == "" || len(s.Name) > maxName:
		return fmt.Errorf("%w: the name of a schedule has %d bytes, it must have from 1 to %d", executor.ErrConfig, len(s.Name), maxName)
	case s.Queue == nil || s.Payload == nil:
		return fmt.Errorf("%w: %q needs a Queue and a Payload function", executor.ErrConfig, s.Name)
	case s.Queue.Executor() != c.x:
		return fmt.Errorf("%w: the queue of %q belongs to another executor", executor.ErrConfig, s.Name)
	case s.Missed > MissedAll || s.Overlap > OverlapSkip:
		return fmt.Errorf("%w: Missed is %d and Overlap %d for %q, neither may be above 2", executor.ErrConfig, s.Missed, s.Overlap, s.Name)
	}
	ctx, err := guard.Context(ctx)
	if err != nil {
		return err
	}
	table, err := parse(s.Spec, s.Zone)
	if err != nil {
		return fmt.Errorf("%w (%q)", err, s.Name)
	}
	return c.add(ctx, &schedule{
		name: s.Name, spec: s.Spec, table: table, missed: s.Missed, overlap: s.Overlap, pending: s.Queue.Pending,
		prepare: func(made *schedule, tick time.Time, exited func(error)) (send, error) {
			var payload T
			err := made.ask(exited, func() { payload = s.Payload(tick) })
			return func(ctx context.Context, id string, options ...executor.Option) (executor.Receipt, error) {
				return s.Queue.Enqueue(ctx, id, payload, options...)
			}, err
		},
	})
}

// ask calls the Payload function of a schedule. One that ends its goroutine can't be stopped: exited is told.
func (s *schedule) ask(exited func(error), payload func()) error {
	exits := true
	defer func() {
		if exits {
			exited(fmt.Errorf("cron: the payload function of %s ended its goroutine", s.name))
		}
	}()
	err := guard.Call(func() error { payload(); return nil })
	if exits = false; err != nil {
		err = fmt.Errorf("cron: the payload function of %s: %w", s.name, err)
	}
	return err
}

// nextTick returns the first tick that is not over. The caller holds group.mu.
func (s *schedule) nextTick() time.Time {
	if since := s.progress.handled; !since.Equal(s.since) || s.next.IsZero() {
		s.next, s.since = s.table.next(since), since
	}
	return s.next
}

// plan returns which of the ticks after handled are to be fired now, in order, and
// the newest that is not.
func (s *schedule) plan(handled, begun, now time.Time) (ticks []time.Time, lost time.Time) {
	onTime := slices.MaxFunc([]time.Time{now.Add(-grace), handled, begun}, time.Time.Compare) // later ones are
	if onTime.After(now) {                                                                    // the clock was set back
		onTime = now
	}
	ticks = s.table.newest(onTime, now, maxCatchUp)
	late := 0
	switch s.missed {
	case MissedOnce:
		late = max(1-len(ticks), 0)
	case MissedAll:
		late = max(maxCatchUp-len(ticks), 0)
	}
	missed := s.table.newest(handled, onTime, late+1)
	if len(missed) > late {
		lost, missed = missed[0], missed[1:]
	}
	return append(missed, ticks...), lost
}

// timetable says when a schedule ticks: in whole seconds.
type timetable struct {
	every    int64                // seconds; 0: by readings
	readings *parser.SpecSchedule // of a clock that is taken for UTC
	allHours bool
	zone     *time.Location
}

// syntax is that of crontab(5): five fields, and if both days are given, one of them is enough.
var syntax = parser.MustNewParser(parser.Minute | parser.Hour | parser.Dom | parser.Month | parser.Dow |
	parser.DowOrDom | parser.Descriptor).WithMaxSearchYears(maxYears)

// maxYears without a tick make a timetable one that never ticks. The 29th of
// February may be eight years away.
const maxYears = 9

// parse reads a Spec. It returns executor.ErrConfig, also for a schedule without a tick.
func parse(spec string, zone *time.Location) (timetable, error) {
	t := timetable{zone: cmp.Or(zone, time.UTC)}
	rest, err := t.cutZone(strings.TrimSpace(spec))
	if err != nil {
		return timetable{}, err
	}
	if every, found := strings.CutPrefix(rest, "@every "); found {
		t.every, err = parseEvery(strings.TrimSpace(every))
	} else {
		err = t.parseReadings(rest)
	}
	if err == nil && t.next(time.Now()).IsZero() {
		err = fmt.Errorf("it never ticks")
	}
	if err != nil {
		return timetable{}, fmt.Errorf("%w: schedule %q: %w", executor.ErrConfig, spec, err)
	}
	return t, nil
}

// cutZone takes the time zone off a spec.
func (t *timetable) cutZone(spec string) (rest string, err error) {
	named, found := strings.CutPrefix(strings.TrimPrefix(spec, "CRON_"), "TZ=")
	if !found {
		return spec, nil
	}
	name, rest, _ := strings.Cut(named, " ")
	if name == "" {
		return "", fmt.Errorf("%w: no time zone in %q", executor.ErrConfig, spec)
	}
	if t.zone, err = time.LoadLocation(name); err != nil {
		return "", fmt.Errorf("%w: time zone %q: %w", executor.ErrConfig, name, err)
	}
	return strings.TrimSpace(rest), nil
}

func parseEvery(text string) (seconds int64, err error) {
	d, err := time.ParseDuration(text)
	if err == nil && (d < time.Second || d%time.Second != 0) {
		err = fmt.Errorf("%v is not a positive number of whole seconds", d)
	}
	return int64(d / time.Second), err
}

func (t *timetable) parseReadings(spec string) error {
	if strings.HasPrefix(strings.TrimPrefix(spec, "CRON_"), "TZ=") {
		return fmt.Errorf("a second time zone")
	}
	schedule, err := syntax.Parse(spec)
	if err != nil {
		return err
	}
	readings, ok := schedule.(*parser.SpecSchedule)
	if !ok {
		return fmt.Errorf("not five fields and no name that is known")
	}
	readings.Location = time.UTC
	const all = 1<<24 - 1
	t.readings, t.allHours = readings, readings.Hour&all == all
	return nil
}

// next returns the first tick after a moment, in the time zone of the schedule; the
// zero time when there is none within nine years.
func (t timetable) next(after time.Time) time.Time {
	if t.every > 0 {
		s := after.Unix()
		since := (s%t.every + t.every) % t.every // before 1970, too
		return time.Unix(s-since+t.every, 0).In(t.zone)
	}
	if t.readings == nil {
		return time.Time{} // the zero timetable
	}
	// From one change of the clock to the next, readings and instants differ by a constant.
	for at := time.Unix(after.Unix()+1, 0).In(t.zone); ; {
		begin, end := at.ZoneBounds()
		for !end.IsZero() && !end.After(at) {
			end = end.Add(24 * time.Hour) // on the last day of a leap year it is said to be over
		}
		from := reading(at, offset(at))
		if !t.allHours && !begin.IsZero() {
			before := reading(begin, offset(begin.Add(-time.Second)))
			if at.Equal(begin) && t.first(before).Before(from) {
				return begin.In(t.zone) // a gap, and some of ours are in it
			}
			if before.After(from) {
				from = before // what exists twice was first read before the change
			}
		}
		next := t.first(from)
		if next.IsZero() {
			return time.Time{}
		}
		tick := next.Add(-offset(at))
		if end.IsZero() || tick.Before(end) {
			return tick.In(t.zone)
		}
		at = end.In(t.zone)
	}
}

// first returns the first matching reading, from one on. The zero time if there is none for years.
func (t timetable) first(from time.Time) time.Time { return t.readings.Next(from.Add(-time.Second)) }

// reading is what a clock with an offset shows at a moment, as if it were UTC.
func reading(at time.Time, offset time.Duration) time.Time { return at.UTC().Add(offset) }

func offset(at time.Time) time.Duration {
	_, seconds := at.Zone()
	return time.Duration(seconds) * time.Second
}

// newest returns the last ticks after a moment and up to another, at most n, oldest
// first. It looks at few more than it returns, however long the time.
func (t timetable) newest(after, until time.Time, n int) []time.Time {
	const longest = 50 * 365 * 24 * time.Hour
	for window := time.Minute; ; window *= 4 {
		from := until.Add(-window)
		whole := window > longest || !from.After(after)
		if whole {
			from = after
		}
		var ticks []time.Time
		for at := t.next(from); !at.IsZero() && !at.After(until); at = t.next(at) {
			ticks = append(ticks, at)
		}
		if whole || len(ticks) >= n {
			return ticks[max(0, len(ticks)-n):]
		}
	}
}
