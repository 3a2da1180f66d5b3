package cron

import (
	"fmt"
	"strings"
	"time"

	parser "github.com/netresearch/go-cron"
)

// Timetable says when a schedule ticks. Ticks are whole seconds.
//
// A schedule of wall clock readings follows its time zone. Where the clock is put
// forward, the readings in the gap do not exist; where it is put back, some exist
// twice:
//
//   - A schedule with given hours ("30 2 * * *") ticks once for a reading that
//     exists twice, the first time, and once for all its readings in a gap, at the
//     first instant after it.
//   - A schedule with all hours ("*/15 * * * *", @hourly) is about time that
//     passes: it ticks at every reading as it comes. So it ticks through a doubled
//     hour twice, and does not notice a gap.
//
// @every ticks at the whole multiples of its duration since 1970-01-01 UTC, so that
// its ticks are the same after every start and in every process.
type Timetable struct {
	every    int64                // seconds; 0: by readings
	readings *parser.SpecSchedule // of a clock that is taken for UTC
	allHours bool
	zone     *time.Location
}

// syntax is that of crontab(5): five fields, and if both days are given, one of
// them is enough.
var syntax = parser.MustNewParser(parser.Minute | parser.Hour | parser.Dom | parser.Month | parser.Dow |
	parser.DowOrDom | parser.Descriptor).WithMaxSearchYears(maxYears)

// maxYears without a tick make a timetable one that never ticks. The 29th of
// February may be eight years away.
const maxYears = 9

// Parse reads a schedule: five fields (minute, hour, day of month, month, day of
// week) as in crontab(5), @hourly, @daily, @midnight, @weekly, @monthly, @yearly,
// @annually, or "@every 90s" in whole seconds. A range that ends before it begins
// goes round, which crontab(5) refuses: 22-2 of the hours are five of them, and
// FRI-MON are four days. "CRON_TZ=Europe/Berlin " before it names the time zone;
// otherwise it is zone, and nil means UTC.
//
// It returns ErrConfig, also for a schedule without a tick.
func Parse(spec string, zone *time.Location) (Timetable, error) {
	t := Timetable{zone: zone}
	if zone == nil {
		t.zone = time.UTC
	}
	rest, err := t.cutZone(strings.TrimSpace(spec))
	if err != nil {
		return Timetable{}, err
	}
	if every, found := strings.CutPrefix(rest, "@every "); found {
		t.every, err = parseEvery(strings.TrimSpace(every))
	} else {
		err = t.parseReadings(rest)
	}
	if err == nil && t.Next(time.Now()).IsZero() {
		err = fmt.Errorf("it never ticks")
	}
	if err != nil {
		return Timetable{}, fmt.Errorf("%w: schedule %q: %w", ErrConfig, spec, err)
	}
	return t, nil
}

// cutZone takes the time zone off a spec.
func (t *Timetable) cutZone(spec string) (rest string, err error) {
	named, found := strings.CutPrefix(strings.TrimPrefix(spec, "CRON_"), "TZ=")
	if !found {
		return spec, nil
	}
	name, rest, _ := strings.Cut(named, " ")
	if name == "" {
		return "", fmt.Errorf("%w: no time zone in %q", ErrConfig, spec)
	}
	if t.zone, err = time.LoadLocation(name); err != nil {
		return "", fmt.Errorf("%w: time zone %q: %w", ErrConfig, name, err)
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

func (t *Timetable) parseReadings(spec string) error {
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

// Next returns the first tick after a moment, in the time zone of the schedule; the
// zero time when there is none within nine years.
func (t Timetable) Next(after time.Time) time.Time {
	if t.every > 0 {
		s := after.Unix()
		since := (s%t.every + t.every) % t.every // before 1970, too
		return time.Unix(s-since+t.every, 0).In(t.zone)
	}
	if t.readings == nil {
		return time.Time{} // the zero Timetable
	}
	// From one change of the clock to the next, readings and instants differ by a
	// constant.
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

// first returns the first matching reading, from one on. The zero time if there is
// none for years.
func (t Timetable) first(from time.Time) time.Time {
	return t.readings.Next(from.Add(-time.Second))
}

// reading is what a clock with an offset shows at a moment, as if it were UTC.
func reading(at time.Time, offset time.Duration) time.Time { return at.UTC().Add(offset) }

func offset(at time.Time) time.Duration {
	_, seconds := at.Zone()
	return time.Duration(seconds) * time.Second
}

// newest returns the last ticks after a moment and up to another, at most n, oldest
// first. It looks at few more than it returns, however long the time.
func (t Timetable) newest(after, until time.Time, n int) []time.Time {
	const longest = 50 * 365 * 24 * time.Hour
	for window := time.Minute; ; window *= 4 {
		from := until.Add(-window)
		whole := window > longest || !from.After(after)
		if whole {
			from = after
		}
		var ticks []time.Time
		for at := t.Next(from); !at.IsZero() && !at.After(until); at = t.Next(at) {
			ticks = append(ticks, at)
		}
		if whole || len(ticks) >= n {
			return ticks[max(0, len(ticks)-n):]
		}
	}
}
